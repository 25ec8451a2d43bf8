package recovery

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// points are all fault points of the engine, with the hits at which the child
// is killed: the first one is often part of the start.
func points() map[string][]int {
	return map[string][]int{
		"epoch/ack":               {1, 8},
		"epoch/commit.synced":     {1, 4},
		"epoch/commit.write":      {1, 4},
		"epoch/persist":           {1, 6},
		"epochs/commit/synced":    {1, 4},
		"epochs/commit/witnessed": {1, 4},
		"epochs/commit/write":     {1, 4},
		"epochs/persist/synced":   {1, 4},
		"epochs/persist/write":    {1, 4},
		"kv/answered":             {1, 30},
		"kv/conflict":             {1, 2},
		"kv/fence":                {1, 2},
		"kv/fenced":               {1, 2},
		"kv/mark":                 {1, 6},
		"kv/marked":               {1, 6},
		"kv/publish":              {1, 4},
		"kv/published":            {1, 4},
		"kv/put":                  {1, 30},
		"kv/sent":                 {1, 30},
		"kv/settled":              {1, 2},
		"kv/track":                {1},
		"kv/tracked":              {1},
		"mark/inject":             {1, 5},
		"op/freeze":               {1, 9},
		"rec/attempt":             {1, 2},
		"rec/open":                {1, 2},
		"rec/restore":             {1, 2},
		"sink/adopted":            {1, 2},
		"sink/fenced":             {1, 2},
		"rec/sink":                {1, 2},
		"sink/commit":             {1, 4},
		"sink/flush":              {1, 4},
		"rec/stash":               {1, 2},
		"sink/stash":              {1, 4},
		"sink/prepare":            {1, 4},
		"sink/write":              {1, 20},
		"src/ack":                 {1, 6},
		"src/read":                {1, 40},
	}
}

// elsewhere are fault points that a child does not pass under load, with the tests
// in which they strike.
func elsewhere() map[string]string {
	return map[string]string{"epochs/rewind/witnessed": "TestNumbersOfLostEpochsStayUsed of badgerstore"}
}

// TestKillAtEveryPoint kills the child at each of its fault points, under load,
// and lets the next one start on what that has left. After a while each kill is
// followed by a second one before the replay has passed the first.
func TestKillAtEveryPoint(t *testing.T) {
	r := newRig(t, setup{})
	table := points()
	names := slices.Sorted(func(yield func(string) bool) {
		for name := range table {
			if !yield(name) {
				return
			}
		}
	})
	for _, name := range names {
		for _, hit := range table[name] {
			if name == "rec/stash" {
				r.killAtStash(hit)
				continue
			}
			r.killAt(name, hit)
			if r.rng.IntN(2) == 0 { // again, while it restores or replays
				again := []string{"rec/restore", "sink/fenced", "sink/adopted", "kv/fenced", "src/read", "sink/write", "mark/inject"}
				if name >= "kv/conflict" { // a child that was killed earlier may have left no value that conflicts
					again = append(again, "kv/settled")
				}
				r.killAt(again[r.rng.IntN(len(again))], 1)
			}
		}
		if testing.Short() && name > "epochs/commit" {
			break
		}
	}
	r.finish()
}

// killAtStash makes the child leave rows that have committed and are not
// published, and kills the next one when it loads them.
func (r *rig) killAtStash(hit int) {
	r.t.Helper()
	lanes := r.lanes
	defer func() { r.lanes = lanes }()
	r.lanes = []lane{epochRowsLane()}
	r.killAt("epoch/commit.synced", 3)
	if hit > 1 { // twice in a row
		r.killAt("rec/stash", 1)
	}
	r.killAt("rec/stash", 1)
}

// killAt starts the child with a rule that kills it at a hit of a point.
func (r *rig) killAt(point string, hit int) {
	r.t.Helper()
	rule := fmt.Sprintf("%s=kill:%d", point, hit)
	begun := time.Now()
	r.start("STREAMD_FAULTS=" + rule)
	if !r.child.ended(20 * time.Second) {
		r.t.Fatalf("%s: the point was not hit\n%s", rule, r.child.tail())
	}
	if !r.child.wasKilled() {
		r.t.Fatalf("%s: streamd ended by itself: %v\n%s", rule, r.child.err, r.child.tail())
	}
	r.t.Logf("%s after %v", rule, time.Since(begun).Round(time.Millisecond))
	l := r.lanes[r.rng.IntN(len(r.lanes))]
	r.inspect(l, r.feed.settled(), false)
}

// TestPointsAreListed holds the table against the source.
func TestPointsAreListed(t *testing.T) {
	call := regexp.MustCompile(`fault\.Inject\(([^)]*)\)`)
	found := map[string]bool{}
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "test" || strings.HasPrefix(d.Name(), ".") && len(d.Name()) > 2):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range call.FindAllStringSubmatch(string(text), -1) {
			name, ok := strings.CutPrefix(m[1], `"`)
			if !ok {
				t.Errorf("%s: %s: a point is named by a literal, so that tests can find it", path, m[0])
				continue
			}
			found[strings.TrimSuffix(name, `"`)] = true
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	table := points()
	for name := range found {
		if table[name] == nil && elsewhere()[name] == "" {
			t.Errorf("fault point %q is in the source and not in the table of this test", name)
		}
	}
	for name := range table {
		if !found[name] {
			t.Errorf("fault point %q is in the table and not in the source", name)
		}
	}
}
