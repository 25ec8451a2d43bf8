package conformance

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/file"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// outside reports whether the sink is one of files.
func (f *files) outside() bool { return f != nil && f.Format != "memory" }

// format is the format to read and write in. Parquet stands for any format that
// keeps the types; the engine has none of that kind yet, and JSON does.
func (f *files) format() string {
	if f.Format == "parquet" {
		return "json"
	}
	return f.Format
}

func (r *run) path(p string) string {
	return strings.NewReplacer("$DIR", r.in, "$OUT", r.out).Replace(p)
}

// with writes the WITH clause of a source or sink.
func (r *run) with(f *files) string {
	opts := []string{"connector = 'file'", "format = '" + f.format() + "'", "path = '" + r.path(f.Path) + "'"}
	for _, k := range slices.Sorted(maps.Keys(f.Options)) {
		opts = append(opts, fmt.Sprintf("%s = '%s'", k, r.path(f.Options[k])))
	}
	if len(f.PartitionBy) > 0 {
		opts = append(opts, "partition_by = '"+strings.Join(f.PartitionBy, ",")+"'")
	}
	return " WITH (" + strings.Join(opts, ", ") + ")"
}

// openFiles defines the sources and the sink that are files.
func (r *run) openFiles(ctx context.Context) error {
	for _, name := range slices.Sorted(maps.Keys(r.c.Sources)) {
		cols := ddl(r.c.Schemas[name], r.c.names("declared_not_null")...)
		for _, w := range r.c.Watermark {
			if w.Table == name {
				cols += fmt.Sprintf(", WATERMARK FOR `%s` AS `%s` - INTERVAL '%s'", w.Column, w.Column, w.Delay)
			}
		}
		if err := r.session.Exec(ctx, fmt.Sprintf("CREATE SOURCE `%s` (%s)", name, cols)+r.with(r.c.Sources[name])); err != nil {
			return &engineError{err}
		}
	}
	if !r.c.Sink.outside() {
		return nil
	}
	if err := r.session.Exec(ctx, "CREATE SINK result_of_case"+r.with(r.c.Sink)); err != nil {
		return &engineError{err}
	}
	return nil
}

// fileStep carries out a step about files; done is false if it is about something
// else.
func (r *run) fileStep(ctx context.Context, s step) (done bool, err error) {
	switch {
	case s.has("write_file"):
		r.unread = true
		return true, r.write(s["write_file"], r.in)
	case s.has("write_sink_file"):
		return true, r.write(s["write_sink_file"], r.out)
	case s.has("before_start"):
		var list []json.RawMessage
		if err := json.Unmarshal(s["before_start"], &list); err != nil {
			return true, fmt.Errorf("runner: before_start: %w", err)
		}
		r.unread = true
		for _, f := range list {
			if err := r.write(f, r.in); err != nil {
				return true, err
			}
		}
		return true, nil
	case s.has("sleep_ms"):
		var ms int64
		if err := json.Unmarshal(s["sleep_ms"], &ms); err != nil {
			return true, fmt.Errorf("runner: sleep_ms: %w", err)
		}
		r.shift += time.Duration(ms) * time.Millisecond // files are what time passes for
		return true, nil
	}
	if r.unread && !r.held {
		if err := r.readFiles(ctx); err != nil {
			return true, err
		}
	}
	switch {
	case s.has("expect_batches"):
		return true, r.stepBatches(s)
	case s.has("expect_sink_table"):
		return true, r.stepTable(ctx, s)
	case s.has("expect_sink_dirs"):
		return true, r.stepDirs(s)
	case s.has("expect_data_files"):
		return true, r.stepDataFiles(s)
	case s.has("expect_sink_schema"):
		return true, r.stepTableSchema(s)
	case s.has("expect_nullable"):
		return true, r.stepNullable(ctx, s)
	case s.has("expect_rows_written"):
		return true, expectNumber(s, "expect_rows_written", r.written+r.rowsWritten())
	case s.has("expect_seen_files"):
		return true, expectNumber(s, "expect_seen_files", r.seenFiles())
	}
	return false, nil
}

