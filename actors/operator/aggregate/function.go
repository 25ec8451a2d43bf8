package aggregate

import (
	"github.com/streamd-io/streamd/actors/operator/state"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// function is one aggregate function over arguments of one type. It keeps its
// accumulator in slots and values of a group's record, all zero at first; see
// cell.
type function interface {
	// size is how many slots and values the accumulator takes.
	size() (words, values int)
	// update adds rows. Entries have been declared to change. The error of a row
	// that cannot be added is a fault.BadRow.
	update(c *cell, in *input) error
	// merge adds the accumulator of src to that of dst, which may belong to
	// another store.
	merge(c *cell, dst, src state.Entry) error
	// result appends the result to out.
	result(c *cell, e state.Entry, out *messages.Column) error
}

// oneWord is part of functions whose accumulator is one value of a fixed width,
// which is the result; NULL without values.
type oneWord struct{}

func (oneWord) size() (int, int) { return 1, 0 }

func (oneWord) result(c *cell, e state.Entry, out *messages.Column) error { //nolint:unparam // of the interface function
	slots := e.Slots()
	if !c.has(slots) {
		out.AppendNull()
		return nil
	}
	appendWord(out, slots[c.word])
	return nil
}

// nullTaker is a function that is given NULL arguments too; others never see
// them.
type nullTaker interface{ takesNulls() }

// family is a set of functions: for a name it knows, it returns the function
// for an argument type (the zero Type for count(*)) and the type of its result.
type family func(name string, arg messages.Type) (f function, result messages.Type, ok bool)

// families lists them all.
func families() []family {
	return []family{counts, sums, averages, extremes, picks, picksBy, booleans, bitwise, variances, moments, collections, approximations}
}

// input is the rows of one call and the entries of their groups.
type input struct {
	store   *state.Store
	b       *messages.Batch
	rows    []int32 // physical indexes
	entries []state.Entry
	arg     *messages.Column // nil for count(*)
}

// cell says where a function's accumulator lies in a record.
type cell struct {
	f     function
	agg   Agg
	nulls bool
	word  int // first slot
	value int // first value
	store *state.Store
	scrap *state.Store // where merge writes
	// flagWord and flag are a bit that tells whether the accumulator has a value.
	flagWord int
	flag     uint64
	argType  messages.Type
	buf      []byte
}

func (c *cell) has(slots []uint64) bool { return slots[c.flagWord]&c.flag != 0 }
func (c *cell) mark(slots []uint64)     { slots[c.flagWord] |= c.flag }

// changed is the bit of slot 0 that marks groups with output pending.
const changed = 1

// layout resolves the aggregates: their cells, the types of the results and the
// size of a record.
func layout(cfg *Config) (cells []cell, results []messages.Field, words, values int, err error) {
	flagWords := (len(cfg.Aggs) + 1 + 63) / 64
	words = flagWords
	for i, a := range cfg.Aggs {
		f, result, err := resolve(cfg, a)
		if err != nil {
			return nil, nil, 0, 0, err
		}
		_, nulls := f.(nullTaker)
		var arg messages.Type
		if a.Arg >= 0 {
			arg = cfg.Input.Fields[a.Arg].Type
		}
		w, v := f.size()
		cells = append(cells, cell{
			f: f, agg: a, nulls: nulls, word: words, value: values, argType: arg,
			flagWord: (i + 1) / 64, flag: 1 << ((i + 1) % 64),
		})
		words += w
		values += v
		name := a.Name
		if name == "" {
			name = a.Func
		}
		results = append(results, messages.Field{Name: name, Type: result})
	}
	return cells, results, words, values, nil
}

func resolve(cfg *Config, a Agg) (function, messages.Type, error) {
	var arg messages.Type
	if a.Arg >= 0 {
		if err := cfg.column(a.Arg, "argument"); err != nil {
			return nil, arg, err
		}
		arg = cfg.Input.Fields[a.Arg].Type
	}
	if a.Filter >= 0 {
		if err := cfg.column(a.Filter, "filter"); err != nil {
			return nil, arg, err
		}
		if t := cfg.Input.Fields[a.Filter].Type; t.Kind != messages.Boolean {
			return nil, arg, fault.New(fault.Config, "aggregate: filter of %s is %s and not boolean", a.Func, t)
		}
	}
	for _, fam := range families() {
		if f, result, ok := fam(a.Func, arg); ok {
			return f, result, nil
		}
	}
	return nil, arg, fault.New(fault.Config, "aggregate: there is no function %s(%s)", a.Func, arg)
}

// Result returns the type of an aggregate function's result; ok is false when
// there is no such function for the argument type (the zero Type for count(*)).
func Result(name string, arg messages.Type) (t messages.Type, ok bool) {
	for _, fam := range families() {
		if _, t, ok := fam(name, arg); ok {
			return t, true
		}
	}
	return messages.Type{}, false
}

// zeroArg reports whether there is no argument.
func zeroArg(t messages.Type) bool { return t.Kind == messages.Null }
