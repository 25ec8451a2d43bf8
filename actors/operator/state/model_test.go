package state

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/zeebo/xxh3"
	"pgregory.net/rapid"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// modelKey and modelEntry are the second implementation: a Go map.
type modelKey struct {
	pane int64
	key  string
}

type modelEntry struct {
	slots  [2]uint64
	values [2]string
	timer  messages.EventTime
}

type model map[modelKey]modelEntry

func keyBytes(i int) []byte {
	b := fmt.Appendf(nil, "key-%d", i)
	for range i % 5 {
		b = append(b, b...)
	}
	return b
}

// machine runs a store and the model side by side.
type machine struct {
	t       *rapid.T
	ints    bool
	s       *Store
	m       model
	epoch   messages.Epoch
	running bool
	saved   map[messages.Epoch]model
	sums    map[messages.Epoch]uint64
	chain   []epochs.Segment
}

func config(ints bool, from, to uint16) Config {
	return Config{UID: "op", From: from, To: to, IntKeys: ints, Words: 2, Values: 2, Timers: true}
}

func newStore(t interface{ Fatal(...any) }, cfg Config) *Store {
	s, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func (mc *machine) hash(key []byte) uint64 {
	h := xxh3.Hash(key)
	return h&0x00ff_ffff_ffff_ffff | (h%7*40)<<56 // few groups, so that they are shared
}

func (mc *machine) upsert(pane int64, key []byte) Entry {
	if mc.ints {
		e, _ := mc.s.UpsertInt(mc.hash(key), pane, int64(xxh3.Hash(key)))
		return e
	}
	e, _ := mc.s.Upsert(mc.hash(key), pane, key)
	return e
}

func (mc *machine) find(pane int64, key []byte) (Entry, bool) {
	if mc.ints {
		return mc.s.FindInt(mc.hash(key), pane, int64(xxh3.Hash(key)))
	}
	return mc.s.Find(mc.hash(key), pane, key)
}

func (mc *machine) modelKey(pane int64, key []byte) modelKey {
	if mc.ints {
		return modelKey{pane, string(binary.LittleEndian.AppendUint64(nil, xxh3.Hash(key)))}
	}
	return modelKey{pane, string(key)}
}

func entryKey(s *Store, e Entry) modelKey {
	if s.cfg.IntKeys {
		return modelKey{e.Pane(), string(binary.LittleEndian.AppendUint64(nil, uint64(e.IntKey())))}
	}
	return modelKey{e.Pane(), string(e.Key())}
}

// content reads a store back into a model.
func content(s *Store) model {
	m := model{}
	c := s.ScanAll()
	for e, ok := c.Next(); ok; e, ok = c.Next() {
		m[entryKey(s, e)] = modelEntry{[2]uint64(e.Slots()), [2]string{string(e.Value(0)), string(e.Value(1))}, e.Timer()}
	}
	return m
}

func (mc *machine) step(what int) {
	t := mc.t
	pane := int64(rapid.IntRange(-2, 2).Draw(t, "pane"))
	key := keyBytes(rapid.IntRange(0, 40).Draw(t, "key"))
	switch {
	case what < 50:
		e := mc.upsert(pane, key)
		slots := mc.s.Mutate(e)
		slots[0]++
		slots[1] ^= uint64(rapid.IntRange(0, 1000).Draw(t, "word"))
		if n := rapid.IntRange(0, 3).Draw(t, "value"); n < 2 {
			v := make([]byte, rapid.SampledFrom([]int{0, 1, 9, 100, 3000, 70000}).Draw(t, "length"))
			for i := range v {
				v[i] = byte(slots[0] + uint64(i))
			}
			mc.s.SetValue(e, n, v)
		} else if n == 2 {
			mc.s.AppendValue(e, 1, key)
		}
		if at := rapid.IntRange(-1, 20).Draw(t, "timer"); at >= 0 {
			mc.s.SetTimer(e, messages.EventTime(at))
		} else {
			mc.s.SetTimer(e, messages.NoEventTime)
		}
		mc.m[mc.modelKey(pane, key)] = modelEntry{[2]uint64(e.Slots()), [2]string{string(e.Value(0)), string(e.Value(1))}, e.Timer()}
	case what < 70:
		e, ok := mc.find(pane, key)
		if _, want := mc.m[mc.modelKey(pane, key)]; ok != want {
			t.Fatalf("found %v, want %v", ok, want)
		}
		if ok {
			mc.s.Delete(e)
			delete(mc.m, mc.modelKey(pane, key))
		}
	case what < 74:
		want := int64(0)
		for k := range mc.m {
			if k.pane == pane {
				want++
			}
		}
		if got := mc.s.DropPane(pane); got != want {
			t.Fatalf("dropped %d entries, want %d", got, want)
		}
		maps.DeleteFunc(mc.m, func(k modelKey, _ modelEntry) bool { return k.pane == pane })
	case what < 80:
		mc.due(messages.EventTime(rapid.IntRange(0, 20).Draw(t, "due")))
	case what < 90:
		mc.freeze()
	default:
		mc.encode(rapid.IntRange(0, 3).Draw(t, "slices"))
	}
}

// fill inserts keys that no step touches, into a pane that no step drops.
func (mc *machine) fill(n int) {
	for i := range n {
		key := fmt.Appendf(nil, "stays-%d", i)
		e := mc.upsert(100, key)
		mc.s.Mutate(e)[1] = uint64(i)
		mc.s.SetValue(e, 0, bytes.Repeat(key, 40))
		mc.m[mc.modelKey(100, key)] = modelEntry{[2]uint64(e.Slots()), [2]string{string(e.Value(0)), ""}, e.Timer()}
	}
	mc.freeze()
}

// due lets timers fire and checks them against the model.
func (mc *machine) due(now messages.EventTime) {
	want := 0
	for _, e := range mc.m {
		if e.timer != messages.NoEventTime && e.timer <= now {
			want++
		}
	}
	got, last := 0, messages.NoEventTime
	for e, at, ok := mc.s.Due(now); ok; e, at, ok = mc.s.Due(now) {
		k := entryKey(mc.s, e)
		me, ok := mc.m[k]
		if !ok || me.timer != at || at > now || at < last {
			mc.t.Fatalf("timer of %q at %v after %v, want %v", k.key, at, last, me.timer)
		}
		me.timer = messages.NoEventTime
		mc.m[k] = me
		last = at
		got++
	}
	if got != want {
		mc.t.Fatalf("%d timers were due, want %d", got, want)
	}
}

func (mc *machine) freeze() {
	mc.encode(-1)
	mc.epoch++
	mc.s.Freeze(mc.epoch)
	mc.running = true
	mc.saved[mc.epoch] = maps.Clone(mc.m)
	mc.sums[mc.epoch] = mc.s.Checksum()
}

// encode does some slices of the running snapshot, all of them for n < 0.
func (mc *machine) encode(n int) {
	for mc.running && n != 0 {
		n--
		asked := 0
		done, err := mc.s.Encode(func() bool { asked++; return asked > 1 }, func(seg epochs.Segment) error {
			seg.Data = slices.Clone(seg.Data)
			mc.chain = append(mc.chain, seg)
			return nil
		})
		if err != nil {
			mc.t.Fatal(err)
		}
		mc.running = !done
	}
}

// restore builds stores for n subtasks from the segments up to an epoch, the
// way a host does: per group the newest base and what follows.
func restore(t interface{ Fatal(...any) }, ints bool, chain []epochs.Segment, upTo messages.Epoch, n int) []*Store {
	var out []*Store
	for i := range n {
		from, to := operator.KeyRange(i, n)
		s := newStore(t, config(ints, from, to))
		for g := from; g < to; g++ {
			var segs []epochs.Segment
			for _, seg := range chain {
				if seg.Group != g || seg.Epoch > upTo {
					continue
				}
				if seg.Base {
					segs = segs[:0]
				}
				segs = append(segs, seg)
			}
			for _, seg := range segs {
				if err := s.Restore(seg); err != nil {
					t.Fatal(err)
				}
			}
		}
		out = append(out, s)
	}
	return out
}

func (mc *machine) check(upTo messages.Epoch, n int) {
	got, sum, rows := model{}, uint64(0), int64(0)
	for _, s := range restore(mc.t, mc.ints, mc.chain, upTo, n) {
		maps.Copy(got, content(s))
		sum += s.Checksum()
		rows += s.Rows()
	}
	want := mc.saved[upTo]
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(modelKey{}, modelEntry{})); diff != "" {
		mc.t.Fatalf("restored epoch %d of %d into %d subtasks (-got +want):\n%s", upTo, mc.epoch, n, diff)
	}
	if sum != mc.sums[upTo] || rows != int64(len(want)) {
		mc.t.Fatalf("restored checksum %x, rows %d; want %x, %d", sum, rows, mc.sums[upTo], len(want))
	}
}

