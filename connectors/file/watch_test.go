package file

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format/csv"
	"github.com/streamd-io/streamd/connectors/format/text"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// notes is a log that a test reads.
type notes struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (n *notes) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.b.Write(p)
}

func (n *notes) has(t *testing.T, words ...string) {
	t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, w := range words {
		if !strings.Contains(n.b.String(), w) {
			t.Errorf("log does not hold %q: %s", w, &n.b)
		}
	}
}

// racing is a source that is read while its files change. Its clock stands still
// until a test moves it.
type racing struct {
	*tree
	t     *testing.T
	clock *connectortest.Clock
	log   notes
	opts  []string
	r     *connectortest.Collector
}

func newRacing(t *testing.T, tr *tree, opts ...string) *racing {
	r := &racing{tree: tr, t: t, clock: connectortest.NewClock(start), opts: opts}
	tr.clock = r.clock
	return r
}

// open begins to read, one record at a time.
func (r *racing) open(from connectors.Offset) {
	r.t.Helper()
	c := r.options(r.opts)
	c.Env.Log = slog.New(slog.NewTextHandler(&r.log, nil))
	s, err := Connector().Source(r.t.Context(), c)
	must(r.t, err)
	r.r, err = connectortest.Open(r.t.Context(), s, connectors.ReadRequest{Partition: partitionName, MaxRows: 1, From: from}, r.decoder(r.opts...), 0)
	must(r.t, err)
}

func (r *racing) close() { must(r.t, r.r.Close()) }

func (r *racing) last() connectors.Offset { return r.r.Offsets[len(r.r.Offsets)-1] }

func (r *racing) caughtUp() {
	r.t.Helper()
	must(r.t, r.r.ReadUntil(r.t.Context(), func(c *connectortest.Collector) bool { return c.Status.State == connectors.CaughtUp }))
}

func (r *racing) rows(n int) {
	r.t.Helper()
	must(r.t, r.r.ReadUntil(r.t.Context(), func(c *connectortest.Collector) bool { return len(c.Records) >= n }))
}

// after reads until there are n rows, moving the clock in steps of d whenever the
// reader waits; change happens while it waits first.
func (r *racing) after(n int, d time.Duration, change func()) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- r.r.ReadUntil(r.t.Context(), func(c *connectortest.Collector) bool { return len(c.Records) >= n })
	}()
	r.clock.Blocked(1)
	change()
	for {
		r.clock.Advance(d)
		select {
		case err := <-done:
			must(r.t, err)
			return
		case <-time.After(time.Millisecond): // until it waits again
		}
	}
}

// passing reads until there are n rows while time passes.
func (r *racing) passing(n int) {
	r.t.Helper()
	done := make(chan error, 1)
	go func() {
		done <- r.r.ReadUntil(r.t.Context(), func(c *connectortest.Collector) bool { return len(c.Records) >= n })
	}()
	for {
		select {
		case err := <-done:
			must(r.t, err)
			return
		case <-time.After(time.Millisecond):
			r.clock.Advance(time.Second)
		}
	}
}

func (r *racing) want(rows ...string) {
	r.t.Helper()
	if diff := cmp.Diff(rows, strs(r.r)); diff != "" {
		r.t.Errorf("(-want +got)\n%s", diff)
	}
	seen := map[[3]uint64]bool{}
	for _, x := range r.r.Records {
		id := [3]uint64{x.Base.Hi, x.Base.Lo, x.A}
		if seen[id] {
			r.t.Errorf("two rows have the identity %x", id)
		}
		seen[id] = true
	}
}

// add appends to a file.
func (r *racing) add(name, content string) {
	r.t.Helper()
	f, err := os.OpenFile(filepath.Join(r.dir, name), os.O_APPEND|os.O_WRONLY, 0)
	must(r.t, err)
	_, err = f.WriteString(content)
	must(r.t, err)
	must(r.t, f.Close())
}

