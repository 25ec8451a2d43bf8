// Package explode has the generators that make rows from the elements of an
// array or a map: explode, posexplode and their outer variants, as LATERAL VIEW
// and as functions of the select list.
package explode

import (
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Config describes a generator. The output has the columns Keep of the input,
// then the generated ones: the position if asked for (int, from 0), and the
// element of an array or the key and the value of a map.
type Config struct {
	Input *messages.Schema
	// Column is the index of the array or map.
	Column int
	// Keep are the input columns repeated for each element.
	Keep []int
	// Position adds the position.
	Position bool
	// Outer keeps a row whose array or map is NULL or empty, once, with NULL in
	// the generated columns. Such rows are counted as Filtered otherwise.
	Outer bool
	// Names are those of the generated columns. Missing ones are called pos, col,
	// key and value.
	Names []string
}

// Schema returns the output's schema. It fails if Column is no array or map.
func (c Config) Schema() (*messages.Schema, error) {
	s := messages.NewSchema()
	for _, k := range c.Keep {
		s.Fields = append(s.Fields, c.Input.Fields[k])
	}
	generated := []messages.Field{}
	if c.Position {
		generated = append(generated, messages.Field{Name: "pos", Type: messages.T(messages.Int)})
	}
	switch t := c.Input.Fields[c.Column].Type; t.Kind {
	case messages.Array:
		generated = append(generated, messages.Field{Name: "col", Type: *t.Elem})
	case messages.Map:
		generated = append(generated, messages.Field{Name: "key", Type: *t.Key}, messages.Field{Name: "value", Type: *t.Elem})
	default:
		return nil, fault.New(fault.Config, "explode: column %q is of type %s, want an array or a map", c.Input.Fields[c.Column].Name, t)
	}
	for i, name := range c.Names {
		if i < len(generated) {
			generated[i].Name = name
		}
	}
	s.Fields = append(s.Fields, generated...)
	return s, nil
}

// New returns the generator.
func New(cfg Config) operator.Operator { return &explode{cfg: cfg} }

type explode struct {
	cfg      Config
	pool     *messages.Pool
	counters *epochs.Counters
	wm       messages.EventTime // highest watermark sent down with a batch
	cur      cursor
	rows     []int32 // of the batch being made: input row and index of the element,
	elems    []int32 // -1 for the row an outer generator makes from nothing
	pos      []int32 // position of the element in its array
	marks    []messages.Mark
}

// cursor is how far the current batch has been worked off.
type cursor struct {
	b     *messages.Batch // retained while work is left
	row   int             // index into the selected rows
	elem  int             // elements of that row that are done
	mark  int             // marks that are done
	first bool            // nothing has been emitted for b
}

// Open checks the configuration.
func (x *explode) Open(t *operator.Task) error {
	s, err := x.cfg.Schema()
	if err != nil {
		return err
	}
	x.pool = messages.NewPool(s)
	// Not nil even when empty: a nil list of rows would stand for all rows.
	x.rows = make([]int32, 0, operator.MaxEmit)
	x.elems = make([]int32, 0, operator.MaxEmit)
	x.counters = t.Counters
	x.counters.Rule = epochs.AnyRows
	x.wm = messages.NoEventTime
	return nil
}

// Close drops what is left of the current batch.
func (x *explode) Close() error {
	if x.cur.b != nil {
		x.cur.b.Release()
		x.cur.b = nil
	}
	return nil
}

// Process begins with a batch.
func (x *explode) Process(_ int, b *messages.Batch, out operator.Output) (bool, error) {
	b.Retain(1)
	x.cur = cursor{b: b, first: true}
	x.counters.In += uint64(b.Rows())
	return x.Resume(out)
}

// Resume emits the next batch of at most operator.MaxEmit rows.
func (x *explode) Resume(out operator.Output) (bool, error) {
	more := x.collect()
	x.emit(out, more)
	if !more {
		x.cur.b.Release()
		x.cur.b = nil
	}
	return more, nil
}

// collect lists the rows of the next batch and reports whether some are left.
func (x *explode) collect() (more bool) {
	b, cur := x.cur.b, &x.cur
	c := b.Column(x.cfg.Column)
	off := c.Offsets()
	x.rows, x.elems, x.pos, x.marks = x.rows[:0], x.elems[:0], x.pos[:0], x.marks[:0]
	for ; cur.row < b.Rows(); cur.row++ {
		i := b.Row(cur.row)
		if cur.elem == 0 {
			x.passMarks(int32(i) - 1)
		}
		from, to := int(off[i]), int(off[i+1])
		if c.IsNull(i) {
			to = from
		}
		if from == to && !x.cfg.Outer {
			x.counters.Filtered++
			continue
		}
		if len(x.rows) >= operator.MaxEmit {
			return true
		}
		if from == to {
			x.add(i, -1, -1)
			continue
		}
		for ; from+cur.elem < to; cur.elem++ {
			if len(x.rows) >= operator.MaxEmit {
				return true
			}
			x.add(i, from+cur.elem, cur.elem)
		}
		cur.elem = 0
	}
	x.passMarks(int32(b.Len()) - 1)
	return false
}

func (x *explode) add(row, elem, pos int) {
	x.rows = append(x.rows, int32(row))
	x.elems = append(x.elems, int32(elem))
	x.pos = append(x.pos, int32(pos))
}

// passMarks puts the marks up to and including the given input row behind the
// rows collected so far.
func (x *explode) passMarks(upTo int32) {
	marks := x.cur.b.Marks()
	for ; x.cur.mark < len(marks) && marks[x.cur.mark].Row <= upTo; x.cur.mark++ {
		m := messages.Mark{Row: int32(len(x.rows)) - 1, At: marks[x.cur.mark].At}
		if k := len(x.marks); k > 0 && x.marks[k-1].Row == m.Row {
			x.marks[k-1] = m
		} else {
			x.marks = append(x.marks, m)
		}
	}
}

// emit makes a batch of the collected rows. more says that another one follows
// for the same input.
func (x *explode) emit(out operator.Output, more bool) {
	b := x.cur.b
	frame := b.Frame()
	if !x.cur.first {
		frame &^= messages.FrameStart
	}
	if more {
		frame &^= messages.FrameEnd
	}
	wm := messages.NoEventTime
	switch {
	case !more:
		wm = b.Watermark()
	case len(x.marks) > 0:
		wm = x.marks[len(x.marks)-1].At
	}
	if len(x.rows) == 0 && wm <= x.wm && frame == 0 {
		return
	}
	x.cur.first = false
	x.wm = max(x.wm, wm)
	res := x.pool.Get()
	for k, col := range x.cfg.Keep {
		res.Own(k).AppendSelected(b.Column(col), x.rows)
	}
	x.generated(res, len(x.cfg.Keep))
	res.SetLen(len(x.rows))
	x.side(res)
	res.SetWatermark(wm)
	res.SetFrame(frame)
	if len(x.marks) > 0 {
		res.SetMarks(append(res.MarkBuffer(len(x.marks)), x.marks...))
	}
	x.counters.Out += uint64(len(x.rows))
	out.Emit(res.Publish())
}

// generated fills the columns from k on.
func (x *explode) generated(res *messages.Batch, k int) {
	if x.cfg.Position {
		pos := res.Own(k)
		for i, p := range x.pos {
			if x.elems[i] < 0 {
				pos.AppendNull()
			} else {
				pos.AppendInt32(p)
			}
		}
		k++
	}
	in := x.cur.b.Column(x.cfg.Column)
	if in.Type().Kind == messages.Array {
		x.elements(res.Own(k), in.Child(0))
		return
	}
	x.elements(res.Own(k), in.Child(0).Child(0))
	x.elements(res.Own(k+1), in.Child(0).Child(1))
}

// elements appends the listed elements of from, in runs between the missing ones.
func (x *explode) elements(c, from *messages.Column) {
	start := 0
	for i, e := range x.elems {
		if e < 0 {
			c.AppendSelected(from, x.elems[start:i])
			c.AppendNull()
			start = i + 1
		}
	}
	c.AppendSelected(from, x.elems[start:])
}

// side carries kinds, arrivals and lineage. The path of a row is taken from its
// position, so that it does not depend on what is filtered later.
func (x *explode) side(res *messages.Batch) {
	b, n := x.cur.b, len(x.rows)
	if kinds := b.Kinds(); kinds != nil {
		res.SetKinds(pick(res.KindBuffer(n), kinds, x.rows))
	}
	if arrivals := b.Arrivals(); arrivals != nil {
		res.SetArrivals(pick(res.ArrivalBuffer(n), arrivals, x.rows))
	}
	l := b.Lineage()
	if l.A == nil {
		return
	}
	offsets, paths := res.LineageBuffers(n)
	offsets = pick(offsets, l.A, x.rows)
	for i, row := range x.rows {
		parent := uint64(0)
		if l.B != nil {
			parent = l.B[row]
		}
		paths = append(paths, operator.ChildPath(parent, int(x.pos[i])))
	}
	res.SetLineage(messages.Lineage{Base: l.Base, A: offsets, B: paths})
}

func pick[T any](dst, src []T, rows []int32) []T {
	for _, i := range rows {
		dst = append(dst, src[i])
	}
	return dst
}
