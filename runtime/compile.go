package runtime

import (
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// compile turns the plan of a query into a graph, bound to its sink. It reports
// whether it succeeded.
func (sc *script) compile(p *prepared) bool {
	if o, ok := lookup(p.options, "flush_at_end"); p.values.Bool("flush_at_end") && !bounded(p.values) {
		span := p.nameSpan
		if ok {
			span = o.KeySpan
		}
		sc.fail(configError(span, classOption, "flush_at_end needs trigger = 'available_now': a continuous query has no end"))
		return false
	}
	mode, merr := plan.ParseMode(p.values.String("output_mode"))
	if merr != nil {
		sc.fail(merr)
		return false
	}
	if errs := plan.Check(p.node, mode); len(errs) > 0 {
		sc.fail(errs...)
		return false
	}
	sink, err := sc.s.openSink(sc.ctx, p.sink, plan.Schema(p.node))
	if err != nil {
		sc.fail(configError(p.nameSpan, classOption, "sink %s: %v", p.sink.name, err))
		return false
	}
	cfg := sc.compileConfig(p, mode, sink)
	letters, serr := sc.deadLetters(p)
	if serr != nil {
		sc.fail(serr)
		return false
	}
	cfg.DeadLetter = func(table string) (string, *actors.SinkSpec) { return letters[table].sink, letters[table].spec }
	if cfg.Late, serr = sc.lateOutput(p); serr != nil {
		sc.fail(serr)
		return false
	}
	c, err := plan.Compile(p.node, cfg)
	if err != nil {
		if errs, ok := errors.AsType[plan.Errors](err); ok {
			for _, e := range errs {
				if e.Span == (sql.Span{}) { // about the query as a whole
					e.Span = p.nameSpan
				}
			}
			sc.fail(errs...)
		} else {
			sc.fail(configError(p.nameSpan, "ANALYSIS_ERROR", "%v", err))
		}
		return false
	}
	if cfg.Late != nil && !slices.ContainsFunc(c.Sides, func(s plan.Side) bool { return strings.HasPrefix(s.Node, "late:") }) && !sc.everyLate(p) {
		return false
	}
	p.compiled = c
	p.text = fmt.Sprintf("Query %s (output mode %s)\n%s", p.name, mode, c.Explain(p.extended))
	sc.emitNotes(p, mode)
	for _, n := range p.notes {
		p.text += "  " + n + "\n"
	}
	return true
}

func (sc *script) compileConfig(p *prepared, mode plan.Mode, sink connectors.Sink) plan.CompileConfig {
	v := p.values
	bounded, every, _ := trigger(v.String("trigger")) // checked with the options
	clock := sc.s.sys.Clock()
	cfg := plan.CompileConfig{
		Mode: mode, Sink: plan.SinkConfig{Name: p.sink.name, Sink: sink}, Parallelism: int(v.Int("parallelism")), Bounded: bounded,
		IdleTimeout: v.Duration("idle_timeout"), MaxFutureSkew: v.Duration("max_future_skew"),
		MaxWatermark: v.Enum("multiple_watermark_policy") == "max",
		Expr: expr.Options{
			NonANSI: !v.Bool("ansi"), Zone: zone(v, nil), Seed: seed(p.name),
			Now: func() messages.EventTime { return messages.EventTimeOf(clock.Now()) },
		},
		RowErrors:   sc.rowErrors(p),
		OnBadRecord: sc.s.badRecords(p),
	}
	cfg.Sink.Guarantee, cfg.Sink.Visibility = p.sink.options.Enum("guarantee"), p.sink.options.Enum("visibility")
	if cfg.Parallelism == 0 {
		cfg.Parallelism = defaultParallelism()
	}
	if cfg.IdleTimeout == 0 {
		cfg.IdleTimeout = -1 // the option's 0 means never
	}
	switch {
	case v.Has("emit_interval"):
		d := v.Duration("emit_interval")
		cfg.EmitInterval = &d
	case every > 0:
		cfg.EmitInterval = &every
	}
	return cfg
}

// lateOutput finds the sink of the option late_output, nil without it.
func (sc *script) lateOutput(p *prepared) (*plan.LateOutput, *sql.Error) {
	name := p.values.String("late_output")
	if name == "" {
		return nil, nil
	}
	d := sc.catalog.sinks[key(name)]
	if d == nil {
		_, err := sc.catalog.sink(sql.Name{Span: p.nameSpan, Parts: []sql.Ident{{Span: p.nameSpan, Name: name}}})
		err.Msg = "late_output: " + err.Msg + "; it must be defined before the query"
		return nil, err
	}
	if d == p.sink {
		return nil, configError(p.nameSpan, classOption, "late_output: %s takes the results of the query; late rows have other columns and need a sink of their own", name)
	}
	return &plan.LateOutput{
		Name: d.name, Open: func(s *messages.Schema) (connectors.Sink, error) { return sc.s.openSink(sc.ctx, d, s) },
		Guarantee: d.options.Enum("guarantee"), Visibility: d.options.Enum("visibility"),
	}, nil
}

// everyLate refuses late_output on a query that drops no late row. Set for all
// queries of a script it has no effect there.
func (sc *script) everyLate(p *prepared) bool {
	o, ok := lookup(p.options, "late_output")
	if !ok {
		return true
	}
	sc.fail(configError(o.KeySpan, classOption, "late_output has no effect: query %s has no operator that drops late rows (one over event time with a watermark, in append or update mode)", p.name))
	return false
}

// letterSink is the sink for the bad records of a table.
type letterSink struct {
	sink string
	spec *actors.SinkSpec
}

// deadLetters makes the sinks for the bad records of the tables of a query.
func (sc *script) deadLetters(p *prepared) (map[string]letterSink, *sql.Error) {
	out := map[string]letterSink{}
	var fail *sql.Error
	plan.Walk(p.node, func(n plan.Node) {
		scan, ok := n.(*plan.Scan)
		if !ok || fail != nil {
			return
		}
		h, ok := scan.Table.Handle.(*handle)
		if !ok || h.d == nil || h.d.source != nil || h.d.options.String("dead_letter") == "" {
			return
		}
		name := h.d.options.String("dead_letter")
		d := sc.catalog.sinks[key(name)]
		if d == nil {
			_, fail = sc.catalog.sink(sql.Name{Span: p.nameSpan, Parts: []sql.Ident{{Span: p.nameSpan, Name: name}}})
			fail.Msg = fmt.Sprintf("dead_letter of %s: %s; it must be defined before the query", scan.Table.Name, fail.Msg)
			return
		}
		sink, err := sc.s.openSink(sc.ctx, d, actors.DeadLetterSchema())
		if err != nil {
			fail = configError(p.nameSpan, classOption, "dead_letter sink %s: %v", name, err)
			return
		}
		out[scan.Table.Name] = letterSink{d.name, &actors.SinkSpec{Sink: sink, Schema: actors.DeadLetterSchema(), Offer: bestOffer(sink.Traits()), Lineage: true}}
	})
	return out, fail
}

// bestOffer picks the strongest guarantee for rows with identities.
func bestOffer(t connectors.SinkTraits) connectors.Offer {
	for _, want := range []connectors.Offer{
		{Guarantee: connectors.ExactlyOnce, Visibility: connectors.AtOnce},
		{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
	} {
		if slices.Contains(t.Guarantees, want) {
			return want
		}
	}
	return connectors.Offer{}
}

// seed is the query's share of the randomness of rand and uuid.
func seed(name string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name)) // a hash never fails
	return h.Sum64()
}

