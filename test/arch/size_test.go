package arch

import (
	"go/ast"
	"path"
	"slices"
	"strings"
)

// The limits. They are habits, not laws of nature, but a file that needs more
// is nearly always two files.
const (
	maxFileLines     = 600
	maxTestFileLines = 900
	maxFuncLines     = 80
	maxParameters    = 5
)

// badNames are package names that say nothing about what is inside.
var badNames = []string{"util", "utils", "common", "helper", "helpers", "type", "types", "misc"}

// functions returns the functions and methods declared in a file.
func functions(f *source) []*ast.FuncDecl {
	var found []*ast.FuncDecl
	for _, d := range f.ast.Decls {
		if fn, ok := d.(*ast.FuncDecl); ok {
			found = append(found, fn)
		}
	}
	return found
}

// checkFileSize limits the lines of a Go file.
func checkFileSize(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(written) {
		limit := maxFileLines
		if f.test {
			limit = maxTestFileLines
		}
		if n := strings.Count(f.text, "\n"); n > limit {
			found = append(found, finding{f.path, n, sprintf("the file has %d lines, the limit is %d; split it by subject", n, limit)})
		}
	}
	return found
}

// checkFuncSize limits the lines of a function, from its first to its last.
func checkFuncSize(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(production) {
		for _, fn := range functions(f) {
			n := t.fset.Position(fn.End()).Line - t.fset.Position(fn.Pos()).Line + 1
			if n > maxFuncLines {
				found = append(found, t.at(f, fn, "%s has %d lines, the limit is %d; name its steps as functions", fn.Name.Name, n, maxFuncLines))
			}
		}
	}
	return found
}

// checkParameters limits the parameters of functions and interface methods.
func checkParameters(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(production) {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			name, typ := "", (*ast.FuncType)(nil)
			switch n := n.(type) {
			case *ast.FuncDecl:
				name, typ = n.Name.Name, n.Type
			case *ast.Field:
				if fn, ok := n.Type.(*ast.FuncType); ok && len(n.Names) > 0 {
					name, typ = n.Names[0].Name, fn
				}
			}
			if typ != nil && typ.Params.NumFields() > maxParameters {
				found = append(found, t.at(f, n, "%s has %d parameters, the limit is %d; pass a struct", name, typ.Params.NumFields(), maxParameters))
			}
			return true
		})
	}
	return found
}

// checkPackageComment asks for a comment on every package. A package that
// consists of tests only may have it in a test file.
func checkPackageComment(t *tree) []finding {
	var found []finding
	for _, files := range t.packages() {
		main := slices.DeleteFunc(slices.Clone(files), tests)
		if len(main) == 0 {
			main = files
		}
		name := main[0].ast.Name.Name
		documented := slices.ContainsFunc(main, func(f *source) bool {
			return f.ast.Doc != nil && (name == "main" || strings.HasPrefix(f.ast.Doc.Text(), "Package "+strings.TrimSuffix(name, "_test")+" "))
		})
		if !documented {
			found = append(found, t.at(main[0], main[0].ast, `package %s has no comment that begins with "Package %s"; add a doc.go that says what it is, who calls it and which goroutine rules hold`, name, name))
		}
	}
	return found
}

// checkPackageName refuses names that attract unrelated code.
func checkPackageName(t *tree) []finding {
	var found []finding
	for _, files := range t.packages() {
		f := files[0]
		for _, name := range []string{f.ast.Name.Name, path.Base(f.dir())} {
			if slices.Contains(badNames, name) {
				found = append(found, t.at(f, f.ast, "a package called %s says nothing; name it after what it provides, or move the code to where it is used", name))
				break
			}
		}
	}
	return found
}
