package connectortest

import (
	"context"
	"fmt"
	"sort"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// SinkCase describes a sink to Sink. The sink is given rows of schema (n
// bigint, s string): row n is (n, "row n").
type SinkCase struct {
	// New makes the sink. Each call stands for a new process that finds the same
	// outside system.
	New func(t testing.TB) connectors.Sink
	// Visible returns what a reader of the outside system sees, in any order; nil
	// when nobody can look, then only the calls are checked.
	Visible func(t testing.TB) [][]any
	// Reset prepares an empty outside system for the next run.
	Reset func(t testing.TB)
	// Offer is the pair of guarantee and visibility to hold the sink to.
	Offer connectors.Offer
}

// Schema is the schema of the rows given to sinks under test.
func (SinkCase) Schema() *messages.Schema {
	return messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)}, messages.Field{Name: "s", Type: messages.T(messages.String)})
}

// Sizes of a run: epochs of rowsPerEpoch rows, written in two batches by each
// of subtasks writers.
const (
	epochs       = 4
	rowsPerEpoch = 12
)

// Sink holds a sink to the contract of package connectors: it runs a query of
// a few epochs, and again with a crash behind every single call, after which a
// new attempt starts from the last commit record.
func Sink(t *testing.T, c SinkCase) {
	ignore := goleak.IgnoreCurrent()
	for _, parallelism := range []int{1, 2} {
		if parallelism > 1 && c.New(t).Traits().SingleWriter {
			continue
		}
		t.Run(fmt.Sprintf("%d writers", parallelism), func(t *testing.T) {
			calls := 0
			t.Run("a run without failure", func(t *testing.T) {
				e := c.start(t, parallelism)
				e.run(t, -1)
				calls = e.calls
				e.check(t)
			})
			for at := 1; at <= calls && !t.Failed(); at++ {
				t.Run(fmt.Sprintf("a crash behind call %d", at), func(t *testing.T) {
					e := c.start(t, parallelism)
					e.run(t, at)
					e.check(t)
				})
			}
			for at := 1; at <= calls && !t.Failed(); at += 5 {
				t.Run(fmt.Sprintf("crashes behind call %d and soon after", at), func(t *testing.T) {
					e := c.start(t, parallelism)
					e.run(t, at, 1, 2, 3, 4, 5, 6)
					e.check(t)
				})
			}
		})
	}
	t.Run("no goroutine is left", func(t *testing.T) { goleak.VerifyNone(t, ignore) })
}

// engine plays the part of the engine. Its record survives crashes.
type engine struct {
	c           SinkCase
	parallelism int
	calls       int // of the current attempt
	attempt     uint64
	last        string // the call last made, for messages

	// The commit record.
	epoch messages.Epoch
	token connectors.Token
	next  int // the first row that is not committed

	stash   Stash          // part of the commit record
	highest messages.Epoch // never reused
	closers []func() error
}

func (c SinkCase) start(t *testing.T, parallelism int) *engine {
	if c.Reset != nil {
		c.Reset(t)
	}
	return &engine{c: c, parallelism: parallelism}
}

// crashed ends an attempt.
type crashed struct{}

// run runs attempts until the query ends; attempt i crashes behind its call
// crashAt[i], later ones do not.
func (e *engine) run(t *testing.T, crashAt ...int) {
	t.Helper()
	for i := 0; ; i++ {
		at := -1
		if i < len(crashAt) {
			at = crashAt[i]
		}
		if e.try(t, at) {
			break
		}
	}
	for _, closeOld := range e.closers {
		if err := closeOld(); err != nil {
			t.Errorf("Close of a crashed attempt: %v", err)
		}
	}
}

func (e *engine) try(t *testing.T, crashAt int) (ended bool) {
	t.Helper()
	e.attempt++
	e.calls = 0
	var com connectors.Committer
	defer func() {
		if v := recover(); v != nil {
			if _, ok := v.(crashed); !ok {
				panic(v)
			}
			e.stash.Crash()
			if com != nil { // what a dead process held is released later: it must do no harm then
				e.closers = append(e.closers, com.Close)
			}
		}
	}()
	step := func(name string, err error) {
		t.Helper()
		e.last = name
		if err != nil {
			t.Fatalf("attempt %d: %s: %v", e.attempt, name, err)
		}
		e.calls++
		if e.calls == crashAt {
			panic(crashed{})
		}
	}
	ctx := t.Context()
	var err error
	com, err = e.c.New(t).Open(ctx, connectors.WriteRequest{
		Query: "q", Sink: "q/sink", Incarnation: messages.ID128{Hi: 0xabcdef0123456789, Lo: 42}, Attempt: e.attempt,
		Schema: e.c.Schema(), Offer: e.c.Offer, Stash: &e.stash,
	})
	step("Open", err)
	step("Recover", com.Recover(ctx, e.epoch, e.token))
	e.checkPublished(t, e.next)
	writers := make([]connectors.Writer, e.parallelism)
	for i := range writers {
		writers[i], err = com.Writer(ctx, i, e.parallelism)
		step("Writer", err)
	}
	e.epochs(t, com, writers, step)
	step("Close", com.Close())
	return true
}

