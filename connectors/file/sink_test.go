package file

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/csv"
	formatjson "github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var numbers = connectortest.SinkCase{}.Schema()

func sinkConfig(t testing.TB, f format.Format, clock connectors.Clock, keyValues ...string) connectors.SinkConfig {
	t.Helper()
	opts := connectortest.Options(t, append(Connector().SinkOptions, f.Options...), keyValues...)
	c := format.Config{Schema: numbers, Options: opts}
	return connectors.SinkConfig{
		Options: opts, Schema: numbers, Format: f, FormatConfig: c, Env: connectors.Env{Clock: clock},
		Encoder: func(s *messages.Schema) (format.Encoder, error) {
			return f.Encoder(format.Config{Schema: s, Options: opts})
		},
	}
}

// rowsOf parses JSON lines.
func rowsOf(t testing.TB, files map[string]string) [][]any {
	t.Helper()
	rows := [][]any{}
	for name, text := range files {
		if !strings.HasSuffix(text, "\n") {
			t.Errorf("%s ends in the middle of a line: %q", name, text)
		}
		for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
			var r struct {
				N int64
				S string
			}
			if dir, _, ok := strings.Cut(name, "/"); ok {
				if _, err := fmt.Sscanf(dir, "n=%d", &r.N); err != nil {
					t.Errorf("directory of %s: %v", name, err)
				}
				if strings.Contains(line, `"n"`) {
					t.Errorf("%s: line %q holds the partition column", name, line)
				}
			}
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Errorf("%s: line %q: %v", name, line, err)
			}
			rows = append(rows, []any{r.N, r.S})
		}
	}
	return rows
}

func TestSinkKeepsTheContractThroughPowerCuts(t *testing.T) {
	for _, tc := range []struct {
		name    string
		options []string
		chance  bool
	}{
		{"all that is not synced is lost", nil, false},
		{"small parts, all that is not synced is lost", []string{"roll_size", "100"}, false},
		{"in directories, all that is not synced is lost", []string{"partition_by", "n"}, false},
		{"in directories, some that is not synced is lost", []string{"partition_by", "n"}, true},
		{"some that is not synced is lost", []string{"roll_size", "200"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var m *memFS
			var r *rand.Rand
			if tc.chance {
				r = rand.New(rand.NewPCG(7, 8))
			}
			clock := connectortest.NewClock(start)
			connectortest.Sink(t, connectortest.SinkCase{
				New: func(t testing.TB) connectors.Sink {
					if m == nil {
						m = newMemFS()
					}
					m.crash(r)
					s, err := makeSink(sinkConfig(t, formatjson.Format(), clock, append([]string{"path", "/out"}, tc.options...)...), m)
					must(t, err)
					return s
				},
				Visible: func(t testing.TB) [][]any { return rowsOf(t, m.visible()) },
				Reset:   func(testing.TB) { m = newMemFS() },
				Offer:   connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
			})
		})
	}
}

func TestSinkKeepsTheContractOnTheRealFileSystem(t *testing.T) {
	if testing.Short() {
		t.Skip("syncs thousands of files")
	}
	dir := ""
	connectortest.Sink(t, connectortest.SinkCase{
		New: func(t testing.TB) connectors.Sink {
			c := sinkConfig(t, formatjson.Format(), connectortest.SystemClock{}, "path", "out", "roll_size", "300")
			c.Env.BaseDir = dir
			s, err := Connector().Sink(t.Context(), c)
			must(t, err)
			return s
		},
		Visible: func(t testing.TB) [][]any { return rowsOf(t, visibleFiles(t, filepath.Join(dir, "out"))) },
		Reset: func(t testing.TB) {
			dir = t.TempDir()
		},
		Offer: connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
	})
}

func visibleFiles(t testing.TB, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	entries, err := os.ReadDir(dir)
	if os.IsNotExist(err) {
		return files
	}
	must(t, err)
	for _, e := range entries {
		if !hidden(e.Name()) {
			text, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
			files[e.Name()] = string(text)
		}
	}
	return files
}

func batch(t testing.TB, from, to int) *messages.Batch {
	t.Helper()
	b := messages.NewBuilder(numbers)
	for n := from; n < to; n++ {
		must(t, format.AppendRow(b, []any{n, fmt.Sprintf("row %d", n)}))
	}
	return b.Finish()
}

type openSink struct {
	*committer
	w connectors.Writer
	e messages.Epoch
}

func openFor(t testing.TB, c connectors.SinkConfig, m fileSystem) *openSink {
	t.Helper()
	s, err := makeSink(c, m)
	must(t, err)
	com, err := s.Open(t.Context(), connectors.WriteRequest{Sink: "q/sink", Attempt: 1, Schema: numbers})
	must(t, err)
	must(t, com.Recover(t.Context(), 0, nil))
	w, err := com.Writer(t.Context(), 0, 1)
	must(t, err)
	return &openSink{com.(*committer), w, 0}
}

