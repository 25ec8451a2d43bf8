package foreach_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/foreach"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// database is an outside system with transactions: rows and the last epoch of
// each partition change together.
type database struct {
	mu   sync.Mutex
	rows [][]any
	last map[int]messages.Epoch
}

type transaction struct {
	db        *database
	partition int
	epoch     messages.Epoch
	rows      [][]any
}

func (x *transaction) Open(partition int, epoch messages.Epoch) (bool, error) {
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	x.partition, x.epoch, x.rows = partition, epoch, nil
	return x.db.last[partition] < epoch, nil
}

func (x *transaction) Process(r foreach.Row) error {
	x.rows = append(x.rows, r.Values())
	return nil
}

func (x *transaction) Close(err error) error {
	if err != nil || x.rows == nil {
		return nil
	}
	x.db.mu.Lock()
	defer x.db.mu.Unlock()
	x.db.rows = append(x.db.rows, x.rows...)
	x.db.last[x.partition] = max(x.db.last[x.partition], x.epoch)
	return nil
}

func TestContract(t *testing.T) {
	for _, offer := range foreach.NewSink(nil).Traits().Guarantees {
		t.Run(offer.Guarantee.String()+" "+offer.Visibility.String(), func(t *testing.T) {
			db := &database{last: map[int]messages.Epoch{}}
			connectortest.Sink(t, connectortest.SinkCase{
				New: func(testing.TB) connectors.Sink {
					return foreach.NewSink(func() foreach.Writer {
						x := &transaction{db: db}
						if offer.Visibility == connectors.AtOnce {
							x.db = &database{last: map[int]messages.Epoch{}} // remembers nothing
							return &forwarder{x, db}
						}
						return x
					})
				},
				Visible: func(testing.TB) [][]any {
					db.mu.Lock()
					defer db.mu.Unlock()
					return append([][]any{}, db.rows...)
				},
				Reset: func(testing.TB) { db = &database{last: map[int]messages.Epoch{}} },
				Offer: offer,
			})
		})
	}
}

// forwarder writes each row at once.
type forwarder struct {
	*transaction
	db *database
}

func (f *forwarder) Process(r foreach.Row) error {
	f.db.mu.Lock()
	defer f.db.mu.Unlock()
	f.db.rows = append(f.db.rows, r.Values())
	return nil
}

// recorder notes the calls it gets.
type recorder struct {
	calls   []string
	skip    bool
	failAt  string // the call that fails
	panicAt string
}

func (r *recorder) note(call string) error {
	r.calls = append(r.calls, call)
	if call == r.panicAt {
		panic("out of ideas")
	}
	if call == r.failAt {
		return errors.New("out of space")
	}
	return nil
}

func (r *recorder) Open(partition int, epoch messages.Epoch) (bool, error) {
	return !r.skip, r.note(fmt.Sprintf("open %d/%d", partition, epoch))
}

func (r *recorder) Process(row foreach.Row) error {
	return r.note(fmt.Sprintf("process %v", row.Value(0)))
}

func (r *recorder) Close(err error) error { return r.note(fmt.Sprintf("close %v", err != nil)) }

func batch(t *testing.T, numbers ...int) *messages.Batch {
	t.Helper()
	b := messages.NewBuilder(connectortest.SinkCase{}.Schema())
	for _, n := range numbers {
		if err := format.AppendRow(b, []any{n, ""}); err != nil {
			t.Fatal(err)
		}
	}
	return b.Finish()
}

func open(t *testing.T, r *recorder, offer connectors.Offer, e messages.Epoch) (connectors.Committer, connectors.Writer) {
	t.Helper()
	com, err := foreach.NewSink(func() foreach.Writer { return r }).Open(t.Context(), connectors.WriteRequest{Schema: connectortest.SinkCase{}.Schema(), Offer: offer, Stash: &connectortest.Stash{}})
	if err != nil {
		t.Fatal(err)
	}
	if err := com.Recover(t.Context(), e, nil); err != nil {
		t.Fatal(err)
	}
	w, err := com.Writer(t.Context(), 3, 4)
	if err != nil {
		t.Fatal(err)
	}
	return com, w
}

