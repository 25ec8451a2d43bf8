package storetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

func testEmpty(s *suite) {
	for range 2 {
		s.wantRecords(0)
		s.wantLoad(all("a", math.MaxUint64))
		s.ok(s.store.Check(s.Context()))
		s.ok(s.store.Drop(s.Context(), 0, 0))
		s.ok(s.store.Put(s.Context(), 1, nil))
		if got := s.store.Size(); got < 0 {
			s.Errorf("size is %d", got)
		}
		s.reopen()
	}
}

func testReopen(s *suite) {
	base, delta := seg("a", 3, 1, true, 100), seg("a", 3, 2, false, 50)
	other := seg("a", 200, 2, true, 5000)
	s.put(1, base)
	s.commit(0, 1)
	s.put(2, delta)
	s.put(2, other)
	s.commit(1, 2)
	s.commit(2, 3) // an epoch without segments
	for range 3 {
		s.wantRecords(3, 3, 2, 1)
		s.wantLoad(all("a", 3), base, delta, other)
		s.wantLoad(all("a", 1), base)
		s.reopen()
	}
}

func testConflict(s *suite) {
	s.commit(0, 1)
	s.commit(1, 2)
	for _, prev := range []messages.Epoch{0, 1, 3} {
		if err := s.store.Commit(s.Context(), prev, 4, recordData(4)); !errors.Is(err, epochs.ErrConflict) {
			s.Errorf("commit after %d: got error %v, want ErrConflict", prev, err)
		}
	}
	s.wantRecords(2, 2, 1)
	s.commit(2, 4)
	s.reopen()
	s.wantRecords(4, 4, 2, 1)
}

func testLock(s *suite) {
	if second, err := s.open(s.Context()); !errors.Is(err, epochs.ErrLocked) {
		s.Errorf("second open: got %v and error %v, want ErrLocked", second, err)
	}
	s.commit(0, 1) // the first opener is not disturbed
	s.reopen()
	s.wantRecords(1, 1)
}

func testOrphans(s *suite) {
	kept, after := seg("a", 1, 1, true, 100), seg("a", 1, 4, false, 100)
	s.put(1, kept)
	s.commit(0, 1)
	s.put(2, seg("a", 1, 2, true, 100), seg("a", 2, 2, true, 20_000), seg("b", 1, 2, true, 10))
	s.put(3, seg("a", 1, 3, false, 100))
	s.reopen()
	s.wantRecords(3, 1)
	s.wantLoad(all("a", 1), kept)
	s.ok(s.store.Drop(s.Context(), 1, 1))
	s.wantLoad(all("a", math.MaxUint64), kept)
	s.wantLoad(all("b", math.MaxUint64))
	s.put(4, after)
	s.commit(1, 4)
	for range 2 {
		s.wantLoad(all("a", 4), kept, after)
		s.wantLoad(all("b", 4))
		s.reopen()
	}
}

func testOrphansUndropped(s *suite) {
	kept, after := seg("a", 1, 1, true, 100), seg("a", 1, 3, false, 2000)
	s.put(1, kept)
	s.commit(0, 1)
	s.put(2, seg("a", 1, 2, true, 100), seg("a", 2, 2, true, 3000))
	s.put(3, after)
	s.commit(1, 3)
	for e := messages.Epoch(3); e < 12; e++ {
		s.wantLoad(all("a", e), kept, after)
		s.ok(s.store.Drop(s.Context(), e, e)) // the record that tells of the gap goes
		s.commit(e, e+1)
		if e%3 == 0 {
			s.reopen()
		}
	}
}

func testHighest(s *suite) {
	s.commit(0, 5)
	s.wantRecords(5, 5)
	s.put(9, seg("a", 0, 9, true, 10))
	s.wantRecords(9, 5)
	s.reopen()
	s.wantRecords(9, 5)
	s.ok(s.store.Drop(s.Context(), 5, 5))
	s.put(10, seg("a", 0, 10, true, 10))
	s.commit(5, 10)
	s.reopen()
	s.wantRecords(10, 10, 5)
}

func testRetention(s *suite) {
	const last = 60
	var want []epochs.Segment
	grown := int64(0)
	for e := messages.Epoch(1); e <= last; e++ {
		var segs []epochs.Segment
		for g := range uint16(16) {
			segs = append(segs, seg("a", g, e, (e+messages.Epoch(g))%5 == 1 || e == 1, 200+40*int(g)*int(g)))
		}
		want = append(want, segs...)
		s.put(e, segs...)
		s.commit(e-1, e)
		s.ok(s.store.Drop(s.Context(), max(e, epochs.Retain)-epochs.Retain+1, e))
		grown = s.store.Size()
	}
	slices.SortStableFunc(want, func(a, b epochs.Segment) int { return int(a.Group) - int(b.Group) })
	s.wantRecords(last, last, last-1, last-2)
	for range 2 {
		// A reopen may bring back what was not deleted yet.
		records, highest, err := s.store.Committed(s.Context())
		s.ok(err)
		if highest != last || len(records) < epochs.Retain || records[0].Epoch != last || records[epochs.Retain-1].Epoch != last-epochs.Retain+1 {
			s.Errorf("highest epoch %d, %d records", highest, len(records))
		}
		for upTo := messages.Epoch(last - 2); upTo <= last; upTo++ {
			s.wantLoad(all("a", upTo), restorable(want, upTo)...)
		}
		s.reopen()
	}
	if grown <= 0 {
		s.Errorf("size is %d after %d epochs", grown, last)
	}
}

