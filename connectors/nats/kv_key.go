package nats

import (
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// keySyntax is that of keys in a bucket. Clients accept letters, digits and
// -/_=. in them, so the percent sign of subjects is not available: other bytes
// of a value become =XX, as in quoted-printable text.
func keySyntax() *syntax {
	return &syntax{name: "key", escape: escapeKey, check: checkKey}
}

// parseKey checks the key template of a bucket against the columns of s. Two
// values that stand side by side must be told apart by a dot, the one character
// that no escaped value holds: otherwise different rows could have one key.
func parseKey(text string, s *messages.Schema) (*template, error) {
	t, err := keySyntax().parse(text, s)
	if err != nil {
		return nil, err
	}
	before, dot := "", true
	for i := range t.parts {
		p := &t.parts[i]
		switch {
		case p.path == nil:
			dot = dot || strings.Contains(p.literal, ".")
		case !dot:
			return nil, fault.New(fault.Config, "key %q: put a dot between {%s} and {%s}, so that different rows have different keys", text, before, p.name)
		default:
			before, dot = p.name, false
		}
	}
	return t, nil
}

// keyParts lists the values that a key tells apart. Unescaped ones may hold dots
// and do not count.
func (t *template) keyParts(s *messages.Schema) []connectors.KeyPart {
	out := []connectors.KeyPart{}
	for i := range t.parts {
		p := &t.parts[i]
		if p.path == nil || p.raw || len(p.path) > 2 {
			continue
		}
		k := connectors.KeyPart{Column: p.path[0]}
		if len(p.path) == 2 {
			k.Field = s.Fields[p.path[0]].Type.Fields[p.path[1]].Name
		}
		out = append(out, k)
	}
	return out
}

// escapeKey makes dst[at:] one token of a key, reversibly: what is not a letter, a
// digit, - / or _ becomes =XX, and so does an underscore at the beginning, which
// is left to _null for NULL, _empty for the empty text, and the keys that NATS
// keeps for itself.
func escapeKey(dst []byte, at int) []byte {
	v := dst[at:]
	if len(v) == 0 {
		return append(dst, "_empty"...)
	}
	n := 0
	for i, c := range v {
		if !isKeyByte(c) || i == 0 && c == '_' {
			n++
		}
	}
	if n == 0 {
		return dst
	}
	return escapeBytes(dst, at, n, '=', func(i int, c byte) bool { return !isKeyByte(c) || i == 0 && c == '_' })
}

// isKeyByte reports whether c may stand in a value as it is.
func isKeyByte(c byte) bool {
	switch {
	case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '-', c == '/', c == '_':
		return true
	}
	return false
}

// checkKey holds a key to the rules of nats.go and other clients: a key that
// breaks them can be stored, but not read.
func checkKey(s string) error {
	switch {
	case s == "":
		return fault.New(fault.Config, "key is empty")
	case len(s) > maxSubject:
		return fault.New(fault.Config, "key %.40q... has %d bytes, more than %d", s, len(s), maxSubject)
	case s[0] == '.' || s[len(s)-1] == '.' || strings.Contains(s, ".."):
		return fault.New(fault.Config, "key %q has an empty token", s)
	case strings.HasPrefix(s, "_kv"):
		return fault.New(fault.Config, "key %q begins with _kv, which NATS keeps for itself", s)
	}
	for i := range len(s) {
		if c := s[i]; !isKeyByte(c) && c != '.' && c != '=' {
			return fault.New(fault.Config, "key %q holds %q; letters, digits and -/_=. may stand in a key", s, c)
		}
	}
	return nil
}

// checkBucketName holds the name of a bucket to the same clients' rules.
func checkBucketName(name string) error {
	for i := range len(name) {
		if c := name[i]; !isKeyByte(c) || c == '/' {
			return fault.New(fault.Config, "bucket %q: the name may hold letters, digits, - and _", name)
		}
	}
	if name == "" {
		return fault.New(fault.Config, "bucket: the name is empty")
	}
	return nil
}
