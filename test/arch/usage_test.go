package arch

import (
	"fmt"
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// sprintf keeps the call sites of findings without a node short.
var sprintf = fmt.Sprintf

// selectors calls visit for every pkg.Name in a file where pkg is the local
// name of importPath.
func selectors(f *source, importPath string, visit func(*ast.SelectorExpr)) {
	local := f.localName(importPath)
	if local == "" {
		return
	}
	ast.Inspect(f.ast, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == local {
				visit(sel)
			}
		}
		return true
	})
}

// checkTimeNow looks for readings of the machine's clock outside tests.
func checkTimeNow(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(production) {
		selectors(f, "time", func(sel *ast.SelectorExpr) {
			if slices.Contains([]string{"Now", "Since", "Until"}, sel.Sel.Name) {
				found = append(found, t.at(f, sel, "time.%s reads the machine's clock; take the clock from the task or environment, so that tests and replays control it (a place that must read it goes into exceptions with a reason)", sel.Sel.Name))
			}
		})
	}
	return found
}

// checkSleep refuses time.Sleep in tests, except directly inside the function
// given to synctest.Test, where it advances fake time and waits for nothing.
func checkSleep(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(tests) {
		bubbles := []ast.Node{}
		selectors(f, "testing/synctest", func(sel *ast.SelectorExpr) {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if call, ok := n.(*ast.CallExpr); ok && call.Fun == sel && sel.Sel.Name == "Test" {
					bubbles = append(bubbles, call)
				}
				return true
			})
		})
		selectors(f, "time", func(sel *ast.SelectorExpr) {
			inside := slices.ContainsFunc(bubbles, func(b ast.Node) bool { return b.Pos() <= sel.Pos() && sel.End() <= b.End() })
			if sel.Sel.Name == "Sleep" && !inside {
				found = append(found, t.at(f, sel, "time.Sleep makes a test slow and still flaky; wait for the event itself (a channel, a condition), or run the test in a synctest bubble"))
			}
		})
	}
	return found
}

// actorPackage is the import path of the actor library.
const actorPackage = "github.com/asynkron/protoactor-go/actor"

// forbiddenActor are identifiers of the actor library that do harm here, with
// the reason. A name that ends in * is a prefix.
var forbiddenActor = map[string]string{
	"Bounded*":               "a full bounded mailbox spins or blocks the sender; edges are bounded by credit",
	"Stash":                  "an unbounded second queue without order; the edge keeps what has to wait",
	"ReenterAfter":           "continues while other messages are handled in between; send the actor a message instead",
	"SetReceiveTimeout":      "its timer runs on the wall clock; use the injected clock and a message",
	"WithReceiverMiddleware": "runs and allocates for every message on the row path",
}

// checkActorAPI refuses what the actor library offers but we must not use.
func checkActorAPI(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(all) {
		if f.localName(actorPackage) != "" {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				if sel, ok := n.(*ast.SelectorExpr); ok {
					if why := forbidden(sel.Sel.Name); why != "" {
						found = append(found, t.at(f, sel, "do not use %s of the actor library: %s", sel.Sel.Name, why))
					}
				}
				return true
			})
		}
		for _, fn := range functions(f) {
			if fn.Recv != nil && fn.Name.Name == "GetMessages" && !f.generated {
				found = append(found, t.at(f, fn, "the actor library takes a message with a method GetMessages for a batch and delivers its parts; choose another name"))
			}
		}
	}
	return found
}

func forbidden(name string) string {
	for pattern, why := range forbiddenActor {
		prefix, open := strings.CutSuffix(pattern, "*")
		if name == pattern || open && strings.HasPrefix(name, prefix) {
			return why
		}
	}
	return ""
}

// The patterns are put together so that this file does not match itself.
var (
	markPattern = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X|HA` + `CK)\b`)
	pathPattern = regexp.MustCompile("(^|[\\s\"'`=(:])(/wo" + "rk/|/ho" + "me/\\w|/Us" + "ers/\\w|/ro" + "ot/|[A-Z]:\\\\Us" + "ers\\\\)")
)

// checkMarks refuses notes about work left undone. In Go files only comments
// count.
func checkMarks(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		if f.ast == nil {
			found = append(found, grep(f, markPattern, "%q: finish it, or say in plain words what the limits are")...)
			continue
		}
		for _, group := range f.ast.Comments {
			for _, c := range group.List {
				if mark := markPattern.FindString(c.Text); mark != "" {
					found = append(found, t.at(f, c, "%q: finish it, or say in plain words what the limits are", mark))
				}
			}
		}
	}
	return found
}

// checkPaths refuses paths of somebody's machine.
func checkPaths(t *tree) []finding {
	var found []finding
	for _, f := range t.files {
		found = append(found, grep(f, pathPattern, "%q is a path of one machine; use a relative path, a flag or t.TempDir")...)
	}
	return found
}

func grep(f *source, pattern *regexp.Regexp, format string) []finding {
	var found []finding
	for i, line := range strings.Split(f.text, "\n") {
		if hit := pattern.FindString(line); hit != "" {
			found = append(found, finding{f.path, i + 1, sprintf(format, strings.TrimSpace(hit))})
		}
	}
	return found
}
