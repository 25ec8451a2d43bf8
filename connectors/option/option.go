// Package option describes the options that sources, sinks and formats take in
// SQL's WITH (...), and checks and reads their values. An option record also
// makes the reference page and the error messages, so that they cannot differ.
//
// Keys are snake_case; matching ignores case and underscores, so that
// outputMode and output_mode are the same key. Values are immutable after Parse
// and safe for concurrent use.
package option

import (
	"fmt"
	"sort"
	"strings"

	"github.com/streamd-io/streamd/messages/fault"
)

// Kind is the kind of value an option takes.
type Kind uint8

// The option kinds.
const (
	String   Kind = iota
	Int           // a whole number
	Bool          // true or false
	Duration      // a Go duration (500ms, 10s, 1h30m) or an interval ('10 seconds')
	Bytes         // a size: 64MB, 1GiB, 4096
	Secret        // a string that is never printed
	Enum          // one of Values
)

// String describes the kind for the reference page.
func (k Kind) String() string {
	switch k {
	case String:
		return "text"
	case Int:
		return "whole number"
	case Bool:
		return "true or false"
	case Duration:
		return "duration"
	case Bytes:
		return "size"
	case Secret:
		return "secret text"
	case Enum:
		return "one of a list"
	}
	return fmt.Sprintf("kind(%d)", uint8(k))
}

// Option describes one key.
type Option struct {
	Name     string
	Kind     Kind
	Default  string // as written by the user; "" means unset
	Required bool
	Values   []string // for Enum
	Min, Max int64    // for Int, when not both 0: the allowed range; Max 0 means no upper limit
	Doc      string   // one or two sentences: what, unit, meaning of the default
}

// Given is a key and value as the user wrote them, with the place for errors.
type Given struct {
	Key, Value string
	Pos        int // byte offset in the statement, -1 if unknown
}

// Error is a fault about one given option.
type Error struct {
	Key  string
	Pos  int
	Text string
	Hint string
}

// FaultKind returns fault.Config: only the user can correct an option.
func (e *Error) FaultKind() fault.Kind { return fault.Config }

// Error returns the text and, in parentheses, the hint.
func (e *Error) Error() string {
	if e.Hint != "" {
		return e.Text + " (" + e.Hint + ")"
	}
	return e.Text
}

// Values holds checked option values.
type Values struct {
	byName map[string]value
}

type value struct {
	text   string
	secret fault.Secret
	kind   Kind
	given  bool
}

// Fold reduces a key to the form in which keys are compared.
func Fold(key string) string {
	return strings.ReplaceAll(strings.ToLower(key), "_", "")
}

// Hints maps folded keys of other systems to advice, such as
// checkpointlocation.
var hints = map[string]string{
	"checkpointlocation":   "checkpoints live below the directory given by --dir",
	"maxfilespertrigger":   "there are no triggers; max_rows_per_second limits the rate",
	"maxbytespertrigger":   "there are no triggers; max_rows_per_second limits the rate",
	"maxoffsetspertrigger": "there are no triggers; max_rows_per_second limits the rate",
	"latestfirst":          "files are read in the order of their modification time",
}

// Parse checks the given values against the options and fills in defaults. It
// returns all faults, in the order of given; what says whose options they are,
// for instance "nats source".
func Parse(what string, opts []Option, given []Given) (Values, []*Error) {
	known := make(map[string]*Option, len(opts))
	for i := range opts {
		known[Fold(opts[i].Name)] = &opts[i]
	}
	v := Values{byName: make(map[string]value, len(opts))}
	seen := make(map[string]bool, len(given)) // names given once, well or badly
	var errs []*Error
	for _, g := range given {
		o, ok := known[Fold(g.Key)]
		if !ok {
			errs = append(errs, unknown(what, opts, g))
			continue
		}
		if seen[o.Name] {
			errs = append(errs, &Error{Key: g.Key, Pos: g.Pos, Text: fmt.Sprintf("%s: option %s is given twice", what, o.Name)})
			continue
		}
		seen[o.Name] = true
		if err := o.check(g.Value); err != nil {
			errs = append(errs, &Error{Key: g.Key, Pos: g.Pos, Text: fmt.Sprintf("%s: option %s: %v", what, g.Key, err)})
			continue
		}
		v.byName[o.Name] = makeValue(o, g.Value, true)
	}
	for i := range opts {
		o := &opts[i]
		if _, ok := v.byName[o.Name]; ok {
			continue
		}
		if o.Required && !seen[o.Name] {
			errs = append(errs, &Error{Key: o.Name, Pos: -1, Text: fmt.Sprintf("%s: option %s is missing", what, o.Name), Hint: o.Doc})
			continue
		}
		v.byName[o.Name] = makeValue(o, o.Default, false)
	}
	return v, errs
}

func makeValue(o *Option, text string, given bool) value {
	if o.Kind == Secret {
		return value{secret: fault.NewSecret(text), kind: o.Kind, given: given && text != ""}
	}
	return value{text: text, kind: o.Kind, given: given}
}

func unknown(what string, opts []Option, g Given) *Error {
	e := &Error{Key: g.Key, Pos: g.Pos, Text: fmt.Sprintf("%s: unknown option %s", what, g.Key)}
	if h, ok := hints[Fold(g.Key)]; ok {
		e.Hint = h
		return e
	}
	names := make([]string, len(opts))
	for i := range opts {
		names[i] = opts[i].Name
	}
	if n, ok := Nearest(g.Key, names); ok {
		e.Hint = "did you mean " + n + "?"
		return e
	}
	sort.Strings(names)
	e.Hint = "known: " + strings.Join(names, ", ")
	return e
}
