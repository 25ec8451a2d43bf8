package nats

import (
	"context"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// checkStream looks the stream up and verifies that it suits: at the start, and
// after every connect, as streams are edited while queries run.
func (c *committer) checkStream(ctx context.Context, l *link) (*jetstream.StreamInfo, error) {
	info, err := l.info(ctx, &c.sink.stream)
	if err != nil {
		return nil, err
	}
	if err := checkRetention(info, "sink"); err != nil {
		return nil, err
	}
	if c.order != nil {
		single := info.Config.Replicas <= 1
		if single {
			if err := l.atLeast(c.order.least, "exclusive = true in a stream with one replica"); err != nil {
				return nil, err
			}
		}
		c.order.single.Store(single)
	}
	if err := c.checkOutput(&info.Config); err != nil {
		return nil, err
	}
	if err := c.checkTransform(&info.Config); err != nil {
		return nil, err
	}
	size := l.nc.MaxPayload()
	if n := int64(info.Config.MaxMsgSize); n > 0 {
		size = min(size, n)
	}
	c.maxRow.Store(size - c.headerSize())
	return info, c.checkSubjects(&info.Config)
}

// headerSize bounds the bytes of a row's headers.
func (c *committer) headerSize() int64 {
	n := 200 + len(c.tag)
	if c.order != nil {
		n += 150 + len(c.order.subject[0])
	}
	return int64(n)
}

// checkOutput refuses streams that cannot keep the promise. What it asks for
// grows with the guarantee.
func (c *committer) checkOutput(s *jetstream.StreamConfig) error {
	unsuited := func(class, text string, args ...any) error {
		return fault.WithClass(fault.New(fault.Config, text, args...), class)
	}
	switch {
	case s.Mirror != nil:
		return unsuited(classUnsuitable, "stream %s mirrors stream %s and takes no rows; write to that one", s.Name, s.Mirror.Name)
	case s.Sealed:
		return unsuited(classUnsuitable, "stream %s is sealed and takes no rows; write to another one", s.Name)
	case s.NoAck:
		return unsuited(classUnsuitable, "stream %s does not acknowledge messages (no_ack), so that no epoch could end; make it with: nats stream add %s --ack", s.Name, s.Name)
	case s.AllowMsgCounter:
		return unsuited(classUnsuitable, "stream %s holds counters (allow_msg_counter) and takes no rows; write to another one", s.Name)
	case s.DiscardNewPerSubject && s.MaxMsgsPerSubject > 0:
		return unsuited(classUnsuitable, "stream %s refuses a row for good once its subject holds %d messages (discard new per subject); turn that off with: "+
			"nats stream edit %s --no-discard-per-subject", s.Name, s.MaxMsgsPerSubject, s.Name)
	}
	g := c.req.Offer.Guarantee
	if s.PersistMode == jetstream.AsyncPersistMode {
		return unsuited(classUnsuitable, "%s: stream %s acknowledges rows before they are written (persist_mode async), so that a crash of the server loses "+
			"rows of committed epochs; use a stream with the default persist mode", g, s.Name)
	}
	if g == connectors.AtLeastOnce {
		return nil
	}
	if g == connectors.Transactional {
		if !s.AllowAtomicPublish {
			return unsuited(classAtomic, "transactional: stream %s does not take atomic batches; allow them (allow_atomic in its configuration) with: nats stream edit %s --allow-batch", s.Name, s.Name)
		}
		return nil // it need not find its rows again
	}
	if s.MaxMsgsPerSubject > 0 {
		return unsuited(classUnsuitable, "%s: stream %s keeps %d messages per subject, so that rows disappear before a restart has looked for them; "+
			"use a stream without that limit, a key-value bucket (bucket, key), or guarantee = 'at_least_once'", g, s.Name, s.MaxMsgsPerSubject)
	}
	if s.Discard == jetstream.DiscardOld && s.MaxMsgs > 0 && s.MaxMsgs < int64(c.sink.maxPending) {
		return unsuited(classUnsuitable, "%s: stream %s keeps %d messages and drops the oldest, but max_pending = %d rows may be on their way, which a restart has to find; "+
			"give the stream a larger limit or the sink a smaller max_pending", g, s.Name, s.MaxMsgs, c.sink.maxPending)
	}
	return nil
}

// checkTransform refuses a stream that would store the marker, or the fence, that lies
// among the rows under another subject than the one it is looked for.
func (c *committer) checkTransform(s *jetstream.StreamConfig) error {
	t := s.SubjectTransform
	if t == nil {
		return nil
	}
	var at place
	switch {
	case c.req.Offer.Guarantee == connectors.Transactional:
		at = c.markerPlace()
	case c.order != nil:
		at = c.fencePlace()
	default:
		return nil
	}
	if t.Source != "" && !overlaps(t.Source, at.subject) {
		return nil
	}
	err := fault.New(fault.Config, "stream %s stores subject %s, which the sink needs for itself, under another one (subject transform from '%s' to '%s'); "+
		"let the transform take the subjects of rows only", s.Name, at.subject, t.Source, t.Destination)
	return fault.WithClass(err, classUnsuitable)
}

// checkSubjects makes sure that the stream takes every subject of the sink.
func (c *committer) checkSubjects(s *jetstream.StreamConfig) error {
	for _, want := range c.sink.stream.subjects {
		covered := false
		for _, have := range s.Subjects {
			covered = covered || covers(have, want)
		}
		if !covered {
			err := fault.New(fault.Config, "stream %s does not take subject %s (it takes %s); add it with: nats stream edit %s --subjects '%s'",
				s.Name, want, strings.Join(s.Subjects, ", "), s.Name, strings.Join(append(s.Subjects[:len(s.Subjects):len(s.Subjects)], want), ","))
			return fault.WithClass(err, classSubject)
		}
	}
	return nil
}

// checkScanFrom is for a new connection: had this attempt to be repeated, all
// rows that it may have published must be there to be found. When there are none,
// a later attempt can begin at the end that the stream has now, whatever it has
// forgotten meanwhile.
func (c *committer) checkScanFrom(info *jetstream.StreamInfo) error {
	c.mu.Lock()
	created, from := c.created, c.scanFrom
	settled := c.settled == c.progress.Load() && len(c.adoption) == 0
	c.mu.Unlock()
	if !settled || c.pending() {
		return c.checkTail(info, created, from)
	}
	if err := c.checkIdentity(info, created); err != nil {
		return err
	}
	c.moveBase(info.State.LastSeq)
	return nil
}

// checkTail refuses the guarantee when rows of interrupted epochs cannot be
// found any more.
func (c *committer) checkTail(info *jetstream.StreamInfo, created time.Time, from uint64) error {
	if err := c.checkIdentity(info, created); err != nil {
		return err
	}
	g, name := c.req.Offer.Guarantee, info.Config.Name
	if from > info.State.LastSeq+1 {
		err := fault.New(fault.Config, "%s: stream %s ends at sequence %d, the checkpoint knows of %d; the stream was restored from an older copy; "+
			"run the query once with guarantee = 'at_least_once'", g, name, info.State.LastSeq, from-1)
		return fault.WithClass(err, classBeyondEnd)
	}
	if info.State.FirstSeq > from {
		err := fault.New(fault.Config, "%s: stream %s was trimmed to sequence %d, but rows published from sequence %d on must be looked at to avoid duplicates; "+
			"give the stream larger limits; to go on now, accept possible duplicates by running once with guarantee = 'at_least_once'", g, name, info.State.FirstSeq, from)
		return fault.WithClass(err, classTrimmed)
	}
	return nil
}

// restarted is the error for a row that was stored at a sequence that the stream
// had given out before the row was sent.
func (c *committer) restarted(seq, before uint64) error {
	err := fault.New(fault.Config, "stream %s stored a row at sequence %d after sequence %d: it was deleted and re-created, and what the query had published is gone; "+
		"start the query afresh, or run it once with guarantee = 'at_least_once'", c.sink.stream.name, seq, before)
	return fault.WithClass(err, classRecreated)
}

// checkIdentity refuses the guarantee for a stream that was re-created.
func (c *committer) checkIdentity(info *jetstream.StreamInfo, created time.Time) error {
	if info.Created.Equal(created) {
		return nil
	}
	err := fault.New(fault.Config, "%s: stream %s was deleted and re-created at %s; what the query had published is gone; "+
		"start the query afresh, or run it once with guarantee = 'at_least_once'", c.req.Offer.Guarantee, info.Config.Name, formatCreated(info.Created))
	return fault.WithClass(err, classRecreated)
}
