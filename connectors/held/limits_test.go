package held_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// large is a row of 1 KiB.
func large(t *testing.T, n int) *messages.Batch {
	return batch(t, schema, []any{strings.Repeat("x", 1024), n})
}

func TestWriteWaitsForTheEpochThatIsCut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, held.Config{Limit: 20 << 10}, 1)
		for i := range 30 { // over the limit: nothing is cut, so nothing would end the wait
			write(t, w.writer[0], large(t, i))
		}
		w.end(t, 1)
		written := make(chan error, 1)
		go func() { written <- w.writer[0].Write(t.Context(), large(t, 30), nil) }()
		synctest.Wait()
		select {
		case err := <-written:
			t.Fatalf("Write returned %v although more than the limit waits to be published", err)
		default:
		}
		w.rows.Confirm(1)
		if err := <-written; err != nil {
			t.Fatal(err)
		}
		w.end(t, 2)
		write(t, w.writer[0], large(t, 31)) // 1 KiB is cut
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 30 { // one of them waits
			go func() { written <- w.writer[0].Write(ctx, large(t, i), nil) }()
			synctest.Wait()
			if len(written) == 0 {
				cancel()
				if err := <-written; !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want that the context has ended", err)
				}
				return
			}
			if err := <-written; err != nil {
				t.Fatal(err)
			}
		}
		cancel()
		t.Error("30 KiB beside a cut epoch do not reach the limit of 20 KiB")
	})
}

func TestAnEarlyEpochIsAskedForAtHalfOfALimit(t *testing.T) {
	for name, tc := range map[string]struct {
		cfg  held.Config
		want int // rows of 1 KiB until it is asked for, about
	}{
		"bytes of a writer": {held.Config{Limit: 20 << 10}, 10},
		"bytes of an epoch": {held.Config{MaxBytes: 40 << 10}, 20},
		"rows of an epoch":  {held.Config{MaxRows: 12}, 7},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, tc.cfg, 2)
			for e := range messages.Epoch(2) {
				n := 0
				for w.asked == int(e) && n < 100 {
					write(t, w.writer[0], large(t, n))
					n++
				}
				if n < tc.want-1 || n > tc.want {
					t.Errorf("epoch %d: asked after %d rows, want about %d", e+1, n, tc.want)
				}
				for range 3 {
					write(t, w.writer[0], large(t, n))
				}
				if w.asked != int(e)+1 {
					t.Errorf("asked %d times in one epoch", w.asked-int(e))
				}
				w.end(t, e+1)
				w.rows.Confirm(e + 1)
			}
		})
	}
}

func TestAnEpochThatIsTooLargeFailsTheQuery(t *testing.T) {
	w := newWorld(t, held.Config{MaxBytes: 1 << 20}, 2)
	for i := range 2000 {
		err := w.writer[i%2].Write(t.Context(), large(t, i), nil)
		if err == nil {
			continue
		}
		if i < 900 || i > 1024 || fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "test sink: the rows of one epoch take more than 1 MiB") {
			t.Errorf("row %d: got %v (%v), want an error of kind config behind about 1000 rows", i, err, fault.KindOf(err))
		}
		return
	}
	t.Error("2 MB are held, the limit is 1 MB")
}

func TestAnEpochOfTooManyRowsFailsTheQuery(t *testing.T) {
	w := newWorld(t, held.Config{MaxRows: 2}, 2)
	write(t, w.writer[0], large(t, 1))
	write(t, w.writer[1], batch(t, schema, []any{"a", 1}, []any{"a", 2}))
	var tokens []connectors.Token
	for _, wr := range w.writer {
		flush, err := wr.Cut(1)
		if err != nil {
			t.Fatal(err)
		}
		token, err := flush(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	if _, err := w.rows.Prepare(1, tokens); fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "epoch 1 has 3 rows, and the sink can publish 2 at once") {
		t.Errorf("got %v, want an error of kind config", err)
	}
}

func TestUpdatesOfTheSameKeysTakeNoMoreMemory(t *testing.T) {
	w := newWorld(t, held.Config{MaxBytes: 8 << 20, Request: connectors.WriteRequest{KeyColumns: []int{0}}}, 1)
	for i := range 50_000 { // 50 MB of rows, one key
		write(t, w.writer[0], large(t, i))
	}
	w.end(t, 1)
	if rows := w.replay(t.Context(), t, 1); len(rows) != 1 || rows[0].Values[1] != int64(49_999) {
		t.Errorf("got %d rows, want the last one", len(rows))
	}
}
