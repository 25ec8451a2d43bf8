package runtime

import (
	"fmt"

	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// note says something about a query that is no mistake but may not be meant.
func (sc *script) note(p *prepared, span sql.Span, format string, args ...any) {
	if span == (sql.Span{}) {
		span = p.nameSpan
	}
	line, col := sql.Position(sc.src, span.Start)
	p.notes = append(p.notes, fmt.Sprintf("%d:%d: note: %s", line, col, fmt.Sprintf(format, args...)))
}

// emitNotes says what a duration as trigger means here, which is not what it means
// in Spark, and where an emit interval has no effect. Options of SET are for other
// queries too.
func (sc *script) emitNotes(p *prepared, mode plan.Mode) {
	emit, hasEmit := lookup(p.options, "emit_interval")
	trig, hasTrigger := lookup(p.options, "trigger")
	if !hasTrigger {
		trig, hasTrigger = lookup(sc.sets, "trigger")
	}
	_, every, _ := trigger(trig.Value) // checked with the options
	paced := hasTrigger && every > 0
	aggregates := false
	plan.Walk(p.node, func(n plan.Node) {
		_, ok := n.(*plan.Aggregate)
		aggregates = aggregates || ok
	})
	why := ""
	switch {
	case mode == plan.Append:
		why = "in append mode rows leave as soon as they are final"
	case !aggregates:
		why = "without an aggregation rows leave as soon as they come"
	}
	switch {
	case paced && hasEmit:
		sc.note(p, trig.KeySpan, "trigger = '%s' has no effect beside emit_interval = '%s'", trig.Value, emit.Value)
	case paced && why == "":
		sc.note(p, trig.KeySpan, "trigger = '%s' sets emit_interval: the query reads all the time and emits changes at that interval; checkpoints follow epoch_interval", trig.Value)
	case paced:
		sc.note(p, trig.KeySpan, "trigger = '%s' has no effect: the query reads all the time, and %s; checkpoints follow epoch_interval", trig.Value, why)
	}
	if hasEmit && why != "" {
		sc.note(p, emit.KeySpan, "emit_interval has no effect: %s", why)
	}
}
