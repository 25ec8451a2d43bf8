package expr

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/valyala/fastjson"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func jsonFunctions() []*Function {
	return []*Function{
		{
			Name: "get_json_object", Family: "json", Usage: "get_json_object(json, path)", Signature: "string, string -> string",
			Doc: "the value at a path such as $.a.b[0] or $.a[*].b: strings without quotes, the rest as JSON; NULL if there is none", costly: true, make: makeGetJSON,
		},
		{
			Name: "json_array_length", Family: "json", Usage: "json_array_length(json)", Signature: "string -> int",
			Doc: "the number of elements of a JSON array; NULL for anything else", costly: true, make: jsonRow(func(x *exec, v *fastjson.Value) {
				a, err := v.Array()
				x.isNull = err != nil
				x.setInt32(int32(len(a)))
			}),
		},
		{
			Name: "json_object_keys", Family: "json", Usage: "json_object_keys(json)", Signature: "string -> array<string>",
			Doc: "the names in a JSON object; NULL for anything else", costly: true, make: jsonRow(func(x *exec, v *fastjson.Value) {
				o, err := v.Object()
				if x.isNull = err != nil; !x.isNull {
					o.Visit(func(key []byte, _ *fastjson.Value) { x.out.Child(0).AppendBytes(key) })
				}
			}),
		},
		{
			Name: "to_json", Family: "json", Usage: "to_json(a)", Signature: "any -> string",
			Doc: "a struct, map or array as JSON; fields that are NULL are left out", costly: true, bind: bindToJSON,
			make: rows(func(x *exec) error {
				v := x.args[0]
				x.buf = appendJSONValue(x.buf, v.col, x.i&v.mask, x.zone)
				return nil
			}),
		},
		{
			Name: "from_json", Family: "json", Usage: "from_json(json, schema)", Signature: "string, string -> struct",
			Doc: "JSON as the type that the constant schema describes, such as 'a INT, b STRING'; what does not fit is NULL", costly: true, bind: bindFromJSON, make: makeFromJSON,
		},
		{
			Name: "schema_of_json", Family: "json", Usage: "schema_of_json(json)", Signature: "string -> string",
			Doc: "the schema of a JSON text", costly: true, make: jsonRow(func(x *exec, v *fastjson.Value) { x.buf = append(x.buf, jsonType(v)...) }),
		},
	}
}

// jsonRow is a function of one parsed document; text that is not JSON gives NULL.
func jsonRow(row func(x *exec, v *fastjson.Value)) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		p := &fastjson.Parser{}
		return perRowFor(n.Of, func(x *exec) error {
			v, err := p.ParseBytes(x.bytes(0))
			if x.isNull = err != nil; !x.isNull {
				row(x, v)
			}
			return nil
		}), nil
	}
}

// jsonStep is one step of a path: a name, an index, or every element.
type jsonStep struct {
	name  string
	index int
	all   bool
}

// parseJSONPath reads $, then .name, ['name'], [n] or [*] any number of times.
func parseJSONPath(path string) ([]jsonStep, bool) {
	rest, ok := strings.CutPrefix(path, "$")
	if !ok {
		return nil, false
	}
	steps := []jsonStep{}
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "['"):
			name, after, ok := strings.Cut(rest[2:], "']")
			if !ok {
				return nil, false
			}
			steps, rest = append(steps, jsonStep{name: name, index: -1}), after
		case rest[0] == '[':
			word, after, ok := strings.Cut(rest[1:], "]")
			if !ok {
				return nil, false
			}
			rest = after
			if word == "*" {
				steps = append(steps, jsonStep{index: -1, all: true})
				continue
			}
			n, err := strconv.Atoi(word)
			if err != nil || n < 0 {
				return nil, false
			}
			steps = append(steps, jsonStep{index: n})
		case rest[0] == '.':
			end := strings.IndexAny(rest[1:], ".[") + 1
			if end == 0 {
				end = len(rest)
			}
			if end == 1 {
				return nil, false
			}
			name := rest[1:end]
			steps, rest = append(steps, jsonStep{name: name, index: -1, all: name == "*"}), rest[end:]
		default:
			return nil, false
		}
	}
	return steps, true
}

