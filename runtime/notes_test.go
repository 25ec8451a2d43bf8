package runtime_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime"
)

func TestNotesSayWhatATriggerMeans(t *testing.T) {
	for options, want := range map[string]string{
		"output_mode = 'update', trigger = '5 seconds'":                          "sets emit_interval",
		"trigger = '5 seconds'":                                                  "in append mode",
		"output_mode = 'update', trigger = '5 seconds', emit_interval = '1s'":    "no effect beside emit_interval",
		"emit_interval = '1s'":                                                   "emit_interval has no effect",
		"output_mode = 'complete', emit_interval = '1s'":                         "",
		"output_mode = 'update', trigger = 'available_now', emit_interval = '0'": "",
	} {
		group := " GROUP BY v"
		if !strings.Contains(options, "output_mode") {
			group = " GROUP BY v, window(ts, '1 second')"
		}
		var log bytes.Buffer
		s := open(t, runtime.Config{Log: slog.New(slog.NewTextHandler(&log, nil))})
		source(t, s, "n", "v BIGINT, ts TIMESTAMP", "ts")
		sink(t, s, "out")
		script := "CREATE QUERY q WITH (" + options + ") AS INSERT INTO out SELECT v, count(*) AS c FROM n" + group
		o, err := s.Outline(t.Context(), "sql", script)
		if err != nil {
			t.Fatal(err)
		}
		text, err := s.ExplainScript(t.Context(), "sql", script)
		if err != nil {
			t.Fatal(err)
		}
		exec(t, s, script)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		for where, got := range map[string]string{"validate": strings.Join(o.Notes, "\n"), "explain": text, "run": log.String()} {
			if has := strings.Contains(got, "note:"); has != (want != "") || !strings.Contains(got, want) {
				t.Errorf("%s, %s: got %q, want a note with %q", options, where, got, want)
			}
		}
	}
}

// TestTheEndOfAQueryTellsOfEveryBadRecord reads more bad records than are logged
// one by one.
func TestTheEndOfAQueryTellsOfEveryBadRecord(t *testing.T) {
	in, dir := t.TempDir(), t.TempDir()
	write(t, in, "1.json", strings.Repeat(`{"v":1}`+"\n"+"{\n", 50))
	var log bytes.Buffer
	s := open(t, runtime.Config{Dir: dir, Log: slog.New(slog.NewTextHandler(&log, nil))})
	sink(t, s, "out")
	exec(t, s, strings.Replace(fileSource("o", in), "format =", "on_error = 'drop', format =", 1)+copyOf+"o")
	q := s.Query("q")
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, want := q.Rows(), (runtime.Rows{In: 100, Out: 50, Bad: 50}); got != want {
		t.Errorf("got rows %+v, want %+v", got, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	told := 0
	for line := range strings.SplitSeq(log.String(), "\n") {
		n := 0
		if _, err := fmt.Sscanf(line[max(strings.LastIndex(line, "since_last="), 0):], "since_last=%d", &n); err == nil {
			told += n
		}
	}
	if told != 50 {
		t.Errorf("the log tells of %d bad records, want 50:\n%s", told, log.String())
	}
	look(t, dir, func(c *runtime.Checkpoints) {
		sum, err := c.Summary(t.Context(), "q")
		if err != nil || len(sum.Epochs) == 0 || sum.Epochs[0].RowsIn != 100 {
			t.Errorf("got %+v (%v), want 100 rows read", sum, err)
		}
	})
}

func TestAPathWithoutFilesIsTold(t *testing.T) {
	log := &lines{}
	s := open(t, runtime.Config{Log: log.logger()})
	sink(t, s, "out")
	exec(t, s, fileSource("o", t.TempDir()+"/*.json")+copyOf+"o")
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	told := 0
	for range log.with("matches no file") {
		told++
	}
	if told != 1 {
		t.Errorf("it was told %d times that no file matches, want once", told)
	}
}
