// Package catalogstore keeps the checkpoints of many queries in one store. It is meant
// for queries that have no state: a commit record of a few hundred bytes per epoch
// does not need a database of its own, with its memory tables, files and syncs.
//
//	c := catalogstore.NewIn(dir, func(ctx context.Context) (epochs.Segments, error) { return badgerstore.Open(ctx, dir, opts) })
//	store, err := c.Open(ctx, "orders") // an epochs.Segments like any other
//
// # Layout
//
// The catalog is a log in the commit records of the store below, whose epochs are
// only the numbers of the log's entries: each entry sets and deletes values, which
// are records and segments of queries. The entry is made durable as a whole, so
// whatever one call changes happens together or not at all. Everything that is
// alive is held in memory, too; a query whose epochs carry more than small change
// has a store of its own.
//
// Calls of several queries that come while an entry is being written go into the
// next one together: one sync for all of them.
//
// The log is kept short by carrying what is still alive in its oldest entries into
// new ones, a little with each, and dropping the oldest then.
//
// # Damage
//
// What protects the store below protects the catalog: lock, format, checksums and
// epoch witness. An entry that cannot be read makes every query suspect whose
// content has not been settled since: it may have lost its newest record. Such a
// query gets epochs.ErrDamaged until it is rewound or removed. The damage is on
// record before the store below has forgotten it, first in a file beside that store,
// then in the log.
//
// # Concurrency
//
// All methods may be called from any goroutine. The package starts none.
package catalogstore
