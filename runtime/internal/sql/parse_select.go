package sql

// queryTailAhead reports whether a set operator or a clause of the whole query
// comes next.
func (p *parser) queryTailAhead() bool {
	return p.isAny("UNION", "INTERSECT", "EXCEPT", "MINUS", "ORDER", "LIMIT") || p.byClauseAhead() || p.offsetAhead()
}

// byClauseAhead reports whether SORT BY, CLUSTER BY or DISTRIBUTE BY comes next.
func (p *parser) byClauseAhead() bool {
	return p.isAny("SORT", "CLUSTER", "DISTRIBUTE") && p.at(1).is("BY")
}

// offsetAhead reports whether OFFSET comes next, behind which a number must stand.
func (p *parser) offsetAhead() bool {
	return p.is("OFFSET") && (p.at(1).kind == tokenNumber || p.at(1).is("(") || isName(p.at(1)) && !p.clauseAheadAt(1))
}

// query reads a query expression.
func (p *parser) query() *Query {
	p.enter()
	defer p.leave()
	start := p.peek().start
	q := &Query{}
	if p.accept("WITH") {
		q.With = []CTE{p.cte()}
		for p.accept(",") {
			q.With = append(q.With, p.cte())
		}
	}
	q.Body = p.setOperations(p.peek().start, p.queryTerm(), 1)
	p.queryTail(q)
	q.Span = p.from(start)
	return q
}

// queryFrom goes on with a query whose first term, in parentheses, has been read
// as a query of its own.
func (p *parser) queryFrom(start int, first *Query) *Query {
	q := &Query{Body: p.setOperations(start, unwrap(first), 1)}
	p.queryTail(q)
	q.Span = p.from(start)
	return q
}

// unwrap returns the body of a query in parentheses that has no clauses of its own.
func unwrap(q *Query) QueryBody {
	if q.With == nil && q.OrderBy == nil && q.SortBy == nil && q.DistributeBy == nil && q.ClusterBy == nil && q.Limit == nil && q.Offset == nil {
		return q.Body
	}
	return q
}

func (p *parser) cte() CTE {
	start := p.peek().start
	c := CTE{Name: p.ident("query in WITH")}
	if p.is("(") && !p.at(1).is("SELECT") && !p.at(1).is("WITH") && !p.at(1).is("VALUES") && !p.at(1).is("(") {
		c.Columns = p.identList("column")
	}
	p.accept("AS")
	p.expect("(")
	c.Query = p.query()
	p.expect(")")
	c.Span = p.from(start)
	return c
}

// setOperations reads set operators behind left, which begins at start. INTERSECT has level 2 and binds
// stronger than UNION and EXCEPT, level 1.
func (p *parser) setOperations(start int, left QueryBody, level int) QueryBody {
	for {
		op, power := Union, 1
		switch {
		case p.is("UNION"):
		case p.is("INTERSECT"):
			op, power = Intersect, 2
		case p.is("EXCEPT"), p.is("MINUS"):
			op = Except
		default:
			return left
		}
		if power < level {
			return left
		}
		p.next()
		s := &SetOperation{Op: op, All: p.accept("ALL"), Left: left}
		if !s.All {
			p.accept("DISTINCT")
		}
		right := p.peek().start
		s.Right = p.queryTerm()
		if power == 1 {
			s.Right = p.setOperations(right, s.Right, 2)
		}
		s.Span = p.from(start)
		left = s
	}
}

// queryTerm reads SELECT, VALUES or a query in parentheses.
func (p *parser) queryTerm() QueryBody {
	switch {
	case p.is("SELECT"):
		return p.selectBlock()
	case p.is("VALUES"):
		return p.values()
	case p.accept("("):
		q := p.query()
		p.expect(")")
		return unwrap(q)
	}
	p.unexpected("SELECT", "VALUES", "(")
	return nil
}

func (p *parser) values() *Values {
	start := p.next().start
	v := &Values{}
	for {
		row := p.expr()
		if r, ok := row.(*Row); ok {
			v.Rows = append(v.Rows, r.Items)
		} else {
			v.Rows = append(v.Rows, []Expr{row})
		}
		if !p.accept(",") {
			break
		}
	}
	v.Span = p.from(start)
	return v
}

// queryTail reads the clauses behind the body of a query.
func (p *parser) queryTail(q *Query) {
	for {
		switch {
		case p.is("ORDER") && q.OrderBy == nil:
			p.next()
			p.expect("BY")
			q.OrderBy = p.sortItems()
		case p.acceptSeq("SORT", "BY"):
			q.SortBy = append(q.SortBy, p.sortItems()...)
		case p.acceptSeq("DISTRIBUTE", "BY"):
			q.DistributeBy = append(q.DistributeBy, p.exprList()...)
		case p.acceptSeq("CLUSTER", "BY"):
			q.ClusterBy = append(q.ClusterBy, p.exprList()...)
		case p.is("LIMIT") && q.Limit == nil:
			p.next()
			if p.is("ALL") && !p.at(1).is("(") {
				p.next()
			} else {
				q.Limit = p.expr()
			}
		case p.is("OFFSET") && q.Offset == nil:
			p.next()
			q.Offset = p.expr()
		default:
			return
		}
	}
}

