package sql

func (p *printer) query(q *Query) {
	for i, c := range q.With {
		if i == 0 {
			p.str("WITH ")
		} else {
			p.str(", ")
		}
		p.name(c.Name.Name)
		p.nameList(c.Columns)
		p.str(" AS ")
		p.subquery(c.Query)
	}
	p.when(len(q.With) > 0, " ")
	p.body(q.Body)
	p.sortClause(" ORDER BY ", q.OrderBy)
	p.sortClause(" SORT BY ", q.SortBy)
	p.exprClause(" DISTRIBUTE BY ", q.DistributeBy)
	p.exprClause(" CLUSTER BY ", q.ClusterBy)
	if q.Limit != nil {
		p.str(" LIMIT ")
		p.expr(q.Limit, bindAny)
	}
	if q.Offset != nil {
		p.str(" OFFSET ")
		p.expr(q.Offset, bindAny)
	}
}

// subquery writes a query in parentheses.
func (p *printer) subquery(q *Query) {
	p.str("(")
	p.query(q)
	p.str(")")
}

func (p *printer) sortClause(words string, items []SortItem) {
	if len(items) == 0 {
		return
	}
	p.str(words)
	for i, s := range items {
		p.when(i > 0, ", ")
		p.sortItem(s)
	}
}

func (p *printer) sortItem(s SortItem) {
	p.expr(s.Expr, bindAny)
	p.when(s.Desc, " DESC")
	p.when(s.Nulls == NullsFirst, " NULLS FIRST")
	p.when(s.Nulls == NullsLast, " NULLS LAST")
}

func (p *printer) exprClause(words string, list []Expr) {
	if len(list) > 0 {
		p.str(words)
		p.exprs(list)
	}
}

func (p *printer) body(b QueryBody) {
	switch b := b.(type) {
	case *Select:
		p.selectBlock(b)
	case *SetOperation:
		p.operand(b.Left, b.Op, false)
		p.str(" " + b.Op.String() + " ")
		p.when(b.All, "ALL ")
		p.operand(b.Right, b.Op, true)
	case *Values:
		p.str("VALUES ")
		for i, row := range b.Rows {
			p.when(i > 0, ", ")
			p.str("(")
			p.exprs(row)
			p.str(")")
		}
	case *Query:
		p.subquery(b)
	}
}

// operand writes an operand of a set operator.
func (p *printer) operand(b QueryBody, parent SetOp, right bool) {
	inner, ok := b.(*SetOperation)
	if !ok {
		p.body(b)
		return
	}
	stronger := inner.Op == Intersect && parent != Intersect
	sameLevel := (inner.Op == Intersect) == (parent == Intersect)
	if stronger || sameLevel && !right {
		p.body(b)
		return
	}
	p.str("(")
	p.body(b)
	p.str(")")
}

func (p *printer) selectBlock(s *Select) {
	p.str("SELECT ")
	p.when(s.Distinct, "DISTINCT ")
	for i, item := range s.Items {
		p.when(i > 0, ", ")
		p.selectItem(item)
	}
	if s.From != nil {
		p.str(" FROM ")
		p.relation(s.From)
		for _, v := range s.LateralViews {
			p.lateralView(v)
		}
	}
	if s.Where != nil {
		p.str(" WHERE ")
		p.expr(s.Where, bindAny)
	}
	if s.GroupBy != nil {
		p.groupBy(s.GroupBy)
	}
	if s.Having != nil {
		p.str(" HAVING ")
		p.expr(s.Having, bindAny)
	}
	for i, w := range s.Windows {
		if i == 0 {
			p.str(" WINDOW ")
		} else {
			p.str(", ")
		}
		p.name(w.Name.Name)
		p.str(" AS ")
		p.window(w.Window)
	}
}

func (p *printer) selectItem(item SelectItem) {
	p.expr(item.Expr, bindAny)
	switch len(item.Aliases) {
	case 0:
	case 1:
		p.str(" AS ")
		p.name(item.Aliases[0].Name)
	default:
		p.str(" AS ")
		p.nameList(item.Aliases)
	}
}

func (p *printer) lateralView(v LateralView) {
	p.str(" LATERAL VIEW ")
	p.when(v.Outer, "OUTER ")
	p.call(v.Call, true)
	if v.Table != nil {
		p.str(" ")
		p.name(v.Table.Name)
	}
	if len(v.Columns) > 0 {
		p.str(" AS ")
		p.names(v.Columns, ", ")
	}
}

func (p *printer) groupBy(g *GroupBy) {
	p.str(" GROUP BY ")
	p.when(g.All, "ALL")
	for i, item := range g.Items {
		p.when(i > 0, ", ")
		if item.Kind == PlainGrouping {
			p.expr(item.Expr, bindAny)
			continue
		}
		p.str(item.Kind.String() + " (")
		for j, set := range item.Sets {
			p.when(j > 0, ", ")
			p.when(len(set) != 1, "(")
			p.exprs(set)
			p.when(len(set) != 1, ")")
		}
		p.str(")")
	}
	p.when(g.With != PlainGrouping, " WITH "+g.With.String())
}

func (p *printer) relation(r Relation) {
	switch r := r.(type) {
	case *TableRef:
		p.when(r.Stream, "STREAM ")
		p.names(r.Name.Parts, ".")
		p.relationSuffix(r.Sample, r.Watermark, r.Alias)
	case *DerivedTable:
		p.when(r.Lateral, "LATERAL ")
		p.subquery(r.Query)
		p.relationSuffix(r.Sample, r.Watermark, r.Alias)
	case *TableFunc:
		p.when(r.Lateral, "LATERAL ")
		p.call(r.Call, true)
		p.relationSuffix(nil, nil, r.Alias)
	case *Join:
		p.relation(r.Left)
		p.when(r.Kind != InnerJoin, " "+r.Kind.String())
		p.str(" JOIN ")
		_, nested := r.Right.(*Join)
		p.when(nested, "(")
		p.relation(r.Right)
		p.when(nested, ")")
		if r.On != nil {
			p.str(" ON ")
			p.expr(r.On, bindAny)
		}
		if len(r.Using) > 0 {
			p.str(" USING ")
			p.nameList(r.Using)
		}
	}
}

func (p *printer) relationSuffix(s *Sample, w *WatermarkClause, a *TableAlias) {
	if s != nil {
		p.str(" TABLESAMPLE (")
		p.when(s.Kind == SampleBucket, "BUCKET ")
		p.expr(s.N, bindComparison)
		switch s.Kind {
		case SamplePercent:
			p.str(" PERCENT)")
		case SampleRows:
			p.str(" ROWS)")
		case SampleBucket:
			p.str(" OUT OF ")
			p.expr(s.Of, bindComparison)
			p.str(")")
		}
	}
	if w != nil {
		p.str(" WATERMARK ")
		p.simple(w.Expr)
		if w.Alias != nil {
			p.str(" AS ")
			p.name(w.Alias.Name)
		}
		p.str(" DELAY OF ")
		p.interval(w.Delay)
	}
	if a != nil {
		p.str(" AS ")
		p.name(a.Name.Name)
		p.nameList(a.Columns)
	}
}
