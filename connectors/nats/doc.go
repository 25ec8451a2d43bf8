// Package nats reads from and writes to NATS JetStream streams.
//
// # Source
//
// Every partition of a source (a filter subject) has its own connection and its
// own pull consumer. For streams with limits retention it needs no
// acknowledgements; the position is kept in the engine's checkpoint, never on the
// server. Streams with workqueue and interest retention forget what was
// acknowledged, which therefore happens when the epoch of a message is durable;
// see durable.go. Start, reconnect and reset are one path (reader.attach), which
// compares the position with what the stream holds now: the server itself would
// silently start at the first message that is left, or wait for a sequence that
// a re-created stream reaches next month.
//
// A subject without a stream is one of core NATS (core.go): each message at most
// once, and what is dropped on the way is counted.
//
// # Sink
//
// A sink publishes each row at once to a stream. With at_least_once the
// acknowledgements gate the epoch. With exactly_once every row carries its
// identity in the header Nats-Msg-Id, and what an earlier attempt has published
// beyond the last committed epoch is found by reading the end of the stream and
// adopted; see committer.go for the protocol and why it is right. Per epoch, rows
// are published out of the checkpoint, after its commit: one by one (epoch.go), or
// as one atomic batch that readers see as a whole (transaction.go). The server's
// duplicate window is not part of any argument. output.go says what the stream
// must be, exclusive.go how rows of others are noticed, and late ones refused.
//
// With bucket and key a sink keeps the last row per key in a key-value bucket; see
// kv_committer.go and kv_epoch.go. Its subjects are $KV.<b>.> and its stream is
// KV_<b>, for the permissions below; it needs .MSG.GET there, too, and what a source
// does in complete mode only.
//
// Connections do not reconnect by themselves: nats.go would send rows on a new
// connection before anybody could check that the stream is still the same one
// and that no other attempt has taken over. Both sides dial again themselves.
//
// # Permissions
//
// With <s> for the stream, a source publishes to $JS.API.STREAM.INFO.<s>,
// $JS.API.CONSUMER.CREATE.<s>.>, .MSG.NEXT.<s>.>, .INFO.<s>.> and .DELETE.<s>.>,
// and subscribes to its inbox (option inbox_prefix); if the stream has several
// replicas, it publishes to $JS.API.STREAM.MSG.GET.<s>, too. With workqueue and interest
// retention it also publishes to $JS.API.CONSUMER.DURABLE.CREATE.<s>.> and
// $JS.ACK.<s>.>. Without a stream it only subscribes to its subjects. A sink
// publishes to its subjects and to $JS.API.STREAM.INFO.<s>; with exactly_once
// also to everything a source does, to streamd.commits.>, and for the stream
// STREAMD_COMMITS to $JS.API.STREAM.INFO, .CREATE (unless it exists) and
// .MSG.GET. With transactional it is streamd.transactions.> instead, and
// .MSG.GET of <s>; with exclusive and exactly_once streamd.fences.> besides, and the
// same of <s>.
//
// # What remains exposed
//
// A row that a dead process had sent, and that its server takes out of a socket
// only after the next attempt has read the end of the stream, is stored behind
// that attempt's back. Its identity is then refused by the server's duplicate
// window if the same row is published within it; that is the only thing the
// window is good for here. Transactions and exclusive sinks do not have this; the
// latter in streams with one replica.
//
// Nothing here is safe for concurrent use unless it says so. The goroutines are
// those of nats.go, one per committer and one per reader of a stream with workqueue
// or interest retention; none is left after Close.
package nats
