package conformance

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
)

// tolerance is how far doubles may be apart, relative to their size.
const tolerance = 1e-12

// values turns rows as they are written in a case into the Go values that the
// memory source takes.
func values(s *messages.Schema, rows [][]json.RawMessage) ([][]any, error) {
	out := make([][]any, len(rows))
	for i, row := range rows {
		if len(row) != s.Len() {
			return nil, fmt.Errorf("row %s has %d values, the schema has %d (%s)", row, len(row), s.Len(), s)
		}
		out[i] = make([]any, len(row))
		for k, raw := range row {
			d := json.NewDecoder(bytes.NewReader(raw))
			d.UseNumber()
			var v any
			if err := d.Decode(&v); err != nil {
				return nil, err
			}
			var err error
			if out[i][k], err = value(s.Fields[k].Type, v); err != nil {
				return nil, fmt.Errorf("column %s: %w", s.Fields[k].Name, err)
			}
		}
	}
	return out, nil
}

// value converts one JSON value to what format.AppendValue takes for a type.
func value(t messages.Type, v any) (any, error) {
	switch v := v.(type) {
	case json.Number:
		switch {
		case t.Kind.IsInteger():
			return v.Int64()
		case t.Kind == messages.Float || t.Kind == messages.Double:
			return v.Float64()
		}
		return v.String(), nil
	case string:
		if t.Kind == messages.Float || t.Kind == messages.Double {
			return strconv.ParseFloat(v, 64) // NaN, Infinity, -Infinity
		}
		return v, nil
	case []any:
		return list(t, v)
	case map[string]any:
		return object(t, v)
	}
	return v, nil // null, true, false
}

// list converts an array, or a struct written as the list of its fields.
func list(t messages.Type, in []any) (any, error) {
	out := make([]any, len(in))
	for i, v := range in {
		var elem messages.Type
		switch {
		case t.Kind == messages.Array:
			elem = *t.Elem
		case t.Kind == messages.Struct && i < len(t.Fields):
			elem = t.Fields[i].Type
		default:
			return nil, fmt.Errorf("list %v does not fit %s", in, t)
		}
		var err error
		if out[i], err = value(elem, v); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// object converts a struct or a map.
func object(t messages.Type, in map[string]any) (any, error) {
	if t.Kind == messages.Struct {
		out := map[string]any{}
		for _, f := range t.Fields {
			v, err := value(f.Type, in[f.Name])
			if err != nil {
				return nil, err
			}
			out[f.Name] = v
		}
		return out, nil
	}
	if t.Kind != messages.Map {
		return nil, fmt.Errorf("object %v does not fit %s", in, t)
	}
	out := map[any]any{}
	for k, v := range in {
		var key any = k
		if t.Key.Kind.IsInteger() {
			key = json.Number(k) // JSON has only text as names
		}
		key, err := value(*t.Key, key)
		if err != nil {
			return nil, err
		}
		val, err := value(*t.Elem, v)
		if err != nil {
			return nil, err
		}
		out[key] = val
	}
	return out, nil
}

// expected converts expected rows to values as a memory sink holds them.
func expected(s *messages.Schema, rows [][]json.RawMessage) ([][]any, error) {
	in, err := values(s, rows)
	if err != nil {
		return nil, err
	}
	b := messages.NewBuilder(s)
	for _, row := range in {
		if err := format.AppendRow(b, row); err != nil {
			return nil, err
		}
	}
	out := make([][]any, len(in))
	if len(in) == 0 {
		return out, nil
	}
	b.EndUnit(0, 0)
	batch := b.Finish()
	for i := range out {
		out[i] = format.RowAt(batch, i)
	}
	return out, nil
}

// equalOptions make NaN equal to itself and doubles equal to their neighbours.
func equalOptions() cmp.Options {
	return cmp.Options{cmpopts.EquateNaNs(), cmpopts.EquateApprox(tolerance, 0), cmpopts.EquateEmpty()}
}

// compareRows compares rows, as multisets unless they are ordered. It returns
// what is wrong, "" if nothing is.
func compareRows(got, want [][]any, ordered bool) string {
	opts := equalOptions()
	if ordered {
		if cmp.Equal(got, want, opts) {
			return ""
		}
		return "rows, in this order:\n  got  " + show(got) + "\n  want " + show(want)
	}
	missing := slices.Clone(want)
	var extra [][]any
	for _, g := range got {
		i := slices.IndexFunc(missing, func(w []any) bool { return cmp.Equal(g, w, opts) })
		if i < 0 {
			extra = append(extra, g)
			continue
		}
		missing = slices.Delete(missing, i, i+1)
	}
	if len(missing) == 0 && len(extra) == 0 {
		return ""
	}
	return fmt.Sprintf("rows:\n  too many %s\n  missing  %s\n  got %d in all, want %d", show(extra), show(missing), len(got), len(want))
}

// lastPerKey keeps the last row of each key, in the order in which the keys
// first appear.
func lastPerKey(rows [][]any, key []int) [][]any {
	at := map[string]int{}
	var out [][]any
	for _, r := range rows {
		k := ""
		for _, i := range key {
			k += fmt.Sprintf("%T:%v|", r[i], r[i])
		}
		if i, ok := at[k]; ok {
			out[i] = r
			continue
		}
		at[k] = len(out)
		out = append(out, r)
	}
	return out
}

// show prints rows for messages, the first few of them.
func show(rows [][]any) string {
	const most = 20
	var b strings.Builder
	for i, r := range rows {
		if i == most {
			fmt.Fprintf(&b, " ... (%d more)", len(rows)-most)
			break
		}
		if i > 0 {
			b.WriteString(" ")
		}
		b.WriteString("[")
		for k, v := range r {
			if k > 0 {
				b.WriteString(", ")
			}
			b.WriteString(showValue(v))
		}
		b.WriteString("]")
	}
	if len(rows) == 0 {
		return "none"
	}
	return b.String()
}

func showValue(v any) string {
	switch v := v.(type) {
	case nil:
		return "NULL"
	case string:
		return strconv.Quote(v)
	case float64:
		if math.Trunc(v) == v && math.Abs(v) < 1e15 {
			return strconv.FormatFloat(v, 'f', 1, 64)
		}
		return strconv.FormatFloat(v, 'g', -1, 64)
	case interface{ Format(string) string }:
		return v.Format("2006-01-02T15:04:05.999999")
	}
	return fmt.Sprint(v)
}
