package state

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

// encodeAll takes a whole snapshot and returns copies of its segments.
func encodeAll(t testing.TB, s *Store, e messages.Epoch) []epochs.Segment {
	t.Helper()
	var segs []epochs.Segment
	s.Freeze(e)
	done, err := s.Encode(nil, func(seg epochs.Segment) error {
		data := slices.Clone(seg.Data)
		s.Release(seg.Data)
		seg.Data = data
		segs = append(segs, seg)
		return nil
	})
	if !done || err != nil {
		t.Fatalf("encode: done %v, error %v", done, err)
	}
	return segs
}

func intHash(i int64) uint64 {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], uint64(i))
	return xxh3.Hash(b[:])
}

func TestValuesSurviveGrowthAndCompaction(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	s := newStore(t, Config{UID: "op", Values: 2})
	type k struct {
		pane int64
		key  string
	}
	want := map[k][2][]byte{}
	var chain []epochs.Segment
	for i := range 60_000 {
		key := fmt.Appendf(nil, "%d", r.IntN(300))
		h := xxh3.Hash(key) & (1<<57 - 1) // two groups
		at := k{int64(r.IntN(3)), string(key)}
		e, _ := s.Upsert(h, at.pane, key)
		v := want[at]
		n := r.IntN(2)
		add := bytes.Repeat([]byte{byte(i)}, r.IntN(200))
		switch p := r.IntN(100); {
		case p < 50:
			s.AppendValue(e, n, add)
			v[n] = append(slices.Clone(v[n]), add...)
		case p < 90:
			s.SetValue(e, n, add)
			v[n] = add
		case p < 95: // a value from inside the store
			s.SetValue(e, n, e.Value(1-n))
			v[n] = v[1-n]
		case p < 97:
			s.AppendValue(e, n, e.Value(n))
			v[n] = append(slices.Clone(v[n]), v[n]...)
			if len(v[n]) > 100_000 {
				s.SetValue(e, n, nil)
				v[n] = nil
			}
		default:
			s.Delete(e)
			delete(want, at)
			continue
		}
		want[at] = v
		if i%5000 == 0 {
			chain = append(chain, encodeAll(t, s, messages.Epoch(i+1))...)
		}
		if i%20011 == 0 {
			s.DropPane(1)
			for at := range want {
				if at.pane == 1 {
					delete(want, at)
				}
			}
		}
	}
	chain = append(chain, encodeAll(t, s, 100_000)...)
	restored := newStore(t, Config{UID: "op", Values: 2})
	for _, seg := range chain {
		if err := restored.Restore(seg); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := restored.Checksum(), s.Checksum(); got != want {
		t.Errorf("restored checksum %x, want %x", got, want)
	}
	if got := s.Rows(); got != int64(len(want)) {
		t.Errorf("%d rows, want %d", got, len(want))
	}
	payload := 0
	for at, v := range want {
		e, ok := s.Find(xxh3.HashString(at.key)&(1<<57-1), at.pane, []byte(at.key))
		if !ok || !bytes.Equal(e.Value(0), v[0]) || !bytes.Equal(e.Value(1), v[1]) {
			t.Fatalf("values of %v differ", at)
		}
		payload += len(v[0]) + len(v[1])
	}
	if got, want := s.bytes, accounted(s); got != want {
		t.Errorf("the store accounts for %d bytes, its tables have %d", got, want)
	}
	if got := s.bytes; got > int64(4*payload) {
		t.Errorf("%d bytes are held for %d bytes of values; garbage is not collected", got, payload)
	}
}

func TestPanesAreOrderedAndCounted(t *testing.T) {
	s := newStore(t, Config{IntKeys: true})
	if _, ok := s.MinPane(); ok {
		t.Error("an empty store has a smallest pane")
	}
	for _, pane := range []int64{30, -10, 20} {
		for i := range int64(1000) {
			s.UpsertInt(intHash(i), pane, i)
		}
	}
	if pane, ok := s.MinPane(); pane != -10 || !ok {
		t.Errorf("smallest pane %d, %v; want -10", pane, ok)
	}
	if pane, ok := s.NextPane(-9); pane != 20 || !ok {
		t.Errorf("next pane %d, %v; want 20", pane, ok)
	}
	if _, ok := s.NextPane(31); ok {
		t.Error("there is a pane behind the last one")
	}
	if got := s.PaneRows(20); got != 1000 {
		t.Errorf("pane 20 has %d rows, want 1000", got)
	}
	if got := s.DropPane(-10); got != 1000 {
		t.Errorf("dropped %d rows, want 1000", got)
	}
	seen := map[int64]bool{}
	c := s.Scan(20)
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		seen[e.IntKey()] = true
		s.Delete(e) // deleting the entry at hand does not disturb the cursor
	}
	if len(seen) != 1000 || s.PaneRows(20) != 0 || s.Rows() != 1000 {
		t.Errorf("met %d keys, %d and %d rows left; want 1000, 0 and 1000", len(seen), s.PaneRows(20), s.Rows())
	}
	s.Clear()
	if s.Rows() != 0 || s.bytes != 0 {
		t.Errorf("cleared store has %d rows, %d bytes", s.Rows(), s.bytes)
	}
}

