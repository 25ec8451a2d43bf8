package nats

import (
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// newKVSink makes a sink that keeps the last row per key in a bucket.
func newKVSink(_ connectors.SinkConfig) (connectors.Sink, error) {
	return nil, fault.New(fault.Config, "bucket, key: writing to a key-value bucket is not available yet; give stream and subject")
}
