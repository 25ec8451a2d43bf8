package nats

import (
	"context"
	"log/slog"
	"slices"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// kvSink keeps the last row per key in a key-value bucket. It is immutable.
type kvSink struct {
	conn   *connConfig
	bucket bucketSpec
	key    *template
	// prefix and a key make the subject that a row is published to.
	prefix     string
	schema     *messages.Schema
	encoder    func(*messages.Schema) (format.Encoder, error)
	maxPending int
	maxBytes   int64
	maxIdle    int // keys whose revision is remembered although nothing is in flight
	log        *slog.Logger
}

// defaultMaxIdle keys take about 20 MB.
const defaultMaxIdle = 1 << 16

// newKVSink makes a sink that keeps the last row per key in a bucket.
func newKVSink(c connectors.SinkConfig) (connectors.Sink, error) {
	v := c.Options
	switch {
	case v.Has("stream") || v.Has("subject"):
		return nil, fault.New(fault.Config, "nats sink: give either stream and subject, or bucket and key")
	case !v.Has("bucket") || !v.Has("key"):
		return nil, fault.New(fault.Config, "nats sink: bucket and key go together, for instance bucket = 'HOT', key = '{%s}'", firstColumn(c.Schema))
	case v.Bool("exclusive"):
		return nil, fault.New(fault.Config, "exclusive: a bucket is written with expected revisions anyway; leave the option out")
	case c.Encoder == nil:
		return nil, fault.New(fault.Config, "nats sink: give a format, for instance format = 'json'")
	}
	s := &kvSink{
		bucket: bucketSpec{name: v.String("bucket"), create: v.Bool("create")}, schema: c.Schema, encoder: c.Encoder,
		maxPending: int(v.Int("max_pending")), maxBytes: max(v.Bytes("max_pending_bytes"), 1), maxIdle: defaultMaxIdle, log: c.Env.Log,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	err := checkBucketName(s.bucket.name)
	if err == nil {
		s.conn, err = newConnConfig(v, c.Env)
	}
	if err == nil {
		s.key, err = parseKey(v.String("key"), c.Schema)
	}
	if err != nil {
		return nil, err
	}
	s.prefix = s.bucket.subject()
	if s.conn.domain != "" {
		s.prefix = "$JS." + s.conn.domain + ".API." + s.prefix // mapped back by the leaf node
	}
	return s, nil
}

func firstColumn(s *messages.Schema) string {
	if s == nil || s.Len() == 0 {
		return "column"
	}
	return s.Fields[0].Name
}

// Traits: the last row per key counts, whatever the mode; in complete mode keys
// that are no longer in the table are deleted.
func (s *kvSink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true, Update: true, Complete: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.AtOnce},
			{Guarantee: connectors.Converges, Visibility: connectors.AtOnce},
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
		},
	}
}

// Key implements connectors.Keyed.
func (s *kvSink) Key() []connectors.KeyPart { return s.key.keyParts(s.schema) }

// Open returns a committer that connects in Recover.
func (s *kvSink) Open(_ context.Context, r connectors.WriteRequest) (connectors.Committer, error) {
	if !slices.Contains(s.Traits().Guarantees, r.Offer) {
		return nil, fault.New(fault.Config, "nats sink of bucket %s does not offer %s with visibility %s", s.bucket.name, r.Offer.Guarantee, r.Offer.Visibility)
	}
	c := newKVCommitter(s, r)
	if r.Offer.Visibility == connectors.AtOnce {
		return c, nil
	}
	return newKVEpochCommitter(c)
}