func TestDroppingAPaneWritesOneTombstonePerGroup(t *testing.T) {
	s := newStore(t, Config{IntKeys: true, Words: 1})
	for i := range int64(50_000) {
		s.UpsertInt(intHash(i), 1, i)
		s.UpsertInt(intHash(i), 2, i)
	}
	encodeAll(t, s, 1)
	s.DropPane(1)
	bytes := 0
	for _, seg := range encodeAll(t, s, 2) {
		if seg.Base {
			t.Fatalf("group %d wrote a base", seg.Group)
		}
		bytes += len(seg.Data)
	}
	if limit := 256 * (segmentHeader + 16); bytes > limit {
		t.Errorf("dropping a pane of 50,000 keys took %d bytes, want at most %d", bytes, limit)
	}
}

func TestAnEntryBornAndDeletedInOneEpochLeavesNoTrace(t *testing.T) {
	s := newStore(t, Config{IntKeys: true})
	for i := range int64(100) {
		s.UpsertInt(intHash(i), 0, i)
	}
	for i := range int64(100) {
		e, _ := s.FindInt(intHash(i), 0, i)
		s.Delete(e)
	}
	if segs := encodeAll(t, s, 1); len(segs) != 0 {
		t.Errorf("%d segments, want none", len(segs))
	}
	if _, ok := s.MinPane(); ok {
		t.Error("the empty pane is still there")
	}
}

func TestBasesStayWithinTheirBudget(t *testing.T) {
	s := newStore(t, Config{IntKeys: true, Words: 2})
	const keys = 200_000
	for i := range int64(keys) {
		s.UpsertInt(intHash(i), 0, i)
	}
	r := rand.New(rand.NewPCG(3, 4))
	encodeAll(t, s, 1)
	chain := map[uint16]int{}
	largest := 0
	for e := messages.Epoch(2); e < 60; e++ {
		for range 10_000 {
			i := r.Int64N(keys)
			x, _ := s.FindInt(intHash(i), 0, i)
			s.Mutate(x)[0]++
		}
		base, delta := 0, 0
		for _, seg := range encodeAll(t, s, e) {
			if seg.Base {
				base += len(seg.Data)
				chain[seg.Group] = 0
			} else {
				delta += len(seg.Data)
				chain[seg.Group] += len(seg.Data)
				largest = max(largest, chain[seg.Group])
			}
		}
		// Deltas of all groups would be 29 bytes per update and a header each.
		if limit := 2 * (10_000*29 + 256*(segmentHeader+2)); base > limit {
			t.Errorf("epoch %d wrote %d bytes of bases, the budget is %d", e, base, limit)
		}
	}
	full := (keys/256 + 100) * 29
	if largest > 3*full {
		t.Errorf("the deltas of a group grew to %d bytes; a base has about %d", largest, full)
	}
}

