package project

import (
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

func TestProjectInEveryWay(t *testing.T) {
	row := operatortest.Row
	operatortest.Verify(t, func() operator.Operator { return New(Config{columns()}) }, operatortest.Case{
		Name:   "computed, shared and constant columns",
		Inputs: []*messages.Schema{messages.NewSchema(messages.Field{Name: "n", Type: bigint})},
		Steps: []operatortest.Step{
			operatortest.Rows(0, row(1), row(2)),
			operatortest.Watermark(0, 10),
			operatortest.Rows(0, row(4), row(5), row(50)),
		},
		Want:       [][]any{row(100, 1, "k"), row(50, 2, "k"), row(25, 4, "k"), row(20, 5, "k"), row(2, 50, "k")},
		KeyColumns: [][]int{{0}},
		Ordered:    true, Empty: true,
	}, operatortest.Case{
		Name:    "complete tables",
		Inputs:  []*messages.Schema{messages.NewSchema(messages.Field{Name: "n", Type: bigint})},
		Steps:   []operatortest.Step{operatortest.Table(row(4), row(1), row(2)), operatortest.Table(), operatortest.Table(row(50))},
		Ordered: true, Empty: true,
		WantTable: func(latest [][][]any) [][]any {
			want := [][]any{}
			for _, r := range latest[0] {
				want = append(want, row(100/r[0].(int), r[0], "k"))
			}
			return want
		},
	})
}
