package runtime_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/foreach"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
)

// tables collects what a foreach sink is given, by epoch.
type tables struct {
	mu   sync.Mutex
	rows map[messages.Epoch][][]any
	told chan struct{}
}

func (t *tables) sink() connectors.Sink {
	return foreach.NewSink(func() foreach.Writer { return &tablesWriter{tables: t} })
}

// of returns the rows of an epoch.
func (t *tables) of(e messages.Epoch) [][]any {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rows[e]
}

type tablesWriter struct {
	*tables
	epoch messages.Epoch
}

func (w *tablesWriter) Open(_ int, e messages.Epoch) (bool, error) {
	w.epoch = e
	return true, nil
}

func (w *tablesWriter) Process(r foreach.Row) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rows[w.epoch] = append(w.rows[w.epoch], r.Values())
	return nil
}

func (w *tablesWriter) Close(err error) error {
	if err == nil {
		select {
		case w.told <- struct{}{}:
		default:
		}
	}
	return nil
}

// TestCompleteModePerEpochShowsTheTableAtTheMarker: what is published with an epoch is
// the table over all rows of that epoch, not what a timer found somewhere before.
func TestCompleteModePerEpochShowsTheTableAtTheMarker(t *testing.T) {
	clock := connectortest.NewClock(at(0))
	sys := actors.NewSystem(actors.SystemConfig{Clock: clock})
	defer sys.Close()
	s := open(t, runtime.Config{Dir: t.TempDir(), System: sys, Defaults: map[string]string{"epoch_interval": "5ms"}})
	src := source(t, s, "src", "v BIGINT", "")
	got := &tables{rows: map[messages.Epoch][][]any{}, told: make(chan struct{}, 1)}
	if err := s.RegisterSinkAs("out", got.sink(), runtime.Delivery{Visibility: "epoch"}); err != nil {
		t.Fatal(err)
	}
	exec(t, s, "CREATE QUERY q WITH (output_mode = 'complete') AS INSERT INTO out SELECT sum(v) AS s FROM src")
	q := s.Query("q")
	sum, last := int64(0), messages.Epoch(0)
	for v := int64(1); v <= 5; v++ {
		add(t, src, []any{v})
		sum += v
		last = committed(t, q, clock, last)
		select {
		case <-got.told:
		case <-time.After(20 * time.Second):
			t.Fatalf("no table came with epoch %d", last)
		}
		if d := cmp.Diff([][]any{{sum}}, got.of(last)); d != "" {
			t.Errorf("epoch %d (-want +got):\n%s", last, d)
		}
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// committed lets time pass, far less than the interval of complete mode, until an epoch
// behind last with rows has committed.
func committed(t *testing.T, q *runtime.Query, clock *connectortest.Clock, last messages.Epoch) messages.Epoch {
	t.Helper()
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for range 5000 {
		for _, p := range q.RecentProgress() {
			if e := messages.Epoch(p.BatchID); e > last && p.NumInputRows > 0 {
				return e
			}
		}
		<-poll.C
		clock.Advance(time.Millisecond)
	}
	t.Fatal("no epoch with rows has committed")
	return 0
}

// TestDeliveryOfSinksOfAProgram: what is asked for is checked and shown.
func TestDeliveryOfSinksOfAProgram(t *testing.T) {
	s := open(t, runtime.Config{})
	got := &tables{rows: map[messages.Epoch][][]any{}, told: make(chan struct{}, 1)}
	if err := s.RegisterSinkAs("out", got.sink(), runtime.Delivery{Visibility: "later"}); err == nil || !strings.Contains(err.Error(), "visibility") {
		t.Errorf("RegisterSinkAs = %v", err)
	}
	src := source(t, s, "src", "v BIGINT", "")
	frame := s.Table("src")
	_, err := frame.WriteStream(t.Context(), runtime.Write{Name: "q", To: got.sink(), Delivery: runtime.Delivery{Guarantee: "transactional"}})
	if err == nil || !strings.Contains(err.Error(), "transactional") {
		t.Errorf("WriteStream = %v", err)
	}
	q, err := frame.WriteStream(t.Context(), runtime.Write{Name: "q", To: got.sink(), Delivery: runtime.Delivery{Guarantee: "exactly_once"}})
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(q.Explain(), "exactly_once, epoch") {
		t.Errorf("the plan does not show the delivery:\n%s", q.Explain())
	}
	add(t, src, []any{int64(7)})
	settle(t, q)
	<-got.told
	if d := cmp.Diff([][]any{{int64(7)}}, got.of(messages.Epoch(q.LastProgress().BatchID))); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
}