func makeGetJSON(_ *compiler, n *FuncCall) (kernel, error) {
	p := &fastjson.Parser{}
	var steps []jsonStep
	var found []*fastjson.Value
	known, valid := "", false
	if text, ok := constText(n.Args[1]); ok {
		known = text
		steps, valid = parseJSONPath(text)
	}
	return perRowText(func(x *exec) error {
		if path := x.str(1); path != known {
			known = strings.Clone(path)
			steps, valid = parseJSONPath(known)
		}
		v, err := p.ParseBytes(x.bytes(0))
		if x.isNull = err != nil || !valid; x.isNull {
			return nil
		}
		found = follow(found[:0], v, steps)
		x.putJSON(found, steps)
		return nil
	}), nil
}

// follow appends the values that the steps lead to.
func follow(dst []*fastjson.Value, v *fastjson.Value, steps []jsonStep) []*fastjson.Value {
	for k, s := range steps {
		switch {
		case s.all:
			list, err := v.Array()
			if err != nil {
				return dst
			}
			for _, e := range list {
				dst = follow(dst, e, steps[k+1:])
			}
			return dst
		case s.index >= 0:
			list, err := v.Array()
			if err != nil || s.index >= len(list) {
				return dst
			}
			v = list[s.index]
		default:
			if v = v.Get(s.name); v == nil {
				return dst
			}
		}
	}
	if v.Type() == fastjson.TypeNull {
		return dst
	}
	return append(dst, v)
}

// putJSON writes what was found: a single value as it is, several as an array.
func (x *exec) putJSON(found []*fastjson.Value, steps []jsonStep) {
	several := false
	for _, s := range steps {
		several = several || s.all
	}
	switch {
	case len(found) == 0:
		x.isNull = true
	case len(found) == 1 && found[0].Type() == fastjson.TypeString && !several:
		s, _ := found[0].StringBytes() // it is a string
		x.buf = append(x.buf, s...)
	case len(found) == 1:
		x.buf = found[0].MarshalTo(x.buf)
	default:
		x.buf = append(x.buf, '[')
		for i, v := range found {
			if i > 0 {
				x.buf = append(x.buf, ',')
			}
			x.buf = v.MarshalTo(x.buf)
		}
		x.buf = append(x.buf, ']')
	}
}

func bindToJSON(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 1); err != nil {
		return nil, err
	}
	if k := b.kind(0); k < messages.Array {
		return nil, b.mismatch()
	}
	return b.result(messages.T(messages.String))
}

// appendJSONValue writes a value that is not NULL.
func appendJSONValue(dst []byte, c *messages.Column, i int, z zone) []byte {
	item := func(dst []byte, c *messages.Column, i int) []byte {
		if c.IsNull(i) {
			return append(dst, "null"...)
		}
		return appendJSONValue(dst, c, i, z)
	}
	switch t := c.Type(); t.Kind {
	case messages.Struct:
		dst = append(dst, '{')
		first := true
		for f := range t.Fields {
			if c.Child(f).IsNull(i) {
				continue
			}
			if !first {
				dst = append(dst, ',')
			}
			first = false
			dst = append(appendJSONString(dst, raw(t.Fields[f].Name)), ':')
			dst = appendJSONValue(dst, c.Child(f), i, z)
		}
		return append(dst, '}')
	case messages.Array, messages.Map:
		open, end := byte('['), byte(']')
		if t.Kind == messages.Map {
			open, end = '{', '}'
		}
		dst = append(dst, open)
		from, to := span(c, i)
		for j := from; j < to; j++ {
			if j > from {
				dst = append(dst, ',')
			}
			if t.Kind == messages.Array {
				dst = item(dst, c.Child(0), j)
				continue
			}
			key := appendValue(nil, c.Child(0).Child(0), j, z)
			dst = append(appendJSONString(dst, key), ':')
			dst = item(dst, c.Child(0).Child(1), j)
		}
		return append(dst, end)
	case messages.Binary:
		dst = append(dst, '"')
		return append(base64.StdEncoding.AppendEncode(dst, c.Bytes(i)), '"')
	case messages.String:
		return appendJSONString(dst, c.Bytes(i))
	case messages.Timestamp, messages.TimestampNTZ, messages.Date, messages.Interval:
		return append(appendJSONTime(append(dst, '"'), c, i, z), '"')
	case messages.Float, messages.Double:
		start := len(dst)
		dst = appendValue(dst, c, i, z)
		if last := dst[len(dst)-1]; last > '9' || dst[start] == 'N' { // NaN, Infinity
			text := string(dst[start:])
			return append(append(append(dst[:start], '"'), text...), '"')
		}
		return dst
	}
	return appendValue(dst, c, i, z)
}

