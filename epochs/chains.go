package epochs

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
)

// ChainSum chains the checksum (crc32c) of a key group's next segment to prev; a
// base starts anew.
func ChainSum(prev uint64, sum uint32, base bool) uint64 {
	if base {
		prev = 0
	}
	return (prev*0x100000001b3 ^ uint64(sum)) + 1
}

// ChainCheck compares the segments of one operator with the chains of a commit
// record: a missing, extra or altered one is damage. The zero value is ready.
type ChainCheck struct {
	got map[uint16]seenChain
}

type seenChain struct {
	segments uint32
	sum      uint64
}

// Add notes the next segment of a key group, in the order of Segments.Load.
func (c *ChainCheck) Add(s Segment) {
	if c.got == nil {
		c.got = map[uint16]seenChain{}
	}
	g := c.got[s.Group]
	if s.Base {
		g = seenChain{}
	}
	g.segments++
	g.sum = ChainSum(g.sum, crc32.Checksum(s.Data, crc32.MakeTable(crc32.Castagnoli)), s.Base)
	c.got[s.Group] = g
}

// Finish compares what was added with the chains of the operator in the key
// groups that within accepts. Each error is about one key group, names the epoch
// and wraps ErrDamaged.
func (c *ChainCheck) Finish(r *Record, operator string, within func(group uint16) bool) []error {
	var errs []error
	for i := range r.Chains {
		chain := &r.Chains[i]
		if chain.Operator != operator || !within(chain.Group) {
			continue
		}
		if g := c.got[chain.Group]; g.segments != chain.Segments || g.sum != chain.Sum {
			errs = append(errs, fmt.Errorf("key group %d of epoch %d: %d segments with checksum %x, the commit record says %d with %x: %w",
				chain.Group, r.Epoch, g.segments, g.sum, chain.Segments, chain.Sum, ErrDamaged))
		}
		delete(c.got, chain.Group)
	}
	for _, g := range slices.Sorted(maps.Keys(c.got)) {
		errs = append(errs, fmt.Errorf("key group %d has segments that the commit record of epoch %d does not know: %w", g, r.Epoch, ErrDamaged))
	}
	return errs
}

// StateReport is what VerifyState has found.
type StateReport struct {
	Segments int
	Bytes    int64
	// Damage has an error per key group that is damaged, with the operator's name.
	Damage []error
}

// VerifyState reads all segments that a commit record speaks of and compares them
// with it. Only another error than damage ends it.
func VerifyState(ctx context.Context, store Segments, r *Record) (*StateReport, error) {
	rep := &StateReport{}
	for _, op := range r.statefulOperators() {
		var check ChainCheck
		var bad []uint16
		for group := range uint16(OperatorGroup + 1) {
			err := store.Load(ctx, LoadRange{Operator: op, From: group, To: group + 1, UpTo: r.Epoch}, func(s Segment) error {
				rep.Segments++
				rep.Bytes += int64(len(s.Data))
				check.Add(s)
				return nil
			})
			switch {
			case err == nil:
			case errors.Is(err, ErrDamaged):
				rep.Damage = append(rep.Damage, fmt.Errorf("operator %q: %w", op, err))
				bad = append(bad, group)
				delete(check.got, group)
			default:
				return rep, err
			}
		}
		for _, e := range check.Finish(r, op, func(g uint16) bool { return !slices.Contains(bad, g) }) {
			rep.Damage = append(rep.Damage, fmt.Errorf("operator %q: %w", op, e))
		}
	}
	return rep, nil
}

// statefulOperators names the operators that have or may have segments.
func (r *Record) statefulOperators() []string {
	names := map[string]bool{}
	for _, o := range r.Plan.Operators {
		names[o.UID] = true
	}
	for i := range r.Chains {
		names[r.Chains[i].Operator] = true
	}
	return slices.Sorted(maps.Keys(names))
}
