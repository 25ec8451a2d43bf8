package deploy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var schema = messages.NewSchema(messages.Field{Name: "v", Type: messages.T(messages.BigInt)})

// flaky fails with the given error for each row of value bad, as long as left
// is positive.
type flaky struct {
	left   *atomic.Int32
	err    error
	panics bool
	// opening, if not nil, holds Open up until it is closed.
	opening chan struct{}
}

func (o *flaky) Open(*operator.Task) error {
	if o.opening != nil {
		<-o.opening
	}
	return nil
}
func (o *flaky) Close() error { return nil }

func (o *flaky) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	for i := range b.Rows() {
		if b.Column(0).Int64s()[b.Row(i)] == bad && o.left.Add(-1) >= 0 {
			if o.panics {
				panic(o.err)
			}
			return false, o.err
		}
	}
	b.Retain(1)
	out.Emit(b)
	return false, nil
}

const bad = 13

// world is a query over a memory source and sink with a store that survives.
type world struct {
	src      *memory.Source
	sink     *memory.Sink
	disk     *memstore.Disk
	attempts uint64
	fail     flaky
	sys      *actors.System
	check    func(epochs.Plan) error
	wrap     func(epochs.Segments) epochs.Segments
	restore  messages.Epoch
	accept   bool // AcceptDuplicates
	offer    connectors.Offer
	allow    bool // AllowDroppedState
	log      io.Writer
}

func newWorld(t *testing.T, failures int32, err error) *world {
	t.Helper()
	w := &world{
		src: memory.NewSource(schema), sink: memory.NewSink(), disk: memstore.New(memstore.Options{}),
		sys: actors.NewSystem(actors.SystemConfig{}), log: io.Discard, fail: flaky{left: &atomic.Int32{}, err: err},
	}
	w.fail.left.Store(failures)
	w.offer.Guarantee = connectors.ExactlyOnce
	t.Cleanup(w.sys.Close)
	return w
}

func (w *world) start(t *testing.T, maxRestarts int) *Runner {
	t.Helper()
	cfg := w.config()
	cfg.Restart.MaxRestarts = maxRestarts
	r := New(t.Context(), cfg)
	r.Start()
	return r
}

func (w *world) config() Config {
	return Config{
		System: w.sys, Query: "q", CheckPlan: w.check, Log: slog.New(slog.NewTextHandler(w.log, nil)),
		OpenStore: func(context.Context) (epochs.Segments, error) {
			s, err := w.disk.Open()
			if err == nil && w.wrap != nil {
				s = w.wrap(s)
			}
			return s, err
		},
		RestoreEpoch: w.restore, AcceptDuplicates: w.accept,
		Attempt: actors.AttemptConfig{AllowDroppedState: w.allow},
		NextAttempt: func(*epochs.Record) (uint64, messages.ID128, error) {
			w.attempts++
			return w.attempts, messages.ID128{Lo: 1}, nil
		},
		Graph: func() (*actors.Graph, error) {
			g := actors.NewGraph()
			src := g.Source("src", actors.SourceSpec{Source: w.src, Rows: func() (*connectors.Rows, error) {
				return connectors.NewRows(schema, nil, connectors.FailOnError), nil
			}})
			op := g.Operator("op", 0, func() operator.Operator { o := w.fail; return &o }, actors.Forward(src))
			g.Sink("out", actors.SinkSpec{Sink: w.sink, Schema: schema, Lineage: true, Offer: w.offer}, actors.Forward(op))
			return g, nil
		},
		Restart: RestartPolicy{MinDelay: time.Millisecond},
	}
}

func (w *world) add(t *testing.T, values ...int64) {
	t.Helper()
	for _, v := range values {
		if err := w.src.Add([]any{v}); err != nil {
			t.Fatal(err)
		}
	}
}

func over(t *testing.T, r *Runner) {
	t.Helper()
	select {
	case <-r.Done():
	case <-t.Context().Done():
		t.Fatal("the query is not over")
	}
}

