package nats

import (
	"context"
	"time"

	"github.com/streamd-io/streamd/messages/fault"
)

// patientTries is how many conflicts in a row of one key are answered at once;
// then somebody else keeps writing it, and pauses are made.
const patientTries = 3

// kick tells the keeper that something is to be repaired.
func (c *kvCommitter) kick() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// keep runs until Close. It dials again when the connection is lost, answers
// conflicts, and sends again what was refused.
func (c *kvCommitter) keep() {
	defer close(c.kept)
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	var wait backoff
	var seen uint64 // progress at the last repair
	k := kvWatch{c: c}
	for {
		select {
		case <-c.ctx.Done():
			return
		case <-c.gone():
		case <-c.wake:
		case <-ticker.C:
			if !k.tick() {
				continue
			}
		}
		if p := c.progress.Load(); p != seen {
			wait.reset()
			seen = p
		}
		if !c.mend(&wait) {
			return
		}
	}
}

// mend repairs until it works. It returns false when the attempt is over.
func (c *kvCommitter) mend(wait *backoff) bool {
	for {
		err := c.repair(wait)
		switch {
		case err == nil:
			return true
		case c.ctx.Err() != nil:
			return false
		case fault.KindOf(err) != fault.Transient:
			c.table.fail(err)
			return false
		}
		c.complain("nats sink repairs its connection", err)
		if sleep(c.ctx, wait.next()) != nil {
			return false
		}
	}
}

// kvWatch notices a server that does not answer.
type kvWatch struct {
	c       *kvCommitter
	silent  int // seconds
	stuckAt uint64
	told    uint64 // surprises
	lap     int    // seconds since mark
	mark    uint64 // messages that had been sent
}

// tick is called once a second. It reports whether something is to be repaired.
func (k *kvWatch) tick() bool {
	c := k.c
	if n := c.surprises.Load(); n > 0 && k.told == 0 {
		k.told = n
		c.sink.log.Warn("somebody else writes keys of this sink; its values win over theirs", "query", c.req.Query, "sink", c.req.Sink, "bucket", c.sink.bucket.name)
	}
	sent, busy := c.table.pending()
	p := c.progress.Load()
	if p != k.stuckAt || busy == 0 {
		c.marks.tell("") // values get through
	}
	late := false
	if k.lap++; time.Duration(k.lap)*time.Second >= stuckAfter {
		k.lap = 0
		late, k.mark = c.table.overdue(k.mark)
	}
	if !late && (p != k.stuckAt || sent == 0) {
		k.silent, k.stuckAt = 0, p
		return false
	}
	if l := c.current(); l != nil {
		if err := l.deniedRow(c.table.sent); err != nil {
			c.table.fail(fault.WithClass(fault.Wrap(fault.Config, err, "write to bucket %s", c.sink.bucket.name), classPermission))
			return false
		}
	}
	k.silent++
	if !late && time.Duration(k.silent)*time.Second < stuckAfter {
		return false
	}
	k.silent = 0
	c.drop()
	return true
}

// gone is closed when the current connection is lost.
func (c *kvCommitter) gone() <-chan struct{} {
	if l := c.current(); l != nil {
		return l.gone
	}
	return nil
}

// drop closes the current connection.
func (c *kvCommitter) drop() {
	c.table.close()
	if l := c.install(nil); l != nil {
		l.close()
	}
}

// repair does what is to be done, in one go.
func (c *kvCommitter) repair(wait *backoff) error {
	l := c.current()
	refusal := c.refusal.Swap(nil)
	if l != nil && l.alive() && refusal == nil {
		return c.settleConflicts(l, wait)
	}
	if refusal != nil {
		// If nothing gets through, that is repeated with growing pauses.
		c.complain("nats server refused values; they are sent again", *refusal)
		if err := sleep(c.ctx, wait.next()); err != nil {
			return err
		}
	}
	if l == nil || !l.alive() {
		c.drop()
		var err error
		if l, err = c.sink.conn.dial(c.ctx); err != nil {
			return err
		}
		c.install(l) // so that Close closes it; the table is not told yet
	}
	if err := c.verify(c.ctx, l); err != nil {
		return err
	}
	if err := c.subscribe(l); err != nil {
		return err
	}
	c.table.resume(l)
	// Who reported a conflict and who reported the refusal may have woken the keeper
	// once between them.
	return c.settleConflicts(l, wait)
}

// settleConflicts writes keys again that had another revision than expected. The
// order matters: their revisions are known before the marker is read.
func (c *kvCommitter) settleConflicts(l *link, wait *backoff) error {
	entries := c.table.takeConflicts()
	if len(entries) == 0 {
		return nil
	}
	unknown, tries := c.table.unknown(entries)
	err := func() error {
		if err := fault.Inject("kv/conflict"); err != nil {
			return err
		}
		for _, e := range unknown {
			rev, err := c.sink.bucket.revision(c.ctx, l, e.subject[len(c.sink.prefix):])
			if err != nil {
				return err
			}
			c.table.learn(e, rev)
		}
		if tries > patientTries {
			if err := sleep(c.ctx, wait.next()); err != nil {
				return err
			}
		}
		if err := c.verifyMarker(c.ctx, l); err != nil {
			return err
		}
		return fault.Inject("kv/settled")
	}()
	if err != nil {
		c.table.putBack(entries)
		c.kick()
		return err
	}
	c.table.retry(l, entries)
	return nil
}

// verify makes sure that the bucket is the same and that this attempt may still
// write.
func (c *kvCommitter) verify(ctx context.Context, l *link) error {
	c.mu.Lock()
	created := c.created
	c.mu.Unlock()
	if _, err := c.check(ctx, l, created); err != nil {
		return err
	}
	return c.verifyMarker(ctx, l)
}

func (c *kvCommitter) verifyMarker(ctx context.Context, l *link) error {
	if !c.exact {
		return nil
	}
	m, _, err := c.marks.ownMarker(ctx, l)
	if err != nil {
		return err
	}
	if m == nil || m.Nonce != c.marks.nonce {
		return c.marks.fenced(m)
	}
	return nil
}
