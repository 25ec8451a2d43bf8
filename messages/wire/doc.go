// Package wire has the formats in which the engine's data leaves memory: the
// commit record (a protobuf message) and the raw column block that carries a
// batch, with the encoding of its schema. Segments hold column blocks today;
// edges between processes will.
//
// # Column block
//
// A block is a header, the side information and the columns, depth first. All
// numbers are little endian, every part starts at a multiple of 8 bytes from the
// start of the block and is padded with zeros, so that a block can be read in
// place. The schema is not part of the block: it travels once per link or
// segment.
//
//	0   4  magic "SDCB"
//	4   1  format version (1)
//	5   1  flags: 1 kinds, 2 lineage offsets, 4 lineage paths, 8 arrivals, 16 marks
//	6   1  frame
//	7   1  0
//	8   4  rows
//	12  4  columns
//	16  8  size of the block in bytes, header included
//	24  8  watermark
//	then, as the flags say: lineage base (2 x 8) and offsets, paths, arrivals (8 a
//	row), marks (count 4, 0 4, then row 4, 0 4, time 8 each), kinds (1 a row)
//	then each column:
//	  kind 1, flags 1 (1: validity), 0 2, values 4
//	  validity bitmap; always there for void and for structs without fields, so
//	  that every value is backed by input
//	  fixed-width values, or boolean bits, or values+1 offsets (4 each, the first
//	  is 0) and the bytes of strings
//	  then the children
//
// Everything is checked before it is used: decoding never panics, and what it
// allocates is bounded by the size of the input (times a small constant).
package wire