func TestTheQueryRestartsAfterAPassingFailure(t *testing.T) {
	for name, err := range map[string]error{
		"an unknown error":      errors.New("never seen before"),
		"a restartable failure": fault.New(fault.Restart, "lost the connection"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 2, err)
			w.add(t, 1, bad, 2)
			w.src.End()
			r := w.start(t, 0)
			over(t, r)
			if r.State() != Ended || r.Err() != nil {
				t.Fatalf("got state %s with error %v, want ended", r.State(), r.Err())
			}
			if d := cmp.Diff([][]any{{int64(1)}, {int64(bad)}, {int64(2)}}, w.sink.Rows()); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			if r.Restarts() != 2 {
				t.Errorf("got %d restarts, want 2", r.Restarts())
			}
		})
	}
}

func TestFailuresThatARestartCannotCure(t *testing.T) {
	for name, err := range map[string]error{
		"a bad row":             fault.New(fault.BadRow, "division by zero"),
		"a configuration fault": fault.New(fault.Config, "no such stream"),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, 1<<30, err)
			w.add(t, 1, bad)
			r := w.start(t, 0)
			over(t, r)
			if r.State() != Failed || !errors.Is(r.Err(), err) {
				t.Errorf("got state %s with %v, want failed with %v", r.State(), r.Err(), err)
			}
			if r.Restarts() != 0 {
				t.Errorf("got %d restarts, want none", r.Restarts())
			}
		})
	}
}

func TestRestartsWithoutProgressEnd(t *testing.T) {
	w := newWorld(t, 1<<30, errors.New("always"))
	w.add(t, bad)
	r := w.start(t, 3)
	over(t, r)
	if r.State() != Failed || r.Restarts() != 3 {
		t.Errorf("got state %s after %d restarts, want failed after 3", r.State(), r.Restarts())
	}
}

