package arch

import (
	"fmt"
	"strings"
	"testing"
)

// seed is a small module that violates one rule, or must not.
type seed struct {
	name  string
	rule  string
	files map[string]string
	// want is a part of the only finding; empty: there must be none.
	want string
}

// imp makes a file that imports one package, ours if the path has no dot and
// begins with a folder of the layout.
func imp(pkg, importPath string) string {
	return fmt.Sprintf("// Package %s is a seed.\npackage %s\n\nimport _ %q\n", pkg, pkg, importPath)
}

// ours completes a path inside this module.
func ours(dir string) string { return module + "/" + dir }

func one(path, text string) map[string]string { return map[string]string{path: text} }

// lines returns n lines of Go statements.
func lines(n int) string { return strings.Repeat("\t_ = 0\n", n) }

var importSeeds = []seed{
	{"fault imports nothing of ours", "imports", one("messages/fault/x.go", imp("fault", ours("messages"))), "messages/fault may not import messages"},
	{"messages may import fault", "imports", one("messages/x.go", imp("messages", ours("messages/fault"))), ""},
	{"messages imports a layer above", "imports", one("messages/x.go", imp("messages", ours("connectors"))), "messages may not import connectors"},
	{"a connector imports a sibling", "imports", one("connectors/file/x.go", imp("file", ours("connectors/nats"))), "may not import connectors/nats"},
	{"a connector imports the engine", "imports", one("connectors/file/x.go", imp("file", ours("actors"))), "may not import actors"},
	{"a connector imports a format", "imports", one("connectors/file/x.go", imp("file", ours("connectors/format/csv"))), "may not import connectors/format/csv"},
	{"a connector imports the contract", "imports", one("connectors/file/x.go", imp("file", ours("connectors/option"))), ""},
	{"a connector imports a folder below itself", "imports", one("connectors/file/x.go", imp("file", ours("connectors/file/glob"))), ""},
	{"a test of a connector imports a format", "imports", one("connectors/file/x_test.go", imp("file", ours("connectors/format/csv"))), ""},
	{"a test of a connector imports the engine", "imports", one("connectors/file/x_test.go", imp("file", ours("runtime"))), "may not import runtime"},
	{"a format imports the connector contract", "imports", one("connectors/format/csv/x.go", imp("csv", ours("connectors"))), "may not import connectors"},
	{"a format imports a sibling", "imports", one("connectors/format/csv/x.go", imp("csv", ours("connectors/format/json"))), "may not import connectors/format/json"},
	{"the list imports connectors", "imports", one("connectors/all/x.go", imp("all", ours("connectors/nats"))), ""},
	{"epochs imports its store", "imports", one("epochs/x.go", imp("epochs", ours("runtime/internal/plan"))), "epochs may not import"},
	{"a store imports another store", "imports", one("epochs/badgerstore/x.go", imp("badgerstore", ours("epochs/memstore"))), "may not import epochs/memstore"},
	{"an operator imports the actors", "imports", one("actors/operator/window/x.go", imp("window", ours("actors"))), "may not import actors"},
	{"an operator imports the expression compiler", "imports", one("actors/operator/window/x.go", imp("window", ours("runtime/internal/expr"))), "may not import runtime/internal/expr"},
	{"an operator imports its contract and tables", "imports", one("actors/operator/window/x.go", imp("window", ours("actors/operator/state"))), ""},
	{"the actors import a connector", "imports", one("actors/x.go", imp("actors", ours("connectors/nats"))), "actors may not import connectors/nats"},
	{"the parser imports anything of ours", "imports", one("runtime/internal/sql/x.go", imp("sql", ours("messages"))), "may not import messages"},
	{"expressions import the planner", "imports", one("runtime/internal/expr/x.go", imp("expr", ours("runtime/internal/plan"))), "may not import runtime/internal/plan"},
	{"expressions import the operator contract", "imports", one("runtime/internal/expr/x.go", imp("expr", ours("actors/operator"))), ""},
	{"the planner imports a connector", "imports", one("runtime/internal/plan/x.go", imp("plan", ours("connectors/nats"))), "may not import connectors/nats"},
	{"an example imports an internal package", "imports", one("examples/01-x/x.go", imp("main", ours("runtime/internal/plan"))), "may not import runtime/internal/plan"},
	{"the command imports everything", "imports", one("cmd/streamd/x.go", imp("main", ours("connectors/all"))), ""},
	{"a package outside the layout", "imports", one("pkg/x/x.go", imp("x", "fmt")), "not part of the layout"},

	{"protoactor outside actors", "outside libraries", one("actors/operator/x.go", imp("operator", actorPackage)), "may be imported by actors only"},
	{"protoactor in a test outside actors", "outside libraries", one("runtime/x_test.go", imp("runtime", actorPackage)), "may be imported by actors only"},
	{"protoactor in actors", "outside libraries", one("actors/x.go", imp("actors", actorPackage)), ""},
	{"another package of protoactor", "outside libraries", one("actors/x.go", imp("actors", "github.com/asynkron/protoactor-go/cluster")), "may not be used"},
	{"Badger outside badgerstore", "outside libraries", one("epochs/x.go", imp("epochs", "github.com/dgraph-io/badger/v4")), "may be imported by epochs/badgerstore only"},
	{"Badger in badgerstore", "outside libraries", one("epochs/badgerstore/x.go", imp("badgerstore", "github.com/dgraph-io/badger/v4")), ""},
	{"nats.go in another connector", "outside libraries", one("connectors/file/x.go", imp("file", "github.com/nats-io/nats.go")), "may be imported by connectors/nats"},
	{"nats.go in its connector", "outside libraries", one("connectors/nats/x.go", imp("nats", "github.com/nats-io/nats.go/jetstream")), ""},
	{"nats.go in a test", "outside libraries", one("runtime/x_test.go", imp("runtime", "github.com/nats-io/nats.go")), ""},
	{"the NATS server in the connector", "outside libraries", one("connectors/nats/x.go", imp("nats", "github.com/nats-io/nats-server/v2/server")), "may be imported by cmd/streamd"},
	{"the NATS server in the demo", "outside libraries", one("cmd/streamd/demo/x.go", imp("demo", "github.com/nats-io/nats-server/v2/server")), ""},
	{"protobuf outside wire", "outside libraries", one("epochs/x.go", imp("epochs", "google.golang.org/protobuf/proto")), "may be imported by messages/wire only"},
	{"a test library in production code", "outside libraries", one("actors/x.go", imp("actors", "github.com/google/go-cmp/cmp")), "is a test library"},
	{"a test library in a test", "outside libraries", one("actors/x_test.go", imp("actors", "github.com/google/go-cmp/cmp")), ""},
	{"a test library in test support", "outside libraries", one("connectors/connectortest/x.go", imp("connectortest", "go.uber.org/goleak")), ""},
	{"a client library of a connector", "outside libraries", one("connectors/kafka/x.go", imp("kafka", "github.com/some/client")), ""},
	{"a library without an owner", "outside libraries", one("runtime/x.go", imp("runtime", "github.com/some/client")), "has no owner"},

	{"the standard runtime under its own name", "goruntime", one("actors/x.go", "package actors\n\nimport \"runtime\"\n"), "goruntime"},
	{"the standard runtime under another name", "goruntime", one("actors/x_test.go", "package actors\n\nimport rt \"runtime\"\n"), "goruntime"},
	{"the standard runtime as goruntime", "goruntime", one("actors/x.go", "package actors\n\nimport goruntime \"runtime\"\n"), ""},
	{"packages below the standard runtime", "goruntime", one("actors/x.go", "package actors\n\nimport \"runtime/debug\"\n"), ""},

	{
		"a connector that is not listed", "connectors are listed",
		map[string]string{
			"connectors/all/x.go":  imp("all", ours("connectors/nats")),
			"connectors/nats/x.go": "package nats\n\nfunc Connector() connectors.Connector { panic(0) }\n",
			"connectors/file/x.go": "package file\n\nfunc Connector() connectors.Connector { panic(0) }\n",
		},
		"connectors/file is missing",
	},
	{
		"a format that is not listed", "connectors are listed",
		map[string]string{
			"connectors/all/x.go":        imp("all", ours("connectors/nats")),
			"connectors/format/csv/x.go": "package csv\n\nfunc Format() format.Format { panic(0) }\n",
		},
		"connectors/format/csv is missing",
	},
	{
		"a folder that is not a connector", "connectors are listed",
		map[string]string{
			"connectors/all/x.go":    imp("all", ours("connectors/nats")),
			"connectors/option/x.go": "package option\n\nfunc Parse() error { return nil }\n",
			"connectors/memory/x.go": "package memory\n\nfunc (s *Store) Connector() connectors.Connector { panic(0) }\n",
		},
		"",
	},
	{"no list yet", "connectors are listed", one("connectors/nats/x.go", "package nats\n\nfunc Connector() connectors.Connector { panic(0) }\n"), ""},
}

