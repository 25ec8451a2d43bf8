package damage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// patience bounds every wait, so that a hang is a failure.
const patience = time.Minute

// shape is a query and what its sink promises.
type shape struct {
	name string
	sql  string // the SELECT and the mode
	sink string // options of the sink
	// backward says that the query may go back to an older epoch by itself.
	backward bool
	// want computes the rows that the sink must hold from those that were added.
	want func(rows []row) map[string]int
	// repeats: rows may be there more often.
	repeats bool
}

const (
	windows = `CREATE QUERY q WITH (parallelism = 2, epoch_interval = '1h') AS INSERT INTO out
		SELECT k, window.start AS s, count(*) AS n, sum(v) AS total FROM src WHERE v % 7 <> 0 GROUP BY k, window(ts, '10 seconds')`
	totals = `CREATE QUERY q WITH (parallelism = 2, epoch_interval = '1h', output_mode = 'update') AS INSERT INTO out
		SELECT k, count(*) AS n, sum(v) AS total FROM src GROUP BY k`
	plain = `CREATE QUERY q WITH (epoch_interval = '1h') AS INSERT INTO out SELECT k, v FROM src WHERE v % 3 = 0`
)

func shapes() []shape {
	return []shape{
		{"windows, exactly once at once", windows, `guarantee = 'exactly_once', visibility = 'at_once'`, true, wantWindows, false},
		{"windows, at least once", windows, `guarantee = 'at_least_once'`, true, wantWindows, true},
		{"windows, exactly once per epoch", windows, `guarantee = 'exactly_once', visibility = 'epoch'`, false, wantWindows, false},
		{"totals, last value at once", totals, `guarantee = 'at_least_once'`, true, wantTotals, false},
		{"totals, exactly once per epoch", totals, `guarantee = 'exactly_once', visibility = 'epoch'`, false, wantTotals, false},
		{"rows, exactly once at once", plain, `guarantee = 'exactly_once', visibility = 'at_once'`, true, wantPlain, false},
	}
}

// row is a row of the source.
type row struct {
	k  string
	v  int64
	at int64 // seconds
}

const keys = 40

// input makes the rows of a round: three windows of all keys, in order.
func input(round int) []row {
	var rows []row
	for i := range 3 * keys {
		n := int64(round*3*keys + i)
		rows = append(rows, row{k: fmt.Sprintf("key number %03d, long enough to weigh something", n*13%keys), v: n, at: 1_700_000_000 + n/4})
	}
	return rows
}

func wantWindows(rows []row) map[string]int {
	last := rows[len(rows)-1].at - 10 // the watermark
	type group struct {
		k     string
		start int64
	}
	count, total := map[group]int64{}, map[group]int64{}
	for _, r := range rows {
		if r.v%7 != 0 {
			g := group{r.k, r.at - r.at%10}
			count[g]++
			total[g] += r.v
		}
	}
	out := map[string]int{}
	for g := range count {
		if g.start+10 <= last {
			out[fmt.Sprint(g.k, "|", g.start, "|", count[g], "|", total[g])] = 1
		}
	}
	return out
}

func wantTotals(rows []row) map[string]int {
	count, total := map[string]int64{}, map[string]int64{}
	for _, r := range rows {
		count[r.k]++
		total[r.k] += r.v
	}
	out := map[string]int{}
	for k := range count {
		out[fmt.Sprint(k, "|", count[k], "|", total[k])] = 1
	}
	return out
}

func wantPlain(rows []row) map[string]int {
	out := map[string]int{}
	for _, r := range rows {
		if r.v%3 == 0 {
			out[fmt.Sprint(r.k, "|", r.v)]++
		}
	}
	return out
}

// system is what is outside the engine: it outlives the damage.
type system struct {
	t    *testing.T
	hub  *memory.Hub
	src  *memory.Source
	rows []row
	bias int64 // added to v of all rows
}

func newSystem(t *testing.T) *system {
	t.Helper()
	schema, err := runtime.ParseSchema("k STRING, v BIGINT, ts TIMESTAMP")
	if err != nil {
		t.Fatal(err)
	}
	s := &system{t: t, hub: memory.NewHub(), src: memory.NewSource(schema)}
	s.hub.SetSink("out", memory.NewSink())
	return s
}

