// Package all lists the connectors and formats that come with the engine.
//
// A program that wants fewer passes its own list to the session instead.
package all

import (
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/console"
	"github.com/streamd-io/streamd/connectors/file"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/csv"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/connectors/format/text"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/connectors/nats"
	"github.com/streamd-io/streamd/connectors/rate"
	"github.com/streamd-io/streamd/connectors/socket"
)

// Connectors returns the connectors in the order of the reference page. The
// memory connector among them has a hub of its own; a program that wants to
// reach its sources and sinks puts the record of its own hub in its place.
func Connectors() []connectors.Connector {
	return []connectors.Connector{
		nats.Connector(),
		file.Connector(),
		socket.Connector(),
		rate.Connector(),
		console.Connector(),
		memory.NewHub().Connector(),
	}
}

// Formats returns the formats in the order of the reference page.
func Formats() []format.Format {
	return []format.Format{
		json.Format(),
		csv.Format(),
		text.Format(),
	}
}
