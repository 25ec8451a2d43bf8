package runtime_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/runtime"
)

// counted is a directory with the checkpoint of a query that counts per key, of
// several epochs.
func counted(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, runtime.Config{Dir: dir})
	src := source(t, s, "src", "k BIGINT", "")
	sink(t, s, "out")
	exec(t, s, "CREATE QUERY counts WITH (output_mode = 'update', parallelism = 2) AS INSERT INTO out SELECT k, count(*) AS n FROM src WHERE k % 10 <> 9 GROUP BY k")
	for i := range 4 {
		for k := range 50 {
			add(t, src, []any{int64(k * (i + 1))})
		}
		settle(t, s.Query("counts"))
	}
	if err := s.Query("counts").Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

func look(t *testing.T, dir string, f func(c *runtime.Checkpoints)) {
	t.Helper()
	c, err := runtime.OpenCheckpoints(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}()
	f(c)
}

func TestCheckpointsAreListedAndInspected(t *testing.T) {
	dir := counted(t)
	look(t, dir, func(c *runtime.Checkpoints) {
		names, err := c.Queries()
		if d := cmp.Diff([]string{"counts"}, names); d != "" || err != nil {
			t.Errorf("queries (-want +got, %v):\n%s", err, d)
		}
		s, err := c.Summary(t.Context(), "counts")
		if err != nil {
			t.Fatal(err)
		}
		newest := s.Epochs[0]
		if len(s.Epochs) < epochs.Retain || !newest.Final || newest.RowsIn != 200 || newest.Attempt != 1 || newest.Prev != s.Epochs[1].Epoch || s.Bytes == 0 {
			t.Errorf("summary is %+v", s)
		}
		d, err := c.Inspect(t.Context(), "counts", 0)
		if err != nil {
			t.Fatal(err)
		}
		if d.Epoch != newest.Epoch || len(d.Sources) != 1 || d.Sources[0].Rows != 200 || len(d.Sinks) != 1 {
			t.Errorf("detail is %+v", d)
		}
		// k is 0..49 times 1..4; 90 % of it is not filtered out.
		byKind := map[string]runtime.CheckpointOperator{}
		for _, o := range d.Operators {
			byKind[o.Kind] = o
		}
		kept := uint64(0)
		for i := range 4 {
			for k := range 50 {
				if k*(i+1)%10 != 9 {
					kept++
				}
			}
		}
		if o := byKind["aggregate"]; o.In != kept || o.IntoState != kept || o.StateRows == 0 || o.Segments == 0 || o.KeyGroups == 0 {
			t.Errorf("the aggregate is %+v, want %d rows", o, kept)
		}
		if first, last := d.Operators[0], d.Operators[len(d.Operators)-1]; first.Inputs != nil || len(last.Inputs) == 0 {
			t.Errorf("from %s to %s: not from source to sink", first.Name, last.Name)
		}
		if old, err := c.Inspect(t.Context(), "counts", s.Epochs[1].Epoch); err != nil || old.Epoch != s.Epochs[1].Epoch {
			t.Errorf("an older epoch: %+v (%v)", old, err)
		}
		if _, err := c.Inspect(t.Context(), "counts", 999); err == nil || !strings.Contains(err.Error(), "epoch 999 is not retained (retained: "+fmt.Sprint(s.Epochs[0].Epoch)+", ") {
			t.Errorf("got error %v", err)
		}
		if _, err := c.Summary(t.Context(), "count"); err == nil || !strings.Contains(err.Error(), "(it has counts)") {
			t.Errorf("got error %v", err)
		}
		if _, err := json.Marshal(d); err != nil {
			t.Error(err)
		}
	})
}

func TestAWholeCheckpointIsVerified(t *testing.T) {
	look(t, counted(t), func(c *runtime.Checkpoints) {
		rep, err := c.Verify(t.Context(), "counts")
		if err != nil || len(rep.Problems) > 0 || len(rep.Epochs) < epochs.Retain || rep.Segments == 0 || rep.Operators == 0 {
			t.Errorf("report is %+v (%v)", rep, err)
		}
	})
}

