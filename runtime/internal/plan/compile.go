package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// CompileConfig says how a plan is to run. The zero value, with a sink, is a query
// in append mode with one subtask per keyed operator.
type CompileConfig struct {
	Mode Mode
	Sink SinkConfig
	// Parallelism is the number of subtasks of keyed operators; 0 means 1.
	Parallelism int
	// Expr is how expressions behave (ANSI, time zone, clock, seed).
	Expr expr.Options
	// EmitInterval is how long update and complete mode collect changes. Nil means
	// 0 in update mode and 1 s in complete mode.
	EmitInterval *time.Duration
	// IdleTimeout is how long a partition must be silent and caught up until it no
	// longer holds back the watermark: 0 means 30 s, negative never.
	IdleTimeout time.Duration
	// MaxFutureSkew is how far ahead of its broker time a row may be stamped and
	// still move the watermark; 0 means no limit.
	MaxFutureSkew time.Duration
	// MaxWatermark makes the watermark of several inputs the highest of theirs, not
	// the lowest.
	MaxWatermark bool
	// Bounded reads what is there and then ends.
	Bounded bool
	// RowErrors is the policy for rows on which an expression below the first
	// stateful operator fails; nil fails the query. Above it a failing row always
	// does.
	RowErrors *operator.RowErrors
	// OnBadRecord, if not nil, gives the function that is told about the records a
	// table's on_error policy kept out; it may return nil.
	OnBadRecord func(table string) func(*connectors.BadRecord)
	// DeadLetter, if not nil, gives the sink for the records a table's on_error
	// policy kept out, and its name; nil for a table without one.
	DeadLetter func(table string) (sink string, spec *actors.SinkSpec)
	// Late, if not nil, is where late rows go.
	Late *LateOutput
}

// SinkConfig is where the rows go.
type SinkConfig struct {
	// Name is that of CREATE SINK; "" is the console.
	Name string
	// Sink is the configured sink; nil only explains the plan, without a graph.
	Sink connectors.Sink
	// Guarantee and Visibility are the sink's options; "" means to choose.
	Guarantee, Visibility string
}

// Compiled is a plan ready to run. It is immutable.
type Compiled struct {
	// Graph runs the query; nil if it was compiled without a sink or for a table
	// without a handle.
	Graph *actors.Graph
	// Plan goes into the commit record and is compared by CheckState.
	Plan epochs.Plan
	// Schema has the columns of the result.
	Schema *messages.Schema
	// UpdateKey are the columns that identify a row in update mode: nil without
	// aggregation or if a grouping column is not in the result, empty for the one
	// row of an aggregation over everything.
	UpdateKey []int
	Verdict   Verdict
	Delivery  Delivery
	// Sources are the tables read, by the name of their node in the graph.
	Sources map[string]*Table
	// SinkNode is the name of the sink's node in the graph.
	SinkNode string
	// Sides are the sinks for what the query leaves out.
	Sides []Side

	logical, optimized Node
	steps              []*step
	config             *CompileConfig
}

// Compile checks, optimizes and lowers a plan. The error is Errors with every
// fault found, or a fault of kind Config.
func Compile(n Node, cfg CompileConfig) (*Compiled, error) {
	if errs := Check(n, cfg.Mode); len(errs) > 0 {
		return nil, Errors(errs)
	}
	opt := n
	if cfg.Late != nil {
		opt = keepLate(groupDistinct(n))
	}
	return compile(n, Optimize(opt, cfg.Expr), cfg)
}

// compile lowers opt, which has the rows of n.
func compile(n, opt Node, cfg CompileConfig) (*Compiled, error) {
	c := &compiler{cfg: &cfg, graph: actors.NewGraph(), used: map[string]int{}, out: &Compiled{
		Schema: Schema(n), UpdateKey: updateKey(opt, cfg.Mode), Sources: map[string]*Table{},
		logical: n, optimized: opt, config: &cfg,
	}}
	c.out.Verdict = verdictOf(opt, &cfg)
	if cfg.Sink.Sink != nil {
		d, err := deliver(&cfg, c.out)
		if err != nil {
			return nil, Errors{err}
		}
		c.out.Delivery = d
	}
	f, err := c.lower(opt)
	if err != nil {
		return nil, err
	}
	c.sink(f)
	if err := c.lateSink(); err != nil {
		return nil, err
	}
	c.out.Plan = epochs.Plan{Fingerprint: fingerprint(opt, cfg.Mode), HashVersion: operator.HashVersion, Operators: c.states, MaxWatermark: cfg.MaxWatermark}
	if c.graph != nil {
		if err := c.graph.Check(); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "compile")
		}
	}
	c.out.Graph = c.graph
	return c.out, nil
}

