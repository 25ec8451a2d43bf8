package sql

import "strings"

// create reads the statements that begin with CREATE.
func (p *parser) create() Statement {
	start := p.next().start
	or := p.peek()
	orReplace := false
	if p.accept("OR") {
		p.expect("REPLACE")
		orReplace = true
	}
	if p.isSeq("GLOBAL", "TEMP") || p.isSeq("GLOBAL", "TEMPORARY") {
		p.failAt(p.peek().span(), "there are no global views", "write CREATE VIEW")
	}
	temp := (p.is("TEMP") || p.is("TEMPORARY")) && p.at(1).is("VIEW")
	if temp {
		p.next()
	}
	if p.accept("VIEW") {
		return p.createView(start, orReplace, temp)
	}
	if orReplace && p.isAny("SOURCE", "SINK", "TABLE", "QUERY") {
		p.failAt(or.span(), "OR REPLACE is for views only", "use DROP "+p.peek().text+" first")
	}
	switch {
	case p.accept("SOURCE"):
		return p.createSource(start)
	case p.accept("SINK"):
		return p.createSink(start)
	case p.accept("TABLE"):
		return p.createTable(start)
	case p.accept("QUERY"):
		return p.createQuery(start)
	}
	p.unexpected("SOURCE", "SINK", "TABLE", "VIEW", "QUERY")
	return nil
}

func (p *parser) ifNotExists() bool { return p.acceptSeq("IF", "NOT", "EXISTS") }

func (p *parser) createView(start int, orReplace, temp bool) Statement {
	v := &CreateView{OrReplace: orReplace, Temp: temp}
	v.IfNotExists = p.ifNotExists()
	v.Name = p.name("view")
	if p.is("(") {
		v.Columns = p.identList("column")
	}
	p.expect("AS")
	v.Query = p.query()
	v.Span = p.from(start)
	return v
}

func (p *parser) createSource(start int) Statement {
	s := &CreateSource{}
	s.IfNotExists = p.ifNotExists()
	s.Name = p.name("source")
	s.Columns, s.Watermark = p.columnDefs("source")
	s.Using, s.Options = p.connectorOptions()
	s.Span = p.from(start)
	return s
}

func (p *parser) createSink(start int) Statement {
	s := &CreateSink{}
	s.IfNotExists = p.ifNotExists()
	s.Name = p.name("sink")
	s.Columns, _ = p.columnDefs("sink")
	s.Using, s.Options = p.connectorOptions()
	s.Span = p.from(start)
	return s
}

func (p *parser) createTable(start int) Statement {
	t := &CreateTable{}
	t.IfNotExists = p.ifNotExists()
	t.Name = p.name("table")
	t.Columns, _ = p.columnDefs("table")
	t.Using, t.Options = p.connectorOptions()
	if p.accept("AS") {
		t.Query = p.query()
	}
	t.Span = p.from(start)
	return t
}

func (p *parser) createQuery(start int) Statement {
	q := &CreateQuery{}
	q.IfNotExists = p.ifNotExists()
	q.Name = p.ident("query")
	if p.accept("WITH") {
		q.Options = p.options(true, nil)
	}
	if !p.is("AS") {
		p.unexpected("AS", "WITH")
	}
	p.next()
	if p.accept("INSERT") {
		sink, columns := p.insertTarget()
		q.Sink, q.SinkColumns = &sink, columns
	}
	q.Query = p.query()
	q.Span = p.from(start)
	return q
}

// connectorOptions reads [USING connector] [OPTIONS (...)] [WITH (...)].
func (p *parser) connectorOptions() (*Ident, []Option) {
	var using *Ident
	if p.accept("USING") {
		id := p.ident("connector")
		using = &id
	}
	var list []Option
	for {
		switch {
		case p.isSeq("OPTIONS", "("):
			p.next()
			list = p.options(false, list)
		case p.accept("WITH"):
			list = p.options(true, list)
		default:
			return using, list
		}
	}
}

