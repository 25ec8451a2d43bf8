package plan

import (
	"cmp"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// LateOutput is where rows go that stateful operators drop as late.
type LateOutput struct {
	// Name is that of CREATE SINK.
	Name string
	// Open makes the sink for rows of a schema; it does not connect. Nil only
	// explains.
	Open func(*messages.Schema) (connectors.Sink, error)
	// Guarantee and Visibility are the sink's options; "" means those of the query.
	Guarantee, Visibility string
}

// Side is a sink beside that of the query: it takes what the query leaves out.
type Side struct {
	// Sink is the name of CREATE SINK, Node that in the graph.
	Sink, Node string
	// Rows says what it takes.
	Rows     string
	Schema   *messages.Schema
	Delivery Delivery
}

// RecordsOnly reports whether the checkpoint of the query is commit records alone:
// it has no state, and no rows wait in it for their epoch.
func (c *Compiled) RecordsOnly() bool { return c.Graph.RecordsOnly() }

// lateEnd is an operator that drops late rows.
type lateEnd struct {
	end
	columns []messages.Field // the row it drops
}

// keepLate marks the lowest aggregations: what they drop as late has all columns of
// their input. One above another finds none of its rows late.
func keepLate(n Node) Node {
	if agg, ok := n.(*Aggregate); ok && topAggregation(agg.Input) == nil {
		c := *agg
		c.KeepInput = true
		return &c
	}
	return mapInputs(n, keepLate)
}

// late notes that the operator e, which computed n, drops late rows.
func (c *compiler) late(n *Aggregate, e end, timed bool) {
	if c.cfg.Late != nil && n.KeepInput && timed && c.cfg.Mode != Complete {
		c.lates = append(c.lates, lateEnd{e, Schema(n.Input).Fields})
	}
}

// lateSink adds the sink for late rows.
func (c *compiler) lateSink() error {
	if len(c.lates) == 0 {
		return nil
	}
	first := c.lates[0]
	for _, l := range c.lates[1:] {
		if !messages.NewSchema(l.columns...).Equal(messages.NewSchema(first.columns...)) {
			return Errors{hinted(fail(ClassIllegalArgument, sql.Span{}, "late_output: the operators "+first.step.name+" and "+l.step.name+
				" drop rows with different columns, and one sink cannot take both"), "split the query in two")}
		}
	}
	for _, f := range first.columns {
		if strings.EqualFold(f.Name, "late_operator") || strings.EqualFold(f.Name, "late_watermark") {
			return Errors{hinted(fail("COLUMN_ALREADY_EXISTS", sql.Span{}, "late_output adds the column "+f.Name+", which the rows have already"), "rename it in a subquery")}
		}
	}
	side := Side{Sink: c.cfg.Late.Name, Rows: "late rows of " + first.step.name, Schema: actors.LateSchema(first.columns...)}
	for _, l := range c.lates[1:] {
		side.Rows += ", " + l.step.name
	}
	var sink connectors.Sink
	if c.cfg.Late.Open != nil {
		var err error
		if sink, err = c.cfg.Late.Open(side.Schema); err != nil {
			return Errors{fail(ClassIllegalArgument, sql.Span{}, "late_output sink "+c.cfg.Late.Name+": "+err.Error())}
		}
		d, derr := c.lateDelivery(sink, first.step.name)
		if derr != nil {
			return Errors{derr}
		}
		side.Delivery = d
	}
	var inputs []stepInput
	var edges []actors.Edge
	for _, l := range c.lates {
		inputs = append(inputs, stepInput{from: l.step, side: true})
		if l.node != nil {
			edges = append(edges, actors.LateRows(l.node))
		}
	}
	side.Node = c.name("late:" + side.Sink)
	c.step(side.Node, "late rows", 0, inputs...)
	c.out.Sides = append(c.out.Sides, side)
	if c.graph != nil && sink != nil {
		c.graph.Sink(side.Node, actors.SinkSpec{Sink: sink, Offer: side.Delivery.Offer, Schema: side.Schema, Lineage: side.Delivery.lineage}, edges...)
	}
	return nil
}

// lateDelivery chooses how late rows get to their sink: as exactly as the query's
// rows to theirs. Which rows are late may differ in a replay, so that no row can be
// recognized by its id: exactly once is per epoch.
func (c *compiler) lateDelivery(sink connectors.Sink, operator string) (Delivery, *sql.Error) {
	late := c.cfg.Late
	to := SinkConfig{Name: late.Name, Sink: sink, Guarantee: late.Guarantee, Visibility: late.Visibility}
	exact := c.out.Delivery.Offer.Guarantee == connectors.ExactlyOnce || c.out.Delivery.Offer.Guarantee == connectors.Transactional
	offered := slices.Contains(sink.Traits().Guarantees, connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch})
	if to.Guarantee == "" && exact && offered && cmp.Or(to.Visibility, "auto") != "at_once" && c.out.Verdict.Replayable {
		to.Guarantee, to.Visibility = "exactly_once", "epoch"
	}
	out := *c.out
	out.UpdateKey = nil
	out.optimized = &Values{Rows: [][]expr.Node{{}}}
	out.Verdict.Replay = NotRepeatable
	out.Verdict.Operator, out.Verdict.Reason = operator, "which rows are late depends on how partitions interleave"
	return deliver(&CompileConfig{Mode: Append, Sink: to}, &out)
}

// explainSides describes the sinks beside that of the query.
func (c *Compiled) explainSides(section func(title, text string)) {
	for _, s := range c.Sides {
		text := s.Delivery.String() + "\n"
		if s.Delivery.Reason == "" {
			text = s.Delivery.Offer.Guarantee.String() + ", " + s.Delivery.Offer.Visibility.String() + "\n"
		}
		section("Sink "+s.Sink+" for "+s.Rows, text+"columns: "+s.Schema.String()+"\n")
	}
}

// keyNames says what each group is, but for the window, in terms of what is read
// and not of what the query calls it, so that renaming a column keeps the state and
// grouping by another one does not.
func keyNames(n *Aggregate) []string {
	names := []string{}
	for _, g := range n.Groups {
		if g.Window == nil {
			names = append(names, originOf(g.Expr, n.Input).String())
		}
	}
	return names
}

// originOf writes an expression over the columns of n in terms of the lowest columns
// it can be followed to.
func originOf(e expr.Node, n Node) expr.Node {
	for {
		switch x := n.(type) {
		case *Project:
			e = substitute(e, x.Exprs)
			n = x.Input
			continue
		case *Filter, *Watermark, *Alias, *Sort, *Limit:
			n = x.Inputs()[0]
			continue
		case *Union:
			n = x.In[0]
			continue
		default:
		}
		cols := make([]expr.Node, len(n.Columns()))
		for i, c := range n.Columns() {
			cols[i] = expr.NewColumn(i, columnOrigin(n, i), c.Type)
		}
		return substitute(e, cols)
	}
}

// columnOrigin names a column of a node whose columns are not those of its input.
func columnOrigin(n Node, i int) string {
	g, ok := n.(*Generate)
	if !ok {
		return strings.ToLower(n.Columns()[i].Name)
	}
	keep := g.Keep
	if keep == nil {
		keep = upTo(len(g.Input.Columns()))
	}
	if i < len(keep) {
		c := g.Input.Columns()[keep[i]]
		return originOf(expr.NewColumn(keep[i], c.Name, c.Type), g.Input).String()
	}
	name := "generated#" + itoa(i-len(keep)) + "(" + originOf(g.Arg, g.Input).String()
	if g.Window != nil {
		name += ", " + g.Window.String()
	}
	return name + ")"
}
