package nats

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// token is what the commit record keeps about the output of one epoch e.
type token struct {
	// Created tells the stream from a later one of the same name.
	Created time.Time
	// ScanFrom is the first sequence that can hold a row of a later epoch that
	// this or a later attempt has published. See the argument in committer.go.
	ScanFrom uint64
	// Own are the sequences from ScanFrom on that hold rows of epochs up to e.
	Own ranges
	// Adoption are rows of later epochs that an earlier attempt has published and
	// that were not met again up to e; they may lie before ScanFrom.
	Adoption []messages.ID128
}

// tokenText is its encoding.
type tokenText struct {
	Version  int       `json:"v"`
	Created  time.Time `json:"created"`
	ScanFrom uint64    `json:"scan_from"`
	Own      string    `json:"own,omitempty"`      // base64 of varints: gap, length - 1, ...
	Adoption string    `json:"adoption,omitempty"` // base64 of 16 bytes each
}

const tokenVersion = 1

func (t *token) encode() (connectors.Token, error) {
	ids := make([]byte, 0, 16*len(t.Adoption))
	for _, id := range t.Adoption {
		ids = appendID(ids, id)
	}
	b, err := json.Marshal(tokenText{
		Version: tokenVersion, Created: t.Created.UTC(), ScanFrom: t.ScanFrom,
		Own:      base64.RawStdEncoding.EncodeToString(t.Own.encode()),
		Adoption: base64.RawStdEncoding.EncodeToString(ids),
	})
	return b, fault.Wrap(fault.Internal, err, "encode the token of a nats sink")
}

func decodeToken(b connectors.Token) (*token, error) {
	var x tokenText
	if err := json.Unmarshal(b, &x); err != nil {
		return nil, fault.Wrap(fault.Config, err, "token of a nats sink")
	}
	if x.Version != tokenVersion || x.ScanFrom == 0 {
		return nil, fault.New(fault.Config, "token of a nats sink: version %d with scan_from %d is not known", x.Version, x.ScanFrom)
	}
	t := &token{Created: x.Created, ScanFrom: x.ScanFrom}
	own, err := base64.RawStdEncoding.DecodeString(x.Own)
	if err == nil {
		t.Own, err = decodeRanges(own)
	}
	if err != nil {
		return nil, fault.Wrap(fault.Config, err, "token of a nats sink: own")
	}
	ids, err := base64.RawStdEncoding.DecodeString(x.Adoption)
	if err != nil || len(ids)%16 != 0 {
		return nil, fault.New(fault.Config, "token of a nats sink: adoption has %d bytes and error %v", len(ids), err)
	}
	for ; len(ids) > 0; ids = ids[16:] {
		t.Adoption = append(t.Adoption, messages.ID128{Hi: binary.BigEndian.Uint64(ids), Lo: binary.BigEndian.Uint64(ids[8:])})
	}
	return t, nil
}

// epochToken is what the commit record of epoch e keeps about a sink whose rows
// are published after their epoch has committed.
type epochToken struct {
	Version int `json:"v"`
	// Guarantee is the one given: the marker that says what is published lies
	// elsewhere for transactions.
	Guarantee connectors.Guarantee `json:"guarantee"`
	Created   time.Time            `json:"created"` // of the stream
	// ScanFrom is the first sequence that can hold a row of the epochs in Rows.
	ScanFrom uint64 `json:"scan_from"`
	// Rows are the epochs that may be unpublished.
	Rows held.Unconfirmed `json:"rows,omitempty"`
	// SetBack is that of the marker, for when the marker is lost.
	SetBack string `json:"set_back,omitempty"`
}

const epochTokenVersion = 2

func (t epochToken) encode() (connectors.Token, error) {
	t.Version, t.Created = epochTokenVersion, t.Created.UTC()
	b, err := json.Marshal(t)
	return b, fault.Wrap(fault.Internal, err, "encode the token of a nats sink")
}

// anyToken is a token of one of the modes; the other field is nil.
type anyToken struct {
	atOnce *token
	epoch  *epochToken
}

// decodeAnyToken returns nil if there is none.
func decodeAnyToken(b connectors.Token) (*anyToken, error) {
	if len(b) == 0 {
		return nil, nil
	}
	t := epochToken{}
	if err := json.Unmarshal(b, &t); err != nil {
		return nil, fault.Wrap(fault.Config, err, "token of a nats sink")
	}
	if t.Version == epochTokenVersion && t.ScanFrom > 0 {
		return &anyToken{epoch: &t}, nil
	}
	one, err := decodeToken(b)
	return &anyToken{atOnce: one}, err
}