// restorable is the contract of Load in the simplest words: of each group the
// newest base at or before upTo and everything after it. Segments are ordered
// by group and epoch.
func restorable(segs []epochs.Segment, upTo messages.Epoch) []epochs.Segment {
	var out []epochs.Segment
	for _, s := range segs {
		if s.Epoch > upTo {
			continue
		}
		if s.Base {
			out = slices.DeleteFunc(out, func(o epochs.Segment) bool { return o.Group == s.Group })
		}
		out = append(out, s)
	}
	return out
}

func testDropInFlight(s *suite) {
	base := seg("a", 0, 1, true, 100)
	s.put(1, base)
	s.commit(0, 1)
	flying, second := seg("a", 0, 2, true, 100), seg("a", 1, 2, true, 2000)
	s.put(2, flying)
	s.ok(s.store.Drop(s.Context(), 1, 2))
	s.put(2, second)
	s.commit(1, 2)
	for range 2 {
		s.wantLoad(all("a", 2), flying, second)
		s.wantLoad(all("a", 1), base)
		s.reopen()
	}
}

func testDropKeepsNewest(s *suite) {
	base := seg("a", 0, 1, true, 100)
	s.put(1, base)
	s.commit(0, 1)
	s.put(2, seg("a", 0, 2, true, 100))
	s.ok(s.store.Drop(s.Context(), 9, 9))
	s.reopen()
	s.wantRecords(2, 1)
	s.wantLoad(all("a", 1), base)
}

func testLoadRange(s *suite) {
	// Names that contain each other, groups at the limits.
	operators := []string{"a", "a/b", "ab", "b\x00", ""}
	groups := []uint16{0, 1, 2, 127, 254, 255, epochs.OperatorGroup}
	want := map[string][]epochs.Segment{}
	for e := messages.Epoch(1); e <= 4; e++ {
		var segs []epochs.Segment
		for i, op := range operators {
			for j, g := range groups {
				segs = append(segs, seg(op, g, e, e == 1, 10+i*100+j*400))
			}
		}
		slices.Reverse(segs) // the order of a Put means nothing
		s.put(e, segs...)
		s.commit(e-1, e)
		for _, seg := range segs {
			want[seg.Operator] = append(want[seg.Operator], seg)
		}
	}
	for _, segs := range want {
		slices.SortFunc(segs, func(a, b epochs.Segment) int {
			return (int(a.Group)-int(b.Group))*1000 + int(a.Epoch) - int(b.Epoch)
		})
	}
	for range 2 {
		for _, op := range operators {
			for _, r := range [][2]uint16{{0, 257}, {0, 0}, {0, 1}, {1, 128}, {128, 254}, {255, 257}, {3, 127}, {256, math.MaxUint16}} {
				for _, upTo := range []messages.Epoch{0, 1, 3, 4, 100} {
					s.wantLoad(epochs.LoadRange{Operator: op, From: r[0], To: r[1], UpTo: upTo}, slices.DeleteFunc(slices.Clone(want[op]), func(seg epochs.Segment) bool {
						return seg.Group < r[0] || seg.Group >= r[1] || seg.Epoch > upTo
					})...)
				}
			}
		}
		s.wantLoad(all("c", 4))
		s.reopen()
	}
}

func testLoadError(s *suite) {
	s.put(1, seg("a", 0, 1, true, 10), seg("a", 1, 1, true, 10), seg("a", 2, 1, true, 10))
	s.commit(0, 1)
	stop, calls := errors.New("stop"), 0
	err := s.store.Load(s.Context(), all("a", 1), func(epochs.Segment) error {
		calls++
		if calls == 2 {
			return stop
		}
		return nil
	})
	if err != stop || calls != 2 { //nolint:errorlint // the contract says: as it is
		s.Errorf("got error %v after %d calls, want %v after 2", err, calls, stop)
	}
}

