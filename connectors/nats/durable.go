package nats

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// Streams with workqueue and interest retention keep a message until it is
// acknowledged, and only for consumers that exist. A partition of such a stream
// is read through a durable consumer with a name that stays the same across
// restarts. Each attach makes it anew, so that everything that was not
// acknowledged comes at once and in order, and not whenever the server's patience
// with a lost reader ends, behind newer messages:
//
//   - with workqueue retention the consumer is deleted and made again; the
//     messages stay in the stream;
//   - with interest retention a second one takes over from the first unacknowledged
//     message before the first is deleted, since messages nobody wants are gone.

// Keys of a consumer's description.
const (
	metaIncarnation = "streamd.incarnation" // of the query that reads, "" if it was closed in good order
	metaNext        = "streamd.next"        // messages before it may have been acknowledged
)

// minAckWait is the shortest time until the server delivers a message again.
const minAckWait = 30 * time.Second

// forgets reports whether a stream drops what was acknowledged.
func forgets(info *jetstream.StreamInfo) bool { return info.Config.Retention != jetstream.LimitsPolicy }

// consumerNames returns the names of the consumer of a partition.
func consumerNames(query, source, partition string) [2]string {
	sum := sha256.Sum256([]byte(query + "\x00" + source + "\x00" + partition))
	readable := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-' {
			return r
		}
		return '_'
	}, query)
	base := "streamd-" + readable[:min(len(readable), 40)] + "-" + hex.EncodeToString(sum[:8])
	return [2]string{base + "-a", base + "-b"}
}

// holders are the consumers that exist for a partition.
type holders struct {
	names []string
	floor uint64 // messages before it have been acknowledged, as far as is known
}

// holders looks for the partition's consumers. It fails while another query
// reads through one of them.
func (r *reader) holders(ctx context.Context) (holders, error) {
	var h holders
	for _, name := range r.names {
		var info *jetstream.ConsumerInfo
		err := r.link.call(ctx, "look up consumer "+name+" on stream "+r.src.stream.name, func(ctx context.Context) error {
			c, err := r.link.js.Consumer(ctx, r.src.stream.name, name)
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				return nil
			}
			if err == nil {
				info = c.CachedInfo()
			}
			return err
		})
		if err != nil {
			return h, err
		}
		if info == nil {
			continue
		}
		h.names = append(h.names, name)
		if next, ok := parseUint(info.Config.Metadata[metaNext]); ok {
			h.floor = max(h.floor, next)
		}
		if r.filter == "" {
			h.floor = max(h.floor, info.AckFloor.Stream+1)
		}
		if owner := info.Config.Metadata[metaIncarnation]; owner != "" && owner != r.incarnation && inUse(info) {
			err := fault.New(fault.Transient, "consumer %s on stream %s is in use by another query of the same name (started afresh, or with another checkpoint directory); "+
				"stop one of them; one that was killed holds it for %v at most", name, r.src.stream.name, info.Config.AckWait)
			return h, fault.WithClass(err, classConsumerBusy)
		}
	}
	return h, nil
}

// inUse reports whether somebody works with a consumer: asks for messages, or has
// some and has given a sign of life, which counts as a delivery, since the server
// would deliver them again. One that is held back by its sinks asks for nothing.
func inUse(info *jetstream.ConsumerInfo) bool {
	last := info.Delivered.Last
	return info.NumWaiting > 0 || info.NumAckPending > 0 && last != nil && info.TimeStamp.Sub(*last) < info.Config.AckWait
}

// checkHolders compares the position with what was acknowledged.
func (r *reader) checkHolders(info *jetstream.StreamInfo, h *holders) error {
	name := r.src.stream.name
	durable := r.receipts.from()
	if r.pos.NextSeq == 0 || durable == 0 {
		return nil
	}
	if info.Config.Retention == jetstream.InterestPolicy && len(h.names) == 0 && info.State.LastSeq >= r.pos.NextSeq {
		return r.consumerGone(info)
	}
	floor := h.floor
	if r.firstTells(info) {
		floor = max(floor, info.State.FirstSeq)
	}
	if floor > durable {
		text := fmt.Sprintf("messages %d to %d were acknowledged by a later epoch, or removed, and a stream with %s retention does not keep them", durable, floor-1, retention(info))
		if !r.src.warn {
			err := fault.New(fault.Config, "stream %s: the checkpoint continues at message %d, but %s; restore the newest epoch, or set on_data_loss = 'warn' to go on without them",
				name, durable, text)
			return fault.WithClass(err, classAcknowledged)
		}
		r.src.log.Warn("going on behind messages that are gone: "+text, "stream", name, "filter", r.filter)
		if r.firstTells(info) {
			r.pos.NextSeq = max(r.pos.NextSeq, info.State.FirstSeq)
		}
	}
	return nil
}