var shapeSeeds = []seed{
	{"a long file", "file size", one("actors/x.go", "package actors\n"+strings.Repeat("//\n", 600)), "601 lines"},
	{"a file at the limit", "file size", one("actors/x.go", "package actors\n"+strings.Repeat("//\n", 599)), ""},
	{"a test file may be longer", "file size", one("actors/x_test.go", "package actors\n"+strings.Repeat("//\n", 899)), ""},
	{"a long test file", "file size", one("actors/x_test.go", "package actors\n"+strings.Repeat("//\n", 900)), "901 lines"},
	{"a long generated file", "file size", one("messages/wire/x.pb.go", "// Code generated by protoc. DO NOT EDIT.\npackage wire\n"+strings.Repeat("//\n", 900)), ""},

	{"a long function", "function size", one("actors/x.go", "package actors\n\nfunc f() {\n"+lines(79)+"}\n"), "f has 81 lines"},
	{"a function at the limit", "function size", one("actors/x.go", "package actors\n\nfunc f() {\n"+lines(78)+"}\n"), ""},
	{"a long test function", "function size", one("actors/x_test.go", "package actors\n\nfunc f() {\n"+lines(200)+"}\n"), ""},

	{"many parameters", "parameters", one("actors/x.go", "package actors\n\nfunc f(a, b, c int, d, e, f string) {}\n"), "6 parameters"},
	{"many parameters of an interface method", "parameters", one("actors/x.go", "package actors\n\ntype t interface{ M(int, int, int, int, int, int) }\n"), "M has 6 parameters"},
	{"five parameters and a receiver", "parameters", one("actors/x.go", "package actors\n\nfunc (t T) f(a, b, c int, d, e string) {}\n"), ""},

	{"no package comment", "package comment", one("actors/x.go", "package actors\n"), "no comment"},
	{"a package comment with the wrong name", "package comment", one("actors/x.go", "// Package actor is.\npackage actors\n"), "Package actors"},
	{"a comment in another file of the package", "package comment", map[string]string{"actors/x.go": "package actors\n", "actors/doc.go": "// Package actors is.\npackage actors\n"}, ""},
	{"a comment in a test file only", "package comment", map[string]string{"actors/x.go": "package actors\n", "actors/x_test.go": "// Package actors is.\npackage actors\n"}, "no comment"},
	{"a package of tests only", "package comment", one("test/sim/x_test.go", "// Package sim is.\npackage sim\n"), ""},
	{"a command", "package comment", one("cmd/streamd/main.go", "// Streamd runs queries.\npackage main\n"), ""},

	{"a bad package name", "package name", one("actors/util/x.go", "package util\n"), "called util"},
	{"a bad folder name", "package name", one("runtime/types/x.go", "package rt\n"), "called types"},
	{"a good package name", "package name", one("actors/typeset/x.go", "package typeset\n"), ""},

	{"an init function", "init", one("actors/x.go", "package actors\n\nfunc init() {}\n"), "no init"},
	{"an init function in a test", "init", one("actors/x_test.go", "package actors\n\nfunc init() {}\n"), "no init"},
	{"a method called init", "init", one("actors/x.go", "package actors\n\nfunc (t T) init() {}\n"), ""},

	{"a map that is filled", "globals", one("actors/x.go", "package actors\n\nvar m = map[int]int{}\n\nfunc f() { m[1] = 2 }\n"), "m is changed"},
	{"a map that is filled from another file", "globals", map[string]string{"actors/x.go": "package actors\n\nvar m = map[int]int{}\n", "actors/y.go": "package actors\n\nfunc f() { m[1] = 2 }\n"}, "m is changed"},
	{"a map that shrinks", "globals", one("actors/x.go", "package actors\n\nvar m = map[int]int{1: 2}\n\nfunc f() { delete(m, 1) }\n"), "m is changed"},
	{"a slice that grows", "globals", one("actors/x.go", "package actors\n\nvar s []int\n\nfunc f() { s = append(s, 1) }\n"), "s is changed"},
	{"a counter", "globals", one("actors/x.go", "package actors\n\nvar n int\n\nfunc f() { n++ }\n"), "n is changed"},
	{"a field of a struct", "globals", one("actors/x.go", "package actors\n\nvar c = &conf{}\n\nfunc f() { c.a.b = 1 }\n"), "c is changed"},
	{"a mutex", "globals", one("actors/x.go", "package actors\n\nimport \"sync\"\n\nvar mu sync.Mutex\n"), "mu is a sync.Mutex"},
	{"an atomic inside a struct", "globals", one("actors/x.go", "package actors\n\nimport \"sync/atomic\"\n\nvar v struct{ n atomic.Int64 }\n"), "v is a atomic.Int64"},
	{"a lookup table, an error, a pool", "globals", one("actors/x.go", "package actors\n\nvar (\n\tm = map[int]int{1: 2}\n\terrX = errors.New(\"x\")\n\tp = sync.Pool{}\n)\n\nfunc f() int { return m[1] }\n"), ""},
	{"a local variable of the same name", "globals", one("actors/x.go", "package actors\n\nvar m = map[int]int{1: 2}\n\nfunc f() { m := map[int]int{}; m[1] = 2; var n int; n++ }\n\nfunc g(m []int) { m[0] = 1 }\n"), ""},
	{"a variable of a test", "globals", one("actors/x_test.go", "package actors\n\nvar n int\n\nfunc f() { n++ }\n"), ""},

	{"a bounded mailbox", "actor library", one("actors/x.go", "package actors\n\nimport \""+actorPackage+"\"\n\nvar p = actor.BoundedDropping(5)\n"), "BoundedDropping"},
	{"a stash", "actor library", one("actors/x.go", "package actors\n\nimport \""+actorPackage+"\"\n\nfunc f(c actor.Context) { c.Stash() }\n"), "Stash"},
	{"a method the library would misread", "actor library", one("messages/x.go", "package messages\n\nfunc (b *B) GetMessages() []any { return nil }\n"), "GetMessages"},
	{"the same names elsewhere", "actor library", one("actors/x.go", "package actors\n\nfunc f(c C) { c.Stash(); c.BoundedQueue() }\n"), ""},

	{"a sleep in a test", "time-sleep", one("actors/x_test.go", "package actors\n\nimport \"time\"\n\nfunc f() { time.Sleep(1) }\n"), "time.Sleep"},
	{"a sleep under another name", "time-sleep", one("actors/x_test.go", "package actors\n\nimport tm \"time\"\n\nfunc f() { tm.Sleep(1) }\n"), "time.Sleep"},
	{"a sleep in a bubble", "time-sleep", one("actors/x_test.go", "package actors\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f(t *T) { synctest.Test(t, func(t *T) { time.Sleep(1) }) }\n"), ""},
	{"a sleep beside a bubble", "time-sleep", one("actors/x_test.go", "package actors\n\nimport (\n\t\"testing/synctest\"\n\t\"time\"\n)\n\nfunc f(t *T) { synctest.Test(t, g); time.Sleep(1) }\n"), "time.Sleep"},

	{"the wall clock in an operator", "time-now", one("actors/operator/x.go", "package operator\n\nimport \"time\"\n\nvar t = time.Now()\n"), "time.Now"},
	{"time.Since reads it, too", "time-now", one("actors/operator/x.go", "package operator\n\nimport \"time\"\n\nfunc f(t time.Time) { _ = time.Since(t) }\n"), "time.Since"},
	{"the wall clock passed as a function", "time-now", one("actors/operator/x.go", "package operator\n\nimport \"time\"\n\nvar now = time.Now\n"), "time.Now"},
	{"the wall clock in a test", "time-now", one("actors/operator/x_test.go", "package operator\n\nimport \"time\"\n\nvar t = time.Now()\n"), ""},
	{"the wall clock in the command", "time-now", one("cmd/streamd/x.go", "package main\n\nimport \"time\"\n\nvar t = time.Now()\n"), ""},

	{"a mark in a comment", "marks", one("actors/x.go", "package actors\n\n// TO"+"DO: later\n"), "finish it"},
	{"a mark in a document", "marks", one("docs/x.md", "# X\n\nFIX"+"ME\n"), "finish it"},
	{"the same letters in code", "marks", one("actors/x.go", "package actors\n\nconst s = \"TO"+"DO\"\n"), ""},

	{"a home folder in code", "machine paths", one("actors/x.go", "package actors\n\nconst p = \"/ho"+"me/ann/x\"\n"), "path of one machine"},
	{"a work folder in a document", "machine paths", one("docs/x.md", "see `/wo"+"rk/x`\n"), "path of one machine"},
	{"a path inside an address", "machine paths", one("docs/x.md", "https://example.org/wo"+"rk/x\n"), ""},
}

