package plan

import (
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/aggregate"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/actors/operator/explode"
	"github.com/streamd-io/streamd/actors/operator/filter"
	"github.com/streamd-io/streamd/actors/operator/limit"
	"github.com/streamd-io/streamd/actors/operator/order"
	"github.com/streamd-io/streamd/actors/operator/project"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

func itoa(n int) string { return strconv.Itoa(n) }

// watermark adds the operator that derives the watermark. It runs in the stage of
// its source, once per partition.
func (c *compiler) watermark(n *Watermark) (flow, error) {
	in, err := c.lower(n.Input)
	if err != nil {
		return flow{}, err
	}
	cfg := eventtime.Config{Column: n.Column, Delay: n.Delay, MaxFutureSkew: c.cfg.MaxFutureSkew}
	return c.stateless(in, "watermark", detail(n), in.schema, func() operator.Operator { return eventtime.New(cfg) }), nil
}

// failed is an operator whose expressions do not compile. Compile has compiled
// them before, so it is never seen.
type failed struct{ err error }

func (f failed) Open(*operator.Task) error { return f.err }
func (f failed) Process(int, *messages.Batch, operator.Output) (bool, error) {
	return false, f.err
}
func (failed) Close() error { return nil }

// computed is a column of a projection: an expression, or the windows a time is in.
type computed struct {
	name    string
	expr    expr.Node
	windows *WindowSpec
}

func (c *compiler) compileColumn(x computed) (operator.Expr, error) {
	e, err := expr.Compile(x.expr, c.cfg.Expr)
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "column %s", x.name)
	}
	if x.windows != nil {
		return newWindowsOf(e, *x.windows), nil
	}
	return e, nil
}

func (c *compiler) compileColumns(cols []computed) (project.Config, error) {
	var cfg project.Config
	for _, x := range cols {
		e, err := c.compileColumn(x)
		if err != nil {
			return cfg, err
		}
		cfg.Columns = append(cfg.Columns, project.Column{Name: x.name, Expr: e})
	}
	return cfg, nil
}

func (c *compiler) project(in flow, exprs []expr.Node, names []string) (flow, error) {
	cols := make([]computed, len(exprs))
	for i, e := range exprs {
		cols[i] = computed{name: names[i], expr: e}
	}
	return c.compute(in, cols)
}

// compute adds a projection. One without columns gets a constant one: rows need
// something to stand on.
func (c *compiler) compute(in flow, cols []computed) (flow, error) {
	if len(cols) == 0 {
		cols = []computed{{name: "one", expr: expr.Bool(true)}}
	}
	cfg, err := c.compileColumns(cols)
	if err != nil {
		return flow{}, err
	}
	list := make([]string, len(cols))
	for i, x := range cols {
		list[i] = x.name
	}
	return c.stateless(in, "project", strings.Join(list, ", "), cfg.Schema(), func() operator.Operator {
		cfg, err := c.compileColumns(cols)
		if err != nil {
			return failed{err}
		}
		return project.New(cfg)
	}), nil
}

func (c *compiler) filter(in flow, cond expr.Node) (flow, error) {
	if _, err := expr.Compile(cond, c.cfg.Expr); err != nil {
		return flow{}, fault.Wrap(fault.Config, err, "filter")
	}
	return c.stateless(in, "filter", cond.String(), in.schema, func() operator.Operator {
		e, err := expr.Compile(cond, c.cfg.Expr)
		if err != nil {
			return failed{err}
		}
		return filter.New(filter.Config{Predicate: e})
	}), nil
}

// generate adds a generator. Its argument is a column, computed first where it is
// an expression; windows are exploded from an array of them.
func (c *compiler) generate(in flow, n *Generate) (flow, error) {
	keep := n.Keep
	if keep == nil {
		keep = upTo(len(n.Input.Columns()))
	}
	cfg := explode.Config{Position: n.Kind == PosExplode, Outer: n.Outer, Names: names(n.cols[len(keep):])}
	if col, ok := n.Arg.(*expr.Column); ok && n.Window == nil {
		cfg.Column, cfg.Keep = col.Index, keep
	} else {
		var cols []computed
		for _, k := range keep {
			f := in.schema.Fields[k]
			cols = append(cols, computed{name: f.Name, expr: expr.NewColumn(k, f.Name, f.Type)})
		}
		cfg.Column, cfg.Keep = len(keep), upTo(len(keep))
		cols = append(cols, computed{name: "generator", expr: n.Arg, windows: n.Window})
		var err error
		if in, err = c.compute(in, cols); err != nil {
			return flow{}, err
		}
	}
	cfg.Input = in.schema
	schema, err := cfg.Schema()
	if err != nil {
		return flow{}, err
	}
	return c.stateless(in, "generate", detail(n), schema, func() operator.Operator { return explode.New(cfg) }), nil
}

