package format

import (
	"math"
	"math/big"
	"reflect"
	"strconv"
	"time"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// ValueAt returns value i of c as a Go value that the caller owns:
//
//	boolean                        bool
//	tinyint, smallint, int, bigint int8, int16, int32, int64
//	float, double                  float32, float64
//	decimal                        string with the digits of the scale, "12.50"
//	string, binary                 string, []byte
//	date                           time.Time at midnight UTC
//	timestamp, timestamp_ntz       time.Time in UTC
//	interval                       messages.IntervalValue
//	array                          []any
//	map                            map[any]any (binary keys as string)
//	struct                         map[string]any
//	NULL                           nil
//
// It allocates and is meant for Go users and tests, not for row paths.
func ValueAt(c *messages.Column, i int) any {
	if c.IsNull(i) {
		return nil
	}
	switch t := c.Type(); t.Kind {
	case messages.Boolean:
		return c.Bool(i)
	case messages.TinyInt:
		return c.Int8s()[i]
	case messages.SmallInt:
		return c.Int16s()[i]
	case messages.Int:
		return c.Int32s()[i]
	case messages.BigInt:
		return c.Int64s()[i]
	case messages.Float:
		return c.Float32s()[i]
	case messages.Double:
		return c.Float64s()[i]
	case messages.Decimal:
		return string(AppendDecimal(nil, c.Decimals()[i], t.Scale))
	case messages.String:
		return string(c.Bytes(i))
	case messages.Binary:
		return append([]byte{}, c.Bytes(i)...)
	case messages.Date:
		return time.Unix(int64(c.Int32s()[i])*86400, 0).UTC()
	case messages.Timestamp, messages.TimestampNTZ:
		return time.UnixMicro(c.Int64s()[i]).UTC()
	case messages.Interval:
		return c.Intervals()[i]
	}
	return nestedAt(c, i)
}

func nestedAt(c *messages.Column, i int) any {
	switch t := c.Type(); t.Kind {
	case messages.Array:
		list := []any{}
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			list = append(list, ValueAt(c.Child(0), int(j)))
		}
		return list
	case messages.Map:
		m := map[any]any{}
		for j := c.Offsets()[i]; j < c.Offsets()[i+1]; j++ {
			k := ValueAt(c.Child(0).Child(0), int(j))
			if b, ok := k.([]byte); ok {
				k = string(b)
			}
			m[k] = ValueAt(c.Child(0).Child(1), int(j))
		}
		return m
	case messages.Struct:
		m := map[string]any{}
		for k, f := range t.Fields {
			m[f.Name] = ValueAt(c.Child(k), i)
		}
		return m
	}
	return nil
}

// RowAt returns physical row i of b as Go values; see ValueAt.
func RowAt(b *messages.Batch, i int) []any {
	row := make([]any, b.Columns())
	for k := range row {
		row[k] = ValueAt(b.Column(k), i)
	}
	return row
}

// AppendValue appends a Go value to c. Beside the types ValueAt returns it takes
// every integer type that is in range, integers for float, double and decimal,
// strings for date, timestamp (ISO-8601) and decimal, *big.Rat for decimal,
// time.Duration for interval, and for nested types any slice, any map, and a
// slice of the fields' values for a struct. When it fails nothing was appended.
func AppendValue(c *messages.Column, v any) error {
	if v == nil {
		c.AppendNull()
		return nil
	}
	ok := false
	switch t := c.Type(); {
	case t.Kind.IsInteger():
		ok = appendGoInt(c, v)
	case t.Kind == messages.Float || t.Kind == messages.Double:
		ok = appendGoFloat(c, v)
	case t.Kind == messages.Array || t.Kind == messages.Map || t.Kind == messages.Struct:
		n := c.Len()
		if err := appendNested(c, v); err != nil {
			c.Truncate(n)
			return err
		}
		return nil
	default:
		ok = appendScalar(c, v)
	}
	if !ok {
		return fault.New(fault.Config, "Go value %v (%T) does not fit type %s", v, v, c.Type())
	}
	return nil
}

func appendScalar(c *messages.Column, v any) bool {
	switch t := c.Type(); t.Kind {
	case messages.Boolean:
		if b, ok := v.(bool); ok {
			c.AppendBool(b)
			return true
		}
	case messages.String, messages.Binary:
		switch s := v.(type) {
		case string:
			c.AppendString(s)
			return true
		case []byte:
			c.AppendBytes(s)
			return true
		}
	case messages.Date:
		return appendGoDate(c, v)
	case messages.Timestamp, messages.TimestampNTZ:
		return appendGoTime(c, v)
	case messages.Decimal:
		return appendGoDecimal(c, v)
	case messages.Interval:
		switch x := v.(type) {
		case messages.IntervalValue:
			c.AppendInterval(x)
			return true
		case time.Duration:
			c.AppendInterval(messages.IntervalValue{Nanos: int64(x)})
			return true
		}
	}
	return false
}

