package runtime

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/runtime/internal/deploy"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// script is a parsed and checked script: what its statements define, applied to
// a copy of the catalog, and the queries to start. Making it connects to
// nothing and starts nothing.
type script struct {
	s       *Session
	ctx     context.Context
	src     string
	catalog *catalog
	sets    []sql.Option // SET statements so far, the last one of a key counts
	steps   []step
	queries []*prepared
	errs    []*sql.Error
	broken  map[string]bool // names whose definition failed
}

// step is what a statement does when the script is carried out, in order.
type step struct {
	query *prepared // start it
	print func() string
	drop  string
	plan  bool // print is that of EXPLAIN
}

// prepare parses and checks a script.
func (s *Session) prepare(ctx context.Context, text string) *script {
	src, errs := sql.Interpolate(text, s.cfg.LookupEnv)
	if len(errs) > 0 {
		return &script{s: s, src: text, errs: errs}
	}
	s.mu.Lock()
	sc := &script{s: s, ctx: ctx, src: src, catalog: s.catalog.clone(), broken: map[string]bool{}}
	s.mu.Unlock()
	stmts, errs := sql.ParseScript(src)
	sc.errs = append(sc.errs, errs...)
	for _, st := range stmts {
		sc.statement(st)
	}
	slices.SortStableFunc(sc.errs, func(a, b *sql.Error) int { return a.Span.Start - b.Span.Start })
	return sc
}

// fail notes faults. That a table is missing whose definition failed is not one:
// its own fault has been reported.
func (sc *script) fail(errs ...*sql.Error) {
	for _, e := range errs {
		if e.Class == classUnknown && sc.broken[key(strings.Trim(e.Span.In(sc.src), "`"))] {
			continue
		}
		sc.errs = append(sc.errs, e)
	}
}

func (sc *script) statement(st sql.Statement) {
	switch st := st.(type) {
	case *sql.CreateSource:
		sc.createSource(st)
	case *sql.CreateSink:
		sc.createSink(st)
	case *sql.CreateTable:
		sc.createTable(st)
	case *sql.CreateView:
		sc.createView(st)
	case *sql.CreateQuery:
		sc.createQuery(st)
	case *sql.Insert:
		name := st.Sink.String()
		sc.query(&prepared{name: name, span: st.Span, nameSpan: st.Sink.Span, sinkName: &st.Sink, sinkColumns: st.Columns, query: st.Query, implicit: true})
	case *sql.SelectStatement:
		sc.query(&prepared{name: sc.selectName(), span: st.Span, nameSpan: st.Span, query: st.Query, numbered: true})
	case *sql.Set:
		sc.set(st)
	case *sql.Explain:
		sc.explain(st)
	case *sql.Show:
		sc.show(st)
	case *sql.Describe:
		sc.describe(st)
	case *sql.Drop:
		sc.drop(st)
	}
}

// selectName names a bare SELECT by its number in the session.
func (sc *script) selectName() string {
	sc.s.mu.Lock()
	defer sc.s.mu.Unlock()
	for n := 1; ; n++ {
		name := fmt.Sprintf("select_%d", n)
		taken := sc.s.started[name] || slices.ContainsFunc(sc.queries, func(q *prepared) bool { return q.name == name })
		if !taken {
			return name
		}
	}
}

func (sc *script) exists(what string, name sql.Name, ifNot bool) {
	if !ifNot {
		sc.fail(configError(name.Span, className, "%s %s exists already", what, name))
	}
}

func (sc *script) createSource(st *sql.CreateSource) {
	if sc.catalog.taken(st.Name.String()) {
		sc.exists("source", st.Name, st.IfNotExists)
		return
	}
	d := &definition{name: st.Name.String(), span: st.Name.Span, streaming: true}
	if !sc.defineSource(d, st.Using, st.Options, st.Columns, st.Watermark) {
		sc.breakSource(d, len(st.Columns))
		return
	}
	sc.catalog.addSource(d)
}

// breakSource notes that a definition failed. If its columns are known what reads
// them can be checked all the same.
func (sc *script) breakSource(d *definition, columns int) {
	sc.broken[key(d.name)] = true
	if d.schema == nil || d.schema.Len() != columns {
		sc.catalog.broken = append(sc.catalog.broken, d.name)
		return
	}
	d.broken = true
	sc.catalog.addSource(d)
}

