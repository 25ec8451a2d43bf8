package e2e

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
)

// TestSQLOfTheExamplesIsRight checks every script that is given as an example.
func TestSQLOfTheExamplesIsRight(t *testing.T) {
	scripts, err := filepath.Glob("../../examples/*/*.sql")
	if err != nil || len(scripts) == 0 {
		t.Fatalf("there are no scripts (%v)", err)
	}
	for _, path := range scripts {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		s, err := runtime.Open(t.Context(), runtime.Config{Connectors: all.Connectors(), Formats: all.Formats()})
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(t.Context(), path, string(text)); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}