// appendJSONTime writes timestamps as ISO 8601 with milliseconds, or microseconds
// where there are any.
func appendJSONTime(dst []byte, c *messages.Column, i int, z zone) []byte {
	if k := c.Type().Kind; k == messages.Date || k == messages.Interval {
		return appendValue(dst, c, i, z)
	}
	v := c.Int64s()[i]
	pattern := datePattern{{letter: 'S', count: 3}}
	if v%microsPerMilli != 0 {
		pattern[0].count = 6
	}
	local := v
	if c.Type().Kind == messages.Timestamp {
		local = z.local(v)
	}
	days, ofDay := split(local)
	dst = append(appendDate(dst, days), 'T')
	dst = append(appendClock(dst, ofDay-floorMod(ofDay, microsPerSecond)), '.')
	dst = pattern.append(dst, local, utcZone())
	if c.Type().Kind == messages.Timestamp {
		dst = patternPart{letter: 'X', count: 3}.appendZone(dst, v, z)
	}
	return dst
}

func appendJSONString(dst, s []byte) []byte {
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		switch {
		case c == '"' || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < ' ':
			dst = append(dst, `\u00`...)
			dst = append(dst, upperHex[c>>4], upperHex[c&15])
		case c < utf8.RuneSelf:
			dst = append(dst, c)
		default:
			r, n := utf8.DecodeRune(s[i:])
			dst = utf8.AppendRune(dst, r)
			i += n
			continue
		}
		i++
	}
	return append(dst, '"')
}

// bindFromJSON reads the schema, which is a list of fields or one type.
func bindFromJSON(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	text, ok := constText(Fold(b.args[1], Options{}))
	if !ok {
		return nil, &sql.Error{Class: ClassMismatch + ".NON_FOLDABLE_INPUT", Msg: "from_json: the schema must be a constant string"}
	}
	tn, err := sql.ParseDataType("struct<" + text + ">")
	if err != nil {
		if tn, err = sql.ParseDataType(text); err != nil {
			return nil, &sql.Error{Class: "INVALID_SCHEMA.PARSE_ERROR", Msg: "from_json: " + strconv.Quote(text) + " is no schema", Hint: "write it as 'a INT, b STRING'"}
		}
	}
	t, e := TypeOf(tn)
	if e != nil {
		e.Span = sql.Span{}
		return nil, e
	}
	b.coerce(0, messages.T(messages.String))
	b.args = b.args[:1]
	return b.result(t)
}

func makeFromJSON(_ *compiler, n *FuncCall) (kernel, error) {
	p := &fastjson.Parser{}
	var scratch messages.Column
	r := &jsonReader{}
	read := perRowValue(n.Of, func(x *exec) (*messages.Column, int) {
		scratch.Reset(n.Of)
		r.zone = x.zone
		v, err := p.ParseBytes(x.bytes(0))
		if err != nil {
			// What is no JSON is a struct of NULLs, as in Spark's permissive mode.
			if n.Of.Kind == messages.Struct {
				scratch.CloseStruct()
			} else {
				scratch.AppendNull()
			}
			return &scratch, 0
		}
		r.append(&scratch, v)
		return &scratch, 0
	})
	return read, nil
}

// jsonReader appends JSON values to columns; what does not fit is NULL.
type jsonReader struct {
	zone zone
	x    exec
	tmp  []byte
}

