package sql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
)

// TestGolden runs the files of testdata/golden. Commands: parse prints the
// statements of a script, error the rendered errors of a script, expr and type one
// expression or type, name the column name of each line, tree the parenthesised
// expression.
func TestGolden(t *testing.T) {
	datadriven.Walk(t, "testdata/golden", func(t *testing.T, path string) {
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "parse":
				return goldenParse(d.Input)
			case "error":
				return goldenErrors(d.Input)
			case "type":
				return eachLine(d.Input, func(line string) (string, error) {
					typ, err := ParseDataType(line)
					if err != nil {
						return "", err
					}
					return Format(typ), nil
				})
			case "name":
				return eachLine(d.Input, func(line string) (string, error) {
					e, err := ParseExpr(line)
					if err != nil {
						return "", err
					}
					return ColumnName(e), nil
				})
			case "expr":
				return eachLine(d.Input, func(line string) (string, error) {
					e, err := ParseExpr(line)
					if err != nil {
						return "", err
					}
					return Format(e), nil
				})
			}
			d.Fatalf(t, "unknown command %q", d.Cmd)
			return ""
		})
	})
}

func goldenParse(input string) string {
	var b strings.Builder
	stmts, errs := ParseScript(input)
	for _, s := range stmts {
		b.WriteString(Format(s) + "\n")
	}
	for _, e := range errs {
		b.WriteString(Render("x.sql", input, e))
	}
	return b.String()
}

func goldenErrors(input string) string {
	var b strings.Builder
	_, errs := ParseScript(input)
	for _, e := range errs {
		b.WriteString(Render("x.sql", input, e))
	}
	if len(errs) == 0 {
		b.WriteString("no error\n")
	}
	return b.String()
}

func eachLine(input string, f func(string) (string, error)) string {
	var b strings.Builder
	for _, line := range strings.Split(input, "\n") {
		text, err := f(line)
		if err != nil {
			text = fmt.Sprintf("error: %v", err)
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}