func testSizes(s *suite) {
	sizes := []int{0, 1, 2, 100, 1022, 1023, 1024, 1025, 4096, 16<<10 - 1, 16 << 10, 16<<10 + 1, 64<<10 - 1, 64 << 10, 200_000, 1 << 20, 1<<20 + 1, 5 << 20}
	var want []epochs.Segment
	for e := messages.Epoch(1); e <= 2; e++ {
		var segs []epochs.Segment
		for g, n := range sizes {
			segs = append(segs, seg("a", uint16(g), e, e == 1, n))
		}
		want = append(want, segs...)
		s.put(e, segs...)
		s.commit(e-1, e)
	}
	slices.SortStableFunc(want, func(a, b epochs.Segment) int { return int(a.Group) - int(b.Group) })
	for range 2 {
		s.wantLoad(all("a", 2), want...)
		s.reopen()
	}
}

func testRecordSizes(s *suite) {
	sizes := []int{10, 1 << 20, 1<<20 + 1, 5 << 20, 20 << 20, 20 << 20, 100, 1 << 10}
	record := func(e messages.Epoch) []byte { return content(1, epochs.SegmentID{Epoch: e}, sizes[e-1]) }
	oldest := messages.Epoch(1)
	check := func(newest messages.Epoch) {
		records, _, err := s.store.Committed(s.Context())
		s.ok(err)
		if got, want := len(records), int(newest-oldest+1); got != want {
			s.Fatalf("got %d records, want %d", got, want)
		}
		for i, r := range records {
			if want := newest - messages.Epoch(i); r.Epoch != want || string(r.Data) != string(record(want)) {
				s.Errorf("record %d is that of epoch %d with %d bytes, want that of epoch %d with %d", i, r.Epoch, len(r.Data), want, sizes[want-1])
			}
		}
	}
	for i := range sizes {
		e := messages.Epoch(i + 1)
		s.put(e, seg("a", 0, e, true, 100))
		s.ok(s.store.Commit(s.Context(), e-1, e, record(e)))
		check(e)
		if e%2 == 0 {
			s.reopen()
		}
		oldest = max(oldest, e-min(e-1, epochs.Retain-1))
		s.ok(s.store.Drop(s.Context(), oldest, e))
		check(e)
	}
	s.ok(s.store.Rewind(s.Context(), 6))
	check(6)
	s.reopen()
	check(6)
	s.wantLoad(all("a", 6), seg("a", 0, 6, true, 100))
}

func testTinyDeltas(s *suite) {
	const rounds, groups = 400, epochs.KeyGroups
	s.put(1, seg("a", 0, 1, true, 10))
	s.commit(0, 1)
	for e := messages.Epoch(2); e < rounds+2; e++ {
		segs := make([]epochs.Segment, 0, groups)
		for g := range uint16(groups) {
			segs = append(segs, seg("a", g, e, false, int(e+messages.Epoch(g))%90))
		}
		s.put(e, segs...)
		s.commit(e-1, e)
	}
	s.reopen()
	count := 0
	s.ok(s.store.Load(s.Context(), all("a", rounds+1), func(got epochs.Segment) error {
		want := seg("a", got.Group, got.Epoch, got.Epoch == 1, int(got.Epoch+messages.Epoch(got.Group))%90)
		if got.Epoch == 1 {
			want = seg("a", 0, 1, true, 10)
		}
		if string(got.Data) != string(want.Data) || got.Base != want.Base {
			return fmt.Errorf("segment %v differs", got.SegmentID)
		}
		count++
		return nil
	}))
	if want := rounds*groups + 1; count != want {
		s.Errorf("loaded %d segments, want %d", count, want)
	}
}

