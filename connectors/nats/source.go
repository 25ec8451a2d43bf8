package nats

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// everything is the name of the only partition when there is no filter.
const everything = ">"

// source reads a stream. It is immutable.
type source struct {
	conn       *connConfig
	schema     *messages.Schema
	metadata   []metaColumn
	stream     streamSpec
	partitions []string // filter subjects
	start      startAt
	warn       bool // on_data_loss = warn
	maxRecord  int64
	// core says that there is no stream; queueGroup shares the subjects.
	core       bool
	queueGroup string
	now        func() time.Time // for arrival times without a stream
	// maxAckPending and consumerTTL are for streams that forget.
	maxAckPending int
	consumerTTL   time.Duration
	log           *slog.Logger
}

func newSource(c connectors.SourceConfig) (*source, error) {
	v := c.Options
	s := &source{schema: c.Schema, warn: v.Enum("on_data_loss") == "warn", maxRecord: v.Bytes("max_record_size"), log: c.Env.Log}
	s.maxAckPending, s.consumerTTL = int(v.Int("max_ack_pending")), v.Duration("consumer_ttl")
	if s.consumerTTL > 0 && s.consumerTTL < time.Hour {
		return nil, fault.New(fault.Config, "consumer_ttl: %v is shorter than an hour; a source that waits for its sink would lose its consumer", s.consumerTTL)
	}
	s.now = func() time.Time { return time.Now().UTC() }
	if c.Env.Clock != nil {
		s.now = c.Env.Clock.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if c.Schema == nil {
		return nil, fault.New(fault.Config, "nats source: list the columns in CREATE SOURCE name (column TYPE, ...)")
	}
	var err error
	if s.conn, err = newConnConfig(v, c.Env); err != nil {
		return nil, err
	}
	if s.metadata, err = planMetadata(c); err != nil {
		return nil, err
	}
	if s.start, err = parseStart(v.String("start")); err != nil {
		return nil, err
	}
	s.queueGroup = v.String("queue_group")
	if s.core = v.String("stream") == ""; s.core {
		if err := s.planCore(v); err != nil {
			return nil, err
		}
		return s, s.planPartitions(v)
	}
	if s.queueGroup != "" {
		return nil, fault.New(fault.Config, "queue_group: is for subjects of core NATS; the readers of a stream are its partitions")
	}
	s.stream = streamSpec{name: v.String("stream"), create: v.Bool("create")}
	if err := checkStreamName(s.stream.name); err != nil {
		return nil, err
	}
	return s, s.planPartitions(v)
}

// checkStreamName refuses names that the server would refuse or misread.
func checkStreamName(name string) error {
	if name == "" {
		return fault.New(fault.Config, "stream: no name given")
	}
	if strings.ContainsAny(name, ".*> \t\r\n/\\") {
		return fault.New(fault.Config, "stream: %q is not a stream name (no dots, wildcards, slashes or spaces; a subject goes into option subject)", name)
	}
	return nil
}

// placeholder stands for the partition's number in option subject.
const placeholder = "{partition}"

func (s *source) planPartitions(v option.Values) error {
	subject, filters, n := v.String("subject"), v.String("filters"), int(v.Int("partitions"))
	hasPlace := strings.Contains(subject, placeholder)
	switch {
	case filters != "" && (subject != "" || n > 0):
		return fault.New(fault.Config, "filters: give either filters, or subject (with partitions), not both")
	case n > 0 && !hasPlace:
		return fault.New(fault.Config, "partitions: subject must hold %s, as in 'bids.%s.>'", placeholder, placeholder)
	case hasPlace && n == 0:
		return fault.New(fault.Config, "subject: %q holds %s; say how many there are with partitions = N", subject, placeholder)
	case hasPlace:
		for i := range n {
			s.partitions = append(s.partitions, strings.ReplaceAll(subject, placeholder, fmt.Sprint(i)))
		}
		s.stream.subjects = []string{strings.ReplaceAll(subject, placeholder, "*")}
	case filters != "":
		for f := range strings.SplitSeq(filters, ",") {
			s.partitions = append(s.partitions, strings.TrimSpace(f))
		}
		s.stream.subjects = s.partitions
	case subject != "":
		s.partitions = []string{subject}
		s.stream.subjects = s.partitions
	default:
		s.partitions = []string{everything}
	}
	for i, f := range s.partitions {
		if err := checkSubject(f, true); err != nil {
			return err
		}
		for _, g := range s.partitions[:i] {
			if overlaps(f, g) {
				return fault.New(fault.Config, "filters: %q and %q overlap; messages would be read twice", g, f)
			}
		}
	}
	return nil
}

// Schema returns the declared columns.
func (s *source) Schema() *messages.Schema { return s.schema }

// Traits: a stream gives the same messages with the same times again; without one
// nothing comes twice.
func (s *source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: !s.core, BrokerTime: !s.core}
}

// Partitions lists the filter subjects.
func (s *source) Partitions(context.Context) ([]string, error) {
	return slices.Clone(s.partitions), nil
}

// CheckOffset implements connectors.OffsetChecker: the name of a partition does not
// tell the stream.
func (s *source) CheckOffset(partition string, from connectors.Offset) error {
	if s.core {
		return nil // nothing is read again there
	}
	p, err := parsePosition(from)
	if err != nil {
		return nil //nolint:nilerr // Open says what is wrong with the text
	}
	if partition == everything {
		partition = ""
	}
	if p.Stream != s.stream.name || p.Filter != partition {
		return connectors.Foreign("the checkpoint holds a position in stream %s with filter %q, the query now reads stream %s with filter %q; set it back",
			p.Stream, p.Filter, s.stream.name, partition)
	}
	return nil
}

// Open returns a reader that connects in its first Read.
func (s *source) Open(_ context.Context, q connectors.ReadRequest) (connectors.Reader, error) {
	if !slices.Contains(s.partitions, q.Partition) {
		return nil, fault.New(fault.Config, "nats source of %s has no partition %q (has %s); filters of a query with a checkpoint cannot change",
			cmp.Or(s.stream.name, "core NATS"), q.Partition, strings.Join(s.partitions, ", "))
	}
	if s.core {
		return s.openCore(q)
	}
	r := &reader{src: s, partition: q.Partition, bounded: q.Bounded, maxRows: max(q.MaxRows, 1), req: q}
	r.receipts.log, r.receipts.stream = s.log, s.stream.name
	r.names, r.incarnation = consumerNames(q.Query, q.Source, q.Partition), fmt.Sprintf("%016x%016x", q.Incarnation.Hi, q.Incarnation.Lo)
	if q.Partition != everything {
		r.filter = q.Partition
	}
	r.meta.Origin = r.describe
	if len(s.metadata) > 0 {
		r.meta.Fill = func(b *messages.Builder) {
			s.fill(b, &filling{msg: r.msg, seq: r.at.seq, time: r.at.time, partition: r.partition})
		}
	}
	if len(q.From) > 0 {
		p, err := parsePosition(q.From)
		if err != nil {
			return nil, err
		}
		if err := s.CheckOffset(q.Partition, q.From); err != nil {
			return nil, err
		}
		r.pos = p
		r.receipts.durable, r.receipts.created = p.NextSeq, p.Created
	}
	return r, nil
}
