package arch

import (
	"go/ast"
	"path"
	"strings"
)

// matches reports whether the folder p fits the pattern: "a/b" is that folder
// only, "a/b/..." the folder and everything below, "a/*" each folder directly
// below a.
func matches(pattern, p string) bool {
	if base, ok := strings.CutSuffix(pattern, "/..."); ok {
		return p == base || strings.HasPrefix(p, base+"/")
	}
	if base, ok := strings.CutSuffix(pattern, "/*"); ok {
		return path.Dir(p) == base
	}
	return pattern == p
}

func matchesAny(patterns []string, p string) bool {
	for _, pattern := range patterns {
		if matches(pattern, p) {
			return true
		}
	}
	return false
}

// layer says what the packages that fit a pattern may import of this module.
type layer struct {
	pattern string
	imports []string
	// tests is what their test files may import besides.
	tests []string
}

// support is what test files of every layer above messages may use.
var support = []string{"connectors/connectortest", "connectors/memory", "connectors/format/...", "epochs/memstore", "epochs/storetest", "actors/operator/operatortest"}

// contract is what a connector builds on. A connector never imports a sibling.
var contract = []string{"messages/...", "connectors/option", "connectors/format", "connectors"}

// layers is the import graph, from the bottom to the top. The first line whose
// pattern fits a package decides. A package may always import what lies below
// its own folder.
//
//	messages <- {connectors, epochs} <- actors/operator <- actors <- runtime <- cmd
var layers = []layer{
	{"messages/fault", nil, nil},
	{"messages/...", []string{"messages/..."}, nil},

	{"connectors/option", []string{"messages/..."}, nil},
	{"connectors/format", []string{"messages/...", "connectors/option"}, support},
	{"connectors/format/...", []string{"messages/...", "connectors/option", "connectors/format"}, support},
	{"connectors", contract[:3], support},
	{"connectors/all", []string{"messages/...", "connectors/..."}, support},
	{"connectors/connectortest", append([]string{"connectors/format/..."}, contract...), support},
	{"connectors/held", contract, support},
	{"connectors/...", append([]string{"connectors/held"}, contract...), support},

	{"epochs", []string{"messages/..."}, support},
	{"epochs/internal/...", nil, nil},
	{"epochs/catalogstore", []string{"messages/...", "epochs", "epochs/internal/..."}, append([]string{"epochs/badgerstore"}, support...)},
	{"epochs/...", []string{"messages/...", "epochs", "epochs/internal/..."}, support},

	{"actors/operator", []string{"messages/...", "epochs"}, support},
	{"actors/operator/operatortest", []string{"messages/...", "epochs", "epochs/memstore", "actors/operator/..."}, support},
	{"actors/operator/...", []string{"messages/...", "epochs", "actors/operator/..."}, support},
	{"actors/...", []string{"messages/...", "connectors", "connectors/option", "connectors/format", "epochs", "actors/..."}, []string{"connectors/...", "epochs/..."}},

	{"runtime/internal/sql/...", nil, nil},
	{"runtime/internal/expr/...", []string{"messages/...", "actors/operator", "runtime/internal/sql/...", "runtime/internal/expr/..."}, support},
	{"runtime/...", []string{"messages/...", "connectors", "connectors/option", "connectors/format", "epochs/...", "actors/...", "runtime/..."}, []string{"connectors/..."}},

	{"internal/freeport", nil, nil},
	{"internal/pacer", nil, nil},
	{"cmd/...", []string{"internal/...", "messages/...", "connectors/...", "epochs/...", "actors/...", "runtime/...", "cmd/..."}, nil},
	{"examples/...", []string{"messages/...", "connectors/...", "actors/...", "runtime", "runtime/httpapi"}, []string{"examples/..."}},
	{"test/...", []string{"internal/...", "messages/...", "connectors/...", "epochs/...", "actors/...", "runtime/...", "cmd/...", "test/..."}, nil},
	{".", nil, nil},
}

// layerOf returns the line that decides for a folder.
func layerOf(dir string) (layer, bool) {
	for _, l := range layers {
		if matches(l.pattern, dir) {
			return l, true
		}
	}
	return layer{}, false
}

// checkImports holds the packages of this module to the table layers.
func checkImports(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(all) {
		l, ok := layerOf(f.dir())
		if !ok {
			found = append(found, t.at(f, f.ast, "folder %q is not part of the layout; move the package to a folder of the table layers, or add it there", f.dir()))
			continue
		}
		for spec, p := range f.imports() {
			ours, ok := strings.CutPrefix(p, module)
			if !ok {
				continue
			}
			ours = strings.TrimPrefix(ours, "/")
			if ours == "" {
				ours = "."
			}
			allowed := matches(f.dir()+"/...", ours) || matchesAny(l.imports, ours) || f.test && matchesAny(l.tests, ours)
			if !allowed {
				found = append(found, t.at(f, spec, "%s may not import %s (allowed: %s); turn the dependency round, or pass what you need in as an interface",
					f.dir(), ours, strings.Join(append([]string{"its own folder"}, l.imports...), ", ")))
			}
		}
	}
	return found
}

// owner says which packages may import an outside library. Test files and test
// support may import some libraries besides.
type owner struct {
	library  string // import path or a prefix of it
	packages []string
	inTests  bool
}

// testSupport are packages that exist for tests and may use test libraries.
var testSupport = []string{"test/...", "connectors/connectortest", "epochs/storetest", "actors/operator/operatortest"}

