package nats

import (
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

func newSink(connectors.SinkConfig) (connectors.Sink, error) {
	return nil, fault.New(fault.Config, "nats sink is not available yet")
}
