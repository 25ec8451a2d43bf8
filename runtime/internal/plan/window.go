package plan

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// daysPerMonth is how many days a month has in a watermark's delay: never too few.
const daysPerMonth = 31

// DelayOf returns the length of a watermark's delay. Months count 31 days. It must
// not be negative.
func DelayOf(v sql.Interval, span sql.Span) (time.Duration, *sql.Error) {
	days := int64(v.Days) + int64(v.Months)*daysPerMonth
	const limit = int64(1<<62) / int64(24*time.Hour) // half of what a Duration holds
	if days > limit || days < -limit || v.Micros > limit*24*3600e6 || v.Micros < -limit*24*3600e6 {
		return 0, fail(ClassIllegalArgument, span, "the delay of the watermark is too long")
	}
	d := time.Duration(days)*24*time.Hour + time.Duration(v.Micros)*time.Microsecond
	if d < 0 {
		return 0, fail(ClassIllegalArgument, span, "the delay of the watermark must not be negative")
	}
	return d, nil
}

// ParseDelay reads a delay such as '10 seconds' or 'interval 1 month'.
func ParseDelay(text string) (time.Duration, *sql.Error) {
	v, err := sql.ParseInterval(text)
	if err != nil {
		return 0, fail(ClassAnalysis, sql.Span{}, "the delay of the watermark is no interval: "+err.Error())
	}
	return DelayOf(v, sql.Span{})
}

// windowCall is a call of window() with its arguments understood.
type windowCall struct {
	time expr.Node // a timestamp
	mark TimeMark  // of the window column
	typ  messages.Type
	spec WindowSpec
	span sql.Span
}

func (w *windowCall) key() string {
	return expr.Key(w.time) + "/" + w.spec.String()
}

// String writes the arguments of window() behind the time.
func (w WindowSpec) String() string {
	s := w.Size.String()
	if w.Slide != w.Size || w.Start != 0 {
		s += ", " + w.Slide.String()
	}
	if w.Start != 0 {
		s += ", " + w.Start.String()
	}
	return s
}

// window understands window(time, size[, slide[, start]]).
func (a *analyzer) window(c *sql.Call, in Node) (*windowCall, *sql.Error) {
	if len(c.Args) < 2 || len(c.Args) > 4 {
		return nil, hinted(fail(expr.ClassWrongNumArgs, c.Span, "window takes 2 to 4 arguments, not "+strconv.Itoa(len(c.Args))),
			"usage: window(time, 'size'[, 'slide'[, 'start']])")
	}
	if c.Distinct || c.Filter != nil {
		return nil, fail(ClassAnalysis, c.Span, "DISTINCT and FILTER do not apply to window()")
	}
	t, err := a.resolve(c.Args[0], scopeOf(in), nil)
	if err != nil {
		return nil, err
	}
	w := &windowCall{span: c.Span, mark: NotTime}
	if w.time, err = windowTimestamp(t, c.Args[0].Loc()); err != nil {
		return nil, err
	}
	if mark(w.time, in.Columns()) == EventTime {
		w.mark = WindowTime
	}
	kind := messages.T(w.time.Type().Kind)
	w.typ = messages.StructType(messages.Field{Name: "start", Type: kind}, messages.Field{Name: "end", Type: kind})
	if w.spec, err = windowSpec(c); err != nil {
		return nil, err
	}
	return w, nil
}

// windowTimestamp makes a timestamp of the first argument of window().
func windowTimestamp(t expr.Node, span sql.Span) (expr.Node, *sql.Error) {
	switch t.Type().Kind {
	case messages.Timestamp, messages.TimestampNTZ:
		return t, nil
	case messages.Date, messages.String:
		return expr.NewCast(t, messages.T(messages.Timestamp), false)
	case messages.Struct:
		if n, err := endMinusOne(t); err == nil {
			return n, nil
		}
	}
	return nil, fail(expr.ClassMismatch, span, "window() needs a timestamp or a window, not "+t.Type().String())
}

// maxWindows bounds the windows that a row belongs to: each is a row of its own
// where windows are not only grouped by, and a result when it closes.
const maxWindows = 10_000