// rewrite changes the newest record of a checkpoint.
func rewrite(t *testing.T, dir string, change func(*epochs.Record)) {
	t.Helper()
	store, err := badgerstore.Open(t.Context(), filepath.Join(dir, "queries", "counts", "state"), badgerstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	records, highest, err := store.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	r, err := epochs.DecodeRecord(records[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	r.Prev, r.Epoch = r.Epoch, highest+1
	change(r)
	data, err := epochs.EncodeRecord(r)
	if err == nil {
		err = store.Commit(t.Context(), r.Prev, r.Epoch, data)
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

func TestVerifyFindsWhatIsWrong(t *testing.T) {
	find := func(r *epochs.Record, rule epochs.RowRule) *epochs.Counters {
		for i := range r.Counters {
			if r.Counters[i].Rule == rule && len(r.Counters[i].Inputs) > 0 {
				return &r.Counters[i]
			}
		}
		t.Fatal("there is no such operator")
		return nil
	}
	query := func(dir, name string) string { return filepath.Join(dir, "queries", "counts", name) }
	for what, c := range map[string]struct {
		damage func(t *testing.T, dir string)
		want   string
	}{
		"a row that is in no counter": {func(t *testing.T, dir string) {
			rewrite(t, dir, func(r *epochs.Record) { find(r, epochs.IntoState).Absorbed-- })
		}, "1 rows are unaccounted for"},
		"a row that was lost on an edge": {func(t *testing.T, dir string) {
			rewrite(t, dir, func(r *epochs.Record) { c := find(r, epochs.IntoState); c.In++; c.Absorbed++ })
		}, "1 rows in, but 0 rows out of"},
		"a checksum": {func(t *testing.T, dir string) {
			rewrite(t, dir, func(r *epochs.Record) { r.Chains[3].Sum++ })
		}, "segments with checksum"},
		"a key group too many": {func(t *testing.T, dir string) {
			rewrite(t, dir, func(r *epochs.Record) { r.Chains = r.Chains[1:] })
		}, "does not know"},
		"a lost newest epoch": {func(t *testing.T, dir string) {
			lost := query(dir, "state/EPOCH")
			before, err := os.ReadFile(lost)
			if err != nil {
				t.Fatal(err)
			}
			_ = before
			if err := os.Remove(lost); err != nil {
				t.Fatal(err)
			}
		}, "EPOCH is missing"},
		"a table": {func(t *testing.T, dir string) {
			tables, err := filepath.Glob(query(dir, "state/db/*.sst"))
			if err != nil || len(tables) == 0 {
				t.Fatal("no table", err)
			}
			if err := os.Truncate(tables[0], 100); err != nil {
				t.Fatal(err)
			}
		}, ".sst is damaged"},
		"the identity": {func(t *testing.T, dir string) {
			if err := os.WriteFile(query(dir, "IDENTITY"), []byte("{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}, "IDENTITY"},
	} {
		t.Run(what, func(t *testing.T) {
			dir := counted(t)
			c.damage(t, dir)
			look(t, dir, func(ch *runtime.Checkpoints) {
				rep, err := ch.Verify(t.Context(), "counts")
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(fmt.Sprint(rep.Problems), c.want) {
					t.Errorf("problems are %q, want %q", rep.Problems, c.want)
				}
			})
		})
	}
}

func TestADirectoryInUseIsNotLookedAt(t *testing.T) {
	dir := t.TempDir()
	s := open(t, runtime.Config{Dir: dir})
	_, err := runtime.OpenCheckpoints(dir)
	if want := fmt.Sprintf("is used by process %d", os.Getpid()); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got error %v, want %q", err, want)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	look(t, dir, func(*runtime.Checkpoints) {
		if _, err := runtime.Open(t.Context(), runtime.Config{Dir: dir}); err == nil {
			t.Error("a session uses a directory that is looked at")
		}
	})
	if _, err := runtime.OpenCheckpoints(t.TempDir()); err == nil || !strings.Contains(err.Error(), "holds no checkpoints") {
		t.Errorf("got error %v", err)
	}
}
