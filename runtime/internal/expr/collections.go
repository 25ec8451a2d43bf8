package expr

import (
	"fmt"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

func collectionFunctions() []*Function {
	return []*Function{
		{
			Name: "array", Family: "collection", Usage: "array(a, ...)", Signature: "any, ... -> array", Doc: "an array of the arguments", lenient: true, bind: bindArray,
			make: func(_ *compiler, n *FuncCall) (kernel, error) {
				return perRowList(func(x *exec) error {
					for _, v := range x.args {
						x.out.Child(0).AppendFrom(v.col, x.i&v.mask)
					}
					return nil
				}), nil
			},
		},
		{
			Name: "struct", Family: "collection", Usage: "struct(a, ...)", Signature: "any, ... -> struct", Doc: "a struct of the arguments; columns keep their names", lenient: true,
			bind: bindStruct, make: makeStruct,
		},
		{
			Name: "named_struct", Family: "collection", Usage: "named_struct('name', a, ...)", Signature: "string, any, ... -> struct", Doc: "a struct of the arguments under constant names",
			bind: bindNamedStruct,
		},
		{
			Name: "map", Family: "collection", Usage: "map(key, value, ...)", Signature: "any, any, ... -> map", Doc: "a map of keys and values; a key must not be NULL or occur twice", lenient: true, fails: true,
			bind: bindMap, make: makeMap,
		},
		{
			Name: "size", Aliases: []string{"cardinality"}, Family: "collection", Usage: "size(a)", Signature: "array or map -> int", Doc: "the number of elements; NULL for NULL",
			bind: bindSize, make: makeSize,
		},
		{Name: "array_size", Family: "collection", Usage: "array_size(a)", Signature: "list -> int", Doc: "the number of elements", make: makeSize},
		{
			Name: "array_contains", Family: "collection", Usage: "array_contains(array, a)", Signature: "array, any -> boolean",
			Doc: "whether a is an element; NULL if it is not found but there is a NULL element", bind: bindContains, make: rows(arrayContains),
		},
		{
			Name: "array_position", Family: "collection", Usage: "array_position(array, a)", Signature: "array, any -> bigint", Doc: "the position of the first element equal to a, from 1; 0 if there is none",
			bind: bindContains, make: rows(arrayPosition),
		},
		{
			Name: "array_join", Family: "collection", Usage: "array_join(array, sep[, null])", Signature: "array<string>, string, [string] -> string",
			Doc: "the elements joined by sep; a NULL is left out, or written as the third argument", make: rows(arrayJoin),
		},
		{Name: "array_max", Family: "collection", Usage: "array_max(array)", Signature: "array -> element", Doc: "the largest element that is not NULL", bind: bindElement, make: makeArrayExtreme(1)},
		{Name: "array_min", Family: "collection", Usage: "array_min(array)", Signature: "array -> element", Doc: "the smallest element that is not NULL", bind: bindElement, make: makeArrayExtreme(-1)},
		{Name: "array_distinct", Family: "collection", Usage: "array_distinct(array)", Signature: "list -> $0", Doc: "the array without repeated elements", costly: true, make: rows(arrayDistinct)},
		{Name: "slice", Family: "collection", Usage: "slice(array, start, length)", Signature: "list, int, int -> $0", Doc: "the elements from start (from 1, or from the end if negative) on", fails: true, make: rows(sliceRow)},
		{
			Name: "element_at", Family: "collection", Usage: "element_at(a, i)", Signature: "array, int -> element | map, key -> value", fails: true,
			Doc: "element i of an array, from 1, or from the end if negative; or the value of a map under a key, NULL if there is none", bind: bindAt, make: makeAt(1),
		},
		{
			Name: "try_element_at", Family: "collection", Usage: "try_element_at(a, i)", Signature: "array, int -> element | map, key -> value", try: true,
			Doc: "element_at that is NULL where there is no such element", bind: bindAt, make: makeAt(1),
		},
		{Name: "get", Family: "collection", Usage: "get(array, i)", Signature: "array, int -> element", Doc: "element i of an array, from 0; NULL where there is none", try: true, bind: bindAt, make: makeAt(0)},
		{
			Name: "[]", Family: "collection", Usage: "a[i]", Signature: "array, int -> element | map, key -> value", fails: true,
			Doc: "element i of an array, from 0; or the value of a map under a key, NULL if there is none", bind: bindAt, make: makeAt(0),
		},
		{Name: "map_keys", Family: "collection", Usage: "map_keys(map)", Signature: "map -> array", Doc: "the keys", bind: bindEntries(0), make: makeEntries(0)},
		{Name: "map_values", Family: "collection", Usage: "map_values(map)", Signature: "map -> array", Doc: "the values", bind: bindEntries(1), make: makeEntries(1)},
		{
			Name: "map_contains_key", Family: "collection", Usage: "map_contains_key(map, key)", Signature: "map, key -> boolean", Doc: "whether the map has the key", bind: bindContainsKey,
			make: rows(func(x *exec) error { x.setBool(findKey(x) >= 0); return nil }),
		},
	}
}

func bindArray(b *binding) (Node, *sql.Error) {
	t, ok := b.commonOf(b.args)
	if !ok {
		return nil, b.mismatch()
	}
	for i := range b.args {
		b.coerce(i, t)
	}
	return b.result(messages.ArrayType(t))
}

// bindStruct names the fields after columns and fields, the others col1, col2, ...
func bindStruct(b *binding) (Node, *sql.Error) {
	if err := b.count(1, -1); err != nil {
		return nil, err
	}
	fields := make([]messages.Field, len(b.args))
	for i, a := range b.args {
		fields[i] = messages.Field{Name: fmt.Sprintf("col%d", i+1), Type: a.Type()}
		switch a := a.(type) {
		case *Column:
			fields[i].Name = a.Name
		case *Field:
			fields[i].Name = a.X.Type().Fields[a.Index].Name
		default: // no name of its own
		}
	}
	return b.result(messages.StructType(fields...))
}

func bindNamedStruct(b *binding) (Node, *sql.Error) {
	if len(b.args) == 0 || len(b.args)%2 != 0 {
		return nil, wrongCount(b.display(), b.fn.Usage, len(b.args), 2, -1)
	}
	var fields []messages.Field
	var values []Node
	for i := 0; i < len(b.args); i += 2 {
		name, ok := constText(b.args[i])
		if !ok {
			return nil, &sql.Error{Class: ClassMismatch, Msg: "named_struct: the names must be constant strings"}
		}
		fields = append(fields, messages.Field{Name: name, Type: b.typ(i + 1)})
		values = append(values, b.args[i+1])
	}
	f, _ := b.reg.Lookup("struct")
	return &FuncCall{Func: f, Args: values, Of: messages.StructType(fields...)}, nil
}

func makeStruct(*compiler, *FuncCall) (kernel, error) {
	return func(x *exec) error {
		for k, v := range x.args {
			child := x.out.Child(k)
			child.Truncate(0)
			for i := range x.f.n {
				child.AppendFrom(v.col, i&v.mask)
			}
		}
		return nil
	}, nil
}

func bindMap(b *binding) (Node, *sql.Error) {
	if len(b.args)%2 != 0 {
		return nil, wrongCount(b.display(), b.fn.Usage, len(b.args), 2, -1)
	}
	var keys, vals []Node
	for i := 0; i < len(b.args); i += 2 {
		keys, vals = append(keys, b.args[i]), append(vals, b.args[i+1])
	}
	k, ok1 := b.commonOf(keys)
	v, ok2 := b.commonOf(vals)
	if !ok1 || !ok2 || !comparable(k) {
		return nil, b.mismatch()
	}
	for i := range b.args {
		if i%2 == 0 {
			b.coerce(i, k)
		} else {
			b.coerce(i, v)
		}
	}
	return b.result(messages.MapType(k, v))
}

func makeMap(*compiler, *FuncCall) (kernel, error) {
	return perRowList(func(x *exec) error {
		entries := x.out.Child(0)
		start := entries.Len()
		for k := 0; k < len(x.args); k += 2 {
			key, val := x.args[k], x.args[k+1]
			if key.null(x.i) {
				return rowError("NULL_MAP_KEY", "a key of a map is NULL")
			}
			for j := start; j < entries.Len(); j++ {
				if messages.Compare(entries.Child(0), j, key.col, x.i&key.mask) == 0 {
					return rowError("DUPLICATED_MAP_KEY", "a key of a map occurs twice")
				}
			}
			entries.Child(0).AppendFrom(key.col, x.i&key.mask)
			entries.Child(1).AppendFrom(val.col, x.i&val.mask)
			entries.CloseStruct()
		}
		return nil
	}), nil
}

func bindSize(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 1); err != nil {
		return nil, err
	}
	if k := b.kind(0); k != messages.Array && k != messages.Map && k != messages.Null {
		return nil, b.mismatch()
	}
	return b.result(messages.T(messages.Int))
}

