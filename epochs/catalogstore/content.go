package catalogstore

import (
	"slices"

	"github.com/streamd-io/streamd/messages"
)

// content is what the catalog holds of one query, ordered by epoch.
type content struct {
	records []*value
	chains  map[chainID][]*value
	// highest is the largest epoch seen; mark is the value that keeps it, nil if
	// what is there tells it.
	highest messages.Epoch
	mark    *value
	// settled is the value of the reset before which nothing counts, nil: none.
	settled *value
	// pending are deletions that go along with the query's next change. They have
	// been done in memory.
	pending []change
	bytes   int64
}

func newContent() *content { return &content{chains: map[chainID][]*value{}} }

// newest returns the epoch of the newest record, 0 if there is none.
func (c *content) newest() messages.Epoch {
	if len(c.records) == 0 {
		return 0
	}
	return c.records[len(c.records)-1].epoch
}

func (c *content) record(e messages.Epoch) *value { return find(c.records, e) }

func find(list []*value, e messages.Epoch) *value {
	if i, ok := slices.BinarySearchFunc(list, e, byEpoch); ok {
		return list[i]
	}
	return nil
}

func byEpoch(v *value, e messages.Epoch) int {
	switch {
	case v.epoch < e:
		return -1
	case v.epoch > e:
		return 1
	}
	return 0
}

// all returns every value.
func (c *content) all() []*value {
	out := slices.Clone(c.records)
	for _, chain := range c.chains {
		out = append(out, chain...)
	}
	for _, v := range []*value{c.mark, c.settled} {
		if v != nil {
			out = append(out, v)
		}
	}
	return out
}

// keepHighest returns the change that keeps the highest epoch on record although
// the values of that epoch go, or nothing if the newest record tells it.
func (c *content) keepHighest(query string) []change {
	if c.highest <= c.newest() || c.mark != nil && c.mark.epoch >= c.highest {
		return nil
	}
	return []change{{v: &value{kind: highestKind, query: query, epoch: c.highest}}}
}

// put adds a value and returns the one whose place it takes.
func (c *content) put(v *value) (old *value) {
	switch v.kind {
	case recordKind:
		c.records, old = insert(c.records, v)
	case segmentKind:
		c.chains[v.chain], old = insert(c.chains[v.chain], v)
	case highestKind:
		c.mark, old = v, c.mark
	case resetKind:
		c.settled, old = v, c.settled
	default:
	}
	if v.kind != resetKind {
		c.highest = max(c.highest, v.epoch)
	}
	c.bytes += v.size()
	if old != nil {
		c.bytes -= old.size()
	}
	return old
}

func insert(list []*value, v *value) ([]*value, *value) {
	i, found := slices.BinarySearchFunc(list, v.epoch, byEpoch)
	if found {
		old := list[i]
		list[i] = v
		return list, old
	}
	return slices.Insert(list, i, v), nil
}

// take removes the value that v names and returns it, nil if there is none.
func (c *content) take(v *value) (old *value) {
	remove := func(list []*value) []*value {
		i, found := slices.BinarySearchFunc(list, v.epoch, byEpoch)
		if !found {
			return list
		}
		old = list[i]
		return slices.Delete(list, i, i+1)
	}
	switch v.kind {
	case recordKind:
		c.records = remove(c.records)
	case segmentKind:
		c.chains[v.chain] = remove(c.chains[v.chain])
		if len(c.chains[v.chain]) == 0 {
			delete(c.chains, v.chain)
		}
	case highestKind:
		c.mark, old = nil, c.mark
	default:
	}
	if old != nil {
		c.bytes -= old.size()
	}
	return old
}

// restorable returns the part of a chain that restores epoch upTo: the newest
// base at or before it and what follows.
func restorable(chain []*value, upTo messages.Epoch) []*value {
	end, found := slices.BinarySearchFunc(chain, upTo, byEpoch)
	if found {
		end++
	}
	chain = chain[:end]
	for i, v := range slices.Backward(chain) {
		if v.base {
			return chain[i:]
		}
	}
	return chain
}
