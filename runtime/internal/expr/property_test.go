package expr

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// writer makes up expressions over the columns of propertySchema.
type writer struct{ *rand.Rand }

func propertySchema() *messages.Schema {
	return messages.NewSchema(
		messages.Field{Name: "t", Type: messages.T(messages.TinyInt)},
		messages.Field{Name: "s", Type: messages.T(messages.SmallInt)},
		messages.Field{Name: "i", Type: messages.T(messages.Int)},
		messages.Field{Name: "l", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "f", Type: messages.T(messages.Double)},
		messages.Field{Name: "d", Type: messages.DecimalType(9, 2)},
		messages.Field{Name: "w", Type: messages.DecimalType(38, 10)},
		messages.Field{Name: "p", Type: messages.T(messages.Boolean)},
		messages.Field{Name: "q", Type: messages.T(messages.Boolean)},
	)
}

func (w writer) pick(list ...string) string { return list[w.IntN(len(list))] }

func (w writer) number(depth int) string {
	if depth == 0 {
		return w.pick("t", "s", "i", "l", "f", "d", "w", "i", "l", "d", "1", "0", "-3", "127Y", "2.5", "100000", "1.5D", "9223372036854775807L", "NULL")
	}
	a, b := w.number(depth-1), w.number(depth-1)
	switch w.IntN(12) {
	case 0, 1, 2, 3, 4:
		return "(" + a + " " + w.pick("+", "-", "*") + " " + b + ")"
	case 5:
		return "(" + a + " / " + b + ")"
	case 6:
		return "(" + a + " % " + b + ")"
	case 7:
		return "(" + w.pick("t", "i", "l", "d") + " DIV " + w.pick("t", "i", "s", "d") + ")"
	case 8:
		return "(- " + a + ")"
	case 9:
		return "(CASE WHEN " + w.boolean(depth-1) + " THEN " + a + " WHEN " + w.boolean(depth-1) + " THEN " + w.number(depth-1) + " ELSE " + b + " END)"
	case 10:
		return "coalesce(" + a + ", " + b + ")"
	}
	return "CAST(" + a + " AS " + w.pick("TINYINT", "INT", "BIGINT", "DOUBLE") + ")"
}

func (w writer) boolean(depth int) string {
	if depth == 0 {
		return w.pick("p", "q", "p", "q", "true", "false", "NULL")
	}
	switch w.IntN(9) {
	case 0, 1, 2:
		return "(" + w.number(depth-1) + " " + w.pick("=", "<>", "<", "<=", ">", ">=", "<=>") + " " + w.number(depth-1) + ")"
	case 3, 4:
		return "(" + w.boolean(depth-1) + " " + w.pick("AND", "OR") + " " + w.boolean(depth-1) + ")"
	case 5:
		return "(NOT " + w.boolean(depth-1) + ")"
	case 6:
		return "(" + w.number(depth-1) + " IS " + w.pick("", "NOT ") + "NULL)"
	case 7:
		return "(" + w.pick("t", "i", "d", "l", "f") + w.pick(" IN (", " NOT IN (") + w.pick("1, 2, 3", "0, NULL", "t, i", "1.50, 0") + "))"
	}
	return "(" + w.number(depth-1) + " BETWEEN " + w.number(depth-1) + " AND " + w.number(depth-1) + ")"
}

