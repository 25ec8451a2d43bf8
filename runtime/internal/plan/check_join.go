package plan

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// join checks a join with a stream. What no stream can do is refused for good, the
// rest as not supported yet.
func (c *checker) join(n *Join) {
	left, right := Streaming(n.Left), Streaming(n.Right)
	e := c.staticJoin(n, left)
	if left && right {
		e = c.streamJoin(n)
	}
	if e == nil {
		what := "a join of a stream and a static table"
		if left && right {
			what = withArticle(n) + " of two streams"
		}
		e = notYet(n.span, what)
	}
	c.report(e)
}

// withArticle names the kind of a join.
func withArticle(n *Join) string {
	word := strings.ToLower(n.Kind.String()) + " join"
	if n.Kind == sql.InnerJoin {
		return "an " + word
	}
	return "a " + word
}

// staticJoin checks a join of a stream and a static table: rows of the static side
// cannot be kept for being without partner, as that is never final.
func (c *checker) staticJoin(n *Join, streamLeft bool) *sql.Error {
	keeps := n.Kind == sql.FullJoin
	switch n.Kind {
	case sql.LeftJoin, sql.LeftSemiJoin, sql.LeftAntiJoin:
		keeps = !streamLeft
	case sql.RightJoin:
		keeps = streamLeft
	default:
	}
	if !keeps {
		return nil
	}
	return hinted(fail(ClassUnsupported, n.span, withArticle(n)+" that keeps rows of the static side is not supported: they would never be final"),
		"put the stream on the side that is kept")
}

// streamJoin checks a join of two streams.
func (c *checker) streamJoin(n *Join) *sql.Error {
	what := withArticle(n) + " of two streams"
	switch {
	case c.mode != Append:
		return hinted(fail(ClassUnsupported, n.span, what+" is not supported in "+c.mode.String()+" mode"), "use append mode")
	case n.Kind == sql.LeftAntiJoin:
		return fail(ClassUnsupported, n.span, what+" is not supported: that a row has no partner is never final")
	case n.Kind == sql.InnerJoin || n.Kind == sql.CrossJoin:
		return nil
	}
	kept := len(n.Left.Columns())
	j := &joinTimes{cols: append(slices.Clone(n.Left.Columns()), n.Right.Columns()...), left: kept, keepsRight: n.Kind == sql.RightJoin}
	j.conjuncts(n.On)
	if j.inKeys || j.bounded {
		return nil
	}
	return hinted(fail(ClassUnsupported, n.span, what+" is not supported without a watermark in the join keys, or a watermark on the other side and a range condition: "+
		"that a row has no partner would never be known"),
		"add the event time to the join keys, or a condition such as a.ts > b.ts - INTERVAL 10 SECONDS that bounds the kept side from below")
}

// joinTimes looks through a join condition for what makes rows final.
type joinTimes struct {
	cols       []Column // of both sides
	left       int      // how many are of the left side
	keepsRight bool     // the right side is the one kept
	inKeys     bool     // an equality compares event time
	bounded    bool     // the kept side's event time has a lower bound by the other's
}

// conjuncts visits the conditions that must all hold.
func (j *joinTimes) conjuncts(n expr.Node) {
	f, ok := n.(*expr.FuncCall)
	if !ok || len(f.Args) != 2 {
		return
	}
	switch f.Func.Name {
	case "and":
		j.conjuncts(f.Args[0])
		j.conjuncts(f.Args[1])
	case "=", "<=>":
		for _, a := range f.Args {
			if c, ok := a.(*expr.Column); ok && j.cols[c.Index].Time != NotTime {
				j.inKeys = true
			}
		}
	case ">", ">=":
		j.greater(f.Args[0], f.Args[1])
	case "<", "<=":
		j.greater(f.Args[1], f.Args[0])
	}
}

// greater notes that large is not smaller than small: where small is event time,
// its watermark says when no smaller value of large can find a partner any more.
func (j *joinTimes) greater(large, small expr.Node) {
	a, b := j.time(large), j.time(small)
	if a < 0 || b < 0 || j.cols[b].Time != EventTime || (a < j.left) == (b < j.left) {
		return
	}
	j.bounded = j.bounded || (a >= j.left) == j.keepsRight
}

// time returns the timestamp column behind a constant shift, -1 if there is none.
func (j *joinTimes) time(n expr.Node) int {
	switch n := n.(type) {
	case *expr.Column:
		if n.Of.Kind == messages.Timestamp || n.Of.Kind == messages.TimestampNTZ {
			return n.Index
		}
	case *expr.Cast:
		return j.time(n.X)
	case *expr.FuncCall:
		if len(n.Args) == 2 && n.Of.Kind == messages.Timestamp && len(expr.Columns(n.Args[1])) == 0 {
			return j.time(n.Args[0])
		}
	default:
	}
	return -1
}
