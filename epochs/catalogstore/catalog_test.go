package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/epochs/storetest"
	"github.com/streamd-io/streamd/messages"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// alone is a query's store that closes its catalog with itself, so that a reopen
// reads everything from the disk.
type alone struct {
	*catalogstore.Query
	c *catalogstore.Catalog
}

func (a alone) Close() error { return errors.Join(a.Query.Close(), a.c.Close()) }

// opener opens a query in a catalog of its own, beside another query that has
// committed.
func opener(base func(context.Context) (epochs.Segments, error)) storetest.Opener {
	return func(ctx context.Context) (epochs.Segments, error) {
		c := catalogstore.New(base)
		q, err := c.Open(ctx, "tested")
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		other, err := c.Open(ctx, "other")
		if err == nil {
			err = oneMore(ctx, other)
		}
		if err != nil {
			return nil, errors.Join(err, c.Close())
		}
		return alone{q, c}, nil
	}
}

// oneMore commits an epoch of a query.
func oneMore(ctx context.Context, s epochs.Segments) error {
	records, highest, err := s.Committed(ctx)
	if err != nil {
		return err
	}
	prev := messages.Epoch(0)
	if len(records) > 0 {
		prev = records[0].Epoch
	}
	if err := s.Commit(ctx, prev, highest+1, fmt.Appendf(nil, "of %d", highest+1)); err != nil {
		return err
	}
	return s.Drop(ctx, max(prev, 2)-2, highest+1)
}

func onBadger(dir string) storetest.Opener {
	return opener(badgerAt(dir))
}

func badgerAt(dir string) func(ctx context.Context) (epochs.Segments, error) {
	return func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{MinFree: 1 << 20})
	}
}

func onDisk(d *memstore.Disk) func(context.Context) (epochs.Segments, error) {
	return func(context.Context) (epochs.Segments, error) { return d.Open() }
}

func TestConformance(t *testing.T) {
	t.Run("in memory", func(t *testing.T) {
		storetest.Run(t, func(*testing.T) storetest.Opener { return opener(onDisk(memstore.New(memstore.Options{}))) })
	})
	t.Run("in a database", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) storetest.Opener { return onBadger(t.TempDir()) })
	})
}

func TestCrashesLoseNothingThatWasAcknowledged(t *testing.T) {
	for seed := range uint64(8) {
		var hook func(string) error
		disk := memstore.New(memstore.Options{
			Seed:         seed,
			KeepUnsynced: int(seed) * 50 % 101,
			Fault: func(op string) error {
				if hook == nil {
					return nil
				}
				return hook(op)
			},
		})
		storetest.RunCrashes(t, seed, 60, storetest.Disk{
			Open: func(ctx context.Context) (epochs.Segments, error) {
				c := catalogstore.New(onDisk(disk))
				q, err := c.Open(ctx, "tested")
				return q, err
			},
			Crash:   disk.Crash,
			OnFault: func(f func(string) error) { hook = f },
		})
	}
}

var kills = storetest.KillTest{Env: "STREAMD_CATALOG_CHILD", Seed: 815, Rounds: 8, Open: onBadger}

// TestKills kills a writer at random moments. STREAMD_STORE_KILLS is the number
// of kills if it should be another.
func TestKills(t *testing.T) { kills.Run(t, "TestKilledChild") }

// TestKilledChild is the process that TestKills kills.
func TestKilledChild(t *testing.T) { kills.Child(t) }

func ok(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, c *catalogstore.Catalog, query string) *catalogstore.Query {
	t.Helper()
	q, err := c.Open(t.Context(), query)
	ok(t, err)
	return q
}

// records lists the epochs of a query, newest first.
func records(t *testing.T, s epochs.Segments) []messages.Epoch {
	t.Helper()
	list, _, err := s.Committed(t.Context())
	ok(t, err)
	out := []messages.Epoch{}
	for _, r := range list {
		if want := fmt.Sprintf("of %d", r.Epoch); string(r.Data) != want {
			t.Errorf("record %d holds %q, want %q", r.Epoch, r.Data, want)
		}
		out = append(out, r.Epoch)
	}
	return out
}

// counting counts the commits of the store below and lets the first wait.
type counting struct {
	epochs.Segments
	commits int
	started chan struct{}
	release chan struct{}
}

