// Package held is what a sink needs to publish the rows of an epoch after the
// epoch has committed: the writers that hold them, their place in the checkpoint,
// and their way back out of it, in the same order each time.
//
// A committer makes one Rows in Open and hands out its writers. It puts what
// Prepare returns into its token, and publishes in Commit and in Recover:
//
//	func (c *committer) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
//		... // fence older attempts, decode the token
//		c.rows.Recover(token.Rows)
//		return c.publish(ctx, e)
//	}
//
//	func (c *committer) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
//		return c.publish(ctx, e)
//	}
//
//	func (c *committer) publish(ctx context.Context, last messages.Epoch) error {
//		for _, e := range c.rows.Pending(last) {
//			if err := c.rows.Replay(ctx, e, c.block); err != nil {
//				return err
//			}
//			... // end the epoch in the outside system
//			c.rows.Confirm(e)
//		}
//		return nil
//	}
//
// Row n of epoch e is the same row in every Replay, in this attempt and in later
// ones, whatever their parallelism. A crash in the middle of publish, or between
// it and the next commit record, leads to another Replay of the whole epoch, so
// the outside system must tell how far the last one came: by the epoch's number,
// changed in one transaction with the rows, or by RowID.
//
// # Which rows
//
// In append mode all rows are held, in their order. With KeyColumns only the last
// row of each key is: deletions are rows like others, rows that say what a key was
// before (UpdateBefore) are left out, and the order is that of the last changes, so
// what is published is what was written less some rows. Keys are compared as SQL
// groups them: NULL equals NULL, -0.0 equals 0.0. An empty, non-nil KeyColumns
// means that all rows have the same key. In complete mode, which the frames of the
// batches tell, only the last whole table is; a table belongs to the epoch in
// which it ends, and an empty one is a block without rows. With several writers
// each has a part of the keys, or of the table, to itself, and a Replay goes
// through one part after the other.
//
// # How many rows
//
// Rows of an epoch that is cut and not yet confirmed stay in memory beside those of
// the open epoch. While there are such rows and a writer holds more than
// Config.Limit bytes, its Write waits, so the query runs no faster than the sink
// can publish. At half of a limit an epoch is asked for early
// (connectors.WriteRequest.AskEpoch). What one epoch may hold at all is bounded by
// MaxBytes and MaxRows; beyond them the query fails with an error that says so.
package held

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/zeebo/xxh3"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/messages/wire"
)

// The limits that hold when Config gives none, in bytes.
const (
	DefaultLimit    = 32 << 20
	DefaultMaxBytes = 256 << 20
)

// Config configures Rows. Sink and Request must be given.
type Config struct {
	// Sink begins all errors: "nats sink".
	Sink string
	// Request is what Open was given.
	Request connectors.WriteRequest
	// Limit is how many bytes a writer holds before Write waits for the epochs that
	// are cut to be confirmed; 0 means DefaultLimit.
	Limit int64
	// MaxBytes is how many bytes the writers together may hold for the open epoch;
	// 0 means DefaultMaxBytes.
	MaxBytes int64
	// MaxRows is how many rows an epoch may publish, over all writers; 0 means no
	// limit. It is checked by Prepare.
	MaxRows int64
}

// Unconfirmed lists the epochs whose rows may not have been published, oldest
// first. It is made to be a field of a sink's token; its encoding is JSON.
type Unconfirmed []Epoch

// Epoch says what is held of one epoch.
type Epoch struct {
	Epoch messages.Epoch `json:"epoch"`
	Rows  int64          `json:"rows"`
	// Parts lists the writers that had something, in ascending order.
	Parts []uint16 `json:"parts"`
}

// UnmarshalJSON refuses what Prepare cannot have made: Replay relies on it.
func (u *Unconfirmed) UnmarshalJSON(data []byte) error {
	var epochs []Epoch
	if err := json.Unmarshal(data, &epochs); err != nil {
		return err
	}
	var last messages.Epoch
	for _, e := range epochs {
		if e.Epoch <= last || e.Rows < 0 || len(e.Parts) == 0 || !ascending(e.Parts) {
			return fmt.Errorf("rows held of epoch %d, after epoch %d: %d rows in parts %v", e.Epoch, last, e.Rows, e.Parts)
		}
		last = e.Epoch
	}
	*u = epochs
	return nil
}

// ascending reports whether parts are sorted and none is there twice.
func ascending(parts []uint16) bool {
	for i := 1; i < len(parts); i++ {
		if parts[i] <= parts[i-1] {
			return false
		}
	}
	return true
}

