package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// ErrUnpublished marks a checkpoint with rows for a sink that the graph does not
// have; see Unpublished.
var ErrUnpublished = errors.New("rows of a sink that is gone have not been published")

// stashPrefix begins the operator name under which the parts of a sink are stored.
// No node of a graph may begin so.
const stashPrefix = "sink/"

// staleBytes is how much may stay in the store that only confirmed epochs needed:
// to give up less is not worth a write of its own.
const staleBytes = 1 << 20

// stash is the connectors.Stash of one (query, sink) during one attempt. A part of
// an epoch is a segment, and always a base. Epochs use two places in turn, so that
// the commit record of an epoch has the chains of the epoch's own parts and of
// those of the epoch before, whose sink commit may not have happened. The next
// base in a place makes the store forget the one before by its usual rule.
type stash struct {
	store epochs.Segments
	sink  string

	// mu guards the fields below.
	mu sync.Mutex
	// chains are those of the newest commit record, or of the one being written.
	chains map[chainKey]epochs.Chain
	// put are the chains of what was put for the open epoch.
	put map[chainKey]epochs.Chain
	// bytes were put for the open epoch.
	bytes int64
}

func newStash(store epochs.Segments, sink string) *stash {
	return &stash{store: store, sink: sink, chains: map[chainKey]epochs.Chain{}, put: map[chainKey]epochs.Chain{}}
}

// partKey is the place of a part of epoch e.
func (s *stash) partKey(e messages.Epoch, part uint16) chainKey {
	place := uint64(part)>>8<<1 | uint64(e)&1
	return chainKey{operator: stashPrefix + s.sink + "/" + strconv.FormatUint(place, 10), group: part & 0xff}
}

// partOf is the inverse of partKey for a place of this stash.
func partOf(k chainKey) uint16 {
	place, err := strconv.ParseUint(k.operator[strings.LastIndexByte(k.operator, '/')+1:], 10, 16)
	if err != nil {
		return 0 // cannot happen: stashOf has accepted the name
	}
	return uint16(place>>1<<8) | k.group
}

// stashOf returns the sink whose parts are stored under an operator name.
func stashOf(operator string) (sink string, ok bool) {
	rest, ok := strings.CutPrefix(operator, stashPrefix)
	i := strings.LastIndexByte(rest, '/')
	if !ok || i < 0 {
		return "", false
	}
	if _, err := strconv.ParseUint(rest[i+1:], 10, 16); err != nil {
		return "", false
	}
	return rest[:i], true
}

