package runtime

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/deploy"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// prepared is a query that has been planned and checked but not started.
type prepared struct {
	name           string
	span, nameSpan sql.Span
	query          *sql.Query
	node           plan.Node // given by a DataFrame instead of query
	sinkName       *sql.Name
	sinkColumns    []sql.Ident
	sink           *definition
	options        []sql.Option
	implicit       bool // named after its sink
	extended       bool // EXPLAIN EXTENDED

	values   option.Values
	compiled *plan.Compiled
	notes    []string // with the place in the script
	flush    []func() // logs what the samplers of bad records have kept back
	text     string   // EXPLAIN
	numbered bool     // a bare SELECT, named by its place in the script
}

// createQuery prepares CREATE QUERY.
func (sc *script) createQuery(st *sql.CreateQuery) {
	if st.IfNotExists && sc.s.Query(st.Name.Name) != nil {
		return
	}
	sc.query(&prepared{
		name: st.Name.Name, span: st.Span, nameSpan: st.Name.Span, query: st.Query,
		sinkName: st.Sink, sinkColumns: st.SinkColumns, options: st.Options,
	})
}

// query plans a query and adds it to the script.
func (sc *script) query(p *prepared) {
	before := len(sc.errs)
	if wrong := checkName(p.name); wrong != "" {
		sc.fail(configError(p.nameSpan, classOption, "%s", wrong))
		return
	}
	sc.uniqueName(p)
	if !sc.plan(p) || len(sc.errs) > before {
		return
	}
	sc.queries = append(sc.queries, p)
	sc.steps = append(sc.steps, step{query: p})
}

func (sc *script) uniqueName(p *prepared) {
	taken := false
	for _, q := range sc.queries {
		taken = taken || q.name == p.name
	}
	dropped := slices.ContainsFunc(sc.steps, func(st step) bool { return st.drop == p.name })
	if q := sc.s.Query(p.name); q != nil && !q.runner.State().Over() && !dropped {
		taken = true
	}
	if !taken {
		return
	}
	e := configError(p.nameSpan, className, "there is a query called %s already", p.name)
	if p.implicit {
		e.Hint = "a query is named after its sink; name it with CREATE QUERY name AS INSERT INTO " + p.name + " ..."
	}
	sc.fail(e)
}

// plan makes the logical plan and the graph. It reports whether it succeeded.
func (sc *script) plan(p *prepared) bool {
	values, errs := sc.s.queryOptions(p.options, sc.sets)
	sc.fail(errs...)
	if p.node == nil {
		n, nerrs := plan.FromSelect(p.query, sc.plans(), plan.Options{Zone: zone(values, errs)})
		sc.fail(nerrs...)
		errs = append(errs, nerrs...)
		p.node = n
	}
	sinkErr := sc.bindSink(p)
	if sinkErr != nil {
		sc.fail(sinkErr)
	}
	if len(errs) > 0 || sinkErr != nil {
		return false
	}
	p.values = values
	if len(p.sinkColumns) > 0 {
		names := make([]string, len(p.sinkColumns))
		for i, c := range p.sinkColumns {
			names[i] = c.Name
		}
		n, rerrs := plan.NewRename(p.node, names)
		if len(rerrs) > 0 {
			sc.fail(rerrs...)
			return false
		}
		p.node = n
	}
	return sc.compile(p)
}

func zone(v option.Values, errs []*sql.Error) *time.Location {
	if len(errs) > 0 {
		return nil
	}
	loc, err := time.LoadLocation(v.String("time_zone"))
	if err != nil {
		return nil // the option has been checked
	}
	return loc
}

// bindSink finds the sink of a query; a query without INSERT writes to the
// console.
func (sc *script) bindSink(p *prepared) *sql.Error {
	switch {
	case p.sink != nil:
		return nil
	case p.sinkName != nil:
		d, err := sc.catalog.sink(*p.sinkName)
		p.sink = d
		return err
	}
	d := &definition{name: "console", span: p.span}
	if errs := sc.s.define(d, nil, []sql.Option{{Key: "connector", Value: "console", KeySpan: p.span, ValueSpan: p.span}}, true); len(errs) > 0 {
		e := *errs[0]
		e.Hint = "a query without INSERT INTO writes to the console connector, which this session does not have"
		return &e
	}
	p.sink = d
	return nil
}

