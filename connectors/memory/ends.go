package memory

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/streamd-io/streamd/connectors"
)

// Ends returns, by partition, the offset behind the last unit that has been
// added. A query that has reached it has read everything there was.
func (s *Source) Ends(context.Context) (map[string]connectors.Offset, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[string]connectors.Offset{}
	for i := range s.parts {
		b, err := json.Marshal(position{Next: s.parts[i].end()})
		if err != nil {
			return nil, err
		}
		out[strconv.Itoa(i)] = b
	}
	return out, nil
}

// Reached reports whether offset is at or behind end.
func (s *Source) Reached(offset, end connectors.Offset) bool {
	var a, b position
	if json.Unmarshal(end, &b) != nil {
		return false
	}
	if len(offset) == 0 {
		return b.Next == 0
	}
	return json.Unmarshal(offset, &a) == nil && a.Next >= b.Next
}
