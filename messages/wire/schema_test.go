package wire

import (
	"bytes"
	"encoding/hex"
	"math/rand/v2"
	"testing"

	"github.com/streamd-io/streamd/messages"
)

func TestSchemaRoundTrip(t *testing.T) {
	for seed := range uint64(300) {
		s := randomSchema(rand.New(rand.NewPCG(seed, 8)), 4, int(seed%6))
		data := EncodeSchema(nil, s)
		got, err := DecodeSchema(data)
		if err != nil {
			t.Fatalf("%s: %v", s, err)
		}
		if !got.Equal(s) {
			t.Fatalf("got %s, want %s", got, s)
		}
		for n := range data {
			if short, err := DecodeSchema(data[:n]); err == nil {
				t.Fatalf("the first %d of %d bytes of %s gave %s", n, len(data), s, short)
			}
		}
	}
}

// The bytes were laid out by hand from the comment of EncodeSchema.
func TestSchemaLayout(t *testing.T) {
	s := messages.NewSchema(
		messages.Field{Name: "id", Type: messages.T(messages.BigInt)},
		messages.Field{Name: "m", Type: messages.MapType(messages.T(messages.String), messages.ArrayType(messages.DecimalType(10, 2)))},
		messages.Field{Name: "w", Type: messages.WindowType()},
	)
	want := "01" + "03" + "02" + "6964" + "05" + "01" + "6d" + "10" + "09" + "0f" + "080a02" +
		"01" + "77" + "11" + "02" + "05" + "7374617274" + "0c" + "03" + "656e64" + "0c"
	if got := hex.EncodeToString(EncodeSchema(nil, s)); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestDecodeSchemaRefuses(t *testing.T) {
	nested := append([]byte{1, 1, 0}, bytes.Repeat([]byte{byte(messages.Array)}, 1<<20)...)
	for name, data := range map[string][]byte{
		"another version":     {2, 0},
		"left over bytes":     {1, 0, 0},
		"an unknown kind":     {1, 1, 0, 18},
		"too deep nesting":    append(nested, byte(messages.Int)),
		"decimal(0,0)":        {1, 1, 0, byte(messages.Decimal), 0, 0},
		"decimal(39,0)":       {1, 1, 0, byte(messages.Decimal), 39, 0},
		"decimal(3,4)":        {1, 1, 0, byte(messages.Decimal), 3, 4},
		"too many fields":     {1, 0xff, 0xff, 0xff, 0xff, 0x0f},
		"an endless number":   bytes.Repeat([]byte{0xff}, 12),
		"a name that is long": {1, 1, 0x80, 0x01, 'x'},
		"a padded number":     {1, 0x80, 0},
	} {
		if s, err := DecodeSchema(data); err == nil {
			t.Errorf("%s: got %s, want an error", name, s)
		}
	}
}