// consumerGone handles that nobody has kept messages for the partition.
func (r *reader) consumerGone(info *jetstream.StreamInfo) error {
	name := r.src.stream.name
	if !r.src.warn {
		err := fault.New(fault.Config, "stream %s: consumer %s, which kept messages for this query, is gone: of messages %d to %d those nobody else waits for were removed "+
			"(see consumer_ttl); set on_data_loss = 'warn' to go on with what is there", name, r.names[0], r.pos.NextSeq, info.State.LastSeq)
		return fault.WithClass(err, classConsumerGone)
	}
	r.src.log.Warn("the consumer that kept messages for this query is gone; going on with what is there", "stream", name, "filter", r.filter,
		"from", r.pos.NextSeq, "to", info.State.LastSeq)
	return nil
}

// firstTells reports whether messages that the partition has not read cannot
// have left the front of the stream in any regular way.
func (r *reader) firstTells(info *jetstream.StreamInfo) bool {
	return !forgets(info) || r.filter == "" && info.Config.MaxMsgsPerSubject <= 0
}

func retention(info *jetstream.StreamInfo) string {
	return strings.ToLower(info.Config.Retention.String())
}

// checkStart refuses starts that a workqueue does not know.
func (r *reader) checkStart(info *jetstream.StreamInfo) error {
	if info.Config.Retention != jetstream.WorkQueuePolicy || r.src.start.kind == startEarliest {
		return nil
	}
	err := fault.New(fault.Config, "start: stream %s has workqueue retention, which is read from its first message on; leave start out", r.src.stream.name)
	return fault.WithClass(err, classRetention)
}

// openDurable makes the consumer of a stream that forgets, and removes the one
// before.
func (r *reader) openDurable(ctx context.Context, info *jetstream.StreamInfo, h *holders) error {
	workqueue := info.Config.Retention == jetstream.WorkQueuePolicy
	if workqueue {
		if err := r.drop(ctx, h.names...); err != nil {
			return err
		}
		h.names = nil
	}
	if len(h.names) == 2 { // an earlier attempt was interrupted here; either keeps what is needed
		if err := r.drop(ctx, h.names[1]); err != nil {
			return err
		}
		h.names = h.names[:1]
	}
	name := r.names[0]
	if len(h.names) > 0 && h.names[0] == name {
		name = r.names[1]
	}
	q := &r.req
	cfg := jetstream.ConsumerConfig{
		Name: name, Durable: name, AckPolicy: jetstream.AckExplicitPolicy, AckWait: max(minAckWait, 4*q.EpochInterval),
		MaxAckPending: r.src.maxAckPending, InactiveThreshold: r.src.consumerTTL,
		Metadata: map[string]string{metaIncarnation: r.incarnation, metaNext: strconv.FormatUint(r.receipts.from(), 10)},
	}
	c := feedConfig{stream: r.src.stream.name, filter: r.filter, window: r.window(), durable: &cfg}
	if !workqueue {
		if c.seq = r.receipts.from(); c.seq == 0 {
			c.time = r.src.start.time
		}
	}
	made := c.consumer()
	var err error
	if r.feed, err = r.link.openFeed(ctx, c); err != nil {
		return err
	}
	r.receipts.attach(r.link, &made, time.Now())
	return r.drop(ctx, h.names...)
}

// drop deletes consumers.
func (r *reader) drop(ctx context.Context, names ...string) error {
	for _, name := range names {
		err := r.link.call(ctx, "delete consumer "+name+" on stream "+r.src.stream.name, func(ctx context.Context) error {
			err := r.link.js.DeleteConsumer(ctx, r.src.stream.name, name)
			if errors.Is(err, jetstream.ErrConsumerNotFound) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// Error codes of the server about consumers of a workqueue.
const (
	codeMultipleUnfiltered = 10099
	codeNotUnique          = 10100
	codeNameInUse          = 10013
	codeExists             = 10148
)

// consumerError explains why a consumer cannot be made.
func consumerError(stream string, err error) error {
	api, ok := errors.AsType[*jetstream.APIError](err)
	if ok && (api.ErrorCode == codeNameInUse || api.ErrorCode == codeExists) {
		// A request of our own that had been given up was worked off late: the next
		// attach finds the consumer and removes it.
		return fault.Wrap(fault.Transient, err, "create a consumer on stream %s", stream)
	}
	if !ok || api.ErrorCode != codeMultipleUnfiltered && api.ErrorCode != codeNotUnique {
		return err
	}
	err = fault.Wrap(fault.Config, err, "stream %s has workqueue retention, where each message goes to one consumer, and another one takes the same messages "+
		"(nats consumer ls %s); remove it (nats consumer rm), or give the readers subjects that do not overlap", stream, stream)
	return fault.WithClass(err, classOverlap)
}
