package nats

import (
	"encoding/hex"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// template makes a subject, or the key of a bucket, from a row: literal text with
// {column}, {column:raw} and {struct.field} in it. It is immutable.
type template struct {
	text   string
	parts  []part
	raw    bool // some value is not escaped, so that results have to be checked
	syntax *syntax
}

// syntax is what a template makes.
type syntax struct {
	name string // for messages
	// escape makes dst[at:] one token, reversibly.
	escape func(dst []byte, at int) []byte
	check  func(s string) error
}

func subjectSyntax() *syntax {
	return &syntax{name: "subject", escape: escapeToken, check: func(s string) error { return checkSubject(s, false) }}
}

// part is a literal, or a column if path is not empty.
type part struct {
	literal string
	path    []int // column, then fields of structs
	raw     bool
	name    string
}

// parseTemplate checks the text of a subject against the columns of s.
func parseTemplate(text string, s *messages.Schema) (*template, error) {
	return subjectSyntax().parse(text, s)
}

func (x *syntax) parse(text string, s *messages.Schema) (*template, error) {
	t := &template{text: text, syntax: x}
	rest := text
	for rest != "" {
		i := strings.IndexAny(rest, "{}")
		if i < 0 {
			t.parts = append(t.parts, part{literal: rest})
			break
		}
		if i > 0 {
			t.parts = append(t.parts, part{literal: rest[:i]})
		}
		end := strings.IndexByte(rest[i:], '}')
		if rest[i] == '}' || end < 0 {
			return nil, fault.New(fault.Config, "%s %q: braces do not match", x.name, text)
		}
		p, err := parsePlace(rest[i+1:i+end], s)
		if err != nil {
			return nil, fault.Wrap(fault.Config, err, "%s %q", x.name, text)
		}
		t.raw = t.raw || p.raw
		t.parts = append(t.parts, p)
		rest = rest[i+end+1:]
	}
	// With a plain token for each value what is left must be well formed.
	sample := ""
	for _, p := range t.parts {
		if p.path != nil {
			sample += "x"
		}
		sample += p.literal
	}
	return t, x.check(sample)
}

func parsePlace(text string, s *messages.Schema) (part, error) {
	name, mode, has := strings.Cut(text, ":")
	p := part{name: name, raw: has && mode == "raw"}
	if has && mode != "raw" {
		return p, fault.New(fault.Config, "{%s}: %q is not known; only :raw is", text, mode)
	}
	column := s.Index(name)
	var fields []string
	if column < 0 {
		names := strings.Split(name, ".")
		column, fields = s.Index(names[0]), names[1:]
	}
	if column < 0 {
		return p, fault.New(fault.Config, "there is no column %q (columns: %s)", name, s)
	}
	p.path = []int{column}
	typ := s.Fields[column].Type
	for _, f := range fields {
		k := messages.NewSchema(typ.Fields...).Index(f)
		if typ.Kind != messages.Struct || k < 0 {
			return p, fault.New(fault.Config, "{%s}: %s has no field %q", text, typ, f)
		}
		p.path = append(p.path, k)
		typ = typ.Fields[k].Type
	}
	switch typ.Kind {
	case messages.Null, messages.Interval, messages.Array, messages.Map, messages.Struct:
		return p, fault.New(fault.Config, "{%s}: a value of type %s is no part of a subject or key", text, typ)
	}
	return p, nil
}

// filter is a filter subject that covers every subject the template makes.
func (t *template) filter() string {
	const mark, rawMark = "\x01", "\x02"
	var b strings.Builder
	for _, p := range t.parts {
		switch {
		case p.path == nil:
			b.WriteString(p.literal)
		case p.raw:
			b.WriteString(rawMark)
		default:
			b.WriteString(mark)
		}
	}
	tokens := strings.Split(b.String(), ".")
	for i, tok := range tokens {
		if strings.Contains(tok, rawMark) {
			return strings.Join(append(tokens[:i:i], ">"), ".")
		}
		if strings.Contains(tok, mark) {
			tokens[i] = "*"
		}
	}
	return strings.Join(tokens, ".")
}

// bounded reports whether every subject is a valid one, whatever the values.
func (t *template) bounded(s *messages.Schema) bool {
	const longest = 64 // text of a value of a fixed size, escaped
	size := 0
	for _, p := range t.parts {
		if p.path == nil {
			size += len(p.literal)
			continue
		}
		typ := s.Fields[p.path[0]].Type
		for _, f := range p.path[1:] {
			typ = typ.Fields[f].Type
		}
		if typ.Kind == messages.String || typ.Kind == messages.Binary {
			return false
		}
		size += longest
	}
	return !t.raw && size <= maxSubject
}

// append appends the subject of physical row i. The error is of kind BadRow.
func (t *template) append(dst []byte, b *messages.Batch, i int) ([]byte, error) {
	from := len(dst)
	for k := range t.parts {
		p := &t.parts[k]
		if p.path == nil {
			dst = append(dst, p.literal...)
			continue
		}
		c := b.Column(p.path[0])
		null := c.IsNull(i)
		for _, f := range p.path[1:] {
			if null {
				break
			}
			c = c.Child(f)
			null = c.IsNull(i)
		}
		if null {
			dst = append(dst, "_null"...)
			continue
		}
		at := len(dst)
		dst = appendText(dst, c, i)
		if !p.raw {
			dst = t.syntax.escape(dst, at)
		}
	}
	subject := dst[from:]
	if len(subject) > maxSubject {
		return dst[:from], fault.New(fault.BadRow, "%s %.60q... of %d bytes is longer than %d", t.syntax.name, subject, len(subject), maxSubject)
	}
	if t.raw {
		if err := t.syntax.check(string(subject)); err != nil {
			return dst[:from], fault.Wrap(fault.BadRow, err, "template %q", t.text)
		}
	}
	return dst, nil
}

// appendText appends value i of c as text.
func appendText(dst []byte, c *messages.Column, i int) []byte {
	switch c.Type().Kind {
	case messages.Float:
		return appendFloat(dst, float64(c.Float32s()[i]), 32)
	case messages.Double:
		return appendFloat(dst, c.Float64s()[i], 64)
	case messages.Binary:
		return hex.AppendEncode(dst, c.Bytes(i))
	}
	dst, _ = format.AppendScalar(dst, c, i) // parsePlace refuses types that are not scalar
	return dst
}

// appendFloat writes the shortest text that reads back as v; -0 is 0.
func appendFloat(dst []byte, v float64, bits int) []byte {
	switch {
	case v == 0:
		v = 0
	case math.IsNaN(v):
		return append(dst, "NaN"...)
	}
	return strconv.AppendFloat(dst, v, 'g', -1, bits)
}

// escapeToken makes dst[at:] one token of a subject, reversibly: what has a
// meaning in subjects or cannot stand there becomes %XX. Two texts have a
// meaning of their own, _null for NULL and _empty for the empty string; as
// values they begin with %5F.
func escapeToken(dst []byte, at int) []byte {
	v := dst[at:]
	if len(v) == 0 {
		return append(dst, "_empty"...)
	}
	special := string(v) == "_null" || string(v) == "_empty"
	utf := utf8.Valid(v)
	n := 0
	for i, c := range v {
		if mustEscape(c, utf) || special && i == 0 {
			n++
		}
	}
	if n == 0 {
		return dst
	}
	return escapeBytes(dst, at, n, '%', func(i int, c byte) bool { return mustEscape(c, utf) || special && i == 0 })
}

// escapeBytes writes the n bytes of dst[at:] that need it as mark and two
// hexadecimal digits. needs gets the place of a byte behind at, and the byte.
func escapeBytes(dst []byte, at, n int, mark byte, needs func(i int, c byte) bool) []byte {
	old := len(dst)
	for range 2 * n {
		dst = append(dst, 0)
	}
	// From the back, so that nothing is overwritten before it is moved.
	const digits = "0123456789ABCDEF"
	w := len(dst)
	for r := old - 1; r >= at; r-- {
		c := dst[r]
		if needs(r-at, c) {
			w -= 3
			dst[w], dst[w+1], dst[w+2] = mark, digits[c>>4], digits[c&15]
			continue
		}
		w--
		dst[w] = c
	}
	return dst
}

func mustEscape(c byte, utf bool) bool {
	switch {
	case c <= ' ', c == 0x7f, c == '.', c == '*', c == '>', c == '%', c == '$':
		return true
	}
	return c >= 0x80 && !utf
}

// escaped returns s as one token of a subject.
func escaped(s string) string { return string(escapeToken([]byte(s), 0)) }
