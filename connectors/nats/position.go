package nats

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// position is where one partition is read next. It is the content of the
// source's offsets.
type position struct {
	Stream  string    `json:"stream"`
	Created time.Time `json:"created"` // tells a stream from a later one of the same name
	Filter  string    `json:"filter"`
	// NextSeq is the first stream sequence that was not read yet. 0 means that
	// the configured start still applies (start = time:... and no message since).
	NextSeq uint64 `json:"next_seq"`
}

// parsePosition reads an offset.
func parsePosition(o connectors.Offset) (position, error) {
	var p position
	if err := json.Unmarshal(o, &p); err != nil {
		return p, fault.Wrap(fault.Config, err, "offset %.200q of a nats source", []byte(o))
	}
	if p.Stream == "" || p.Created.IsZero() {
		return p, fault.New(fault.Config, "offset %.200q of a nats source names no stream", []byte(o))
	}
	return p, nil
}

// prefix returns the offset up to the number, which changes all the time.
func (p *position) prefix() ([]byte, error) {
	b, err := json.Marshal(position{Stream: p.Stream, Created: p.Created.UTC(), Filter: p.Filter})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "encode an offset of stream %s", p.Stream)
	}
	return b[:len(b)-len("0}")], nil
}

// appendOffset appends the offset for sequence next.
func appendOffset(dst connectors.Offset, prefix []byte, next uint64) connectors.Offset {
	dst = append(dst, prefix...)
	dst = strconv.AppendUint(dst, next, 10)
	return append(dst, '}')
}

// origin is the identity of the partition in the lineage of its rows. It must
// never change for the same stream and filter.
func (p *position) origin() messages.ID128 {
	h := sha256.New()
	for _, s := range []string{"nats source 1", p.Stream, formatCreated(p.Created), p.Filter} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		h.Write(n[:])
		h.Write([]byte(s))
	}
	sum := h.Sum(nil)
	return messages.ID128{Hi: binary.BigEndian.Uint64(sum), Lo: binary.BigEndian.Uint64(sum[8:])}
}

// startAt is the option start.
type startAt struct {
	kind startKind
	seq  uint64
	time time.Time
}

type startKind uint8

const (
	startEarliest startKind = iota
	startLatest
	startSeq
	startTime
)

func parseStart(s string) (startAt, error) {
	switch strings.ToLower(s) {
	case "", "earliest":
		return startAt{}, nil
	case "latest":
		return startAt{kind: startLatest}, nil
	}
	kind, arg, _ := strings.Cut(s, ":")
	switch strings.ToLower(kind) {
	case "seq":
		if n, ok := parseUint(arg); ok && n > 0 {
			return startAt{kind: startSeq, seq: n}, nil
		}
		return startAt{}, fault.New(fault.Config, "start: %q is not a sequence; write seq:17", s)
	case "time":
		t, err := time.Parse(time.RFC3339Nano, arg)
		if err != nil || t.Year() < 1970 || t.Year() > 2261 { // the server counts nanoseconds
			return startAt{}, fault.New(fault.Config, "start: %q is not a time; write time:2026-01-31T00:00:00Z", s)
		}
		return startAt{kind: startTime, time: t.UTC()}, nil
	}
	hint := ""
	if near, ok := option.Nearest(s, []string{"earliest", "latest"}); ok {
		hint = "; did you mean " + near + "?"
	}
	return startAt{}, fault.New(fault.Config, "start: %q is not one of earliest, latest, seq:N, time:RFC3339%s", s, hint)
}

// parseUint reads a decimal number without sign.
func parseUint(s string) (uint64, bool) {
	if s == "" || len(s) > 20 {
		return 0, false
	}
	var n uint64
	for i := range len(s) {
		d := uint64(s[i] - '0')
		if d > 9 || n > (1<<64-1-d)/10 {
			return 0, false
		}
		n = n*10 + d
	}
	return n, true
}

// delivery is what the server says about a message it delivers.
type delivery struct {
	seq      uint64 // in the stream
	consumer uint64 // count of deliveries of this consumer, from 1
	time     int64  // nanoseconds since the Unix epoch: when the server stored it
	pending  uint64 // how many messages of the consumer's filter follow
}

// parseDelivery reads the reply subject of a delivered message,
//
//	$JS.ACK.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>
//	$JS.ACK.<domain>.<account>.<stream>.<consumer>.<deliveries>.<stream seq>.<consumer seq>.<time>.<pending>[.<token>]
//
// without allocating. The order of the numbers behind the names is the same.
func parseDelivery(reply string, d *delivery) bool {
	const prefix = "$JS.ACK."
	if !strings.HasPrefix(reply, prefix) {
		return false
	}
	n := strings.Count(reply, ".") + 1
	first := 4 // index of <deliveries>
	if n >= 11 {
		first = 6
	} else if n != 9 {
		return false
	}
	for range first + 1 {
		reply = reply[strings.IndexByte(reply, '.')+1:]
	}
	var ok [4]bool
	var t uint64
	d.seq, reply, ok[0] = cutUint(reply)
	d.consumer, reply, ok[1] = cutUint(reply)
	t, reply, ok[2] = cutUint(reply)
	d.pending, _, ok[3] = cutUint(reply)
	d.time = int64(t)
	return ok == [4]bool{true, true, true, true} && d.seq > 0
}

// cutUint reads the number before the next dot.
func cutUint(s string) (n uint64, rest string, ok bool) {
	i := strings.IndexByte(s, '.')
	if i < 0 {
		i = len(s)
	} else {
		rest = s[i+1:]
	}
	n, ok = parseUint(s[:i])
	return n, rest, ok
}
