package arch

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// rule is one property of the code base.
type rule struct {
	name  string
	check func(*tree) []finding
}

var rules = []rule{
	{"imports", checkImports},
	{"outside libraries", checkOwners},
	{"goruntime", checkRuntimeName},
	{"connectors are listed", checkCatalogue},
	{"file size", checkFileSize},
	{"function size", checkFuncSize},
	{"parameters", checkParameters},
	{"package comment", checkPackageComment},
	{"package name", checkPackageName},
	{"init", checkInit},
	{"globals", checkGlobals},
	{"actor library", checkActorAPI},
	{"time-sleep", checkSleep},
	{"time-now", checkTimeNow},
	{"marks", checkMarks},
	{"machine paths", checkPaths},
}

// apply runs one rule and takes away what the exceptions cover. It marks the
// exceptions it used.
func apply(t *tree, r rule, except []exception, used map[exception]bool) []finding {
	var found []finding
	for _, f := range r.check(t) {
		i := slices.IndexFunc(except, func(e exception) bool { return e.covers(r.name, f.path) })
		if i < 0 {
			found = append(found, f)
		} else {
			used[except[i]] = true
		}
	}
	slices.SortFunc(found, func(a, b finding) int {
		return cmp.Or(strings.Compare(a.path, b.path), cmp.Compare(a.line, b.line), strings.Compare(a.text, b.text))
	})
	return found
}

// TestRules holds the code base to all rules.
func TestRules(t *testing.T) {
	tr, err := readTree(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	if len(tr.files) < 10 {
		t.Fatalf("found %d files only; the test has to run inside the module", len(tr.files))
	}
	used := map[exception]bool{}
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, f := range apply(tr, r, exceptions, used) {
				t.Error(f)
			}
		})
	}
	t.Run("exceptions", func(t *testing.T) {
		for _, f := range staleExceptions(tr, exceptions, used) {
			t.Error(f)
		}
	})
}

// staleExceptions returns the lines of except that name no rule, give no
// reason, or let off a file that has nothing to be let off from. Lines for
// folders and for files that do not exist yet may wait.
func staleExceptions(t *tree, except []exception, used map[exception]bool) []finding {
	var found []finding
	for _, e := range except {
		exists := slices.ContainsFunc(t.files, func(f *source) bool { return f.path == e.path })
		switch {
		case !slices.ContainsFunc(rules, func(r rule) bool { return r.name == e.rule }):
			found = append(found, finding{e.path, 1, sprintf("the exception names the unknown rule %q", e.rule)})
		case e.reason == "":
			found = append(found, finding{e.path, 1, sprintf("the exception from %q gives no reason", e.rule)})
		case exists && !used[e]:
			found = append(found, finding{e.path, 1, sprintf("the exception from %q is no longer needed; delete its line", e.rule)})
		}
	}
	return found
}