// aggregation is an Aggregate being lowered: the columns its operator reads and
// its configuration.
type aggregation struct {
	cols []computed
	keys map[string]int // of the expressions in cols
	cfg  aggregate.Config
}

// column returns the input column for an expression; names tell people what it is.
func (a *aggregation) column(e expr.Node, name string) int {
	k := expr.Key(e)
	if i, ok := a.keys[k]; ok {
		return i
	}
	a.keys[k] = len(a.cols)
	a.cols = append(a.cols, computed{name: name, expr: e})
	return len(a.cols) - 1
}

// key is column for a grouping expression: never shared, so that it keeps its
// name and place.
func (a *aggregation) key(e expr.Node, name string) int {
	a.cols = append(a.cols, computed{name: name, expr: e})
	a.keys[expr.Key(e)] = len(a.cols) - 1
	return len(a.cols) - 1
}

// prepare lays out the operator's input and configuration.
func (c *compiler) prepare(n *Aggregate) (*aggregation, error) {
	a := &aggregation{keys: map[string]int{}}
	if n.KeepInput {
		for i, col := range n.Input.Columns() {
			a.key(expr.NewColumn(i, col.Name, col.Type), col.Name)
		}
	}
	a.cfg = aggregate.Config{EventTimeKey: -1, Mode: aggregate.Mode(c.cfg.Mode), EmitInterval: c.cfg.emitInterval()}
	if c.out.TablesAtMarkers() {
		a.cfg.EmitInterval, a.cfg.AtMarkers = 0, true
	}
	a.cfg.KeyNames = keyNames(n)
	for i, g := range n.Groups {
		if g.Window != nil {
			continue
		}
		if n.cols[i].Time != NotTime && a.cfg.EventTimeKey < 0 {
			a.cfg.EventTimeKey = len(a.cfg.Keys)
		}
		a.cfg.Keys = append(a.cfg.Keys, a.key(g.Expr, n.cols[i].Name))
	}
	if w := n.Window(); w >= 0 {
		spec := n.Groups[w].Window
		a.cfg.EventTimeKey = -1
		a.cfg.Window = &aggregate.Window{
			Column: a.column(n.Groups[w].Expr, "time"), Size: spec.Size.Microseconds(), Slide: spec.Slide.Microseconds(), Offset: spec.Start.Microseconds(),
		}
	}
	for i := range n.Calls {
		if err := a.call(&n.Calls[i], n.cols[len(n.Groups)+i].Name); err != nil {
			return nil, err
		}
	}
	return a, nil
}

// call adds one aggregate function.
func (a *aggregation) call(call *AggCall, name string) error {
	agg := aggregate.Agg{Func: call.Name, Arg: -1, Filter: -1, Name: name}
	cond := call.Filter
	if len(call.Args) > 0 {
		agg.Arg = a.column(call.Args[0], call.Args[0].String())
	}
	if call.IgnoreNulls {
		present, err := expr.Call("is not null", call.Args[0])
		if err != nil {
			return err
		}
		if cond != nil {
			if present, err = expr.Call("and", cond, present); err != nil {
				return err
			}
		}
		cond = present
	}
	if cond != nil {
		if cond.Type().Kind == messages.Null {
			cond = expr.NullOf(messages.T(messages.Boolean))
		}
		agg.Filter = a.column(cond, cond.String())
	}
	a.cfg.Aggs = append(a.cfg.Aggs, agg)
	return nil
}

// emitInterval is the interval of the mode.
func (cfg *CompileConfig) emitInterval() time.Duration {
	switch {
	case cfg.Mode == Append:
		return 0
	case cfg.EmitInterval != nil:
		return *cfg.EmitInterval
	case cfg.Mode == Complete:
		return time.Second
	}
	return 0
}

