package messages

// Bitmaps are Arrow's: bit i is byte i/8, bit i%8, least significant first.

// BitSet reports bit i of m.
func BitSet(m []byte, i int) bool { return m[i>>3]&(1<<(i&7)) != 0 }

// SetBit sets bit i of m.
func SetBit(m []byte, i int) { m[i>>3] |= 1 << (i & 7) }

// ClearBit clears bit i of m.
func ClearBit(m []byte, i int) { m[i>>3] &^= 1 << (i & 7) }

// BitmapLen is the number of bytes that hold n bits.
func BitmapLen(n int) int { return (n + 7) >> 3 }