// startPrepared starts a query.
func (s *Session) startPrepared(p *prepared) (*Query, error) {
	run := make([]byte, 16)
	if _, err := rand.Read(run); err != nil {
		return nil, err
	}
	q := &Query{
		session: s, name: p.name, runID: uuidText(run), explain: p.text, sources: map[string]connectors.Source{},
		retrying: map[string]string{}, told: make(chan struct{}), flush: p.flush,
	}
	for node, t := range p.compiled.Sources {
		q.sources[node] = t.Handle.Source()
	}
	q.maker = progressMaker{runID: q.runID, name: p.name, sink: p.compiled.SinkNode, prevAt: s.sys.Clock().Now()}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, errClosed
	}
	if s.cfg.ReadOnly {
		return nil, fault.New(fault.Config, "query %q cannot start: the session only reads checkpoints", p.name)
	}
	if old := s.find(p.name); old != nil {
		if !old.runner.State().Over() {
			return nil, fault.New(fault.Config, "query %q is running already", p.name)
		}
		<-old.runner.Done()
		s.remove(old)
	}
	q.runner = deploy.New(s.ctx, s.deployConfig(p, q))
	s.started[p.name] = true
	q.runner.Start()
	s.queries = append(s.queries, q)
	observers := s.observers
	s.watchers.Go(func() { s.watch(q, observers) })
	return q, nil
}

func (s *Session) remove(q *Query) {
	for i, o := range s.queries {
		if o == q {
			s.queries = append(s.queries[:i:i], s.queries[i+1:]...)
			return
		}
	}
}

// watch tells the listeners about start and end of a query.
func (s *Session) watch(q *Query, first []Listener) {
	for _, l := range first {
		l.OnStarted(q)
	}
	close(q.told)
	<-q.runner.Done()
	for _, flush := range q.flush {
		flush()
	}
	for _, l := range s.listeners() {
		l.OnTerminated(q, q.Err())
	}
}

func (s *Session) deployConfig(p *prepared, q *Query) deploy.Config {
	v := p.values
	restarts := int(v.Int("max_restarts"))
	if restarts == 0 {
		restarts = -1
	}
	name := p.name
	uncommitted, err := parseUncommitted(v.String("max_uncommitted"))
	if err != nil {
		uncommitted = actors.Uncommitted{} // the option has been checked
	}
	back := s.restoreEpoch(name)
	goesBack := back != 0
	open := func(ctx context.Context) (epochs.Segments, error) {
		store, err := s.stores.open(ctx, name, goesBack, p.compiled.RecordsOnly())
		if err == nil {
			goesBack = false // it stays where it was found only that once
		}
		return store, err
	}
	return deploy.Config{
		System: s.sys, Query: name, Plan: p.compiled.Plan, Log: s.cfg.Log,
		OpenStore:    open,
		NextAttempt:  func(from *epochs.Record) (uint64, messages.ID128, error) { return s.stores.nextAttempt(name, from) },
		Graph:        func() (*actors.Graph, error) { return p.compiled.Graph, nil },
		OnRestore:    q.onRestore,
		OnState:      q.onState,
		CheckPlan:    func(old epochs.Plan) error { return s.checkPlan(p, old) },
		RestoreEpoch: back, AcceptDuplicates: s.cfg.AcceptDuplicates,
		Restart: deploy.RestartPolicy{MaxRestarts: restarts},
		Attempt: actors.AttemptConfig{
			EpochInterval: v.Duration("epoch_interval"), Uncommitted: uncommitted, FlushAtEnd: v.Bool("flush_at_end"), FlushEpochs: p.compiled.TablesAtMarkers(), OnEpoch: q.onEpoch, OnStatus: q.onStatus,
			AllowDroppedState: s.cfg.AllowDroppedState,
		},
	}
}

// Run starts a graph made by hand under the given name.
func (s *Session) Run(_ context.Context, name string, g *actors.Graph) (*Query, error) {
	if err := g.Check(); err != nil {
		return nil, fault.Wrap(fault.Config, err, "")
	}
	if wrong := checkName(name); wrong != "" {
		return nil, fault.New(fault.Config, "%s", wrong)
	}
	values, errs := s.queryOptions(nil, nil)
	if err := scriptError("session defaults", "", errs); err != nil {
		return nil, err
	}
	p := &prepared{name: name, values: values, compiled: &plan.Compiled{Graph: g}, text: "a graph made by hand"}
	return s.startPrepared(p)
}

func uuidText(b []byte) string {
	h := hex.EncodeToString(b)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}
