package file

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/csv"
	formatjson "github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/connectors/format/text"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// tree is a directory with files for a source.
type tree struct {
	t      testing.TB
	dir    string
	format format.Format
	schema *messages.Schema
	clock  connectors.Clock
	meta   map[int]string
}

func newTree(t testing.TB, f format.Format, fields ...messages.Field) *tree {
	return &tree{t: t, dir: t.TempDir(), format: f, schema: messages.NewSchema(fields...), clock: connectortest.SystemClock{}}
}

var value = messages.Field{Name: "value", Type: messages.T(messages.String)}

// put makes a file that was last modified age before start.
func (tr *tree) put(name, content string, age time.Duration) {
	tr.t.Helper()
	path := filepath.Join(tr.dir, name)
	must(tr.t, os.MkdirAll(filepath.Dir(path), 0o755))
	must(tr.t, os.WriteFile(path, []byte(content), 0o644))
	must(tr.t, os.Chtimes(path, start, start.Add(-age)))
}

func (tr *tree) options(keyValues []string) connectors.SourceConfig {
	tr.t.Helper()
	opts := connectortest.Options(tr.t, append(Connector().SourceOptions, tr.format.Options...), append([]string{"path", tr.dir}, keyValues...)...)
	return connectors.SourceConfig{
		Options: opts, Schema: tr.schema, MetadataColumns: tr.meta, Env: connectors.Env{Clock: tr.clock, BaseDir: tr.dir},
		Decoder: func() (format.Decoder, error) {
			c := format.Config{Schema: tr.schema, Options: opts, Skip: make([]bool, tr.schema.Len())}
			for i := range tr.meta {
				c.Skip[i] = true
			}
			c.Metadata = c.Skip
			return tr.format.Decoder(c)
		},
	}
}

// source replaces the path if keyValues begins with one.
func (tr *tree) source(keyValues ...string) connectors.Source {
	tr.t.Helper()
	dir := tr.dir
	if len(keyValues) > 0 && keyValues[0] == "path" {
		tr.dir, keyValues = keyValues[1], keyValues[2:]
	}
	c := tr.options(keyValues)
	tr.dir = dir
	c.Env.BaseDir = dir
	s, err := Connector().Source(tr.t.Context(), c)
	must(tr.t, err)
	return s
}

func (tr *tree) decoder(keyValues ...string) format.Decoder {
	tr.t.Helper()
	d, err := tr.options(keyValues).Decoder()
	must(tr.t, err)
	return d
}

// read reads a bounded source.
func (tr *tree) read(policy connectors.OnError, from connectors.Offset, keyValues ...string) (*connectortest.Collector, error) {
	tr.t.Helper()
	r, err := connectortest.Open(tr.t.Context(), tr.source(keyValues...), connectors.ReadRequest{Partition: partitionName, Bounded: true, MaxRows: 100, From: from}, tr.decoder(without(keyValues)...), policy)
	if err != nil {
		return nil, err
	}
	err = r.ReadAll(tr.t.Context())
	must(tr.t, r.Close())
	return r, err
}

// without drops the path from option values.
func without(keyValues []string) []string {
	if len(keyValues) > 0 && keyValues[0] == "path" {
		return keyValues[2:]
	}
	return keyValues
}

func strs(r *connectortest.Collector) []string {
	var s []string
	for _, row := range r.Rows() {
		s = append(s, fmt.Sprint(row...))
	}
	return s
}

