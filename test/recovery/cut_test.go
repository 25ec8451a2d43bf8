package recovery

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/catalogstore"
)

// cut is what a commit record says about the input.
type cut struct {
	record    *epochs.Record
	next      [partitions]uint64 // sequence each partition goes on at
	watermark [partitions]int64
	rows      uint64 // read so far
	older     []*cut // those of the other retained records, newest first
}

// covers reports whether a row is before the cut.
func (c *cut) covers(x *row) bool { return x.Seq < c.next[x.Part] }

// combined is the watermark of all partitions.
func (c *cut) combined() int64 {
	wm := c.watermark[0]
	for _, w := range c.watermark[1:] {
		wm = min(wm, w)
	}
	return wm
}

// late is how many rows the operators have dropped as late.
func (c *cut) late() int {
	n := uint64(0)
	for _, o := range c.record.Counters {
		n += o.Late
	}
	return int(n)
}

// readCut reads the newest commit record of a query from a copy of its store:
// the child shall find what the killed one has left, not what a reader made of it.
func (r *rig) readCut(query string) *cut {
	r.t.Helper()
	s, done := r.openCopy(query)
	if s == nil {
		return nil // the child was killed before it had made it
	}
	records, _, err := s.Committed(r.t.Context())
	if err != nil {
		r.t.Fatalf("commit records of %s after a kill: %v", query, err)
	}
	done()
	if len(records) == 0 {
		return nil
	}
	var cuts []*cut
	for _, stored := range records {
		rec, err := epochs.DecodeRecord(stored.Data)
		if err != nil {
			r.t.Fatal(err)
		}
		cuts = append(cuts, r.decodeCut(rec))
	}
	cuts[0].older = cuts[1:]
	return cuts[0]
}

// decodeCut reads the positions in a commit record.
func (r *rig) decodeCut(rec *epochs.Record) *cut {
	r.t.Helper()
	c := &cut{record: rec}
	for _, src := range rec.Sources {
		var p int
		if _, err := fmt.Sscanf(src.Partition, "in.%d", &p); err != nil {
			r.t.Fatalf("partition %q: %v", src.Partition, err)
		}
		var pos struct {
			NextSeq uint64 `json:"next_seq"`
		}
		if len(src.Offset) > 0 { // else nothing was read yet
			if err := json.Unmarshal(src.Offset, &pos); err != nil {
				r.t.Fatal(err)
			}
		}
		c.next[p], c.watermark[p] = pos.NextSeq, int64(src.Watermark)
		c.rows += src.Rows
	}
	return c
}

// openCopy opens a copy of the store of a query: its own, or the catalog that
// queries without state share.
func (r *rig) openCopy(query string) (s epochs.Segments, done func()) {
	r.t.Helper()
	ctx := r.t.Context()
	from := filepath.Join(r.dir, "queries", query, "state")
	_, err := os.Stat(from)
	own := err == nil
	if !own {
		from = filepath.Join(r.dir, "catalog")
		if _, err := os.Stat(from); err != nil {
			return nil, nil
		}
	}
	dir := filepath.Join(r.t.TempDir(), "state")
	if text, err := exec.Command("cp", "-r", "--sparse=always", from, dir).CombinedOutput(); err != nil {
		r.t.Fatalf("copy %s: %v\n%s", from, err, text)
	}
	open := func(ctx context.Context) (epochs.Segments, error) {
		return badgerstore.Open(ctx, dir, badgerstore.Options{})
	}
	closers := []io.Closer{}
	if own {
		s, err = open(ctx)
	} else {
		c := catalogstore.New(open)
		s, err = c.Open(ctx, query)
		closers = append(closers, c)
	}
	if err != nil {
		r.t.Fatalf("open the store of %s after a kill: %v", query, err)
	}
	return s, func() {
		for _, c := range append([]io.Closer{s}, closers...) {
			if err := c.Close(); err != nil {
				r.t.Fatalf("close a copy of the store of %s: %v", query, err)
			}
		}
		if err := os.RemoveAll(dir); err != nil {
			r.t.Fatal(err)
		}
	}
}

// inspect checks the newest commit record of a lane whose child is dead: it
// follows from the one seen before, its counters balance, and what is visible
// agrees with it.
func (r *rig) inspect(l lane, in *input, final bool) {
	r.t.Helper()
	c := r.readCut(l.name)
	if c == nil {
		return
	}
	bad := problems{}
	if old := r.cuts[l.name]; old != nil {
		follows(old, c, bad)
	}
	r.cuts[l.name] = c
	for _, n := range c.record.Counters {
		// Out is 1 to 1 only in stateless operators; a stateful one absorbs.
		if n.Absorbed > 0 && n.In != n.Filtered+n.Late+n.Bad+n.Deduplicated+n.Absorbed {
			bad.add("unbalanced", "%+v", n)
		}
	}
	covered := uint64(0)
	for i := range in.rows {
		if c.covers(&in.rows[i]) {
			covered++
		}
	}
	if covered != c.rows {
		bad.add("miscounted", "the record covers %d rows and says %d", covered, c.rows)
	}
	if final && covered != uint64(len(in.rows)) {
		bad.add("uncommitted", "%d of %d rows after a drain", uint64(len(in.rows))-covered, len(in.rows))
	}
	for sort, texts := range l.prefix(r, in, c) {
		bad[sort] = append(bad[sort], texts...)
	}
	if len(bad) > 0 {
		r.t.Fatalf("query %s, epoch %d of attempt %d:\n%s%s", l.name, c.record.Epoch, c.record.Attempt, bad, r.child.tail())
	}
}

// follows checks that nothing has gone back between two records.
func follows(old, c *cut, bad problems) {
	if c.record.Epoch < old.record.Epoch || c.record.Attempt < old.record.Attempt || c.record.Incarnation != old.record.Incarnation {
		bad.add("gone back", "epoch %d of attempt %d after epoch %d of attempt %d", c.record.Epoch, c.record.Attempt, old.record.Epoch, old.record.Attempt)
	}
	for p := range partitions {
		if c.next[p] < old.next[p] || c.watermark[p] < old.watermark[p] {
			bad.add("gone back", "partition %d: sequence %d watermark %d after %d and %d", p, c.next[p], c.watermark[p], old.next[p], old.watermark[p])
		}
	}
}
