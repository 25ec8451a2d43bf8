package arch

import (
	"go/ast"
	"go/token"
	"slices"
)

// checkInit refuses init functions: records are passed in Config, and tables
// are values, so that two sessions in one process share nothing.
func checkInit(t *tree) []finding {
	var found []finding
	for _, f := range t.goFiles(written) {
		for _, fn := range functions(f) {
			if fn.Recv == nil && fn.Name.Name == "init" {
				found = append(found, t.at(f, fn, "no init functions; build the value where it is declared, or pass it in"))
			}
		}
	}
	return found
}

// syncTypes are types whose values exist to be changed. sync.Pool is not among
// them: what is in a pool has no meaning.
var syncTypes = map[string][]string{
	"sync":        {"Mutex", "RWMutex", "Map", "Once", "WaitGroup", "Cond"},
	"sync/atomic": {"Bool", "Int32", "Int64", "Uint32", "Uint64", "Uintptr", "Pointer", "Value"},
}

// checkGlobals refuses package variables that change. Tables, errors, compiled
// regular expressions and the like are fine. Without type information the rule
// looks at what happens to a variable: it reports assignments to it, to its
// elements and to its fields, ++ and --, delete, clear and copy, anywhere in
// the package outside its declaration, and variables of a type that exists to
// be changed (mutexes, atomics). Changes behind a pointer or through a method
// are not seen; reviewers look for those.
func checkGlobals(t *tree) []finding {
	var found []finding
	for _, files := range t.packages() {
		files = slices.DeleteFunc(slices.Clone(files), func(f *source) bool { return !production(f) })
		vars, specs := map[string]bool{}, map[*ast.ValueSpec]bool{}
		for _, f := range files {
			for _, spec := range packageVars(f) {
				specs[spec] = true
				for _, name := range spec.Names {
					vars[name.Name] = true
				}
				if typ := syncType(f, spec); typ != "" {
					found = append(found, t.at(f, spec, "package variable %s is a %s; put it into the struct that owns what it guards", spec.Names[0].Name, typ))
				}
			}
		}
		for _, f := range files {
			ast.Inspect(f.ast, func(n ast.Node) bool {
				for _, target := range changed(n) {
					if name := root(target); name != nil && vars[name.Name] && isPackageVar(name, specs) {
						found = append(found, t.at(f, n, "package variable %s is changed here; make it a field of the value that owns it", name.Name))
					}
				}
				return true
			})
		}
	}
	return found
}

// packageVars returns the variable declarations of a file outside functions.
func packageVars(f *source) []*ast.ValueSpec {
	var found []*ast.ValueSpec
	for _, d := range f.ast.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.VAR {
			continue
		}
		for _, s := range decl.Specs {
			if spec, ok := s.(*ast.ValueSpec); ok {
				found = append(found, spec)
			}
		}
	}
	return found
}

// syncType returns the name of the type of spec, or of a field of it, if that
// is one of syncTypes.
func syncType(f *source, spec *ast.ValueSpec) string {
	found := ""
	look := func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			_, isFunc := n.(*ast.FuncLit)
			return !isFunc // what a function does inside is its own business
		}
		for pkg, names := range syncTypes {
			if id, ok := sel.X.(*ast.Ident); ok && id.Name == f.localName(pkg) && slices.Contains(names, sel.Sel.Name) {
				found = id.Name + "." + sel.Sel.Name
			}
		}
		return true
	}
	if spec.Type != nil {
		ast.Inspect(spec.Type, look)
	}
	for _, v := range spec.Values {
		ast.Inspect(v, look)
	}
	return found
}

// changed returns the expressions that a statement changes.
func changed(n ast.Node) []ast.Expr {
	switch n := n.(type) {
	case *ast.AssignStmt:
		if n.Tok != token.DEFINE {
			return n.Lhs
		}
	case *ast.IncDecStmt:
		return []ast.Expr{n.X}
	case *ast.RangeStmt:
		if n.Tok == token.ASSIGN {
			return []ast.Expr{n.Key, n.Value}
		}
	case *ast.CallExpr:
		id, ok := n.Fun.(*ast.Ident)
		if ok && id.Obj == nil && len(n.Args) > 0 && slices.Contains([]string{"delete", "clear", "copy"}, id.Name) {
			return n.Args[:1]
		}
	}
	return nil
}

// root returns the variable that an expression such as a.b[i] starts at.
func root(e ast.Expr) *ast.Ident {
	for {
		switch x := e.(type) {
		case *ast.Ident:
			return x
		case *ast.IndexExpr:
			e = x.X
		case *ast.SelectorExpr:
			e = x.X
		case *ast.StarExpr:
			e = x.X
		case *ast.ParenExpr:
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		default:
			return nil
		}
	}
}

// isPackageVar reports whether a name that is also a package variable means
// that variable here, and not a local one. The parser has resolved local names;
// what it left open is declared in another file of the package. (These objects
// of the parser know no types, but local names they tell apart well enough.)
func isPackageVar(id *ast.Ident, specs map[*ast.ValueSpec]bool) bool {
	if id.Obj == nil {
		return true
	}
	spec, ok := id.Obj.Decl.(*ast.ValueSpec)
	return ok && specs[spec]
}