// expectNumber compares a number with the one that a step has under key.
func expectNumber(s step, key string, got int64) error {
	var want int64
	if err := json.Unmarshal(s[key], &want); err != nil {
		return fmt.Errorf("runner: %s: %w", key, err)
	}
	if got != want {
		return fmt.Errorf("%s: got %d, want %d", key, got, want)
	}
	return nil
}

// seenFiles is how many files the checkpoint remembers.
func (r *run) seenFiles() int64 {
	var offset struct {
		Files struct {
			Done []json.RawMessage `json:"done"`
		} `json:"files"`
	}
	p := r.query.LastProgress()
	if p == nil || len(p.Sources) == 0 || json.Unmarshal(p.Sources[0].EndOffset, &offset) != nil {
		return -1
	}
	return int64(len(offset.Files.Done))
}

// stepNullable checks that a column takes NULL, whatever its declaration says: a
// record without it is one.
func (r *run) stepNullable(ctx context.Context, s step) error {
	var want map[string]bool
	if err := json.Unmarshal(s["expect_nullable"], &want); err != nil {
		return fmt.Errorf("runner: expect_nullable: %w", err)
	}
	if err := r.write(json.RawMessage(`{"path": "empty", "content": "{}"}`), r.in); err != nil {
		return err
	}
	if err := r.readFiles(ctx); err != nil {
		return err
	}
	got := r.rows(false)
	if len(got) != 1 {
		return fmt.Errorf("a record without columns: got rows %s, want one", show(got))
	}
	for name, nullable := range want {
		if null := got[0][r.result.Index(name)] == nil; null != nullable {
			return fmt.Errorf("column %s is NULL: %v, want %v", name, null, nullable)
		}
	}
	return nil
}

// stepTableSchema checks which columns are in the files, in which order, and that
// those of the directories follow them. Types are checked by reading the table.
func (r *run) stepTableSchema(s step) error {
	var want []column
	if err := json.Unmarshal(s["expect_sink_schema"], &want); err != nil {
		return fmt.Errorf("runner: expect_sink_schema: %w", err)
	}
	if err := r.stop(r.t.Context()); err != nil {
		return err
	}
	var names []string
	err := filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || names != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		names, err = members(data)
		return err
	})
	if err != nil {
		return err
	}
	names = append(names, r.c.Sink.PartitionBy...)
	got := make([]column, len(names))
	for i, n := range names {
		got[i] = column{n, r.result.Fields[max(r.result.Index(n), 0)].Type.String()}
	}
	if diff := cmp.Diff(got, want); diff != "" {
		return fmt.Errorf("columns written (-got +want):\n%s", diff)
	}
	return r.restart(r.t.Context())
}

// members lists the names in the first object of a JSON text.
func members(data []byte) ([]string, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	var names []string
	for i := 0; ; i++ {
		tok, err := d.Token()
		if err != nil {
			return nil, err
		}
		if tok == json.Delim('}') {
			return names, nil
		}
		if name, ok := tok.(string); ok && i%2 == 1 {
			names = append(names, name)
		}
	}
}

// write puts a file into place as a whole.
func (r *run) write(raw json.RawMessage, dir string) error {
	var f struct {
		Path, Content string
		Offset        int64 `json:"mtime_offset_s"`
	}
	if err := json.Unmarshal(raw, &f); err != nil {
		return fmt.Errorf("runner: file: %w", err)
	}
	name := filepath.Join(dir, f.Path)
	hidden := filepath.Join(r.t.TempDir(), "new")
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	if err := os.WriteFile(hidden, []byte(f.Content), 0o600); err != nil {
		return err
	}
	at := time.Now().Add(r.shift + time.Duration(f.Offset)*time.Second)
	if err := os.Chtimes(hidden, at, at); err != nil {
		return err
	}
	return os.Rename(hidden, name)
}

// readFiles runs the query over the files there are.
func (r *run) readFiles(ctx context.Context) error {
	r.unread = false
	if err := r.start(ctx); err != nil {
		return err
	}
	return r.settle(ctx)
}

