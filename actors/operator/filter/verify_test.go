package filter

import (
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

func TestFilterInEveryWay(t *testing.T) {
	row := operatortest.Row
	operatortest.Verify(t, func() operator.Operator {
		return New(Config{operator.ColumnRef{Index: 1, Of: messages.T(messages.Boolean)}})
	}, operatortest.Case{
		Name:   "true, false and NULL",
		Inputs: []*messages.Schema{schema},
		Steps: []operatortest.Step{
			operatortest.Rows(0, row(1, true), row(2, false), row(3, nil)),
			operatortest.Watermark(0, 10),
			operatortest.Rows(0, row(4, false)),
			operatortest.Watermark(0, 20),
			operatortest.Rows(0, row(5, true), row(6, true)),
			operatortest.Rows(0, row(7, false), row(8, true)),
		},
		Want:       [][]any{row(1, true), row(5, true), row(6, true), row(8, true)},
		KeyColumns: [][]int{{0}},
		Filtered:   4, Ordered: true, Empty: true,
	}, operatortest.Case{
		Name:   "complete tables, also those of which nothing is kept",
		Inputs: []*messages.Schema{schema},
		Steps: []operatortest.Step{
			operatortest.Table(row(1, false), row(2, true), row(3, nil), row(4, true), row(5, false)),
			operatortest.Table(),
			operatortest.Table(row(6, true)),
			operatortest.Table(row(7, false), row(8, nil)),
		},
		WantTable: func(latest [][][]any) [][]any {
			kept := [][]any{}
			for _, r := range latest[0] {
				if r[1] == true {
					kept = append(kept, r)
				}
			}
			return kept
		},
		Filtered: 5, Ordered: true, Empty: true,
	})
}