func TestCallsAtOnce(t *testing.T) {
	for _, tc := range []struct {
		name string
		rec  recorder
		want []string
		err  string
	}{
		{"sets of rows", recorder{}, []string{"open 3/8", "process 1", "process 2", "close false", "open 3/9", "process 3", "close false"}, ""},
		{"a set that is not wanted", recorder{skip: true}, []string{"open 3/8", "close false", "open 3/9", "close false"}, ""},
		{"open fails", recorder{failAt: "open 3/8"}, []string{"open 3/8", "close true"}, "foreach sink: open: out of space"},
		{"process fails", recorder{failAt: "process 1"}, []string{"open 3/8", "process 1", "close true"}, "foreach sink: process a row: out of space"},
		{"process panics", recorder{panicAt: "process 2"}, []string{"open 3/8", "process 1", "process 2", "close true"}, "foreach sink: process a row: panic: out of ideas"},
		{"close fails", recorder{failAt: "close false"}, []string{"open 3/8", "process 1", "process 2", "close false"}, "foreach sink: close: out of space"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			com, w := open(t, &tc.rec, connectors.Offer{}, 7)
			err := func() error {
				if err := w.Write(t.Context(), batch(t, 1, 2), nil); err != nil {
					return err
				}
				for e := messages.Epoch(8); e <= 10; e++ {
					flush, err := w.Cut(e)
					if err != nil {
						return err
					}
					if e == 8 { // rows of the next epoch come before the flush
						if err := w.Write(t.Context(), batch(t, 3), nil); err != nil {
							return err
						}
					}
					if _, err := flush(t.Context()); err != nil {
						return err
					}
				}
				return nil
			}()
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("got error %v, want %q", err, tc.err)
			}
			if err != nil && fault.KindOf(err) != fault.Restart {
				t.Errorf("got kind %v, want restart", fault.KindOf(err))
			}
			if err := com.Close(); err != nil {
				t.Errorf("Close: %v", err)
			}
			if diff := cmp.Diff(tc.rec.calls, tc.want); diff != "" {
				t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
			}
		})
	}
}

func TestCloseIsCalledWhenTheAttemptEnds(t *testing.T) {
	var r recorder
	com, w := open(t, &r, connectors.Offer{}, 0)
	if err := w.Write(t.Context(), batch(t, 1), nil); err != nil {
		t.Fatal(err)
	}
	if err := com.Close(); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.calls, []string{"open 3/1", "process 1", "close true"}); diff != "" {
		t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
	}
}

func TestPerEpochRowsWaitForTheCommit(t *testing.T) {
	r := recorder{}
	com, w := open(t, &r, connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}, 7)
	if err := w.Write(t.Context(), batch(t, 1, 2), []messages.ID128{{Lo: 1}, {Lo: 2}}); err != nil {
		t.Fatal(err)
	}
	flush, err := w.Cut(8)
	if err != nil {
		t.Fatal(err)
	}
	token, err := flush(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if token, err = com.Prepare(t.Context(), 8, []connectors.Token{token, nil}); err != nil {
		t.Fatal(err)
	}
	if len(r.calls) != 0 {
		t.Errorf("got calls %q before the commit, want none", r.calls)
	}
	r.failAt = "close false"
	if err := com.Commit(t.Context(), 8, token); err == nil {
		t.Error("the error of Close got lost")
	}
	r.failAt = ""
	for range 2 {
		if err := com.Commit(t.Context(), 8, token); err != nil {
			t.Fatal(err)
		}
	}
	set := []string{"open 3/8", "process 1", "process 2", "close false"}
	if diff := cmp.Diff(r.calls, append(set, set...)); diff != "" {
		t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
	}
}

