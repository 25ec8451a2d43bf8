package nats

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Limits of what waits between the connection and Read. Behind them nats.go
// drops messages, since nobody can ask a core NATS server to wait.
const (
	coreMessages = 1 << 16
	coreBytes    = 64 << 20
)

const (
	// coreCheck is how long a subject is silent until the server is asked whether
	// it is still there.
	coreCheck = 2 * time.Second
	// coreWarn is how often drops are logged at most.
	coreWarn = 10 * time.Second
)

// corePosition is the offset of a subject without a stream: only a count, since
// nothing can be read again.
type corePosition struct {
	Subject string `json:"subject"`
	Count   uint64 `json:"count"` // messages read since the query first started
}

// coreReader reads a subject of core NATS, each message at most once: what is
// published while nobody is connected, what comes faster than it can be read, and
// what was read since the last committed epoch when the process dies, is lost.
// What nats.go drops is counted. Messages with a reply subject are not answered.
type coreReader struct {
	src       *source
	partition string
	maxRows   int

	link   *link
	sub    *nats.Subscription
	wait   backoff
	pause  time.Duration
	status connectors.Status // as last reported

	prefix  []byte // of offsets
	origin  messages.ID128
	count   uint64
	dropped int // by sub, as last reported
	unsaid  int // drops that were not logged
	warned  time.Time

	msg  *nats.Msg // current message, for meta
	at   time.Time
	meta connectors.Meta
}

// planCore checks the options of a source without a stream.
func (s *source) planCore(v option.Values) error {
	if v.String("subject") == "" && v.String("filters") == "" {
		return fault.New(fault.Config, "nats source: name a stream, or a subject to read core NATS without one (at most once)")
	}
	for _, o := range []string{"start", "create", "on_data_loss", "max_ack_pending", "consumer_ttl", "domain"} {
		if v.Has(o) {
			return fault.New(fault.Config, "%s: has no effect on a subject of core NATS; name the stream that holds it", o)
		}
	}
	for _, m := range s.metadata {
		if m.kind == metaStream || m.kind == metaSequence {
			return fault.New(fault.Config, "column %s: messages of core NATS have neither stream nor sequence", s.schema.Fields[m.index].Name)
		}
	}
	if s.queueGroup != "" {
		if err := checkSubject(s.queueGroup, false); err != nil {
			return fault.Wrap(fault.Config, err, "queue_group")
		}
	}
	return nil
}

// openCore returns a reader that connects in its first Read.
func (s *source) openCore(q connectors.ReadRequest) (connectors.Reader, error) {
	if q.Bounded {
		return nil, fault.New(fault.Config, "nats source of subject %s: core NATS holds no messages, so trigger = 'available_now' has nothing to read; name a stream", q.Partition)
	}
	r := &coreReader{src: s, partition: q.Partition, maxRows: max(q.MaxRows, 1)}
	if len(q.From) > 0 {
		var p corePosition
		if err := json.Unmarshal(q.From, &p); err != nil {
			return nil, fault.Wrap(fault.Config, err, "offset %.200q of a nats source", []byte(q.From))
		}
		if p.Subject != q.Partition {
			return nil, fault.New(fault.Config, "checkpoint holds a position in %.200q, the query now reads subject %s without a stream; start it afresh", []byte(q.From), q.Partition)
		}
		r.count = p.Count
	}
	b, err := json.Marshal(corePosition{Subject: q.Partition})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encode an offset of subject %s", q.Partition)
	}
	r.prefix = b[:len(b)-len("0}")]
	sum := sha256.Sum256([]byte("nats core 1 " + nuid.Next())) // no row comes twice
	r.origin = messages.ID128{Hi: binary.BigEndian.Uint64(sum[:]), Lo: binary.BigEndian.Uint64(sum[8:])}
	r.meta.Origin = func() string { return fmt.Sprintf("subject %s message %d", r.msg.Subject, r.meta.Offset) }
	if len(s.metadata) > 0 {
		r.meta.Fill = func(b *messages.Builder) {
			s.fill(b, &filling{msg: r.msg, time: r.at.UnixNano(), partition: r.partition})
		}
	}
	return r, nil
}

// Read implements connectors.Reader.
func (r *coreReader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(r.origin)
	for {
		if err := ctx.Err(); err != nil {
			return err
		}
		if r.sub == nil {
			if err := sleep(ctx, r.pause); err != nil {
				return err
			}
			r.pause = 0
			if err := r.attach(ctx); err != nil {
				return r.broken(ctx, dst, err)
			}
		}
		waiting, err := r.drain(ctx, dst)
		if err != nil {
			return r.broken(ctx, dst, err)
		}
		r.countDrops(dst)
		state := connectors.CaughtUp
		if waiting {
			state = connectors.Reading
		}
		if dst.Payloads > 0 || dst.Lost > 0 || state != r.status.State {
			r.report(dst, connectors.Status{State: state, Lag: -1})
			return nil
		}
		if err := r.block(ctx, dst); err != nil {
			return r.broken(ctx, dst, err)
		}
	}
}

// attach connects and subscribes.
func (r *coreReader) attach(ctx context.Context) error {
	l, err := r.src.conn.dial(ctx)
	if err != nil {
		return err
	}
	return r.subscribe(ctx, l)
}