func (r *jsonReader) append(c *messages.Column, v *fastjson.Value) {
	if v == nil || v.Type() == fastjson.TypeNull {
		c.AppendNull()
		return
	}
	switch t := c.Type(); t.Kind {
	case messages.Struct:
		if v.Type() != fastjson.TypeObject {
			c.AppendNull()
			return
		}
		for i := range t.Fields {
			r.append(c.Child(i), v.Get(t.Fields[i].Name))
		}
		c.CloseStruct()
	case messages.Array:
		list, err := v.Array()
		if err != nil {
			c.AppendNull()
			return
		}
		for _, e := range list {
			r.append(c.Child(0), e)
		}
		c.CloseList()
	case messages.Map:
		o, err := v.Object()
		if err != nil {
			c.AppendNull()
			return
		}
		o.Visit(func(key []byte, e *fastjson.Value) {
			r.scalar(c.Child(0).Child(0), key)
			r.append(c.Child(0).Child(1), e)
			c.Child(0).CloseStruct()
		})
		c.CloseList()
	case messages.String:
		if s, err := v.StringBytes(); err == nil {
			c.AppendBytes(s)
			return
		}
		r.tmp = v.MarshalTo(r.tmp[:0])
		c.AppendBytes(r.tmp)
	default:
		r.leaf(c, v)
	}
}

// leaf reads a number, a boolean, or a string that stands for a value. Numbers in
// quotes are not numbers, except for decimals and the names of special doubles.
func (r *jsonReader) leaf(c *messages.Column, v *fastjson.Value) {
	k := c.Type().Kind
	quoted := v.Type() == fastjson.TypeString
	number := v.Type() == fastjson.TypeNumber
	text, _ := v.StringBytes()
	if !quoted {
		r.tmp = v.MarshalTo(r.tmp[:0])
		text = r.tmp
	}
	switch {
	case quoted && (k.IsInteger() || k == messages.Boolean),
		k == messages.Boolean && number, k.IsNumeric() && !number && !quoted,
		k == messages.Date && !quoted, k == messages.Interval:
		c.AppendNull()
	case quoted && (k == messages.Double || k == messages.Float):
		if f, ok := parseFloat(text, 64); ok && (math.IsNaN(f) || math.IsInf(f, 0)) {
			r.scalar(c, text)
		} else {
			c.AppendNull()
		}
	case k == messages.Binary:
		b, err := base64.StdEncoding.AppendDecode(nil, text)
		if err != nil {
			c.AppendNull()
		} else {
			c.AppendBytes(b)
		}
	default:
		r.scalar(c, text)
	}
}

// scalar appends the value a text stands for, as a cast would.
func (r *jsonReader) scalar(c *messages.Column, text []byte) {
	if isText(c.Type()) {
		c.AppendBytes(text)
		return
	}
	i := c.Len()
	c.AppendNull()
	r.x.out, r.x.i, r.x.zone = c, i, r.zone
	t := c.Type()
	if ok, _ := r.x.readText(&t, text); ok {
		messages.SetBit(c.Validity(), i)
	}
}

// jsonType is the schema of a JSON value.
func jsonType(v *fastjson.Value) string {
	switch v.Type() {
	case fastjson.TypeObject:
		o, _ := v.Object() // it is one
		var fields []string
		o.Visit(func(key []byte, e *fastjson.Value) {
			fields = append(fields, sql.FormatName(string(key))+": "+jsonType(e))
		})
		return "STRUCT<" + strings.Join(fields, ", ") + ">"
	case fastjson.TypeArray:
		list, _ := v.Array() // it is one
		if len(list) == 0 {
			return "ARRAY<STRING>"
		}
		return "ARRAY<" + jsonType(list[0]) + ">"
	case fastjson.TypeNumber:
		if _, err := v.Int64(); err == nil {
			return "BIGINT"
		}
		return "DOUBLE"
	case fastjson.TypeTrue, fastjson.TypeFalse:
		return "BOOLEAN"
	default:
		return "STRING"
	}
}