func TestBlobIsStoredWhenItChanged(t *testing.T) {
	s := newStore(t, Config{UID: "op"})
	s.SetBlob([]byte("one"))
	s.Freeze(1)
	s.SetBlob([]byte("two")) // does not change the frozen one
	var segs []epochs.Segment
	keep := func(seg epochs.Segment) error { segs = append(segs, seg); return nil }
	if _, err := s.Encode(nil, keep); err != nil {
		t.Fatal(err)
	}
	s.Freeze(2)
	if _, err := s.Encode(nil, keep); err != nil {
		t.Fatal(err)
	}
	s.Freeze(3)
	if _, err := s.Encode(nil, keep); err != nil {
		t.Fatal(err)
	}
	if len(segs) != 2 {
		t.Fatalf("%d segments, want 2", len(segs))
	}
	for i, want := range []string{"one", "two"} {
		r := newStore(t, Config{UID: "op", From: 100, To: 200})
		if err := r.Restore(segs[i]); err != nil {
			t.Fatal(err)
		}
		if got := string(r.Blob()); got != want || segs[i].Group != epochs.OperatorGroup {
			t.Errorf("blob %q in group %d, want %q", got, segs[i].Group, want)
		}
	}
}

func TestTimersMovedOftenDoNotPileUp(t *testing.T) {
	s := newStore(t, Config{IntKeys: true, Timers: true})
	for round := range int64(100) {
		for i := range int64(500) {
			e, _ := s.UpsertInt(intHash(i), 0, i)
			s.SetTimer(e, messages.EventTime(1_000_000-round)) // each earlier than the last
		}
	}
	if got := len(s.timers.items); got > 5000 {
		t.Errorf("%d timers are queued for 500 entries", got)
	}
	if got, want := s.NextTimer(), messages.EventTime(1_000_000-99); got != want {
		t.Errorf("next timer %d, want %d", got, want)
	}
	fired := 0
	for _, _, ok := s.Due(1_000_000); ok; _, _, ok = s.Due(1_000_000) {
		fired++
	}
	if fired != 500 || s.NextTimer() != messages.MaxEventTime {
		t.Errorf("%d timers fired, next %v; want 500 and none", fired, s.NextTimer())
	}
}

func TestEncodingErrorsAreReturned(t *testing.T) {
	s := newStore(t, Config{IntKeys: true})
	s.UpsertInt(intHash(1), 0, 1)
	s.Freeze(1)
	full := errors.New("disk full")
	if done, err := s.Encode(nil, func(epochs.Segment) error { return full }); done || !errors.Is(err, full) {
		t.Errorf("encode: %v, %v; want the error of emit", done, err)
	}
}