// epoch ends an epoch and returns its token.
func (o *openSink) epoch(t testing.TB) connectors.Token {
	t.Helper()
	o.e++
	flush, err := o.w.Cut(o.e)
	must(t, err)
	tok, err := flush(t.Context())
	must(t, err)
	tok, err = o.Prepare(t.Context(), o.e, []connectors.Token{tok})
	must(t, err)
	must(t, o.Commit(t.Context(), o.e, tok))
	return tok
}

func TestPartsRollByTime(t *testing.T) {
	m, clock := newMemFS(), connectortest.NewClock(start)
	o := openFor(t, sinkConfig(t, formatjson.Format(), clock, "path", "/out", "roll_interval", "10s"), m)
	must(t, o.w.Write(t.Context(), batch(t, 0, 2), nil))
	o.epoch(t)
	if got := m.visible(); len(got) != 0 || o.WantsEpoch() {
		t.Errorf("before roll_interval: got files %v, WantsEpoch %v, want none and false", got, o.WantsEpoch())
	}
	clock.Advance(10 * time.Second)
	if !o.WantsEpoch() {
		t.Error("after roll_interval the sink asks for no epoch, so the rows would stay hidden")
	}
	o.epoch(t)
	if got := rowsOf(t, m.visible()); len(got) != 2 || o.WantsEpoch() {
		t.Errorf("after roll_interval: got rows %v, WantsEpoch %v, want 2 rows and false", got, o.WantsEpoch())
	}
	before := len(m.calls)
	o.epoch(t)
	o.epoch(t)
	if got := m.calls[before:]; len(got) != 0 {
		t.Errorf("epochs without rows touched the file system: %q", got)
	}
}

func TestCloseShowsWhatIsCommitted(t *testing.T) {
	m := newMemFS()
	o := openFor(t, sinkConfig(t, formatjson.Format(), connectortest.NewClock(start), "path", "/out"), m)
	must(t, o.w.Write(t.Context(), batch(t, 0, 2), nil))
	o.epoch(t)
	must(t, o.w.Close()) // as the engine does: writers first
	must(t, o.Close())
	m.crash(nil)
	if got := rowsOf(t, m.visible()); len(got) != 2 {
		t.Errorf("after a drain: got rows %v, want 2", got)
	}
	o = openFor(t, sinkConfig(t, formatjson.Format(), connectortest.NewClock(start), "path", "/new"), m)
	must(t, o.w.Write(t.Context(), batch(t, 2, 4), nil))
	o.epoch(t)
	must(t, o.w.Write(t.Context(), batch(t, 4, 5), nil))
	must(t, o.Close())
	if got := rowsOf(t, m.visible()); len(got) != 2 {
		t.Errorf("with rows that are not committed: got rows %v, want the 2 from before only", got)
	}
}

func TestDataIsDurableBeforeItsName(t *testing.T) {
	m := newMemFS()
	o := openFor(t, sinkConfig(t, formatjson.Format(), connectortest.NewClock(start), "path", "/out", "roll_size", "1"), m)
	m.calls = nil
	must(t, o.w.Write(t.Context(), batch(t, 0, 1), nil))
	o.epoch(t)
	var got []string
	for _, c := range m.calls {
		got = append(got, strings.Fields(c)[0])
	}
	// The content is synced in between: a crash behind the rename keeps it.
	if diff := cmp.Diff(got, []string{"create", "syncdir", "rename", "syncdir"}); diff != "" {
		t.Errorf("calls: got (-) differs from want (+):\n%s", diff)
	}
	m.crash(nil)
	if got := rowsOf(t, m.visible()); len(got) != 1 {
		t.Errorf("after a crash: got %v, want the row", got)
	}
}

func TestCSVPartsHaveAHeaderEach(t *testing.T) {
	m := newMemFS()
	o := openFor(t, sinkConfig(t, csv.Format(), connectortest.NewClock(start), "path", "/out", "header", "true", "roll_size", "20"), m)
	must(t, o.w.Write(t.Context(), batch(t, 0, 4), nil))
	o.epoch(t)
	must(t, o.Close())
	var got []string
	for name, text := range m.visible() {
		if filepath.Ext(name) != ".csv" {
			t.Errorf("the part is called %s, want .csv at the end", name)
		}
		got = append(got, text)
	}
	sort.Strings(got)
	if diff := cmp.Diff(got, []string{"n,s\n0,row 0\n1,row 1\n", "n,s\n2,row 2\n3,row 3\n"}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestPartitionByRoundTripsThroughTheSource(t *testing.T) {
	dir := t.TempDir()
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	schema := messages.NewSchema(messages.Field{Name: "k", Type: messages.T(messages.String)},
		messages.Field{Name: "n", Type: messages.T(messages.Int)}, messages.Field{Name: "day/=", Type: messages.T(messages.Date)})
	want := [][]any{}
	b := messages.NewBuilder(schema)
	for i, k := range []any{"plain", "../a/b=c %", "", nil, nullValue, "ünï", ".hidden", "plain"} {
		row := []any{k, int32(i), day}
		if i%2 == 1 {
			row[2] = nil
		}
		want = append(want, row)
		must(t, format.AppendRow(b, row))
	}
	f := formatjson.Format()
	c := sinkConfig(t, f, connectortest.SystemClock{}, "path", dir, "partition_by", "k, day/=")
	c.Schema = schema
	s, err := Connector().Sink(t.Context(), c)
	must(t, err)
	must(t, connectortest.Drain(t.Context(), s, connectors.WriteRequest{Schema: schema}, b.Finish()))
	tr := newTree(t, f, schema.Fields...)
	tr.dir = dir
	r, err := tr.read(0, nil)
	must(t, err)
	got := r.Rows()
	sort.Slice(got, func(i, j int) bool { return got[i][1].(int32) < got[j][1].(int32) })
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "a")); !os.IsNotExist(err) {
		t.Errorf("a value led out of the directory: %v", err)
	}
	long := messages.NewBuilder(schema)
	must(t, format.AppendRow(long, []any{strings.Repeat("x", 254), 1, nil}))
	if err := connectortest.Drain(t.Context(), s, connectors.WriteRequest{Attempt: 2, Schema: schema}, long.Finish()); fault.KindOf(err) != fault.BadRow || err == nil {
		t.Errorf("a value that is too long: got error %v, want a bad row error", err)
	}
}

