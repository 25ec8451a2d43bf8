package nats

import (
	"bytes"
	"encoding/json"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// ack is the server's answer to a published row.
type ack struct {
	stream []byte // aliases the message
	seq    uint64
	dup    bool  // stored before, says the server's duplicate window
	err    error // the row was refused
}

// parseAck reads an answer such as {"stream":"OUT","seq":17} or
// {"stream":"OUT","domain":"hub","seq":17,"duplicate":true} without allocating,
// and everything else the slow way.
func parseAck(m *nats.Msg, a *ack) {
	a.err, a.dup = nil, false
	if d, ok := bytes.CutPrefix(m.Data, []byte(`{"stream":"`)); ok && bytes.IndexByte(d, '\\') < 0 {
		name, _, _ := bytes.Cut(d, []byte(`"`))
		_, rest, _ := bytes.Cut(d[len(name):], []byte(`,"seq":`))
		n := 0
		var seq uint64
		for n < min(len(rest), 19) && rest[n]-'0' <= 9 {
			seq = seq*10 + uint64(rest[n]-'0')
			n++
		}
		if tail := string(rest[n:]); len(name) > 0 && seq > 0 && (tail == "}" || tail == `,"duplicate": true}`) {
			a.stream, a.seq, a.dup = name, seq, tail != "}"
			return
		}
	}
	parseAckSlowly(m, a)
}

func parseAckSlowly(m *nats.Msg, a *ack) {
	if len(m.Data) == 0 {
		if m.Header.Get("Status") == "503" {
			a.err = fault.Wrap(fault.Transient, nats.ErrNoResponders, "no stream takes the subject")
			return
		}
		a.err = fault.New(fault.Transient, "the server answered with nothing")
		return
	}
	var x struct {
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
		Dup    bool                `json:"duplicate"`
		Error  *jetstream.APIError `json:"error"`
	}
	err := json.Unmarshal(m.Data, &x)
	switch {
	case err != nil:
		a.err = fault.Wrap(fault.Transient, err, "answer %.100q of the server", m.Data)
	case x.Error != nil && x.Error.ErrorCode == jetstream.JSErrCodeStreamMessageExceedsMaximum:
		a.err = fault.Wrap(fault.BadRow, x.Error, "the row is larger than the stream allows")
	case x.Error != nil:
		a.err = fault.Wrap(fault.Transient, x.Error, "")
	case x.Stream == "" || x.Seq == 0:
		a.err = fault.New(fault.Transient, "answer %.100q of the server names no sequence", m.Data)
	default:
		a.stream, a.seq, a.dup = []byte(x.Stream), x.Seq, x.Dup
	}
}