// defineSource checks a source definition up to making the source once, which
// finds faults that only the connector knows.
func (sc *script) defineSource(d *definition, using *sql.Ident, opts []sql.Option, cols []sql.ColumnDef, w *sql.WatermarkDef) bool {
	before := len(sc.errs)
	sc.fail(sc.s.define(d, using, opts, false)...)
	sc.fail(d.columns(cols)...)
	if d.connector.Name == "" {
		return false
	}
	sc.fail(deadLetterOptions(d, opts)...)
	if len(sc.errs) == before {
		h, err := sc.s.open(sc.ctx, d)
		if err != nil {
			sc.fail(valueError(d, opts, err))
		} else if d.schema == nil {
			d.schema = h.source.Schema()
		}
	}
	if len(sc.errs) == before {
		sc.fail(d.watermarkDecl(w)...)
	}
	return len(sc.errs) == before
}

// deadLetterOptions checks that on_error and dead_letter go together.
func deadLetterOptions(d *definition, opts []sql.Option) []*sql.Error {
	policy, hasPolicy := lookup(opts, "on_error")
	target, hasTarget := lookup(opts, "dead_letter")
	wants := hasPolicy && option.Fold(policy.Value) == "deadletter"
	switch {
	case wants && !hasTarget:
		return []*sql.Error{configError(policy.ValueSpan, classOption, "on_error = 'dead_letter' needs dead_letter = '<sink>', the sink that takes the bad records")}
	case !wants && hasTarget:
		return []*sql.Error{configError(target.KeySpan, classOption, "dead_letter of %s has no effect without on_error = 'dead_letter'", d.name)}
	}
	return nil
}

func (sc *script) createTable(st *sql.CreateTable) {
	switch {
	case sc.catalog.taken(st.Name.String()):
		sc.exists("table", st.Name, st.IfNotExists)
	case st.Query != nil:
		sc.fail(configError(st.Span, classNotYet, "CREATE TABLE AS SELECT is not supported; use CREATE VIEW, or INSERT INTO a sink"))
	default:
		d := &definition{name: st.Name.String(), span: st.Name.Span}
		if !sc.defineSource(d, st.Using, st.Options, st.Columns, nil) {
			sc.breakSource(d, len(st.Columns))
			return
		}
		sc.catalog.addSource(d)
	}
}

func (sc *script) createSink(st *sql.CreateSink) {
	if sc.catalog.sinks[key(st.Name.String())] != nil {
		sc.exists("sink", st.Name, st.IfNotExists)
		return
	}
	d := &definition{name: st.Name.String(), span: st.Name.Span}
	errs := sc.s.define(d, st.Using, st.Options, true)
	if len(errs) == 0 {
		errs = d.columns(st.Columns)
	}
	sc.fail(errs...)
	if len(errs) > 0 {
		sc.broken[key(d.name)] = true
		sc.catalog.brokenSinks = append(sc.catalog.brokenSinks, d.name)
		return
	}
	sc.catalog.addSink(d)
}

func (sc *script) createView(st *sql.CreateView) {
	name := st.Name.String()
	if sc.catalog.sources[key(name)] != nil || sc.catalog.views[key(name)] != nil && !st.OrReplace {
		sc.exists("view", st.Name, st.IfNotExists)
		return
	}
	v := &plan.View{Name: name, Columns: st.Columns, Query: st.Query}
	if _, errs := plan.FromSelect(st.Query, sc.plans(), plan.Options{}); len(errs) > 0 {
		sc.fail(errs...)
		sc.broken[key(name)] = true
		sc.catalog.broken = append(sc.catalog.broken, name)
		return
	}
	sc.catalog.addView(v)
	sc.catalog.texts[key(name)] = st.Span.In(sc.src)
}

// plans is the catalog for one plan.
func (sc *script) plans() *planCatalog {
	return &planCatalog{
		catalog: sc.catalog, handles: map[*definition]*handle{},
		open: func(d *definition) (*handle, error) { return sc.s.open(sc.ctx, d) },
		fail: func(d *definition, err error) { sc.fail(configError(d.span, classOption, "%v", err)) },
	}
}

