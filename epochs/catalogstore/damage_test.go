package catalogstore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

// fill commits entries in a catalog: 1 and 3 are of query a, 2 and 4 of b.
func fill(t *testing.T, base func(context.Context) (epochs.Segments, error)) {
	t.Helper()
	c := catalogstore.New(base)
	for range 2 {
		for _, name := range []string{"a", "b"} {
			q := open(t, c, name)
			ok(t, oneMore(t.Context(), q))
			ok(t, q.Close())
		}
	}
	ok(t, c.Close())
}

// lossy hides one record of the store below, as a damaged one is.
type lossy struct {
	epochs.Segments
	lost messages.Epoch
}

func (l lossy) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	list, highest, err := l.Segments.Committed(ctx)
	n := len(list)
	list = slices.DeleteFunc(list, func(r epochs.StoredRecord) bool { return r.Epoch == l.lost })
	if len(list) < n {
		err = errors.Join(err, &epochs.RecordError{Epoch: l.lost, Err: errors.New("its checksum does not fit")})
	}
	return list, highest, err
}

func TestDamageMakesQueriesSuspect(t *testing.T) {
	for lost := messages.Epoch(1); lost <= 4; lost++ {
		t.Run(fmt.Sprint("entry ", lost), func(t *testing.T) {
			disk := memstore.New(memstore.Options{})
			fill(t, onDisk(disk))
			damaged := func(context.Context) (epochs.Segments, error) {
				base, err := disk.Open()
				return lossy{base, lost}, err
			}
			c := catalogstore.New(damaged)
			for _, name := range []string{"a", "b", "unknown"} {
				q := open(t, c, name)
				if _, _, err := q.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
					t.Errorf("%s: got %v, want ErrDamaged", name, err)
				}
				if err := q.Commit(t.Context(), 2, 3, nil); !errors.Is(err, epochs.ErrDamaged) {
					t.Errorf("%s: commit: got %v, want ErrDamaged", name, err)
				}
				ok(t, q.Close())
			}
			q := open(t, c, "b")
			list, _, _ := q.Committed(t.Context())
			to := list[len(list)-1].Epoch
			ok(t, q.Rewind(t.Context(), to))
			ok(t, c.Remove(t.Context(), "unknown"))
			for range 2 {
				if got := records(t, q); !slices.Equal(got, []messages.Epoch{to}) {
					t.Errorf("b went back to epoch %d and has %v", to, got)
				}
				if list, _, err := open(t, c, "unknown").Committed(t.Context()); err != nil || len(list) > 0 {
					t.Errorf("a query that starts anew: %v, %v", list, err)
				}
				if _, _, err := open(t, c, "a").Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
					t.Errorf("a was not settled: got %v, want ErrDamaged", err)
				}
				ok(t, c.Close())
				c = catalogstore.New(damaged)
				q = open(t, c, "b")
			}
			// The damage is not forgotten with the entry that was damaged.
			record := make([]byte, 2000)
			e := to
			for next := messages.Epoch(10); next < 1000; next++ {
				ok(t, q.Commit(t.Context(), e, next, record))
				ok(t, q.Drop(t.Context(), e, next))
				e = next
			}
			ok(t, c.Close())
			c = catalogstore.New(damaged)
			if _, _, err := open(t, c, "a").Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
				t.Errorf("a after the log has moved on: got %v, want ErrDamaged", err)
			}
			ok(t, c.Close())
		})
	}
}

// unfinished leaves what a process leaves that dies within an entry of more than
// 1 MB: its parts without the record.
func unfinished(t *testing.T, disk *memstore.Disk) {
	t.Helper()
	base, err := disk.Open()
	ok(t, err)
	_, highest, err := base.Committed(t.Context())
	ok(t, err)
	id := epochs.SegmentID{Group: epochs.OperatorGroup, Epoch: highest + 1}
	ok(t, base.Put(t.Context(), highest+1, []epochs.Segment{{SegmentID: id, Base: true, Data: []byte("part")}}))
	ok(t, base.Close())
}

// TestDamageBesideAnUnfinishedEntryCanBeSettled: the number of an entry that was
// never written is not that of one which was lost.
func TestDamageBesideAnUnfinishedEntryCanBeSettled(t *testing.T) {
	for lost := messages.Epoch(1); lost <= 4; lost++ {
		t.Run(fmt.Sprint("entry ", lost), func(t *testing.T) {
			disk := memstore.New(memstore.Options{})
			fill(t, onDisk(disk))
			damaged := func(context.Context) (epochs.Segments, error) {
				base, err := disk.Open()
				return lossy{base, lost}, err
			}
			unfinished(t, disk)
			c := catalogstore.New(damaged)
			q := open(t, c, "b")
			list, _, err := q.Committed(t.Context())
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Fatalf("got %v, want ErrDamaged", err)
			}
			ok(t, q.Rewind(t.Context(), list[0].Epoch))
			ok(t, c.Remove(t.Context(), "a"))
			for range 3 { // what is settled stays settled, though the entry stays damaged
				ok(t, c.Close())
				unfinished(t, disk)
				c = catalogstore.New(damaged)
				q = open(t, c, "b")
				if got := records(t, q); got[0] != list[0].Epoch {
					t.Errorf("b went back to epoch %d and has %v", list[0].Epoch, got)
				}
				if got := records(t, open(t, c, "a")); len(got) > 0 {
					t.Errorf("a starts anew and has %v", got)
				}
			}
			ok(t, oneMore(t.Context(), q))
			ok(t, c.Close())
		})
	}
}

// TestAnEntryThatMakesNoSenseCanBeSettled: the newest record can be read, but not
// what is in it.
func TestAnEntryThatMakesNoSenseCanBeSettled(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	fill(t, onDisk(disk))
	base, err := disk.Open()
	ok(t, err)
	ok(t, base.Commit(t.Context(), 4, 5, nil))
	ok(t, base.Close())
	unfinished(t, disk)
	c := catalogstore.New(onDisk(disk))
	q := open(t, c, "a")
	if _, _, err := q.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	ok(t, q.Rewind(t.Context(), 2))
	ok(t, c.Close())
	c = catalogstore.New(onDisk(disk))
	if got := records(t, open(t, c, "a")); !slices.Equal(got, []messages.Epoch{2, 1}) {
		t.Errorf("a went back to epoch 2 and has %v", got)
	}
	if _, _, err := open(t, c, "b").Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("b was not settled: got %v, want ErrDamaged", err)
	}
	ok(t, c.Close())
}
