package runtime_test

import (
	"fmt"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"sync"
	"testing"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

func TestScriptsThatRunAtTheSameTimeKeepEachOthersDefinitions(t *testing.T) {
	s := open(t, runtime.Config{})
	var wg sync.WaitGroup
	const n = 20
	for i := range n {
		wg.Go(func() {
			if err := s.Exec(t.Context(), fmt.Sprintf("CREATE SOURCE s%d WITH (connector = 'rate')", i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for i := range n {
		if err := s.Validate(t.Context(), "sql", fmt.Sprintf("DESCRIBE s%d", i)); err != nil {
			t.Errorf("source s%d was forgotten: %v", i, err)
		}
	}
}

const failing = `CREATE QUERY bad AS INSERT INTO out SELECT 1 / v AS v FROM src`

func TestAQueryThatHasFailedCanBeDropped(t *testing.T) {
	s := open(t, runtime.Config{})
	src := source(t, s, "src", "v BIGINT", "")
	sink(t, s, "out")
	exec(t, s, failing)
	add(t, src, []any{int64(0)})
	if err := s.Query("bad").Wait(t.Context()); err == nil {
		t.Fatal("a division by zero does not fail the query")
	}
	exec(t, s, "DROP QUERY bad")
	if s.Query("bad") != nil {
		t.Error("the query is still there")
	}
}

func TestAScriptReplacesAQueryThatRuns(t *testing.T) {
	s := open(t, runtime.Config{})
	src := source(t, s, "src", "v BIGINT", "")
	sk := sink(t, s, "out")
	exec(t, s, "CREATE QUERY q AS INSERT INTO out SELECT v FROM src")
	exec(t, s, "DROP QUERY q; CREATE QUERY q AS INSERT INTO out SELECT v + 1 AS v FROM src")
	add(t, src, []any{int64(1)})
	settle(t, s.Query("q"))
	same(t, sk.Rows(), [][]any{{int64(2)}})
}

// order notes what a listener is told; it has no lock of its own, as it is called
// one at a time.
type order struct{ got []string }

func (o *order) OnStarted(q *runtime.Query) {
	for q.LastProgress() == nil { // the first epoch has committed meanwhile
		goruntime.Gosched()
	}
	o.got = append(o.got, "started")
}
func (o *order) OnProgress(*runtime.Query, *runtime.Progress) { o.got = append(o.got, "progress") }
func (o *order) OnTerminated(*runtime.Query, error)           { o.got = append(o.got, "terminated") }

func TestAListenerHearsOfTheStartFirst(t *testing.T) {
	s := open(t, runtime.Config{Defaults: map[string]string{"epoch_interval": "1ms"}})
	src := source(t, s, "src", "v BIGINT", "")
	sink(t, s, "out")
	o := &order{}
	s.AddListener(o)
	add(t, src, []any{int64(1)})
	exec(t, s, "CREATE QUERY q AS INSERT INTO out SELECT v FROM src")
	settle(t, s.Query("q"))
	if err := s.Query("q").Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if n := len(o.got); n < 3 || o.got[0] != "started" || o.got[n-1] != "terminated" {
		t.Errorf("the listener heard %v", o.got)
	}
}

func TestGoingBackToAnEpoch(t *testing.T) {
	conf := func(dir string, epoch uint64) runtime.Config { return runtime.Config{Dir: dir, RestoreEpoch: epoch} }
	schema, err := runtime.ParseSchema("v BIGINT")
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSource(schema)
	run := func(t *testing.T, c runtime.Config, times int) (epochs []uint64, err error) {
		t.Helper()
		s := open(t, c)
		defer func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := s.Register("src", src, "", ""); err != nil {
			return nil, err
		}
		sink(t, s, "out")
		for range times {
			exec(t, s, "CREATE QUERY q AS INSERT INTO out SELECT v FROM src")
			for i := range 3 {
				add(t, src, []any{int64(i)})
				if err := s.Query("q").ProcessAllAvailable(t.Context()); err != nil {
					return epochs, err
				}
				epochs = append(epochs, s.Query("q").LastProgress().BatchID)
			}
			if err := s.Query("q").Stop(t.Context()); err != nil {
				return epochs, err
			}
		}
		return epochs, nil
	}
	t.Run("without a checkpoint it is refused", func(t *testing.T) {
		if _, err := run(t, conf(t.TempDir(), 3), 1); err == nil || !strings.Contains(err.Error(), "epoch 3 is not retained") {
			t.Errorf("got error %v", err)
		}
	})
	t.Run("happens once per session", func(t *testing.T) {
		dir := t.TempDir()
		first, err := run(t, conf(dir, 0), 1)
		if err != nil {
			t.Fatal(err)
		}
		back := first[len(first)-1]
		again, err := run(t, conf(dir, back), 3)
		if err != nil {
			t.Fatal(err)
		}
		for i := 1; i < len(again); i++ {
			if again[i] <= again[i-1] {
				t.Errorf("epochs %v do not grow", again)
			}
		}
	})
}

func TestADropThatWasInterruptedIsFinished(t *testing.T) {
	dir := t.TempDir()
	half := filepath.Join(dir, "queries", ".dropped-q", "state")
	if err := os.MkdirAll(half, 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, runtime.Config{Dir: dir})
	src := source(t, s, "src", "v BIGINT", "")
	sink(t, s, "out")
	exec(t, s, "CREATE QUERY q AS INSERT INTO out SELECT v FROM src")
	add(t, src, []any{int64(1)})
	settle(t, s.Query("q"))
	exec(t, s, "DROP QUERY q")
	left, err := os.ReadDir(filepath.Join(dir, "queries"))
	if err != nil {
		t.Fatal(err)
	}
	if len(left) > 0 {
		t.Errorf("%v is left", left)
	}
}
