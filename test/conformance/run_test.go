package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/file"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
)

// mode is a way to run a case that must not change its outcome.
type mode struct {
	name string
	// restart stops the query and starts it from its checkpoint before every
	// addition of rows.
	restart bool
	// disk keeps the checkpoints on disk and restarts in another session.
	disk        bool
	parallelism int
}

// engineError is an error of the engine, as opposed to one of the runner or an
// expectation that was not met. It may be what the case expects.
type engineError struct{ err error }

func (e *engineError) Error() string { return e.err.Error() }
func (e *engineError) Unwrap() error { return e.err }

// run is one case running in one mode.
type run struct {
	c     *conformanceCase
	mode  mode
	t     *testing.T
	clock *connectortest.Clock // nil: the system's
	sys   *actors.System

	session *runtime.Session
	dir     string
	sources map[string]*memory.Source
	hub     *memory.Hub // static tables
	sink    *memory.Sink
	query   *runtime.Query
	running bool
	held    bool // stopped by a step: nothing runs before the next start
	resumed bool // a restart step was met: options for after it hold

	result  *messages.Schema
	seen    int     // rows of the sink's log that were looked at
	wanted  [][]any // rows of a case without fixed timing that have not come yet
	got     [][]any // rows of such a case that came
	epoch   uint64  // last epoch before the last addition
	failure error   // why the query failed

	in, out string        // directories of files
	shift   time.Duration // how far modification times of new files are ahead
	unread  bool          // there are files that no run of the query has seen
	ordered int           // rows of the sink whose order was looked at
	written int64         // rows written by runs of the query that are over
	ids     [2]string     // id and run id at the last look
	failing *failing      // a source that fails as the case says
}

// outcome runs a case and returns nil if everything is as it says.
func outcome(t *testing.T, c *conformanceCase, m mode, sys *actors.System) error {
	r := &run{c: c, mode: m, t: t, sys: sys, sink: memory.NewSink(), sources: map[string]*memory.Source{}, hub: memory.NewHub()}
	if slices.ContainsFunc(c.Requires, func(s string) bool { return strings.HasPrefix(s, "manual clock") }) {
		r.clock = connectortest.NewClock(time.Unix(0, 0))
		r.sys = actors.NewSystem(actors.SystemConfig{Clock: r.clock})
		defer r.sys.Close()
	}
	ctx, cancel := context.WithTimeout(t.Context(), caseTimeout)
	defer cancel()
	err := r.all(ctx)
	if r.session != nil {
		if cerr := r.session.Close(); cerr != nil && err == nil {
			err = cerr
		}
	}
	return c.judge(err)
}

// caseTimeout bounds one case in one mode; most take milliseconds.
const caseTimeout = 30 * time.Second

// judge compares an error with the one that the case expects.
func (c *conformanceCase) judge(err error) error {
	ee, ok := errors.AsType[*engineError](err)
	switch {
	case c.ExpectError == "" || err != nil && !ok:
		return err
	case err == nil:
		return fmt.Errorf("no error, want %s", c.ExpectError)
	}
	if class := runtime.Class(ee.err); !ofClass(class, c.ExpectError) {
		return fmt.Errorf("error class %q, want %s; the error is: %w", class, c.ExpectError, ee.err)
	}
	text := strings.ToLower(message(ee.err))
	for _, w := range c.ErrorAbout {
		if !strings.Contains(text, strings.ToLower(w)) {
			return fmt.Errorf("the error does not say %q: %s", w, text)
		}
	}
	return nil
}

// ofClass compares classes of errors. Some of those in the cases are no classes of
// Spark but stand for a kind of refusal.
func ofClass(class, want string) bool {
	ours := []string{want}
	switch want {
	case "PARSE_ERROR":
		ours = []string{"PARSE_"}
	case "ILLEGAL_ARGUMENT":
		ours = append(ours, "INVALID_OPTION")
	case "CONCURRENT_QUERY":
		ours = append(ours, "ALREADY_EXISTS")
	}
	return slices.ContainsFunc(ours, func(s string) bool { return strings.HasPrefix(class, s) })
}