func (s *system) add(round int) {
	s.t.Helper()
	for _, r := range input(round) {
		r.v += s.bias
		if err := s.src.Add([]any{r.k, r.v, time.Unix(r.at, 0).UTC()}); err != nil {
			s.t.Fatal(err)
		}
		s.rows = append(s.rows, r)
	}
}

// start starts the query of a shape on a directory.
func (s *system) start(ctx context.Context, sh *shape, dir string) (*runtime.Session, *runtime.Query, error) {
	sess, err := runtime.Open(ctx, runtime.Config{
		Dir: dir, Connectors: []connectors.Connector{s.hub.Connector()}, Defaults: map[string]string{"max_restarts": "2"},
	})
	if err != nil {
		return nil, nil, err
	}
	if err = sess.Register("src", s.src, "ts", "10 seconds"); err == nil {
		err = sess.Exec(ctx, "CREATE SINK out WITH (connector = 'memory', name = 'out', "+sh.sink+"); "+sh.sql)
	}
	if err != nil {
		return nil, nil, errors.Join(err, sess.Close())
	}
	return sess, sess.Query("q"), nil
}

// got is what the sink holds.
func (s *system) got() map[string]int {
	sink, _ := s.hub.Sink("out")
	out := map[string]int{}
	for _, r := range sink.Rows() {
		text := ""
		for i, v := range r {
			if at, ok := v.(time.Time); ok {
				v = at.Unix()
			}
			if i > 0 {
				text += "|"
			}
			text += fmt.Sprint(v)
		}
		out[text]++
	}
	return out
}

// differs says how the sink differs from what it must hold, "" if it does not.
func (s *system) differs(sh *shape) string {
	want, got := sh.want(s.rows), s.got()
	var wrong []string
	for r, n := range want {
		if got[r] != n && (!sh.repeats || got[r] < n) {
			wrong = append(wrong, fmt.Sprintf("%d times %s, want %d", got[r], r, n))
		}
	}
	for r, n := range got {
		if want[r] == 0 {
			wrong = append(wrong, fmt.Sprintf("%d times %s, want none", n, r))
		}
	}
	slices.Sort(wrong)
	if len(wrong) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d rows are wrong: %s", len(wrong), len(want), wrong[0])
}

// lived is a query that has run, and the directory that its process has left.
type lived struct {
	*system
	shape  *shape
	dir    string
	newest uint64 // epoch
}

// live runs a query in two processes: the first one drains, the second one is
// killed, or drains as well.
func live(t *testing.T, sh *shape, killed bool) *lived {
	t.Helper()
	l := &lived{system: newSystem(t), shape: sh, dir: filepath.Join(t.TempDir(), "data")}
	work := filepath.Join(t.TempDir(), "work")
	l.process(sh, work, "", 0, 1, 2)
	if killed {
		l.newest = l.process(sh, work, l.dir, 3, 4, 5)
		return l
	}
	l.newest = l.process(sh, work, "", 3, 4, 5)
	if err := os.CopyFS(l.dir, os.DirFS(work)); err != nil {
		t.Fatal(err)
	}
	return l
}

// process runs a query on a directory for some rounds of rows and returns its newest
// epoch. It drains, or is killed if there is a directory for what it leaves then.
func (s *system) process(sh *shape, work, left string, rounds ...int) uint64 {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	sess, q, err := s.start(ctx, sh, work)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, r := range rounds {
		s.add(r)
		if err := q.ProcessAllAvailable(ctx); err != nil {
			s.t.Fatal(err)
		}
	}
	newest := q.LastProgress().BatchID
	if left != "" {
		s.kill(ctx, q, work, left)
	} else if err := q.Stop(ctx); err != nil {
		s.t.Fatal(err)
	} else {
		newest = q.LastProgress().BatchID
	}
	if err := sess.Close(); err != nil {
		s.t.Fatal(err)
	}
	return newest
}

// kill copies a directory in use: what a killed process leaves is what its files
// hold at that moment.
func (s *system) kill(ctx context.Context, q *runtime.Query, work, left string) {
	s.t.Helper()
	if err := os.CopyFS(left, os.DirFS(work)); err != nil {
		s.t.Fatal(err)
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	_ = q.Stop(gone) // at once
}
