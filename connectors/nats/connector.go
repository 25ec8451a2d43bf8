package nats

import (
	"context"
	"slices"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// Connector returns the record of the connector "nats".
func Connector() connectors.Connector {
	return connectors.Connector{
		Name: "nats",
		Doc: "Reads and writes NATS JetStream streams. The source keeps its position in the checkpoint and notices streams that were " +
			"re-created or trimmed; the sink publishes rows at once, also exactly once, or per epoch, also as a transaction, or keeps the last row per key in a key-value bucket.",
		SourceOptions: slices.Concat(connectionOptions(), sourceOptions()),
		SinkOptions:   slices.Concat(connectionOptions(), sinkOptions()),
		Metadata:      metadataColumns(),
		Source: func(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
			return newSource(c)
		},
		Sink: func(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
			return newSink(c)
		},
	}
}

// connectionOptions say how to reach and enter a server.
func connectionOptions() []option.Option {
	return []option.Option{
		{Name: "url", Default: "nats://127.0.0.1:4222", Doc: "Servers, separated by commas. Schemes: nats, tls, ws, wss."},
		{Name: "name", Default: "streamd", Doc: "Name of the connection, as shown by the server's monitoring."},
		{Name: "creds_file", Doc: "Credentials file with JWT and seed."},
		{Name: "user", Doc: "User name; goes with password."},
		{Name: "password", Kind: option.Secret, Doc: "Password of the user."},
		{Name: "token", Kind: option.Secret, Doc: "Authentication token."},
		{Name: "nkey_file", Doc: "File with the seed of an NKey."},
		{Name: "tls_ca", Doc: "PEM file with the authorities that may have signed the server's certificate; default: those of the system."},
		{Name: "tls_cert", Doc: "PEM file with the client's certificate; goes with tls_key."},
		{Name: "tls_key", Doc: "PEM file with the client's key."},
		{Name: "inbox_prefix", Doc: "Prefix of the reply subjects, for users who may not use _INBOX."},
		{Name: "domain", Doc: "JetStream domain, to reach a stream through a leaf node."},
	}
}

func sourceOptions() []option.Option {
	return []option.Option{
		{Name: "stream", Doc: "Stream to read; without it subject is one of core NATS, read at most once. With limits retention the position is in the checkpoint only; with workqueue and interest retention messages are acknowledged once their epoch is durable."},
		{Name: "subject", Doc: "Filter subject, wildcards allowed; default: everything in the stream. With partitions it holds {partition}."},
		{Name: "filters", Doc: "Filter subjects separated by commas, each of which becomes a partition. They must not overlap."},
		{Name: "partitions", Kind: option.Int, Min: 1, Max: 1024, Doc: "Number of partitions: subject must hold {partition}, which stands for 0 to N-1, as in 'bids.{partition}.>'. Goes with a subject transform in the stream."},
		{Name: "queue_group", Doc: "Without a stream: group of subscribers that share the messages of a subject."},
		{Name: "start", Default: "earliest", Doc: "Where a query without a checkpoint starts: earliest, latest, seq:N or time:2026-01-31T00:00:00Z."},
		{Name: "create", Kind: option.Bool, Default: "false", Doc: "Create the stream if it is missing (limits retention, file storage, no limits set)."},
		{Name: "on_data_loss", Kind: option.Enum, Values: []string{"fail", "warn"}, Default: "fail", Doc: "What to do when messages were removed before they were read, or the stream was re-created: fail, or log it and go on with what is there."},
		{Name: "max_ack_pending", Kind: option.Int, Default: "65536", Min: 1, Max: 1 << 20, Doc: "Streams with workqueue or interest retention: how many messages of a partition may wait for their epoch to commit; then the server stops delivering. It bounds the rows of an epoch."},
		{Name: "consumer_ttl", Kind: option.Duration, Default: "168h", Doc: "Streams with workqueue or interest retention: how long the server keeps the durable consumer while the query does not run; 0s means for ever. With interest retention messages are kept for the query only as long as the consumer."},
		{Name: "max_record_size", Kind: option.Bytes, Default: "1MiB", Doc: "Larger messages are bad records."},
	}
}

func sinkOptions() []option.Option {
	return []option.Option{
		{Name: "stream", Doc: "Stream that takes the rows. It must have limits retention; with exactly_once also no limit of messages per subject; with transactional allow_atomic, and the subject streamd.transactions.QUERY.SINK besides those of the rows; with exactly_once and exclusive the subject streamd.fences.QUERY.SINK."},
		{Name: "subject", Doc: "Subject of each row. {column} is replaced by the value, percent-escaped to one token, NULL by _null; {column:raw} is not escaped."},
		{Name: "bucket", Doc: "Key-value bucket that keeps the last row per key; instead of stream and subject. In complete mode keys that are no longer in the result are deleted."},
		{Name: "key", Doc: "Key of each row in the bucket. {column} is replaced by the value; what is not a letter, a digit, - / or _ becomes =XX (hexadecimal), and so does _ at the beginning; NULL is _null, the empty text _empty. Values are separated by dots, as in '{auction}.{start}'."},
		{Name: "create", Kind: option.Bool, Default: "false", Doc: "Create the stream (limits retention, file storage, no limits set, allow_atomic for transactional) or the bucket (history 1, file storage) if it is missing."},
		{Name: "exclusive", Kind: option.Bool, Default: "false", Doc: "Nobody else may publish to the stream: each row names the sequence that it follows, so that a message of anybody else ends the query with an error instead of going unnoticed, and, in a stream with one replica, the fence of its attempt, so that rows of a process that was believed dead are refused. Rows of all subtasks go out one by one, and one refused row has all rows behind it sent again. Not with at_least_once."},
		{Name: "max_batch_size", Kind: option.Int, Default: "1000", Min: 2, Max: 1 << 20, Doc: "With guarantee = 'transactional': how many messages the server takes as one atomic batch (its limit jetstream.limits.batch.max_msgs). An epoch may have one row less; at half of it an epoch is ended early, and one with more rows fails the query."},
		{Name: "max_pending", Kind: option.Int, Default: "4096", Min: 1, Max: 1 << 20, Doc: "How many rows of one subtask may wait for their acknowledgement; more blocks."},
		{Name: "max_pending_bytes", Kind: option.Bytes, Default: "32MiB", Doc: "How many bytes of one subtask may wait for their acknowledgement; more blocks."},
	}
}

// metadataColumns lists what a source can add to a row.
func metadataColumns() []connectors.Metadata {
	str := messages.T(messages.String)
	return []connectors.Metadata{
		{Name: "subject", Type: str, Doc: "Subject of the message."},
		{Name: "stream", Type: str, Doc: "Name of the stream."},
		{Name: "sequence", Type: messages.T(messages.BigInt), Doc: "Sequence of the message in the stream."},
		{Name: "timestamp", Type: messages.T(messages.Timestamp), Doc: "When the server stored the message; without a stream, when it arrived."},
		{Name: "headers", Type: messages.MapType(str, str), Doc: "Headers of the message; several values of one name are joined by a comma; NULL without headers."},
		{Name: "partition", Type: str, Doc: "Partition the message was read from: its filter subject."},
	}
}
