package sql

import "testing"

func TestSpansCoverTheTextOfANode(t *testing.T) {
	src := "SELECT (a + b) * c AS x, count(*) FILTER (WHERE d) FROM ((t u)) JOIN v w ON (t.a) = w.a WHERE NOT (a IN (1)) ORDER BY (a) DESC"
	stmt, err := ParseStatement(src)
	if err != nil {
		t.Fatal(err)
	}
	q := stmt.(*SelectStatement).Query
	s := q.Body.(*Select)
	product := s.Items[0].Expr.(*Binary)
	join := s.From.(*Join)
	tests := []struct {
		node Node
		want string
	}{
		{stmt, src},
		{s.Items[0], "(a + b) * c AS x"},
		{product, "(a + b) * c"},
		{product.OpSpan, "*"},
		{product.Left, "a + b"},
		{product.Left.(*Binary).Left, "a"},
		{s.Items[1].Expr, "count(*) FILTER (WHERE d)"},
		{join, "((t u)) JOIN v w ON (t.a) = w.a"},
		{join.Left, "t u"},
		{join.Right, "v w"},
		{join.On, "(t.a) = w.a"},
		{s.Where, "NOT (a IN (1))"},
		{q.OrderBy[0], "(a) DESC"},
	}
	for _, tt := range tests {
		if got := tt.node.Loc().In(src); got != tt.want {
			t.Errorf("%T: got %q, want %q", tt.node, got, tt.want)
		}
	}
}
