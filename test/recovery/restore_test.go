package recovery

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/epochs"
)

// alwaysLane is a stateless query that promises each row at least once.
func alwaysLane() lane {
	const name = "arows"
	return lane{
		name: name, subject: "arows.{part}", sink: "guarantee = 'at_least_once'", query: statelessSQL,
		check: func(r *rig, in *input) problems { return repeated(checkStateless(in, r.taps[name].read(), every)) },
		prefix: func(r *rig, in *input, c *cut) problems {
			return repeated(checkStateless(in, r.taps[name].read(), c.covers))
		},
	}
}

// repeated lets rows be there twice.
func repeated(bad problems) problems {
	delete(bad, "duplicates")
	return bad
}

// fileLane is a stateless query into part files of a directory.
func fileLane(dir string) lane {
	return lane{
		name: "files", dir: dir, sink: "guarantee = 'exactly_once', roll_interval = '1h'", query: statelessSQL, byEpoch: true,
		check: func(r *rig, in *input) problems {
			// The last parts become visible when the child drains; it may do so once all
			// rows are in some part.
			return checkStateless(in, r.parts(dir, !r.child.ended(0)), every)
		},
		prefix: func(r *rig, in *input, c *cut) problems {
			// What is visible has committed; parts that are not finished are not visible.
			return checkStateless(in.before(c), r.parts(dir, false), func(*row) bool { return false })
		},
	}
}

// parts reads the lines of the visible part files, or of all of them.
func (r *rig) parts(dir string, all bool) [][]byte {
	r.t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "part-*"))
	if err == nil && all {
		var hidden []string
		hidden, err = filepath.Glob(filepath.Join(dir, ".part-*"))
		names = append(names, hidden...)
	}
	if err != nil {
		r.t.Fatal(err)
	}
	var rows [][]byte
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil && !(all && errors.Is(err, fs.ErrNotExist)) { // it may become visible just now
			r.t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasSuffix(line, "\n") { // else it is being written
				rows = append(rows, []byte(line))
			}
		}
	}
	return rows
}

// TestRestoreEpoch kills the child and starts the next one from an older epoch, again
// and again, and holds each sink to what it promises then:
//
//	at_least_once                     nothing is missing
//	exactly_once at once (T and I)    exact: what was published since is recognised
//	a bucket, at once                 exact in the end: each key has its last value
//	part files                        exact, as far back as the start of the child that
//	                                  was killed: only then have parts been made visible
//
// For other sinks that publish per epoch see TestRestoreEpochRepeats.
func TestRestoreEpoch(t *testing.T) {
	rounds := number("RECOVERY_RESTORES", 25)
	if testing.Short() {
		rounds = 3
	}
	r := newRig(t, setup{lanes: []lane{
		alwaysLane(), rowsLane(), windowsLane(), bucketLane(), tableLane(), fileLane(filepath.Join(t.TempDir(), "parts")),
	}})
	attempts := map[string]uint64{} // of the newest records, at the kill before
	back := map[string]int{}
	for range rounds {
		r.start()
		if r.rng.IntN(4) == 0 { // while it goes back
			r.pass(r.upTo(200 * time.Millisecond))
		} else {
			r.running()
			r.pass(400*time.Millisecond + r.upTo(400*time.Millisecond))
		}
		r.child.kill(t)
		in := r.feed.settled()
		r.args = nil
		var seen []string
		for _, l := range r.lanes {
			r.inspect(l, in, false)
			c := r.cuts[l.name]
			if c == nil {
				continue
			}
			text := fmt.Sprintf("%s: %d/%d", l.name, c.record.Epoch, c.record.Attempt)
			for _, o := range c.older {
				text += fmt.Sprintf(" %d/%d", o.record.Epoch, o.record.Attempt)
			}
			seen = append(seen, text)
			before := attempts[l.name]
			attempts[l.name] = c.record.Attempt
			if to := r.older(l, c, before); to != nil {
				back[l.name]++
				r.goBack(l, to)
			}
		}
		t.Logf("epoch/attempt retained of %s; next: %s", strings.Join(seen, ", "), r.args)
	}
	r.start()
	r.running()
	r.args = nil
	for _, l := range r.lanes {
		if back[l.name] == 0 && !testing.Short() {
			t.Errorf("%s has never gone back", l.name)
		}
	}
	t.Logf("%d rows; gone back: %v", r.finish(), back)
}

