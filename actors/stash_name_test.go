package actors

import (
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// FuzzStashOf is about the names under which rows of sinks are stored: any name in
// a commit record is one of a sink or is not, and what is stored under a name of a
// sink is found as the part that it was.
func FuzzStashOf(f *testing.F) {
	f.Add("q/sink", uint16(300), uint64(7), "sink/q/sink/3")
	f.Add("", uint16(connectors.MaxStashParts-1), uint64(0), "sink//65535")
	f.Add("a/b", uint16(0), uint64(1), "sink/q/+1")
	f.Fuzz(func(t *testing.T, sink string, part uint16, epoch uint64, operator string) {
		part %= connectors.MaxStashParts
		k := newStash(nil, sink).partKey(messages.Epoch(epoch), part)
		if got, ok := stashOf(k.operator); !ok || got != sink {
			t.Errorf("%q is stored as %q, which reads as %q, %v", sink, k.operator, got, ok)
		}
		if got := partOf(k); got != part || k.group > 0xff {
			t.Errorf("part %d is stored as %+v, which reads as part %d", part, k, got)
		}
		if _, ok := stashOf(operator); ok {
			partOf(chainKey{operator: operator, group: part})
		}
	})
}