// rowErrors is the on_error policy for rows that a stateless expression cannot
// handle: that of the query's sources, the strictest where they differ.
func (sc *script) rowErrors(p *prepared) *operator.RowErrors {
	policy, found := connectors.FailOnError, false
	plan.Walk(p.node, func(n plan.Node) {
		scan, ok := n.(*plan.Scan)
		if !ok {
			return
		}
		h, ok := scan.Table.Handle.(*handle)
		if !ok || h.d == nil {
			policy, found = connectors.FailOnError, true
			return
		}
		if o := h.d.onError(); !found || o < policy {
			policy, found = o, true
		}
	})
	switch policy {
	case connectors.DropOnError, connectors.DeadLetter:
		return &operator.RowErrors{Drop: true, Report: sc.s.badRow(p)}
	case connectors.NullOnError:
		return &operator.RowErrors{Report: sc.s.badRow(p)}
	default:
		return nil
	}
}

// sampleEvery limits how often an example of a bad record is logged.
const sampleEvery = 10 * time.Second

// badRecords logs an example of the records that the policy kept out.
func (s *Session) badRecords(p *prepared) func(table string) func(*connectors.BadRecord) {
	return func(table string) func(*connectors.BadRecord) {
		limit := newSampler(s.sys.Clock(), sampleEvery)
		p.flush = append(p.flush, limit.flush)
		return func(b *connectors.BadRecord) {
			limit.log(s.cfg.Log, "bad record", "query", p.name, "source", table, "origin", b.Origin, "error", b.Cause)
		}
	}
}

// badRow logs an example of the rows on which an expression failed.
func (s *Session) badRow(p *prepared) func(*messages.Batch, int, error) {
	limit := newSampler(s.sys.Clock(), sampleEvery)
	p.flush = append(p.flush, limit.flush)
	return func(_ *messages.Batch, _ int, err error) {
		limit.log(s.cfg.Log, "bad row", "query", p.name, "error", err)
	}
}
