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
	i, found := slices.BinarySearchFunc(*cs, group, func(c epochs.Chain, group uint16) int {
		return cmp.Or(strings.Compare(c.Operator, operator), cmp.Compare(c.Group, group))
	})
	if !found {
		*cs = slices.Insert(*cs, i, epochs.Chain{Operator: operator, Group: group})
	}
	return &(*cs)[i]
}

func sortChains(chains []epochs.Chain) {
	slices.SortFunc(chains, func(a, b epochs.Chain) int {
		return cmp.Or(cmp.Compare(a.Operator, b.Operator), cmp.Compare(a.Group, b.Group))
	})
}