// Block is a run of the rows of an epoch.
type Block struct {
	Epoch messages.Epoch
	// Part is the writer that held the rows.
	Part uint16
	// First is the number of the batch's first row within the epoch, from 0.
	First int64
	// Batch has the rows, without a selection, and in complete mode says where a
	// table starts and ends. It has no lineage and no marks. Its schema is the one
	// the rows were written with: after a change of the query, that may not be the
	// schema of the request.
	Batch *messages.Batch
	// IDs are the identities that the plan gave to the rows, or nil.
	IDs []messages.ID128
}

// Rows are the rows of one committer. Writer and each writer's methods are called
// as the contracts of package connectors say; the other methods may be called from
// any goroutine, Recover before the first writer is opened, Replay and Confirm by
// one at a time.
type Rows struct {
	cfg    Config
	base   messages.ID128 // of query incarnation and sink
	schema []byte         // encoded
	replay *decoder

	// mu guards the fields below.
	mu     sync.Mutex
	parts  map[partKey][]byte // of epochs that are not confirmed, as they were stashed
	epochs Unconfirmed        // prepared or restored, and not confirmed
	done   messages.Epoch     // the last epoch confirmed
	// confirmed is closed and replaced when an epoch is confirmed.
	confirmed chan struct{}
	open      int64 // bytes held for the open epoch by all writers
	openRows  int64
	asked     bool // an early epoch was asked for, and nobody has cut it yet
}

type partKey struct {
	epoch messages.Epoch
	part  uint16
}

// New returns an empty Rows.
func New(c Config) (*Rows, error) {
	q := c.Request
	if q.Schema == nil || q.Stash == nil {
		return nil, fault.New(fault.Internal, "%s: rows are to be held without a schema or a stash", c.Sink)
	}
	if c.Limit == 0 {
		c.Limit = DefaultLimit
	}
	if c.MaxBytes == 0 {
		c.MaxBytes = DefaultMaxBytes
	}
	var id [16]byte
	binary.LittleEndian.PutUint64(id[0:], q.Incarnation.Hi)
	binary.LittleEndian.PutUint64(id[8:], q.Incarnation.Lo)
	h := xxh3.Hash128(append(id[:], q.Sink...))
	return &Rows{
		cfg: c, base: messages.ID128{Hi: h.Hi, Lo: h.Lo}, schema: wire.EncodeSchema(nil, q.Schema),
		replay: &decoder{pool: messages.NewPool(q.Schema)}, parts: map[partKey][]byte{}, confirmed: make(chan struct{}),
	}, nil
}

// Writer returns the writer of a subtask, for Committer.Writer.
func (r *Rows) Writer(subtask int) (connectors.Writer, error) {
	if subtask >= connectors.MaxStashParts {
		return nil, fault.New(fault.Config, "%s: %d writers are more than the %d whose rows can be held until their epoch commits; lower the parallelism", r.cfg.Sink, subtask+1, connectors.MaxStashParts)
	}
	return &writer{rows: r, part: uint16(subtask), buf: newBuffer(r)}, nil
}