// TestAFullDiskIsWaitedFor: what a sink writes fits again one day.
func TestAFullDiskIsWaitedFor(t *testing.T) {
	full := &os.PathError{Op: "write", Path: "part-1", Err: syscall.ENOSPC}
	w := newWorld(t, 20, fault.Wrap(fault.Restart, full, "file sink out: write"))
	w.add(t, 1, bad, 2)
	w.src.End()
	cfg := w.config()
	cfg.Restart = RestartPolicy{MaxRestarts: 3, MinDelay: time.Millisecond, MaxDelay: time.Millisecond}
	r := New(t.Context(), cfg)
	r.Start()
	over(t, r)
	if r.State() != Ended || r.Restarts() != 20 {
		t.Errorf("got state %s after %d restarts (%v), want ended after 20", r.State(), r.Restarts(), r.Err())
	}
	if d := cmp.Diff([][]any{{int64(1)}, {int64(bad)}, {int64(2)}}, w.sink.Rows()); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func TestADrainBetweenTwoAttemptsIsAFailure(t *testing.T) {
	for name, c := range map[string]struct {
		stop func(*Runner)
		want State
	}{
		"a drain has to commit what was read": {(*Runner).Drain, Failed},
		"a stop does not":                     {(*Runner).Stop, Stopped},
	} {
		t.Run(name, func(t *testing.T) {
			cause := errors.New("always")
			w := newWorld(t, 1<<30, cause)
			w.add(t, bad)
			cfg := w.config()
			cfg.Restart.MinDelay, cfg.Restart.MaxDelay = time.Hour, time.Hour
			restarting := make(chan struct{})
			cfg.OnState = func(s State, _ string) {
				if s == Restarting {
					close(restarting)
				}
			}
			r := New(t.Context(), cfg)
			r.Start()
			<-restarting
			c.stop(r)
			over(t, r)
			if r.State() != c.want || errors.Is(r.Err(), cause) != (c.want == Failed) {
				t.Errorf("got state %s with %v, want %s", r.State(), r.Err(), c.want)
			}
		})
	}
}

func TestADrainedQueryGoesOnWhereItStopped(t *testing.T) {
	w := newWorld(t, 0, nil)
	w.add(t, 1, 2)
	r := w.start(t, 0)
	epoch(t, r)
	r.Drain()
	over(t, r)
	if r.State() != Stopped {
		t.Fatalf("got state %s, want stopped", r.State())
	}
	w.add(t, 3)
	w.src.End()
	r = w.start(t, 0)
	over(t, r)
	if r.From() == 0 {
		t.Error("the second run did not go on from a checkpoint")
	}
	if d := cmp.Diff([][]any{{int64(1)}, {int64(2)}, {int64(3)}}, w.sink.Rows()); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}

func epoch(t *testing.T, r *Runner) {
	t.Helper()
	done := make(chan error, 1)
	r.RequestEpoch(func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestACheckpointThatDoesNotFitIsRefused(t *testing.T) {
	w := newWorld(t, 0, nil)
	w.add(t, 1)
	r := w.start(t, 0)
	epoch(t, r)
	r.Stop()
	over(t, r)
	w.check = func(epochs.Plan) error { return errors.New("the keys changed") }
	r = w.start(t, 0)
	over(t, r)
	if r.State() != Failed || !errors.Is(r.Err(), ErrIncompatible) {
		t.Errorf("got state %s with %v, want ErrIncompatible", r.State(), r.Err())
	}
}

func TestRowsOfASinkThatIsGoneAreNotGivenUpUnasked(t *testing.T) {
	w := newWorld(t, 0, nil)
	store, err := w.disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	rec := &epochs.Record{Epoch: 1, Attempt: 1, Query: "q", Chains: []epochs.Chain{{Operator: "sink/former/1", Base: 1, Last: 1, Segments: 1, BaseBytes: 5}}}
	data, err := epochs.EncodeRecord(rec)
	if err == nil {
		err = errors.Join(store.Commit(t.Context(), 0, 1, data), store.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	r := w.start(t, 0)
	over(t, r)
	if r.State() != Failed || !errors.Is(r.Err(), ErrIncompatible) || !errors.Is(r.Err(), actors.ErrUnpublished) {
		t.Errorf("got state %s with %v, want ErrIncompatible", r.State(), r.Err())
	}
	w.allow = true
	w.add(t, 1)
	w.src.End()
	r = w.start(t, 0)
	over(t, r)
	if r.State() != Ended {
		t.Errorf("got state %s with %v, want ended", r.State(), r.Err())
	}
}

// halfStore has a damaged record after a given epoch.
type halfStore struct {
	epochs.Segments
	whole messages.Epoch
}

func (s *halfStore) Committed(ctx context.Context) ([]epochs.StoredRecord, messages.Epoch, error) {
	all, highest, err := s.Segments.Committed(ctx)
	for i, r := range all {
		if r.Epoch <= s.whole {
			if i > 0 {
				err = errors.Join(err, epochs.ErrDamaged)
			}
			return all[i:], highest, err
		}
	}
	return nil, highest, epochs.ErrDamaged
}

// damagedWorld has committed epochs of two rows; those behind the returned one are
// damaged.
func damagedWorld(t *testing.T) (*world, messages.Epoch) {
	t.Helper()
	w := newWorld(t, 0, nil)
	r := w.start(t, 0)
	for n := range 2 {
		w.add(t, int64(n))
		for len(w.sink.Rows()) <= n {
			epoch(t, r)
		}
		epoch(t, r) // behind what has been seen
	}
	r.Stop()
	over(t, r)
	records, err := w.records(t)
	if err != nil {
		t.Fatal(err)
	}
	whole := records[1].Epoch
	w.wrap = func(s epochs.Segments) epochs.Segments { return &halfStore{s, whole} }
	return w, whole
}

// wentBack expects that the query goes on from an epoch, and that the newer ones
// are forgotten.
func (w *world) wentBack(t *testing.T, whole messages.Epoch) {
	t.Helper()
	r := w.start(t, 0)
	epoch(t, r)
	if got := r.From(); got != whole {
		t.Errorf("went on from epoch %d, want %d", got, whole)
	}
	r.Stop()
	over(t, r)
	w.restore, w.wrap = 0, nil
	records, err := w.records(t)
	if err != nil {
		t.Fatal(err)
	}
	for _, rec := range records {
		if rec.Epoch > whole && rec.Epoch < records[0].Epoch {
			t.Errorf("epoch %d is still there", rec.Epoch)
		}
	}
}

func TestAfterDamageTheQueryGoesBackByItselfIfNothingCanComeOutWrong(t *testing.T) {
	for what, offer := range map[string]connectors.Offer{
		"at least once": {}, "lineage": {Guarantee: connectors.ExactlyOnce}, "upsert": {Guarantee: connectors.Converges},
	} {
		t.Run(what, func(t *testing.T) {
			w, whole := damagedWorld(t)
			w.offer = offer
			w.wentBack(t, whole)
		})
	}
}

func TestAfterDamageRowsAreNotRepeatedUnasked(t *testing.T) {
	for what, c := range map[string]struct {
		change func(w *world)
		want   string
	}{
		"a sink per epoch": {func(w *world) {
			w.offer = connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}
		}, `sink "out" is exactly_once with visibility epoch`},
		"a transactional sink": {func(w *world) {
			w.offer = connectors.Offer{Guarantee: connectors.Transactional, Visibility: connectors.PerEpoch}
		}, `sink "out" is transactional`},
		"a source that has forgotten": {func(w *world) { w.src = memory.NewSource(schema) }, `source "src", partition "0"`},
	} {
		t.Run(what, func(t *testing.T) {
			w, whole := damagedWorld(t)
			c.change(w)
			r := w.start(t, 0)
			over(t, r)
			if r.State() != Failed || !errors.Is(r.Err(), epochs.ErrDamaged) {
				t.Fatalf("got state %s with %v, want ErrDamaged", r.State(), r.Err())
			}
			flags := fmt.Sprintf("--restore-epoch q=%d --accept-duplicates", whole)
			for _, want := range []string{c.want, flags, fmt.Sprintf("epoch %d is whole", whole)} {
				if !strings.Contains(r.Err().Error(), want) {
					t.Errorf("error %q does not say %q", r.Err(), want)
				}
			}
			w.restore = whole
			r = w.start(t, 0)
			over(t, r)
			if !errors.Is(r.Err(), ErrDuplicates) || !strings.Contains(r.Err().Error(), flags) {
				t.Errorf("without --accept-duplicates: got error %v, want ErrDuplicates", r.Err())
			}
			w.accept = true
			if w.offer.Visibility == connectors.PerEpoch {
				w.wentBack(t, whole)
			}
		})
	}
}

func (w *world) records(t *testing.T) ([]epochs.StoredRecord, error) {
	t.Helper()
	s, err := w.disk.Open()
	if err != nil {
		return nil, err
	}
	records, _, err := s.Committed(t.Context())
	return records, errors.Join(err, s.Close())
}

func TestARequestAfterTheEndIsAnswered(t *testing.T) {
	w := newWorld(t, 0, nil)
	w.src.End()
	r := w.start(t, 0)
	over(t, r)
	done := make(chan error, 1)
	r.RequestEpoch(func(err error) { done <- err })
	if err := <-done; err == nil {
		t.Error("got no error from a query that is over")
	}
}

func TestAPanicOfAnOperatorIsLoggedWithItsStack(t *testing.T) {
	w := newWorld(t, 1, errors.New("boom"))
	var log bytes.Buffer
	w.log, w.fail.panics = &log, true
	w.add(t, bad, 2)
	w.src.End()
	r := w.start(t, 0)
	over(t, r)
	if r.State() != Ended || r.Restarts() != 1 {
		t.Fatalf("got state %s after %d restarts, want ended after 1", r.State(), r.Restarts())
	}
	for _, want := range []string{"boom", "op[0/1]", "flaky", "runner_test.go"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log does not have %q:\n%s", want, log.String())
		}
	}
}
