package sql

import (
	"fmt"
	"strings"
)

// scriptStatement reads a statement of a script up to its end.
func (p *parser) scriptStatement() Statement {
	p.checkSize()
	stmt := p.statement()
	if t := p.peek(); t.kind != tokenEOF && !t.is(";") {
		if p.alias != p.pos-1 && t.kind == tokenWord && isStatementWord(t.text) {
			p.failAt(t.span(), "expected \";\" before "+p.describe(t), "end each statement with a semicolon")
		}
		p.unexpected("the end of the statement")
	}
	return stmt
}

func isStatementWord(text string) bool {
	for _, w := range statementWordList {
		if w == text {
			return true
		}
	}
	return false
}

// statement reads one statement.
func (p *parser) statement() Statement {
	t := p.peek()
	switch {
	case p.queryAhead(), t.is("("):
		q := p.query()
		return &SelectStatement{Span: q.Span, Query: q}
	case t.is("CREATE"):
		return p.create()
	case t.is("INSERT"):
		return p.insert()
	case t.is("SET"):
		return p.set()
	case t.is("EXPLAIN"):
		return p.explain()
	case t.is("SHOW"):
		return p.show()
	case t.is("DESCRIBE"), t.is("DESC"):
		return p.describeStmt()
	case t.is("DROP"):
		return p.drop()
	}
	if t.kind == tokenWord {
		word := t.span().In(p.src)
		if w, ok := Nearest(word, statementWordList); ok {
			p.failAt(t.span(), fmt.Sprintf("unknown statement %q", word), fmt.Sprintf("did you mean %s?", w))
		}
		p.failAt(t.span(), fmt.Sprintf("unknown statement %q", word),
			"statements begin with "+joinOr(statementWordList))
	}
	p.unexpected("a statement")
	return nil
}

func (p *parser) insert() *Insert {
	start := p.next().start
	s := &Insert{}
	s.Sink, s.Columns = p.insertTarget()
	s.Query = p.query()
	s.Span = p.from(start)
	return s
}

// insertTarget reads INTO [TABLE] sink [(columns)], the word INSERT being read.
func (p *parser) insertTarget() (Name, []Ident) {
	if p.is("OVERWRITE") {
		p.failAt(p.peek().span(), "INSERT OVERWRITE is not supported: a stream has no end at which to replace", "write INSERT INTO")
	}
	p.expect("INTO")
	if p.is("TABLE") && isName(p.at(1)) {
		p.next()
	}
	name := p.name("sink")
	var columns []Ident
	if p.is("(") && isName(p.at(1)) {
		columns = p.identList("column")
	}
	return name, columns
}

// set reads SET key = value and SET TIME ZONE value.
func (p *parser) set() *Set {
	start := p.next().start
	s := &Set{}
	if p.isSeq("TIME", "ZONE") {
		at := p.next().start
		p.next()
		s.Option = Option{Key: "time_zone", KeySpan: p.from(at)}
		p.optionValue(&s.Option)
		s.Option.Span = p.from(at)
	} else {
		s.Option = p.option(true)
	}
	s.Span = p.from(start)
	return s
}

// option reads key = value; needEqual is false in Spark's OPTIONS (key value).
func (p *parser) option(needEqual bool) Option {
	t := p.peek()
	o := Option{}
	if t.kind == tokenString {
		s := p.str("option")
		o.Key = s.Value
	} else {
		if t.kind != tokenWord && t.kind != tokenQuoted {
			p.unexpected("a name for the option")
		}
		parts := []string{p.toIdent(p.next()).Name}
		for p.accept(".") {
			parts = append(parts, p.fieldName("option").Name)
		}
		o.Key = strings.Join(parts, ".")
	}
	o.KeySpan = p.from(t.start)
	if !p.accept("=") && needEqual {
		p.unexpected("=")
	}
	p.optionValue(&o)
	o.Span = p.from(t.start)
	return o
}