func TestSourceKeepsTheContract(t *testing.T) {
	t.Run("text", func(t *testing.T) {
		tr := newTree(t, text.Format(), value)
		tr.put("b.txt", "old 1\r\nold 2\n\nold 4", 2*time.Hour)
		tr.put("a.txt", "new 1\n", time.Hour)
		tr.put("c.txt", "new 2\n", time.Hour)
		tr.put("b0.txt", "", time.Hour) // between two others
		tr.put("_SUCCESS", "not read\n", time.Hour)
		tr.put(".hidden", "not read\n", time.Hour)
		tr.put("sub/d.txt", "not read\n", time.Hour)
		connectortest.Source(t, connectortest.SourceCase{
			New:     func(testing.TB) connectors.Source { return tr.source() },
			Decoder: func(testing.TB) format.Decoder { return tr.decoder() },
			Want:    map[string][][]any{partitionName: {{"old 1"}, {"old 2"}, {""}, {"old 4"}, {"new 1"}, {"new 2"}}},
		})
	})
	t.Run("csv with headers and records over several lines", func(t *testing.T) {
		tr := newTree(t, csv.Format(), messages.Field{Name: "n", Type: messages.T(messages.Int)}, value)
		tr.put("a.csv", "value,n\n\"x\ny\"\"\n\",1\nz,2\n", 2*time.Hour)
		tr.put("b.csv", "n,value\n3,\"\n\"", time.Hour)
		tr.put("c.csv", "n,value\n", time.Hour)
		connectortest.Source(t, connectortest.SourceCase{
			New:     func(testing.TB) connectors.Source { return tr.source("header", "true") },
			Decoder: func(testing.TB) format.Decoder { return tr.decoder("header", "true") },
			Want:    map[string][][]any{partitionName: {{int32(1), "x\ny\"\n"}, {int32(2), "z"}, {int32(3), "\n"}}},
		})
	})
	t.Run("json with bad records", func(t *testing.T) {
		tr := newTree(t, formatjson.Format(), messages.Field{Name: "n", Type: messages.T(messages.Int)})
		tr.put("a.json", "{\"n\":1}\n\n{\"n\":\"x\"}\n[{\"n\":2},{\"n\":3}]\n{\n", time.Hour)
		connectortest.Source(t, connectortest.SourceCase{
			New:     func(testing.TB) connectors.Source { return tr.source() },
			Decoder: func(testing.TB) format.Decoder { return tr.decoder() },
			Want:    map[string][][]any{partitionName: {{int32(1)}, {int32(2)}, {int32(3)}}},
			Bad:     map[string]int{partitionName: 2},
		})
	})
	t.Run("no files", func(t *testing.T) {
		tr := newTree(t, text.Format(), value)
		connectortest.Source(t, connectortest.SourceCase{
			New:     func(testing.TB) connectors.Source { return tr.source() },
			Decoder: func(testing.TB) format.Decoder { return tr.decoder() },
			Want:    map[string][][]any{partitionName: nil},
		})
	})
}

func TestPaths(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	tr.put("a.txt", "a\n", time.Hour)
	tr.put("b.log", "b\n", time.Hour)
	tr.put("x[1].txt", "x\n", time.Hour)
	tr.put("sub1/c.txt", "c\n", time.Hour)
	tr.put("sub2/d.txt", "d\n", time.Hour)
	for _, tc := range []struct {
		path string
		want []string
	}{
		{tr.dir, []string{"a", "b", "x"}},
		{"a.txt", []string{"a"}},
		{filepath.Join(tr.dir, "a.txt"), []string{"a"}},
		{"*.txt", []string{"a", "x"}},
		{"sub*/*.txt", []string{"c", "d"}},
		{"none*", nil},
	} {
		t.Run(tc.path, func(t *testing.T) {
			r, err := tr.read(0, nil, "path", tc.path)
			if diff := cmp.Diff(strs(r), tc.want); err != nil || diff != "" {
				t.Errorf("error %v, got (-) differs from want (+):\n%s", err, diff)
			}
		})
	}
	t.Run("a path that does not exist", func(t *testing.T) {
		_, err := tr.read(0, nil, "path", "missing")
		if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), filepath.Join(tr.dir, "missing")+" does not exist") {
			t.Errorf("got error %v, want a config error that names the path", err)
		}
	})
	t.Run("no permission", func(t *testing.T) {
		if os.Geteuid() == 0 {
			t.Skip("root may read everything")
		}
		tr.put("secret/a.txt", "a\n", time.Hour)
		must(t, os.Chmod(filepath.Join(tr.dir, "secret"), 0))
		_, err := tr.read(0, nil, "path", "secret")
		if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), "no permission") {
			t.Errorf("got error %v, want a config error", err)
		}
	})
}

