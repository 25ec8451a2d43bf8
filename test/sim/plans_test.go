package sim

import (
	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/aggregate"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/actors/operator/filter"
	"github.com/streamd-io/streamd/actors/operator/project"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// sinkKind is a sink with its promise.
type sinkKind uint8

const (
	lineageSink sinkKind = iota // exactly once, at once
	looseSink                   // at least once, at once
	filesSink                   // exactly once, per epoch
	upsertSink                  // converges, at once
	boardSink                   // the latest complete table, at once
	heldSink                    // exactly once, per epoch, from the checkpoint
	wholeSink                   // the same, an epoch at a time
	sinkKinds
)

// perEpoch tells whether readers see the rows of committed epochs only.
func (k sinkKind) perEpoch() bool { return k == filesSink || k == heldSink || k == wholeSink }

func (k sinkKind) String() string {
	return [...]string{"lineage", "loose", "files", "upsert", "board", "held", "whole"}[k]
}

// plan is a kind of query.
type plan struct {
	name    string
	sources int
	sinks   int
	// identities tells that result rows have some that a replay repeats.
	identities bool
	build      func(b *builder)
	// expect computes the result rows of one sink from the rows read, for plans
	// that treat each row on its own.
	expect func(r *run, sink int, in row) []row
	// grouped tells how rows are grouped by the watermark otherwise.
	grouped grouping
	// letters tells that some records are bad and go to the last sink.
	letters bool
}

type grouping uint8

const (
	stateless grouping = iota
	windows
	changes // windows in update mode
	tallies
	tables // the whole table in complete mode
)

// builder makes the graph of one attempt: with the same nodes, but not the same
// parallelism, as in other attempts.
type builder struct {
	r *run
	g *actors.Graph
}

func (b *builder) parallel() int { return 1 + b.r.rng.IntN(3) }

func (b *builder) probe(name string, par int, in ...actors.Edge) *actors.Node {
	return b.g.Operator(name, par, func() operator.Operator { return &probe{r: b.r} }, in...)
}

func (b *builder) filter(name string, e divides, par int, in ...actors.Edge) *actors.Node {
	return b.g.Operator(name, par, func() operator.Operator {
		return filter.New(filter.Config{Predicate: &divides{by: e.by, rest: e.rest, not: e.not}})
	}, in...)
}

// source adds a source with its watermark.
func (b *builder) source(i int) *actors.Node { return b.timed(i, b.read(i)) }

func (b *builder) read(i int) *actors.Node {
	s := b.r.sources[i]
	policy := connectors.FailOnError
	if b.r.plan.letters {
		policy = connectors.DeadLetter
	}
	return b.g.Source(s.name, actors.SourceSpec{
		Source: s, IdleTimeout: b.r.idle, Bounded: b.r.bounded, MaxRowsPerSecond: b.r.perSecond,
		Rows: func() (*connectors.Rows, error) {
			return connectors.NewRows(inputSchema, nil, policy), nil
		},
	})
}

func (b *builder) timed(i int, n *actors.Node) *actors.Node {
	return b.g.Operator("time "+b.r.sources[i].name, 0, func() operator.Operator {
		return eventtime.New(eventtime.Config{Column: colTime, Delay: b.r.delay})
	}, actors.Forward(n))
}

func (b *builder) sink(i int, schema *messages.Schema, in ...actors.Edge) {
	m := b.r.sinks[i]
	spec := actors.SinkSpec{Sink: m, Schema: schema, Lineage: m.lineage()}
	if k := b.r.kinds[i]; k == heldSink || k == wholeSink {
		spec.Offer = connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}
	}
	if b.r.plan.grouped == changes {
		spec.KeyColumns = []int{0, 1} // window and key
	}
	b.g.Sink(b.r.sinkName(i), spec, in...)
}

// link joins two nodes in any way that keeps rows: fused, or over an exchange.
func (b *builder) link(n *actors.Node) actors.Edge {
	if b.r.rng.IntN(2) == 0 {
		return actors.Keyed(n, colKey)
	}
	return actors.Forward(n)
}

var thirds = divides{by: 3, rest: 1}

func (r *run) aggregation(mode aggregate.Mode) operator.Operator {
	cfg := aggregate.Config{
		Input: inputSchema, Keys: []int{colKey}, EventTimeKey: -1, Mode: mode, EmitInterval: r.emit,
		Aggs: []aggregate.Agg{{Func: "count", Arg: -1, Filter: -1}, {Func: "sum", Arg: colValue, Filter: -1}},
	}
	if mode != aggregate.Complete {
		cfg.Window = &aggregate.Window{Column: colTime, Size: r.size, Slide: r.slide}
	}
	op, err := aggregate.New(cfg)
	if err != nil {
		panic(err)
	}
	return op
}

func (b *builder) grouped(mode aggregate.Mode, in ...actors.Edge) {
	schema := b.r.aggregation(mode).(*aggregate.Operator).Schema()
	par := b.parallel()
	if mode == aggregate.Complete {
		par = 1 // a table is made in one place
	}
	agg := b.g.Operator("group", par, func() operator.Operator { return b.r.aggregation(mode) }, in...)
	b.sink(0, schema, b.after(agg))
}

// after links a node to the sink: in its stage or in another.
func (b *builder) after(n *actors.Node) actors.Edge {
	if b.r.rng.IntN(3) == 0 {
		return actors.Forward(b.probe("tail", b.parallel(), actors.Forward(n)))
	}
	return actors.Forward(n)
}

func same(_ *run, _ int, in row) []row { return []row{in} }