func windowSpec(c *sql.Call) (WindowSpec, *sql.Error) {
	var d [3]time.Duration
	for i, arg := range c.Args[1:] {
		v, err := windowLength(arg)
		if err != nil {
			return WindowSpec{}, err
		}
		d[i] = v
	}
	w := WindowSpec{Size: d[0], Slide: d[0], Start: d[2]}
	if len(c.Args) > 2 {
		w.Slide = d[1]
	}
	switch {
	case w.Size <= 0:
		return w, fail(ClassAnalysis, c.Args[1].Loc(), "the size of a window must be greater than 0")
	case w.Slide <= 0:
		return w, fail(ClassAnalysis, c.Args[2].Loc(), "the slide of a window must be greater than 0")
	case w.Slide > w.Size:
		return w, fail(ClassAnalysis, c.Args[2].Loc(), "the slide of a window must not be longer than its size")
	case (w.Size+w.Slide-1)/w.Slide > maxWindows:
		return w, hinted(fail(ClassAnalysis, c.Args[2].Loc(), fmt.Sprintf("each row would belong to %d windows, of which there may be %d", (w.Size+w.Slide-1)/w.Slide, maxWindows)),
			"make the slide of the window longer or the window shorter")
	case w.Start.Abs() >= w.Slide:
		return w, fail(ClassAnalysis, c.Args[3].Loc(), "the start of a window must be shorter than its slide")
	}
	return w, nil
}

// windowLength reads a length: an interval in any form, or microseconds.
func windowLength(e sql.Expr) (time.Duration, *sql.Error) {
	var v sql.Interval
	switch x := e.(type) {
	case *sql.StringLit:
		var err error
		if v, err = sql.ParseInterval(x.Value); err != nil {
			return 0, fail(ClassAnalysis, e.Loc(), err.Error())
		}
	case *sql.IntervalLit:
		v = x.Value
	case *sql.NumberLit:
		n, err := strconv.ParseInt(x.Text, 10, 64)
		if err != nil {
			return 0, fail(ClassAnalysis, e.Loc(), "a number as a window length counts microseconds and must be whole")
		}
		v.Micros = n
	case *sql.Unary:
		if x.Op == sql.Minus {
			d, err := windowLength(x.X)
			return -d, err
		}
		return 0, fail(ClassAnalysis, e.Loc(), "the lengths of a window must be constants")
	default:
		return 0, hinted(fail(ClassAnalysis, e.Loc(), "the lengths of a window must be constants"), "write '10 seconds' or INTERVAL 10 SECONDS")
	}
	if v.Months != 0 {
		return 0, fail(ClassAnalysis, e.Loc(), "a window cannot be measured in months or years: they have no fixed length")
	}
	micros, ok := v.TotalMicros()
	const limit = int64(1<<63-1) / 1000
	if !ok || micros > limit || micros < -limit {
		return 0, fail(ClassAnalysis, e.Loc(), "the length of the window is out of range")
	}
	return time.Duration(micros) * time.Microsecond, nil
}

// windowTime understands window_time(w): the last microsecond of a window.
func (a *analyzer) windowTime(c *sql.Call, s expr.Scope, hook hook) (expr.Node, *sql.Error) {
	if len(c.Args) != 1 {
		return nil, fail(expr.ClassWrongNumArgs, c.Span, "window_time takes 1 argument, not "+strconv.Itoa(len(c.Args)))
	}
	w, err := a.resolve(c.Args[0], s, hook)
	if err != nil {
		return nil, err
	}
	n, err := endMinusOne(w)
	if err != nil {
		err.Span = c.Args[0].Loc()
	}
	return n, err
}

// endMinusOne is the last microsecond of a window.
func endMinusOne(w expr.Node) (expr.Node, *sql.Error) {
	if !isWindow(w.Type()) {
		return nil, fail(expr.ClassMismatch, sql.Span{}, "window_time() needs a window, not "+w.Type().String())
	}
	n, err := expr.Call("-", &expr.Field{X: w, Index: 1}, expr.Duration(time.Microsecond))
	if err != nil {
		return nil, asSQL(err)
	}
	return n, nil
}

// windowTimeOf returns the column whose window_time n is, or nil.
func windowTimeOf(n *expr.FuncCall) *expr.Column {
	if len(n.Args) != 2 {
		return nil
	}
	f, ok := n.Args[0].(*expr.Field)
	if !ok || !isWindow(f.X.Type()) || f.Index != 1 {
		return nil
	}
	same, err := endMinusOne(f.X)
	if err != nil || !expr.Equal(same, n) {
		return nil
	}
	c, _ := f.X.(*expr.Column)
	return c
}

// isWindow reports whether t is the type of window().
func isWindow(t messages.Type) bool {
	if t.Kind != messages.Struct || len(t.Fields) != 2 {
		return false
	}
	start, end := t.Fields[0], t.Fields[1]
	return strings.EqualFold(start.Name, "start") && strings.EqualFold(end.Name, "end") && start.Type.Equal(end.Type) &&
		(start.Type.Kind == messages.Timestamp || start.Type.Kind == messages.TimestampNTZ)
}