// compiler lowers an optimized plan into a graph, from the sources up.
type compiler struct {
	cfg    *CompileConfig
	graph  *actors.Graph // nil when there is nothing to run it with
	out    *Compiled
	used   map[string]int // names of nodes
	states []epochs.OperatorState
	lates  []lateEnd
	// path is the uid of the stateful operator above the node being lowered.
	path string
}

// flow is what a lowered node gives: rows from one or more graph nodes.
type flow struct {
	ends   []end
	schema *messages.Schema
	// final is set above the first stateful operator: row errors fail the query.
	final bool
}

// end is the output of one graph node.
type end struct {
	node *actors.Node // nil without a graph
	step *step
}

// name makes a node's name unique.
func (c *compiler) name(s string) string {
	c.used[s]++
	if n := c.used[s]; n > 1 {
		return s + "#" + itoa(n)
	}
	return s
}

// lower turns a node into graph nodes.
func (c *compiler) lower(n Node) (flow, error) {
	switch n := n.(type) {
	case *Scan:
		return c.scan(n)
	case *Alias:
		return c.lower(n.Input)
	case *Watermark:
		return c.watermark(n)
	case *Project:
		return c.over(n.Input, func(in flow) (flow, error) { return c.project(in, n.Exprs, names(n.cols)) })
	case *Filter:
		return c.over(n.Input, func(in flow) (flow, error) { return c.filter(in, n.Cond) })
	case *Generate:
		return c.over(n.Input, func(in flow) (flow, error) { return c.generate(in, n) })
	case *Aggregate:
		return c.aggregate(n)
	case *Union:
		return c.union(n)
	case *Sort:
		return c.over(n.Input, func(in flow) (flow, error) { return c.sort(in, n, -1) })
	case *Limit:
		return c.limit(n)
	default:
	}
	return flow{}, Errors{notYet(n.Loc(), describe(n))}
}

func (c *compiler) over(in Node, f func(flow) (flow, error)) (flow, error) {
	x, err := c.lower(in)
	if err != nil {
		return flow{}, err
	}
	return f(x)
}

func names(cols []Column) []string {
	out := make([]string, len(cols))
	for i, c := range cols {
		out[i] = c.Name
	}
	return out
}

// scan makes the source of a table.
func (c *compiler) scan(n *Scan) (flow, error) {
	name := c.name("source:" + n.Table.Name)
	c.out.Sources[name] = n.Table
	f := flow{schema: n.Table.Schema}
	limit := ""
	if n.Table.MaxRowsPerSecond > 0 {
		limit = fmt.Sprintf("at most %d rows per second", n.Table.MaxRowsPerSecond)
	}
	st := c.step(name, limit, 0)
	if n.Table.Handle == nil || c.cfg.Sink.Sink == nil {
		c.graph = nil
	}
	var node *actors.Node
	if c.graph != nil {
		spec := actors.SourceSpec{
			Source: n.Table.Handle.Source(), Rows: n.Table.Handle.Rows(n.Needed), IdleTimeout: c.cfg.IdleTimeout, Bounded: c.cfg.Bounded,
			MaxRowsPerSecond: n.Table.MaxRowsPerSecond,
		}
		if c.cfg.OnBadRecord != nil {
			spec.OnBadRecord = c.cfg.OnBadRecord(n.Table.Name)
		}
		node = c.graph.Source(name, spec)
	}
	c.deadLetter(n.Table.Name, end{node, st})
	f.ends = []end{{node, st}}
	return f, nil
}