func (p *parser) sortItems() []SortItem {
	var items []SortItem
	for {
		start := p.peek().start
		s := SortItem{Expr: p.expr()}
		if p.accept("DESC") {
			s.Desc = true
		} else {
			p.accept("ASC")
		}
		if p.accept("NULLS") {
			switch {
			case p.accept("FIRST"):
				s.Nulls = NullsFirst
			case p.accept("LAST"):
				s.Nulls = NullsLast
			default:
				p.unexpected("FIRST", "LAST")
			}
		}
		s.Span = p.from(start)
		items = append(items, s)
		if !p.accept(",") {
			return items
		}
	}
}

// selectBlock reads one SELECT with its clauses.
func (p *parser) selectBlock() *Select {
	start := p.next().start
	s := &Select{}
	if p.accept("DISTINCT") {
		s.Distinct = true
	} else if p.is("ALL") && p.quantifierAhead() {
		p.next()
	}
	s.Items = []SelectItem{p.selectItem()}
	for p.accept(",") {
		s.Items = append(s.Items, p.selectItem())
	}
	if p.accept("FROM") {
		s.From = p.fromClause()
		for p.isSeq("LATERAL", "VIEW") {
			s.LateralViews = append(s.LateralViews, p.lateralView())
		}
	}
	if p.accept("WHERE") {
		s.Where = p.expr()
	}
	if p.is("GROUP") {
		s.GroupBy = p.groupBy()
	}
	if p.accept("HAVING") {
		s.Having = p.expr()
	}
	if p.isWindowClause(0) {
		s.Windows = p.windowClause()
	}
	if p.is("QUALIFY") {
		p.failAt(p.peek().span(), "QUALIFY is not supported", "filter in an outer query")
	}
	s.Span = p.from(start)
	return s
}

// isWindowClause reports whether WINDOW name AS stands n places ahead.
func (p *parser) isWindowClause(n int) bool {
	return p.at(n).is("WINDOW") && isName(p.at(n+1)) && p.at(n+2).is("AS")
}

func (p *parser) windowClause() []NamedWindow {
	p.next()
	var list []NamedWindow
	for {
		name := p.ident("window")
		p.expect("AS")
		w := p.windowRef()
		list = append(list, NamedWindow{Span: p.from(name.Start), Name: name, Window: w})
		if !p.accept(",") {
			return list
		}
	}
}

// selectItem reads one entry of a select list.
func (p *parser) selectItem() SelectItem {
	start := p.peek().start
	if e := p.starAhead(); e != nil {
		return SelectItem{Span: e.Loc(), Expr: e}
	}
	item := SelectItem{Expr: p.expr()}
	switch {
	case p.accept("AS"):
		if p.is("(") {
			item.Aliases = p.identList("column")
		} else {
			item.Aliases = []Ident{p.ident("column")}
		}
	case p.aliasAhead():
		p.alias = p.pos
		item.Aliases = []Ident{p.ident("column")}
	}
	item.Span = p.from(start)
	return item
}

// aliasAhead reports whether the next token is an alias written without AS.
func (p *parser) aliasAhead() bool { return isName(p.peek()) && !p.clauseAheadAt(0) }

// clauseAheadAt reports whether a clause that begins with a word that is no
// reserved one stands n places ahead.
func (p *parser) clauseAheadAt(n int) bool {
	t, after := p.at(n), p.at(n+1)
	switch t.text {
	case "OFFSET", "QUALIFY":
		return t.kind == tokenWord
	case "SORT", "CLUSTER", "DISTRIBUTE":
		return after.is("BY")
	case "SEMI", "ANTI":
		return after.is("JOIN")
	case "TABLESAMPLE", "PIVOT", "UNPIVOT":
		return after.is("(")
	case "WINDOW":
		return p.isWindowClause(n)
	case "WATERMARK":
		return isName(after) || after.is("(")
	}
	return false
}

func (p *parser) groupBy() *GroupBy {
	start := p.next().start
	p.expect("BY")
	g := &GroupBy{}
	if p.is("ALL") && !p.quantifierAhead() && !p.at(1).is(".") && !p.at(1).is(",") && !p.at(1).is("(") && !p.at(1).is("[") {
		if _, power := binaryOp(p.at(1)); power == 0 {
			p.next()
			g.All = true
			g.Span = p.from(start)
			return g
		}
	}
	for {
		g.Items = append(g.Items, p.groupItem())
		if p.isSeq("GROUPING", "SETS") {
			g.Items = append(g.Items, p.groupItem())
		}
		if !p.accept(",") {
			break
		}
	}
	switch {
	case p.acceptSeq("WITH", "ROLLUP"):
		g.With = Rollup
	case p.acceptSeq("WITH", "CUBE"):
		g.With = Cube
	}
	g.Span = p.from(start)
	return g
}

func (p *parser) groupItem() GroupItem {
	start := p.peek().start
	item := GroupItem{}
	switch {
	case p.isSeq("ROLLUP", "("):
		item.Kind = Rollup
		p.next()
	case p.isSeq("CUBE", "("):
		item.Kind = Cube
		p.next()
	case p.isSeq("GROUPING", "SETS", "("):
		item.Kind = GroupingSets
		p.acceptSeq("GROUPING", "SETS")
	default:
		item.Expr = p.expr()
		item.Span = item.Expr.Loc()
		return item
	}
	p.expect("(")
	for {
		item.Sets = append(item.Sets, p.groupingSet())
		if !p.accept(",") {
			break
		}
	}
	p.expect(")")
	item.Span = p.from(start)
	return item
}

// groupingSet reads (), (a, b) or a.
func (p *parser) groupingSet() []Expr {
	if p.acceptSeq("(", ")") {
		return []Expr{}
	}
	e := p.expr()
	if r, ok := e.(*Row); ok {
		return r.Items
	}
	return []Expr{e}
}