// epochs runs the epochs that are left. Each is committed only after the next
// one was prepared, as the contract allows.
func (e *engine) epochs(t *testing.T, com connectors.Committer, writers []connectors.Writer, step func(string, error)) {
	t.Helper()
	ctx := t.Context()
	type pending struct {
		epoch messages.Epoch
		token connectors.Token
		next  int
	}
	var uncommitted *pending
	commit := func() {
		if uncommitted != nil {
			step("Commit", com.Commit(ctx, uncommitted.epoch, uncommitted.token))
			e.checkPublished(t, uncommitted.next)
			step("Commit again", com.Commit(ctx, uncommitted.epoch, uncommitted.token))
			uncommitted = nil
		}
	}
	for row := e.next; ; {
		final := row >= epochs*rowsPerEpoch
		end := min(row+rowsPerEpoch, epochs*rowsPerEpoch)
		e.write(t, writers, row, end, step)
		row = end
		e.highest++
		com.Begin(e.highest)
		tokens := make([]connectors.Token, len(writers))
		for i, w := range writers {
			flush, err := w.Cut(e.highest)
			step("Cut", err)
			if !final { // rows of the next epoch arrive before this one is flushed
				one := min(row+1, epochs*rowsPerEpoch)
				if i == 0 && one > row {
					e.write(t, writers[:1], row, one, step)
					row = one
				}
			}
			tokens[i], err = flush(ctx)
			step("Flush", err)
		}
		committed := row
		if !final && row > end {
			committed = end
		}
		token, err := com.Prepare(ctx, e.highest, tokens)
		e.checkPrefix(t) // there is no commit record yet
		step("Prepare", err)
		e.epoch, e.token, e.next = e.highest, append(connectors.Token(nil), token...), committed
		if token == nil {
			e.token = nil
		}
		e.stash.Commit(e.epoch)
		step("commit record", nil)
		commit()
		uncommitted = &pending{e.highest, e.token, e.next}
		e.checkPrefix(t)
		if final {
			commit()
			return
		}
	}
}

// write spreads the rows [from, to) over the writers, in two batches each.
func (e *engine) write(t *testing.T, writers []connectors.Writer, from, to int, step func(string, error)) {
	t.Helper()
	share := (to - from + 2*len(writers) - 1) / (2 * len(writers))
	for i := 0; from < to; i++ {
		end := min(from+share, to)
		b := messages.NewBuilder(e.c.Schema())
		var ids []messages.ID128
		for n := from; n < end; n++ {
			if err := format.AppendRow(b, row(n)); err != nil {
				t.Fatal(err)
			}
			if e.c.Offer == (connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.AtOnce}) {
				ids = append(ids, messages.ID128{Hi: 7, Lo: uint64(n)})
			}
		}
		batch := b.Finish()
		err := writers[i%len(writers)].Write(t.Context(), batch, ids)
		batch.Release()
		step("Write", err)
		from = end
	}
}

func row(n int) []any { return []any{int64(n), fmt.Sprintf("row %d", n)} }

// counts returns how often each row is visible.
func (e *engine) counts(t *testing.T) map[string]int {
	t.Helper()
	seen := map[string]int{}
	for _, r := range e.c.Visible(t) {
		seen[fmt.Sprintf("%v", r)]++
	}
	return seen
}

// check compares what is visible at the end with the guarantee.
func (e *engine) check(t *testing.T) {
	t.Helper()
	if e.c.Visible == nil {
		return
	}
	var want []string
	for n := range epochs * rowsPerEpoch {
		want = append(want, fmt.Sprintf("%v", row(n)))
	}
	var got []string
	for r, n := range e.counts(t) {
		if e.c.Offer.Guarantee == connectors.AtLeastOnce {
			n = min(n, 1)
		}
		for range n {
			got = append(got, r)
		}
	}
	sort.Strings(got)
	sort.Strings(want)
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("visible rows after the end (last call %s): got (-) differs from want (+):\n%s", e.last, diff)
	}
}

// checkPrefix makes sure that a sink per epoch shows nothing that is not
// committed.
func (e *engine) checkPrefix(t *testing.T) {
	t.Helper()
	if e.c.Visible == nil || e.c.Offer.Visibility != connectors.PerEpoch {
		return
	}
	for _, r := range e.c.Visible(t) {
		if n, ok := r[0].(int64); !ok || n >= int64(e.next) {
			t.Errorf("row %v is visible, but only rows before %d are committed", r, e.next)
		}
	}
}

// checkPublished makes sure that a sink that holds rows in the checkpoint shows
// those before row n, whose epochs it has been told to publish.
func (e *engine) checkPublished(t *testing.T, n int) {
	t.Helper()
	if e.c.Visible == nil || !e.stash.Used() {
		return
	}
	seen := e.counts(t)
	for i := range n {
		if seen[fmt.Sprintf("%v", row(i))] == 0 {
			t.Errorf("row %d is not visible when %s has returned, although its epoch has committed", i, e.last)
		}
	}
}

// Drain runs a committer with one writer through rows and ends it in good
// order, for tests that look at what a sink makes of particular rows.
func Drain(ctx context.Context, s connectors.Sink, q connectors.WriteRequest, batches ...*messages.Batch) error {
	stash := &Stash{}
	if q.Stash == nil {
		q.Stash = stash
	}
	com, err := s.Open(ctx, q)
	if err != nil {
		return err
	}
	if err := com.Recover(ctx, 0, nil); err != nil {
		return err
	}
	w, err := com.Writer(ctx, 0, 1)
	if err != nil {
		return err
	}
	for _, b := range batches {
		if err := w.Write(ctx, b, nil); err != nil {
			return err
		}
	}
	com.Begin(1)
	flush, err := w.Cut(1)
	if err != nil {
		return err
	}
	token, err := flush(ctx)
	if err != nil {
		return err
	}
	if token, err = com.Prepare(ctx, 1, []connectors.Token{token}); err != nil {
		return err
	}
	stash.Commit(1)
	if err := com.Commit(ctx, 1, token); err != nil {
		return err
	}
	return com.Close()
}
