package fault

import (
	"crypto/subtle"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
)

// redacted is what every printer shows of a secret.
const redacted = "[redacted]"

// Secret is a string that must not appear in logs, error texts, plans or API
// answers: a password, a token, a key. Every verb of fmt, slog, JSON and text
// encoding show "[redacted]" instead; only Reveal gives the value. The zero
// value is an empty secret and shows as an empty string, so that "not set" can
// be told from "set".
//
// The value is held by pointer. fmt does not call methods of unexported
// fields, so a plain string inside would be printed with %+v of a struct that
// holds the secret in such a field; of a pointer only the address is. (Printers
// that follow pointers by reflection, such as cmp.Diff in a failing test, do
// show it.)
//
// A Secret is immutable and may be copied. Compare with Equal, not with ==.
type Secret struct {
	value *string
}

// NewSecret returns a secret that holds s.
func NewSecret(s string) Secret {
	if s == "" {
		return Secret{}
	}
	return Secret{value: &s}
}

// Reveal returns the value. Hand it to the client library that needs it and
// keep it nowhere.
func (s Secret) Reveal() string {
	if s.value == nil {
		return ""
	}
	return *s.value
}

// IsZero reports whether the secret is empty.
func (s Secret) IsZero() bool { return s.value == nil }

// Equal reports whether two secrets hold the same value. The time it takes
// depends on the lengths, not on the content.
func (s Secret) Equal(t Secret) bool {
	return subtle.ConstantTimeCompare([]byte(s.Reveal()), []byte(t.Reveal())) == 1
}

// String returns "[redacted]", or "" for an empty secret.
func (s Secret) String() string {
	if s.IsZero() {
		return ""
	}
	return redacted
}

// Format prints the redacted form for every verb and flag.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue returns the redacted form for slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the redacted form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalJSON returns the redacted form as a JSON string.
func (s Secret) MarshalJSON() ([]byte, error) { return json.Marshal(s.String()) }
