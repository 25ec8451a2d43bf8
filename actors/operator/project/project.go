// Package project has the operator that computes a new list of columns (SELECT
// without aggregates). Columns that are only passed on are shared with the
// input; computed ones are taken over from the expressions without a copy.
package project

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Column is a column of the output.
type Column struct {
	Name string
	// Expr is compiled for this instance; no two columns share one, unless it
	// always gives a frozen column.
	Expr operator.Expr
}

// Config describes a projection.
type Config struct {
	Columns []Column
}

// Schema returns the output's schema.
func (c Config) Schema() *messages.Schema {
	fields := make([]messages.Field, len(c.Columns))
	for i, col := range c.Columns {
		fields[i] = messages.Field{Name: col.Name, Type: col.Expr.Type()}
	}
	return messages.NewSchema(fields...)
}

// New returns a projection. Rows on which an expression fails follow the task's
// row error policy.
func New(cfg Config) operator.Operator {
	return &project{columns: cfg.Columns, pool: messages.NewPool(cfg.Schema())}
}

type project struct {
	columns  []Column
	pool     *messages.Pool
	eval     *operator.Evaluator
	counters *epochs.Counters
	wm       messages.EventTime // highest watermark sent down with a batch
}

// Open readies the evaluator.
func (p *project) Open(t *operator.Task) error {
	p.eval = operator.NewEvaluator(t)
	p.counters = t.Counters
	p.counters.Rule = epochs.RowForRow
	p.wm = messages.NoEventTime
	return nil
}

// Process emits one batch with the same physical rows. It emits nothing when
// no row is left and nobody would miss the batch.
func (p *project) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	p.eval.Begin(b)
	defer p.eval.End()
	res := p.pool.Get()
	res.InheritSide(b)
	for i := range p.columns {
		if err := p.column(res, i, b); err != nil {
			res.Release()
			return false, err
		}
	}
	if kept := p.eval.Rows(); kept < b.Rows() {
		res.Select(append(res.SelectBuffer(kept), p.eval.Selection()...))
	}
	p.counters.In += uint64(b.Rows())
	p.counters.Out += uint64(res.Rows())
	if res.Rows() == 0 && res.Watermark() <= p.wm && res.Frame() == 0 {
		res.Release()
		return false, nil
	}
	p.wm = max(p.wm, res.Watermark())
	out.Emit(res.Publish())
	return false, nil
}

// column computes column i of res.
func (p *project) column(res *messages.Batch, i int, b *messages.Batch) error {
	col, err := p.eval.Eval(p.columns[i].Expr)
	if err != nil {
		return err
	}
	if col.Len() != b.Len() {
		return fault.New(fault.Internal, "project: column %q has %d values for %d rows", p.columns[i].Name, col.Len(), b.Len())
	}
	if col.Frozen() {
		res.Share(i, col, b)
	} else {
		res.Own(i).Swap(col)
	}
	return nil
}

// Close does nothing.
func (p *project) Close() error { return nil }
