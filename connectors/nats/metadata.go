package nats

import (
	"maps"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// metaKind is a metadata column.
type metaKind uint8

const (
	metaSubject metaKind = iota
	metaStream
	metaSequence
	metaTimestamp
	metaHeaders
	metaPartition
)

// metaColumn says which column of the schema takes which metadata.
type metaColumn struct {
	index int
	kind  metaKind
}

// planMetadata checks the metadata columns of a schema.
func planMetadata(c connectors.SourceConfig) ([]metaColumn, error) {
	known := metadataColumns()
	var plan []metaColumn
	for _, i := range slices.Sorted(maps.Keys(c.MetadataColumns)) {
		name := c.MetadataColumns[i]
		k := slices.IndexFunc(known, func(m connectors.Metadata) bool { return strings.EqualFold(m.Name, name) })
		if k < 0 {
			return nil, fault.New(fault.Config, "nats source has no metadata %q (known: subject, stream, sequence, timestamp, headers, partition)", name)
		}
		if f := c.Schema.Fields[i]; !f.Type.Equal(known[k].Type) {
			return nil, fault.New(fault.Config, "column %s: metadata %s is of type %s, not %s", f.Name, known[k].Name, known[k].Type, f.Type)
		}
		plan = append(plan, metaColumn{index: i, kind: metaKind(k)})
	}
	return plan, nil
}

// filling is what a row's metadata comes from.
type filling struct {
	msg       *nats.Msg
	seq       uint64
	time      int64 // nanoseconds since 1970
	partition string
}

// fill appends the metadata of a message to a row.
func (s *source) fill(b *messages.Builder, f *filling) {
	for _, m := range s.metadata {
		c := b.Column(m.index)
		switch m.kind {
		case metaSubject:
			c.AppendString(f.msg.Subject)
		case metaStream:
			c.AppendString(s.stream.name)
		case metaSequence:
			c.AppendInt64(int64(f.seq))
		case metaTimestamp:
			c.AppendInt64(f.time / 1000)
		case metaHeaders:
			appendHeaders(c, f.msg.Header)
		case metaPartition:
			c.AppendString(f.partition)
		}
	}
}

// appendHeaders appends a map in the order of the names, so that a replay makes
// the same row.
func appendHeaders(c *messages.Column, h nats.Header) {
	if len(h) == 0 {
		c.AppendNull()
		return
	}
	entries := c.Child(0)
	for _, k := range slices.Sorted(maps.Keys(h)) {
		entries.Child(0).AppendString(k)
		v := entries.Child(1)
		buf := v.AppendData()
		for i, s := range h[k] {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = append(buf, s...)
		}
		v.CloseData(buf)
		entries.CloseStruct()
	}
	c.CloseList()
}