// forAtOnce returns the token of a sink that publishes at once. When it has
// published per epoch before, all that must have been done, as the marker tells,
// and there is nothing to go on from but the marker.
func (t *anyToken) forAtOnce(old *marker) (*token, error) {
	if t == nil || t.epoch == nil {
		if t == nil {
			return nil, nil
		}
		return t.atOnce, nil
	}
	if t.epoch.Guarantee == connectors.Transactional {
		return nil, t.epoch.unsettled()
	}
	if n := len(t.epoch.Rows); n > 0 && (old == nil || old.Epoch < t.epoch.Rows[n-1].Epoch) {
		return nil, switched("epoch", "at_once", int(t.epoch.Rows[n-1].Rows))
	}
	return nil, nil
}

// unsettled is the same for a token of any mode: rows that were published at once
// have to be settled one way or the other, and only an attempt of that mode can.
func (t *anyToken) unsettled() error {
	if t.epoch != nil {
		return t.epoch.unsettled()
	}
	err := fault.New(fault.Config, "nats sink: guarantee was changed to 'transactional', and rows of an interrupted epoch may have been published; change it back, or start the query afresh")
	return fault.WithClass(err, classAhead)
}

// unsettled refuses to go on from transactions without them, or the other way
// round, when rows may be unpublished: where the markers are that could tell is not
// looked at.
func (t *epochToken) unsettled() error {
	if len(t.Rows) == 0 {
		return nil
	}
	err := fault.New(fault.Config, "nats sink: guarantee was changed from '%s', and rows of epoch %d may not be published yet; "+
		"change it back, or start the query afresh", t.Guarantee, t.Rows[0].Epoch)
	return fault.WithClass(err, classAhead)
}

func appendID(dst []byte, id messages.ID128) []byte {
	dst = binary.BigEndian.AppendUint64(dst, id.Hi)
	return binary.BigEndian.AppendUint64(dst, id.Lo)
}

// appendHexID appends the 32 digits under which a row goes into Nats-Msg-Id.
func appendHexID(dst []byte, id messages.ID128) []byte {
	var raw [16]byte
	return hex.AppendEncode(dst, appendID(raw[:0], id))
}

// parseHexID reads them back.
func parseHexID(s string) (messages.ID128, bool) {
	var raw [16]byte
	if len(s) != 32 {
		return messages.ID128{}, false
	}
	if _, err := hex.Decode(raw[:], []byte(s)); err != nil {
		return messages.ID128{}, false
	}
	return messages.ID128{Hi: binary.BigEndian.Uint64(raw[:]), Lo: binary.BigEndian.Uint64(raw[8:])}, true
}

// span is the sequences from..to, both included.
type span struct{ from, to uint64 }

// ranges is a set of sequences.
type ranges []span

// add appends a sequence; sequences mostly come in ascending order, and then
// the set stays small.
func (r ranges) add(seq uint64) ranges {
	if n := len(r); n > 0 {
		switch last := &r[n-1]; {
		case seq == last.to+1:
			last.to = seq
			return r
		case seq >= last.from && seq <= last.to:
			return r
		}
	}
	return append(r, span{seq, seq})
}

// normal returns the set with its spans sorted, joined, and cut below from.
func (r ranges) normal(from uint64) ranges {
	s := slices.Clone(r)
	slices.SortFunc(s, func(a, b span) int {
		if a.from < b.from {
			return -1
		}
		return 1
	})
	out := s[:0]
	for _, x := range s {
		if x.to < from {
			continue
		}
		x.from = max(x.from, from)
		if n := len(out); n > 0 && x.from <= out[n-1].to+1 {
			out[n-1].to = max(out[n-1].to, x.to)
			continue
		}
		out = append(out, x)
	}
	return out
}

// has reports whether a normal set holds seq.
func (r ranges) has(seq uint64) bool {
	i, found := slices.BinarySearchFunc(r, seq, func(s span, seq uint64) int {
		switch {
		case s.to < seq:
			return -1
		case s.from > seq:
			return 1
		}
		return 0
	})
	return found && i < len(r)
}

// encode writes a normal set.
func (r ranges) encode() []byte {
	var b []byte
	var at uint64
	for _, s := range r {
		b = binary.AppendUvarint(b, s.from-at)
		b = binary.AppendUvarint(b, s.to-s.from)
		at = s.to
	}
	return b
}

func decodeRanges(b []byte) (ranges, error) {
	var r ranges
	var at uint64
	for len(b) > 0 {
		gap, n := binary.Uvarint(b)
		if n <= 0 {
			return nil, fault.New(fault.Config, "a number is broken")
		}
		length, m := binary.Uvarint(b[n:])
		from := at + gap
		if m <= 0 || from < at || from+length < from || len(r) > 0 && gap == 0 {
			return nil, fault.New(fault.Config, "a number is broken or too large")
		}
		r = append(r, span{from, from + length})
		at, b = from+length, b[n+m:]
	}
	return r, nil
}