// subscribe takes over a connection, and closes it if that fails.
func (r *coreReader) subscribe(ctx context.Context, l *link) (err error) {
	if r.src.queueGroup != "" {
		r.sub, err = l.nc.QueueSubscribeSync(r.partition, r.src.queueGroup)
	} else {
		r.sub, err = l.nc.SubscribeSync(r.partition)
	}
	if err == nil {
		err = r.sub.SetPendingLimits(coreMessages, coreBytes)
	}
	if err != nil { // the connection was lost again
		err = fault.Wrap(fault.Transient, err, "subscribe to %s", r.partition)
	} else { // the server knows of the subscription, or has refused it
		err = l.call(ctx, "subscribe to "+r.partition, l.nc.FlushWithContext)
	}
	if err == nil && l.refused() != nil {
		err = fault.WithClass(fault.Wrap(fault.Config, l.refused(), "subscribe to %s", r.partition), classPermission)
	}
	if err != nil {
		l.close()
		r.sub = nil
		return fault.Wrap(fault.KindOf(err), err, "read subject %s", r.partition)
	}
	r.link, r.dropped = l, 0
	r.wait.reset()
	return nil
}

// drain takes what is there. waiting says that more is.
func (r *coreReader) drain(ctx context.Context, dst *connectors.Rows) (waiting bool, err error) {
	n, _, err := r.sub.Pending()
	if err != nil {
		return false, fault.Wrap(fault.Transient, err, "read subject %s from nats server %s", r.partition, r.src.conn.hosts())
	}
	for ; n > 0 && !dst.Full(r.maxRows); n-- {
		m, err := r.sub.NextMsgWithContext(ctx)
		if errors.Is(err, nats.ErrSlowConsumer) { // said once; countDrops says how many
			m, err = r.sub.NextMsgWithContext(ctx)
		}
		if err != nil {
			return false, fault.Wrap(fault.Transient, err, "read subject %s from nats server %s", r.partition, r.src.conn.hosts())
		}
		if err := r.take(m, dst); err != nil {
			return false, err
		}
	}
	return n > 0, nil
}

// block waits for a message, and asks the server for a sign of life now and then.
func (r *coreReader) block(ctx context.Context, dst *connectors.Rows) error {
	c, cancel := context.WithTimeout(ctx, coreCheck)
	defer cancel()
	m, err := r.sub.NextMsgWithContext(c)
	switch {
	case err == nil:
		return r.take(m, dst)
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return r.link.call(ctx, "ask for a sign of life", r.link.nc.FlushWithContext)
	case errors.Is(err, nats.ErrSlowConsumer):
		return nil // countDrops says how many
	}
	return fault.Wrap(fault.Transient, err, "connection to nats server %s lost: %s", r.src.conn.hosts(), r.link.reason())
}

func (r *coreReader) take(m *nats.Msg, dst *connectors.Rows) (err error) {
	r.msg, r.at = m, r.src.now()
	r.meta.Offset, r.meta.Arrival = r.count, messages.EventTimeOf(r.at)
	r.count++
	if n := int64(len(m.Data)); n > r.src.maxRecord {
		return dst.Refuse(m.Data[:min(len(m.Data), 4096)], fault.New(fault.BadRow, "message of %d bytes is larger than max_record_size (%d)", n, r.src.maxRecord), &r.meta)
	}
	return dst.Record(m.Data, &r.meta)
}

// countDrops reports what nats.go has dropped since the last call.
func (r *coreReader) countDrops(dst *connectors.Rows) {
	total, err := r.sub.Dropped()
	if err != nil || total <= r.dropped { // the connection is gone: the next call of sub says so
		total = r.dropped
	}
	dst.Lost += total - r.dropped
	r.unsaid += total - r.dropped
	r.dropped = total
	if now := r.src.now(); r.unsaid > 0 && now.Sub(r.warned) >= coreWarn {
		r.src.log.Warn("messages were dropped, since they came faster than the query takes them", "subject", r.partition, "messages", r.unsaid)
		r.unsaid, r.warned = 0, now
	}
}

func (r *coreReader) report(dst *connectors.Rows, s connectors.Status) {
	r.status, dst.Status = s, s
	dst.Next = append(strconv.AppendUint(append(dst.Next[:0], r.prefix...), r.count, 10), '}')
}

// broken handles an error: what time can cure becomes a status.
func (r *coreReader) broken(ctx context.Context, dst *connectors.Rows, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if fault.KindOf(err) != fault.Transient {
		return err
	}
	if r.sub != nil {
		r.countDrops(dst)
		r.src.log.Warn("what is published until the connection stands again is lost", "subject", r.partition, "error", err)
	}
	r.hangUp()
	r.pause = r.wait.next()
	r.report(dst, connectors.Status{State: connectors.Retrying, Reason: err.Error(), Lag: -1})
	return nil
}

func (r *coreReader) hangUp() {
	if r.link != nil {
		r.link.close() // ends the subscription
	}
	r.link, r.sub = nil, nil
}

// Committed has nothing to do.
func (r *coreReader) Committed(context.Context, connectors.Offset) error { return nil }

// Close gives up the connection.
func (r *coreReader) Close() error {
	r.hangUp()
	return nil
}
