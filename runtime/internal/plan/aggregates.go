package plan

import (
	"strconv"

	"github.com/streamd-io/streamd/actors/operator/aggregate"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// aggFunc is what the planner knows of an aggregate function beyond what package
// aggregate does: how it is called.
type aggFunc struct {
	min, max int
	// coerce casts arguments in place; nil leaves them.
	coerce func(args []expr.Node) *sql.Error
	// nulls tells that IGNORE NULLS applies.
	nulls bool
}

// aggregateOf returns how an aggregate function is called.
func aggregateOf(name string) (aggFunc, bool) {
	switch name {
	case "count":
		return aggFunc{min: 1, max: 16}, true
	case "sum", "avg", "mean", "try_sum", "try_avg":
		return aggFunc{min: 1, max: 1, coerce: numbers}, true
	case "min", "max", "approx_count_distinct", "collect_list", "array_agg", "collect_set", "mode":
		return aggFunc{min: 1, max: 1}, true
	case "first", "first_value", "last", "last_value", "any_value":
		return aggFunc{min: 1, max: 2, nulls: true}, true
	case "count_if", "bool_and", "every", "bool_or", "some", "any":
		return aggFunc{min: 1, max: 1, coerce: conditions}, true
	case "stddev", "std", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "skewness", "kurtosis", "median":
		return aggFunc{min: 1, max: 1, coerce: numbers}, true
	case "min_by", "max_by", "corr", "covar_pop", "covar_samp":
		return aggFunc{min: 2, max: 2}, true
	case "percentile", "approx_percentile", "percentile_approx":
		return aggFunc{min: 2, max: 3}, true
	case "grouping", "grouping_id":
		return aggFunc{min: 0, max: 16}, true
	}
	return aggFunc{}, false
}

func isAggregate(name string) bool {
	_, ok := aggregateOf(name)
	return ok
}

// aggregateNames are the names for suggestions.
func aggregateNames() []string {
	return []string{
		"count", "sum", "avg", "min", "max", "first", "last", "any_value", "count_if", "bool_and", "bool_or",
		"stddev", "stddev_pop", "variance", "var_pop", "collect_list", "collect_set",
	}
}

// numbers casts strings and NULL to double, as an ANSI sum of strings does.
func numbers(args []expr.Node) *sql.Error {
	t := args[0].Type()
	if t.Kind == messages.String || t.Kind == messages.Null {
		n, err := expr.NewCast(args[0], messages.T(messages.Double), false)
		if err == nil {
			args[0] = n
		}
		return err
	}
	if !t.Kind.IsNumeric() {
		return fail(expr.ClassMismatch, sql.Span{}, "it needs a number, not "+t.String())
	}
	return nil
}

// conditions casts NULL to boolean.
func conditions(args []expr.Node) *sql.Error {
	switch t := args[0].Type(); t.Kind {
	case messages.Boolean:
		return nil
	case messages.Null:
		args[0] = expr.NullOf(messages.T(messages.Boolean))
		return nil
	default:
		return fail(expr.ClassMismatch, sql.Span{}, "it needs a boolean, not "+t.String())
	}
}

// aggCall understands a call of an aggregate over the columns of in.
func (a *analyzer) aggCall(c *sql.Call, f aggFunc, s expr.Scope, hook hook) (*AggCall, *sql.Error) {
	name := callName(c)
	if name == "count" && len(c.Args) > 1 && !c.Distinct {
		c = countComplete(c)
	}
	call := &AggCall{Name: name, Distinct: c.Distinct, IgnoreNulls: c.IgnoreNulls, Span: c.Span}
	inside := func(e sql.Expr) (expr.Node, bool, *sql.Error) {
		if n, ok := e.(*sql.Call); ok && isAggregate(callName(n)) && n.Over == nil {
			return nil, false, hinted(fail(ClassNestedAggregate, n.Span, "an aggregate cannot be the argument of an aggregate"),
				"compute the inner one in a subquery")
		}
		return hook(e)
	}
	if len(c.Args) < f.min || len(c.Args) > f.max {
		return nil, fail(expr.ClassWrongNumArgs, c.Span, name+" takes "+counts(f.min, f.max)+", not "+strconv.Itoa(len(c.Args)))
	}
	if c.IgnoreNulls && !f.nulls {
		return nil, fail(ClassAnalysis, c.Span, "IGNORE NULLS does not apply to "+name+"()")
	}
	for _, arg := range c.Args {
		if star, ok := arg.(*sql.Star); ok && name == "count" && len(c.Args) == 1 && len(star.Except) == 0 {
			continue
		}
		n, err := a.resolve(arg, s, inside)
		if err != nil {
			return nil, err
		}
		call.Args = append(call.Args, n)
	}
	if c.Filter != nil {
		n, err := a.resolve(c.Filter, s, inside)
		if err != nil {
			return nil, err
		}
		if k := n.Type().Kind; k != messages.Boolean && k != messages.Null {
			return nil, fail(ClassNotBoolean, c.Filter.Loc(), "the condition of FILTER is of type "+n.Type().String()+", not boolean")
		}
		call.Filter = n
	}
	return call, a.typeOf(call, f, c)
}

// typeOf fixes the type of a call.
func (a *analyzer) typeOf(call *AggCall, f aggFunc, c *sql.Call) *sql.Error {
	if f.nulls && len(call.Args) == 2 {
		lit, _ := expr.Fold(call.Args[1], expr.Options{}).(*expr.Literal)
		if lit == nil || lit.Type().Kind != messages.Boolean {
			return fail(expr.ClassMismatch, c.Args[1].Loc(), "the second argument of "+call.Name+"() must be true or false")
		}
		yes, _ := lit.Truth()
		call.IgnoreNulls = call.IgnoreNulls || yes
		call.Args = call.Args[:1]
	}
	if f.coerce != nil {
		if err := f.coerce(call.Args); err != nil {
			err.Span, err.Msg = c.Span, call.Name+"(): "+err.Msg
			return err
		}
	}
	if len(call.Args) > 1 {
		return notYet(c.Span, call.Name+"() with several arguments")
	}
	var arg messages.Type
	if call.Name == "count" && len(call.Args) == 1 && !call.Distinct {
		if lit, ok := call.Args[0].(*expr.Literal); ok && !lit.IsNull() {
			call.Args = nil // count(1) counts rows
		}
	}
	if len(call.Args) > 0 {
		arg = call.Args[0].Type()
		if arg.Kind == messages.Null {
			call.Args[0], arg = expr.NullOf(messages.T(messages.Int)), messages.T(messages.Int)
		}
	}
	t, ok := aggregate.Result(call.Name, arg)
	switch {
	case ok:
		call.Type = t
		return nil
	case hasMap(arg):
		return fail(expr.ClassMismatch, c.Span, call.Name+"(): values of type "+arg.String()+" have no order")
	}
	return notYet(c.Span, "the aggregate "+call.Name+"("+arg.String()+")")
}

// countComplete turns count(a, b), which counts the rows where all arguments have
// a value, into count(*) FILTER (WHERE a IS NOT NULL AND b IS NOT NULL).
func countComplete(c *sql.Call) *sql.Call {
	out := *c
	out.Args = []sql.Expr{&sql.Star{Span: c.Span}}
	for _, arg := range c.Args {
		var test sql.Expr = &sql.Is{Span: arg.Loc(), X: arg, Test: sql.IsNull, Not: true}
		if out.Filter != nil {
			test = &sql.Binary{Span: c.Span, Op: sql.And, Left: out.Filter, Right: test, OpSpan: arg.Loc()}
		}
		out.Filter = test
	}
	return &out
}

func counts(lo, hi int) string {
	switch {
	case lo == hi && lo == 1:
		return "1 argument"
	case lo == hi:
		return strconv.Itoa(lo) + " arguments"
	}
	return strconv.Itoa(lo) + " to " + strconv.Itoa(hi) + " arguments"
}

// key is a text that equal calls share.
func (c *AggCall) key() string {
	k := c.Name
	if c.Distinct {
		k += " distinct"
	}
	if c.IgnoreNulls {
		k += " ignore nulls"
	}
	for _, n := range c.Args {
		k += " " + expr.Key(n)
	}
	if c.Filter != nil {
		k += " filter " + expr.Key(c.Filter)
	}
	return k
}