var plans = []plan{
	{
		name: "map", sources: 1, sinks: 1, identities: true,
		build: func(b *builder) {
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			cfg := project.Config{}
			for i, f := range inputSchema.Fields {
				cfg.Columns = append(cfg.Columns, project.Column{Name: f.Name, Expr: operator.ColumnRef{Index: i, Of: f.Type}})
			}
			p := b.g.Operator("columns", 0, func() operator.Operator { return project.New(cfg) }, actors.Forward(f))
			b.sink(0, inputSchema, b.link(p))
		},
		expect: func(_ *run, _ int, in row) []row {
			if !thirds.keeps(in[colValue]) {
				return nil
			}
			return []row{in}
		},
	},
	{
		name: "explode", sources: 1, sinks: 1, identities: true,
		build: func(b *builder) {
			p := b.probe("probe", []int{0, b.parallel()}[b.r.rng.IntN(2)], b.link(b.source(0)))
			e := b.g.Operator("repeat", 0, func() operator.Operator { return &repeat{} }, actors.Forward(p))
			b.sink(0, inputSchema, b.after(e))
		},
		expect: func(_ *run, _ int, in row) []row {
			var out []row
			for i := range in[colValue] % 4 {
				c := in
				c[colValue] = i
				out = append(out, c)
			}
			return out
		},
	},
	{
		name: "windows", sources: 1, sinks: 1, identities: true, grouped: windows,
		build: func(b *builder) {
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			b.grouped(aggregate.Append, actors.Keyed(f, colKey))
		},
	},
	{
		name: "changes", sources: 1, sinks: 1, grouped: changes,
		build: func(b *builder) {
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			b.grouped(aggregate.Update, actors.Keyed(f, colKey))
		},
	},
	{
		name: "table", sources: 1, sinks: 1, grouped: tables,
		build: func(b *builder) {
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			b.grouped(aggregate.Complete, actors.Keyed(f, colKey))
		},
	},
	{
		name: "letters", sources: 1, sinks: 2, identities: true, letters: true,
		build: func(b *builder) {
			n := b.read(0)
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.timed(0, n)))))
			b.sink(0, inputSchema, b.link(f))
			b.sink(1, actors.DeadLetterSchema(), actors.BadRecords(n))
		},
		expect: func(r *run, sink int, in row) []row {
			if r.bad(in) != (sink == 1) || sink == 0 && !thirds.keeps(in[colValue]) {
				return nil
			}
			return []row{in}
		},
	},
	{
		name: "union, two sinks", sources: 2, sinks: 2, identities: true,
		build: func(b *builder) {
			u := b.g.Operator("union", b.parallel(), func() operator.Operator { return &union{} },
				b.link(b.source(0)), b.link(b.probe("probe", 0, actors.Forward(b.source(1)))))
			b.sink(0, inputSchema, b.link(u))
			b.sink(1, inputSchema, actors.Forward(b.filter("keep", thirds, b.parallel(), b.link(u))))
		},
		expect: func(_ *run, sink int, in row) []row {
			if sink == 1 && !thirds.keeps(in[colValue]) {
				return nil
			}
			return []row{in}
		},
	},
	{
		name: "tally", sources: 1, sinks: 1, grouped: tallies,
		build: func(b *builder) {
			f := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			t := b.g.Operator("group", b.parallel(), func() operator.Operator {
				return &tally{r: b.r, gap: messages.EventTime(b.r.size)}
			}, actors.Keyed(f, colKey))
			b.sink(0, inputSchema, b.after(t))
		},
	},
	{
		name: "diamond", sources: 1, sinks: 1, identities: true,
		build: func(b *builder) {
			s := b.probe("probe", []int{0, b.parallel()}[b.r.rng.IntN(2)], b.link(b.source(0)))
			even := divides{by: 2, rest: 1}
			odd := divides{by: 2, rest: 1, not: true}
			l := b.filter("even", even, b.parallel(), b.link(s))
			r := b.filter("odd", odd, b.parallel(), b.link(s))
			u := b.g.Operator("union", b.parallel(), func() operator.Operator { return &union{} }, b.link(l), b.link(r))
			b.sink(0, inputSchema, b.after(u))
		},
		expect: same,
	},
	{
		name: "union", sources: 2, sinks: 1, identities: true,
		build: func(b *builder) {
			u := b.g.Operator("union", b.parallel(), func() operator.Operator { return &union{} },
				b.link(b.source(0)), b.link(b.probe("probe", 0, actors.Forward(b.source(1)))))
			b.sink(0, inputSchema, b.after(u))
		},
		expect: same,
	},
	{
		name: "union windows", sources: 2, sinks: 1, identities: true, grouped: windows,
		build: func(b *builder) {
			l := b.filter("keep", thirds, 0, actors.Forward(b.probe("probe", 0, actors.Forward(b.source(0)))))
			r := b.filter("keep too", thirds, b.parallel(), b.link(b.source(1)))
			b.grouped(aggregate.Append, actors.Keyed(l, colKey), actors.Keyed(r, colKey))
		},
	},
	{
		name: "broadcast", sources: 1, sinks: 1, identities: true,
		build: func(b *builder) {
			s := b.probe("probe", 0, actors.Forward(b.source(0)))
			u := b.g.Operator("union", b.parallel(), func() operator.Operator { return &share{} }, actors.Broadcast(s))
			b.sink(0, inputSchema, b.after(u))
		},
		expect: same,
	},
	{
		name: "two sinks", sources: 1, sinks: 2, identities: true,
		build: func(b *builder) {
			p := b.probe("probe", 0, b.link(b.source(0)))
			b.sink(0, inputSchema, b.link(p))
			f := b.filter("keep", thirds, b.parallel(), b.link(p))
			b.sink(1, inputSchema, actors.Forward(f))
		},
		expect: func(_ *run, sink int, in row) []row {
			if sink == 1 && !thirds.keeps(in[colValue]) {
				return nil
			}
			return []row{in}
		},
	},
}