// randomBatch has n rows, a NULL in every fifth value, and a random selection.
func (w writer) randomBatch(n int) *messages.Batch {
	bl := messages.NewBuilder(propertySchema())
	small := func(bits int) int64 {
		if w.IntN(4) == 0 {
			edge := []int64{0, 1, -1, 1<<(bits-1) - 1, -1 << (bits - 1)}
			return edge[w.IntN(len(edge))]
		}
		return w.Int64() >> (64 - 1 - w.IntN(bits))
	}
	floats := []float64{0, math.Copysign(0, -1), 1.5, -2.25, 1e300, math.NaN(), math.Inf(1), math.Inf(-1), 127, 3}
	for range n {
		for k := range bl.Schema().Len() {
			c := bl.Column(k)
			if w.IntN(5) == 0 {
				c.AppendNull()
				continue
			}
			switch k {
			case 0:
				c.AppendInt8(int8(small(8)))
			case 1:
				c.AppendInt16(int16(small(16)))
			case 2:
				c.AppendInt32(int32(small(32)))
			case 3:
				c.AppendInt64(small(64))
			case 4:
				c.AppendFloat64(floats[w.IntN(len(floats))])
			case 5:
				c.AppendDecimal(decInt(w.Int64N(1_999_999_999) - 999_999_999))
			case 6:
				v, _ := rescale(decInt(small(64)), 0, uint8(w.IntN(19)))
				c.AppendDecimal(v)
			default:
				c.AppendBool(w.IntN(2) == 0)
			}
		}
		bl.EndRow()
	}
	b := bl.Finish()
	if w.IntN(2) == 0 {
		return b
	}
	v := messages.NewViewPool().View(b)
	sel := []int32{}
	for i := range n {
		if w.IntN(3) == 0 {
			sel = append(sel, int32(i))
		}
	}
	v.Select(sel)
	return v.Publish()
}

// expected is the naive result for a row: a text, or the class of its error.
func expected(n Node, b *messages.Batch, row int) (text, class string) {
	defer func() {
		if v := recover(); v != nil {
			e, ok := v.(naiveError)
			if !ok {
				panic(v)
			}
			class = string(e)
		}
	}()
	v := naive{b, row}.eval(n)
	switch t := n.Type(); {
	case v.null:
		return "NULL", ""
	case t.Kind == messages.Boolean:
		return fmt.Sprint(v.truth), ""
	case isDouble(t):
		return string(appendFloat(nil, v.float, 64)), ""
	case t.Kind == messages.Decimal:
		return strings.TrimSuffix(v.exact.FloatString(int(t.Scale)), "."), ""
	}
	return v.exact.Num().String(), ""
}

func TestVectorisedEvaluationEqualsRowAtATime(t *testing.T) {
	checked, failed := 0, 0
	for seed := range uint64(2000) {
		w := writer{rand.New(rand.NewPCG(seed, 7))}
		text := w.boolean(1 + w.IntN(3))
		if w.IntN(2) == 0 {
			text = w.number(1 + w.IntN(3))
		}
		n := resolveText(t, text, propertySchema())
		if n.Type().Kind == messages.Null {
			continue
		}
		b := w.randomBatch(1 + w.IntN(40))
		for _, n := range []Node{n, Fold(n, Options{})} {
			e, err := Compile(n, Options{})
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, text, err)
			}
			col, err := e.Eval(b)
			if err != nil {
				failed++
				checkRowError(t, fmt.Sprintf("seed %d: %s", seed, text), n, b, err)
				continue
			}
			for i := range b.Rows() {
				row := b.Row(i)
				want, class := expected(n, b, row)
				if class != "" {
					t.Errorf("seed %d: %s: row %d: no error, want %s", seed, text, row, class)
				} else if got := valueText(col, row); got != want {
					t.Errorf("seed %d: %s: row %d: %s, want %s (type %s)", seed, text, row, got, want, n.Type())
				}
				checked++
			}
		}
		if t.Failed() {
			return
		}
	}
	if checked < 10_000 || failed < 200 {
		t.Errorf("only %d values and %d errors were checked", checked, failed)
	}
}

// checkRowError checks that the row of an error is selected and fails that way.
func checkRowError(t *testing.T, what string, n Node, b *messages.Batch, err error) {
	t.Helper()
	var at *operator.RowError
	if !errors.As(err, &at) {
		t.Errorf("%s: %v is no RowError", what, err)
		return
	}
	selected := false
	for i := range b.Rows() {
		selected = selected || b.Row(i) == at.Row
	}
	if !selected {
		t.Errorf("%s: the error is for row %d, which is not selected", what, at.Row)
	}
	if fault.KindOf(err) != fault.BadRow {
		t.Errorf("%s: kind %v, want bad row", what, fault.KindOf(err))
	}
	text, class := expected(n, b, at.Row)
	if class == "" {
		t.Errorf("%s: row %d: error %v, want %s", what, at.Row, err, text)
		return
	}
	if got := fault.ClassOf(err); !strings.HasPrefix(got, class) {
		t.Errorf("%s: row %d: class %s, want %s", what, at.Row, got, class)
	}
}