func (c *counting) Commit(ctx context.Context, prev, e messages.Epoch, data []byte) error {
	c.commits++
	if c.commits == 1 {
		close(c.started)
		<-c.release
	}
	return c.Segments.Commit(ctx, prev, e, data)
}

func TestCommitsOfSeveralQueriesAreWrittenTogether(t *testing.T) {
	base, err := memstore.New(memstore.Options{}).Open()
	ok(t, err)
	slow := &counting{Segments: base, started: make(chan struct{}), release: make(chan struct{})}
	c := catalogstore.New(func(context.Context) (epochs.Segments, error) { return slow, nil })
	const queries = 50
	var wg sync.WaitGroup
	commit := func(i int) {
		q := open(t, c, fmt.Sprint("q", i))
		wg.Go(func() {
			if err := oneMore(t.Context(), q); err != nil {
				t.Error(err)
			}
		})
	}
	all := make([]*catalogstore.Query, 0, queries)
	for i := 1; i < queries; i++ {
		all = append(all, open(t, c, fmt.Sprint("q", i)))
	}
	commit(0)
	<-slow.started
	for _, q := range all {
		wg.Go(func() {
			if err := oneMore(t.Context(), q); err != nil {
				t.Error(err)
			}
		})
	}
	for c.Waiting() < queries-1 {
	}
	close(slow.release)
	wg.Wait()
	if slow.commits != 2 {
		t.Errorf("%d queries took %d writes, want 2", queries, slow.commits)
	}
	ok(t, c.Close())
}

func TestQueriesDoNotDisturbEachOther(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	c := catalogstore.New(onDisk(disk))
	want := map[string][]messages.Epoch{}
	for round := range 400 {
		name := fmt.Sprint("q", round%7*round%5)
		q := open(t, c, name)
		ok(t, oneMore(t.Context(), q))
		have := records(t, q)
		want[name] = have
		ok(t, q.Close())
		if round%50 == 49 {
			ok(t, c.Close())
			c = catalogstore.New(onDisk(disk))
		}
	}
	names, err := c.Queries(t.Context())
	ok(t, err)
	if len(names) != len(want) {
		t.Errorf("queries %v, want %d", names, len(want))
	}
	for name, list := range want {
		q := open(t, c, name)
		if got := records(t, q); !slices.Equal(got[:len(list)], list) {
			t.Errorf("%s: records %v, want %v", name, got, list)
		}
		ok(t, q.Close())
	}
	ok(t, c.Close())
}

// TestTheLogStaysShort: a busy query must not make the log grow, though a silent
// one keeps its first entry alive.
func TestTheLogStaysShort(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	c := catalogstore.New(onDisk(disk))
	silent, busy := open(t, c, "silent"), open(t, c, "busy")
	ok(t, oneMore(t.Context(), silent))
	record := make([]byte, 2000)
	for e := messages.Epoch(1); e <= 5000; e++ {
		ok(t, busy.Commit(t.Context(), e-1, e, record))
		ok(t, busy.Drop(t.Context(), max(e, 3)-2, e))
	}
	ok(t, c.Close())
	base, err := disk.Open()
	ok(t, err)
	if size := base.Size(); size > 512<<10 {
		t.Errorf("the log has %d bytes, of which 6 KB are alive", size)
	}
	ok(t, base.Close())
	c = catalogstore.New(onDisk(disk))
	if got := records(t, open(t, c, "silent")); !slices.Equal(got, []messages.Epoch{1}) {
		t.Errorf("the silent query has the records %v", got)
	}
	ok(t, c.Close())
}

func TestARemovedQueryLeavesNothing(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	c := catalogstore.New(onDisk(disk))
	q, other := open(t, c, "gone"), open(t, c, "other")
	ok(t, oneMore(t.Context(), q))
	ok(t, oneMore(t.Context(), other))
	if err := c.Remove(t.Context(), "gone"); !errors.Is(err, epochs.ErrLocked) {
		t.Errorf("remove an open query: %v, want ErrLocked", err)
	}
	ok(t, q.Close())
	ok(t, c.Remove(t.Context(), "gone"))
	ok(t, c.Remove(t.Context(), "never there"))
	for range 2 {
		q = open(t, c, "gone")
		if list, highest, err := q.Committed(t.Context()); len(list) != 0 || highest != 0 || err != nil {
			t.Errorf("a removed query has %d records, highest epoch %d, error %v", len(list), highest, err)
		}
		names, err := c.Queries(t.Context())
		ok(t, err)
		if !slices.Equal(names, []string{"other"}) {
			t.Errorf("queries %v", names)
		}
		ok(t, c.Close())
		c = catalogstore.New(onDisk(disk))
	}
}

