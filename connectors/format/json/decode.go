package json

import (
	"fmt"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// decoder is the schema made ready for a scan. It belongs to one goroutine.
type decoder struct {
	scanner
	root      members
	unit      unit
	maxSize   int
	scratch   []byte  // folded names, unescaped strings
	unescaped []byte  // unescaped names
	order     []int32 // entries of a map, sorted by key
	// path of the field that made the record bad, innermost last.
	path []string
}

// node is the target of a value: a column or part of one.
type node struct {
	typ    messages.Type
	skip   bool
	struc  *members // Struct
	elem   *node    // Array: element; Map: value
	key    *node    // Map
	column int      // for members: which column or struct field
}

// members are the fields of an object.
type members struct {
	nodes  []node
	names  []string
	exact  map[string]int
	folded map[string]int
	// seen tells how each field got its value in the current object.
	seen []match
	hint int // the field that is likely next: documents repeat their order
}

type match uint8

const (
	absent match = iota
	byFold
	byName
)

func newDecoder(c format.Config) (format.Decoder, error) {
	d := &decoder{unit: unitOf(c.Options), maxSize: int(c.Options.Bytes("max_document_size"))}
	d.maxDepth = int(c.Options.Int("max_depth"))
	for i, f := range c.Schema.Fields {
		if i < len(c.Skip) && c.Skip[i] {
			continue
		}
		if err := check(f.Name, f.Type); err != nil {
			return nil, err
		}
	}
	d.root = *newMembers(c.Schema.Fields, c.Skip)
	return d, nil
}

func newMembers(fields []messages.Field, skip []bool) *members {
	m := &members{exact: map[string]int{}, folded: map[string]int{}, seen: make([]match, len(fields))}
	for i, f := range fields {
		n := node{typ: f.Type, column: i}
		if n.skip = i < len(skip) && skip[i]; !n.skip {
			n = newNode(f.Type)
			n.column = i
		}
		m.nodes = append(m.nodes, n)
		m.names = append(m.names, f.Name)
		if _, dup := m.exact[f.Name]; !dup {
			m.exact[f.Name] = i
		}
		key := string(fold(nil, f.Name))
		if _, dup := m.folded[key]; !dup {
			m.folded[key] = i
		}
	}
	return m
}

func newNode(t messages.Type) node {
	n := node{typ: t}
	switch t.Kind {
	case messages.Struct:
		n.struc = newMembers(t.Fields, nil)
	case messages.Array:
		e := newNode(*t.Elem)
		n.elem = &e
	case messages.Map:
		k, e := newNode(*t.Key), newNode(*t.Elem)
		n.key, n.elem = &k, &e
	}
	return n
}

// fold appends s with ASCII letters in lower case.
func fold[T string | []byte](dst []byte, s T) []byte {
	for i := range len(s) {
		c := s[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// find returns the field a name belongs to.
func (m *members) find(name []byte, scratch *[]byte) (int, match) {
	if m.hint < len(m.names) && string(name) == m.names[m.hint] {
		i := m.hint
		m.hint++
		return i, byName
	}
	if i, ok := m.exact[string(name)]; ok {
		m.hint = i + 1
		return i, byName
	}
	*scratch = fold((*scratch)[:0], name)
	if i, ok := m.folded[string(*scratch)]; ok {
		return i, byFold
	}
	return -1, absent
}

// Decode implements format.Decoder.
func (d *decoder) Decode(dst *messages.Builder, payload []byte, fill func(*messages.Builder)) error {
	if len(payload) > d.maxSize {
		return fault.New(fault.BadRow, "document of %d bytes is larger than max_document_size (%d)", len(payload), d.maxSize)
	}
	d.in, d.pos, d.depth, d.path = payload, 0, 0, d.path[:0]
	if len(payload) >= 3 && string(payload[:3]) == "\xef\xbb\xbf" {
		d.pos = 3 // a byte order mark
	}
	if !d.document(dst, fill) {
		return d.error()
	}
	return nil
}

// SkipsBlankLines implements format.BlankSkipper.
func (*decoder) SkipsBlankLines() {}

func (d *decoder) error() error {
	field := ""
	for i := len(d.path) - 1; i >= 0; i-- {
		if field != "" {
			field += "."
		}
		field += d.path[i]
	}
	if field != "" {
		field = "field " + field + ": "
	}
	return fault.New(fault.BadRow, "%s", fmt.Sprintf("%s%s (byte %d)", field, d.failure, d.failPos))
}

func (d *decoder) document(dst *messages.Builder, fill func(*messages.Builder)) bool {
	switch d.space() {
	case '{':
		if !d.row(dst, fill) {
			return false
		}
	case '[':
		if !d.rows(dst, fill) {
			return false
		}
	default:
		return d.unexpected("an object")
	}
	if d.space(); d.pos < len(d.in) {
		return d.unexpected("the end of the document")
	}
	return true
}

func (d *decoder) rows(dst *messages.Builder, fill func(*messages.Builder)) bool {
	if !d.enter() {
		return false
	}
	if d.space() == ']' {
		d.leave()
		return true
	}
	for {
		if d.space() != '{' {
			return d.unexpected("an object")
		}
		if !d.row(dst, fill) {
			return false
		}
		more, ok := d.next(']')
		if !ok || !more {
			return ok
		}
	}
}

func (d *decoder) row(dst *messages.Builder, fill func(*messages.Builder)) bool {
	if !d.object(&d.root, dst, nil, dst.Rows()) {
		return false
	}
	if fill != nil {
		fill(dst)
	}
	dst.EndRow()
	return true
}

// object reads an object into the columns of dst, or the fields of parent when
// that is not nil; each holds n values before this one.
func (d *decoder) object(m *members, dst *messages.Builder, parent *messages.Column, n int) bool {
	if !d.enter() {
		return false
	}
	clear(m.seen)
	m.hint = 0
	if d.space() == '}' {
		d.leave()
		return true
	}
	for {
		raw, escaped, ok := d.name()
		if !ok {
			return false
		}
		if escaped {
			d.unescaped = unescape(d.unescaped[:0], raw)
			raw = d.unescaped
		}
		i, how := m.find(raw, &d.scratch)
		if i < 0 || m.nodes[i].skip || how < m.seen[i] {
			ok = d.skip()
		} else {
			f := &m.nodes[i]
			c := childOf(dst, parent, f.column)
			if m.seen[i] != absent {
				c.Truncate(n)
			}
			m.seen[i] = how
			if ok = d.value(f, c); !ok {
				d.path = append(d.path, m.names[i])
			}
		}
		if !ok {
			return false
		}
		more, ok := d.next('}')
		if !ok || !more {
			return ok
		}
	}
}

func childOf(dst *messages.Builder, parent *messages.Column, i int) *messages.Column {
	if parent != nil {
		return parent.Child(i)
	}
	return dst.Column(i)
}

// structure reads an object into a struct column. It closes the value also when
// it fails, so that the caller can cut off whole values.
func (d *decoder) structure(f *node, c *messages.Column) bool {
	if d.in[d.pos] != '{' {
		return d.mismatch(f)
	}
	ok := d.object(f.struc, nil, c, c.Len())
	c.CloseStruct()
	return ok
}

// array reads an array; like structure it always closes the value.
func (d *decoder) array(f *node, c *messages.Column) bool {
	if d.in[d.pos] != '[' {
		return d.mismatch(f)
	}
	ok := d.elements(f.elem, c.Child(0))
	c.CloseList()
	return ok
}

func (d *decoder) elements(f *node, c *messages.Column) bool {
	if !d.enter() {
		return false
	}
	if d.space() == ']' {
		d.leave()
		return true
	}
	for {
		if !d.value(f, c) {
			return false
		}
		more, ok := d.next(']')
		if !ok || !more {
			return ok
		}
	}
}

// entries reads an object into a map; like structure it always closes the value.
func (d *decoder) entries(f *node, c *messages.Column) bool {
	if d.in[d.pos] != '{' {
		return d.mismatch(f)
	}
	e := c.Child(0)
	from := e.Len()
	ok := d.pairs(f, e)
	if ok && !distinct(e, from, &d.order) {
		ok = d.fail("a name occurs twice in a map")
	}
	c.CloseList()
	return ok
}

func (d *decoder) pairs(f *node, e *messages.Column) bool {
	if !d.enter() {
		return false
	}
	if d.space() == '}' {
		d.leave()
		return true
	}
	for {
		raw, escaped, ok := d.name()
		if !ok {
			return false
		}
		if ok = d.text(f.key, e.Child(0), raw, escaped); ok {
			ok = d.value(f.elem, e.Child(1))
		}
		e.CloseStruct()
		if !ok {
			return false
		}
		more, ok := d.next('}')
		if !ok || !more {
			return ok
		}
	}
}
