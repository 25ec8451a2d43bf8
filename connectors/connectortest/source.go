package connectortest

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
)

// patience is how long a call that should return at once may take.
const patience = 10 * time.Second

// SourceCase describes a source to Source.
type SourceCase struct {
	// New makes the source. Each call stands for a new process that finds the same
	// data outside.
	New func(t testing.TB) connectors.Source
	// Decoder makes a decoder; nil for sources without a format.
	Decoder func(t testing.TB) format.Decoder
	// Want is what each partition holds, in order; see format.ValueAt.
	Want map[string][][]any
	// Bad is how many records of each partition are bad, if any.
	Bad map[string]int
	// Endless says that there is always more to come, so that the source need
	// not get to a point where Read blocks.
	Endless bool
}

// Source holds a source to the contract of package connectors.
func Source(t *testing.T, c SourceCase) {
	ignore := goleak.IgnoreCurrent()
	t.Run("lists the partitions", func(t *testing.T) {
		names, err := c.New(t).Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range names {
			if _, ok := c.Want[n]; !ok {
				t.Errorf("there is a partition %q that is not wanted", n)
			}
		}
		if len(names) != len(c.Want) {
			t.Errorf("got partitions %q, want %d", names, len(c.Want))
		}
	})
	for p := range c.Want {
		t.Run(fmt.Sprintf("partition %q", p), func(t *testing.T) {
			t.Run("a bounded read gives every row in order and ends", func(t *testing.T) { c.bounded(t, p) })
			t.Run("the batch size does not matter", func(t *testing.T) { c.sizes(t, p) })
			if c.New(t).Traits().Replayable {
				t.Run("every offset resumes with the rest and the same identities", func(t *testing.T) { c.resumes(t, p) })
			}
			t.Run("an unbounded read reports that it has caught up", func(t *testing.T) { c.catchesUp(t, p) })
			if !c.Endless {
				t.Run("a blocked read returns when its context ends", func(t *testing.T) { c.cancels(t, p) })
			}
			t.Run("a reader that never read can be closed", func(t *testing.T) {
				r := c.open(t, connectors.ReadRequest{Partition: p, MaxRows: 10})
				if err := r.Close(); err != nil {
					t.Errorf("Close: %v", err)
				}
			})
		})
	}
	t.Run("no goroutine is left", func(t *testing.T) { goleak.VerifyNone(t, ignore) })
}

func (c SourceCase) open(t *testing.T, q connectors.ReadRequest) *Collector {
	t.Helper()
	var d format.Decoder
	if c.Decoder != nil {
		d = c.Decoder(t)
	}
	policy := connectors.FailOnError
	if c.Bad != nil {
		policy = connectors.DropOnError
	}
	r, err := Open(t.Context(), c.New(t), q, d, policy)
	if err != nil {
		t.Fatalf("Open(%+v): %v", q, err)
	}
	return r
}

// readAll reads a bounded partition to its end.
func (c SourceCase) readAll(t *testing.T, q connectors.ReadRequest) *Collector {
	t.Helper()
	q.Bounded = true
	r := c.open(t, q)
	defer closeReader(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := r.ReadAll(ctx); err != nil {
		t.Fatalf("Read from %q: %v", q.From, err)
	}
	return r
}

func closeReader(t *testing.T, r *Collector) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
}

func (c SourceCase) bounded(t *testing.T, p string) {
	r := c.readAll(t, connectors.ReadRequest{Partition: p, MaxRows: 1024})
	if diff := cmp.Diff(r.Rows(), c.want(p)); diff != "" {
		t.Errorf("rows: got (-) differs from want (+):\n%s", diff)
	}
	if got, want := len(r.Bad), c.Bad[p]; got != want {
		t.Errorf("got %d bad records, want %d", got, want)
	}
	for i, rec := range r.Records {
		if i > 0 && rec.Base == r.Records[i-1].Base && (rec.A < r.Records[i-1].A || rec.A == r.Records[i-1].A && rec.B <= r.Records[i-1].B) {
			t.Errorf("row %d has position %d/%d behind %d/%d; positions must grow", i, rec.A, rec.B, r.Records[i-1].A, r.Records[i-1].B)
		}
	}
}

func (c SourceCase) want(p string) [][]any {
	if c.Want[p] == nil {
		return [][]any{}
	}
	return c.Want[p]
}

func (c SourceCase) sizes(t *testing.T, p string) {
	for _, n := range []int{1, 3} {
		r := c.readAll(t, connectors.ReadRequest{Partition: p, MaxRows: n})
		if diff := cmp.Diff(r.Rows(), c.want(p)); diff != "" {
			t.Errorf("MaxRows %d: got (-) differs from want (+):\n%s", n, diff)
		}
	}
}

func (c SourceCase) resumes(t *testing.T, p string) {
	all := c.readAll(t, connectors.ReadRequest{Partition: p, MaxRows: 1})
	for i, from := range all.Offsets {
		rest := c.readAll(t, connectors.ReadRequest{Partition: p, MaxRows: 2, From: from})
		want := all.Records[all.Counts[i]:]
		if len(rest.Records) == 0 && len(want) == 0 {
			continue
		}
		if diff := cmp.Diff(rest.Records, want); diff != "" {
			t.Fatalf("resumed from %s: got (-) differs from want (+):\n%s", from, diff)
		}
	}
}

func (c SourceCase) catchesUp(t *testing.T, p string) {
	r := c.open(t, connectors.ReadRequest{Partition: p, MaxRows: 1024})
	defer closeReader(t, r)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err := r.ReadUntil(ctx, func(r *Collector) bool {
		return len(r.Records) >= len(c.Want[p]) && (c.Endless || r.Status.State == connectors.CaughtUp)
	})
	if err != nil {
		t.Fatalf("after %d of %d rows, status %+v: %v", len(r.Records), len(c.Want[p]), r.Status, err)
	}
}

func (c SourceCase) cancels(t *testing.T, p string) {
	r := c.open(t, connectors.ReadRequest{Partition: p, MaxRows: 1024})
	defer closeReader(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		var err error
		for err == nil {
			err = r.Read(ctx)
		}
		done <- err
	}()
	cancel()
	select {
	case err := <-done:
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want context.Canceled", err)
		}
	case <-time.After(patience):
		t.Fatal("Read still blocks after its context has ended")
	}
}