func TestNewFilesAreNoticed(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	clock := connectortest.NewClock(start)
	tr.clock = clock
	r, err := connectortest.Open(t.Context(), tr.source(), connectors.ReadRequest{Partition: partitionName, MaxRows: 10}, tr.decoder(), 0)
	must(t, err)
	defer func() { must(t, r.Close()) }()
	must(t, r.Read(t.Context()))
	if r.Status.State != connectors.CaughtUp {
		t.Errorf("got status %+v, want caught up", r.Status)
	}
	for i, name := range []string{"z.txt", "older.txt"} { // the second one was moved in with an old time
		done := make(chan error)
		go func() {
			done <- r.ReadUntil(t.Context(), func(r *connectortest.Collector) bool { return len(r.Records) > i })
		}()
		clock.Blocked(1)
		tr.put(name, name+"\n", time.Duration(i)*time.Hour)
		clock.Advance(100 * time.Millisecond)
		must(t, <-done)
		if i == 0 {
			must(t, r.Read(t.Context())) // reports that it has caught up again
		}
	}
	if diff := cmp.Diff(strs(r), []string{"z.txt", "older.txt"}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestFilesThatChangeAreNamed(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*tree)
		want   string
	}{
		{"a file in the middle of reading that was replaced", func(tr *tree) { tr.put("b.txt", "4\n9\n", time.Minute) }, "b.txt changed after a part of it has been read"},
		{"a file in the middle of reading that shrank", func(tr *tree) { tr.put("b.txt", "4\n", 0) }, "b.txt changed after a part of it has been read"},
		{"a file in the middle of reading that is gone", func(tr *tree) { must(tr.t, os.Remove(filepath.Join(tr.dir, "b.txt"))) }, "b.txt is gone, but only 2 of its 4 bytes"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			tr := newTree(t, text.Format(), value)
			tr.put("a.txt", "1\n2\n", 2*time.Hour)
			tr.put("b.txt", "4\n5\n", time.Hour)
			r, err := connectortest.Open(t.Context(), tr.source(), connectors.ReadRequest{Partition: partitionName, MaxRows: 1}, tr.decoder(), 0)
			must(t, err)
			must(t, r.ReadUntil(t.Context(), func(r *connectortest.Collector) bool { return len(r.Records) == 3 }))
			must(t, r.Close())
			tc.change(tr)
			_, err = tr.read(0, r.Offsets[len(r.Offsets)-1])
			if fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got error %v, want a config error with %q", err, tc.want)
			}
		})
	}
}