// message is the text of an error without the quoted script, whose words would
// prove nothing.
func message(err error) string {
	se, ok := errors.AsType[*runtime.ScriptError](err)
	if !ok {
		return err.Error()
	}
	var b strings.Builder
	for _, d := range se.Diagnostics {
		fmt.Fprintf(&b, "%s; %s\n", d.Message, d.Hint)
	}
	return b.String()
}

// all sets the case up and runs its steps.
func (r *run) all(ctx context.Context) error {
	if r.c.Result != nil {
		s, err := runtime.ParseSchema(ddl(r.c.Result))
		if err != nil {
			return fmt.Errorf("runner: result: %w", err)
		}
		r.result = s
	}
	if r.mode.disk {
		r.dir = r.t.TempDir()
	}
	if len(r.c.Sources) > 0 || r.c.Sink.outside() {
		r.in, r.out = r.t.TempDir(), r.t.TempDir()
	}
	if err := r.define(ctx); err != nil {
		return err
	}
	if err := r.open(ctx); err != nil {
		return err
	}
	if !r.bounded() || len(r.c.Steps) == 0 {
		if err := r.start(ctx); err != nil {
			return err
		}
	}
	for i, s := range r.c.Steps {
		err := r.step(ctx, s)
		if _, ok := errors.AsType[*engineError](err); ok && i+1 < len(r.c.Steps) && r.c.Steps[i+1].has("expect_query_failure") {
			r.failure, r.running = err, false
			continue
		}
		if err != nil {
			return fmt.Errorf("step %d of %d: %w", i+1, len(r.c.Steps), err)
		}
	}
	if diff := compareRows(r.got, r.wanted, false); diff != "" {
		return fmt.Errorf("after all steps: %s", diff)
	}
	return r.finish(ctx)
}

// finish ends a query that has passed all steps. Of a refusal that comes late,
// the last failure counts.
func (r *run) finish(ctx context.Context) error {
	if r.failure != nil && r.c.ExpectError != "" {
		return r.failure
	}
	if !r.running {
		return nil
	}
	if r.c.ExpectError != "" || r.c.Verdict != "" {
		if err := r.settle(ctx); err != nil {
			return err
		}
	}
	return r.stop(ctx)
}

// bounded reports whether the query ends when it has read what is there: because
// the case says so, or because it reads files, which have no other way to tell
// that all has been read.
func (r *run) bounded() bool {
	s, _ := r.c.Options["trigger"].(string)
	return s != "" || len(r.c.Sources) > 0
}

// define makes the sources and tables, which outlive sessions.
func (r *run) define(context.Context) error {
	now := time.Now
	if r.clock != nil {
		now = r.clock.Now
	}
	for _, name := range slices.Sorted(maps.Keys(r.c.Schemas)) {
		if r.c.Sources[name] != nil {
			continue
		}
		s, err := runtime.ParseSchema(ddl(r.c.Schemas[name]))
		if err != nil {
			return fmt.Errorf("runner: %w", err)
		}
		r.sources[name] = memory.NewSourceWith(s, memory.SourceOptions{Now: now})
	}
	if r.c.Options["inject_failure"] != nil {
		var err error
		if r.failing, err = newFailing(r.c, r.sources); err != nil {
			return err
		}
	}
	for name, t := range r.c.Static {
		s, err := runtime.ParseSchema(ddl(t.Schema))
		if err != nil {
			return fmt.Errorf("runner: %w", err)
		}
		rows, err := values(s, t.Rows)
		if err != nil {
			return fmt.Errorf("runner: table %s: %w", name, err)
		}
		src := memory.NewSource(s)
		if err := src.Add(rows...); err != nil {
			return fmt.Errorf("runner: table %s: %w", name, err)
		}
		src.End()
		r.hub.SetSource(name, src)
	}
	return nil
}

