package storetest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Workload writes epochs whose content is a function of the seed and the epoch,
// so that a reader who knows which epochs were committed knows every byte the
// store must hold. Each record lists all epochs committed so far.
type Workload struct {
	Seed uint64
	// Groups is how many key groups of each of the two operators are used.
	Groups int
}

// operators of the workload.
func (Workload) operators() []string { return []string{"left/join", "top/aggregate"} }

// content is n bytes that depend on the seed and the name of a segment.
func content(seed uint64, id epochs.SegmentID, n int) []byte {
	h := fnv.New64a()
	h.Write(fmt.Appendf(nil, "%s/%d/%d", id.Operator, id.Group, id.Epoch))
	x := h.Sum64() ^ seed
	b := make([]byte, 0, n+8)
	for len(b) < n {
		x += 0x9e3779b97f4a7c15
		z := (x ^ x>>30) * 0xbf58476d1ce4e5b9
		b = binary.LittleEndian.AppendUint64(b, z^z>>27)
	}
	return b[:n]
}

// segment returns the segment of a group at an epoch, if it has one: mostly
// small deltas, now and then a large one, a base in one of eight.
func (w Workload) segment(operator string, group uint16, e messages.Epoch) (epochs.Segment, bool) {
	id := epochs.SegmentID{Operator: operator, Group: group, Epoch: e}
	dice := binary.LittleEndian.Uint64(content(w.Seed+1, id, 8))
	if dice%3 == 0 {
		return epochs.Segment{}, false
	}
	n := int(dice >> 16 % 400)
	if dice>>8%16 == 0 {
		n *= 100
	}
	return epochs.Segment{SegmentID: id, Base: dice>>12%8 == 0, Data: content(w.Seed, id, n)}, true
}

// segments returns everything an epoch writes, in one slice per Put.
func (w Workload) segments(e messages.Epoch) [][]epochs.Segment {
	var puts [][]epochs.Segment
	for _, op := range w.operators() {
		var segs []epochs.Segment
		for g := range uint16(w.Groups) {
			if s, ok := w.segment(op, g, e); ok {
				segs = append(segs, s)
			}
		}
		puts = append(puts, segs)
	}
	return puts
}

// Writer writes epochs one after the other.
type Writer struct {
	Workload
	Store     epochs.Segments
	committed []messages.Epoch
	next      messages.Epoch
}

// NewWriter checks the content of the store and returns a writer that goes on
// behind it, after dropping what was not committed.
func (w Workload) NewWriter(ctx context.Context, store epochs.Segments) (*Writer, error) {
	committed, highest, err := w.Verify(ctx, store)
	if err != nil {
		return nil, err
	}
	if err := store.Drop(ctx, oldestRetained(committed), newest(committed)); err != nil {
		return nil, err
	}
	return &Writer{Workload: w, Store: store, committed: committed, next: highest + 1}, nil
}

func newest(committed []messages.Epoch) messages.Epoch {
	if len(committed) == 0 {
		return 0
	}
	return committed[len(committed)-1]
}

func oldestRetained(committed []messages.Epoch) messages.Epoch {
	if len(committed) == 0 {
		return 0
	}
	return committed[max(0, len(committed)-epochs.Retain)]
}

// Step writes and commits one epoch and returns its number.
func (w *Writer) Step(ctx context.Context) (messages.Epoch, error) {
	e := w.next
	w.next++
	if err := w.Store.Check(ctx); err != nil {
		return 0, err
	}
	for _, segs := range w.segments(e) {
		if err := w.Store.Put(ctx, e, segs); err != nil {
			return 0, err
		}
	}
	prev := newest(w.committed)
	w.committed = append(w.committed, e)
	if err := w.Store.Commit(ctx, prev, e, appendEpochs(nil, w.committed)); err != nil {
		return 0, err
	}
	return e, w.Store.Drop(ctx, oldestRetained(w.committed), e)
}

func appendEpochs(dst []byte, list []messages.Epoch) []byte {
	last := messages.Epoch(0)
	for _, e := range list {
		dst = binary.AppendUvarint(dst, uint64(e-last))
		last = e
	}
	return dst
}

func parseEpochs(b []byte) ([]messages.Epoch, error) {
	var list []messages.Epoch
	last := messages.Epoch(0)
	for len(b) > 0 {
		v, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, errors.New("a record of the workload is damaged")
		}
		last += messages.Epoch(v)
		list = append(list, last)
		b = b[n:]
	}
	return list, nil
}

// Verify checks everything the store holds and returns the epochs committed so
// far, oldest first, and the highest number seen.
func (w Workload) Verify(ctx context.Context, store epochs.Segments) ([]messages.Epoch, messages.Epoch, error) {
	records, highest, err := store.Committed(ctx)
	if err != nil || len(records) == 0 {
		return nil, highest, err
	}
	var committed []messages.Epoch
	for i, r := range records {
		list, err := parseEpochs(r.Data)
		if err != nil {
			return nil, 0, err
		}
		if newest(list) != r.Epoch {
			return nil, 0, fmt.Errorf("the record of epoch %d says it is of epoch %d", r.Epoch, newest(list))
		}
		if i == 0 {
			committed = list
		} else if at := len(committed) - i; at <= 0 || !slices.Equal(committed[:at], list) {
			return nil, 0, fmt.Errorf("the record of epoch %d is not a predecessor of epoch %d", r.Epoch, records[0].Epoch)
		}
	}
	if want := min(len(committed), epochs.Retain); len(records) < want {
		return nil, 0, fmt.Errorf("%d records of %d epochs, want at least %d", len(records), len(committed), want)
	}
	if highest < newest(committed) {
		return nil, 0, fmt.Errorf("the highest epoch is %d, but %d is committed", highest, newest(committed))
	}
	for i := range min(len(records), epochs.Retain) {
		if err := w.verifyEpoch(ctx, store, committed[:len(committed)-i]); err != nil {
			return nil, 0, err
		}
	}
	return committed, highest, nil
}

// verifyEpoch compares what is loaded for the last of the committed epochs with
// what was written.
func (w Workload) verifyEpoch(ctx context.Context, store epochs.Segments, committed []messages.Epoch) error {
	for _, op := range w.operators() {
		got, err := load(ctx, store, all(op, newest(committed)))
		if err != nil {
			return fmt.Errorf("load epoch %d: %w", newest(committed), err)
		}
		i := 0
		for g := range uint16(w.Groups) {
			for _, want := range w.chain(op, g, committed) {
				if i >= len(got) || got[i].SegmentID != want.SegmentID {
					return fmt.Errorf("load epoch %d: segment %v is missing", newest(committed), want.SegmentID)
				}
				if got[i].Base != want.Base || string(got[i].Data) != string(want.Data) {
					return fmt.Errorf("load epoch %d: segment %v differs", newest(committed), want.SegmentID)
				}
				i++
			}
		}
		if i < len(got) {
			return fmt.Errorf("load epoch %d: segment %v should not be there", newest(committed), got[i].SegmentID)
		}
	}
	return nil
}

// chain is what restores a group: the newest base and what follows.
func (w Workload) chain(op string, group uint16, committed []messages.Epoch) []epochs.Segment {
	var chain []epochs.Segment
	for _, e := range slices.Backward(committed) {
		s, ok := w.segment(op, group, e)
		if !ok {
			continue
		}
		chain = append(chain, s)
		if s.Base {
			break
		}
	}
	slices.Reverse(chain)
	return chain
}

// random returns a seeded source of choices for crash tests.
func random(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, math.MaxUint64)) }