// deadLetter adds the sink for the bad records of a source.
func (c *compiler) deadLetter(table string, source end) {
	if c.cfg.DeadLetter == nil {
		return
	}
	sink, spec := c.cfg.DeadLetter(table)
	if spec == nil {
		return
	}
	side := Side{Sink: sink, Node: c.name("dead_letter:" + table), Rows: "bad records of " + table, Schema: spec.Schema, Delivery: Delivery{Offer: spec.Offer}}
	c.step(side.Node, "bad records", 0, stepInput{from: source.step, side: true})
	c.out.Sides = append(c.out.Sides, side)
	if source.node != nil {
		c.graph.Sink(side.Node, *spec, actors.BadRecords(source.node))
	}
}

// stateless adds an operator behind each end of a flow: what is done row by row
// is fused with what is below, also below a union.
func (c *compiler) stateless(in flow, kind, text string, schema *messages.Schema, make func() operator.Operator) flow {
	out := flow{schema: schema, final: in.final}
	for _, e := range in.ends {
		name := c.name(kind)
		st := c.step(name, text, 0, stepInput{from: e.step})
		var node *actors.Node
		if c.graph != nil {
			node = c.graph.Operator(name, 0, make, actors.Forward(e.node))
			if !in.final {
				node.OnRowError(c.cfg.RowErrors)
			}
		}
		out.ends = append(out.ends, end{node, st})
	}
	return out
}

// stageOf describes an operator that does not run where its input does.
type stageOf struct {
	name, text  string
	parallelism int
	keys        []int // columns of the input; rows with equal values meet
	make        func() operator.Operator
}

// stage adds an operator with a fixed number of subtasks behind all ends of a
// flow.
func (c *compiler) stage(in flow, s stageOf) end {
	keys := s.keys
	if s.parallelism == 1 {
		keys = nil // everything meets anyway, and a forward edge can be fused
	}
	var keyed []string
	for _, k := range keys {
		keyed = append(keyed, in.schema.Fields[k].Name)
	}
	var inputs []stepInput
	var edges []actors.Edge
	for _, e := range in.ends {
		inputs = append(inputs, stepInput{from: e.step, keys: keyed})
		switch {
		case c.graph == nil:
		case keys == nil:
			edges = append(edges, actors.Forward(e.node))
		default:
			edges = append(edges, actors.Keyed(e.node, keys...))
		}
	}
	st := c.step(s.name, s.text, s.parallelism, inputs...)
	var node *actors.Node
	if c.graph != nil {
		node = c.graph.Operator(s.name, s.parallelism, s.make, edges...)
	}
	return end{node, st}
}

// uid returns the uid of a stateful operator: the path of such operators
// from the sink. What is stateless does not count, so that adding or removing it
// keeps the state.
func (c *compiler) uid(kind string) string {
	if c.path != "" {
		kind = c.path + "/" + kind
	}
	return c.name(kind)
}

// below lowers what stands below a stateful operator.
func (c *compiler) below(uid string, n Node) (flow, error) {
	saved := c.path
	c.path = uid
	f, err := c.lower(n)
	c.path = saved
	return f, err
}

// union joins the ends of its inputs; every operator above takes rows from all.
func (c *compiler) union(n *Union) (flow, error) {
	var out flow
	for i, in := range n.In {
		f, err := c.lower(in)
		if err != nil {
			return flow{}, err
		}
		if i == 0 {
			out.schema = f.schema
		}
		out.final = out.final || f.final
		out.ends = append(out.ends, f.ends...)
	}
	return out, nil
}

// sink ends the graph.
func (c *compiler) sink(f flow) {
	target := cmp.Or(c.cfg.Sink.Name, "console")
	name := c.name("sink:" + target)
	c.out.SinkNode = name
	parallelism := 0
	if s := c.cfg.Sink.Sink; s != nil && s.Traits().SingleWriter {
		parallelism = 1
	}
	var inputs []stepInput
	var edges []actors.Edge
	for _, e := range f.ends {
		inputs = append(inputs, stepInput{from: e.step})
		if c.graph != nil {
			edges = append(edges, actors.Forward(e.node))
		}
	}
	c.step(name, "", parallelism, inputs...)
	if c.graph == nil {
		return
	}
	c.graph.Sink(name, actors.SinkSpec{
		Sink: c.cfg.Sink.Sink, Offer: c.out.Delivery.Offer, Schema: c.out.Schema, KeyColumns: c.out.UpdateKey, Lineage: c.out.Delivery.lineage,
	}, edges...)
}
