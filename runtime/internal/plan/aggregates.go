package plan

import (
	"slices"
	"strconv"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/expr"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// aggregate is what the planner knows of an aggregate function.
type aggregate struct {
	min, max int
	// bind gives the type of the result, after casting arguments in place. Nil
	// means the type of the first argument.
	bind func(args []expr.Node) (messages.Type, *sql.Error)
	// constants is the number of trailing arguments that must be constants.
	constants int
	// nulls tells that IGNORE NULLS applies.
	nulls bool
}

// aggregateOf returns what is known of a function.
func aggregateOf(name string) (aggregate, bool) {
	switch name {
	case "count":
		return aggregate{min: 1, max: 16, bind: fixedType(messages.BigInt)}, true
	case "sum", "try_sum":
		return aggregate{min: 1, max: 1, bind: sumType}, true
	case "avg", "mean", "try_avg":
		return aggregate{min: 1, max: 1, bind: avgType}, true
	case "min", "max":
		return aggregate{min: 1, max: 1, bind: ordered(0)}, true
	case "first", "first_value", "last", "last_value", "any_value":
		return aggregate{min: 1, max: 2, nulls: true, constants: 1}, true
	case "count_if":
		return aggregate{min: 1, max: 1, bind: booleans(messages.BigInt)}, true
	case "bool_and", "every", "bool_or", "some", "any":
		return aggregate{min: 1, max: 1, bind: booleans(messages.Boolean)}, true
	case "min_by", "max_by":
		return aggregate{min: 2, max: 2, bind: ordered(1)}, true
	case "approx_count_distinct":
		return aggregate{min: 1, max: 2, constants: 1, bind: fixedType(messages.BigInt)}, true
	case "stddev", "std", "stddev_samp", "stddev_pop", "variance", "var_samp", "var_pop", "skewness", "kurtosis":
		return aggregate{min: 1, max: 1, bind: doubles}, true
	case "corr", "covar_pop", "covar_samp":
		return aggregate{min: 2, max: 2, bind: doubles}, true
	case "collect_list", "array_agg", "collect_set":
		return aggregate{min: 1, max: 1, bind: func(args []expr.Node) (messages.Type, *sql.Error) {
			return messages.ArrayType(args[0].Type()), nil
		}}, true
	case "percentile", "approx_percentile", "percentile_approx", "median", "mode":
		return aggregate{min: 1, max: 3, bind: fixedType(messages.Double)}, true
	case "grouping", "grouping_id":
		return aggregate{min: 0, max: 16, bind: fixedType(messages.BigInt)}, true
	}
	return aggregate{}, false
}

func isAggregate(name string) bool {
	_, ok := aggregateOf(name)
	return ok
}

// aggregateNames are the names for suggestions.
func aggregateNames() []string {
	return []string{"count", "sum", "avg", "min", "max", "first", "last", "any_value", "count_if", "bool_and", "bool_or",
		"min_by", "max_by", "approx_count_distinct", "stddev", "stddev_pop", "variance", "var_pop", "collect_list", "collect_set"}
}

func fixedType(k messages.Kind) func([]expr.Node) (messages.Type, *sql.Error) {
	return func([]expr.Node) (messages.Type, *sql.Error) { return messages.T(k), nil }
}

// numeric casts a string argument to double, as an ANSI sum of strings does.
func numeric(args []expr.Node) (messages.Type, *sql.Error) {
	t := args[0].Type()
	if t.Kind == messages.String || t.Kind == messages.Null {
		n, err := expr.NewCast(args[0], messages.T(messages.Double), false)
		if err != nil {
			return t, err
		}
		args[0] = n
		return n.Type(), nil
	}
	if !t.Kind.IsNumeric() {
		return t, fail(expr.ClassMismatch, sql.Span{}, "it needs a number, not "+t.String())
	}
	return t, nil
}

func sumType(args []expr.Node) (messages.Type, *sql.Error) {
	t, err := numeric(args)
	switch {
	case err != nil:
		return t, err
	case t.Kind == messages.Decimal:
		return messages.DecimalType(min(t.Precision+10, 38), t.Scale), nil
	case t.Kind.IsInteger():
		return messages.T(messages.BigInt), nil
	}
	return messages.T(messages.Double), nil
}

func avgType(args []expr.Node) (messages.Type, *sql.Error) {
	t, err := numeric(args)
	if err == nil && t.Kind == messages.Decimal {
		whole := min(int(t.Precision)-int(t.Scale), 38)
		scale := int(t.Scale) + 4
		if whole+scale > 38 {
			scale = max(38-whole, min(scale, 6))
		}
		return messages.DecimalType(uint8(min(whole+scale, 38)), uint8(scale)), nil
	}
	return messages.T(messages.Double), err
}

func ordered(by int) func([]expr.Node) (messages.Type, *sql.Error) {
	return func(args []expr.Node) (messages.Type, *sql.Error) {
		if t := args[by].Type(); t.Kind == messages.Map {
			return t, fail(expr.ClassMismatch, sql.Span{}, "values of type "+t.String()+" have no order")
		}
		return args[0].Type(), nil
	}
}

func booleans(k messages.Kind) func([]expr.Node) (messages.Type, *sql.Error) {
	return func(args []expr.Node) (messages.Type, *sql.Error) {
		if t := args[0].Type(); t.Kind != messages.Boolean && t.Kind != messages.Null {
			return t, fail(expr.ClassMismatch, sql.Span{}, "it needs a boolean, not "+t.String())
		}
		return messages.T(k), nil
	}
}

func doubles(args []expr.Node) (messages.Type, *sql.Error) {
	for i := range args {
		t, err := numeric(args[i : i+1])
		if err != nil {
			return t, err
		}
		if t.Kind != messages.Double {
			n, err := expr.NewCast(args[i], messages.T(messages.Double), false)
			if err != nil {
				return t, err
			}
			args[i] = n
		}
	}
	return messages.T(messages.Double), nil
}

// aggCall understands a call of an aggregate over the columns of in.
func (a *analyzer) aggCall(c *sql.Call, f aggregate, s expr.Scope, hook hook) (*AggCall, *sql.Error) {
	name := callName(c)
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
func (a *analyzer) typeOf(call *AggCall, f aggregate, c *sql.Call) *sql.Error {
	if f.nulls && len(call.Args) == 2 {
		lit, _ := expr.Fold(call.Args[1], expr.Options{}).(*expr.Literal)
		if lit == nil || lit.Type().Kind != messages.Boolean {
			return fail(expr.ClassMismatch, c.Args[1].Loc(), "the second argument of "+call.Name+"() must be true or false")
		}
		yes, _ := lit.Truth()
		call.IgnoreNulls = call.IgnoreNulls || yes
		call.Args = call.Args[:1]
	}
	if len(call.Args) == 0 || f.bind == nil {
		call.Type = messages.T(messages.BigInt)
		if len(call.Args) > 0 {
			call.Type = call.Args[0].Type()
		}
		return nil
	}
	call.Args = slices.Clone(call.Args)
	t, err := f.bind(call.Args)
	if err != nil {
		err.Span, err.Msg = c.Span, call.Name+"(): "+err.Msg
		return err
	}
	call.Type = t
	return nil
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
