package e2e

import (
	"flag"
	"os"
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
