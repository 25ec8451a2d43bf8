package actors

import (
	"cmp"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/epochs"
)

// chainList are those of the newest record, or of the one being written, by
// operator and group.
type chainList []epochs.Chain

// at returns the chain of a key group, an empty one if it has none so far. It
// holds until the next call.
func (cs *chainList) at(operator string, group uint16) *epochs.Chain {
	c := epochs.Chain{Operator: operator, Group: group}
	i, found := slices.BinarySearchFunc(*cs, c, compareChains)
	if !found {
		*cs = slices.Insert(*cs, i, c)
	}
	return &(*cs)[i]
}

func sortChains(chains []epochs.Chain) { slices.SortFunc(chains, compareChains) }

func compareChains(a, b epochs.Chain) int {
	return cmp.Or(strings.Compare(a.Operator, b.Operator), cmp.Compare(a.Group, b.Group))
}