func makeSize(*compiler, *FuncCall) (kernel, error) {
	return perRow(func(x *exec) error {
		v := x.args[0]
		from, to := span(v.col, x.i&v.mask)
		x.setInt32(int32(to - from))
		return nil
	}), nil
}

// bindContains gives the array's elements and the value a common type.
func bindContains(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	if b.kind(0) != messages.Array {
		return nil, b.mismatch()
	}
	t, ok := commonType(*b.typ(0).Elem, b.typ(1))
	if !ok || !comparable(t) {
		return nil, b.mismatch()
	}
	b.coerce(0, messages.ArrayType(t))
	b.coerce(1, t)
	if b.fn.Name == "array_position" {
		return b.result(messages.T(messages.BigInt))
	}
	return b.result(messages.T(messages.Boolean))
}

func arrayContains(x *exec) error {
	v, w := x.args[0], x.args[1]
	from, to := span(v.col, x.i&v.mask)
	x.setBool(false)
	for j := from; j < to; j++ {
		if v.col.Child(0).IsNull(j) {
			x.isNull = true
		} else if messages.Compare(v.col.Child(0), j, w.col, x.i&w.mask) == 0 {
			x.setBool(true)
			x.isNull = false
			return nil
		}
	}
	return nil
}

func arrayPosition(x *exec) error {
	v, w := x.args[0], x.args[1]
	from, to := span(v.col, x.i&v.mask)
	x.setInt64(0)
	for j := from; j < to; j++ {
		if !v.col.Child(0).IsNull(j) && messages.Compare(v.col.Child(0), j, w.col, x.i&w.mask) == 0 {
			x.setInt64(int64(j-from) + 1)
			return nil
		}
	}
	return nil
}

