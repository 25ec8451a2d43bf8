// Package badgerstore keeps the segments and commit records of one query in a
// Badger database in a directory of its own. It is the only package that knows
// Badger.
//
// # Layout
//
//	DIR/lock     held with flock while the store is open; content: process id
//	DIR/FORMAT   format version, written once; read before anything else
//	DIR/EPOCH    epoch witness: the newest epoch whose record was made durable
//	DIR/db/      the Badger database, in managed mode; versions are epochs
//
// Keys, integers big-endian:
//
//	p epoch/8 number/4                       pack: many small segments with a directory
//	r epoch/8                                commit record
//	s epoch/8 number/4 part/2 parts/2 ...    part of a large segment; see segmentKey
//
// Every key is written once and later deleted, never overwritten. Values of 1 KiB
// and more lie in Badger's value log and only pointers in its tree, so that
// compaction moves hardly any bytes; that is why small segments are packed.
//
// # Where is what
//
// The store keeps an index of all segments in memory (about 40 bytes each),
// built from the keys and the directories of the packs at Open. With it, a pack
// is deleted when the last of its members is not needed any more, and Drop costs
// no reads. Deletions are written together with the next epoch, so that nothing
// disappears before the epoch that made it superfluous is durable. They need not
// all happen: what a crash leaves behind is found again at the next Open, and
// epochs that were never committed are listed in every later record until their
// remains are gone.
//
// # Opening
//
// Badger trusts its files: it would lose data or end the process over some kinds
// of damage. Open therefore looks first and refuses, with an error that says
// what is wrong: a directory in use, a newer format, a missing MANIFEST, a table
// that is missing, cut or does not match its checksums, too little space (a full
// disk ends the process in the middle of a write to a memory-mapped file), and a
// witness that is newer than the newest record, damaged or missing. Files that
// hold nothing are removed: logs of zero length, which a killed process may leave,
// and cut statistics.
package badgerstore
