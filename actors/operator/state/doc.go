// Package state keeps the keyed state of one operator subtask: tables of
// fixed-width records that are addressed by key group, pane and key, with
// values of variable size, timers and incremental snapshots.
//
// A pane is a number the operator chooses, usually the start of a window or of
// a time slice. All entries of a pane are dropped at once, with one tombstone
// per key group instead of one per key. Operators without windows use pane 0.
//
// A record has Config.Words slots of 8 bytes and Config.Values values of
// variable size. The rule for writing is
//
//	e, created := s.Upsert(hash, pane, key) // or Find, UpsertInt, a Cursor
//	slots := s.Mutate(e)                    // before the first write in a call
//	slots[0]++
//
// Mutate is what makes snapshots incremental and cheap: it notes that the entry
// has changed and, if the entry belongs to a snapshot that is still being
// encoded, encodes its old content first. Slices returned by an entry point
// into the tables and are valid until the next call that inserts, deletes or
// sets a value.
//
// Snapshots: Freeze marks in microseconds what belongs to an epoch, Encode
// turns it into segments in small slices while rows go on, Restore applies
// segments to an empty store of any key-group range.
//
// A Store belongs to one goroutine; only Release may be called from others. No
// call blocks or does IO. Nothing in a table is a pointer, so that the garbage
// collector has nothing to scan, and nothing is allocated per row once the
// tables have grown to their size.
package state
