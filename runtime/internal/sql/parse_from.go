package sql

// fromClause reads the relations of FROM; commas are cross joins.
func (p *parser) fromClause() Relation {
	start := p.peek().start
	left := p.joins(start, p.relation())
	for p.accept(",") {
		right := p.joins(p.peek().start, p.lateralRelation())
		left = &Join{Span: p.from(start), Kind: CrossJoin, Left: left, Right: right}
	}
	return left
}

// joins reads the joins behind left, which begins at start.
func (p *parser) joins(start int, left Relation) Relation {
	for {
		kind := p.joinKind()
		if kind == 0 {
			return left
		}
		j := &Join{Kind: kind, Left: left, Right: p.lateralRelation()}
		switch {
		case p.accept("ON"):
			j.On = p.expr()
		case p.is("USING"):
			p.next()
			j.Using = p.identList("column")
		}
		j.Span = p.from(start)
		left = j
	}
}

// joinKind reads the words of a join up to JOIN; 0 if no join comes next.
func (p *parser) joinKind() JoinKind {
	kind := InnerJoin
	switch t := p.peek(); {
	case t.is("JOIN"):
	case t.is("INNER"):
		p.next()
	case t.is("CROSS"):
		p.next()
		kind = CrossJoin
	case t.is("LEFT"):
		p.next()
		kind = LeftJoin
		switch {
		case p.accept("SEMI"):
			kind = LeftSemiJoin
		case p.accept("ANTI"):
			kind = LeftAntiJoin
		default:
			p.accept("OUTER")
		}
	case t.is("RIGHT"):
		p.next()
		kind = RightJoin
		p.accept("OUTER")
	case t.is("FULL"):
		p.next()
		kind = FullJoin
		p.accept("OUTER")
	case p.isSeq("SEMI", "JOIN"):
		p.next()
		kind = LeftSemiJoin
	case p.isSeq("ANTI", "JOIN"):
		p.next()
		kind = LeftAntiJoin
	case t.is("NATURAL"):
		p.failAt(t.span(), "NATURAL joins are not supported: they change their meaning when a column is added",
			"name the columns with USING (...)")
	default:
		return 0
	}
	p.expect("JOIN")
	return kind
}

// lateralRelation reads a relation that may be LATERAL.
func (p *parser) lateralRelation() Relation {
	if !p.is("LATERAL") || p.at(1).is("VIEW") {
		return p.relation()
	}
	t := p.next()
	switch r := p.relation().(type) {
	case *DerivedTable:
		r.Lateral = true
		r.Start = t.start
		return r
	case *TableFunc:
		r.Lateral = true
		r.Start = t.start
		return r
	default:
		p.failAt(t.span(), "LATERAL takes a query in parentheses or a function", "")
		return nil
	}
}

// relation reads one table, function, VALUES or relation in parentheses.
func (p *parser) relation() Relation {
	t := p.peek()
	switch {
	case t.is("("):
		p.enter()
		defer p.leave()
		q, r := p.relationInParens()
		if q != nil {
			return p.derivedTable(t.start, q)
		}
		return r
	case t.is("VALUES"):
		v := p.values()
		return p.derivedTable(t.start, &Query{Span: v.Span, Body: v})
	case t.is("STREAM") && isName(p.at(1)) && !p.clauseAheadAt(1):
		p.next()
		return p.tableRef(t.start, p.name("stream"), true)
	case t.is("STREAM") && p.at(1).is("(") && isName(p.at(2)):
		p.next()
		p.next()
		name := p.name("stream")
		p.expect(")")
		return p.tableRef(t.start, name, true)
	case p.queryAhead():
		p.failAt(t.span(), "a query in FROM must be in parentheses", "write FROM (SELECT ...) name")
	}
	name := p.name("table")
	if p.is("(") {
		f := &TableFunc{Call: p.call(name)}
		f.Alias = p.tableAlias()
		f.Span = p.from(t.start)
		return f
	}
	return p.tableRef(t.start, name, false)
}

// tableRef reads what may follow the name of a table.
func (p *parser) tableRef(start int, name Name, stream bool) Relation {
	r := &TableRef{Name: name, Stream: stream}
	r.Sample, r.Watermark, r.Alias = p.relationSuffix()
	r.Span = p.from(start)
	return r
}

// derivedTable reads what may follow a query in FROM.
func (p *parser) derivedTable(start int, q *Query) Relation {
	r := &DerivedTable{Query: q}
	r.Sample, r.Watermark, r.Alias = p.relationSuffix()
	r.Span = p.from(start)
	return r
}

