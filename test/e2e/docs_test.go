package e2e

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
)

var write = flag.Bool("write", false, "write the reference page instead of comparing it")

func TestReferencePageIsFresh(t *testing.T) {
	const path = "../../docs/reference.md"
	want, err := runtime.Reference(all.Connectors(), all.Formats())
	if err != nil {
		t.Fatal(err)
	}
	if *write {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, string(got)); d != "" {
		t.Errorf("docs/reference.md is not what the records say; run make docs (-want +got):\n%s", d)
	}
}

// block is a fenced block of SQL in a document.
type block struct {
	line int
	// refused is the error class that the block is about, "" if it is right.
	refused string
	text    string
}

var fence = regexp.MustCompile("(?ms)^```sql(?: refused ([A-Z_.]+))?\n(.*?)^```$")

func blocks(t *testing.T, path string) []block {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	for _, m := range fence.FindAllSubmatchIndex(b, -1) {
		x := block{line: 2 + strings.Count(string(b[:m[0]]), "\n"), text: string(b[m[4]:m[5]])}
		if m[2] >= 0 {
			x.refused = string(b[m[2]:m[3]])
		}
		out = append(out, x)
	}
	if len(out) != strings.Count(string(b), "```sql") {
		t.Errorf("%s: %d blocks of SQL can be read, there are %d", path, len(out), strings.Count(string(b), "```sql"))
	}
	return out
}

var definition = regexp.MustCompile(`(?is)\bCREATE\s+(SOURCE|SINK|TABLE|VIEW)\b[^;]*;`)

// Blocks know what earlier ones of the page define, and what the README does.
func TestSQLInTheDocumentsIsRight(t *testing.T) {
	t.Parallel()
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	readme := definitions(blocks(t, "../../README.md"))
	n := 0
	for _, page := range append(pages, "../../README.md") {
		known := ""
		if filepath.Base(page) == "row.md" {
			known = readme
		}
		for _, b := range blocks(t, page) {
			n++
			t.Run(fmt.Sprintf("%s line %d", filepath.Base(page), b.line), func(t *testing.T) { check(t, known, b) })
			known += definitions([]block{b})
		}
	}
	if n < 5 {
		t.Errorf("only %d blocks of SQL were found", n)
	}
}

func definitions(bs []block) string {
	out := ""
	for _, b := range bs {
		if b.refused == "" {
			out += strings.Join(definition.FindAllString(b.text, -1), "\n") + "\n"
		}
	}
	return out
}

func check(t *testing.T, known string, b block) {
	t.Helper()
	s, err := runtime.Open(t.Context(), runtime.Config{Connectors: all.Connectors(), Formats: all.Formats()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // nothing was started
	err = s.Validate(t.Context(), "page.sql", known+b.text)
	if b.refused == "" && err != nil {
		t.Errorf("the block is wrong:\n%v", err)
	}
	if b.refused != "" && runtime.Class(err) != b.refused {
		t.Errorf("the block should be refused as %s: got %s\n%v", b.refused, runtime.Class(err), err)
	}
}
