package explode

import (
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

func TestExplodeInEveryWay(t *testing.T) {
	row := operatortest.Row
	list := func(v ...any) []any { return v }
	in := messages.NewSchema(
		messages.Field{Name: "id", Type: bigint},
		messages.Field{Name: "list", Type: messages.ArrayType(bigint)},
	)
	long := list()
	wantLong := [][]any{}
	for i := range 3000 {
		long = append(long, i)
		wantLong = append(wantLong, row(7, i, i))
	}
	steps := []operatortest.Step{
		operatortest.Rows(0, row(1, list(5, nil, 6)), row(2, list()), row(3, nil)),
		operatortest.Watermark(0, 10),
		operatortest.Rows(0, row(4, nil)),
		operatortest.Watermark(0, 20),
		operatortest.Rows(0, row(5, list(8))),
	}
	operatortest.Verify(t, func() operator.Operator {
		return New(Config{Input: in, Column: 1, Keep: []int{0}, Position: true})
	}, operatortest.Case{
		Name: "posexplode", Inputs: []*messages.Schema{in}, Steps: steps,
		Want:       [][]any{row(1, 0, 5), row(1, 1, nil), row(1, 2, 6), row(5, 0, 8)},
		KeyColumns: [][]int{{0}}, Filtered: 3, Ordered: true, Empty: true,
	}, operatortest.Case{
		Name: "an array longer than a batch", Inputs: []*messages.Schema{in},
		Steps: []operatortest.Step{operatortest.Rows(0, row(7, long))},
		Want:  wantLong, Ordered: true, Empty: true,
	}, operatortest.Case{
		Name: "complete tables, also those of which nothing is left", Inputs: []*messages.Schema{in},
		Steps: []operatortest.Step{
			operatortest.Table(row(1, list(5, nil, 6)), row(2, list()), row(7, long), row(3, nil)),
			operatortest.Table(row(2, list()), row(3, nil)),
			operatortest.Table(),
			operatortest.Table(row(4, nil), row(5, list(8))),
		},
		WantTable: func(latest [][][]any) [][]any {
			want := [][]any{}
			for _, r := range latest[0] {
				elements, _ := r[1].([]any)
				for i, e := range elements {
					want = append(want, row(r[0], i, e))
				}
			}
			return want
		},
		Filtered: 5, Ordered: true, Empty: true,
	})
	operatortest.Verify(t, func() operator.Operator {
		return New(Config{Input: in, Column: 1, Keep: []int{0}, Position: true, Outer: true})
	}, operatortest.Case{
		Name: "posexplode_outer", Inputs: []*messages.Schema{in}, Steps: steps,
		Want: [][]any{
			row(1, 0, 5), row(1, 1, nil), row(1, 2, 6), row(2, nil, nil), row(3, nil, nil), row(4, nil, nil), row(5, 0, 8),
		},
		KeyColumns: [][]int{{0}}, Ordered: true, Empty: true,
	})
}