// relationSuffix reads TABLESAMPLE, WATERMARK and an alias; the watermark may also
// stand behind the alias.
func (p *parser) relationSuffix() (*Sample, *WatermarkClause, *TableAlias) {
	sample := p.sample()
	watermark := p.watermarkClause()
	alias := p.tableAlias()
	if watermark == nil {
		watermark = p.watermarkClause()
	}
	if p.isAny("PIVOT", "UNPIVOT") && p.at(1).is("(") {
		p.failAt(p.peek().span(), p.peek().text+" is not supported", "")
	}
	return sample, watermark, alias
}

// relationInParens reads (query) or (relation joins): exactly one result is set.
// Which of the two it is can only be told behind the inner parentheses, as in
// ((SELECT ...) UNION ...) and ((SELECT ...) t JOIN ...).
func (p *parser) relationInParens() (*Query, Relation) {
	open := p.expect("(")
	if p.queryAhead() {
		q := p.query()
		p.expect(")")
		return q, nil
	}
	var left Relation
	if p.is("(") {
		p.enter()
		start := p.peek().start
		q, r := p.relationInParens()
		p.leave()
		switch {
		case q == nil:
			left = r
		case p.queryTailAhead():
			q = p.queryFrom(open.end, q)
			p.expect(")")
			return q, nil
		case p.accept(")"):
			return q, nil
		default:
			left = p.derivedTable(start, q)
		}
	} else {
		left = p.lateralRelation()
	}
	left = p.joins(open.end, left)
	p.expect(")")
	if p.is("AS") || p.aliasAhead() {
		p.failAt(p.peek().span(), "joined tables in parentheses cannot be renamed", "write (SELECT * FROM ...) name")
	}
	return nil, left
}

// tableAlias reads [AS] name [(columns)] or returns nil.
func (p *parser) tableAlias() *TableAlias {
	start := p.peek().start
	if !p.accept("AS") {
		if !p.aliasAhead() {
			return nil
		}
		p.alias = p.pos
	}
	a := &TableAlias{Name: p.ident("table")}
	if p.is("(") {
		a.Columns = p.identList("column")
	}
	a.Span = p.from(start)
	return a
}

// watermarkClause reads WATERMARK column DELAY OF INTERVAL ... or returns nil.
func (p *parser) watermarkClause() *WatermarkClause {
	if !p.is("WATERMARK") || !p.clauseAheadAt(0) {
		return nil
	}
	start := p.next().start
	w := &WatermarkClause{Expr: p.expr()}
	if p.accept("AS") {
		id := p.ident("column")
		w.Alias = &id
	}
	if !p.is("DELAY") {
		p.unexpected("DELAY", "AS")
	}
	p.next()
	p.expect("OF")
	if !p.is("INTERVAL") || !p.intervalAhead() {
		p.unexpected("an interval such as INTERVAL 10 SECONDS")
	}
	w.Delay = p.interval()
	w.Span = p.from(start)
	return w
}

func (p *parser) sample() *Sample {
	if !p.isSeq("TABLESAMPLE", "(") {
		return nil
	}
	start := p.next().start
	p.next()
	s := &Sample{}
	if p.is("BUCKET") && p.at(1).kind == tokenNumber {
		p.next()
		s.Kind = SampleBucket
		s.N = p.exprAt(bindComparison)
		p.expect("OUT")
		p.expect("OF")
		s.Of = p.exprAt(bindComparison)
	} else {
		s.N = p.exprAt(bindComparison)
		switch {
		case p.accept("PERCENT"):
			s.Kind = SamplePercent
		case p.accept("ROWS"):
			s.Kind = SampleRows
		default:
			p.unexpected("PERCENT", "ROWS")
		}
	}
	p.expect(")")
	s.Span = p.from(start)
	return s
}

func (p *parser) lateralView() LateralView {
	start := p.next().start
	p.expect("VIEW")
	v := LateralView{Outer: p.accept("OUTER")}
	name := p.name("function")
	v.Call = p.call(name)
	if p.aliasAhead() {
		p.alias = p.pos
		id := p.ident("table")
		v.Table = &id
	}
	if p.accept("AS") {
		if p.is("(") {
			v.Columns = p.identList("column")
		} else {
			v.Columns = []Ident{p.ident("column")}
			for p.is(",") && isName(p.at(1)) {
				p.next()
				v.Columns = append(v.Columns, p.ident("column"))
			}
		}
	}
	v.Span = p.from(start)
	return v
}
