package damage

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
)

// Two checksums do not answer for what the seeds do to files, as something else
// notices it before:
//
//   - that of a chain, in the commit record. A flipped bit is noticed by the checksum
//     of the segment, which its store keeps, and by that of the operator; a lost
//     segment by the number of segments in the chain. What is left to the checksum of
//     the chain is a segment that is whole and of another history: a directory that
//     was put together from two copies.
//   - that of the identity. Once there is a commit record, the query's identity is
//     taken from there, and the number of the attempt is at least the record's. What
//     is left is a query that has published rows and not committed anything.

// TestSegmentsOfAnotherHistory gives a checkpoint segments that the same query has
// made of other rows in the same epochs.
func TestSegmentsOfAnotherHistory(t *testing.T) {
	for _, want := range []struct {
		shape   int
		outcome string
	}{{3, wentBack}, {4, refused}} {
		sh := &shapes()[want.shape]
		t.Run(sh.name, func(t *testing.T) {
			t.Parallel()
			l := &lived{shape: sh}
			for tries := 0; l.twoHistories(t) == 0; tries++ { // that epochs have the same numbers is chance
				if tries == 20 {
					t.Fatal("no two histories had epochs of the same numbers")
				}
			}
			l.add(4)
			if outcome, problem := l.again(t); outcome != want.outcome || problem != "" {
				t.Errorf("segments are of another history: the query %s, want that it %s; %s", outcome, want.outcome, problem)
			}
		})
	}
}

// twoHistories lets a query go on from one checkpoint with two inputs, and makes a
// checkpoint with the records of the one, and segments of the other. It reports how
// many.
func (l *lived) twoHistories(t *testing.T) int {
	t.Helper()
	dir := t.TempDir()
	in := func(name string) string { return filepath.Join(dir, name) }
	fork := func(name string) string {
		t.Helper()
		if err := os.CopyFS(in(name), os.DirFS(in("begun"))); err != nil {
			t.Fatal(err)
		}
		return in(name)
	}
	l.system, l.dir = newSystem(t), in("mixed")
	l.process(l.shape, in("begun"), "", 0, 1, 2)
	fork("mixed")
	other := newSystem(t)
	for round := range 3 {
		other.add(round)
	}
	other.bias = 1000
	other.process(l.shape, fork("other"), in("other killed"), 3)
	l.newest = l.process(l.shape, fork("one"), in("one killed"), 3)
	return mix(t, in("one killed"), in("other killed"), in("mixed"))
}

// mix adds to a checkpoint the epochs that another one has behind it, but their
// segments from a third one where that has the same. Everything is stored as the
// engine stores it. It reports how many segments have other data than they had.
func mix(t *testing.T, records, segments, into string) int {
	t.Helper()
	one, other, mixed := openState(t, records), openState(t, segments), openState(t, into)
	stored, _, err := one.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, begin, err := mixed.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, s := range slices.Backward(stored) {
		if s.Epoch <= begin {
			continue
		}
		rec, err := epochs.DecodeRecord(s.Data)
		if err != nil {
			t.Fatal(err)
		}
		segs, donated := segmentsOf(t, one, rec), segmentsOf(t, other, rec)
		for i := range segs {
			j := slices.IndexFunc(donated, func(d epochs.Segment) bool { return d.SegmentID == segs[i].SegmentID && d.Base == segs[i].Base })
			if j >= 0 && !bytes.Equal(donated[j].Data, segs[i].Data) {
				segs[i].Data = donated[j].Data
				n++
			}
		}
		if err = mixed.Put(t.Context(), rec.Epoch, segs); err == nil {
			err = mixed.Commit(t.Context(), rec.Prev, rec.Epoch, s.Data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(one.Close(), other.Close(), mixed.Close()); err != nil {
		t.Fatal(err)
	}
	return n
}

func openState(t *testing.T, dir string) *badgerstore.Store {
	t.Helper()
	s, err := badgerstore.Open(t.Context(), filepath.Join(dir, "queries", "q", "state"), badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// segmentsOf returns the segments that a store has of the epoch of a record.
func segmentsOf(t *testing.T, s epochs.Segments, rec *epochs.Record) []epochs.Segment {
	t.Helper()
	var segs []epochs.Segment
	for _, o := range rec.Plan.Operators {
		err := s.Load(t.Context(), epochs.LoadRange{Operator: o.UID, To: epochs.OperatorGroup + 1, UpTo: rec.Epoch}, func(seg epochs.Segment) error {
			if seg.Epoch == rec.Epoch {
				seg.Data = bytes.Clone(seg.Data)
				segs = append(segs, seg)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return segs
}

// TestADamagedIdentityBeforeTheFirstEpoch flips a bit of the identity of a query
// that was killed after its rows were published and before anything was committed.
// With another identity its rows would be published again as others.
func TestADamagedIdentityBeforeTheFirstEpoch(t *testing.T) {
	sh := &shapes()[5]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for _, damaged := range []bool{false, true} {
		l := &lived{system: newSystem(t), shape: sh, dir: filepath.Join(t.TempDir(), "data")}
		work := filepath.Join(t.TempDir(), "work")
		sess, q, err := l.start(ctx, sh, work)
		if err != nil {
			t.Fatal(err)
		}
		l.add(0)
		sink, _ := l.hub.Sink("out")
		if err := sink.Wait(ctx, func(*memory.Sink) bool { return l.differs(sh) == "" }); err != nil {
			t.Fatal(err)
		}
		l.kill(ctx, q, work, l.dir)
		if err := sess.Close(); err != nil {
			t.Fatal(err)
		}
		want := wentOn
		if damaged {
			want = refused
			flipIncarnation(t, filepath.Join(l.dir, "queries", "q", "IDENTITY"))
		}
		l.add(1)
		if outcome, problem := l.again(t); outcome != want || problem != "" {
			t.Errorf("identity damaged: %v: the query %s, want that it %s; %s", damaged, outcome, want, problem)
		}
	}
}

// flipIncarnation makes the first digit of the incarnation another one.
func flipIncarnation(t *testing.T, path string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	name := []byte(`"incarnation":"`)
	at := bytes.Index(text, name) + len(name)
	was := text[at]
	for bit := range 8 {
		if c := was ^ 1<<bit; bytes.IndexByte([]byte("0123456789abcdef"), c) >= 0 {
			text[at] = c
			break
		}
	}
	if text[at] == was {
		t.Fatalf("no bit of the digit %q makes another one", was)
	}
	if err := write(path, text); err != nil {
		t.Fatal(err)
	}
}
