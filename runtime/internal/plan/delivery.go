package plan

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

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

// TablesAtMarkers reports whether the table that complete mode shows is that at the
// end of each epoch: what the sink publishes with an epoch is then what the epoch's
// checkpoint holds, without an interval of its own.
func (c *Compiled) TablesAtMarkers() bool {
	return c.config != nil && c.config.Mode == Complete && c.config.EmitInterval == nil && c.Delivery.Offer.Visibility == connectors.PerEpoch
}

// chooser picks guarantee and visibility.
type chooser struct {
	cfg    *CompileConfig
	out    *Compiled
	traits connectors.SinkTraits
	name   string
	// upsert: the sink keeps the last row per key, and that is the right one.
	upsert upsert
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
	if c.offers(connectors.Converges, connectors.AtOnce) {
		c.upsert = upsertOf(cfg, out)
		c.upsert.ok = c.upsert.ok && out.Verdict.Replayable
	}
	c.stable = out.Verdict.Replay <= IDStable
	switch cfg.Sink.Visibility {
	case "", "auto", "at_once", "epoch":
	default:
		return Delivery{}, fail(ClassIllegalArgument, sql.Span{}, fmt.Sprintf("visibility %q is not one of auto, at_once, epoch", cfg.Sink.Visibility))
	}
	switch cfg.Sink.Guarantee {
	case "":
		if c.upsert.keyFault(cfg.Mode) {
			return c.refuse(cfg.Mode.String()+" mode", c.upsert.reason, c.upsert.alternative())
		}
		return c.auto()
	case "at_least_once":
		return c.atLeastOnce()
	case "exactly_once":
		if c.upsert.keyFault(cfg.Mode) {
			return c.refuse("guarantee = 'exactly_once'", c.upsert.reason, c.upsert.alternative())
		}
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
	case c.upsert.ok:
		return c.take(connectors.Converges, connectors.AtOnce, c.upsert.reason)
	case c.offers(connectors.AtLeastOnce, connectors.AtOnce):
		return c.take(connectors.AtLeastOnce, connectors.AtOnce, c.weak())
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse("visibility = 'at_once'", "it publishes rows per epoch only", "it offers "+offers(c.traits))
	}
	return c.perEpoch("the sink shows rows per epoch only")
}

// weak says why at least once is all there is without waiting.
func (c *chooser) weak() string {
	switch {
	case !c.out.Verdict.Replayable:
	case c.upsert.reason != "" && !c.upsert.ok:
		return c.upsert.reason
	case c.stable:
		return "the sink does not recognize rows that were written before"
	}
	return "verdict N, " + c.out.Verdict.Operator + ": " + c.out.Verdict.Reason
}

// perEpoch publishes rows after their epoch's commit.
func (c *chooser) perEpoch(asked string) (Delivery, *sql.Error) {
	switch {
	case !c.out.Verdict.Replayable && c.offers(connectors.AtLeastOnce, connectors.PerEpoch):
		return c.take(connectors.AtLeastOnce, connectors.PerEpoch, c.out.Verdict.lost+" cannot be read again")
	case !c.out.Verdict.Replayable && c.offers(connectors.ExactlyOnce, connectors.PerEpoch):
		return c.take(connectors.ExactlyOnce, connectors.PerEpoch, "no row is published twice, but a failure loses rows, as "+c.out.Verdict.lost+" cannot be read again")
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
		return c.refuse(asked, c.out.Verdict.lost+" cannot be read again after a failure", "use guarantee = 'at_least_once'")
	}
	if c.cfg.Sink.Visibility != "epoch" {
		switch {
		case c.stable && c.offers(connectors.ExactlyOnce, connectors.AtOnce):
			return c.take(connectors.ExactlyOnce, connectors.AtOnce, "rows have ids that a replay repeats (verdict "+c.out.Verdict.Replay.String()+")")
		case c.upsert.ok:
			return c.take(connectors.Converges, connectors.AtOnce, c.upsert.reason+c.instead())
		}
	}
	switch {
	case c.cfg.Sink.Visibility == "at_once" && c.upsert.reason != "":
		return c.refuse(asked+" with visibility = 'at_once'", c.upsert.reason, c.epochHint())
	case c.cfg.Sink.Visibility == "at_once" && c.stable:
		return c.refuse(asked+" with visibility = 'at_once'", "the sink does not recognize rows that were written before", c.epochHint())
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse(asked+" with visibility = 'at_once'", c.out.Verdict.Operator+": "+c.out.Verdict.Reason, c.epochHint())
	case c.offers(connectors.ExactlyOnce, connectors.PerEpoch), c.offers(connectors.Transactional, connectors.PerEpoch):
		return c.perEpoch(asked)
	}
	return c.refuse(asked, c.weak(), "it offers "+offers(c.traits))
}

// instead says how readers see values of committed epochs only.
func (c *chooser) instead() string {
	if c.offers(connectors.ExactlyOnce, connectors.PerEpoch) {
		return " (visibility = 'epoch' shows values of committed epochs only)"
	}
	return ""
}

// epochHint is what to do when exactly once is not possible at once.
func (c *chooser) epochHint() string {
	if c.offers(connectors.ExactlyOnce, connectors.PerEpoch) || c.offers(connectors.Transactional, connectors.PerEpoch) {
		return "use visibility = 'epoch'"
	}
	return "it offers " + offers(c.traits)
}

func (c *chooser) transactional() (Delivery, *sql.Error) {
	const asked = "guarantee = 'transactional'"
	switch {
	case !c.out.Verdict.Replayable:
		return c.refuse(asked, c.out.Verdict.lost+" cannot be read again after a failure", "use guarantee = 'at_least_once'")
	case c.cfg.Sink.Visibility == "at_once":
		return c.refuse(asked+" with visibility = 'at_once'", "a transaction is visible as a whole, after its epoch", "use visibility = 'epoch'")
	case !c.offers(connectors.Transactional, connectors.PerEpoch):
		return c.refuse(asked, "the sink has no transactions", "it offers "+offers(c.traits))
	}
	return c.take(connectors.Transactional, connectors.PerEpoch, "an epoch is published as a whole after its checkpoint")
}