func (sc *script) set(st *sql.Set) {
	if _, errs := sc.s.queryOptions([]sql.Option{st.Option}, nil); len(errs) > 0 {
		sc.fail(errs...)
		return
	}
	sc.sets = slices.DeleteFunc(sc.sets, func(o sql.Option) bool { return option.Fold(o.Key) == option.Fold(st.Option.Key) })
	sc.sets = append(sc.sets, st.Option)
}

func (sc *script) drop(st *sql.Drop) {
	name := st.Name.String()
	c := sc.catalog
	found := false
	switch st.Kind {
	case sql.SourceObject, sql.TableObject:
		found = c.sources[key(name)] != nil
		delete(c.sources, key(name))
	case sql.SinkObject:
		found = c.sinks[key(name)] != nil
		delete(c.sinks, key(name))
	case sql.ViewObject:
		found = c.views[key(name)] != nil
		delete(c.views, key(name))
	default:
		found = sc.dropQuery(name)
	}
	if !found && !st.IfExists {
		e := configError(st.Name.Span, classUnknown, "there is no %s", describeObject(st.Kind, name))
		if st.Kind == sql.QueryObject {
			e.Hint = "neither this script nor the checkpoint directory has it; DROP QUERY IF EXISTS lets that pass"
		}
		sc.fail(e)
	}
}

// dropQuery adds the end of a query: one of this script, which does not start then,
// one of the session, or one that only has a checkpoint.
func (sc *script) dropQuery(name string) (found bool) {
	stored, err := sc.s.Stored()
	if err != nil {
		sc.fail(configError(sql.Span{}, classOption, "DROP QUERY %s: the checkpoints cannot be listed: %v", name, err))
		return true
	}
	before := len(sc.queries)
	sc.queries = slices.DeleteFunc(sc.queries, func(q *prepared) bool { return q.name == name })
	sc.steps = slices.DeleteFunc(sc.steps, func(st step) bool { return st.query != nil && st.query.name == name })
	if len(sc.queries) == before && sc.s.Query(name) == nil && !slices.Contains(stored, name) {
		return false
	}
	sc.steps = append(sc.steps, step{drop: name})
	return true
}

func describeObject(k sql.ObjectKind, name string) string {
	words := map[sql.ObjectKind]string{sql.QueryObject: "query", sql.SourceObject: "source", sql.TableObject: "table", sql.SinkObject: "sink", sql.ViewObject: "view"}
	return words[k] + " " + name
}

// Exec carries out a script: definitions, then queries in the order of their
// statements. If anything in it is wrong, all faults are reported together
// (*ScriptError) and nothing is done. Queries run on after Exec returns.
func (s *Session) Exec(ctx context.Context, script string) error {
	return s.ExecNamed(ctx, "sql", script)
}

// ExecNamed is Exec with a name for the script that error messages show.
func (s *Session) ExecNamed(ctx context.Context, name, script string) error {
	sc, err := s.applyDefinitions(ctx, name, script)
	if err != nil {
		return err
	}
	for _, st := range sc.steps {
		switch {
		case st.query != nil:
			for _, n := range st.query.notes {
				s.cfg.Log.Warn(name+":"+n, "query", st.query.name)
			}
			if _, err := s.startPrepared(st.query); err != nil {
				return err
			}
		case st.print != nil:
			if _, err := fmt.Fprint(s.cfg.Stdout, st.print()); err != nil {
				return err
			}
		case st.drop != "":
			if err := s.dropNow(ctx, st.drop); err != nil {
				return err
			}
		}
	}
	return nil
}

// applyDefinitions checks a script and puts what it defines into the catalog, one
// script at a time, so that none overwrites what another one defines.
func (s *Session) applyDefinitions(ctx context.Context, name, text string) (*script, error) {
	s.defining.Lock()
	defer s.defining.Unlock()
	sc := s.prepare(ctx, text)
	if err := scriptError(name, sc.src, sc.errs); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if err := s.checkRestore(sc); err != nil {
		return nil, err
	}
	s.catalog = sc.catalog
	return sc, nil
}

// dropNow stops a query and removes it with its checkpoint. That it has failed,
// before or while it drains, does not keep it.
func (s *Session) dropNow(ctx context.Context, name string) error {
	q := s.Query(name)
	if q == nil { // it has not been started
		return s.Fresh(name)
	}
	if err := q.Stop(ctx); err != nil && ctx.Err() != nil {
		return err
	}
	return s.Drop(name)
}