// aggregate adds a keyed aggregation: a projection of what it reads, the exchange
// by key, and the operator. normalize has brought its columns into the operator's
// order.
func (c *compiler) aggregate(n *Aggregate) (flow, error) {
	uid := c.uid("aggregate")
	in, err := c.below(uid, n.Input)
	if err != nil {
		return flow{}, err
	}
	a, err := c.prepare(n)
	if err != nil {
		return flow{}, err
	}
	if in, err = c.compute(in, a.cols); err != nil {
		return flow{}, err
	}
	cfg := a.cfg
	cfg.Input = in.schema
	op, err := aggregate.New(cfg)
	if err != nil {
		return flow{}, err
	}
	if err := c.state(uid, op); err != nil {
		return flow{}, err
	}
	parallelism := max(c.cfg.Parallelism, 1)
	if len(cfg.Keys) == 0 || c.cfg.Mode == Complete {
		parallelism = 1 // one group has no use for more; a whole table comes from one place
	}
	e := c.stage(in, stageOf{uid, detail(n), parallelism, cfg.Keys, func() operator.Operator {
		op, err := aggregate.New(cfg)
		if err != nil {
			return failed{err}
		}
		return op
	}})
	c.late(n, e, cfg.Window != nil || cfg.EventTimeKey >= 0)
	return flow{ends: []end{e}, schema: op.Schema(), final: true}, nil
}

// state notes what the commit record says about a stateful operator.
func (c *compiler) state(uid string, op operator.Operator) error {
	s, ok := op.(operator.Stateful)
	if !ok {
		return nil
	}
	from, to := operator.KeyRange(0, 1)
	t := &operator.Task{UID: uid, Parallelism: 1, From: from, To: to, Counters: &epochs.Counters{}}
	if err := op.Open(t); err != nil {
		return err
	}
	kind, schema, format := s.Snapshots().Describe()
	c.states = append(c.states, epochs.OperatorState{UID: uid, Kind: kind, Schema: schema, Format: format})
	return op.Close()
}

// sort adds the operator that orders whole tables; most is its limit, negative for
// none. Keys that are no columns are computed first and left out again.
func (c *compiler) sort(in flow, n *Sort, most int64) (flow, error) {
	width := in.schema.Len()
	cfg := order.Config{Limit: most, Limited: most >= 0}
	cols := columnsOf(in.schema)
	for _, k := range n.Keys {
		key := order.Key{Desc: k.Desc, Nulls: order.NullsLast}
		if k.NullsFirst {
			key.Nulls = order.NullsFirst
		}
		if col, ok := k.Expr.(*expr.Column); ok {
			key.Column = col.Index
		} else {
			key.Column = len(cols)
			cols = append(cols, computed{name: k.Expr.String(), expr: k.Expr})
		}
		cfg.Keys = append(cfg.Keys, key)
	}
	var err error
	if len(cols) > width {
		if in, err = c.compute(in, cols); err != nil {
			return flow{}, err
		}
	}
	cfg.Schema = in.schema
	e := c.stage(in, stageOf{c.name("sort"), detail(n), 1, nil, func() operator.Operator { return order.New(cfg) }})
	out := flow{ends: []end{e}, schema: in.schema, final: in.final}
	if len(cols) > width {
		return c.compute(out, cols[:width])
	}
	return out, nil
}

func columnsOf(s *messages.Schema) []computed {
	out := make([]computed, s.Len())
	for i, f := range s.Fields {
		out[i] = computed{name: f.Name, expr: expr.NewColumn(i, f.Name, f.Type)}
	}
	return out
}

// limit adds a limit: part of the sort below it, or an operator of one subtask.
// Over an aggregation it counts the rows of each table, else those of the query.
func (c *compiler) limit(n *Limit) (flow, error) {
	if s, ok := n.Input.(*Sort); ok {
		return c.over(s.Input, func(in flow) (flow, error) { return c.sort(in, s, n.N) })
	}
	cfg := limit.Config{Rows: n.N, Complete: c.cfg.Mode == Complete && topAggregation(n.Input) != nil}
	var uid string
	var in flow
	var err error
	if cfg.Complete {
		uid = c.name("limit-table")
		in, err = c.lower(n.Input)
	} else {
		uid = c.uid("limit")
		in, err = c.below(uid, n.Input)
	}
	if err != nil {
		return flow{}, err
	}
	if err := c.state(uid, limit.New(cfg)); err != nil {
		return flow{}, err
	}
	e := c.stage(in, stageOf{uid, detail(n), 1, nil, func() operator.Operator { return limit.New(cfg) }})
	return flow{ends: []end{e}, schema: in.schema, final: in.final || !cfg.Complete}, nil
}
