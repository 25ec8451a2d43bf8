package explode

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const none = messages.NoEventTime

var (
	bigint = messages.T(messages.BigInt)
	text   = messages.T(messages.String)
	schema = messages.NewSchema(
		messages.Field{Name: "id", Type: bigint},
		messages.Field{Name: "list", Type: messages.ArrayType(text)},
		messages.Field{Name: "dict", Type: messages.MapType(text, bigint)},
	)
)

// row has count elements; -1 is NULL. It advances the watermark to mark unless
// that is none.
type row struct {
	id    int
	count int
	mark  messages.EventTime
}

func build(bl *messages.Builder, views *messages.Pool, wm messages.EventTime, rows []row) *messages.Batch {
	var marks []messages.Mark
	for i, r := range rows {
		bl.Column(0).AppendInt64(int64(r.id))
		for e := range r.count {
			bl.Column(1).Child(0).AppendString(fmt.Sprint("e", e))
			bl.Column(2).Child(0).Child(0).AppendString(fmt.Sprint("k", e))
			bl.Column(2).Child(0).Child(1).AppendInt64(int64(e))
			bl.Column(2).Child(0).CloseStruct()
		}
		if r.count >= 0 {
			bl.Column(1).CloseList()
			bl.Column(2).CloseList()
		}
		bl.EndRow()
		bl.EndUnit(uint64(r.id), messages.EventTime(10*r.id))
		if r.mark != none {
			marks = append(marks, messages.Mark{Row: int32(i), At: r.mark})
			wm = r.mark
		}
	}
	b := bl.Finish()
	v := views.View(b)
	b.Release()
	v.SetMarks(marks)
	v.SetWatermark(wm)
	return v.Publish()
}

// sink notes each row as text with the watermark it would be judged by.
type sink struct {
	rows   []string
	paths  map[string]bool
	wm     messages.EventTime
	frames []messages.Frame
	most   int
}

func (s *sink) Emit(b *messages.Batch) {
	marks := b.Marks()
	for i := range b.Rows() {
		for len(marks) > 0 && int(marks[0].Row) < i {
			s.wm = marks[0].At
			marks = marks[1:]
		}
		line := ""
		for c := range b.Columns() {
			line += valueText(b.Column(c), i) + " "
		}
		s.rows = append(s.rows, fmt.Sprintf("%s@%d arrived %d wm %v", line, b.Lineage().A[i], b.Arrivals()[i], s.wm))
		path := fmt.Sprint(b.Lineage().A[i], b.Lineage().B[i])
		if s.paths[path] {
			s.rows = append(s.rows, "two rows with one identity")
		}
		s.paths[path] = true
	}
	s.wm = max(s.wm, b.Watermark())
	s.frames = append(s.frames, b.Frame())
	s.most = max(s.most, b.Rows())
	b.Release()
}

func valueText(c *messages.Column, i int) string {
	switch {
	case c.IsNull(i):
		return "NULL"
	case c.Type().Kind == messages.String:
		return c.Str(i)
	case c.Type().Kind == messages.Int:
		return fmt.Sprint(c.Int32s()[i])
	default:
		return fmt.Sprint(c.Int64s()[i])
	}
}

// want is what the SQL functions are defined to give.
func want(cfg Config, rows []row) (out []string, wm messages.EventTime) {
	wm = none
	for _, r := range rows {
		line := func(pos string, generated string) string {
			s := fmt.Sprint(r.id, " ")
			if cfg.Position {
				s += pos + " "
			}
			return s + generated + fmt.Sprintf(" @%d arrived %d wm %v", r.id, 10*r.id, wm)
		}
		for e := range r.count {
			generated := fmt.Sprint("e", e)
			if cfg.Column == 2 {
				generated = fmt.Sprintf("k%d %d", e, e)
			}
			out = append(out, line(fmt.Sprint(e), generated))
		}
		if r.count <= 0 && cfg.Outer {
			generated := "NULL"
			if cfg.Column == 2 {
				generated = "NULL NULL"
			}
			out = append(out, line("NULL", generated))
		}
		if r.mark != none {
			wm = r.mark
		}
	}
	return out, wm
}

func open(t *testing.T, cfg Config) (operator.Operator, *epochs.Counters) {
	t.Helper()
	c := &epochs.Counters{}
	op := New(cfg)
	if err := op.Open(&operator.Task{Counters: c}); err != nil {
		t.Fatal(err)
	}
	return op, c
}

