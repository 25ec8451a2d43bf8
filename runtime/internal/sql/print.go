package sql

import (
	"strconv"
	"strings"
)

// Format returns a statement, query, expression, relation or type as text on one
// line: keywords in upper case, names in back quotes only where they need them,
// parentheses only where the tree needs them. Parsing the text gives the same tree
// with other positions. Options are printed with their values, secrets included.
func Format(n Node) string {
	var p printer
	p.node(n)
	return p.b.String()
}

// FormatName returns a name with back quotes if it needs them.
func FormatName(name string) string {
	var p printer
	p.name(name)
	return p.b.String()
}

// printer writes trees as text.
type printer struct{ b strings.Builder }

func (p *printer) node(n Node) {
	switch n := n.(type) {
	case Statement:
		p.statement(n)
	case Expr:
		p.expr(n, bindAny)
	case *Query:
		p.query(n)
	case QueryBody:
		p.body(n)
	case Relation:
		p.relation(n)
	case TypeName:
		p.typeName(n)
	case SelectItem:
		p.selectItem(n)
	case SortItem:
		p.sortItem(n)
	case *Window:
		p.window(n)
	case Name:
		p.names(n.Parts, ".")
	case Ident:
		p.name(n.Name)
	}
}

func (p *printer) str(s string) { p.b.WriteString(s) }

// when writes s if the condition holds.
func (p *printer) when(cond bool, s string) {
	if cond {
		p.b.WriteString(s)
	}
}

// quotedNames are words that are names for the lexer but mean something else in
// some place where a name can be printed.
var quotedNames = wordSet(`ALL ANY SOME INTERVAL OFFSET QUALIFY BOTH LEADING TRAILING UNBOUNDED STREAM TABLE
OVER FILTER IGNORE RESPECT WATERMARK SEMI ANTI SORT CLUSTER DISTRIBUTE TABLESAMPLE PIVOT UNPIVOT CAST TRY_CAST ROLLUP CUBE
CURRENT_DATE CURRENT_TIMESTAMP CURRENT_TIME CURRENT_USER LOCALTIMESTAMP`)

func wordSet(words string) map[string]bool {
	set := map[string]bool{}
	for _, w := range strings.Fields(words) {
		set[w] = true
	}
	return set
}

// name writes one name.
func (p *printer) name(name string) {
	if isPlainName(name) {
		if k, ok := keyword(name); !ok || !k.reserved && !quotedNames[k.text] {
			p.str(name)
			return
		}
	}
	p.str(quoteName(name))
}

func (p *printer) names(list []Ident, separator string) {
	for i, id := range list {
		p.when(i > 0, separator)
		p.name(id.Name)
	}
}

// nameList writes (a, b) or, for no names, nothing.
func (p *printer) nameList(list []Ident) {
	if len(list) > 0 {
		p.str("(")
		p.names(list, ", ")
		p.str(")")
	}
}

func (p *printer) typeName(t TypeName) {
	switch t := t.(type) {
	case *SimpleType:
		if t.Length > 0 {
			p.str("VARCHAR(" + strconv.Itoa(t.Length) + ")")
			return
		}
		p.str(strings.ToUpper(t.Kind.String()))
	case *DecimalType:
		p.str("DECIMAL(" + strconv.Itoa(t.Precision) + "," + strconv.Itoa(t.Scale) + ")")
	case *IntervalType:
		p.str("INTERVAL")
		p.when(t.From != 0, " "+t.From.String())
		p.when(t.To != t.From, " TO "+t.To.String())
	case *ArrayType:
		p.str("ARRAY<")
		p.typeName(t.Element)
		p.str(">")
	case *MapType:
		p.str("MAP<")
		p.typeName(t.Key)
		p.str(", ")
		p.typeName(t.Value)
		p.str(">")
	case *StructType:
		p.str("STRUCT<")
		for i, f := range t.Fields {
			p.when(i > 0, ", ")
			p.name(f.Name.Name)
			p.str(": ")
			p.typeName(f.Type)
			p.when(f.NotNull, " NOT NULL")
			p.when(f.Comment != "", " COMMENT "+quoteString(f.Comment))
		}
		p.str(">")
	}
}