func TestBuffersMayBeReleasedFromAnywhere(t *testing.T) {
	s := newStore(t, Config{IntKeys: true, Words: 1})
	var wg sync.WaitGroup
	for e := messages.Epoch(1); e <= 20; e++ {
		for i := range int64(1000) {
			x, _ := s.UpsertInt(intHash(i), 0, i)
			s.Mutate(x)[0]++
		}
		s.Freeze(e)
		_, err := s.Encode(nil, func(seg epochs.Segment) error {
			wg.Go(func() {
				if checksumOf(seg.Data) != binary.LittleEndian.Uint32(seg.Data[24:]) {
					t.Error("a segment changed before it was released")
				}
				s.Release(seg.Data)
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	wg.Wait()
}

func TestSegmentsThatDoNotFitAreDamage(t *testing.T) {
	s := newStore(t, Config{UID: "op", IntKeys: true, Words: 1})
	for i := range int64(2000) {
		s.UpsertInt(intHash(i), 0, i)
	}
	base := encodeAll(t, s, 1)
	for i := range int64(500) {
		e, _ := s.FindInt(intHash(i), 0, i)
		s.Mutate(e)
	}
	delta := encodeAll(t, s, 2)
	flip := func(seg epochs.Segment, at int) epochs.Segment {
		seg.Data = slices.Clone(seg.Data)
		seg.Data[at] ^= 0x10
		return seg
	}
	cases := map[string][]epochs.Segment{
		"a flipped bit in the body":    {flip(base[0], len(base[0].Data)-1)},
		"a flipped bit in the header":  {flip(base[0], 9)},
		"nothing at all":               {{SegmentID: base[0].SegmentID, Base: true}},
		"a truncated body":             {{SegmentID: base[0].SegmentID, Base: true, Data: base[0].Data[:100]}},
		"a delta without a base":       {delta[0]},
		"a segment that comes twice":   {base[0], base[0]},
		"a base declared as a delta":   {{SegmentID: base[0].SegmentID, Data: base[0].Data}},
		"a segment of another group":   {{SegmentID: base[1].SegmentID, Base: true, Data: base[0].Data}},
		"a segment of another version": {flip(base[0], 0)},
	}
	for name, segs := range cases {
		t.Run(name, func(t *testing.T) {
			r := newStore(t, Config{UID: "op", IntKeys: true, Words: 1})
			var err error
			for _, seg := range segs {
				err = r.Restore(seg)
			}
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Errorf("error %v, want one that is ErrDamaged", err)
			}
		})
	}
	other := newStore(t, Config{UID: "op", IntKeys: true, Words: 2})
	if err := other.Restore(base[0]); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("records of another shape: %v", err)
	}
}

// FuzzRestore looks for panics, for stores that change when they are saved again,
// and for allocations that the input does not pay for: an entry in a pane of its own
// takes 20 bytes, and the table of a pane 1,500.
func FuzzRestore(f *testing.F) {
	for _, ints := range []bool{true, false} {
		s := newStore(f, config(ints, 0, 0))
		for i := range 20 {
			key := keyBytes(i % 7)
			h := xxh3.Hash(key) & (1<<56 - 1)
			var e Entry
			if ints {
				e, _ = s.UpsertInt(h, int64(i%2), int64(i%7))
			} else {
				e, _ = s.Upsert(h, int64(i%2), key)
			}
			s.SetValue(e, i%2, key)
			s.SetTimer(e, messages.EventTime(i))
		}
		for _, seg := range encodeAll(f, s, 1) {
			f.Add(seg.Data, ints)
		}
		c := s.Scan(1)
		for e, ok := c.Next(); ok; e, ok = c.Next() {
			s.Delete(e)
		}
		s.DropPane(0)
		for _, seg := range encodeAll(f, s, 2) {
			f.Add(seg.Data, ints)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, ints bool) {
		seg := epochs.Segment{SegmentID: epochs.SegmentID{Operator: "op", Epoch: 2}, Data: slices.Clone(data)}
		if len(data) >= segmentHeader { // let it pass the checks that only chance could
			h := seg.Data
			h[0], h[2] = segmentVersion, newStore(t, config(ints, 0, 0)).shape.flags()
			binary.LittleEndian.PutUint64(h[8:], 2)
			binary.LittleEndian.PutUint32(h[20:], uint32(len(h)-segmentHeader))
			binary.LittleEndian.PutUint32(h[24:], checksumOf(h))
			seg.Base = h[1] != kindDelta
		}
		s := newStore(t, config(ints, 0, 0))
		var err error
		alloctest.Within(t, 256, len(data), func() { err = s.Restore(seg) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Fatalf("error %v is not ErrDamaged", err)
			}
			return
		}
		// What was accepted must be a sound store: it can be saved and restored.
		sum := s.Checksum()
		c := s.ScanAll()
		for e, ok := c.Next(); ok; e, ok = c.Next() {
			s.Mutate(e)
		}
		again := newStore(t, config(ints, 0, 0))
		again.SetBlob(s.Blob())
		for _, seg := range encodeAll(t, s, 3) {
			seg.Base = true
			seg.Data[1] = kindBase
			binary.LittleEndian.PutUint32(seg.Data[24:], checksumOf(seg.Data))
			if err := again.Restore(seg); err != nil {
				t.Fatal(err)
			}
		}
		if got := again.Checksum(); got != sum {
			t.Fatalf("checksum %x after saving, %x before", got, sum)
		}
	})
}
