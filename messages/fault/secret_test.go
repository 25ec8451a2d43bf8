package fault_test

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages/fault"
)

const hunter = "hunter2-s3cr3t"

// account holds secrets in all the ways a config struct may hold them.
type account struct {
	User    string
	Public  fault.Secret
	Pointer *fault.Secret
	List    []fault.Secret
	ByName  map[string]fault.Secret
	private fault.Secret
	nested  struct{ deep fault.Secret }
}

// element is what encoding/xml takes: a named struct.
type element struct{ Key fault.Secret }

func newAccount() account {
	s := fault.NewSecret(hunter)
	a := account{User: "ann", Public: s, Pointer: &s, List: []fault.Secret{s}, ByName: map[string]fault.Secret{"k": s}, private: s}
	a.nested.deep = s
	return a
}

func TestSecretIsNotPrinted(t *testing.T) {
	s, a := fault.NewSecret(hunter), newAccount()
	verbs := strings.Split("%v %+v %#v %s %q %x %X %d %t %p %e %20v %-5s %T", " ")
	for _, v := range []any{s, &s, a, &a, []any{s, a}, map[string]any{"a": a}, fmt.Errorf("connect: %v", s)} {
		for _, verb := range verbs {
			refuse(t, verb, fmt.Sprintf(verb, v))
		}
		refuse(t, "Sprint", fmt.Sprint(v))
	}
}

func TestSecretIsNotLogged(t *testing.T) {
	s, a := fault.NewSecret(hunter), newAccount()
	for name, handler := range map[string]func(*bytes.Buffer) slog.Handler{
		"text": func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		"json": func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var out bytes.Buffer
		slog.New(handler(&out)).Info("open", "secret", s, "pointer", &s, "account", a, "all", []any{s, a})
		refuse(t, name, out.String())
		if !strings.Contains(out.String(), "[redacted]") {
			t.Errorf("%s handler does not show that a secret is set: %s", name, out.String())
		}
	}
}

func TestSecretIsNotEncoded(t *testing.T) {
	a := newAccount()
	out, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, "json", string(out))
	out, err = xml.Marshal(element{Key: a.Public})
	if err != nil {
		t.Fatal(err)
	}
	refuse(t, "xml", string(out))
	out, err = a.Public.MarshalText()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := string(out), "[redacted]"; got != want {
		t.Errorf("MarshalText = %q, want %q", got, want)
	}
}

func TestSecretValue(t *testing.T) {
	s, zero := fault.NewSecret(hunter), fault.Secret{}
	if got := s.Reveal(); got != hunter {
		t.Errorf("Reveal = %q, want %q", got, hunter)
	}
	if got := zero.Reveal() + zero.String() + fmt.Sprint(zero); got != "" {
		t.Errorf("an empty secret shows as %q, want nothing", got)
	}
	if s.IsZero() || !zero.IsZero() || !fault.NewSecret("").IsZero() {
		t.Error("IsZero does not tell an empty secret from a set one")
	}
	if !s.Equal(fault.NewSecret(hunter)) || s.Equal(zero) || s.Equal(fault.NewSecret("other")) {
		t.Error("Equal does not compare values")
	}
	if !cmp.Equal(s, fault.NewSecret(hunter)) || cmp.Equal(s, fault.NewSecret("other")) {
		t.Error("cmp does not compare values")
	}
}

func refuse(t *testing.T, how, out string) {
	t.Helper()
	hex := fmt.Sprintf("%x", hunter)
	if strings.Contains(out, hunter) || strings.Contains(strings.ToLower(out), hex) {
		t.Errorf("%s prints the secret: %s", how, out)
	}
}
