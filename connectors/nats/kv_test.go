package nats

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestBucketHoldsTheLastRowPerKey(t *testing.T) {
	for _, g := range []connectors.Guarantee{connectors.Converges, connectors.AtLeastOnce} {
		t.Run(g.String(), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			kv := bucket(t, js, jetstream.KeyValueConfig{History: 5})
			s, err := newKVTestSink(t, pairs(), nil, kvOptions(b)...)
			if err != nil {
				t.Fatal(err)
			}
			c := kvConfig{guarantee: g, subtasks: 2}
			o := openKVSink(t, s, c).recover(c)
			o.write(0, set("a", 1), set("b", 1))
			o.commit()
			o.write(0, change{"a", 1, messages.UpdateBefore}, set("a", 2), change{"b", 1, messages.Delete}, change{"c", 7, messages.Insert})
			o.write(1, set("x y", 9))
			o.commit()
			if d := cmp.Diff(map[string]int64{"a": 2, "c": 7, "x=20y": 9}, content(t, kv)); d != "" {
				t.Errorf("bucket (-want +got):\n%s", d)
			}
			history, err := kv.History(t.Context(), "b")
			if err != nil {
				t.Fatal(err)
			}
			if len(history) != 2 || history[1].Operation() != jetstream.KeyValueDelete || string(history[0].Value()) != `{"k":"b","v":1}` {
				t.Errorf("history of a deleted key = %v, want its value and the deletion", history)
			}
		})
	}
}

// TestCompleteTableInABucket: keys that have gone are deleted, also those that an
// earlier attempt has left, and nobody else's.
func TestCompleteTableInABucket(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{History: 10})
	if _, err := kv.Put(t.Context(), "foreign", []byte(`{"v":-1}`)); err != nil {
		t.Fatal(err)
	}
	want := func(w map[string]int64) {
		t.Helper()
		w["foreign"] = -1
		if d := cmp.Diff(w, content(t, kv)); d != "" {
			t.Errorf("bucket (-want +got):\n%s", d)
		}
	}
	o := openKV(t, kvConfig{}, kvOptions(b)...)
	o.table(set("a", 1), set("b", 2), set("c", 3))
	o.table(set("a", 1), set("c", 4))
	o.commit()
	want(map[string]int64{"a": 1, "c": 4})
	if h, err := kv.History(t.Context(), "a"); err != nil || len(h) != 1 {
		t.Errorf("a value that has not changed was written %d times (%v)", len(h), err)
	}
	o.close()
	o = openKV(t, kvConfig{attempt: 2, epoch: 1, last: o.last}, kvOptions(b)...)
	o.table(set("c", 4), set("d", 5))
	o.commit()
	want(map[string]int64{"c": 4, "d": 5})
	o.table()
	o.commit()
	want(map[string]int64{})
	o.table(set("a", 8))
	o.commit()
	want(map[string]int64{"a": 8})
}

// TestHotKeyIsCoalesced: a key that changes faster than the server answers is not
// written more often than that, and the last value is there at the end.
func TestHotKeyIsCoalesced(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	o := openKV(t, kvConfig{}, append(kvOptions(b), "max_pending", "2")...)
	const n = 20_000
	rows := make([]change, 0, 1000)
	for i := 1; i <= n; i++ {
		if rows = append(rows, set("hot", i)); len(rows) == cap(rows) {
			o.write(0, rows...)
			rows = rows[:0]
		}
	}
	o.commit()
	if d := cmp.Diff(map[string]int64{"hot": n}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
	if w := o.c.progress.Load(); w >= n {
		t.Errorf("%d writes for %d changes", w, n)
	}
}

// TestBucketZombie: what an old attempt sends after the new one has written a key
// is refused; what it sends before is overwritten; and it notices.
func TestBucketZombie(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	kv := bucket(t, js, jetstream.KeyValueConfig{})
	old := openKV(t, kvConfig{attempt: 1}, kvOptions(b)...)
	old.write(0, set("a", 1), set("b", 1))
	old.commit()
	old.write(0, set("a", 2)) // its epoch never commits
	o := openKV(t, kvConfig{attempt: 2, epoch: 1, last: old.last}, kvOptions(b)...)
	o.write(0, set("a", 2), set("a", 3), set("new", 1))
	o.commit()
	for _, k := range []string{"a", "new"} { // one it knows, one it does not
		_ = old.try(0, 0, set(k, 99)) // fails once the loss is known
	}
	wantFault(t, old.prepare(), fault.Config, classFenced, "attempt 2")
	if d := cmp.Diff(map[string]int64{"a": 3, "b": 1, "new": 1}, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}

	// A zombie may write a key that the new attempt has yet to write.
	old = openKV(t, kvConfig{attempt: 3}, kvOptions(b)...)
	old.write(0, set("b", 5))
	old.commit()
	o = openKV(t, kvConfig{attempt: 4}, kvOptions(b)...)
	o.write(0, set("b", 5))
	o.commit()
	old2 := openKV(t, kvConfig{attempt: 5}, kvOptions(b)...)
	old2.write(0, set("b", 6))
	old2.commit()
	wantFault(t, o.c.Commit(t.Context(), 9, nil), fault.Config, classFenced, "attempt 5")
	last := openKV(t, kvConfig{attempt: 6}, kvOptions(b)...)
	if err := old2.try(0, 0, set("b", 7)); err != nil {
		t.Fatal(err)
	}
	if err := old2.prepare(); err != nil {
		t.Fatalf("a write before the new attempt's: %v", err)
	}
	last.write(0, set("b", 6))
	last.commit()
	if got := content(t, kv)["b"]; got != 6 {
		t.Errorf("b = %d, want 6", got)
	}
	late := tryKV(t, kvConfig{attempt: 2}, kvOptions(b)...)
	wantFault(t, late.c.Recover(t.Context(), 0, nil), fault.Config, classFenced, "attempt 6")
}

// TestBucketAcrossServerRestarts: values are neither lost nor put back.
func TestBucketAcrossServerRestarts(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{})
	o := openKV(t, kvConfig{subtasks: 2}, kvOptions(b)...)
	want := map[string]int64{}
	n := 0
	for range 4 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			b.stop()
			b.start()
		}()
		for running := true; running; n++ {
			select {
			case <-done:
				running = false
			default:
			}
			for _, k := range []string{"hot", fmt.Sprintf("k%d", n%100), fmt.Sprintf("n%d", n)} {
				o.write(n%2, set(k, n))
				want[k] = int64(n)
			}
		}
		if err := o.prepare(); err != nil {
			t.Fatal(err)
		}
	}
	js, _ = b.client()
	kv, err := js.KeyValue(t.Context(), "HOT")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, content(t, kv)); d != "" {
		t.Errorf("bucket (-want +got):\n%s", d)
	}
	t.Logf("%d rounds, %d writes", n, o.c.progress.Load())
}

