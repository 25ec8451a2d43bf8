package plan

import (
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Replay is what a replay after a failure makes of rows that were already
// published.
type Replay uint8

// The verdicts, from strong to weak.
const (
	// Total: the same rows with the same ids.
	Total Replay = iota
	// IDStable: the same ids; the content is one legal outcome, and what was
	// published first wins.
	IDStable
	// NotRepeatable: rows may differ.
	NotRepeatable
)

// String returns the letter used in the documentation.
func (r Replay) String() string { return [...]string{"T", "I", "N"}[r] }

// Verdict is the replay verdict of a plan.
type Verdict struct {
	Replay Replay
	// Operator is the step that decides it; "" where none is to blame.
	Operator string
	// Reason says why, in one sentence without a full stop.
	Reason string
	// Replayable is false if a source cannot be read again.
	Replayable bool
}

// String writes the verdict for EXPLAIN.
func (v Verdict) String() string {
	word := [...]string{"T (total)", "I (id-stable)", "N (not repeatable)"}[v.Replay]
	if v.Operator != "" {
		return word + ": " + v.Operator + ": " + v.Reason
	}
	return word + ": " + v.Reason
}

// verdictOf derives the verdict of an optimized plan.
func verdictOf(n Node, mode Mode) Verdict {
	v := &judge{mode: mode, v: Verdict{Reason: "a replay makes the same rows with the same ids", Replayable: true}}
	v.node(n)
	return v.v
}

// judge walks a plan from the sources up. The first step that gives the weakest
// verdict decides.
type judge struct {
	mode Mode
	v    Verdict
}

func (j *judge) lower(r Replay, op, reason string) {
	if r > j.v.Replay {
		j.v.Replay, j.v.Operator, j.v.Reason = r, op, reason
	}
}

// node judges a plan and reports whether a stateful operator is in it.
func (j *judge) node(n Node) (above bool) {
	for _, in := range n.Inputs() {
		above = j.node(in) || above
	}
	switch n := n.(type) {
	case *Scan:
		if h := n.Table.Handle; h != nil && !h.Source().Traits().Replayable {
			j.v.Replayable = false
			j.lower(NotRepeatable, "source "+n.Table.Name, "it cannot be read again")
		}
	case *Aggregate:
		j.expressions(n, above)
		switch {
		case j.mode != Append:
			j.lower(NotRepeatable, "aggregate", "in "+j.mode.String()+" mode intermediate results depend on when they are emitted")
		default:
			j.lower(IDStable, "aggregate", "final windows have stable ids; in which order rows of several partitions arrive may decide what is late")
		}
		return true
	case *Limit:
		if j.mode != Complete || !above {
			j.lower(NotRepeatable, "limit", "which rows come first depends on how partitions interleave")
		}
		return true
	}
	j.expressions(n, above)
	return above
}

// expressions looks for clocks and chance.
func (j *judge) expressions(n Node, above bool) {
	nodes := expressions(n)
	if clock := clocks(nodes); clock != nil {
		step := strings.ToLower(strings.SplitN(describe(n), ":", 2)[0])
		switch src := arrivalClock(n); {
		case above:
			j.lower(NotRepeatable, step, clock.String()+" above an aggregation is the time of emission")
		case src != "":
			j.lower(NotRepeatable, step, clock.String()+" is the arrival time, as source "+src+" has no time of its own")
		}
	}
	if above {
		for _, e := range nodes {
			if !expr.Deterministic(e) && clocks([]expr.Node{e}) == nil {
				j.lower(NotRepeatable, strings.ToLower(strings.SplitN(describe(n), ":", 2)[0]), e.String()+" has no fixed seed above an aggregation")
			}
		}
	}
}

// arrivalClock names a source below n whose rows carry no time of the outside
// system, "" if there is none.
func arrivalClock(n Node) string {
	name := ""
	Walk(n, func(n Node) {
		if s, ok := n.(*Scan); ok && s.Table.Handle != nil && !s.Table.Handle.Source().Traits().BrokerTime {
			name = s.Table.Name
		}
	})
	return name
}

// fingerprint identifies a plan, for information.
func fingerprint(n Node, mode Mode) string {
	h := xxh3.HashString128(mode.String() + "\n" + Format(n)).Bytes()
	return hex.EncodeToString(h[:])
}

// Delivery is how rows get to a sink.
type Delivery struct {
	Offer connectors.Offer
	// Reason says why this pair of guarantee and visibility.
	Reason  string
	lineage bool
}

// String writes the delivery for EXPLAIN.
func (d Delivery) String() string {
	return d.Offer.Guarantee.String() + ", " + d.Offer.Visibility.String() + ": " + d.Reason
}

// chooser picks guarantee and visibility.
type chooser struct {
	cfg    *CompileConfig
	out    *Compiled
	traits connectors.SinkTraits
	name   string
	// upsert: the sink takes updates by key, and the result has one.
	upsert bool
	stable bool // rows have ids that survive a replay
}

// deliver chooses guarantee and visibility by the plan's verdict, the sink's
// traits and what the user asked for.
func deliver(cfg *CompileConfig, out *Compiled) (Delivery, *sql.Error) {
	c := &chooser{cfg: cfg, out: out, traits: cfg.Sink.Sink.Traits(), name: cfg.Sink.Name}
	if c.name == "" {
		c.name = "console"
	}
	if err := c.mode(); err != nil {
		return Delivery{}, err
	}
	c.upsert = cfg.Mode == Update && out.UpdateKey != nil && c.offers(connectors.Converges, connectors.AtOnce)
	c.stable = out.Verdict.Replay <= IDStable
	switch cfg.Sink.Visibility {
	case "", "auto", "at_once", "epoch":
	default:
		return Delivery{}, fail(ClassIllegalArgument, sql.Span{}, fmt.Sprintf("visibility %q is not one of auto, at_once, epoch", cfg.Sink.Visibility))
	}
	switch cfg.Sink.Guarantee {
	case "":
		return c.auto()
	case "at_least_once":
		return c.atLeastOnce()
	case "exactly_once":
		return c.exactlyOnce()
	case "transactional":
		return c.transactional()
	}
	return Delivery{}, fail(ClassIllegalArgument, sql.Span{}, fmt.Sprintf("guarantee %q is not one of at_least_once, exactly_once, transactional", cfg.Sink.Guarantee))
}

// mode checks that the sink takes the rows of the output mode.
func (c *chooser) mode() *sql.Error {
	t, m := c.traits, c.cfg.Mode
	changes := topAggregation(c.out.optimized) != nil
	ok := m == Append && t.Append || m == Update && (t.Update || t.Append && !changes) || m == Complete && t.Complete
	if ok {
		return nil
	}
	return hinted(fail(ClassSinkMode, sql.Span{}, "sink "+c.name+" does not support "+m.String()+" output mode"), "it takes "+modes(t))
}

func modes(t connectors.SinkTraits) string {
	var out []string
	for _, x := range []struct {
		ok   bool
		name string
	}{{t.Append, "append"}, {t.Update, "update"}, {t.Complete, "complete"}} {
		if x.ok {
			out = append(out, x.name)
		}
	}
	return strings.Join(out, ", ")
}

func (c *chooser) offers(g connectors.Guarantee, v connectors.Visibility) bool {
	for _, o := range c.traits.Guarantees {
		if o == (connectors.Offer{Guarantee: g, Visibility: v}) {
			return true
		}
	}
	return false
}

func (c *chooser) take(g connectors.Guarantee, v connectors.Visibility, reason string) (Delivery, *sql.Error) {
	return Delivery{
		Offer: connectors.Offer{Guarantee: g, Visibility: v}, Reason: reason,
		lineage: g == connectors.ExactlyOnce && v == connectors.AtOnce,
	}, nil
}

// refuse says that the sink or the plan cannot do what was asked for.
func (c *chooser) refuse(asked, why, hint string) (Delivery, *sql.Error) {
	return Delivery{}, hinted(fail(ClassIllegalArgument, sql.Span{}, "sink "+c.name+": "+asked+" is not possible: "+why), hint)
}

// auto is the strongest guarantee that does not delay rows.
func (c *chooser) auto() (Delivery, *sql.Error) {
	if c.cfg.Sink.Visibility == "epoch" {
		return c.perEpoch("visibility = 'epoch'")
	}
	switch {
	case c.stable && c.offers(connectors.ExactlyOnce, connectors.AtOnce):
		return c.take(connectors.ExactlyOnce, connectors.AtOnce, "rows have ids that a replay repeats (verdict "+c.out.Verdict.Replay.String()+")")
	case c.upsert:
		return c.take(connectors.Converges, connectors.AtOnce, "the sink keeps the last row per group key")
	case c.offers(connectors.AtLeastOnce, connectors.AtOnce):
		return c.take(connectors.AtLeastOnce, connectors.AtOnce, c.weak())
	}
	return c.perEpoch("the sink shows rows per epoch only")
}

// weak says why at least once is all there is without waiting.
func (c *chooser) weak() string {
	if c.stable {
		return "the sink does not recognize rows that were written before"
	}
	return "verdict N, " + c.out.Verdict.Operator + ": " + c.out.Verdict.Reason
}

// perEpoch publishes rows after their epoch's commit.
func (c *chooser) perEpoch(asked string) (Delivery, *sql.Error) {
	switch {
	case !c.out.Verdict.Replayable && c.offers(connectors.AtLeastOnce, connectors.PerEpoch):
		return c.take(connectors.AtLeastOnce, connectors.PerEpoch, "a source cannot be read again")
	case c.offers(connectors.ExactlyOnce, connectors.PerEpoch):
		return c.take(connectors.ExactlyOnce, connectors.PerEpoch, "rows of an epoch are published after its checkpoint")
	case c.offers(connectors.Transactional, connectors.PerEpoch):
		return c.take(connectors.Transactional, connectors.PerEpoch, "an epoch is published as a whole after its checkpoint")
	case c.offers(connectors.AtLeastOnce, connectors.PerEpoch):
		return c.take(connectors.AtLeastOnce, connectors.PerEpoch, "the sink publishes per epoch but may repeat rows")
	}
	return c.refuse(asked, "it publishes rows at once only", "it offers "+offers(c.traits))
}

func offers(t connectors.SinkTraits) string {
	var out []string
	for _, o := range t.Guarantees {
		out = append(out, o.Guarantee.String()+" "+o.Visibility.String())
	}
	return strings.Join(out, ", ")
}

func (c *chooser) atLeastOnce() (Delivery, *sql.Error) {
	switch {
	case c.cfg.Sink.Visibility == "epoch":
		if c.offers(connectors.AtLeastOnce, connectors.PerEpoch) {
			return c.take(connectors.AtLeastOnce, connectors.PerEpoch, "as asked for")
		}
		return c.perEpoch("visibility = 'epoch'")
	case c.offers(connectors.AtLeastOnce, connectors.AtOnce):
		return c.take(connectors.AtLeastOnce, connectors.AtOnce, "as asked for")
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse("visibility = 'at_once'", "it publishes rows per epoch only", "it offers "+offers(c.traits))
	}
	return c.perEpoch("guarantee = 'at_least_once'")
}

func (c *chooser) exactlyOnce() (Delivery, *sql.Error) {
	const asked = "guarantee = 'exactly_once'"
	if !c.out.Verdict.Replayable {
		return c.refuse(asked, c.out.Verdict.Operator+" cannot be read again after a failure", "use guarantee = 'at_least_once'")
	}
	if c.cfg.Sink.Visibility != "epoch" {
		switch {
		case c.stable && c.offers(connectors.ExactlyOnce, connectors.AtOnce):
			return c.take(connectors.ExactlyOnce, connectors.AtOnce, "rows have ids that a replay repeats (verdict "+c.out.Verdict.Replay.String()+")")
		case c.upsert:
			return c.take(connectors.Converges, connectors.AtOnce, "the sink keeps the last row per group key")
		}
	}
	switch {
	case c.cfg.Sink.Visibility == "at_once" && c.stable:
		return c.refuse(asked+" with visibility = 'at_once'", "the sink does not recognize rows that were written before", "use visibility = 'epoch'")
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse(asked+" with visibility = 'at_once'", c.out.Verdict.Operator+": "+c.out.Verdict.Reason, "use visibility = 'epoch'")
	case c.offers(connectors.ExactlyOnce, connectors.PerEpoch), c.offers(connectors.Transactional, connectors.PerEpoch):
		return c.perEpoch(asked)
	}
	return c.refuse(asked, c.weak(), "it offers "+offers(c.traits))
}

func (c *chooser) transactional() (Delivery, *sql.Error) {
	const asked = "guarantee = 'transactional'"
	switch {
	case !c.out.Verdict.Replayable:
		return c.refuse(asked, c.out.Verdict.Operator+" cannot be read again after a failure", "use guarantee = 'at_least_once'")
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse(asked+" with visibility = 'at_once'", "a transaction is visible as a whole, after its epoch", "use visibility = 'epoch'")
	case !c.offers(connectors.Transactional, connectors.PerEpoch):
		return c.refuse(asked, "the sink has no transactions", "it offers "+offers(c.traits))
	}
	return c.take(connectors.Transactional, connectors.PerEpoch, "an epoch is published as a whole after its checkpoint")
}

// updateKey returns the result's columns that identify a row in update mode; see
// Compiled.UpdateKey.
func updateKey(n Node, mode Mode) []int {
	if mode != Update {
		return nil
	}
	cols := n.Columns()
	all := make([]expr.Node, len(cols))
	for i, c := range cols {
		all[i] = expr.NewColumn(i, c.Name, c.Type)
	}
	for {
		switch x := n.(type) {
		case *Project:
			for i, e := range all {
				all[i] = substitute(e, x.Exprs)
			}
			n = x.Input
		case *Filter:
			n = x.Input
		case *Aggregate:
			return keyColumns(x, all)
		default:
			return nil
		}
	}
}

// keyColumns finds each group among expressions over the aggregation's columns. A
// window is known by its start or its end.
func keyColumns(n *Aggregate, result []expr.Node) []int {
	out := []int{}
	for g := range n.Groups {
		at := -1
		for i, e := range result {
			c, ok := e.(*expr.Column)
			if !ok && isWindow(n.cols[g].Type) {
				if f, isField := e.(*expr.Field); isField {
					c, ok = f.X.(*expr.Column)
				}
			}
			if ok && c.Index == g && at < 0 {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		out = append(out, at)
	}
	return out
}