// move gives a path to another file.
func (r *racing) move(name, content string, age time.Duration) {
	r.t.Helper()
	r.put(".new", content, age)
	must(r.t, os.Rename(filepath.Join(r.dir, ".new"), filepath.Join(r.dir, name)))
}

func newText(t *testing.T) *tree { return newTree(t, text.Format(), value) }

func TestASlowWriter(t *testing.T) {
	r := newRacing(t, newText(t))
	r.put("a.txt", "1\nha", 0)
	r.open(nil)
	defer r.close()
	r.rows(1)
	r.after(3, 100*time.Millisecond, func() { r.add("a.txt", "lf\n2\n") })
	r.want("1", "half", "2")
	r.log.has(t, "is still being written")
	r.caughtUp()
	r.after(4, time.Second, func() { r.add("a.txt", "3\n") })
	r.want("1", "half", "2", "3")
	r.log.has(t, "a finished file has grown and is read on")

	// What was read while it grew has the same identity as what is read at once.
	once := newRacing(t, r.tree)
	once.open(nil)
	defer once.close()
	once.rows(4)
	for i := range once.r.Records {
		a, b := once.r.Records[i], r.r.Records[i]
		if a.Base != b.Base || a.A != b.A {
			t.Errorf("row %d has another identity", i)
		}
	}
}

func TestAFileWithoutAFinalLineEnd(t *testing.T) {
	r := newRacing(t, newText(t), "max_file_age", "0s") // what is appended is of today
	r.put("a.txt", "1\nend", 0)
	r.open(nil)
	defer r.close()
	r.rows(1)
	r.after(2, 500*time.Millisecond, func() {})
	r.want("1", "end")
	if got := r.clock.Now().Sub(start); got < settled {
		t.Errorf("half a line was taken for whole after %v", got)
	}
	r.caughtUp()
	r.after(3, time.Second, func() { r.add("a.txt", "\n2\n") })
	r.want("1", "end", "2")
	r.caughtUp()
	r.put("b.txt", "half", 0)
	r.passing(4)
	r.caughtUp()
	r.add("b.txt", " a line\n")
	r.clock.Advance(time.Minute) // nobody waits: the next look lists the directory
	err := r.r.ReadUntil(t.Context(), func(*connectortest.Collector) bool { return false })
	if fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "b.txt: the line that ended at byte 4") {
		t.Errorf("got error %v, want a config error", err)
	}
}

func TestARecordOfSeveralLinesIsAwaited(t *testing.T) {
	r := newRacing(t, newTree(t, csv.Format(), messages.Field{Name: "n", Type: messages.T(messages.Int)}, value))
	r.put("a.csv", "1,x\n2,\"y\n", 0)
	r.open(nil)
	defer r.close()
	r.rows(1)
	r.after(3, 100*time.Millisecond, func() { r.add("a.csv", "z\"\n3,w\n") })
	want := [][]any{{int32(1), "x"}, {int32(2), "y\nz"}, {int32(3), "w"}}
	if diff := cmp.Diff(want, r.r.Rows()); diff != "" {
		t.Error(diff)
	}
}

func TestAPathThatIsGivenToAnotherFile(t *testing.T) {
	t.Run("after the first was read", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n2\n", time.Hour)
		r.open(nil)
		r.rows(2)
		r.caughtUp()
		r.after(4, time.Second, func() { r.move("a.txt", "1\n3\n", time.Minute) })
		r.want("1", "2", "1", "3")
		r.log.has(t, "belongs to another one")
		r.caughtUp()
		from := r.last()
		r.close()
		r.open(from)
		defer r.close()
		r.caughtUp()
		r.want()
	})
	t.Run("while the first is read", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n2\n3\n", time.Hour)
		r.open(nil)
		defer r.close()
		r.rows(1)
		r.move("a.txt", "4\n5\n", time.Minute)
		r.rows(3)
		r.want("1", "2", "3")
		r.passing(5)
		r.want("1", "2", "3", "4", "5")
	})
	t.Run("before the first was opened", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n", time.Hour)
		r.open(nil)
		defer r.close()
		r.move("a.txt", "4\n5\n", time.Minute)
		r.rows(2)
		r.want("4", "5")
	})
	t.Run("with the same content", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n", time.Hour)
		r.open(nil)
		defer r.close()
		r.rows(1)
		r.caughtUp()
		r.move("a.txt", "1\n", time.Minute)
		r.put("b.txt", "2\n", time.Minute)
		r.passing(2)
		r.want("1", "2")
		r.log.has(t, "with the same content")
	})
}

