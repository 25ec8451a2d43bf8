package cursor

import (
	"bytes"
	"encoding/binary"
	"math"
	"testing"
)

// sample is one of everything, in the order in which all reads.
func sample() []byte {
	b := binary.AppendUvarint(nil, math.MaxUint64)
	b = append(binary.AppendUvarint(b, 4), "text"...)
	b = append(b, 7)
	b = binary.BigEndian.AppendUint32(b, 0xfedcba98)
	b = binary.AppendUvarint(b, 2)
	return append(b, "xy"...)
}

func all(c *Cursor) (n uint64, text []byte, one byte, four uint32, count int) {
	return c.Uvarint(), c.Bytes(), c.Byte(), c.Uint32(), c.Count()
}

func TestEverythingIsReadInOrder(t *testing.T) {
	b := sample()
	c := New(b)
	n, text, one, four, count := all(&c)
	if n != math.MaxUint64 || string(text) != "text" || one != 7 || four != 0xfedcba98 || count != 2 || c.Failed() || string(c.Rest()) != "xy" {
		t.Errorf("got %d, %q, %d, %x, %d, failed %v, rest %q", n, text, one, four, count, c.Failed(), c.Rest())
	}
	_ = append(text, '!')
	if !bytes.Equal(b, sample()) {
		t.Error("appending to what was read has changed the input")
	}
}

func TestAfterACutThereAreOnlyZeros(t *testing.T) {
	b := sample()
	for n := range len(b) - 2 {
		c := New(b[:n])
		all(&c)
		if !c.Failed() {
			t.Errorf("cut to %d bytes: nothing is noticed", n)
		}
		if v, text, one, four, count := all(&c); v != 0 || text != nil || one != 0 || four != 0 || count != 0 || len(c.Rest()) > 0 {
			t.Errorf("cut to %d bytes: after the failure got %d, %q, %d, %x, %d, rest %q", n, v, text, one, four, count, c.Rest())
		}
	}
}

func TestALengthBeyondTheEndFails(t *testing.T) {
	for _, n := range []uint64{3, math.MaxInt64, math.MaxUint64} {
		b := append(binary.AppendUvarint(nil, n), "xy"...)
		c := New(b)
		if got := c.Bytes(); got != nil || !c.Failed() {
			t.Errorf("%d bytes of 2: got %q, failed %v", n, got, c.Failed())
		}
		c = New(b)
		if got := c.Count(); got != 0 || !c.Failed() {
			t.Errorf("%d things in 2 bytes: got %d, failed %v", n, got, c.Failed())
		}
	}
	c := New(bytes.Repeat([]byte{0xff}, 20))
	if c.Uvarint(); !c.Failed() {
		t.Error("a number of 140 bits is accepted")
	}
}