// heldSince runs a sink per epoch up to the commit record of epoch 1, whose rows
// nobody has been told of, and returns its token.
func heldSince(t *testing.T, r *recorder, stash *connectortest.Stash, keys []int, batches ...*messages.Batch) connectors.Token {
	t.Helper()
	com, err := foreach.NewSink(func() foreach.Writer { return r }).Open(t.Context(), connectors.WriteRequest{
		Schema: connectortest.SinkCase{}.Schema(), Offer: connectors.Offer{Visibility: connectors.PerEpoch}, Stash: stash, KeyColumns: keys,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := com.Recover(t.Context(), 0, nil); err != nil {
		t.Fatal(err)
	}
	var tokens []connectors.Token
	for i, b := range batches {
		w, err := com.Writer(t.Context(), i, len(batches))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.Write(t.Context(), b, nil); err != nil {
			t.Fatal(err)
		}
		flush, err := w.Cut(1)
		if err != nil {
			t.Fatal(err)
		}
		token, err := flush(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		tokens = append(tokens, token)
	}
	token, err := com.Prepare(t.Context(), 1, tokens)
	if err != nil {
		t.Fatal(err)
	}
	stash.Commit(1)
	return token
}

func TestHeldRowsAreHandedOverByTheNextAttempt(t *testing.T) {
	for _, visibility := range []connectors.Visibility{connectors.PerEpoch, connectors.AtOnce} { // the option may have changed
		var r recorder
		stash := &connectortest.Stash{}
		token := heldSince(t, &r, stash, nil, batch(t, 1, 2), batch(t, 3))
		com, err := foreach.NewSink(func() foreach.Writer { return &r }).Open(t.Context(), connectors.WriteRequest{
			Schema: connectortest.SinkCase{}.Schema(), Offer: connectors.Offer{Visibility: visibility}, Stash: stash, Attempt: 2,
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(r.calls) != 0 {
			t.Errorf("%v: got calls %q before Recover, want none", visibility, r.calls)
		}
		if err := com.Recover(t.Context(), 1, token); err != nil {
			t.Fatal(err)
		}
		want := []string{"open 0/1", "process 1", "process 2", "close false", "open 1/1", "process 3", "close false"}
		if diff := cmp.Diff(r.calls, want); diff != "" {
			t.Errorf("%v: calls: got (-) differs from want (+):\n%s", visibility, diff)
		}
		if err := com.Recover(t.Context(), 1, connectors.Token("[]")); fault.KindOf(err) != fault.Config {
			t.Errorf("%v: the token of another sink: got %v, want an error of kind config", visibility, err)
		}
	}
}

func TestHeldRowsOfAKeyAreTheLastOne(t *testing.T) {
	var r recorder
	stash := &connectortest.Stash{}
	token := heldSince(t, &r, stash, []int{0}, batch(t, 1, 2, 1, 3, 2, 1))
	com, err := foreach.NewSink(func() foreach.Writer { return &r }).Open(t.Context(), connectors.WriteRequest{
		Schema: connectortest.SinkCase{}.Schema(), Offer: connectors.Offer{Visibility: connectors.PerEpoch}, Stash: stash, KeyColumns: []int{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := com.Recover(t.Context(), 1, token); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.calls, []string{"open 0/1", "process 3", "process 2", "process 1", "close false"}); diff != "" {
		t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
	}
}

// TestAPartitionThatHasItsRowsDoesNotGetThemAgain has one of two partitions fail
// for a passing reason.
func TestAPartitionThatHasItsRowsDoesNotGetThemAgain(t *testing.T) {
	var r recorder
	stash := &connectortest.Stash{}
	token := heldSince(t, &r, stash, nil, batch(t, 1), batch(t, 2))
	com, err := foreach.NewSink(func() foreach.Writer { return &r }).Open(t.Context(), connectors.WriteRequest{
		Schema: connectortest.SinkCase{}.Schema(), Offer: connectors.Offer{Visibility: connectors.PerEpoch}, Stash: stash,
	})
	if err != nil {
		t.Fatal(err)
	}
	r.failAt = "process 2"
	if err := com.Recover(t.Context(), 1, token); err == nil {
		t.Error("the error of Process got lost")
	}
	r.failAt, r.calls = "", nil
	if err := com.Commit(t.Context(), 1, token); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(r.calls, []string{"open 1/1", "process 2", "close false"}); diff != "" {
		t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
	}
}