// stepBatches checks the order in which rows were read. What belongs to one batch
// has no meaning here.
func (r *run) stepBatches(s step) error {
	var batches [][]string
	if err := json.Unmarshal(s["expect_batches"], &batches); err != nil {
		return fmt.Errorf("runner: expect_batches: %w", err)
	}
	var got []string
	log := r.sink.Log()
	for _, row := range log[r.ordered:] {
		got = append(got, fmt.Sprint(row[0]))
	}
	r.ordered = len(log)
	if diff := cmp.Diff(got, slices.Concat(batches...)); diff != "" {
		return fmt.Errorf("order of rows (-got +want):\n%s", diff)
	}
	return nil
}

// stepTable reads what the sink has written, as a table. The query drains first:
// only then is all of it visible.
func (r *run) stepTable(ctx context.Context, s step) error {
	if s.has("ignore_manifest") {
		return fmt.Errorf("runner: step ignore_manifest is not supported: the engine writes no manifest")
	}
	var raw [][]json.RawMessage
	if err := json.Unmarshal(s["expect_sink_table"], &raw); err != nil {
		return fmt.Errorf("runner: expect_sink_table: %w", err)
	}
	want, err := expected(r.result, raw)
	if err != nil {
		return fmt.Errorf("runner: expect_sink_table: %w", err)
	}
	again := r.running
	if again {
		if err := r.stop(ctx); err != nil {
			return err
		}
	}
	got, err := r.table(ctx)
	if err != nil {
		return err
	}
	if diff := compareRows(got, want, false); diff != "" {
		return fmt.Errorf("table written: %s", diff)
	}
	if again {
		return r.restart(ctx)
	}
	return nil
}

// table reads the directory of the sink in a session of its own.
func (r *run) table(ctx context.Context) (rows [][]any, err error) {
	s, err := runtime.Open(ctx, runtime.Config{System: r.sys, Connectors: []connectors.Connector{file.Connector()}, Formats: all.Formats()})
	if err != nil {
		return nil, fmt.Errorf("runner: %w", err)
	}
	defer func() {
		if cerr := s.Close(); err == nil {
			err = cerr
		}
	}()
	sink := memory.NewSink()
	if err := s.RegisterSink("rows", sink); err != nil {
		return nil, err
	}
	from := &files{Format: r.c.Sink.Format, Path: r.c.Sink.Path}
	script := fmt.Sprintf("CREATE SOURCE written (%s)%s; CREATE QUERY reader WITH (trigger = 'available_now') AS INSERT INTO rows SELECT * FROM written",
		ddl(r.c.Result), r.with(from))
	if err := s.Exec(ctx, script); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	if err := s.Wait(ctx); err != nil {
		return nil, fmt.Errorf("read what was written: %w", err)
	}
	return sink.Rows(), nil
}

// visible lists what readers of the sink's directory see.
func (r *run) visible() (dirs, names []string, err error) {
	err = filepath.WalkDir(r.out, func(path string, d fs.DirEntry, err error) error {
		switch name := d.Name(); {
		case err != nil || path == r.out:
			return err
		case strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_"):
			if d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			dirs = append(dirs, name)
		default:
			names = append(names, name)
		}
		return nil
	})
	return dirs, names, err
}

func (r *run) stepDirs(s step) error {
	var want []string
	if err := json.Unmarshal(s["expect_sink_dirs"], &want); err != nil {
		return fmt.Errorf("runner: expect_sink_dirs: %w", err)
	}
	got, _, err := r.visible()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(got, want); diff != "" {
		return fmt.Errorf("directories (-got +want):\n%s", diff)
	}
	return nil
}

func (r *run) stepDataFiles(s step) error {
	var want int
	if err := json.Unmarshal(s["expect_data_files"], &want); err != nil {
		return fmt.Errorf("runner: expect_data_files: %w", err)
	}
	_, got, err := r.visible()
	if err == nil && len(got) != want {
		err = fmt.Errorf("data files: got %q, want %d", got, want)
	}
	return err
}

// rowsWritten is how many rows the current run of the query has written.
func (r *run) rowsWritten() int64 {
	var n int64
	if r.query != nil {
		for _, p := range r.query.RecentProgress() {
			n += max(p.Sink.NumOutputRows, 0)
		}
	}
	return n
}
