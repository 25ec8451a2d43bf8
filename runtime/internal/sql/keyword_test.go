package sql

import (
	"go/ast"
	goparser "go/parser"
	gotoken "go/token"
	"strconv"
	"strings"
	"testing"
)

// TestParserUsesKnownTokensOnly finds misspelt words in the parser, which would
// never match a token.
func TestParserUsesKnownTokensOnly(t *testing.T) {
	methods := wordSet("is isAny isSeq accept acceptSeq expect")
	fset := gotoken.NewFileSet()
	for _, name := range strings.Fields("parser.go parse_expr.go parse_primary.go parse_call.go parse_type.go parse_select.go parse_from.go parse_stmt.go parse_ddl.go") {
		file, err := goparser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			sel, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !methods[sel.Sel.Name] {
				return true
			}
			for _, arg := range call.Args {
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != gotoken.STRING {
					continue
				}
				text, err := strconv.Unquote(lit.Value)
				if _, known := keywords[text]; err != nil || !known && operatorText(text) == "" {
					t.Errorf("%s: %q is no token", fset.Position(lit.Pos()), text)
				}
			}
			return true
		})
	}
}

func TestKeywordTable(t *testing.T) {
	for word := range keywords {
		if len(word) > maxKeywordLen {
			t.Errorf("%s is longer than %d letters and would never be found", word, maxKeywordLen)
		}
		if k, ok := keyword(strings.ToLower(word)); !ok || k.text != word {
			t.Errorf("%s is not found in lower case", word)
		}
	}
	for _, word := range strings.Fields("window start end timestamp source sink query date value key offset stream") {
		if isReserved(strings.ToUpper(word)) {
			t.Errorf("%s must not be reserved", word)
		}
	}
	for word := range quotedNames {
		if _, ok := keywords[word]; !ok {
			t.Errorf("%s is no keyword", word)
		}
	}
}