// older picks an epoch to go back to, nil for none.
func (r *rig) older(l lane, c *cut, attempt uint64) *cut {
	// So many are promised; of an older one a crash may leave the record alone.
	older := c.older[:min(len(c.older), epochs.Retain-1)]
	if len(older) == 0 || r.rng.IntN(4) == 0 {
		return nil
	}
	to := older[r.rng.IntN(len(older))]
	if l.dir != "" && (c.record.Attempt <= attempt || to.record.Attempt != c.record.Attempt) {
		return nil // parts have been made visible since
	}
	return to
}

// goBack makes the next child start a lane from an older epoch.
func (r *rig) goBack(l lane, to *cut) {
	r.args = append(r.args, "--restore-epoch", fmt.Sprintf("%s=%d", l.name, to.record.Epoch))
	if l.dir != "" {
		r.args = append(r.args, "--accept-duplicates")
	}
	delete(r.cuts, l.name) // what follows does not follow from it
}

// TestRestoreEpochRepeats asks sinks that publish per epoch to go back behind what
// they have published. Without --accept-duplicates that is refused, and nothing has
// changed. With it the epochs behind the one restored are published again: nothing is
// missing, and no row of an epoch before is there twice. In a bucket each key has its
// last value in the end.
func TestRestoreEpochRepeats(t *testing.T) {
	long(t)
	for _, l := range []lane{epochRowsLane(), transactionLane(), totalsLane(), epochBucketLane()} {
		t.Run(l.name, func(t *testing.T) {
			r := newRig(t, setup{lanes: []lane{l}})
			r.start()
			r.commits(6, 1)
			r.child.kill(t)
			r.inspect(l, r.feed.settled(), false)
			c := r.cuts[l.name]
			if len(c.older) < 2 {
				t.Fatalf("%d epochs are retained, want 3", 1+len(c.older))
			}
			to := c.older[1]
			flags := fmt.Sprintf("--restore-epoch %s=%d", l.name, to.record.Epoch)
			r.args = strings.Fields(flags)
			r.start()
			r.refuses(3, flags+" --accept-duplicates")
			if again := r.readCut(l.name); again.record.Epoch != c.record.Epoch {
				t.Fatalf("the newest epoch was %d and is %d after a refusal", c.record.Epoch, again.record.Epoch)
			}

			r.args = append(r.args, "--accept-duplicates")
			r.exposed = true
			r.start()
			r.commits(int(c.record.Epoch)+1, 2) // numbers are not used again
			r.child.kill(t)
			r.args, r.cuts = nil, map[string]*cut{}
			r.start() // goes on like after any other kill
			r.finish()
			in := r.feed.snapshot()
			t.Logf("%d rows; twice: %v", len(in.rows), r.twice)
			if l.query != statelessSQL {
				return
			}
			twice := map[string]bool{}
			for _, id := range l.check(r, in)["duplicates"] {
				twice[id] = true
			}
			for i := range in.rows {
				if x := &in.rows[i]; twice[fmt.Sprint(x.ID)] && to.covers(x) {
					t.Errorf("row %d is in an epoch before %d and there twice", x.ID, to.record.Epoch)
				}
			}
		})
	}
}

// refuses waits for the child to end with a code and to say why.
func (r *rig) refuses(code int, says ...string) {
	r.t.Helper()
	if !r.child.ended(30 * time.Second) {
		r.t.Fatalf("streamd goes on\n%s", r.child.out.String())
	}
	exit, ok := errors.AsType[*exec.ExitError](r.child.err)
	if !ok || exit.ExitCode() != code {
		r.t.Errorf("streamd ended with %v, want exit code %d", r.child.err, code)
	}
	for _, s := range says {
		if !strings.Contains(r.child.out.String(), s) {
			r.t.Errorf("streamd does not say %q", s)
		}
	}
	if r.t.Failed() {
		r.t.Fatal(r.child.tail())
	}
}
