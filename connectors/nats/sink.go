package nats

import (
	"context"
	"log/slog"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// sink publishes rows to a stream. It is immutable.
type sink struct {
	conn       *connConfig
	stream     streamSpec
	subject    *template
	schema     *messages.Schema
	encoder    func(*messages.Schema) (format.Encoder, error)
	maxPending int
	maxBytes   int64
	maxBatch   int  // messages in a transaction
	exclusive  bool // nobody else may publish to the stream
	// readEndEvery is how often a committer without rows reads the end of the stream.
	readEndEvery time.Duration
	log          *slog.Logger
}

// newSink makes the sink of a stream or of a bucket.
func newSink(c connectors.SinkConfig) (connectors.Sink, error) {
	if c.Options.Has("bucket") || c.Options.Has("key") {
		return newKVSink(c)
	}
	return newStreamSink(c)
}

func newStreamSink(c connectors.SinkConfig) (*sink, error) {
	v := c.Options
	switch {
	case !v.Has("stream") || !v.Has("subject"):
		return nil, fault.New(fault.Config, "nats sink: give stream and subject")
	case c.Encoder == nil:
		return nil, fault.New(fault.Config, "nats sink: give a format, for instance format = 'json'")
	}
	s := &sink{
		stream: streamSpec{name: v.String("stream"), create: v.Bool("create")}, schema: c.Schema, encoder: c.Encoder,
		maxPending: int(v.Int("max_pending")), maxBytes: max(v.Bytes("max_pending_bytes"), 1), log: c.Env.Log,
		exclusive: v.Bool("exclusive"), maxBatch: int(v.Int("max_batch_size")), readEndEvery: defaultReadEndEvery,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if err := checkStreamName(s.stream.name); err != nil {
		return nil, err
	}
	var err error
	if s.conn, err = newConnConfig(v, c.Env); err != nil {
		return nil, err
	}
	if s.subject, err = parseTemplate(v.String("subject"), c.Schema); err != nil {
		return nil, err
	}
	s.stream.subjects = []string{s.subject.filter()}
	return s, nil
}

// Traits: a stream takes any result as a sequence of rows. In update mode each
// changed row is published, in complete mode each row of the table every time;
// neither has stable identities, so these are at least once, or published per epoch.
func (s *sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
			{Guarantee: connectors.Transactional, Visibility: connectors.PerEpoch},
		},
	}
}

// Open returns a committer that connects in Recover.
func (s *sink) Open(_ context.Context, r connectors.WriteRequest) (connectors.Committer, error) {
	if s.exclusive && r.Offer.Guarantee == connectors.AtLeastOnce {
		return nil, fault.New(fault.Config, "nats sink: exclusive needs rows that can be told from others; it goes with guarantee = 'exactly_once' or 'transactional', not with at_least_once")
	}
	switch r.Offer {
	case connectors.Offer{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce}, connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.AtOnce}:
		return newCommitter(s, r), nil
	case connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}:
		return newEpochCommitter(s, r)
	case connectors.Offer{Guarantee: connectors.Transactional, Visibility: connectors.PerEpoch}:
		return newTransactionCommitter(s, r)
	}
	return nil, fault.New(fault.Config, "nats sink of a stream does not offer %s with visibility %s (it offers at_least_once at once, exactly_once at once or per epoch, and transactional)", r.Offer.Guarantee, r.Offer.Visibility)
}
