package eventtime

import (
	"testing"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/operatortest"
	"github.com/streamd-io/streamd/messages"
)

// The watermark itself is held to the rule in TestWatermarkFollowsTheRuleWhateverTheBatches;
// here it is the rows, the counters and the batches.
func TestEventTimeInEveryWay(t *testing.T) {
	row := operatortest.Row
	operatortest.Verify(t, func() operator.Operator { return New(Config{}) }, operatortest.Case{
		Name:       "every row goes on, late or not",
		Inputs:     []*messages.Schema{schema},
		Steps:      []operatortest.Step{operatortest.Rows(0, row(5), row(3)), operatortest.Rows(0, row(nil), row(9), row(1))},
		Want:       [][]any{row(5), row(3), row(nil), row(9), row(1)},
		KeyColumns: [][]int{{0}},
		Ordered:    true, Empty: true,
	})
}
