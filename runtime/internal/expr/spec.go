package expr

import (
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// overload is one alternative of a signature.
type overload struct {
	params []param
	repeat bool // the last parameter may repeat
	result string
}

type param struct {
	word     string
	optional bool
}

// parseSignature reads the notation of Function.Signature. The words are the plain
// types, and:
//
//	any       every type, taken as it is
//	number    every numeric type, taken as it is; strings become double
//	integer   every integer type, taken as it is; strings become bigint
//	list      an array
//	$0, $1    as a result: the type of that argument
//
// A mistake in a signature is one of this package and panics when it is loaded.
func parseSignature(s string) []overload {
	var out []overload
	for alt := range strings.SplitSeq(s, " | ") {
		args, result, ok := strings.Cut(alt, "->")
		if !ok {
			panic("expr: signature without result: " + s)
		}
		o := overload{result: strings.TrimSpace(result)}
		optional := false
		for word := range strings.SplitSeq(args, ",") {
			word = strings.TrimSpace(word)
			optional = optional || strings.HasPrefix(word, "[")
			word = strings.Trim(word, "[]")
			if word == "..." {
				o.repeat = true
			} else if word != "" {
				o.params = append(o.params, param{word, optional})
			}
		}
		out = append(out, o)
	}
	return out
}

func (o *overload) minimum() int {
	n := 0
	for _, p := range o.params {
		if !p.optional {
			n++
		}
	}
	return n
}

func (o *overload) accepts(n int) bool {
	return n >= o.minimum() && (o.repeat || n <= len(o.params))
}

func (o *overload) param(i int) string { return o.params[min(i, len(o.params)-1)].word }

// plainTypes are the types a signature can name.
func plainType(word string) (messages.Type, bool) {
	switch word {
	case "array<string>":
		return messages.ArrayType(messages.T(messages.String)), true
	case "void":
		return messages.T(messages.Null), true
	}
	for k := messages.Boolean; k <= messages.Interval; k++ {
		if k.String() == word && k != messages.Decimal {
			return messages.T(k), true
		}
	}
	return messages.Type{}, false
}

// match tells what argument type t becomes for a parameter and how far that is.
func match(word string, n Node) (to messages.Type, cost int, ok bool) {
	t := n.Type()
	switch word {
	case "any":
		return t, 0, true
	case "number":
		switch {
		case t.Kind.IsNumeric():
			return t, 0, true
		case t.Kind == messages.String:
			return messages.T(messages.Double), 20, true
		case t.Kind == messages.Null:
			return messages.T(messages.Double), 0, true
		}
		return t, 0, false
	case "integer":
		switch {
		case t.Kind.IsInteger():
			return t, 0, true
		case t.Kind == messages.String:
			return messages.T(messages.BigInt), 20, true
		case t.Kind == messages.Null:
			return messages.T(messages.Int), 0, true
		}
		return t, 0, false
	case "list":
		return t, 0, t.Kind == messages.Array
	}
	to, ok = plainType(word)
	if !ok {
		panic("expr: unknown type in a signature: " + word)
	}
	cost, ok = implicitCost(n, to)
	return to, cost, ok
}

// matchOverload resolves a call by the signature: the alternative whose arguments need
// the least conversion, the first among equals.
func (b *binding) matchOverload() (Node, *sql.Error) {
	best, bestCost, counted := -1, 0, false
	for k := range b.fn.overloads {
		o := &b.fn.overloads[k]
		if !o.accepts(len(b.args)) {
			continue
		}
		counted = true
		total, ok := 0, true
		for i, a := range b.args {
			_, cost, fits := match(o.param(i), a)
			total += cost
			ok = ok && fits
		}
		if ok && (best < 0 || total < bestCost) {
			best, bestCost = k, total
		}
	}
	switch {
	case !counted:
		return nil, b.wrongCount()
	case best < 0:
		return nil, b.mismatch()
	}
	o := &b.fn.overloads[best]
	for i, a := range b.args {
		to, _, _ := match(o.param(i), a)
		b.coerce(i, to)
	}
	return b.result(o.resultType(b))
}

func (o *overload) resultType(b *binding) messages.Type {
	if strings.HasPrefix(o.result, "$") {
		return b.typ(int(o.result[1] - '0'))
	}
	t, ok := plainType(o.result)
	if !ok {
		panic("expr: unknown result type in a signature: " + o.result)
	}
	return t
}

func (b *binding) wrongCount() *sql.Error {
	minimum, maximum := -1, 0
	for k := range b.fn.overloads {
		o := &b.fn.overloads[k]
		if m := o.minimum(); minimum < 0 || m < minimum {
			minimum = m
		}
		if o.repeat {
			maximum = -1
		} else if maximum >= 0 {
			maximum = max(maximum, len(o.params))
		}
	}
	return wrongCount(b.display(), b.fn.Usage, len(b.args), minimum, maximum)
}

func arguments(n int) string {
	if n == 1 {
		return "1 argument"
	}
	return fmt.Sprintf("%d arguments", n)
}

func wrongCount(name, usage string, got, minimum, maximum int) *sql.Error {
	want := fmt.Sprintf("%d to %d arguments", minimum, maximum)
	switch {
	case maximum < 0:
		want = "at least " + arguments(minimum)
	case minimum == maximum:
		want = arguments(minimum)
	}
	e := &sql.Error{Class: ClassWrongNumArgs, Msg: fmt.Sprintf("%s takes %s, not %d", name, want, got)}
	if usage != "" {
		e.Hint = "usage: " + usage
	}
	return e
}
