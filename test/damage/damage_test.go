package damage

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/runtime"
)

func TestMain(m *testing.M) {
	// Badger leaves goroutines behind when it cannot open a damaged database.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/dgraph-io/badger/v4.(*DB).monitorCache"),
		goleak.IgnoreAnyFunction("github.com/dgraph-io/ristretto/v2/z.(*AllocatorPool).freeupAllocators"))
}

// tally counts how damages went, by kind of file.
type tally struct {
	mu    sync.Mutex
	kinds map[string]map[string]int
}

func (c *tally) count(kind, outcome string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.kinds[kind] == nil {
		c.kinds[kind] = map[string]int{}
	}
	c.kinds[kind][outcome]++
}

func (c *tally) String() string {
	var lines []string
	total := map[string]int{}
	for k, m := range c.kinds {
		lines = append(lines, fmt.Sprintf("%-24s went on %3d, went back %3d, refused %3d", k, m[wentOn], m[wentBack], m[refused]))
		for o, n := range m {
			total[o] += n
		}
	}
	slices.Sort(lines)
	return fmt.Sprintf("%s\nall: went on %d, went back %d, refused %d", strings.Join(lines, "\n"), total[wentOn], total[wentBack], total[refused])
}

// How a damage can go.
const (
	wentOn   = "went on"
	wentBack = "went back"
	refused  = "refused"
)

// TestDamagedCheckpoints strikes DAMAGES times (24 by default), beginning with seed
// DAMAGE_SEED.
func TestDamagedCheckpoints(t *testing.T) {
	count, first := number(t, "DAMAGES", 24), number(t, "DAMAGE_SEED", 1)
	all := &tally{kinds: map[string]map[string]int{}}
	t.Run("seeds", func(t *testing.T) {
		for seed := first; seed < first+count; seed++ {
			t.Run(strconv.Itoa(seed), func(t *testing.T) {
				t.Parallel()
				one(t, uint64(seed), all)
			})
		}
	})
	t.Logf("%d damages:\n%s", count, all)
}

func number(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// one strikes once and looks at what becomes of it.
func one(t *testing.T, seed uint64, all *tally) {
	rng := rand.New(rand.NewPCG(seed, 0))
	sh := &shapes()[int(seed)%len(shapes())]
	killed := rng.IntN(3) > 0
	l := live(t, sh, killed)
	if d := l.differs(sh); d != "" {
		t.Fatalf("%s: before any damage: %s", sh.name, d)
	}
	files := list(t, l.dir)
	b := strike(t, l.dir, rng)
	kind := kindOf(files, b.file)
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("seed %d: %s, killed: %v, %s: %s", seed, sh.name, killed, b, fmt.Sprintf(format, args...))
	}
	l.add(6)
	outcome, problem := l.again(t)
	if problem != "" {
		fail("%s", problem)
	}
	all.count(kind, outcome)
}

// again starts the query on the damaged directory and judges what comes of it.
func (l *lived) again(t *testing.T) (outcome, problem string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	sess, q, err := l.start(ctx, l.shape, l.dir)
	if err != nil {
		return refused, l.named(err)
	}
	defer func() {
		if err := sess.Close(); err != nil && problem == "" {
			problem = "close: " + err.Error()
		}
	}()
	err = q.ProcessAllAvailable(ctx)
	from := q.Status().ResumedFrom
	if err == nil {
		err = q.Stop(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return refused, fmt.Sprintf("it hangs: %+v", q.Status())
	case err != nil:
		return refused, l.named(err)
	}
	outcome = wentOn
	if from < l.newest {
		outcome = wentBack
		if !l.shape.backward {
			return outcome, fmt.Sprintf("it went back from epoch %d to %d, which may repeat rows", l.newest, from)
		}
	}
	if d := l.differs(l.shape); d != "" {
		return outcome, fmt.Sprintf("from epoch %d: %s", from, d)
	}
	return outcome, ""
}

// named reports what is wrong with a refusal: it must be known as damage, so that
// the process ends with exit code 3, and name a file, a record or an epoch.
func (l *lived) named(err error) string {
	text := err.Error()
	if !runtime.Incompatible(err) {
		return "refused, but not as damage: " + text
	}
	if !strings.Contains(text, l.dir) && !strings.Contains(text, "epoch ") {
		return "the refusal names neither file nor epoch: " + text
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "it took too long: " + text
	}
	return ""
}
