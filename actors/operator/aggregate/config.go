package aggregate

import (
	"fmt"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Mode is the output mode.
type Mode uint8

const (
	// Append emits each group once, when the watermark says that it is final.
	Append Mode = iota
	// Update emits the groups that changed.
	Update
	// Complete emits the whole table when something changed; nothing is ever
	// dropped or late.
	Complete
)

// String names the mode as SQL options do.
func (m Mode) String() string { return [...]string{"append", "update", "complete"}[m] }

// Window groups rows by time. Windows are [k*Slide+Offset, k*Slide+Offset+Size)
// on the microsecond axis since 1970, for every integer k.
type Window struct {
	// Column is the timestamp column of the input. Rows with NULL there belong to
	// no window and are filtered.
	Column int
	// Size is the length of a window; Slide is the distance between the starts of
	// two windows, at most Size, 0 means Size (tumbling windows). Offset shifts
	// all of them. All in microseconds.
	Size, Slide, Offset int64
}

// Agg is one aggregate function call.
type Agg struct {
	// Func is the function's name, in lower case.
	Func string
	// Arg is the argument's input column, -1 for count(*).
	Arg int
	// Filter is a boolean input column: only rows that are true there count; -1
	// means all rows.
	Filter int
	// Name is the name of the result column; the default is Func.
	Name string
}

// Config describes an aggregation.
type Config struct {
	// Input is the schema of the rows.
	Input *messages.Schema
	// Keys are the input columns to group by, without the window.
	Keys []int
	// Window, if not nil, groups by window too.
	Window *Window
	// EventTimeKey is the position in Keys of a column that carries the watermark:
	// a timestamp, or a window (struct of start and end) made earlier, which counts
	// with its end. A group is final when that time is at or before the watermark.
	// -1 means there is none. It is ignored with a Window.
	EventTimeKey int
	// Aggs are the results, in order; none makes it a DISTINCT of the keys.
	Aggs []Agg
	Mode Mode
	// EmitInterval coalesces the output of update and complete mode: at most one
	// emission per interval. 0 emits behind every batch.
	EmitInterval time.Duration
	// AtMarkers makes complete mode emit in Flush only: for a sink that shows the
	// last table of an epoch, when every marker is preceded by a Flush.
	AtMarkers bool
	// KeyNames, if not nil, says what each key is, in the order of Keys. State under
	// other names is not taken over.
	KeyNames []string
}

// check verifies the parts of the configuration that do not concern single
// functions.
func (c *Config) check() error {
	if c.Input == nil {
		return fault.New(fault.Config, "aggregate: no input schema")
	}
	for _, k := range c.Keys {
		if err := c.column(k, "key"); err != nil {
			return err
		}
		if t := c.Input.Fields[k].Type; t.Kind == messages.Map {
			return fault.New(fault.Config, "group by %q: values of type %s cannot be compared", c.Input.Fields[k].Name, t)
		}
	}
	if err := c.checkTime(); err != nil {
		return err
	}
	if c.Mode == Append && c.Window == nil && c.EventTimeKey < 0 {
		return fault.New(fault.Config, "aggregate: append mode needs a window or a grouping column with a watermark; use update or complete mode")
	}
	if c.Mode > Complete || c.EmitInterval < 0 {
		return fault.New(fault.Config, "aggregate: mode %d, emission interval %v", c.Mode, c.EmitInterval)
	}
	return nil
}

func (c *Config) checkTime() error {
	if w := c.Window; w != nil {
		if err := c.column(w.Column, "window"); err != nil {
			return err
		}
		if !isTimestamp(c.Input.Fields[w.Column].Type) {
			return fault.New(fault.Config, "window over %q: it is %s and not a timestamp", c.Input.Fields[w.Column].Name, c.Input.Fields[w.Column].Type)
		}
		slide := w.Slide
		if slide == 0 {
			slide = w.Size
		}
		if w.Size <= 0 || slide < 0 || slide > w.Size {
			return fault.New(fault.Config, "window of %d µs every %d µs: the size must be positive, the slide positive and at most the size", w.Size, slide)
		}
		return nil
	}
	if c.EventTimeKey < 0 {
		return nil
	}
	if c.EventTimeKey >= len(c.Keys) {
		return fault.New(fault.Config, "aggregate: event time is key %d of %d", c.EventTimeKey, len(c.Keys))
	}
	t := c.Input.Fields[c.Keys[c.EventTimeKey]].Type
	isWindow := t.Kind == messages.Struct && len(t.Fields) == 2 && isTimestamp(t.Fields[1].Type)
	if !isTimestamp(t) && !isWindow {
		return fault.New(fault.Config, "aggregate: event time key %q is %s and neither a timestamp nor a window", c.Input.Fields[c.Keys[c.EventTimeKey]].Name, t)
	}
	return nil
}

func isTimestamp(t messages.Type) bool {
	return t.Kind == messages.Timestamp || t.Kind == messages.TimestampNTZ
}

func (c *Config) column(i int, what string) error {
	if i < 0 || i >= c.Input.Len() {
		return fault.New(fault.Config, "aggregate: %s column %d of %d", what, i, c.Input.Len())
	}
	return nil
}

// describe writes keys, window and results as one canonical line. State written
// under another line cannot be taken over.
func (c *Config) describe(results []messages.Field) string {
	var b strings.Builder
	b.WriteString("keys(")
	for i, k := range c.Keys {
		if i > 0 {
			b.WriteByte(',')
		}
		if c.KeyNames != nil {
			b.WriteString(c.KeyNames[i] + " ")
		}
		b.WriteString(c.Input.Fields[k].Type.String())
	}
	b.WriteByte(')')
	if w := c.Window; w != nil {
		fmt.Fprintf(&b, " window(%d,%d,%d)", w.Size, w.Slide, w.Offset)
	} else if c.EventTimeKey >= 0 {
		fmt.Fprintf(&b, " time(%d)", c.EventTimeKey)
	}
	b.WriteString(" aggregates(")
	for i, a := range c.Aggs {
		if i > 0 {
			b.WriteByte(',')
		}
		arg := "*"
		if a.Arg >= 0 {
			arg = c.Input.Fields[a.Arg].Type.String()
		}
		fmt.Fprintf(&b, "%s(%s):%s", a.Func, arg, results[i].Type)
	}
	b.WriteString(") mode(" + c.Mode.String() + ")")
	return b.String()
}