func TestOpenPartsAreBounded(t *testing.T) {
	m := newMemFS()
	o := openFor(t, sinkConfig(t, formatjson.Format(), connectortest.NewClock(start), "path", "/out", "partition_by", "n"), m)
	must(t, o.w.Write(t.Context(), batch(t, 0, 3*maxOpen), nil))
	if got := len(o.w.(*writer).open); got != maxOpen {
		t.Errorf("got %d open parts, want %d", got, maxOpen)
	}
	o.epoch(t)
	must(t, o.Close())
	if got := len(rowsOf(t, m.visible())); got != 3*maxOpen {
		t.Errorf("got %d rows, want %d", got, 3*maxOpen)
	}
}

func TestSinkErrors(t *testing.T) {
	clock := connectortest.NewClock(start)
	t.Run("a full disk restarts the attempt", func(t *testing.T) {
		m := newMemFS()
		o := openFor(t, sinkConfig(t, formatjson.Format(), clock, "path", "/out"), m)
		must(t, o.w.Write(t.Context(), batch(t, 0, 1), nil))
		m.fail = syscall.ENOSPC
		flush, err := o.w.Cut(1)
		must(t, err)
		if _, err := flush(t.Context()); fault.KindOf(err) != fault.Restart || err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("got error %v, want a restart error with the cause", err)
		}
	})
	t.Run("a committed part that is missing", func(t *testing.T) {
		m := newMemFS()
		s, err := makeSink(sinkConfig(t, formatjson.Format(), clock, "path", "/out"), m)
		must(t, err)
		com, err := s.Open(t.Context(), connectors.WriteRequest{Attempt: 2, Schema: numbers})
		must(t, err)
		err = com.Recover(t.Context(), 1, connectors.Token(`{"open":[{"name":"part-x.json","size":10,"rows":3}]}`))
		if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "3 committed rows") {
			t.Errorf("got error %v, want a config error that tells how many rows are missing", err)
		}
	})
	t.Run("a part that a newer epoch has published", func(t *testing.T) {
		m := newMemFS()
		c := sinkConfig(t, formatjson.Format(), clock, "path", "/out")
		var log bytes.Buffer
		c.Env.Log = slog.New(slog.NewTextHandler(&log, nil))
		o := openFor(t, c, m)
		must(t, o.w.Write(t.Context(), batch(t, 0, 2), nil))
		old := o.epoch(t)
		must(t, o.w.Write(t.Context(), batch(t, 2, 5), nil))
		o.epoch(t)
		must(t, o.w.Close())
		must(t, o.Close())
		restart := func(accept bool) error {
			s, err := makeSink(c, m)
			must(t, err)
			com, err := s.Open(t.Context(), connectors.WriteRequest{Sink: "q/sink", Attempt: 2, Schema: numbers, AcceptDuplicates: accept})
			must(t, err)
			return com.Recover(t.Context(), 1, old)
		}
		if err := restart(false); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "--accept-duplicates") {
			t.Errorf("got error %v, want a config error that names the flag", err)
		}
		must(t, restart(true))
		if got := rowsOf(t, m.visible()); len(got) != 5 || strings.Count(log.String(), "level=WARN") != 1 {
			t.Errorf("got rows %v and the log %s, want all 5 and a warning", got, log.String())
		}
	})
	for _, tc := range []struct {
		name, want string
		keyValues  []string
	}{
		{"partition_by an unknown column", "did you mean n?", []string{"partition_by", "m"}},
		{"partition_by all columns", "one must be left", []string{"partition_by", "n, s"}},
		{"partition_by a column twice", "column n twice", []string{"partition_by", "n,N"}},
		{"roll_size 0", "above 0", []string{"roll_size", "0"}},
		{"roll_interval 0", "above 0", []string{"roll_interval", "0s"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := makeSink(sinkConfig(t, formatjson.Format(), clock, append(tc.keyValues, "path", "/out")...), newMemFS())
			if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want a config error with %q", err, tc.want)
			}
		})
	}
}