// Validate checks a script like Exec and does nothing. It returns all faults.
func (s *Session) Validate(ctx context.Context, name, script string) error {
	sc := s.prepare(ctx, script)
	return scriptError(name, sc.src, sc.errs)
}

// Outline says what a script holds.
type Outline struct {
	Queries []string // the names of the queries that it starts
	Prints  bool     // it has statements that print: EXPLAIN, SHOW, DESCRIBE
	Notes   []string // what may not be meant, as "name:line:column: note: text"
	Drops   []string // the names of the queries that it drops
}

// Outline is Validate that also says what the script holds.
func (s *Session) Outline(ctx context.Context, name, script string) (Outline, error) {
	sc := s.prepare(ctx, script)
	var o Outline
	for _, q := range sc.queries {
		o.Queries = append(o.Queries, q.name)
		for _, n := range q.notes {
			o.Notes = append(o.Notes, name+":"+n)
		}
	}
	for _, st := range sc.steps {
		o.Prints = o.Prints || st.print != nil
		if st.drop != "" {
			o.Drops = append(o.Drops, st.drop)
		}
	}
	return o, scriptError(name, sc.src, sc.errs)
}

// ExplainScript describes every query of a script, those in EXPLAIN included:
// plan, stages, verdict, guarantee and visibility of each sink with the reason.
// Of a script without any it returns nothing.
func (s *Session) ExplainScript(ctx context.Context, name, script string) (string, error) {
	sc := s.prepare(ctx, script)
	if err := scriptError(name, sc.src, sc.errs); err != nil {
		return "", err
	}
	out := ""
	for _, st := range sc.steps {
		switch {
		case st.query != nil:
			out += st.query.text + "\n"
		case st.plan:
			out += st.print()
		}
	}
	return out, nil
}

// ValidateAgainst checks that the checkpoints in the session's directory fit the
// queries of a script. It starts nothing.
func (s *Session) ValidateAgainst(ctx context.Context, name, script string) error {
	sc := s.prepare(ctx, script)
	if err := scriptError(name, sc.src, sc.errs); err != nil {
		return err
	}
	stored, err := s.Stored()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range sc.queries {
		if !slices.Contains(stored, p.name) {
			continue
		}
		if err := s.checkStored(ctx, p); err != nil {
			errs = append(errs, fmt.Errorf("query %q: %w", p.name, err))
		}
	}
	return errors.Join(errs...)
}

// checkStored compares a query with the newest record of its checkpoint.
func (s *Session) checkStored(ctx context.Context, p *prepared) (err error) {
	store, err := s.stores.openStored(ctx, p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // it never got as far as its first epoch
	}
	if errors.Is(err, epochs.ErrDamaged) {
		return deploy.Unopened(p.name, err)
	}
	if err != nil {
		return err
	}
	defer func() {
		if cerr := store.Close(); err == nil {
			err = cerr
		}
	}()
	records, _, err := store.Committed(ctx)
	if err != nil || len(records) == 0 {
		return err
	}
	rec, err := epochs.DecodeRecord(records[0].Data)
	if err != nil {
		return err
	}
	if g := p.compiled.Graph; g != nil && !s.cfg.AllowDroppedState {
		if err := deploy.CheckEnds(ctx, g, rec); err != nil {
			return err
		}
	}
	return deploy.CheckPlan(func(old epochs.Plan) error { return s.checkPlan(p, old) }, rec)
}

// checkPlan compares a query with what a checkpoint was made by.
func (s *Session) checkPlan(p *prepared, old epochs.Plan) error {
	if p.numbered && old.Fingerprint != "" && old.Fingerprint != p.compiled.Plan.Fingerprint {
		s.cfg.Log.Warn("this SELECT has no name of its own: it is found by its place among the SELECTs of the file, and its plan is not the one that the checkpoint was made with. "+
			"If another SELECT stood there, start it anew with --fresh "+p.name+"; a name of its own is CREATE QUERY name AS SELECT ...", "query", p.name)
	}
	return plan.CheckState(p.name, old, p.compiled.Plan, s.cfg.AllowDroppedState)
}
