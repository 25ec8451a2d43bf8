package limit

import (
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

func TestLimitInEveryWay(t *testing.T) {
	row := operatortest.Row
	operatortest.Verify(t, func() operator.Operator { return New(Config{Rows: 4}) }, operatortest.Case{
		Name:   "first rows",
		Inputs: []*messages.Schema{schema},
		Steps: []operatortest.Step{
			operatortest.Rows(0, row(1), row(2)),
			operatortest.Watermark(0, 10),
			operatortest.Rows(0, row(3), row(4), row(5)),
			operatortest.Watermark(0, 20),
			operatortest.Rows(0, row(6)),
		},
		Want:     [][]any{row(1), row(2), row(3), row(4)},
		Filtered: 2, Ordered: true, Empty: true,
	})
}

func TestCompleteModeInEveryWay(t *testing.T) {
	row, table := operatortest.Row, operatortest.Table
	for _, c := range []struct {
		name     string
		rows     int64
		filtered uint64
	}{
		{"limit 0", 0, 12}, {"limit 1", 1, 8}, {"limit 3", 3, 3}, {"a limit above every table", 10, 0},
	} {
		operatortest.Verify(t, func() operator.Operator { return New(Config{Rows: c.rows, Complete: true}) }, operatortest.Case{
			Name:   c.name,
			Inputs: []*messages.Schema{schema},
			Steps: []operatortest.Step{
				table(row(1), row(2), row(3), row(4)),
				operatortest.Watermark(0, 10),
				table(),
				table(row(5)),
				table(row(6), row(7)),
				table(row(9), row(8), row(7), row(6), row(5)),
			},
			WantTable: func(latest [][][]any) [][]any {
				return latest[0][:min(int(c.rows), len(latest[0]))]
			},
			Filtered: c.filtered, Ordered: true,
		})
	}
}