func TestAFileThatIsTruncatedWhileItIsRead(t *testing.T) {
	r := newRacing(t, newText(t))
	r.put("a.txt", "1\n2\n3\n", time.Hour)
	r.open(nil)
	defer r.close()
	r.rows(1)
	must(t, os.WriteFile(filepath.Join(r.dir, "a.txt"), []byte("7\n"), 0o644))
	err := r.r.ReadUntil(t.Context(), func(c *connectortest.Collector) bool { return c.Status.State == connectors.CaughtUp })
	if fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), "a.txt changed") {
		t.Errorf("got error %v, want a config error that names the file", err)
	}
}

func TestFilesThatAreDeleted(t *testing.T) {
	t.Run("while it is read", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n2\n3\n", time.Hour)
		r.open(nil)
		defer r.close()
		r.rows(1)
		must(t, os.Remove(filepath.Join(r.dir, "a.txt")))
		r.rows(3)
		r.caughtUp()
		r.want("1", "2", "3")
	})
	t.Run("before it is read", func(t *testing.T) {
		r := newRacing(t, newText(t))
		r.put("a.txt", "1\n", 2*time.Hour)
		r.put("b.txt", "2\n", time.Hour)
		r.open(nil)
		defer r.close()
		must(t, os.Remove(filepath.Join(r.dir, "a.txt")))
		r.rows(1)
		r.caughtUp()
		r.want("2")
		r.log.has(t, "vanished before it was read", "a.txt")
	})
}

func TestAFileGrowsWhileTheQueryIsDown(t *testing.T) {
	r := newRacing(t, newText(t))
	r.put("a.txt", "1\n2\n3\n", time.Hour)
	r.open(nil)
	r.rows(2)
	first := r.r.Records
	from := r.last()
	r.close()
	r.add("a.txt", "4\n")
	r.open(from)
	defer r.close()
	r.rows(2)
	r.want("3", "4")
	if r.r.Records[0].Base != first[0].Base {
		t.Error("the rows behind the restart belong to another file")
	}
	r.log.has(t, "has grown since a part of it was read")
	r.caughtUp()
}

func TestANewFileThatIsTooOldIsNamed(t *testing.T) {
	r := newRacing(t, newText(t), "max_file_age", "24h")
	r.put("a.txt", "1\n", 30*time.Hour)
	r.put("b.txt", "2\n", time.Hour)
	r.open(nil)
	defer r.close()
	r.rows(2)
	r.caughtUp()
	r.put("older.txt", "3\n", 20*time.Hour) // within the limit
	r.put("oldest.txt", "4\n", 40*time.Hour)
	r.passing(3)
	r.want("1", "2", "3")
	r.log.has(t, "older than max_file_age", "oldest.txt")
	if strings.Contains(r.log.b.String(), "a.txt") {
		t.Errorf("a file that was read is called too old: %s", &r.log.b)
	}
}

func TestCleaningLeavesWhatWasNotRead(t *testing.T) {
	r := newRacing(t, newText(t), "clean_source", "delete")
	r.put("a.txt", "1\n", 2*time.Hour)
	r.put("b.txt", "2\n", time.Hour)
	r.open(nil)
	defer r.close()
	r.rows(2)
	r.caughtUp()
	r.add("a.txt", "more\n")
	r.move("b.txt", "other\n", time.Minute)
	must(t, r.r.Reader().Committed(t.Context(), r.last()))
	r.passing(4)
	got := strs(r.r)
	slices.Sort(got)
	if diff := cmp.Diff([]string{"1", "2", "more", "other"}, got); diff != "" {
		t.Error(diff)
	}
}