func process(t *testing.T, op operator.Operator, b *messages.Batch, s *sink) {
	t.Helper()
	more, err := op.Process(0, b, s)
	b.Release()
	for more && err == nil {
		more, err = op.(operator.Resumer).Resume(s)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestExplode(t *testing.T) {
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 3))
		cfg := Config{Input: schema, Column: 1 + r.IntN(2), Keep: []int{0}, Outer: r.IntN(2) == 0, Position: r.IntN(2) == 0}
		rows := make([]row, 1+r.IntN(30))
		for i := range rows {
			rows[i] = row{id: i, count: r.IntN(5) - 1, mark: none}
			if r.IntN(30) == 0 {
				rows[i].count = r.IntN(3000)
			}
			if r.IntN(2) == 0 {
				rows[i].mark = messages.EventTime(i)
			}
		}
		wantRows, wantWM := want(cfg, rows)
		op, c := open(t, cfg)
		s := &sink{wm: none, paths: map[string]bool{}}
		bl, views := messages.NewBuilder(schema), messages.NewViewPool()
		for left := rows; len(left) > 0; {
			n := 1 + r.IntN(len(left))
			process(t, op, build(bl, views, s.wm, left[:n]), s)
			left = left[n:]
		}
		if diff := cmp.Diff(s.rows, wantRows); diff != "" {
			t.Fatalf("seed %d, %+v: -got +want\n%s", seed, cfg, diff)
		}
		if s.wm != wantWM {
			t.Errorf("seed %d: watermark %v, want %v", seed, s.wm, wantWM)
		}
		if s.most > operator.MaxEmit {
			t.Errorf("seed %d: a batch of %d rows", seed, s.most)
		}
		if c.In != uint64(len(rows)) || c.Out != uint64(len(wantRows)) {
			t.Errorf("seed %d: counters %+v", seed, *c)
		}
		if err := op.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestExplodeTakesTheSelectedRows(t *testing.T) {
	op, _ := open(t, Config{Input: schema, Column: 1, Keep: []int{0}})
	b := build(messages.NewBuilder(schema), messages.NewViewPool(), none, []row{{0, 2, none}, {1, 1, 5}, {2, 1, none}, {3, 1, 7}})
	v := messages.NewViewPool().View(b)
	v.Select([]int32{0, 2})
	s := &sink{wm: none, paths: map[string]bool{}}
	process(t, op, v.Publish(), s)
	want := []string{"0 e0 @0 arrived 0 wm none", "0 e1 @0 arrived 0 wm none", "2 e0 @2 arrived 20 wm 1970-01-01T00:00:00.000005Z"}
	if diff := cmp.Diff(s.rows, want); diff != "" {
		t.Errorf("-got +want\n%s", diff)
	}
	if s.wm != 7 {
		t.Errorf("watermark %v, want 7", s.wm)
	}
}

func TestPathsDoNotDependOnTheBatchOrOnWhatIsKept(t *testing.T) {
	paths := func(rows ...row) map[string]bool {
		op, _ := open(t, Config{Input: schema, Column: 1, Keep: []int{0}})
		s := &sink{wm: none, paths: map[string]bool{}}
		for _, r := range rows {
			process(t, op, build(messages.NewBuilder(schema), messages.NewViewPool(), none, []row{r}), s)
		}
		return s.paths
	}
	all := paths(row{1, 3, none}, row{2, 1500, none})
	if got := paths(row{2, 1500, none}); len(got) != 1500 {
		t.Fatalf("%d identities of 1500 rows", len(got))
	} else {
		for p := range got {
			if !all[p] {
				t.Fatalf("identity %s depends on the rows before", p)
			}
		}
	}
}

func TestFramesStayWhole(t *testing.T) {
	op, _ := open(t, Config{Input: schema, Column: 1, Keep: []int{0}})
	views := messages.NewViewPool()
	send := func(s *sink, count int, f messages.Frame) {
		v := views.View(build(messages.NewBuilder(schema), views, none, []row{{1, count, none}}))
		v.SetFrame(f)
		process(t, op, v.Publish(), s)
	}
	for name, c := range map[string]struct {
		counts []int
		want   []messages.Frame
	}{
		"an empty table":           {[]int{0}, []messages.Frame{messages.FrameStart | messages.FrameEnd}},
		"one batch becomes many":   {[]int{2500}, []messages.Frame{messages.FrameStart, 0, messages.FrameEnd}},
		"three batches, two empty": {[]int{0, 5, 0}, []messages.Frame{messages.FrameStart, 0, messages.FrameEnd}},
	} {
		s := &sink{wm: none, paths: map[string]bool{}}
		for i, n := range c.counts {
			var f messages.Frame
			if i == 0 {
				f |= messages.FrameStart
			}
			if i == len(c.counts)-1 {
				f |= messages.FrameEnd
			}
			send(s, n, f)
		}
		if diff := cmp.Diff(s.frames, c.want); diff != "" {
			t.Errorf("%s: -got +want\n%s", name, diff)
		}
	}
}

func TestSchema(t *testing.T) {
	cfg := Config{Input: schema, Column: 2, Keep: []int{0}, Position: true, Names: []string{"p", "k"}}
	s, err := cfg.Schema()
	if err != nil || s.String() != "id bigint, p int, k string, value bigint" {
		t.Errorf("got %v, %v", s, err)
	}
	err = New(Config{Input: schema, Column: 0}).Open(&operator.Task{Counters: &epochs.Counters{}})
	if fault.KindOf(err) != fault.Config {
		t.Errorf("got %v, want a config error", err)
	}
}

// discard releases what it gets.
type discard struct{}

func (discard) Emit(b *messages.Batch) { b.Release() }

func BenchmarkExplode(b *testing.B) {
	rows := make([]row, 100)
	for i := range rows {
		rows[i] = row{i, 10, none}
	}
	in := build(messages.NewBuilder(schema), messages.NewViewPool(), none, rows)
	op := New(Config{Input: schema, Column: 1, Keep: []int{0}})
	if err := op.Open(&operator.Task{Counters: &epochs.Counters{}}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := op.Process(0, in, discard{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/row")
}