// model is a query that counts per key, and the log of its input: what the rows
// of a correct run end with.
type model struct {
	log     []string // keys
	counts  map[string]int64
	at      int // rows read
	deleted map[string]bool
}

func (m *model) restart(at int) *model {
	n := &model{log: m.log, counts: map[string]int64{}, deleted: map[string]bool{}}
	for n.at < at {
		n.next()
	}
	return n
}

// next reads a row and returns the change: the new count, or every seventh time a
// deletion.
func (m *model) next() change {
	k := m.log[m.at]
	m.at++
	m.counts[k]++
	m.deleted[k] = m.counts[k]%7 == 0
	if m.deleted[k] {
		return change{k, m.counts[k], messages.Delete}
	}
	return change{k, m.counts[k], messages.UpdateAfter}
}

func (m *model) want() map[string]int64 {
	w := map[string]int64{}
	for k, n := range m.counts {
		if !m.deleted[k] {
			w[k] = n
		}
	}
	return w
}

// TestBucketConvergesUnderRandomCrashes runs a random stream of updates with
// crashes at every step of an epoch, zombies that go on writing, lost connections
// and server restarts, and compares with a map.
func TestBucketConvergesUnderRandomCrashes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	b := newBroker(t)
	js, _ := b.client()
	bucket(t, js, jetstream.KeyValueConfig{History: uint8(1 + rnd.IntN(3))})
	m := &model{}
	const rows, keys = 6000, 60
	for range rows {
		m.log = append(m.log, fmt.Sprintf("k%d", min(rnd.IntN(keys), rnd.IntN(keys))))
	}
	var epoch, highest messages.Epoch // committed; numbers are never used again
	var last connectors.Token
	committed, attempts := 0, uint64(0)
	type zombie struct {
		o   *kvOutput
		run *model // goes on as if nothing had happened
		n   int
	}
	var zombies []zombie
	var final *model
	for committed < rows {
		attempts++
		parallelism := 1 + rnd.IntN(3)
		o := openKV(t, kvConfig{attempt: attempts, epoch: epoch, last: last, subtasks: parallelism, maxIdle: 1 + rnd.IntN(100)}, append(kvOptions(b), "max_pending", fmt.Sprint(1+rnd.IntN(50)))...)
		o.epoch = highest
		run := m.restart(committed)
		write := func(n int) {
			for range n {
				if run.at < rows {
					ch := run.next()
					o.write(int(ch.k[len(ch.k)-1])%parallelism, ch)
				}
			}
		}
		for range 1 + rnd.IntN(4) {
			write(rnd.IntN(400))
			switch rnd.IntN(12) {
			case 0:
				b.stop()
				b.start()
			case 1, 2:
				if l := o.c.current(); l != nil {
					l.nc.Close()
				}
			}
			for _, z := range zombies { // they may fail, not win
				for n := rnd.IntN(10); n > 0 && z.run.at < rows; n-- {
					ch := z.run.next()
					_ = z.o.try(int(ch.k[len(ch.k)-1])%z.n, 0, ch)
				}
			}
			if rnd.IntN(6) == 0 {
				break // crash before the flush
			}
			at := run.at
			if err := o.prepare(); err != nil {
				t.Fatal(err)
			}
			if rnd.IntN(6) == 0 {
				break // crash before the commit record
			}
			committed, epoch, last, final = at, o.epoch, o.last, run
			if rnd.IntN(6) == 0 {
				break // crash before the sink commit
			}
			for err := fault.New(fault.Transient, ""); err != nil; {
				if err = o.c.Commit(t.Context(), o.epoch, last); err != nil && fault.KindOf(err) != fault.Transient {
					t.Fatal(err)
				}
			}
		}
		highest = o.epoch
		write(rnd.IntN(100))
		if rnd.IntN(3) == 0 {
			zombies = append(zombies, zombie{o, run, parallelism})
		} else {
			o.close()
		}
	}
	for _, z := range zombies {
		z.o.close()
	}
	js, _ = b.client()
	kv, err := js.KeyValue(t.Context(), "HOT")
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(final.restart(rows).want(), content(t, kv)); d != "" {
		t.Errorf("bucket after %d attempts (-want +got):\n%s", attempts, d)
	}
	t.Logf("%d attempts, %d zombies", attempts, len(zombies))
}