// optionValue reads a string, a number with an optional sign, or a word.
func (p *parser) optionValue(o *Option) {
	t := p.peek()
	switch {
	case t.kind == tokenString:
		s := p.str("option")
		o.Value, o.ValueSpan = s.Value, s.Span
		return
	case t.is("-") || t.is("+"):
		p.next()
		n := p.peek()
		if n.kind != tokenNumber || n.start != t.end {
			p.unexpected("a number")
		}
		p.next()
	case t.kind == tokenNumber, t.kind == tokenWord:
		p.next()
	default:
		p.unexpected("a string, a number or a word for the option " + o.Key)
	}
	o.ValueSpan = p.from(t.start)
	o.Value = o.ValueSpan.In(p.src)
}

// options reads (key = value, ...) behind WITH or OPTIONS and refuses doubled keys.
func (p *parser) options(needEqual bool, list []Option) []Option {
	p.expect("(")
	if p.accept(")") {
		return list
	}
	for {
		o := p.option(needEqual)
		for _, other := range list {
			if fold(other.Key) == fold(o.Key) {
				p.failAt(o.KeySpan, fmt.Sprintf("option %q is given twice", o.Key), "")
			}
		}
		list = append(list, o)
		if !p.accept(",") {
			break
		}
	}
	if !p.is(")") {
		p.unexpected(")", ",")
	}
	p.next()
	return list
}

func (p *parser) explain() *Explain {
	start := p.next().start
	e := &Explain{}
	switch {
	case p.accept("EXTENDED"):
		e.Extended = true
	case p.peek().kind == tokenWord && p.peek().text == "":
		t := p.peek()
		word := t.span().In(p.src)
		hint := "write EXPLAIN or EXPLAIN EXTENDED before a statement"
		if w, ok := Nearest(word, append([]string{"EXTENDED"}, statementWordList...)); ok {
			hint = fmt.Sprintf("did you mean %s?", w)
		}
		p.failAt(t.span(), fmt.Sprintf("unknown word %q behind EXPLAIN", word), hint)
	}
	t := p.peek()
	if !p.queryAhead() && !p.isAny("(", "INSERT", "CREATE") {
		p.unexpected("SELECT", "INSERT", "CREATE")
	}
	e.Statement = p.statement()
	switch e.Statement.(type) {
	case *SelectStatement, *Insert, *CreateQuery:
	default:
		p.failAt(t.span(), "EXPLAIN takes SELECT, INSERT INTO or CREATE QUERY", "")
	}
	e.Span = p.from(start)
	return e
}

var showWords = strings.Fields("QUERIES SOURCES SINKS TABLES VIEWS FUNCTIONS")

func (p *parser) show() *Show {
	start := p.next().start
	for i, w := range showWords {
		if p.accept(w) {
			return &Show{Span: p.from(start), Kind: ShowKind(i + 1)}
		}
	}
	p.unexpected(showWords...)
	return nil
}

var objectWords = strings.Fields("QUERY SOURCE SINK TABLE VIEW FUNCTION")

// objectKind reads a kind of object if it comes next; 0 otherwise.
func (p *parser) objectKind() ObjectKind {
	for i, w := range objectWords {
		if p.accept(w) {
			return ObjectKind(i + 1)
		}
	}
	return AnyObject
}

func (p *parser) describeStmt() *Describe {
	start := p.next().start
	d := &Describe{}
	if isName(p.at(1)) {
		d.Kind = p.objectKind()
	}
	if p.is("EXTENDED") && isName(p.at(1)) {
		p.next()
		d.Extended = true
	}
	d.Name = p.name("described object")
	d.Span = p.from(start)
	return d
}

func (p *parser) drop() *Drop {
	start := p.next().start
	if p.isAny("TEMP", "TEMPORARY") && p.at(1).is("VIEW") {
		p.next()
	}
	d := &Drop{}
	if !p.is("FUNCTION") {
		d.Kind = p.objectKind()
	}
	if d.Kind == AnyObject {
		p.unexpected("QUERY", "SOURCE", "SINK", "TABLE", "VIEW")
	}
	d.IfExists = p.acceptSeq("IF", "EXISTS")
	d.Name = p.name(strings.ToLower(d.Kind.String()))
	d.Span = p.from(start)
	return d
}
