package expr

import (
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// ResolveOptions say how names and constants are understood.
type ResolveOptions struct {
	// Registry has the functions; nil means Builtins.
	Registry *Registry
	// Zone is the time zone of timestamp constants that name none; nil is UTC.
	Zone *time.Location
	// Hook is asked for every node of the syntax tree before Resolve looks at it. If
	// handled is true its node is taken: this is how the planner resolves aggregates,
	// window(), generators and subqueries. It may be nil.
	Hook func(e sql.Expr) (n Node, handled bool, err *sql.Error)
	// OtherFunctions are names that exist elsewhere (aggregates), for suggestions.
	OtherFunctions []string
}

// Resolve binds the names of e to columns and functions and fixes all types. Errors
// have Spark's classes and the place in the text.
func Resolve(e sql.Expr, scope Scope, opts ResolveOptions) (Node, *sql.Error) {
	if opts.Registry == nil {
		opts.Registry = builtin
	}
	r := &resolver{scope: scope, opts: opts}
	return r.expr(e)
}

type resolver struct {
	scope   Scope
	opts    ResolveOptions
	lambdas []lambdaScope
}

func (r *resolver) expr(e sql.Expr) (Node, *sql.Error) {
	if r.opts.Hook != nil {
		if n, handled, err := r.opts.Hook(e); handled || err != nil {
			return n, placed(err, e.Loc())
		}
	}
	n, err := r.dispatch(e)
	return n, placed(err, e.Loc())
}

func (r *resolver) dispatch(e sql.Expr) (Node, *sql.Error) {
	switch e := e.(type) {
	case *sql.ColumnRef:
		if n := r.parameter(e); n != nil {
			return r.fields(n, e.Parts[1:])
		}
		return r.scope.lookup(r.opts.Registry, e.Parts)
	case *sql.NullLit:
		return NullOf(messages.T(messages.Null)), nil
	case *sql.BoolLit:
		return Bool(e.Value), nil
	case *sql.NumberLit:
		return number(e.Kind, e.Text)
	case *sql.StringLit:
		return String(e.Value), nil
	case *sql.BinaryLit:
		return Binary(e.Value), nil
	case *sql.TypedLit:
		return r.typed(e)
	case *sql.IntervalLit:
		return intervalLiteral(e), nil
	case *sql.Unary:
		return r.unary(e)
	case *sql.Binary:
		return r.apply(binaryName(e.Op), e.Left, e.Right)
	case *sql.Case:
		return r.caseExpr(e)
	case *sql.Cast:
		return r.cast(e)
	case *sql.Call:
		return r.call(e)
	case *sql.Index:
		return r.apply("[]", e.X, e.Index)
	case *sql.FieldAccess:
		x, err := r.expr(e.X)
		if err != nil {
			return nil, err
		}
		return fieldOf(r.opts.Registry, x, e.Field)
	default:
		return r.predicate(e)
	}
}

// predicate resolves what the grammar has beyond operators and calls.
func (r *resolver) predicate(e sql.Expr) (Node, *sql.Error) {
	switch e := e.(type) {
	case *sql.Between:
		return r.between(e)
	case *sql.In:
		n, err := r.apply("in", append([]sql.Expr{e.X}, e.List...)...)
		return r.negated(n, err, e.Not)
	case *sql.LikeExpr:
		return r.like(e)
	case *sql.LikeList:
		return r.likeList(e)
	case *sql.Is:
		return r.is(e)
	case *sql.IsDistinct:
		n, err := r.apply("<=>", e.Left, e.Right)
		return r.negated(n, err, !e.Not)
	case *sql.Extract:
		x, err := r.expr(e.From)
		if err != nil {
			return nil, err
		}
		return r.function("date_part", String(e.Field.Name), x)
	case *sql.Trim:
		return r.trim(e)
	case *sql.AtTimeZone:
		return r.apply("at time zone", e.X, e.Zone)
	case *sql.Row:
		return r.apply("struct", e.Items...)
	case *sql.Star:
		return nil, &sql.Error{Class: "INVALID_USAGE_OF_STAR_OR_REGEX", Msg: "* can only stand in a select list or in count(*)"}
	case *sql.Lambda:
		return nil, &sql.Error{Class: ClassUnsupported, Msg: "a lambda can only be an argument of a function that takes one"}
	default:
		return nil, &sql.Error{Class: ClassUnsupported, Msg: "a subquery cannot stand here"}
	}
}

// function calls a function of the registry with resolved arguments.
func (r *resolver) function(name string, args ...Node) (Node, *sql.Error) {
	return r.opts.Registry.call(name, args)
}

// apply resolves the arguments and calls a function.
func (r *resolver) apply(name string, args ...sql.Expr) (Node, *sql.Error) {
	nodes, err := r.all(args)
	if err != nil {
		return nil, err
	}
	return r.function(name, nodes...)
}

func (r *resolver) all(list []sql.Expr) ([]Node, *sql.Error) {
	out := make([]Node, len(list))
	for i, e := range list {
		n, err := r.expr(e)
		if err != nil {
			return nil, err
		}
		out[i] = n
	}
	return out, nil
}

func (r *resolver) fields(n Node, parts []sql.Ident) (Node, *sql.Error) {
	for _, p := range parts {
		var err *sql.Error
		if n, err = fieldOf(r.opts.Registry, n, p); err != nil {
			return nil, err
		}
	}
	return n, nil
}

func (r *resolver) negated(n Node, err *sql.Error, not bool) (Node, *sql.Error) {
	if err != nil || !not {
		return n, err
	}
	return r.function("not", n)
}

func binaryName(op sql.BinaryOp) string { return strings.ToLower(op.String()) }

func (r *resolver) unary(e *sql.Unary) (Node, *sql.Error) {
	switch e.Op {
	case sql.Not:
		return r.apply("not", e.X)
	case sql.Plus:
		return r.apply("positive", e.X)
	case sql.BitNot:
		return r.apply("~", e.X)
	case sql.Minus: // a literal takes the sign in: -128Y is a TINYINT, 128Y is not
	}
	if lit, ok := e.X.(*sql.NumberLit); ok && !strings.HasPrefix(lit.Text, "-") {
		return number(lit.Kind, "-"+lit.Text)
	}
	return r.apply("negative", e.X)
}

// number is a number constant; text may have a sign.
func number(kind sql.NumberKind, text string) (Node, *sql.Error) {
	switch kind {
	case sql.Number:
		if v, err := strconv.ParseInt(text, 10, 64); err == nil {
			if v == int64(int32(v)) {
				return Int(int32(v)), nil
			}
			return BigInt(v), nil
		}
		return decimalLiteral(text)
	case sql.Decimal:
		return decimalLiteral(text)
	case sql.Float, sql.Double:
		bitSize := 64
		if kind == sql.Float {
			bitSize = 32
		}
		v, err := strconv.ParseFloat(text, bitSize)
		if err != nil {
			return nil, &sql.Error{Class: "INVALID_NUMERIC_LITERAL_RANGE", Msg: text + " is out of the range of its type"}
		}
		if kind == sql.Float {
			return Float(float32(v)), nil
		}
		return Double(v), nil
	default:
		return sizedInteger(kind, text)
	}
}

// sizedInteger is an integer constant whose suffix names its type.
func sizedInteger(kind sql.NumberKind, text string) (Node, *sql.Error) {
	sizes := map[sql.NumberKind]int{sql.TinyInt: 8, sql.SmallInt: 16, sql.BigInt: 64}
	v, err := strconv.ParseInt(text, 10, sizes[kind])
	if err != nil {
		return nil, &sql.Error{Class: "INVALID_NUMERIC_LITERAL_RANGE", Msg: text + " is out of the range of its type"}
	}
	switch kind {
	case sql.TinyInt:
		return literal(messages.T(messages.TinyInt), func(c *messages.Column) { c.AppendInt8(int8(v)) }), nil
	case sql.SmallInt:
		return literal(messages.T(messages.SmallInt), func(c *messages.Column) { c.AppendInt16(int16(v)) }), nil
	default:
		return BigInt(v), nil
	}
}

// decimalLiteral has exactly the digits that are written.
func decimalLiteral(text string) (Node, *sql.Error) {
	bad := &sql.Error{Class: "INVALID_NUMERIC_LITERAL_RANGE", Msg: text + " has more than 38 digits", Hint: "write it with an exponent for a double"}
	if len(text) > 400 {
		return nil, bad
	}
	x, ok := new(big.Rat).SetString(text)
	if !ok {
		return nil, &sql.Error{Class: sql.ClassSyntax, Msg: text + " is no number"}
	}
	mantissa, exp, _ := strings.Cut(strings.ToLower(text), "e")
	shift, _ := strconv.Atoi(exp) // absent or checked by SetString
	scale := max(0, -shift)
	if _, fraction, ok := strings.Cut(mantissa, "."); ok {
		scale = max(0, len(fraction)-shift)
	}
	if scale > maxPrecision {
		return nil, bad
	}
	x.Mul(x, new(big.Rat).SetInt(scaleBig(big.NewInt(1), scale)))
	v, ok := fromBig(x.Num())
	if !ok || digits(v) > maxPrecision {
		return nil, bad
	}
	return Decimal(v, uint8(max(digits(v), scale)), uint8(scale)), nil
}

// typed is DATE '...', TIMESTAMP '...' or TIMESTAMP_NTZ '...'.
func (r *resolver) typed(e *sql.TypedLit) (Node, *sql.Error) {
	text := raw(e.Text)
	switch e.Kind {
	case sql.DateType:
		if v, ok := parseDate(text); ok {
			return Date(v), nil
		}
	case sql.TimestampNTZType:
		if v, ok := parseLocalTimestamp(text); ok {
			return TimestampNTZ(v), nil
		}
	default:
		if v, ok := parseTimestamp(text, newZone(r.opts.Zone)); ok {
			return Timestamp(messages.EventTime(v)), nil
		}
	}
	return nil, &sql.Error{
		Class: ClassTypedLiteral, Msg: strconv.Quote(e.Text) + " is no " + e.Kind.String(),
		Hint: "write it as 2024-12-31 or 2024-12-31 23:59:59",
	}
}

func (r *resolver) between(e *sql.Between) (Node, *sql.Error) {
	nodes, err := r.all([]sql.Expr{e.X, e.Low, e.High})
	if err != nil {
		return nil, err
	}
	low, err := r.function(">=", nodes[0], nodes[1])
	if err != nil {
		return nil, err
	}
	high, err := r.function("<=", nodes[0], nodes[2])
	if err != nil {
		return nil, err
	}
	n, err := r.function("and", low, high)
	return r.negated(n, err, e.Not)
}

func (r *resolver) like(e *sql.LikeExpr) (Node, *sql.Error) {
	nodes, err := r.all([]sql.Expr{e.X, e.Pattern})
	if err != nil {
		return nil, err
	}
	if e.Escape != 0 {
		nodes = append(nodes, String(string(e.Escape)))
	}
	n, err := r.function(strings.ToLower(e.Op.String()), nodes...)
	return r.negated(n, err, e.Not)
}

func (r *resolver) likeList(e *sql.LikeList) (Node, *sql.Error) {
	x, err := r.expr(e.X)
	if err != nil {
		return nil, err
	}
	var out Node
	for _, p := range e.Patterns {
		pattern, err := r.expr(p)
		if err != nil {
			return nil, err
		}
		n, err := r.function(strings.ToLower(e.Op.String()), x, pattern)
		if n, err = r.negated(n, err, e.Not); err != nil {
			return nil, placed(err, p.Loc())
		}
		join := "or"
		if e.All {
			join = "and"
		}
		if out == nil {
			out = n
		} else if out, err = r.function(join, out, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (r *resolver) is(e *sql.Is) (Node, *sql.Error) {
	word := strings.ToLower(e.Test.String())
	if e.Test == sql.IsUnknown {
		word = "null"
	}
	if e.Not {
		word = "not " + word
	}
	return r.apply("is "+word, e.X)
}

func (r *resolver) caseExpr(e *sql.Case) (Node, *sql.Error) {
	var operand Node
	var err *sql.Error
	if e.Operand != nil {
		if operand, err = r.expr(e.Operand); err != nil {
			return nil, err
		}
	}
	var whens []When
	for _, w := range e.Whens {
		cond, err := r.expr(w.Cond)
		if err != nil {
			return nil, err
		}
		if operand != nil {
			if cond, err = r.function("=", operand, cond); err != nil {
				return nil, placed(err, w.Span)
			}
		}
		result, err := r.expr(w.Result)
		if err != nil {
			return nil, err
		}
		whens = append(whens, When{cond, result})
	}
	var last Node = NullOf(messages.T(messages.Null))
	if e.Else != nil {
		if last, err = r.expr(e.Else); err != nil {
			return nil, err
		}
	}
	b := &binding{reg: r.opts.Registry}
	return b.caseOf(whens, last)
}

func (r *resolver) cast(e *sql.Cast) (Node, *sql.Error) {
	x, err := r.expr(e.X)
	if err != nil {
		return nil, err
	}
	t, err := TypeOf(e.Type)
	if err != nil {
		return nil, err
	}
	n, err := NewCast(x, t, e.Try)
	return n, err
}

// NewCast is CAST(x AS t), or TRY_CAST with try, if there is such a cast.
func NewCast(x Node, t messages.Type, try bool) (Node, *sql.Error) {
	if !castAllowed(x.Type(), t) {
		return nil, &sql.Error{Class: ClassMismatch, Msg: "there is no cast from " + x.Type().String() + " to " + t.String()}
	}
	if lit, ok := x.(*Literal); ok && lit.IsNull() || x.Type().Equal(t) {
		return convert(x, t), nil
	}
	return &Cast{X: x, To: t, Try: try}, nil
}

func (r *resolver) trim(e *sql.Trim) (Node, *sql.Error) {
	args := []sql.Expr{e.From}
	if e.Chars != nil {
		args = append(args, e.Chars)
	}
	var side string
	switch e.Side {
	case sql.TrimBoth:
		side = "trim both"
	case sql.TrimLeading:
		side = "trim leading"
	case sql.TrimTrailing:
		side = "trim trailing"
	}
	return r.apply(side, args...)
}

// call resolves a function call.
func (r *resolver) call(e *sql.Call) (Node, *sql.Error) {
	name := strings.ToLower(e.Name.Base())
	f, ok := r.opts.Registry.Lookup(name)
	if !ok || len(e.Name.Parts) > 1 || !isWord(name) {
		return nil, placed(r.opts.Registry.unknown(e.Name.String(), r.opts.OtherFunctions), e.Name.Span)
	}
	if e.Distinct || e.Filter != nil || e.Over != nil || e.IgnoreNulls {
		return nil, &sql.Error{Class: ClassUnsupported, Msg: f.Name + " is no aggregate: DISTINCT, FILTER, OVER and IGNORE NULLS do not apply"}
	}
	var args []Node
	for i, a := range e.Args {
		n, err := r.argument(f, e, i, args)
		if err != nil {
			return nil, placed(err, a.Loc())
		}
		args = append(args, n)
	}
	if f.seeded && len(args) == 0 {
		// The place in the text tells two calls apart and is the same in every run.
		args = append(args, BigInt(int64(e.Start)))
	}
	return r.function(name, args...)
}

// argument resolves argument i of a call. Units of time are words, not columns.
func (r *resolver) argument(f *Function, e *sql.Call, i int, before []Node) (Node, *sql.Error) {
	if ref, ok := e.Args[i].(*sql.ColumnRef); ok && f.unitFirst && i == 0 && len(e.Args) == 3 && len(ref.Parts) == 1 {
		return String(ref.Parts[0].Name), nil
	}
	if l, ok := e.Args[i].(*sql.Lambda); ok && f.lambda != nil {
		return r.lambda(f, l, before)
	}
	return r.expr(e.Args[i])
}

// TypeOf returns the type that is written as t.
func TypeOf(t sql.TypeName) (messages.Type, *sql.Error) {
	switch t := t.(type) {
	case *sql.SimpleType:
		if t.Kind == sql.VoidType {
			return messages.T(messages.Null), nil
		}
		p, ok := plainType(t.Kind.String())
		if !ok {
			return p, &sql.Error{Class: ClassUnsupported, Msg: "the type " + t.Kind.String() + " is not supported", Span: t.Span}
		}
		return p, nil
	case *sql.DecimalType:
		return messages.DecimalType(uint8(t.Precision), uint8(t.Scale)), nil
	case *sql.IntervalType:
		return messages.T(messages.Interval), nil
	case *sql.ArrayType:
		e, err := TypeOf(t.Element)
		return messages.ArrayType(e), err
	case *sql.MapType:
		k, err := TypeOf(t.Key)
		if err != nil {
			return k, err
		}
		v, err := TypeOf(t.Value)
		return messages.MapType(k, v), err
	case *sql.StructType:
		fields := make([]messages.Field, len(t.Fields))
		for i, f := range t.Fields {
			ft, err := TypeOf(f.Type)
			if err != nil {
				return ft, err
			}
			fields[i] = messages.Field{Name: f.Name.Name, Type: ft}
		}
		return messages.StructType(fields...), nil
	}
	return messages.Type{}, &sql.Error{Class: ClassUnsupported, Msg: "the type is not supported", Span: t.Loc()}
}
