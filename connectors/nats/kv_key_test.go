package nats

import (
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// goodKey is the rule of nats.go (validKeyRe and keyValid).
var goodKey = regexp.MustCompile(`^[-/_=a-zA-Z0-9]+(\.[-/_=a-zA-Z0-9]+)*$`)

func keyOf(t testing.TB, text string, s *messages.Schema, row ...any) (string, error) {
	t.Helper()
	tm, err := parseKey(text, s)
	if err != nil {
		t.Fatal(err)
	}
	b := messages.NewBuilder(s)
	if err := format.AppendRow(b, row); err != nil {
		t.Fatal(err)
	}
	batch := b.Finish()
	defer batch.Release()
	k, err := tm.append(nil, batch, 0)
	return string(k), err
}

func TestKeys(t *testing.T) {
	s := messages.NewSchema(
		messages.Field{Name: "s", Type: messages.T(messages.String)}, messages.Field{Name: "n", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "d", Type: messages.T(messages.Double)},
	)
	for _, c := range []struct {
		text, want string
		row        []any
	}{
		{"{s}", "abc-/Z_9", []any{"abc-/Z_9", int64(0), 0.0}},
		{"{s}.{n}", "a=2Eb.-17", []any{"a.b", int64(-17), 0.0}},
		{"x.{s}.{n}", "x._null.5", []any{nil, int64(5), 0.0}},
		{"{s}", "=5Fnull", []any{"_null", int64(5), 0.0}},
		{"{s}", "_empty", []any{"", int64(5), 0.0}},
		{"{s}", "=5Fkv", []any{"_kv", int64(5), 0.0}},
		{"{s}", "=C3=A4=20=3D=25=2A=3E", []any{"ä =%*>", int64(5), 0.0}},
		{"{d}", "1=2E5", []any{"", int64(5), 1.5}},
		{"{d}", "0", []any{"", int64(5), 0.0}},
		{"v{n}", "v5", []any{"", int64(5), 0.0}},
		{"{s:raw}", "a.b", []any{"a.b", int64(5), 0.0}},
	} {
		got, err := keyOf(t, c.text, s, c.row...)
		if err != nil || got != c.want {
			t.Errorf("key %s of %v = %q, %v, want %q", c.text, c.row, got, err, c.want)
		}
	}
	_, err := keyOf(t, "{s:raw}", s, "a b", int64(5), 0.0)
	wantFault(t, err, fault.BadRow, "", `holds ' '`)
	_, err = keyOf(t, "{s}", s, strings.Repeat("ä", 50), int64(5), 0.0)
	wantFault(t, err, fault.BadRow, "", "of 300 bytes is longer than 255")
}

// TestKeysAreInjective: different rows have different keys that clients accept, and
// the values can be read back.
func TestKeysAreInjective(t *testing.T) {
	s := messages.NewSchema(messages.Field{Name: "a", Type: messages.T(messages.String)}, messages.Field{Name: "b", Type: messages.T(messages.String)})
	rnd := rand.New(rand.NewPCG(7, 7))
	value := func() any {
		const alphabet = "a._=5FN-/ %\x00\xff\xc3\xa4*>$Z"
		if rnd.IntN(20) == 0 {
			return nil
		}
		v := make([]byte, rnd.IntN(4))
		for i := range v {
			v[i] = alphabet[rnd.IntN(len(alphabet))]
		}
		return string(v)
	}
	hex := regexp.MustCompile("=[0-9A-F]{2}")
	back := func(token string) any {
		switch token {
		case "_null":
			return nil
		case "_empty":
			return ""
		}
		return hex.ReplaceAllStringFunc(token, func(x string) string {
			n, err := strconv.ParseUint(x[1:], 16, 8)
			if err != nil {
				t.Fatal(err)
			}
			return string([]byte{byte(n)})
		})
	}
	for range 20_000 {
		row := []any{value(), value()}
		k, err := keyOf(t, "x{a}y.z.{b}", s, row...)
		if err != nil {
			t.Fatal(err)
		}
		if !goodKey.MatchString(k) {
			t.Fatalf("key %q of %q is not valid", k, row)
		}
		parts := strings.Split(k, ".")
		if len(parts) != 3 {
			t.Fatalf("key %q of %q", k, row)
		}
		got := []any{back(parts[0][1 : len(parts[0])-1]), back(parts[2])}
		if !slices.Equal(got, row) {
			t.Fatalf("key %q of %q reads back as %q", k, row, got)
		}
	}
}

func TestKeyParts(t *testing.T) {
	ts := messages.T(messages.Timestamp)
	s := messages.NewSchema(
		messages.Field{Name: "window", Type: messages.StructType(messages.Field{Name: "start", Type: ts}, messages.Field{Name: "end", Type: ts})},
		messages.Field{Name: "a", Type: messages.T(messages.BigInt)}, messages.Field{Name: "b", Type: messages.T(messages.String)},
	)
	tm, err := parseKey("{a}.x.{window.start}.{b:raw}", s)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]connectors.KeyPart{{Column: 1}, {Column: 0, Field: "start"}}, tm.keyParts(s)); d != "" {
		t.Errorf("parts (-want +got):\n%s", d)
	}
}
