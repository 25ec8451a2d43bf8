package nats

import (
	"context"
	"encoding/json"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// A consumer lives on one replica of its stream. What that replica has not heard
// of does not exist for the consumer: it says that nothing follows, although the
// stream's leader has acknowledged messages. It is a matter of milliseconds in a
// healthy cluster, and of minutes on a server that has just come back. So before
// anything is concluded from a consumer's silence, the leader is asked.
const (
	// lagTicks is how many ticks a consumer may say that nothing follows while the
	// leader knows better. Then another one is made, which may be on a replica that is
	// up to date.
	lagTicks = 2
	// lagConsumers is how many consumers in a row may bring nothing to a scan.
	lagConsumers = 10
)

// replicated reports whether a consumer of a stream may know less than the leader.
func replicated(info *jetstream.StreamInfo) bool {
	return info.Config.Replicas > 1 || info.Cluster != nil && len(info.Cluster.Replicas) > 0 // it is on the move
}

// lagError says that a consumer was given up.
func lagError(stream string, seq uint64) error {
	return fault.New(fault.Transient, "stream %s: its leader holds message %d, the replica that was asked for it does not yet (nats stream report shows which lag); asking another one", stream, seq)
}

// leaderMessage is what the leader says about one message.
type leaderMessage struct {
	Seq    uint64    `json:"seq"`
	Time   time.Time `json:"time"`
	Header []byte    `json:"hdrs"`
	Data   []byte    `json:"data"`
}

// getRequest asks the leader for a message. Its answer never comes from another
// replica, as it may with jetstream.Stream.GetMsg.
type getRequest struct {
	Seq  uint64 `json:"seq,omitempty"`
	Next string `json:"next_by_subj,omitempty"`
	Last string `json:"last_by_subj,omitempty"`
}

// next asks for the first message at a sequence or behind it that a filter takes.
// Its Seq is 0 if there is none.
func (l *link) next(ctx context.Context, stream, filter string, seq uint64) (leaderMessage, error) {
	if filter == "" {
		filter = everything
	}
	return l.get(ctx, stream, getRequest{Seq: max(seq, 1), Next: filter})
}

// newest asks for the last message that a filter takes.
func (l *link) newest(ctx context.Context, stream, filter string) (leaderMessage, error) {
	if filter == "" {
		filter = everything
	}
	return l.get(ctx, stream, getRequest{Last: filter})
}

func (l *link) get(ctx context.Context, stream string, q getRequest) (leaderMessage, error) {
	var s leaderMessage
	err := l.call(ctx, "ask the leader of stream "+stream+" for a message", func(ctx context.Context) error {
		m, err := l.ask(ctx, stream, q)
		if m != nil {
			s = *m
		}
		return err
	})
	return s, err
}

// ask is get for use within a call, whose error it leaves as it is; nil: there is no
// such message.
func (l *link) ask(ctx context.Context, stream string, q getRequest) (*leaderMessage, error) {
	body, err := json.Marshal(q)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encode a request for a message of stream %s", stream)
	}
	answer, err := l.nc.RequestWithContext(ctx, l.api+"STREAM.MSG.GET."+stream, body)
	if err != nil {
		return nil, err
	}
	var x struct {
		Error   *jetstream.APIError `json:"error"`
		Message *leaderMessage      `json:"message"`
	}
	err = json.Unmarshal(answer.Data, &x)
	switch {
	case err != nil:
		return nil, fault.Wrap(fault.Transient, err, "answer %.100q of the leader of stream %s", answer.Data, stream)
	case x.Error != nil && x.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		return nil, nil
	case x.Error != nil:
		return nil, x.Error
	case x.Message == nil || x.Message.Seq == 0:
		return nil, fault.New(fault.Transient, "answer %.100q of the leader of stream %s holds no message", answer.Data, stream)
	}
	return x.Message, nil
}

// unread asks the leader for a message of the partition up to a sequence that was
// not read, 0 if there is none.
func (r *reader) unread(ctx context.Context, end uint64) (uint64, error) {
	if r.pos.NextSeq == 0 && r.src.start.kind == startTime {
		s, err := r.link.newest(ctx, r.src.stream.name, r.filter)
		if err != nil || s.Seq == 0 || s.Time.Before(r.src.start.time) {
			return 0, err
		}
		return s.Seq, nil // if it lies behind the end, it still will come, and say so
	}
	s, err := r.link.next(ctx, r.src.stream.name, r.filter, r.pos.NextSeq)
	if err != nil || s.Seq > end {
		return 0, err
	}
	return s.Seq, nil
}

// settle finds out whether all that the stream held when the consumer was made has
// been read, once the consumer says that nothing follows.
func (r *reader) settle(ctx context.Context) error {
	if r.settled || !r.ask || !r.feed.drained() {
		return nil
	}
	r.ask = false
	end := r.end
	if r.ends {
		end = r.last
	}
	seq, err := r.unread(ctx, end)
	if err != nil {
		return err
	}
	if seq != 0 {
		if r.lag++; r.lag > lagTicks {
			return lagError(r.src.stream.name, seq)
		}
		return nil
	}
	r.settled = true
	r.placeEmpty(end)
	return nil
}

// placeEmpty fixes the position where nothing up to the end belongs to the
// partition.
func (r *reader) placeEmpty(end uint64) {
	if r.pos.NextSeq == 0 && r.src.start.kind == startEarliest {
		r.pos.NextSeq = end + 1
	}
}
