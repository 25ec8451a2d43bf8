package nats

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// markerStream holds the markers of all sinks, one subject each.
	markerStream   = "STREAMD_COMMITS"
	markerSubjects = "streamd.commits.>"
	// markersKept is how many markers of one sink stay for people to look at;
	// only the last one counts.
	markersKept = 8
)

// marker says which attempt may publish, and what was committed last.
type marker struct {
	Version     int    `json:"v"`
	Incarnation string `json:"incarnation"`
	Attempt     uint64 `json:"attempt"`
	Nonce       string `json:"nonce"`
	// Epoch is the last one whose rows are all in the stream.
	Epoch messages.Epoch `json:"epoch"`
	// Publishing is the epoch whose rows are being published after it has
	// committed, 0 when none is.
	Publishing messages.Epoch `json:"publishing,omitempty"`
	Stream     string         `json:"stream"`
	Created    time.Time      `json:"created"` // of the stream
	// ScanFrom is the first sequence that can hold a row of a later epoch.
	ScanFrom uint64 `json:"scan_from"`
	// SetBack is the nonce of the attempt that has last set the marker back to an
	// older epoch; see epochCommitter.rowID.
	SetBack string `json:"set_back,omitempty"`
}

// place is where the markers of a sink lie.
type place struct{ stream, subject string }

// markerPlace returns where this sink's markers lie: in a stream of their own, but
// beside the rows of transactions, which they are part of.
func (c *committer) markerPlace() place {
	name := escaped(c.req.Query) + "." + escaped(c.req.Sink)
	if c.req.Offer.Guarantee == connectors.Transactional {
		return place{c.sink.stream.name, transactionSubjects + name}
	}
	return place{markerStream, "streamd.commits." + name}
}

func (c *committer) incarnation() string {
	return fmt.Sprintf("%016x%016x", c.req.Incarnation.Hi, c.req.Incarnation.Lo)
}

func (c *committer) newMarker(e messages.Epoch, from uint64) *marker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return &marker{
		Version: 1, Incarnation: c.incarnation(), Attempt: c.req.Attempt, Nonce: c.nonce, Epoch: e,
		Stream: c.sink.stream.name, Created: c.created.UTC(), ScanFrom: from,
	}
}

// fenced is the error of an attempt that has lost the marker to m. An older attempt
// of the same query cannot have taken it: a server that says so knows less than the
// one that has acknowledged ours, which passes.
func (c *committer) fenced(m *marker) error {
	who := "somebody who has deleted the marker"
	if m != nil {
		who = fmt.Sprintf("attempt %d of incarnation %.8s", m.Attempt, m.Incarnation)
	}
	if m != nil && m.Incarnation == c.incarnation() && m.Attempt < c.req.Attempt {
		return fault.New(fault.Transient, "attempt %d of query %q reads an old marker of its sink %s, that of %s; the server is behind the one that has stored its own", c.req.Attempt, c.req.Query, c.req.Sink, who)
	}
	err := fault.New(fault.Config, "attempt %d of query %q was fenced at its sink %s by %s; the same query runs elsewhere, or from a newer copy of its directory; stop one of them",
		c.req.Attempt, c.req.Query, c.req.Sink, who)
	return fault.WithClass(err, classFenced)
}

// lost is fenced, and ends the attempt.
func (c *committer) lost(m *marker) error {
	err := c.fenced(m)
	if fault.KindOf(err) != fault.Transient {
		c.fail(err)
	}
	return err
}

// absencePatience is how long a server must have known no marker before one that
// this attempt has written counts as deleted: a server that has just come back
// answers that there is no such message, too, if it cannot read the message yet.
const absencePatience = 5 * time.Second

// ownMarker reads the marker of an attempt that has written one. It is nil only
// after absencePatience of looks that have found none; until then the error is
// Transient.
func (c *committer) ownMarker(ctx context.Context, l *link) (*marker, uint64, error) {
	m, at, err := l.readMarker(ctx, c.markerPlace())
	if err != nil || m != nil {
		c.markerPresent() // or nobody has looked in between
		return m, at, err
	}
	return nil, at, c.markerAbsent()
}

func (c *committer) markerPresent() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.absent = 0
}

// markerAbsent notes that a server knows no marker of an attempt that has written one.
// The error is Transient: it does not yet count as deleted.
func (c *committer) markerAbsent() error {
	now := c.lease.now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.absent == 0 {
		c.absent = max(now, 1)
	}
	if now-c.absent >= absencePatience {
		return nil
	}
	at := c.markerPlace()
	return fault.New(fault.Transient, "stream %s holds no marker %s at the moment; looking again for %v", at.stream, at.subject, absencePatience)
}

// ensureMarkers makes sure that the stream of markers suits. The first marker of a
// sink creates it if it is missing.
func (l *link) ensureMarkers(ctx context.Context) error {
	return l.call(ctx, "look up stream "+markerStream, func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, markerStream)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		return checkMarkers(s)
	})
}

func checkMarkers(s jetstream.Stream) error {
	if got := s.CachedInfo().Config; got.Retention != jetstream.LimitsPolicy || got.MaxAge != 0 || got.Storage != jetstream.FileStorage {
		return fault.New(fault.Config, "stream %s must have limits retention, file storage and no max age", markerStream)
	}
	return nil
}

