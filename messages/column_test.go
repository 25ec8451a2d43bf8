package messages

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// pair is a column and what it must hold.
type pair struct {
	col   *Column
	model []any
}

func newPair(r *rand.Rand, t Type, n int) *pair {
	p := &pair{col: new(Column), model: []any{}}
	p.col.Reset(t)
	for range n {
		p.add(randomValue(r, t))
	}
	return p
}

func (p *pair) add(v any) {
	appendValue(p.col, v)
	p.model = append(p.model, v)
}

// step does one random thing to p; o is another column of the same type.
func (p *pair) step(r *rand.Rand, t Type, o *pair) {
	n, on := len(p.model), len(o.model)
	switch r.IntN(12) {
	default:
		p.add(randomValue(r, t))
	case 0:
		for range 1 + r.IntN(20) {
			p.add(nil)
		}
	case 1:
		keep := r.IntN(n + 1)
		p.leavePartial(r, t)
		p.col.Truncate(keep)
		p.model = p.model[:keep]
	case 2:
		p.leavePartial(r, t)
		p.add(nil)
	case 3, 4:
		if on > 0 {
			i := r.IntN(on)
			p.col.AppendFrom(o.col, i)
			p.model = append(p.model, o.model[i])
		}
	case 5, 6:
		from := r.IntN(on + 1)
		to := from + r.IntN(on-from+1)
		p.col.AppendRange(o.col, from, to)
		p.model = append(p.model, o.model[from:to]...)
	case 7:
		rows := []int32{}
		for range min(on, r.IntN(20)) {
			i := r.IntN(on)
			rows = append(rows, int32(i))
			p.model = append(p.model, o.model[i])
		}
		p.col.AppendSelected(o.col, rows)
	case 8:
		p.col.AppendSelected(o.col, nil)
		p.model = append(p.model, o.model...)
	case 9:
		p.col.Swap(o.col)
		p.model, o.model = o.model, p.model
	case 10:
		if n > 0 && !t.Kind.HasOffsets() && t.Kind != Struct {
			i := r.IntN(n)
			p.col.SetNull(i)
			p.model[i] = nil
		}
	case 11:
		if r.IntN(8) == 0 {
			p.col.Reset(t)
			p.model = []any{}
		}
	}
}

// leavePartial appends to children without closing the value.
func (p *pair) leavePartial(r *rand.Rand, t Type) {
	switch t.Kind {
	case Array, Map:
		appendValue(p.col.Child(0), randomValue(r, childType(t)))
	case Struct:
		if len(t.Fields) > 0 {
			appendValue(p.col.Child(0), randomValue(r, t.Fields[0].Type))
		}
	}
}

func TestColumnHoldsWhatAModelHolds(t *testing.T) {
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		typ := randomType(r, 3)
		p, o := newPair(r, typ, r.IntN(40)), newPair(r, typ, r.IntN(40))
		for i := range 60 {
			p.step(r, typ, o)
			if len(p.model) > 2000 {
				p.col.Truncate(10)
				p.model = p.model[:10]
			}
			if err := p.col.Check(); err != nil {
				t.Fatalf("seed %d, step %d, %s: %v", seed, i, typ, err)
			}
		}
		for _, q := range []*pair{p, o} {
			if diff := cmp.Diff(readColumn(q.col), q.model); diff != "" {
				t.Fatalf("seed %d, %s: -column +model\n%s", seed, typ, diff)
			}
			if null := hasNull(q.model); q.col.Validity() == nil && null {
				t.Fatalf("seed %d, %s: no bitmap although a value is NULL", seed, typ)
			}
		}
	}
}

func hasNull(model []any) bool {
	for _, v := range model {
		if v == nil {
			return true
		}
	}
	return false
}

func TestColumnIsReusedForAnotherType(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	var c Column
	for range 300 {
		typ := randomType(r, 2)
		c.Reset(typ)
		var model []any
		for range r.IntN(30) {
			v := randomValue(r, typ)
			appendValue(&c, v)
			model = append(model, v)
		}
		if diff := cmp.Diff(readColumn(&c), append([]any{}, model...)); diff != "" {
			t.Fatalf("%s: -column +model\n%s", typ, diff)
		}
	}
}

func TestResize(t *testing.T) {
	t.Run("leaves the bits of old values and sets those of new ones", func(t *testing.T) {
		for old := range 20 {
			for n := range 40 {
				var c Column
				c.Reset(T(BigInt))
				c.Resize(old)
				for i := range old {
					c.SetNull(i)
				}
				c.Resize(n)
				for i := range n {
					if got, want := c.IsNull(i), i < old; got != want {
						t.Fatalf("resized from %d NULLs to %d: IsNull(%d) = %v, want %v", old, n, i, got, want)
					}
				}
			}
		}
	})
	t.Run("does not bring back NULLs that were cut off", func(t *testing.T) {
		var c Column
		c.Reset(T(Int))
		c.Resize(13)
		for i := range 13 {
			c.SetNull(i)
		}
		c.Truncate(3)
		c.Resize(13)
		for i := 3; i < 13; i++ {
			if c.IsNull(i) {
				t.Errorf("value %d is NULL", i)
			}
		}
	})
	t.Run("makes void values NULL", func(t *testing.T) {
		var c Column
		c.Reset(T(Null))
		c.Resize(9)
		c.DropValidity()
		for i := range 9 {
			if !c.IsNull(i) || BitSet(c.Validity(), i) {
				t.Errorf("value %d is not NULL", i)
			}
		}
	})
	t.Run("keeps the values when it grows", func(t *testing.T) {
		var c Column
		c.Reset(T(BigInt))
		for i := range int64(5000) {
			c.Resize(int(i) + 1)
			c.Int64s()[i] = i
		}
		for i, v := range c.Int64s() {
			if v != int64(i) {
				t.Fatalf("value %d is %d", i, v)
			}
		}
	})
}

