// Package storetest holds implementations of epochs.Segments to the contract:
// Run is the conformance suite, Workload a deterministic writer and checker with
// which crash tests are built (RunCrashes in one process, RunKills with a child
// process that is killed).
package storetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Opener opens a store. Called again after the store was closed, it opens the
// same store with its content.
type Opener func(ctx context.Context) (epochs.Segments, error)

// Factory returns the opener of a new, empty store that is removed with t.
type Factory func(t *testing.T) Opener

// Run runs the conformance suite, a new store for each subtest.
func Run(t *testing.T, factory Factory) {
	tests := []struct {
		name string
		test func(*suite)
	}{
		{"an empty store has nothing", testEmpty},
		{"records and segments survive a reopen", testReopen},
		{"a commit on another predecessor is a conflict", testConflict},
		{"a second opener is locked out", testLock},
		{"uncommitted epochs are ignored and then dropped", testOrphans},
		{"uncommitted epochs stay ignored without a drop", testOrphansUndropped},
		{"the highest epoch counts what was not committed", testHighest},
		{"retained epochs stay restorable and older ones go", testRetention},
		{"a drop leaves an epoch in flight alone", testDropInFlight},
		{"a drop never goes beyond the newest record", testDropKeepsNewest},
		{"load takes the asked range in order", testLoadRange},
		{"load stops at the error of its callback", testLoadError},
		{"segments of all sizes come back", testSizes},
		{"records of all sizes come back", testRecordSizes},
		{"a hundred thousand tiny deltas come back", testTinyDeltas},
		{"loads run while segments are put", testConcurrentLoad},
		{"wrong puts and commits are refused", testRefusals},
		{"a rewind goes on from an older epoch", testRewind},
		{"an epoch that is listed is whole, also after a crash", testListedIsWhole},
		{"the store keeps no reference to data", testOwnership},
		{"a cancelled context is an error", testCancelled},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := &suite{T: t, open: factory(t)}
			s.reopen()
			defer s.close()
			tt.test(s)
		})
	}
}

// suite is the state of one subtest.
type suite struct {
	*testing.T
	open  Opener
	store epochs.Segments
}

func (s *suite) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *suite) close() {
	s.Helper()
	if s.store != nil {
		s.ok(s.store.Close())
		s.store = nil
	}
}

func (s *suite) reopen() {
	s.Helper()
	s.close()
	store, err := s.open(s.Context())
	s.ok(err)
	s.store = store
}

func (s *suite) put(e messages.Epoch, segs ...epochs.Segment) {
	s.Helper()
	for i := range segs {
		segs[i].Epoch = e
	}
	s.ok(s.store.Put(s.Context(), e, segs))
}

func (s *suite) commit(prev, e messages.Epoch) {
	s.Helper()
	s.ok(s.store.Commit(s.Context(), prev, e, recordData(e)))
}

func recordData(e messages.Epoch) []byte { return fmt.Appendf(nil, "record of epoch %d", e) }

// wantRecords checks the records, newest first, and the highest epoch.
func (s *suite) wantRecords(highest messages.Epoch, want ...messages.Epoch) {
	s.Helper()
	records, high, err := s.store.Committed(s.Context())
	s.ok(err)
	got := []messages.Epoch{}
	for _, r := range records {
		got = append(got, r.Epoch)
		if string(r.Data) != string(recordData(r.Epoch)) {
			s.Errorf("record %d is %q", r.Epoch, r.Data)
		}
	}
	if diff := cmp.Diff(got, append([]messages.Epoch{}, want...)); diff != "" {
		s.Errorf("records (-got +want):\n%s", diff)
	}
	if high != highest {
		s.Errorf("highest epoch is %d, want %d", high, highest)
	}
}

// load returns what Load delivers, without segments before the newest base of
// their group, which the contract leaves open.
func load(ctx context.Context, store epochs.Segments, r epochs.LoadRange) ([]epochs.Segment, error) {
	var all []epochs.Segment
	err := store.Load(ctx, r, func(seg epochs.Segment) error {
		if n := len(all); n > 0 && (seg.Group < all[n-1].Group || seg.Group == all[n-1].Group && seg.Epoch <= all[n-1].Epoch) {
			return fmt.Errorf("load: %v after %v", seg.SegmentID, all[n-1].SegmentID)
		}
		if seg.Operator != r.Operator || seg.Group < r.From || seg.Group >= r.To || seg.Epoch > r.UpTo {
			return fmt.Errorf("load %+v: got %v", r, seg.SegmentID)
		}
		if seg.Base {
			for len(all) > 0 && all[len(all)-1].Group == seg.Group {
				all = all[:len(all)-1]
			}
		}
		seg.Data = append([]byte{}, seg.Data...)
		all = append(all, seg)
		return nil
	})
	return all, err
}

// wantLoad checks what a range loads.
func (s *suite) wantLoad(r epochs.LoadRange, want ...epochs.Segment) {
	s.Helper()
	got, err := load(s.Context(), s.store, r)
	s.ok(err)
	sameSegments(s.T, got, want)
}

func sameSegments(t *testing.T, got, want []epochs.Segment) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("got %d segments, want %d:\n got %v\nwant %v", len(got), len(want), ids(got), ids(want))
	}
	for i := range got {
		if got[i].SegmentID != want[i].SegmentID || got[i].Base != want[i].Base {
			t.Fatalf("segment %d is %v base %v, want %v base %v", i, got[i].SegmentID, got[i].Base, want[i].SegmentID, want[i].Base)
		}
		if string(got[i].Data) != string(want[i].Data) {
			t.Fatalf("segment %v: got %d bytes that differ from the %d wanted", got[i].SegmentID, len(got[i].Data), len(want[i].Data))
		}
	}
}

func ids(segs []epochs.Segment) []epochs.SegmentID {
	out := []epochs.SegmentID{}
	for _, s := range segs[:min(len(segs), 20)] {
		out = append(out, s.SegmentID)
	}
	return out
}

// all selects everything of an operator up to an epoch.
func all(operator string, upTo messages.Epoch) epochs.LoadRange {
	return epochs.LoadRange{Operator: operator, To: epochs.OperatorGroup + 1, UpTo: upTo}
}

// seg makes a segment with n bytes of data that depend on its name.
func seg(operator string, group uint16, e messages.Epoch, base bool, n int) epochs.Segment {
	id := epochs.SegmentID{Operator: operator, Group: group, Epoch: e}
	return epochs.Segment{SegmentID: id, Base: base, Data: content(0, id, n)}
}
