package expr

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// conformanceCase is one line of testdata/expressions.jsonl: a SELECT over one table
// whose answer is Spark's.
type conformanceCase struct {
	ID      string      `json:"id"`
	SQL     string      `json:"sql"`
	Schema  [][2]string `json:"schema"`
	Rows    [][]any     `json:"rows"`
	Result  [][2]string `json:"result"`
	Expect  [][]any     `json:"expect"`
	Error   string      `json:"error"`
	About   []string    `json:"about"`
	NonAnsi bool        `json:"non_ansi"`
}

func TestSparkAnswers(t *testing.T) {
	data, err := os.ReadFile("testdata/expressions.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(data)) {
		var c conformanceCase
		decodeLine(t, line, &c)
		if c.Schema == nil {
			c.Schema, c.Rows = [][2]string{{"n", "int"}}, [][]any{{"1"}}
		}
		t.Run(c.ID, func(t *testing.T) {
			for _, fold := range []bool{false, true} {
				got, err := c.run(t, fold)
				if c.Error != "" {
					c.checkError(t, err)
					continue
				}
				if err != nil {
					t.Fatalf("fold %v: %v", fold, err)
				}
				if diff := cmp.Diff(got, c.want(t)); diff != "" {
					t.Errorf("fold %v: rows (-got +want):\n%s", fold, diff)
				}
			}
		})
	}
}

func (c *conformanceCase) checkError(t *testing.T, err error) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want %s", c.Error)
		return
	}
	class := fault.ClassOf(err)
	var e *sql.Error
	if errors.As(err, &e) {
		class = e.Class
	}
	want := c.Error
	if want == "PARSE_ERROR" {
		want = "PARSE_"
	}
	if !strings.HasPrefix(class, want) {
		t.Errorf("class %q (%v), want %s", class, err, c.Error)
	}
	for _, word := range c.About {
		hint := ""
		if e != nil {
			hint = e.Hint
		}
		if !strings.Contains(strings.ToLower(err.Error()+hint), word) {
			t.Errorf("error %q does not mention %q", err, word)
		}
	}
}

// want is the expected table as text, with the types of its columns first.
func (c *conformanceCase) want(t *testing.T) []string {
	t.Helper()
	s := &messages.Schema{}
	var types []string
	for _, f := range c.Result {
		s.Fields = append(s.Fields, messages.Field{Name: f[0], Type: typeNamed(t, f[1])})
		types = append(types, f[1])
	}
	return append([]string{strings.Join(types, " | ")}, table(batchOf(t, s, c.Expect))...)
}

func table(b *messages.Batch) []string {
	var out []string
	for i := range b.Len() {
		var row []string
		for k := range b.Columns() {
			row = append(row, valueText(b.Column(k), i))
		}
		out = append(out, strings.Join(row, " | "))
	}
	return out
}

func (c *conformanceCase) run(t *testing.T, fold bool) ([]string, error) {
	t.Helper()
	stmt, err := sql.ParseStatement(c.SQL)
	if err != nil {
		return nil, err
	}
	sel := stmt.(*sql.SelectStatement).Query.Body.(*sql.Select)
	s := &messages.Schema{}
	for _, f := range c.Schema {
		s.Fields = append(s.Fields, messages.Field{Name: f[0], Type: typeNamed(t, f[1])})
	}
	opts := Options{NonANSI: c.NonAnsi}
	compile := func(e sql.Expr) (operator.Expr, error) {
		n, rerr := Resolve(e, NewScope("input", s), ResolveOptions{})
		if rerr != nil {
			return nil, rerr
		}
		if fold {
			n = Fold(n, opts)
		}
		return Compile(n, opts)
	}
	b := batchOf(t, s, c.Rows)
	if sel.Where != nil {
		p, err := compile(sel.Where)
		if err != nil {
			return nil, err
		}
		col, err := p.Eval(b)
		if err != nil {
			return nil, err
		}
		b = selectTrue(b, col)
	}
	var types []string
	rows := make([][]string, b.Rows())
	for _, item := range sel.Items {
		e, err := compile(item.Expr)
		if err != nil {
			return nil, err
		}
		types = append(types, e.Type().String())
		col, err := e.Eval(b)
		if err != nil {
			return nil, err
		}
		for i := range rows {
			rows[i] = append(rows[i], valueText(col, b.Row(i)))
		}
	}
	out := []string{strings.Join(types, " | ")}
	for _, r := range rows {
		out = append(out, strings.Join(r, " | "))
	}
	return out, nil
}

// selectTrue is a view of the rows of b for which c is true.
func selectTrue(b *messages.Batch, c *messages.Column) *messages.Batch {
	v := messages.NewViewPool().View(b)
	sel := v.SelectBuffer(b.Rows())
	for i := range b.Rows() {
		if r := b.Row(i); !c.IsNull(r) && c.Bool(r) {
			sel = append(sel, int32(r))
		}
	}
	v.Select(sel)
	return v.Publish()
}