func testConcurrentLoad(s *suite) {
	want := []epochs.Segment{}
	for g := range uint16(epochs.KeyGroups) {
		want = append(want, seg("a", g, 1, true, 50+30*int(g)))
	}
	s.put(1, want...)
	s.commit(0, 1)
	stop := make(chan struct{})
	var loaders sync.WaitGroup
	for i := range uint16(2) {
		from, to := i*128, i*128+128
		loaders.Go(func() {
			for {
				got, err := load(s.Context(), s.store, epochs.LoadRange{Operator: "a", From: from, To: to, UpTo: 1})
				if err != nil || len(got) != 128 || string(got[7].Data) != string(want[from+7].Data) {
					s.Errorf("load of [%d, %d): %d segments, error %v", from, to, len(got), err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	for e := messages.Epoch(2); e < 30; e++ {
		s.put(e, seg("a", uint16(e), e, e%3 == 0, 3000), seg("a", uint16(e)+100, e, false, 100))
		s.commit(e-1, e)
		s.ok(s.store.Drop(s.Context(), 1, e))
		_ = s.store.Size()
	}
	close(stop)
	loaders.Wait()
}

func testRefusals(s *suite) {
	s.put(1, seg("a", 0, 1, true, 10))
	s.commit(0, 1)
	s.put(2, seg("a", 0, 2, true, 10))
	refused := func(what string, err error) {
		s.Helper()
		if err == nil {
			s.Errorf("%s: got no error", what)
		}
	}
	refused("a segment of another epoch", s.store.Put(s.Context(), 3, []epochs.Segment{seg("a", 0, 4, true, 10)}))
	refused("a segment twice in one put", s.store.Put(s.Context(), 3, []epochs.Segment{seg("a", 0, 3, true, 10), seg("a", 0, 3, false, 10)}))
	refused("a segment twice in two puts", s.store.Put(s.Context(), 2, []epochs.Segment{seg("a", 0, 2, true, 10)}))
	refused("a segment of a committed epoch", s.store.Put(s.Context(), 1, []epochs.Segment{seg("a", 1, 1, true, 10)}))
	refused("a record that is not newer", s.store.Commit(s.Context(), 1, 1, recordData(1)))
	s.commit(1, 2)
	s.wantLoad(all("a", 2), seg("a", 0, 2, true, 10))
	s.reopen()
	refused("a segment of a committed epoch after a reopen", s.store.Put(s.Context(), 2, []epochs.Segment{seg("a", 1, 2, true, 10)}))
	s.wantRecords(2, 2, 1)
}

func testRewind(s *suite) {
	base := seg("a", 0, 1, true, 100)
	s.put(1, base)
	s.commit(0, 1)
	s.put(2, seg("a", 0, 2, true, 100))
	s.commit(1, 2)
	s.put(3, seg("a", 0, 3, false, 2000))
	s.commit(2, 3)
	s.put(4, seg("a", 0, 4, false, 2000))
	if err := s.store.Rewind(s.Context(), 7); err == nil {
		s.Error("rewind to an epoch without a record: got no error")
	}
	s.ok(s.store.Rewind(s.Context(), 1))
	check := func() {
		s.Helper()
		records, highest, err := s.store.Committed(s.Context())
		s.ok(err)
		if len(records) != 1 || records[0].Epoch != 1 || highest < 4 {
			s.Errorf("after the rewind there are %d records, highest epoch %d", len(records), highest)
		}
		s.wantLoad(all("a", math.MaxUint64), base)
	}
	check()
	s.reopen()
	check()
	_, highest, err := s.store.Committed(s.Context())
	s.ok(err)
	next := highest + 1
	after := seg("a", 0, next, false, 60)
	s.put(next, after)
	s.commit(1, next)
	for range 2 {
		s.wantRecords(next, next, 1)
		s.wantLoad(all("a", next), base, after)
		s.reopen()
	}
}

func testOwnership(s *suite) {
	small, big := seg("a", 0, 1, true, 100), seg("a", 1, 1, true, 100_000)
	data := []epochs.Segment{seg("a", 0, 1, true, 100), seg("a", 1, 1, true, 100_000)}
	record := recordData(1)
	s.put(1, data...)
	s.ok(s.store.Commit(s.Context(), 0, 1, record))
	clear(data[0].Data)
	clear(data[1].Data)
	clear(record)
	s.wantLoad(all("a", 1), small, big)
	s.wantRecords(1, 1)
}

func testCancelled(s *suite) {
	s.put(1, seg("a", 0, 1, true, 100))
	ctx, cancel := context.WithCancel(s.Context())
	cancel()
	if err := s.store.Put(ctx, 1, []epochs.Segment{seg("a", 1, 1, true, 100)}); !errors.Is(err, context.Canceled) {
		s.Errorf("put: got error %v, want context.Canceled", err)
	}
	if err := s.store.Load(ctx, all("a", 1), func(epochs.Segment) error { return nil }); !errors.Is(err, context.Canceled) {
		s.Errorf("load: got error %v, want context.Canceled", err)
	}
	s.reopen()
	s.wantRecords(1)
}

// testListedIsWhole opens the store again between the segments of an epoch and its
// record, each time: what the records that are there then need is there, too, those
// that Drop has forgotten and that have come back included.
func testListedIsWhole(s *suite) {
	bases := map[messages.Epoch]epochs.Segment{}
	for e := messages.Epoch(1); e <= 8; e++ {
		bases[e] = seg("a", 0, e, true, 5000)
		s.put(e, bases[e])
		s.reopen()
		records, _, err := s.store.Committed(s.Context())
		s.ok(err)
		for _, r := range records {
			s.wantLoad(all("a", r.Epoch), bases[r.Epoch])
		}
		s.commit(e-1, e)
		s.ok(s.store.Drop(s.Context(), max(e, epochs.Retain)-epochs.Retain+1, e))
		// The store has to be used between a Drop and a crash.
		e++
		bases[e] = seg("a", 0, e, true, 5000)
		s.put(e, bases[e])
		s.commit(e-1, e)
		s.ok(s.store.Drop(s.Context(), max(e, epochs.Retain)-epochs.Retain+1, e))
	}
}
