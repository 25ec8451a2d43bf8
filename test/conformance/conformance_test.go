package conformance

import (
	"errors"
	"flag"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/messages/fault"
)

var casesDir = flag.String("cases", "testdata", "directory with the case files")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func modes() []mode {
	return []mode{
		{name: "undisturbed", parallelism: 1},
		{name: "restarted before every addition", restart: true, parallelism: 2},
		{name: "three subtasks, restarted from disk in another session", disk: true, parallelism: 3},
	}
}

func TestConformance(t *testing.T) {
	cases, err := readCases(*casesDir)
	if err != nil {
		t.Fatal(err)
	}
	known, err := readKnown(filepath.Join("testdata", "known.txt"))
	if err != nil {
		t.Fatal(err)
	}
	sys := actors.NewSystem(actors.SystemConfig{})
	t.Cleanup(sys.Close)
	areas := map[string][]*conformanceCase{}
	for _, c := range cases {
		areas[c.Area] = append(areas[c.Area], c)
	}
	for _, area := range slices.Sorted(maps.Keys(areas)) {
		t.Run(area, func(t *testing.T) {
			for _, c := range areas[area] {
				t.Run(c.ID, func(t *testing.T) {
					t.Parallel()
					checkCase(t, c, known[c.ID], sys)
				})
			}
		})
	}
}

// checkCase runs a case in all modes, up to the first in which it fails.
func checkCase(t *testing.T, c *conformanceCase, reason string, sys *actors.System) {
	for _, m := range modes() {
		err := outcome(t, c, m, sys)
		switch {
		case err != nil && reason != "":
			t.Skipf("known: %s\n(%s: %v)", reason, m.name, err)
		case err != nil:
			if p, ok := errors.AsType[*fault.Panic](err); ok {
				t.Logf("%s", p.Stack)
			}
			t.Fatalf("%s: %v", m.name, err)
		}
	}
	if reason != "" {
		t.Errorf("the case passes; remove it from known.txt, where it is listed because: %s", reason)
	}
}
