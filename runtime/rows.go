package runtime

import (
	"slices"

	"github.com/streamd-io/streamd/epochs"
)

// Rows counts the rows of one run of a query, as far as they are committed.
type Rows struct {
	In, Out   uint64 // read from sources, bad ones included; given to the sink
	Late, Bad uint64 // left out behind the watermark, and by on_error
}

// Rows counts what has been committed since the query was started in this session.
func (q *Query) Rows() Rows {
	q.mu.Lock()
	now, base := q.maker.prev, q.base
	q.mu.Unlock()
	n, b := rowsOf(now, q.maker.sink), rowsOf(base, q.maker.sink)
	return Rows{In: n.In - b.In, Out: n.Out - b.Out, Late: n.Late - b.Late, Bad: n.Bad - b.Bad}
}

// rowsOf adds up the counters of a record, which may be nil.
func rowsOf(rec *epochs.Record, sink string) Rows {
	var r Rows
	if rec == nil {
		return r
	}
	for i := range rec.Counters {
		c := &rec.Counters[i]
		r.Late += c.Late
		r.Bad += c.Bad
		switch {
		case c.Operator == sink:
			r.Out += c.In
		case isSource(rec, c.Operator):
			r.In += c.In
		}
	}
	return r
}

func isSource(rec *epochs.Record, name string) bool {
	return slices.ContainsFunc(rec.Sources, func(s epochs.SourceState) bool { return s.Source == name })
}