// owners fences every outside library into the packages that need it. The
// first line that fits an import decides. A library that is not here may be
// imported by one connector or format folder as its client library; anybody
// else adds a line.
var owners = []owner{
	{"github.com/asynkron/protoactor-go/actor", []string{"actors"}, false},
	{"github.com/asynkron/protoactor-go", nil, false}, // remote, cluster, persistence: not used
	{"github.com/dgraph-io/badger", []string{"epochs/badgerstore"}, false},
	{"github.com/dgraph-io/ristretto", []string{"epochs/badgerstore"}, false},
	{"github.com/nats-io/nats-server", []string{"cmd/streamd/...", "examples/..."}, true},
	{"github.com/nats-io", []string{"connectors/nats/...", "cmd/streamd/...", "examples/..."}, true},
	{"google.golang.org/protobuf", []string{"messages/wire"}, false},
	{"github.com/valyala/fastjson", []string{"connectors/format/json", "runtime/internal/expr/..."}, false},
	{"github.com/zeebo/xxh3", []string{"messages/...", "epochs", "connectors/held", "actors", "actors/operator/..."}, true},
	{"github.com/klauspost/compress", []string{"messages/wire", "epochs", "connectors/file"}, false},
	{"github.com/prometheus/client_golang", []string{"runtime/...", "cmd/streamd/..."}, true},
	{"github.com/alecthomas/kong", []string{"cmd/streamd/..."}, false},
	{"github.com/HdrHistogram/hdrhistogram-go", []string{"cmd/streamd/..."}, true},
	{"golang.org/x/sys", []string{"epochs/...", "runtime/...", "cmd/streamd/...", "internal/pacer"}, true},
	{"golang.org/x/term", []string{"cmd/streamd/..."}, false},
	{"golang.org/x/time", []string{"actors", "connectors/..."}, false},
	{"github.com/google/go-cmp", nil, true},
	{"github.com/cockroachdb/datadriven", nil, true},
	{"go.uber.org/goleak", nil, true},
	{"pgregory.net/rapid", nil, true},
	{"github.com/redpanda-data/benthos/v4", []string{"test/bench/peers"}, false}, // a module of its own
}

// isStd reports whether an import path belongs to the standard library.
func isStd(p string) bool {
	first, _, _ := strings.Cut(p, "/")
	return !strings.Contains(first, ".")
}

// isClient reports whether dir may have a client library of its own.
func isClient(dir string) bool {
	return strings.HasPrefix(dir, "connectors/") && !matchesAny([]string{"connectors/option", "connectors/format", "connectors/held", "connectors/all"}, dir)
}

// checkOwners holds outside libraries to the table owners.
func checkOwners(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(all) {
		for spec, p := range f.imports() {
			if isStd(p) || p == module || strings.HasPrefix(p, module+"/") {
				continue
			}
			o, ok := ownerOf(p)
			switch {
			case !ok && isClient(f.dir()):
			case !ok:
				found = append(found, t.at(f, spec, "%s has no owner; do without it, or add a line to the table owners that names the one package that may import it", p))
			case matchesAny(o.packages, f.dir()):
			case o.inTests && (f.test || matchesAny(testSupport, f.dir())):
			case len(o.packages) == 0 && o.inTests:
				found = append(found, t.at(f, spec, "%s is a test library; use it in _test.go files and test support only", p))
			case len(o.packages) == 0:
				found = append(found, t.at(f, spec, "%s may not be used", p))
			default:
				found = append(found, t.at(f, spec, "%s may be imported by %s only; use the contract of that package", p, strings.Join(o.packages, ", ")))
			}
		}
	}
	return found
}

func ownerOf(p string) (owner, bool) {
	for _, o := range owners {
		if p == o.library || strings.HasPrefix(p, o.library+"/") {
			return o, true
		}
	}
	return owner{}, false
}

// checkRuntimeName asks for the name goruntime, because the package that users
// of this module import is called runtime, too.
func checkRuntimeName(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(written) {
		for spec, p := range f.imports() {
			if p == "runtime" && (spec.Name == nil || spec.Name.Name != "goruntime") {
				found = append(found, t.at(f, spec, `write: import goruntime "runtime"`))
			}
		}
	}
	return found
}

// checkCatalogue looks for connectors and formats that nobody lists. A folder
// is a connector or a format when it has an exported function without
// parameters that returns a connectors.Connector or a format.Format. Records
// that belong to one session (made by a method or from arguments) are not
// listed.
func checkCatalogue(t *tree) []finding {
	listed := map[string]bool{}
	for _, f := range t.packages()["connectors/all"] {
		for _, p := range f.imports() {
			listed[strings.TrimPrefix(p, module+"/")] = true
		}
	}
	if len(listed) == 0 {
		return nil // connectors/all is not there yet
	}
	var found []finding
	for _, f := range t.goFiles(production) {
		record := map[string]string{"connectors": "Connector", "connectors/format": "Format"}[path.Dir(f.dir())]
		if record == "" || f.dir() == "connectors/connectortest" || listed[f.dir()] {
			continue
		}
		for _, fn := range functions(f) {
			if fn.Recv == nil && fn.Name.IsExported() && fn.Type.Params.NumFields() == 0 && returns(fn, record) {
				found = append(found, t.at(f, fn, "%s is missing in connectors/all; add the line there", f.dir()))
			}
		}
	}
	return found
}

// returns reports whether the only result of fn is some package's type name.
func returns(fn *ast.FuncDecl, name string) bool {
	if fn.Type.Results.NumFields() != 1 {
		return false
	}
	sel, ok := fn.Type.Results.List[0].Type.(*ast.SelectorExpr)
	return ok && sel.Sel.Name == name
}