func TestAFailedWriteMakesEveryQueryReopen(t *testing.T) {
	stop := errors.New("stop")
	failing := false
	disk := memstore.New(memstore.Options{Fault: func(op string) error {
		if failing && op == memstore.OpCommitDone {
			return stop
		}
		return nil
	}})
	c := catalogstore.New(onDisk(disk))
	a, b := open(t, c, "a"), open(t, c, "b")
	ok(t, oneMore(t.Context(), b))
	failing = true
	if err := oneMore(t.Context(), a); !errors.Is(err, stop) {
		t.Errorf("got %v", err)
	}
	failing = false
	if err := oneMore(t.Context(), b); err == nil {
		t.Error("a query goes on in a catalog whose content is unknown")
	}
	ok(t, a.Close())
	a = open(t, c, "a")
	if got := records(t, a); !slices.Equal(got, []messages.Epoch{1}) {
		t.Errorf("what was durable is not there: %v", got)
	}
	if err := oneMore(t.Context(), b); err == nil {
		t.Error("a query that was not reopened goes on")
	}
	ok(t, b.Close())
	b = open(t, c, "b")
	ok(t, oneMore(t.Context(), b))
	ok(t, c.Close())
}

func TestNewerFormatIsNamed(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	base, err := disk.Open()
	ok(t, err)
	ok(t, base.Commit(t.Context(), 0, 1, []byte{99}))
	ok(t, base.Close())
	if _, err := catalogstore.New(onDisk(disk)).Open(t.Context(), "q"); !errors.Is(err, epochs.ErrNewerFormat) {
		t.Errorf("got %v, want ErrNewerFormat", err)
	}
}

func TestGuardsOfTheStoreBelowHold(t *testing.T) {
	dir := t.TempDir()
	c := catalogstore.New(badgerAt(dir))
	q := open(t, c, "q")
	ok(t, oneMore(t.Context(), q))
	if _, err := catalogstore.New(badgerAt(dir)).Open(t.Context(), "q"); !errors.Is(err, epochs.ErrLocked) {
		t.Errorf("a second process: got %v, want ErrLocked", err)
	}
	ok(t, c.Close())
	ok(t, os.Remove(dir+"/db/MANIFEST"))
	_, err := catalogstore.New(badgerAt(dir)).Open(t.Context(), "q")
	if !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(err.Error(), "MANIFEST") {
		t.Errorf("without MANIFEST: got %v, want ErrDamaged", err)
	}
}

func TestCopy(t *testing.T) {
	rec := func(e messages.Epoch, chains ...epochs.Chain) []byte {
		data, err := epochs.EncodeRecord(&epochs.Record{Epoch: e, Query: "q", Chains: chains})
		ok(t, err)
		return data
	}
	disk := memstore.New(memstore.Options{})
	from, err := disk.Open()
	ok(t, err)
	ok(t, from.Commit(t.Context(), 0, 3, rec(3)))
	ok(t, from.Commit(t.Context(), 3, 5, rec(5)))
	ok(t, from.Put(t.Context(), 8, []epochs.Segment{{SegmentID: epochs.SegmentID{Operator: "a", Epoch: 8}}}))
	c := catalogstore.New(onDisk(memstore.New(memstore.Options{})))
	to := open(t, c, "q")
	ok(t, catalogstore.Copy(t.Context(), from, to))
	list, highest, err := to.Committed(t.Context())
	ok(t, err)
	if len(list) != 2 || list[0].Epoch != 5 || list[1].Epoch != 3 || string(list[0].Data) != string(rec(5)) || highest != 8 {
		t.Errorf("the copy has %v and the highest epoch %d", list, highest)
	}
	ok(t, from.Commit(t.Context(), 5, 9, rec(9, epochs.Chain{Operator: "aggregate", Segments: 1})))
	if err := catalogstore.Copy(t.Context(), from, open(t, c, "other")); !errors.Is(err, catalogstore.ErrState) {
		t.Errorf("got %v, want ErrState", err)
	}
}
