package plan

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
)

// windowsOf is the expression that gives the windows a timestamp is in, as an
// array of structs, the latest window first; NULL for NULL.
type windowsOf struct {
	time               operator.Expr
	size, slide, start int64
	typ                messages.Type
	out                messages.Column
}

func newWindowsOf(time operator.Expr, w WindowSpec) *windowsOf {
	t := messages.T(time.Type().Kind)
	return &windowsOf{
		time: time, size: w.Size.Microseconds(), slide: w.Slide.Microseconds(), start: w.Start.Microseconds(),
		typ: messages.ArrayType(messages.StructType(messages.Field{Name: "start", Type: t}, messages.Field{Name: "end", Type: t})),
	}
}

// Type returns array<struct<start,end>>.
func (e *windowsOf) Type() messages.Type { return e.typ }

// Eval computes the windows of the selected rows.
func (e *windowsOf) Eval(b *messages.Batch) (*messages.Column, error) {
	col, err := e.time.Eval(b)
	if err != nil {
		return nil, err
	}
	e.out.Reset(e.typ)
	times := col.Int64s()
	for k := range b.Rows() {
		i := b.Row(k)
		for e.out.Len() < i {
			e.out.AppendNull() // not selected
		}
		if col.IsNull(i) {
			e.out.AppendNull()
			continue
		}
		e.append(times[i])
	}
	for e.out.Len() < b.Len() {
		e.out.AppendNull()
	}
	return &e.out, nil
}

// append adds the windows of one time. Windows that reach beyond the time axis are
// cut off there.
func (e *windowsOf) append(t int64) {
	windows := e.out.Child(0)
	rest := (t%e.slide - e.start%e.slide) % e.slide
	if rest < 0 {
		rest += e.slide
	}
	for start := t - rest; start <= t && t-start < e.size; start -= e.slide {
		end := start + e.size
		if end < start {
			end = int64(messages.MaxEventTime)
		}
		windows.Child(0).AppendInt64(start)
		windows.Child(1).AppendInt64(end)
		windows.CloseStruct()
	}
	e.out.CloseList()
}
