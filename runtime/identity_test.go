package runtime

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages/alloctest"
)

func TestEveryFlippedBitOfAnIdentityIsNoticed(t *testing.T) {
	want := identity{Attempt: 17, Incarnation: "00112233445566778899aabbccddeeff"}
	good, err := want.encode()
	if err != nil {
		t.Fatal(err)
	}
	for i := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[i/8] ^= 1 << (i % 8)
		got, err := parseIdentity(bad)
		if err == nil && (got.Attempt != want.Attempt || got.Incarnation != want.Incarnation) {
			t.Errorf("bit %d flipped: %s reads as %+v", i, bad, got)
		}
	}
	for n := range len(good) - 1 { // less the line's end
		if _, err := parseIdentity(good[:n]); err == nil {
			t.Errorf("cut to %d bytes: %s is accepted", n, good[:n])
		}
	}
	if _, err := parseIdentity(append(good, "{}"...)); err == nil {
		t.Error("something behind it is not noticed")
	}
}

// FuzzIdentity is about the file IDENTITY: what is accepted is written, and read
// again, as the same.
func FuzzIdentity(f *testing.F) {
	text, err := (&identity{Attempt: 17, Incarnation: "00112233445566778899aabbccddeeff"}).encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"attempt":18446744073709551615,"incarnation":"00112233445566778899AABBCCDDEEFF"}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var id identity
		var err error
		alloctest.Within(t, 64, len(data), func() { id, err = parseIdentity(data) })
		if err != nil {
			return
		}
		text, err := id.encode()
		if err != nil || !json.Valid(text) {
			t.Fatalf("%+v is written as %s, %v", id, text, err)
		}
		again, err := parseIdentity(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, id); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}