// open opens a session that knows the tables of the case.
func (r *run) open(ctx context.Context) error {
	var err error
	r.session, err = runtime.Open(r.t.Context(), runtime.Config{
		Dir: r.dir, System: r.sys, Connectors: []connectors.Connector{r.hub.Connector(), file.Connector()}, Formats: all.Formats(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(r.sources)) {
		var marks []watermark
		for _, w := range r.c.Watermark {
			if w.Table == name {
				marks = append(marks, w)
			}
		}
		if len(marks) == 0 {
			marks = []watermark{{}}
		}
		if err := r.session.Register(name, r.source(name), marks[0].Column, marks[0].Delay); err != nil {
			return &engineError{err}
		}
		for _, w := range marks[1:] {
			if w.Alias != "" && w == (watermark{w.Alias, w.Table, marks[0].Column, marks[0].Delay}) {
				continue // the same stream under another name
			}
			if err := r.session.Table(name).WithWatermark(w.Column, w.Delay).Err(); err != nil {
				return &engineError{err}
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.c.Static)) {
		stmt := fmt.Sprintf("CREATE TABLE `%s` (%s) WITH (connector = 'memory', name = '%s')", name, ddl(r.c.Static[name].Schema), name)
		if err := r.session.Exec(ctx, stmt); err != nil {
			return &engineError{err}
		}
	}
	if err := r.openFiles(ctx); err != nil {
		return err
	}
	if r.c.Sink.outside() {
		return nil
	}
	if err := r.session.RegisterSink("result_of_case", r.sink); err != nil {
		return fmt.Errorf("runner: %w", err)
	}
	return nil
}

// names returns an option that is a list of names.
func (c *conformanceCase) names(option string) []string {
	var out []string
	list, _ := c.Options[option].([]any)
	for _, v := range list {
		out = append(out, fmt.Sprint(v))
	}
	return out
}

// options are those of the query: epochs only on request, and what the case says.
func (r *run) options() (map[string]string, error) {
	out := map[string]string{"epoch_interval": "1h", "idle_timeout": "0s", "max_restarts": "0"}
	if r.mode.parallelism > 0 {
		out["parallelism"] = fmt.Sprint(r.mode.parallelism)
	}
	if r.c.OutputMode != "" {
		out["output_mode"] = r.c.OutputMode
	}
	if r.bounded() {
		out["trigger"] = "available_now"
	}
	for k, v := range r.c.Options {
		text := fmt.Sprint(v)
		base, after := strings.CutSuffix(k, "_after_restart")
		base, before := strings.CutSuffix(base, "_before_restart")
		if after && !r.resumed || before && r.resumed {
			continue
		}
		switch base {
		case "parallelism":
			out["parallelism"] = text
		case "ansi", "trigger":
			out[base] = text
		case "session_timezone":
			out["time_zone"] = text
		case "multipleWatermarkPolicy":
			if _, later := r.c.Options[base+"_after_restart"]; !after && later && r.resumed {
				continue
			}
			out[base] = text
		case "query_name", "partition_by", "check", "input_is_static", "declared_not_null", "inject_failure":
			// How Spark's suite runs the case; nothing that an answer depends on.
		default:
			return nil, fmt.Errorf("runner: option %s is not supported", k)
		}
	}
	return out, nil
}

// start starts the query.
func (r *run) start(ctx context.Context) error {
	opts, err := r.options()
	if err != nil {
		return err
	}
	if r.c.SQL == "" {
		df, err := r.frame(r.c.Plan)
		if err != nil {
			return err
		}
		mode := opts["output_mode"]
		delete(opts, "output_mode")
		r.query, err = df.WriteStream(ctx, runtime.Write{Name: "case", Sink: "result_of_case", Mode: mode, Options: opts})
		if err != nil {
			return &engineError{err}
		}
		r.running = true
		return nil
	}
	var with []string
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		with = append(with, fmt.Sprintf("%s = '%s'", k, opts[k]))
	}
	stmt := fmt.Sprintf("CREATE QUERY `case` WITH (%s) AS INSERT INTO result_of_case\n%s", strings.Join(with, ", "), r.c.SQL)
	if err := r.session.Exec(ctx, stmt); err != nil {
		return &engineError{err}
	}
	r.query = r.session.Query("case")
	r.running = true
	return nil
}

// frame builds a plan with the DataFrame API.
func (r *run) frame(ops []planOp) (*runtime.DataFrame, error) {
	var df *runtime.DataFrame
	for i, op := range ops {
		switch {
		case op.Op == "source" && i == 0:
			df = r.session.Table(op.Table)
		case op.Op == "sql" && i == 0:
			df = r.session.SQL(op.SQL)
		case op.Op == "select":
			df = df.Select(exprs(op.Exprs)...)
		case op.Op == "aggregate":
			df = df.GroupBy(exprs(op.Group)...).Agg(exprs(op.Aggs)...)
		case op.Op == "union_all" && i == 0:
			for k, in := range op.Inputs {
				other, err := r.frame(in)
				if err != nil {
					return nil, err
				}
				if df = other; k > 0 {
					df = df.Union(other)
				}
			}
		default:
			return nil, fmt.Errorf("runner: plan operation %s has no counterpart in the DataFrame API", op.Op)
		}
	}
	if df == nil {
		return nil, errors.New("runner: neither sql nor a plan")
	}
	return df, nil
}

func exprs(texts []string) []runtime.Column {
	out := make([]runtime.Column, len(texts))
	for i, t := range texts {
		expr, alias, ok := cutAlias(t)
		out[i] = runtime.Expr(expr)
		if ok {
			out[i] = out[i].As(alias)
		}
	}
	return out
}

func cutAlias(s string) (expr, alias string, ok bool) {
	i := strings.LastIndex(strings.ToLower(s), " as ")
	if i < 0 || strings.ContainsAny(s[i:], ")") {
		return s, "", false
	}
	return s[:i], strings.TrimSpace(s[i+len(" as "):]), true
}

// settle runs the query until it has nothing left to do.
func (r *run) settle(ctx context.Context) error {
	wait := r.query.ProcessAllAvailable
	if r.bounded() {
		wait = r.query.Wait
	}
	if err := wait(ctx); err != nil {
		if ctx.Err() != nil {
			return fmt.Errorf("the query did not get idle: %w (%+v)", err, r.query.Status())
		}
		return &engineError{err}
	}
	if r.bounded() {
		r.over()
	}
	return nil
}

func (r *run) stop(ctx context.Context) error {
	err := r.query.Stop(ctx)
	r.over()
	if err != nil {
		return &engineError{err}
	}
	return nil
}

// over notes that a run of the query has ended.
func (r *run) over() {
	r.running = false
	r.written += r.rowsWritten()
}

// restart goes on from the checkpoint.
func (r *run) restart(ctx context.Context) error {
	if r.running {
		if err := r.stop(ctx); err != nil {
			return err
		}
	}
	if r.mode.disk {
		if err := r.session.Close(); err != nil {
			return &engineError{err}
		}
		if err := r.open(ctx); err != nil {
			return err
		}
	}
	if r.bounded() {
		return nil // started when there is something to do
	}
	return r.start(ctx)
}

// add adds the rows of a step, each table's as one unit.
func (r *run) add(raw json.RawMessage) error {
	var tables map[string][][]json.RawMessage
	if err := json.Unmarshal(raw, &tables); err != nil {
		return fmt.Errorf("runner: add: %w", err)
	}
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		src := r.sources[name]
		if src == nil {
			return fmt.Errorf("runner: add: there is no table %s", name)
		}
		rows, err := values(src.Schema(), tables[name])
		if err != nil {
			return fmt.Errorf("runner: add to %s: %w", name, err)
		}
		if err := src.Add(rows...); err != nil {
			return fmt.Errorf("runner: add to %s: %w", name, err)
		}
	}
	return nil
}