// createMarkers creates the stream of markers unless it exists, with as many
// replicas as the output stream: what a lost server takes away must not be the
// markers alone.
func (l *link) createMarkers(ctx context.Context, output string) error {
	return l.call(ctx, "create stream "+markerStream, func(ctx context.Context) error {
		if _, err := l.js.Stream(ctx, markerStream); !errors.Is(err, jetstream.ErrStreamNotFound) {
			return err
		}
		s, err := l.js.Stream(ctx, output)
		if err != nil {
			return err
		}
		s, err = l.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: markerStream, Subjects: []string{markerSubjects}, Description: "streamd: who may publish, and the last committed epoch, per query and sink",
			Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage, MaxMsgsPerSubject: markersKept, Replicas: s.CachedInfo().Config.Replicas,
		})
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another sink was faster, with other replicas
			s, err = l.js.Stream(ctx, markerStream)
		}
		if err != nil {
			return err
		}
		return checkMarkers(s)
	})
}

// lastMarker asks the leader of a stream for the last message of a subject, nil if
// there is none. jetstream.Stream would ask any replica or mirror if the stream
// allows that, which may not have heard of a new marker yet.
func (l *link) lastMarker(ctx context.Context, at place) (*leaderMessage, error) {
	m, err := l.ask(ctx, at.stream, getRequest{Last: at.subject})
	if api, ok := errors.AsType[*jetstream.APIError](err); ok && api.ErrorCode == jetstream.JSErrCodeStreamNotFound {
		return nil, nil
	}
	return m, err
}

// headerRemoved is in the message that a stream may put where max_age has removed
// the last message of a subject.
const headerRemoved = "Nats-Marker-Reason:"

// readMarker returns the last marker and its sequence, or nil and 0, also if
// their stream is gone. With nil the sequence is that of a message that stands for a
// removed one, if there is such.
func (l *link) readMarker(ctx context.Context, at place) (*marker, uint64, error) {
	var m *marker
	var seq uint64
	err := l.call(ctx, "read the marker "+at.subject, func(ctx context.Context) error {
		raw, err := l.lastMarker(ctx, at)
		if err != nil || raw == nil {
			return err
		}
		if seq = raw.Seq; bytes.Contains(raw.Header, []byte(headerRemoved)) {
			return nil
		}
		m = &marker{}
		if err := json.Unmarshal(raw.Data, m); err != nil || m.Version != 1 {
			return fault.New(fault.Config, "message %d in stream %s is not a marker of this version: %.200q", seq, at.stream, raw.Data)
		}
		return nil
	})
	return m, seq, err
}

// writeMarker writes m if the last marker of the subject is still at sequence
// last. The error of a lost race satisfies isWrongLast.
func (l *link) writeMarker(ctx context.Context, at place, m *marker, last uint64) (uint64, error) {
	data, err := json.Marshal(m)
	if err != nil {
		return 0, fault.Wrap(fault.Internal, err, "encode a marker")
	}
	if last == 0 && at.stream == markerStream {
		if err := l.createMarkers(ctx, m.Stream); err != nil {
			return 0, err
		}
	}
	var seq uint64
	err = l.call(ctx, "write the marker "+at.subject, func(ctx context.Context) error {
		a, err := l.js.Publish(ctx, at.subject, data, jetstream.WithExpectLastSequencePerSubject(last), jetstream.WithExpectStream(at.stream))
		if err == nil {
			seq = a.Sequence
		} else if exhausted(err) { // rows that are refused for that wait, too
			err = fault.Wrap(fault.Transient, err, "write the marker %s", at.subject)
		}
		return err
	})
	if err != nil && isWrongLast(err) {
		err = fault.Wrap(fault.Transient, err, "") // the caller reads it again
	}
	return seq, err
}

// moveMarker replaces our marker by m, unless somebody else has taken over.
func (c *committer) moveMarker(ctx context.Context, l *link, m *marker) error {
	if l == nil {
		return fault.New(fault.Transient, "nats sink has no connection to %s", c.sink.conn.hosts())
	}
	c.mu.Lock()
	at := c.marker
	c.mu.Unlock()
	asked := c.lease.now()
	seq, err := c.replaceMarker(ctx, l, m, at)
	if fault.ClassOf(err) == classFenced {
		c.fail(err)
	}
	if err != nil {
		return err
	}
	c.lease.renew(asked)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.marker = seq
	return nil
}

// replaceMarker writes m where our marker is at sequence at, and returns where it is
// now. An error of class NATS_SINK_FENCED says that the marker is not ours any more.
func (c *committer) replaceMarker(ctx context.Context, l *link, m *marker, at uint64) (uint64, error) {
	seq, err := l.writeMarker(ctx, c.markerPlace(), m, at)
	gone := errors.Is(err, jetstream.ErrNoStreamResponse) // the stream was deleted, or is not there yet
	if err == nil || !gone && !isWrongLast(err) {
		return seq, err
	}
	// Somebody has taken over, or an earlier try was stored.
	now, stored, readErr := c.ownMarker(ctx, l)
	switch {
	case readErr != nil && gone:
		return 0, err
	case readErr != nil:
		return 0, readErr
	case now == nil || !gone && now.Nonce != c.nonce:
		return 0, c.fenced(now)
	case gone || stored == at: // the server could not take it, or not read the last one
		return 0, err
	case now.Epoch < m.Epoch || now.Publishing != m.Publishing:
		return 0, fault.Wrap(fault.Internal, err, "marker of epoch %d is ours but not known", now.Epoch)
	}
	return stored, nil
}

// isWrongLast reports whether a compare-and-set was lost.
func isWrongLast(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || api.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}
