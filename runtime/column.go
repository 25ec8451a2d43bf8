package runtime

import (
	"encoding/hex"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Column is an expression over the columns of a DataFrame. It is a value; its
// methods return new expressions. What is wrong with an expression shows when
// the query is started.
//
// Columns are SQL expressions: everything SQL can say can be said with Expr.
type Column struct {
	text  string
	alias string
}

// Col is the column of that name; "a.b" is field b of column a, or column b of
// table a.
func Col(name string) Column {
	parts := strings.Split(name, ".")
	for i, p := range parts {
		parts[i] = quoteName(p)
	}
	return Column{text: strings.Join(parts, ".")}
}

func quoteName(s string) string { return "`" + strings.ReplaceAll(s, "`", "``") + "`" }

// Expr is an expression in SQL, for instance Expr("price * 2").
func Expr(sql string) Column { return Column{text: "(" + sql + ")"} }

// Lit is a constant: nil, a bool, an integer, a float, a string, a []byte, a
// time.Time (TIMESTAMP) or a time.Duration (INTERVAL). Other values are an error
// when the query is started.
func Lit(v any) Column { return Column{text: literal(v)} }

func literal(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case bool:
		return strconv.FormatBool(v)
	case int, int8, int16, int32, int64, uint8, uint16, uint32:
		return fmt.Sprint(v)
	case float32:
		return float(float64(v))
	case float64:
		return float(v)
	case string:
		return quote(v)
	case []byte:
		return "X'" + hex.EncodeToString(v) + "'"
	case time.Time:
		return "TIMESTAMP '" + v.UTC().Format("2006-01-02 15:04:05.000000Z") + "'"
	case time.Duration:
		return "INTERVAL '" + strconv.FormatInt(v.Microseconds(), 10) + "' MICROSECOND"
	case Column:
		return v.text
	default:
		return fmt.Sprintf("<%T is not a constant of a query>", v)
	}
}

func float(f float64) string {
	switch {
	case math.IsNaN(f):
		return "CAST('NaN' AS DOUBLE)"
	case math.IsInf(f, 1):
		return "CAST('Infinity' AS DOUBLE)"
	case math.IsInf(f, -1):
		return "CAST('-Infinity' AS DOUBLE)"
	}
	return strconv.FormatFloat(f, 'e', -1, 64) + "D"
}

func quote(s string) string {
	r := strings.NewReplacer(`\`, `\\`, `'`, `\'`, "\n", `\n`, "\r", `\r`, "\x00", `\0`)
	return "'" + r.Replace(s) + "'"
}

// As names the expression.
func (c Column) As(name string) Column { c.alias = name; return c }

func (c Column) item() string {
	if c.alias == "" {
		return c.text
	}
	return c.text + " AS " + quoteName(c.alias)
}

func (c Column) binary(op string, v any) Column {
	return Column{text: "(" + c.text + " " + op + " " + literal(v) + ")"}
}

// Eq is c = v, NULL if either is NULL.
func (c Column) Eq(v any) Column { return c.binary("=", v) }

// Ne is c <> v.
func (c Column) Ne(v any) Column { return c.binary("<>", v) }

// Lt is c < v.
func (c Column) Lt(v any) Column { return c.binary("<", v) }

// Le is c <= v.
func (c Column) Le(v any) Column { return c.binary("<=", v) }

// Gt is c > v.
func (c Column) Gt(v any) Column { return c.binary(">", v) }

// Ge is c >= v.
func (c Column) Ge(v any) Column { return c.binary(">=", v) }

// And is c AND v.
func (c Column) And(v Column) Column { return c.binary("AND", v) }

// Or is c OR v.
func (c Column) Or(v Column) Column { return c.binary("OR", v) }

// Not is NOT c.
func (c Column) Not() Column { return Column{text: "(NOT " + c.text + ")"} }

// Plus is c + v.
func (c Column) Plus(v any) Column { return c.binary("+", v) }

// Minus is c - v.
func (c Column) Minus(v any) Column { return c.binary("-", v) }

// Times is c * v.
func (c Column) Times(v any) Column { return c.binary("*", v) }

// Over is c / v.
func (c Column) Over(v any) Column { return c.binary("/", v) }

// Mod is c % v.
func (c Column) Mod(v any) Column { return c.binary("%", v) }

// IsNull is c IS NULL.
func (c Column) IsNull() Column { return Column{text: "(" + c.text + " IS NULL)"} }

// IsNotNull is c IS NOT NULL.
func (c Column) IsNotNull() Column { return Column{text: "(" + c.text + " IS NOT NULL)"} }

// Like is c LIKE pattern.
func (c Column) Like(pattern string) Column { return c.binary("LIKE", pattern) }

// In is c IN (values...).
func (c Column) In(values ...any) Column {
	parts := make([]string, len(values))
	for i, v := range values {
		parts[i] = literal(v)
	}
	return Column{text: "(" + c.text + " IN (" + strings.Join(parts, ", ") + "))"}
}

// Cast converts to a SQL type, for instance Cast("bigint").
func (c Column) Cast(sqlType string) Column {
	return Column{text: "CAST(" + c.text + " AS " + sqlType + ")"}
}

// Desc sorts downwards in OrderBy.
func (c Column) Desc() Column { c.text += " DESC"; return c }

// Call is a call of a SQL function, for instance Call("upper", Col("name")).
func Call(function string, args ...any) Column {
	parts := make([]string, len(args))
	for i, a := range args {
		parts[i] = literal(a)
	}
	return Column{text: function + "(" + strings.Join(parts, ", ") + ")"}
}

// Count counts rows.
func Count() Column { return Column{text: "count(*)"} }

// Sum adds up the values that are not NULL.
func Sum(c Column) Column { return Call("sum", c) }

// Min is the smallest value.
func Min(c Column) Column { return Call("min", c) }

// Max is the largest value.
func Max(c Column) Column { return Call("max", c) }

// Avg is the mean.
func Avg(c Column) Column { return Call("avg", c) }

// Explode makes a row for each element of an array or entry of a map.
func Explode(c Column) Column { return Call("explode", c) }

// Window groups by time: windows of the given size, one starting every slide
// (0: size). Its value is a struct of start and end.
func Window(c Column, size, slide time.Duration) Column {
	if slide == 0 {
		slide = size
	}
	return Call("window", c, interval(size), interval(slide))
}

func interval(d time.Duration) string {
	return strconv.FormatInt(d.Microseconds(), 10) + " microseconds"
}
