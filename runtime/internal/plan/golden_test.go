package plan

import (
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// TestPlans holds plans and faults to the files below testdata/plan:
//
//	stream NAME [watermark=COLUMN delay='10 seconds']   columns, one text
//	table NAME                                            a static table
//	view NAME                                             a query
//	plan [mode=append]                                    the plan, or the faults
//
// go test -rewrite makes the outputs anew; read the difference.
func TestPlans(t *testing.T) {
	datadriven.Walk(t, "testdata/plan", func(t *testing.T, path string) {
		cat := &testCatalog{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "stream", "table":
				cat.declare(t, d)
				return "ok"
			case "view":
				cat.add(d.CmdArgs[0].Key, &View{Name: d.CmdArgs[0].Key, Query: parseQuery(t, d.Input)})
				return "ok"
			case "plan":
				return planOf(t, cat, d)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// declare adds a table.
func (c *testCatalog) declare(t *testing.T, d *datadriven.TestData) {
	t.Helper()
	table := &Table{Name: d.CmdArgs[0].Key, Schema: schemaOf(t, d.Input), Streaming: d.Cmd == "stream"}
	if d.HasArg("watermark") {
		var column, delay string
		d.ScanArgs(t, "watermark", &column)
		d.ScanArgs(t, "delay", &delay)
		v, err := ParseDelay(strings.ReplaceAll(delay, "_", " "))
		if err != nil {
			t.Fatal(err)
		}
		table.Watermark = &WatermarkDecl{Column: column, Delay: v}
	}
	c.add(table.Name, table)
}

func planOf(t *testing.T, cat *testCatalog, d *datadriven.TestData) string {
	t.Helper()
	mode := Append
	if d.HasArg("mode") {
		var text string
		d.ScanArgs(t, "mode", &text)
		var err *sql.Error
		if mode, err = ParseMode(text); err != nil {
			t.Fatal(err)
		}
	}
	n, errs := FromSelect(parseQuery(t, d.Input), cat, Options{})
	if len(errs) > 0 {
		return render(d.Input, errs)
	}
	out := Format(n)
	if d.HasArg("schema") {
		out += "schema: " + Schema(n).String() + "\n"
	}
	if d.HasArg("unchecked") {
		return out
	}
	return out + render(d.Input, Check(n, mode))
}