func TestMaxFileAge(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	tr.put("a.txt", "old\n", 48*time.Hour)
	tr.put("b.txt", "new\n", time.Hour)
	first, err := tr.read(0, nil, "max_file_age", "24h")
	must(t, err)
	if diff := cmp.Diff(strs(first), []string{"old", "new"}); diff != "" {
		t.Errorf("the backlog is read whatever its age: got (-) differs from want (+):\n%s", diff)
	}
	last := first.Offsets[len(first.Offsets)-1]
	var p progress
	must(t, json.Unmarshal(last, &p))
	if len(p.Done) != 1 || p.Done[0].Name != "b.txt" {
		t.Errorf("the offset keeps %v, want only the file within max_file_age", p.Done)
	}
	tr.put("c.txt", "too old\n", 26*time.Hour)
	tr.put("d.txt", "old enough\n", 24*time.Hour)
	second, err := tr.read(0, last, "max_file_age", "24h")
	must(t, err)
	if diff := cmp.Diff(strs(second), []string{"old enough"}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
}

func TestLatestFirst(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	tr.put("a.txt", "oldest\n", 1000*time.Hour)
	tr.put("b.txt", "newest\n", 0)
	tr.put("c.txt", "middle\n", time.Hour)
	r, err := tr.read(0, nil, "latestFirst", "true", "maxFilesPerTrigger", "1", "max_file_age", "1h")
	must(t, err)
	if diff := cmp.Diff(strs(r), []string{"newest", "middle", "oldest"}); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	rest, err := tr.read(0, r.Offsets[0], "latest_first", "true", "max_file_age", "1h")
	must(t, err)
	if got := len(r.Records) - 1; len(rest.Records) < got-1 {
		t.Errorf("after a restart: got %d rows, want every file however old", len(rest.Records))
	}
}

func TestCleanSource(t *testing.T) {
	for _, mode := range []string{"delete", "archive"} {
		t.Run(mode, func(t *testing.T) {
			tr := newTree(t, text.Format(), value)
			archive := t.TempDir()
			opts := []string{"clean_source", mode}
			if mode == "archive" {
				opts = append(opts, "source_archive_dir", archive)
			}
			for i, name := range []string{"a.txt", "b.txt", "c.txt"} {
				tr.put(name, name+"\n", time.Duration(3-i)*time.Hour)
			}
			r, err := connectortest.Open(t.Context(), tr.source(opts...), connectors.ReadRequest{Partition: partitionName, MaxRows: 1}, tr.decoder(), 0)
			must(t, err)
			must(t, r.ReadUntil(t.Context(), func(r *connectortest.Collector) bool { return len(r.Records) == 3 }))
			left := func() string {
				names, err := osFS{}.Names(tr.dir)
				must(t, err)
				return strings.Join(names, " ")
			}
			if got := left(); got != "a.txt b.txt c.txt" {
				t.Errorf("before a commit: got files %s, want all", got)
			}
			must(t, r.Reader().Committed(t.Context(), r.Offsets[1])) // behind the row of b.txt, which is not finished
			if got := left(); got != "b.txt c.txt" {
				t.Errorf("after a commit: got files %s, want those not finished in it", got)
			}
			must(t, r.Close())
			// The next attempt starts from an offset whose Committed did not come.
			again, err := tr.read(0, r.Offsets[2], opts...)
			must(t, err)
			if len(again.Records) != 0 || left() != "c.txt" {
				t.Errorf("after a restart: got %d rows and files %s, want none and c.txt", len(again.Records), left())
			}
			if mode == "archive" {
				names, err := osFS{}.Names(archive)
				must(t, err)
				if got := strings.Join(names, " "); got != "a.txt b.txt" {
					t.Errorf("got archived files %s, want a.txt b.txt", got)
				}
			}
		})
	}
	for _, kv := range [][]string{{"clean_source", "archive"}, {"source_archive_dir", "x"}, {"clean_source", "archive", "source_archive_dir", "sub/x"}} {
		tr := newTree(t, text.Format(), value)
		if _, err := Connector().Source(t.Context(), tr.options(kv)); fault.KindOf(err) != fault.Config || err == nil {
			t.Errorf("%q: got error %v, want a config error", kv, err)
		}
	}
}

func TestLongRecords(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	long := strings.Repeat("x", 10_000_000)
	tr.put("a.txt", "first\n"+long+"\nlast\n", time.Hour)
	r, err := tr.read(0, nil)
	must(t, err)
	if rows := r.Rows(); len(rows) != 3 || rows[1][0] != long {
		t.Errorf("got %d rows, want 3 and the second one whole", len(rows))
	}
	for _, limit := range []string{"9999999", "70000", "8"} {
		_, err = tr.read(connectors.FailOnError, nil, "max_record_size", limit)
		if fault.KindOf(err) != fault.BadRow || err == nil || !strings.Contains(err.Error(), "file a.txt byte 6") || !strings.Contains(err.Error(), "longer than max_record_size ("+limit+" bytes)") {
			t.Errorf("limit %s: got error %v, want a bad row error with file, position and limit", limit, err)
		}
		r, err = tr.read(connectors.DropOnError, nil, "max_record_size", limit)
		if diff := cmp.Diff(strs(r), []string{"first", "last"}); err != nil || diff != "" || len(r.Bad) != 1 {
			t.Errorf("limit %s: error %v, %d bad, got (-) differs from want (+):\n%s", limit, err, len(r.Bad), diff)
		}
	}
	t.Run("a record of many lines", func(t *testing.T) {
		tr := newTree(t, csv.Format(), value)
		tr.put("a.csv", "first\n\""+strings.Repeat("line\n", 100_000)+"\"\nlast\n", time.Hour)
		r, err := tr.read(0, nil)
		if err != nil || len(r.Records) != 3 || len(r.Rows()[1][0].(string)) != 500_000 {
			t.Errorf("error %v, %d rows, want 3 and the second one whole", err, len(r.Records))
		}
		r, err = tr.read(connectors.DropOnError, nil, "max_record_size", "100000")
		if err != nil || len(r.Bad) == 0 {
			t.Errorf("error %v, %d bad records, want some", err, len(r.Bad))
		}
	})
}

func TestMetadataAndPathColumns(t *testing.T) {
	tr := newTree(t, formatjson.Format(),
		messages.Field{Name: "n", Type: messages.T(messages.Int)}, messages.Field{Name: "file", Type: messages.T(messages.String)},
		messages.Field{Name: "at", Type: messages.T(messages.Timestamp)}, messages.Field{Name: "pos", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "day", Type: messages.T(messages.Date)}, messages.Field{Name: "kind", Type: messages.T(messages.String)})
	tr.meta = map[int]string{1: "path", 2: "modified", 3: "offset"}
	tr.put("day=2026-05-01/kind=a%20b/x.json", "{\"n\":1}\n{\"n\":2,\"kind\":\"from the file\"}\n", time.Hour)
	tr.put("day=__HIVE_DEFAULT_PARTITION__/y.json", "{\"n\":3}\n", 0)
	r, err := tr.read(0, nil)
	must(t, err)
	day := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	x, y := "day=2026-05-01/kind=a%20b/x.json", "day=__HIVE_DEFAULT_PARTITION__/y.json"
	want := [][]any{
		{int32(1), x, start.Add(-time.Hour), int64(0), day, "a b"},
		{int32(2), x, start.Add(-time.Hour), int64(8), day, "a b"},
		{int32(3), y, start, int64(0), nil, nil},
	}
	if diff := cmp.Diff(r.Rows(), want); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if got := r.Records[0].Arrival; got != messages.EventTimeOf(start.Add(-time.Hour)) {
		t.Errorf("got arrival %v, want the modification time", got)
	}
	tr.put("day=monday/z.json", "{}\n", 0)
	if _, err := tr.read(0, nil); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), `"monday" is not a date`) {
		t.Errorf("got error %v, want a config error", err)
	}
}