func arrayJoin(x *exec) error {
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	first := true
	for j := from; j < to; j++ {
		null := v.col.Child(0).IsNull(j)
		if null && len(x.args) < 3 {
			continue
		}
		if !first {
			x.buf = append(x.buf, x.bytes(1)...)
		}
		first = false
		if null {
			x.buf = append(x.buf, x.bytes(2)...)
		} else {
			x.buf = append(x.buf, v.col.Child(0).Bytes(j)...)
		}
	}
	return nil
}

// bindElement is a function from an array to its element type.
func bindElement(b *binding) (Node, *sql.Error) {
	if err := b.count(1, 1); err != nil {
		return nil, err
	}
	if b.kind(0) != messages.Array || !comparable(b.typ(0)) {
		return nil, b.mismatch()
	}
	return b.result(*b.typ(0).Elem)
}

func makeArrayExtreme(sign int) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		return perRowValue(n.Of, func(x *exec) (*messages.Column, int) {
			v := x.args[0]
			from, to := span(v.col, x.i&v.mask)
			child, best := v.col.Child(0), -1
			for j := from; j < to; j++ {
				if !child.IsNull(j) && (best < 0 || sign*messages.Compare(child, j, child, best) > 0) {
					best = j
				}
			}
			if best < 0 {
				return nil, 0
			}
			return child, best
		}), nil
	}
}

func arrayDistinct(x *exec) error {
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	out := x.out.Child(0)
	start := out.Len()
	for j := from; j < to; j++ {
		seen := false
		for k := start; k < out.Len() && !seen; k++ {
			seen = messages.Compare(out, k, v.col.Child(0), j) == 0
		}
		if !seen {
			out.AppendFrom(v.col.Child(0), j)
		}
	}
	return nil
}

func sliceRow(x *exec) error {
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	start, length := int(x.int32(1)), int(x.int32(2))
	switch {
	case start == 0:
		return rowError("INVALID_PARAMETER_VALUE.START", "slice: positions are counted from 1, or from -1 at the end; the start 0 is not valid")
	case length < 0:
		return rowError("INVALID_PARAMETER_VALUE.LENGTH", "slice: the length %d is negative", length)
	case start > 0:
		from += start - 1
	case to+start < from:
		return nil
	default:
		from = to + start
	}
	for j := from; j < to && j-from < length; j++ {
		x.out.Child(0).AppendFrom(v.col.Child(0), j)
	}
	return nil
}