func appendGoInt(c *messages.Column, v any) bool {
	n, ok := goInt(v)
	return ok && AppendInt(c, n)
}

func goInt(v any) (int64, bool) {
	switch r := reflect.ValueOf(v); {
	case r.CanInt():
		return r.Int(), true
	case r.CanUint() && r.Uint() <= math.MaxInt64:
		return int64(r.Uint()), true
	}
	return 0, false
}

func appendGoFloat(c *messages.Column, v any) bool {
	f := 0.0
	if r := reflect.ValueOf(v); r.CanFloat() {
		f = r.Float()
	} else if n, ok := goInt(v); ok {
		f = float64(n)
	} else {
		return false
	}
	if c.Type().Kind == messages.Float {
		c.AppendFloat32(float32(f))
	} else {
		c.AppendFloat64(f)
	}
	return true
}

func appendGoDate(c *messages.Column, v any) bool {
	switch x := v.(type) {
	case time.Time:
		y, m, d := x.Date()
		days := time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400
		if days != int64(int32(days)) {
			return false
		}
		c.AppendInt32(int32(days))
		return true
	case string:
		days, ok := ParseDate([]byte(x))
		if ok {
			c.AppendInt32(days)
		}
		return ok
	}
	return false
}

func appendGoTime(c *messages.Column, v any) bool {
	switch x := v.(type) {
	case time.Time:
		c.AppendInt64(x.UnixMicro())
		return true
	case messages.EventTime:
		c.AppendInt64(int64(x))
		return true
	case string:
		t, zoned, ok := ParseTimestamp([]byte(x))
		if ok = ok && !(zoned && c.Type().Kind == messages.TimestampNTZ); ok {
			c.AppendInt64(t)
		}
		return ok
	}
	return false
}

func appendGoDecimal(c *messages.Column, v any) bool {
	t := c.Type()
	var text string
	switch x := v.(type) {
	case string:
		text = x
	case *big.Rat:
		text = x.FloatString(int(t.Scale))
	case messages.Decimal128:
		c.AppendDecimal(x)
		return true
	default:
		n, ok := goInt(v)
		if !ok {
			return false
		}
		text = strconv.FormatInt(n, 10)
	}
	d, ok := ParseDecimal([]byte(text), t.Precision, t.Scale)
	if ok {
		c.AppendDecimal(d)
	}
	return ok
}

// appendNested always closes the value, so that AppendValue can cut it off.
func appendNested(c *messages.Column, v any) error {
	r := reflect.ValueOf(v)
	switch t := c.Type(); {
	case t.Kind == messages.Array && r.Kind() == reflect.Slice:
		defer c.CloseList()
		for i := range r.Len() {
			if err := AppendValue(c.Child(0), r.Index(i).Interface()); err != nil {
				return err
			}
		}
		return nil
	case t.Kind == messages.Map && r.Kind() == reflect.Map:
		defer c.CloseList()
		for it := r.MapRange(); it.Next(); {
			if err := appendEntry(c.Child(0), it.Key().Interface(), it.Value().Interface()); err != nil {
				return err
			}
		}
		return nil
	case t.Kind == messages.Struct && r.Kind() == reflect.Slice && r.Len() == len(t.Fields):
		defer c.CloseStruct()
		for i := range t.Fields {
			if err := AppendValue(c.Child(i), r.Index(i).Interface()); err != nil {
				return err
			}
		}
		return nil
	}
	if m, ok := v.(map[string]any); ok && c.Type().Kind == messages.Struct {
		return appendFields(c, m)
	}
	return fault.New(fault.Config, "Go value %v (%T) does not fit type %s", v, v, c.Type())
}

func appendEntry(e *messages.Column, k, v any) error {
	defer e.CloseStruct()
	if err := AppendValue(e.Child(0), k); err != nil {
		return err
	}
	return AppendValue(e.Child(1), v)
}

func appendFields(c *messages.Column, m map[string]any) error {
	defer c.CloseStruct()
	found := 0
	for i, f := range c.Type().Fields {
		v, ok := m[f.Name]
		if !ok {
			continue // missing is NULL
		}
		found++
		if err := AppendValue(c.Child(i), v); err != nil {
			return err
		}
	}
	if found != len(m) {
		return fault.New(fault.Config, "Go value %v has members that %s has not", m, c.Type())
	}
	return nil
}

// AppendRow appends values as one row to b and ends it. When it fails the row
// was dropped.
func AppendRow(b *messages.Builder, values []any) error {
	s := b.Schema()
	if len(values) != s.Len() {
		return fault.New(fault.Config, "a row of %d values was added, the schema has %d columns (%s)", len(values), s.Len(), s)
	}
	for i, v := range values {
		if err := AppendValue(b.Column(i), v); err != nil {
			b.AbortRow()
			return fault.Wrap(fault.Config, err, "column %s", s.Fields[i].Name)
		}
	}
	b.EndRow()
	return nil
}
