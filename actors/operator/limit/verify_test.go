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