// Prepare returns what the sink's token for epoch e must hold, from the tokens of
// the writers; nil if there is nothing to publish.
func (r *Rows) Prepare(e messages.Epoch, tokens []connectors.Token) (Unconfirmed, error) {
	own := Epoch{Epoch: e}
	for _, t := range tokens {
		if t == nil {
			continue
		}
		var w writerToken
		if err := json.Unmarshal(t, &w); err != nil {
			return nil, fault.Wrap(fault.Internal, err, "%s: decode the token of a writer", r.cfg.Sink)
		}
		own.Parts = append(own.Parts, w.Part)
		own.Rows += w.Rows
	}
	slices.Sort(own.Parts)
	if m := r.cfg.MaxRows; m > 0 && own.Rows > m {
		return nil, fault.New(fault.Config, "%s: epoch %d has %d rows, and the sink can publish %d at once; shorten epoch_interval, or limit the source by max_rows_per_second", r.cfg.Sink, e, own.Rows, m)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if own.Parts != nil {
		r.epochs = append(r.epochs, own)
	}
	if len(r.epochs) == 0 {
		return nil, nil
	}
	return slices.Clone(r.epochs), nil
}

// Recover takes over the epochs that the last token lists.
func (r *Rows) Recover(u Unconfirmed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.epochs = slices.Clone(u)
}

// Pending lists the epochs up to last that have something to publish and are not
// confirmed, oldest first.
func (r *Rows) Pending(last messages.Epoch) []messages.Epoch {
	r.mu.Lock()
	defer r.mu.Unlock()
	var es []messages.Epoch
	for _, e := range r.epochs {
		if e.Epoch <= last {
			es = append(es, e.Epoch)
		}
	}
	return es
}

// Replay calls f with the rows of a pending epoch, block by block in their order. A
// block and what it holds are valid during the call. An error of f ends the call and
// is returned as it is.
func (r *Rows) Replay(ctx context.Context, e messages.Epoch, f func(*Block) error) error {
	r.mu.Lock()
	i := slices.IndexFunc(r.epochs, func(p Epoch) bool { return p.Epoch == e })
	if i < 0 {
		r.mu.Unlock()
		return fault.New(fault.Internal, "%s: the rows of epoch %d are not pending", r.cfg.Sink, e)
	}
	p := replay{rows: r, epoch: r.epochs[i], f: f}
	_, inMemory := r.parts[partKey{e, p.epoch.Parts[0]}]
	r.mu.Unlock()
	if inMemory {
		for _, part := range p.epoch.Parts {
			r.mu.Lock()
			data := r.parts[partKey{e, part}]
			r.mu.Unlock()
			if err := p.part(ctx, part, data); err != nil {
				return err
			}
		}
		return p.end()
	}
	if err := r.cfg.Request.Stash.Load(ctx, e, func(part uint16, data []byte) error { return p.part(ctx, part, data) }); err != nil {
		return err
	}
	return p.end()
}

// Confirm says that the rows of the epochs up to e are published for good: they
// are let go of, and writers that wait for that go on.
func (r *Rows) Confirm(e messages.Epoch) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = max(r.done, e)
	r.epochs = slices.DeleteFunc(r.epochs, func(p Epoch) bool { return p.Epoch <= e })
	for k := range r.parts {
		if k.epoch <= e {
			delete(r.parts, k)
		}
	}
	close(r.confirmed)
	r.confirmed = make(chan struct{})
}

// RowID returns the identity of row n of epoch e of this sink: 128 bits that no
// other row of any sink or query has.
func (r *Rows) RowID(e messages.Epoch, n int64) messages.ID128 {
	var b [32]byte
	binary.LittleEndian.PutUint64(b[0:], r.base.Hi)
	binary.LittleEndian.PutUint64(b[8:], r.base.Lo)
	binary.LittleEndian.PutUint64(b[16:], uint64(e))
	binary.LittleEndian.PutUint64(b[24:], uint64(n))
	h := xxh3.Hash128(b[:])
	return messages.ID128{Hi: h.Hi, Lo: h.Lo}
}

// replay is one Replay.
type replay struct {
	rows  *Rows
	epoch Epoch
	f     func(*Block) error
	parts int   // done
	n     int64 // rows done
}

// part replays what one writer had.
func (p *replay) part(ctx context.Context, part uint16, data []byte) error {
	if p.parts == len(p.epoch.Parts) || p.epoch.Parts[p.parts] != part {
		return p.unfit("part %d is in the checkpoint and not in the sink's token, which lists %v", part, p.epoch.Parts)
	}
	p.parts++
	blocks, err := p.rows.replay.open(data)
	if err != nil {
		return p.unfit("part %d: %w", part, err)
	}
	for !blocks.end() {
		if err := ctx.Err(); err != nil {
			return err
		}
		b := &Block{Epoch: p.epoch.Epoch, Part: part, First: p.n}
		if b.Batch, b.IDs, err = blocks.next(); err != nil {
			return p.unfit("part %d: %w", part, err)
		}
		p.n += int64(b.Batch.Rows())
		err := p.f(b)
		b.Batch.Release()
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *replay) end() error {
	if p.parts != len(p.epoch.Parts) || p.n != p.epoch.Rows {
		return p.unfit("it has %d parts with %d rows, the sink's token says %d with %d", p.parts, p.n, len(p.epoch.Parts), p.epoch.Rows)
	}
	return nil
}

// unfit says that the checkpoint does not hold what the token says. The store has
// verified what it loaded, so restarting cannot help.
func (p *replay) unfit(format string, args ...any) error {
	return fault.Wrap(fault.Config, fmt.Errorf(format, args...), "%s: rows held of epoch %d", p.rows.cfg.Sink, p.epoch.Epoch)
}
