package arch

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// module is the import path of this module.
const module = "github.com/streamd-io/streamd"

// source is one text file. The parsed form is nil for files that are not Go.
type source struct {
	path      string // from the module root, with slashes
	text      string
	ast       *ast.File
	test      bool // a _test.go file
	generated bool // carries the line that Go's tools recognise
}

// dir returns the folder of the file, "." for the root.
func (s *source) dir() string { return path.Dir(s.path) }

// imports returns the import specs with their paths.
func (s *source) imports() map[*ast.ImportSpec]string {
	found := map[*ast.ImportSpec]string{}
	for _, spec := range s.ast.Imports {
		if p, err := strconv.Unquote(spec.Path.Value); err == nil {
			found[spec] = p
		}
	}
	return found
}

// localName returns the name under which the file imports a standard package,
// or "" if it does not.
func (s *source) localName(importPath string) string {
	for spec, p := range s.imports() {
		if p != importPath {
			continue
		}
		if spec.Name != nil {
			return spec.Name.Name
		}
		return path.Base(p)
	}
	return ""
}

// tree is everything the rules look at.
type tree struct {
	fset  *token.FileSet
	files []*source // sorted by path
}

// goFiles returns the parsed files of which keep approves.
func (t *tree) goFiles(keep func(*source) bool) []*source {
	var found []*source
	for _, f := range t.files {
		if f.ast != nil && keep(f) {
			found = append(found, f)
		}
	}
	return found
}

// packages groups all Go files by folder. A folder is one package here; the
// external test package counts with the package it tests.
func (t *tree) packages() map[string][]*source {
	found := map[string][]*source{}
	for _, f := range t.goFiles(all) {
		found[f.dir()] = append(found[f.dir()], f)
	}
	return found
}

func all(*source) bool          { return true }
func written(f *source) bool    { return !f.generated }
func production(f *source) bool { return !f.generated && !f.test }
func tests(f *source) bool      { return f.test }

// finding is one violation.
type finding struct {
	path string
	line int
	text string
}

func (f finding) String() string { return fmt.Sprintf("%s:%d: %s", f.path, f.line, f.text) }

// at makes a finding at a node of a file.
func (t *tree) at(f *source, n ast.Node, format string, args ...any) finding {
	return finding{f.path, t.fset.Position(n.Pos()).Line, fmt.Sprintf(format, args...)}
}

// newTree parses sources given by path.
func newTree(texts map[string]string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	for _, p := range slices.Sorted(maps.Keys(texts)) {
		f := &source{path: p, text: texts[p], test: strings.HasSuffix(p, "_test.go")}
		if strings.HasSuffix(p, ".go") {
			// Objects are resolved inside a file: the globals rule needs to
			// tell a local variable from a package variable of the same name.
			parsed, err := parser.ParseFile(t.fset, p, f.text, parser.ParseComments)
			if err != nil {
				return nil, fmt.Errorf("parse: %w", err)
			}
			f.ast, f.generated = parsed, ast.IsGenerated(parsed)
		}
		t.files = append(t.files, f)
	}
	return t, nil
}

// textNames are the file names and extensions of the text files that rules
// about marks and paths look at, beside Go files.
var textNames = []string{".go", ".md", ".sql", ".sh", ".proto", ".yml", ".yaml", ".json", ".html", ".js", ".css", "Makefile", "run"}

// readTree reads the module. It leaves out what the go tool leaves out
// (testdata, folders that begin with a dot or an underscore), except .ci.
func readTree(root string) (*tree, error) {
	texts := map[string]string{}
	err := filepath.WalkDir(root, func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() {
			hidden := strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_")
			if rel != "." && (name == "testdata" || hidden && name != ".ci") {
				return filepath.SkipDir
			}
			return nil
		}
		if !slices.ContainsFunc(textNames, func(s string) bool { return name == s || path.Ext(name) == s }) {
			return nil
		}
		text, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		texts[filepath.ToSlash(rel)] = string(text)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read the module: %w", err)
	}
	return newTree(texts)
}