// bindAt is access to an array by position or to a map by key.
func bindAt(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	t := b.typ(0)
	switch {
	case t.Kind == messages.Array:
		if _, ok := implicitCost(b.args[1], messages.T(messages.BigInt)); !ok {
			return nil, b.mismatch()
		}
		b.coerce(1, messages.T(messages.BigInt))
		return b.result(*t.Elem)
	case t.Kind == messages.Map && b.fn.Name != "get":
		if common, ok := commonType(*t.Key, b.typ(1)); !ok || !common.Equal(*t.Key) {
			return nil, b.mismatch()
		}
		b.coerce(1, *t.Key)
		return b.result(*t.Elem)
	case t.Kind == messages.Struct && b.fn.Name == "[]":
		if name, ok := constText(b.args[1]); ok {
			return fieldOf(b.reg, b.args[0], sql.Ident{Name: name})
		}
	}
	return nil, b.mismatch()
}

// makeAt finds elements; positions begin at base, and those from the end are only
// known to functions that begin at 1.
func makeAt(base int64) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		if n.Args[0].Type().Kind == messages.Map {
			return perRowValue(n.Of, func(x *exec) (*messages.Column, int) {
				j := findKey(x)
				if j < 0 {
					return nil, 0
				}
				return x.args[0].col.Child(0).Child(1), j
			}), nil
		}
		values := perRowValue(n.Of, func(x *exec) (*messages.Column, int) {
			j, ok := position(x, base)
			if !ok {
				return nil, 0
			}
			return x.args[0].col.Child(0), j
		})
		return func(x *exec) error {
			if x.mode == raise {
				if err := x.each(func(x *exec) error { return checkPosition(x, base) }); err != nil {
					return err
				}
			}
			return values(x)
		}, nil
	}
}

func position(x *exec, base int64) (int, bool) {
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	i, n := x.int64(1), int64(to-from)
	if base == 1 && i < 0 {
		i += n + 1
	}
	i -= base
	return from + int(i), i >= 0 && i < n
}

func checkPosition(x *exec, base int64) error {
	if _, ok := position(x, base); ok {
		return nil
	}
	v := x.args[0]
	from, to := span(v.col, x.i&v.mask)
	switch {
	case base == 1 && x.int64(1) == 0:
		return rowError("INVALID_INDEX_OF_ZERO", "element_at: the index 0 is not valid; elements are counted from 1, or from -1 at the end")
	case base == 1:
		return rowError("INVALID_ARRAY_INDEX_IN_ELEMENT_AT", "index %d is outside the array of %d elements; use try_element_at to get NULL", x.int64(1), to-from)
	}
	return rowError("INVALID_ARRAY_INDEX", "index %d is outside the array of %d elements; use get to get NULL", x.int64(1), to-from)
}

// findKey is the entry with the key of the second argument, or -1.
func findKey(x *exec) int {
	v, k := x.args[0], x.args[1]
	from, to := span(v.col, x.i&v.mask)
	keys := v.col.Child(0).Child(0)
	for j := from; j < to; j++ {
		if messages.Compare(keys, j, k.col, x.i&k.mask) == 0 {
			return j
		}
	}
	return -1
}

func bindEntries(part int) func(b *binding) (Node, *sql.Error) {
	return func(b *binding) (Node, *sql.Error) {
		if err := b.count(1, 1); err != nil {
			return nil, err
		}
		t := b.typ(0)
		switch {
		case t.Kind != messages.Map:
			return nil, b.mismatch()
		case part == 0:
			return b.result(messages.ArrayType(*t.Key))
		}
		return b.result(messages.ArrayType(*t.Elem))
	}
}

func makeEntries(part int) func(*compiler, *FuncCall) (kernel, error) {
	return rows(func(x *exec) error {
		v := x.args[0]
		from, to := span(v.col, x.i&v.mask)
		for j := from; j < to; j++ {
			x.out.Child(0).AppendFrom(v.col.Child(0).Child(part), j)
		}
		return nil
	})
}

func bindContainsKey(b *binding) (Node, *sql.Error) {
	if err := b.count(2, 2); err != nil {
		return nil, err
	}
	if b.kind(0) != messages.Map {
		return nil, b.mismatch()
	}
	b.coerce(1, *b.typ(0).Key)
	return b.result(messages.T(messages.Boolean))
}