// TestRulesBite proves on small modules that each rule reports what it should
// and nothing else.
func TestRulesBite(t *testing.T) {
	bitten := map[string]bool{}
	for _, s := range append(importSeeds, shapeSeeds...) {
		t.Run(s.rule+"/"+s.name, func(t *testing.T) {
			tr, err := newTree(s.files)
			if err != nil {
				t.Fatal(err)
			}
			var found []finding
			known := false
			for _, r := range rules {
				if r.name == s.rule {
					found, known = apply(tr, r, exceptions, map[exception]bool{}), true
				}
			}
			switch {
			case !known:
				t.Errorf("no rule is called %q", s.rule)
			case s.want == "" && len(found) != 0:
				t.Errorf("found %v, want nothing", found)
			case s.want != "" && (len(found) != 1 || !strings.Contains(found[0].text, s.want)):
				t.Errorf("found %v, want one finding with %q", found, s.want)
			case s.want != "":
				bitten[s.rule] = true
			}
		})
	}
	for _, r := range rules {
		if !bitten[r.name] {
			t.Errorf("no seed proves that the rule %q bites", r.name)
		}
	}
}

func TestExceptions(t *testing.T) {
	tr, err := newTree(map[string]string{"actors/x.go": "package actors\n\nfunc init() {}\n", "actors/y.go": "package actors\n\nfunc init() {}\n"})
	if err != nil {
		t.Fatal(err)
	}
	initRule := rule{"init", checkInit}
	tests := []struct {
		name   string
		except exception
		left   int    // findings that remain
		stale  string // part of what is said about the exception
	}{
		{"a file is let off", exception{"init", "actors/x.go", "why"}, 1, ""},
		{"a folder is let off", exception{"init", "actors/", "why"}, 0, ""},
		{"another rule is not", exception{"globals", "actors/x.go", "why"}, 2, "no longer needed"},
		{"a reason is asked for", exception{"init", "actors/x.go", ""}, 1, "no reason"},
		{"a rule must exist", exception{"inits", "actors/", "why"}, 2, "unknown rule"},
		{"a file that does not exist may wait", exception{"init", "actors/z.go", "why"}, 2, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			used := map[exception]bool{}
			if got := len(apply(tr, initRule, []exception{tt.except}, used)); got != tt.left {
				t.Errorf("%d findings are left, want %d", got, tt.left)
			}
			stale := staleExceptions(tr, []exception{tt.except}, used)
			if (len(stale) != 0) != (tt.stale != "") || len(stale) == 1 && !strings.Contains(stale[0].text, tt.stale) {
				t.Errorf("about the exception: %v, want %q", stale, tt.stale)
			}
		})
	}
}