// Put implements connectors.Stash.
func (s *stash) Put(ctx context.Context, e messages.Epoch, part uint16, data []byte) error {
	if part >= connectors.MaxStashParts || len(data) == 0 {
		return fault.New(fault.Internal, "stash %d bytes as part %d: a part is not empty, and its number below %d", len(data), part, connectors.MaxStashParts)
	}
	if err := fault.Inject("sink/stash"); err != nil {
		return err
	}
	k := s.partKey(e, part)
	seg := epochs.Segment{SegmentID: epochs.SegmentID{Operator: k.operator, Group: k.group, Epoch: e}, Base: true, Data: data}
	if err := s.store.Put(ctx, e, []epochs.Segment{seg}); err != nil {
		return fault.Wrap(fault.Restart, err, "stash %d bytes of epoch %d", len(data), e)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put[k] = baseChain(seg)
	s.bytes += int64(len(data))
	return nil
}

// baseChain is the chain that begins with a base.
func baseChain(seg epochs.Segment) epochs.Chain {
	return epochs.Chain{
		Operator: seg.Operator, Group: seg.Group, Base: seg.Epoch, Last: seg.Epoch, Segments: 1,
		Sum: epochs.ChainSum(0, crc32.Checksum(seg.Data, castagnoli), true), BaseBytes: int64(len(seg.Data)),
	}
}

// Load implements connectors.Stash.
func (s *stash) Load(ctx context.Context, e messages.Epoch, f func(part uint16, data []byte) error) error {
	if err := fault.Inject("rec/stash"); err != nil {
		return err
	}
	s.mu.Lock()
	var chains []epochs.Chain
	for _, c := range s.chains {
		if c.Base == e && c.BaseBytes > 0 {
			chains = append(chains, c)
		}
	}
	s.mu.Unlock()
	part := func(c epochs.Chain) uint16 { return partOf(chainKey{c.Operator, c.Group}) }
	slices.SortFunc(chains, func(a, b epochs.Chain) int { return cmp.Compare(part(a), part(b)) })
	for _, c := range chains {
		if err := s.loadPart(ctx, c, func(data []byte) error { return f(part(c), data) }); err != nil {
			return err
		}
	}
	return nil
}

// loadPart calls f with the data of a part once it is known to be what was put.
func (s *stash) loadPart(ctx context.Context, c epochs.Chain, f func(data []byte) error) error {
	var own error // of f
	found := false
	err := s.store.Load(ctx, epochs.LoadRange{Operator: c.Operator, From: c.Group, To: c.Group + 1, UpTo: c.Base}, func(seg epochs.Segment) error {
		if seg.Epoch != c.Base || !seg.Base {
			return nil // what an older epoch had put in the same place
		}
		if got := baseChain(seg); got.Sum != c.Sum || got.BaseBytes != c.BaseBytes {
			return fmt.Errorf("%d bytes with checksum %x, the commit record says %d with %x: %w", got.BaseBytes, got.Sum, c.BaseBytes, c.Sum, epochs.ErrDamaged)
		}
		found = true
		own = f(seg.Data)
		return own
	})
	switch {
	case own != nil:
		return own
	case err == nil && !found:
		err = fmt.Errorf("it is missing: %w", epochs.ErrDamaged)
	case err == nil:
		return nil
	}
	kind := storeFault(err)
	hint := ""
	if kind == fault.Config {
		hint = " (an older epoch may be whole: --restore-epoch)"
	}
	return fault.Wrap(kind, err, "part %d of the rows that sink %q held for epoch %d%s", partOf(chainKey{c.Operator, c.Group}), s.sink, c.Base, hint)
}

// settle ends epoch e, whose parts have all been put: it returns the chains for its
// commit record, and the segments to store with them that give up parts of epochs
// before unconfirmed. The final epoch gives up all of those, so that its record
// tells what has not been published.
func (s *stash) settle(e, unconfirmed messages.Epoch, final bool) (chains []epochs.Chain, dropped []epochs.Segment, bytes int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, c := range s.put {
		s.chains[k] = c
	}
	clear(s.put)
	stale := int64(0)
	for _, c := range s.chains {
		if c.Base < unconfirmed {
			stale += c.BaseBytes
		}
	}
	for k, c := range s.chains {
		if c.Base < unconfirmed && c.BaseBytes > 0 && (final || stale >= staleBytes) {
			seg := epochs.Segment{SegmentID: epochs.SegmentID{Operator: k.operator, Group: k.group, Epoch: e}, Base: true}
			dropped = append(dropped, seg)
			c = baseChain(seg)
			s.chains[k] = c
		}
		chains = append(chains, c)
	}
	bytes, s.bytes = s.bytes, 0
	return chains, dropped, bytes
}

// Unpublished looks for rows in a commit record that a sink held for an epoch and
// that may not have been published, when the graph has no such sink. The error
// wraps ErrUnpublished. Without the sink nobody can publish them: to go on from the
// record gives them up.
func Unpublished(g *Graph, rec *epochs.Record) error {
	have := sinkNames(g)
	for _, c := range rec.Chains {
		sink, ok := stashOf(c.Operator)
		if ok && !have[sink] && c.BaseBytes > 0 && c.Base >= rec.Prev {
			return fault.Wrap(fault.Config, ErrUnpublished, "the checkpoint holds rows of epoch %d for %q, which is not part of the query any more; "+
				"run the query as it was until it has stopped in good order, which publishes them, or give them up with --allow-dropped-state", c.Base, sink)
		}
	}
	return nil
}

func sinkNames(g *Graph) map[string]bool {
	names := map[string]bool{}
	for _, n := range g.nodes {
		if n.sink != nil {
			names[n.name] = true
		}
	}
	return names
}