func TestStoreEqualsAMapAtEveryEpoch(t *testing.T) {
	for _, ints := range []bool{true, false} {
		t.Run(fmt.Sprintf("integer keys %v", ints), func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				mc := &machine{
					t: t, ints: ints, s: newStore(t, config(ints, 0, 0)), m: model{},
					saved: map[messages.Epoch]model{}, sums: map[messages.Epoch]uint64{},
				}
				if rapid.Bool().Draw(t, "many keys that stay") {
					mc.fill(700) // so that changes are small and segments deltas
				}
				for _, what := range rapid.SliceOfN(rapid.IntRange(0, 99), 1, 300).Draw(t, "steps") {
					mc.step(what)
				}
				if diff := cmp.Diff(content(mc.s), mc.m, cmp.AllowUnexported(modelKey{}, modelEntry{})); diff != "" {
					t.Fatalf("content (-got +want):\n%s", diff)
				}
				mc.freeze()
				mc.encode(-1)
				for e := messages.Epoch(1); e <= mc.epoch; e++ {
					mc.check(e, 1+int(e)%3)
				}
				if got, want := mc.s.bytes, accounted(mc.s); got != want {
					t.Fatalf("the store accounts for %d bytes, its tables have %d", got, want)
				}
				// A restored store goes on like the original.
				s := restore(t, ints, mc.chain, mc.epoch, 1)[0]
				mc.s, mc.running = s, false
				for _, what := range rapid.SliceOfN(rapid.IntRange(0, 99), 0, 50).Draw(t, "later") {
					mc.step(what)
				}
				mc.freeze()
				mc.encode(-1)
				mc.check(mc.epoch, 2)
			})
		})
	}
}

// accounted adds up what the live tables take.
func accounted(s *Store) int64 {
	n := int64(0)
	for i := range s.groups {
		for _, t := range s.groups[i].tables {
			n += t.size()
		}
	}
	return n
}