func TestEnsureValidityOfAnEmptyColumn(t *testing.T) {
	var c Column
	c.Reset(T(BigInt))
	if c.EnsureValidity() == nil {
		t.Error("an empty column has no bitmap after EnsureValidity")
	}
	c.AppendInt64(1)
	c.AppendNull()
	if got, want := readColumn(&c), []any{int64(1), nil}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestAppendDropsWhatLiesBehindTheLastOffset(t *testing.T) {
	var c Column
	c.Reset(T(String))
	c.Resize(1)
	c.Offsets()[1] = 2
	c.SetData([]byte("ab and more than the offset says"))
	c.AppendNull()
	c.AppendString("x")
	c.AppendBytes([]byte("y"))
	if got, want := readColumn(&c), []any{"ab", nil, "x", "y"}; !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestCloseStruct(t *testing.T) {
	typ := StructType(Field{"a", T(Int)}, Field{"b", T(String)})
	t.Run("makes fields that were left out NULL", func(t *testing.T) {
		var c Column
		c.Reset(typ)
		c.Child(1).AppendString("x")
		c.CloseStruct()
		if got, want := readColumn(&c), []any{[]any{nil, "x"}}; !cmp.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
	t.Run("refuses a field that was appended twice", func(t *testing.T) {
		var c Column
		c.Reset(typ)
		c.Child(0).AppendInt32(1)
		c.Child(0).AppendInt32(2)
		mustPanic(t, "CloseStruct", c.CloseStruct)
	})
}

func TestFrozenColumnRefusesWrites(t *testing.T) {
	typ := ArrayType(T(BigInt))
	bl := NewBuilder(NewSchema(Field{"a", T(BigInt)}, Field{"s", T(String)}, Field{"l", typ}, Field{"b", T(Boolean)}))
	bl.Column(0).AppendInt64(1)
	bl.Column(1).AppendString("x")
	bl.Column(3).AppendBool(true)
	bl.EndRow()
	b := bl.Finish()
	var other Column
	other.Reset(T(BigInt))
	for name, f := range map[string]func(){
		"AppendInt64":    func() { b.Column(0).AppendInt64(2) },
		"AppendNull":     func() { b.Column(0).AppendNull() },
		"AppendString":   func() { b.Column(1).AppendString("y") },
		"AppendBytes":    func() { b.Column(1).AppendBytes(nil) },
		"AppendData":     func() { b.Column(1).AppendData() },
		"CloseData":      func() { b.Column(1).CloseData(nil) },
		"AppendBool":     func() { b.Column(3).AppendBool(true) },
		"CloseList":      func() { b.Column(2).CloseList() },
		"child append":   func() { b.Column(2).Child(0).AppendInt64(1) },
		"Resize":         func() { b.Column(0).Resize(1) },
		"Truncate":       func() { b.Column(0).Truncate(0) },
		"EnsureValidity": func() { b.Column(0).EnsureValidity() },
		"SetNull":        func() { b.Column(2).SetNull(0) },
		"SetValidity":    func() { b.Column(0).SetValidity(nil) },
		"SetData":        func() { b.Column(1).SetData(nil) },
		"Swap":           func() { b.Column(0).Swap(&other) },
		"Swap from":      func() { other.Swap(b.Column(0)) },
		"Reset":          func() { b.Column(0).Reset(T(BigInt)) },
		"AppendRange":    func() { b.Column(0).AppendRange(&other, 0, 0) },
	} {
		mustPanic(t, name, f)
	}
}

func TestCheckFindsBrokenColumns(t *testing.T) {
	good := func() *Column {
		var c Column
		c.Reset(T(String))
		c.AppendString("ab")
		c.AppendString("c")
		return &c
	}
	if err := good().Check(); err != nil {
		t.Fatal(err)
	}
	for name, breakIt := range map[string]func(*Column){
		"negative offset":      func(c *Column) { c.Offsets()[0] = -1 },
		"offset goes back":     func(c *Column) { c.Offsets()[1] = 3; c.Offsets()[2] = 2 },
		"offset beyond data":   func(c *Column) { c.Offsets()[2] = 9 },
		"too few validity":     func(c *Column) { c.valid = []byte{} },
		"wrong offsets length": func(c *Column) { c.offsets = c.offsets[:1] },
	} {
		c := good()
		breakIt(c)
		if c.Check() == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