func TestSourceConfigErrors(t *testing.T) {
	tr := newTree(t, text.Format(), value)
	good := tr.options(nil)
	for _, tc := range []struct {
		name, want string
		change     func(*connectors.SourceConfig)
	}{
		{"no columns", "declare them", func(c *connectors.SourceConfig) { c.Schema = nil }},
		{"no format", "add format", func(c *connectors.SourceConfig) { c.Decoder = nil }},
		{"a bad pattern", "no valid pattern", func(c *connectors.SourceConfig) {
			c.Options = connectortest.Options(t, Connector().SourceOptions, "path", "a[")
		}},
		{"no time to wait", "poll_interval", func(c *connectors.SourceConfig) {
			c.Options = connectortest.Options(t, Connector().SourceOptions, "path", "a", "poll_interval", "0s")
		}},
	} {
		c := good
		tc.change(&c)
		if _, err := Connector().Source(t.Context(), c); fault.KindOf(err) != fault.Config || err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got error %v, want a config error with %q", tc.name, err, tc.want)
		}
	}
}

func BenchmarkRead(b *testing.B) {
	tr := newTree(b, formatjson.Format(), messages.Field{Name: "n", Type: messages.T(messages.BigInt)}, value)
	const lines = 50_000
	tr.put("a.json", strings.Repeat(`{"n":12345,"value":"some text of a usual length"}`+"\n", lines), time.Hour)
	s, d := tr.source(), tr.decoder()
	rows := connectors.NewRows(tr.schema, d, 0)
	b.ReportAllocs()
	for b.Loop() {
		r, err := s.Open(b.Context(), connectors.ReadRequest{Partition: partitionName, Bounded: true, MaxRows: 1024})
		must(b, err)
		total := 0
		for err == nil {
			rows.Reset()
			err = r.Read(b.Context(), rows)
			if batch := rows.Finish(); batch != nil {
				total += batch.Len()
				batch.Release()
			}
		}
		if !errors.Is(err, io.EOF) || total != lines {
			b.Fatalf("%d rows, %v", total, err)
		}
		must(b, r.Close())
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/lines, "ns/row")
}
