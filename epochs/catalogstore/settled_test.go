package catalogstore_test

import (
	"context"
	"slices"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
)

// TestASettledQueryKeepsWhatFollows: the log moves on, and that the query was settled
// is written again behind records that have followed.
func TestASettledQueryKeepsWhatFollows(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	fill(t, onDisk(disk))
	damaged := func(context.Context) (epochs.Segments, error) {
		base, err := disk.Open()
		return lossy{base, 1}, err
	}
	c := catalogstore.New(damaged)
	a, b := open(t, c, "a"), open(t, c, "b")
	ok(t, a.Rewind(t.Context(), 2))
	ok(t, b.Rewind(t.Context(), 2))
	var want []messages.Epoch
	highest := messages.Epoch(0)
	e := messages.Epoch(2)
	for next := messages.Epoch(10); next < 600; next++ {
		ok(t, b.Drop(t.Context(), max(e, 3)-2, next))
		ok(t, b.Commit(t.Context(), e, next, make([]byte, 2000)))
		e = next
		if next == 100 { // and rests from then on
			ok(t, oneMore(t.Context(), a))
		}
		if next <= 100 {
			var err error
			want = records(t, a)
			_, highest, err = a.Committed(t.Context())
			ok(t, err)
		}
		ok(t, c.Close())
		c = catalogstore.New(damaged)
		a, b = open(t, c, "a"), open(t, c, "b")
		if got := records(t, a); !slices.Equal(got, want) {
			t.Fatalf("after epoch %d of b: a has %v, want %v", next, got, want)
		}
		if _, h, err := a.Committed(t.Context()); h != highest || err != nil {
			t.Fatalf("after epoch %d of b: the highest epoch of a is %d (%v), want %d", next, h, err, highest)
		}
		list, _, err := b.Committed(t.Context())
		if err != nil || len(list) < min(3, int(next)-9) || list[0].Epoch != e {
			t.Fatalf("after epoch %d of b: it has %d records (%v)", next, len(list), err)
		}
	}
	ok(t, c.Close())
}