// columnDefs reads (column, ..., WATERMARK FOR ...) if it comes next. Only sources
// have watermarks and metadata columns.
func (p *parser) columnDefs(of string) ([]ColumnDef, *WatermarkDef) {
	if !p.accept("(") {
		return nil, nil
	}
	var columns []ColumnDef
	var watermark *WatermarkDef
	var wrong *Error
	for {
		if t := p.peek(); p.isSeq("WATERMARK", "FOR") {
			if of != "source" {
				p.failAt(t.span(), "a "+of+" has no watermark", "only sources have one")
			}
			if watermark != nil {
				p.failAt(t.span(), "a source has one watermark only", "")
			}
			watermark, wrong = p.watermarkDef()
		} else {
			columns = append(columns, p.columnDef(of, columns))
		}
		if !p.accept(",") {
			break
		}
	}
	if !p.is(")") {
		p.unexpected(")", ",")
	}
	p.next()
	if wrong != nil {
		panic(bailout{watermarkColumn(wrong, watermark, columns)})
	}
	return columns, watermark
}

// watermarkColumn explains a watermark computed from another column: mostly one of
// the two names is misspelt.
func watermarkColumn(wrong *Error, w *WatermarkDef, columns []ColumnDef) *Error {
	var names []string
	for _, c := range columns {
		if strings.EqualFold(c.Name.Name, w.Column.String()) {
			return wrong
		}
		names = append(names, c.Name.Name)
	}
	if len(names) == 0 {
		return wrong
	}
	e := &Error{Class: ClassSyntax, Msg: "there is no column " + w.Column.String(), Span: w.Column.Span, Hint: "columns: " + strings.Join(names, ", ")}
	if near, ok := Nearest(w.Column.String(), names); ok {
		e.Hint = "did you mean " + FormatName(near) + "?"
	}
	return e
}

func (p *parser) columnDef(of string, before []ColumnDef) ColumnDef {
	if p.is(")") && p.at(-1).is(",") {
		p.failAt(p.at(-1).span(), "expected a column behind the comma", "remove the comma")
	}
	c := ColumnDef{Name: p.ident("column")}
	for _, b := range before {
		if strings.EqualFold(b.Name.Name, c.Name.Name) {
			p.failAt(c.Name.Span, "column "+c.Name.Name+" is declared twice", "")
		}
	}
	p.accept(":")
	p.lenient = p.script // all wrong columns of a list are reported
	c.Type = p.typeName()
	p.lenient = false
	for {
		switch {
		case p.acceptSeq("NOT", "NULL"):
			c.NotNull = true
		case p.is("METADATA") && !c.IsMetadata:
			if of != "source" {
				p.failAt(p.peek().span(), "a "+of+" has no metadata columns", "only sources have them")
			}
			p.next()
			c.IsMetadata, c.Metadata = true, c.Name.Name
			if p.accept("FROM") {
				c.Metadata = p.str("metadata key").Value
			}
		case p.accept("COMMENT"):
			c.Comment = p.str("comment").Value
		default:
			c.Span = p.from(c.Name.Start)
			return c
		}
	}
}

// watermarkDef reads WATERMARK FOR column AS column [- INTERVAL ...]. wrong tells of
// two columns that differ; which is right is known with all columns.
func (p *parser) watermarkDef() (w *WatermarkDef, wrong *Error) {
	start := p.next().start
	p.next()
	w = &WatermarkDef{Column: p.name("watermark column")}
	p.expect("AS")
	at := p.peek().start
	same := p.name("watermark column")
	form := "write WATERMARK FOR " + w.Column.String() + " AS " + w.Column.String() + " - INTERVAL 10 SECONDS"
	if !strings.EqualFold(same.String(), w.Column.String()) {
		wrong = &Error{Class: ClassSyntax, Msg: "the watermark of " + w.Column.String() + " must be computed from " + w.Column.String(), Hint: form, Span: p.from(at)}
	}
	if p.accept("-") {
		if !p.is("INTERVAL") || !p.intervalAhead() {
			p.failAt(p.peek().span(), "expected an interval, found "+p.describe(p.peek()), form)
		}
		w.Delay = p.interval()
	}
	if !p.isAny(")", ",") {
		p.failAt(p.peek().span(), "expected the end of the watermark, found "+p.describe(p.peek()), form)
	}
	w.Span = p.from(start)
	return w, wrong
}
