// Package cursor reads the numbers and texts of which the stores' encodings are
// made. It is for bytes that may be damaged: every read is checked, and what a
// length claims is compared with what is there before anything is allocated.
package cursor

import "encoding/binary"

// Cursor reads from the beginning of a slice. After a read that failed, all reads
// return zeros, so that a decoder may ask Failed once for several of them. It
// belongs to one goroutine.
type Cursor struct {
	rest   []byte
	failed bool
}

// New returns a cursor at the beginning of b, which it never changes.
func New(b []byte) Cursor { return Cursor{rest: b} }

// Failed reports whether a read has gone beyond the end or met a broken number.
func (c *Cursor) Failed() bool { return c.failed }

// Rest returns what has not been read; nothing after a failed read.
func (c *Cursor) Rest() []byte { return c.rest }

func (c *Cursor) fail() { c.failed, c.rest = true, nil }

// Uvarint reads a number.
func (c *Cursor) Uvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.fail()
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// Count reads the number of things that follow, none of which is shorter than a
// byte.
func (c *Cursor) Count() int {
	n := c.Uvarint()
	if n > uint64(len(c.rest)) {
		c.fail()
		return 0
	}
	return int(n)
}

// Byte reads one byte.
func (c *Cursor) Byte() byte {
	if len(c.rest) == 0 {
		c.fail()
		return 0
	}
	b := c.rest[0]
	c.rest = c.rest[1:]
	return b
}

// Uint32 reads 4 bytes, the highest first.
func (c *Cursor) Uint32() uint32 {
	b := c.take(4)
	if b == nil {
		return 0
	}
	return binary.BigEndian.Uint32(b)
}

// Bytes reads a length and as many bytes. They alias the slice of New; appending
// to them does not change it.
func (c *Cursor) Bytes() []byte { return c.take(c.Uvarint()) }

// take reads n bytes, nil if there are fewer.
func (c *Cursor) take(n uint64) []byte {
	if n > uint64(len(c.rest)) {
		c.fail()
		return nil
	}
	out := c.rest[:n:n]
	c.rest = c.rest[n:]
	return out
}
