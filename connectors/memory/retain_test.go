package memory_test

import (
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
)

func TestASourceSaysWhetherItStillHoldsAnOffset(t *testing.T) {
	var s connectors.Retainer = memory.NewSource(schema)
	for from, holds := range map[string]bool{"": true, `{"next":0}`: true, `{"next":3}`: false} {
		var o connectors.Offset
		if from != "" {
			o = connectors.Offset(from)
		}
		if err := s.Retains(t.Context(), "0", o); (err == nil) != holds {
			t.Errorf("offset %s: got error %v", from, err)
		}
	}
}
