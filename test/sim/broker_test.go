package sim

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// model is a simulated outside system that takes results.
type model interface {
	connectors.Sink
	// tick lets something happen by itself.
	tick()
	// lose is what the crash of the process does to the system.
	lose()
	// rows are what readers of the system see.
	rows() []row
	// lineage tells whether the sink wants identities.
	lineage() bool
	check()
}

// rowOf copies row i of the selected rows of a batch, taking the members of a
// struct as columns.
func rowOf(b *messages.Batch, i int) row {
	var out row
	if b.Schema().Fields[0].Name == "query" {
		return parsePayload(b.Column(5).Str(b.Row(i)))
	}
	n := 0
	r := b.Row(i)
	add := func(c *messages.Column) {
		if n < len(out) {
			out[n] = c.Int64s()[r]
			n++
		}
	}
	for k := range b.Columns() {
		if c := b.Column(k); c.Type().Kind == messages.Struct {
			for f := range c.Type().Fields {
				add(c.Child(f))
			}
		} else {
			add(c)
		}
	}
	return out
}

// entry is a row in the broker's log.
type entry struct {
	id      messages.ID128
	row     row
	attempt uint64
	socket  int
}

// broker is a log to which rows are published at once. Published rows travel
// for a while in the order in which one writer sent them. With identities it
// promises exactly once: recovery fences older attempts, scans and adopts.
// Without, at least once.
type broker struct {
	r       *run
	name    string
	exact   bool
	log     []entry
	fence   uint64
	sockets [][]entry // rows under way, by writer
	adopted int       // rows not published again
	// latest: a row replaces the one before with its window and key.
	latest   map[groupKey]int
	rejected int
}

func (k *broker) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Append: true, Update: true, SingleWriter: k.r.single}
}

func (k *broker) lineage() bool { return k.exact }

func (k *broker) rows() []row {
	var out []row
	for _, e := range k.log {
		out = append(out, e.row)
	}
	return out
}

// land lets the first n rows of a socket arrive, unless they are fenced.
func (k *broker) land(socket, n int) {
	s := k.sockets[socket]
	for _, e := range s[:n] {
		if e.attempt < k.fence {
			k.rejected++
			continue
		}
		key := groupKey{e.row[0], e.row[2]}
		if i, ok := k.latest[key]; ok {
			if e.attempt < k.log[i].attempt {
				k.r.fail("sink %s: %v of attempt %d replaces %v of attempt %d", k.name, e.row, e.attempt, k.log[i].row, k.log[i].attempt)
			}
			k.log[i] = e
			k.r.count("row replaced")
			continue
		}
		if k.latest != nil {
			k.latest[key] = len(k.log)
		}
		k.log = append(k.log, e)
		k.r.w.note(e.id.Lo ^ uint64(e.row[1]))
	}
	k.sockets[socket] = s[n:]
}

func (k *broker) tick() {
	if len(k.sockets) == 0 {
		return
	}
	s := k.r.rng.IntN(len(k.sockets))
	if n := len(k.sockets[s]); n > 0 {
		if s > 0 && len(k.sockets[s-1]) > 0 {
			k.r.count("reorder at sink/write") // what another writer sent may be older
		}
		k.land(s, 1+k.r.rng.IntN(n))
	}
}

// lose cuts what is under way at random places: what was in the socket may still
// arrive later, as from a frozen process that wakes up.
func (k *broker) lose() {
	for i, s := range k.sockets {
		k.sockets[i] = s[:k.r.rng.IntN(len(s)+1)]
	}
}

func (k *broker) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	if err := k.r.point("sink/open"); err != nil {
		return nil, err
	}
	k.r.opened++
	return &brokerCommitter{k: k, attempt: q.Attempt, adopted: map[messages.ID128]bool{}, marks: map[messages.Epoch]int{}}, nil
}

// brokerToken is what the commit record keeps for the sink.
type brokerToken struct {
	ScanFrom int
	Adopted  []messages.ID128
}

type brokerCommitter struct {
	k       *broker
	attempt uint64
	adopted map[messages.ID128]bool // published by earlier attempts, not met in a prepared epoch
	order   []messages.ID128
	marks   map[messages.Epoch]int // length of the log when the epoch's marker was injected
	closed  bool
}

func (c *brokerCommitter) Recover(_ context.Context, _ messages.Epoch, last connectors.Token) error {
	k := c.k
	if err := k.r.point("sink/recover"); err != nil {
		return err
	}
	if k.fence > c.attempt {
		return fmt.Errorf("attempt %d is fenced by %d", c.attempt, k.fence)
	}
	k.fence = c.attempt
	var t brokerToken
	if last != nil {
		if err := json.Unmarshal(last, &t); err != nil {
			return err
		}
	}
	if k.exact {
		for _, id := range t.Adopted {
			c.adopt(id)
		}
		for _, e := range k.log[t.ScanFrom:] {
			c.adopt(e.id)
		}
	}
	return k.r.point("sink/recover/done")
}

func (c *brokerCommitter) adopt(id messages.ID128) {
	if !c.adopted[id] {
		c.adopted[id] = true
		c.order = append(c.order, id)
	}
}

func (c *brokerCommitter) Writer(context.Context, int, int) (connectors.Writer, error) {
	if err := c.k.r.point("sink/writer"); err != nil {
		return nil, err
	}
	c.k.sockets = append(c.k.sockets, nil)
	c.k.r.opened++
	return &brokerWriter{c: c, socket: len(c.k.sockets) - 1}, nil
}

func (c *brokerCommitter) Begin(e messages.Epoch) { c.marks[e] = len(c.k.log) }

func (c *brokerCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	if err := c.k.r.point("sink/prepare"); err != nil {
		return nil, err
	}
	for _, t := range tokens {
		var met []messages.ID128
		if err := json.Unmarshal(t, &met); err != nil {
			return nil, err
		}
		for _, id := range met {
			delete(c.adopted, id)
		}
	}
	t := brokerToken{ScanFrom: c.marks[e]}
	left := c.order[:0]
	for _, id := range c.order {
		if c.adopted[id] {
			left = append(left, id)
		}
	}
	c.order = left
	t.Adopted = append(t.Adopted, left...)
	data, err := json.Marshal(t)
	if err != nil {
		return nil, err
	}
	return data, c.k.r.point("sink/prepare/done")
}

func (c *brokerCommitter) Commit(_ context.Context, e messages.Epoch, _ connectors.Token) error {
	if err := c.k.r.point("sink/commit"); err != nil {
		return err
	}
	c.k.r.sinkCommitted(c.k, c.k.name, e)
	return c.k.r.point("sink/commit/done")
}

func (c *brokerCommitter) Close() error {
	if c.closed {
		c.k.r.fail("committer of %s closed twice", c.k.name)
	}
	c.closed = true
	c.k.r.opened--
	return nil
}

type brokerWriter struct {
	c      *brokerCommitter
	socket int
	met    []messages.ID128
	failed bool // a write has
	closed bool
}

func (w *brokerWriter) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	k := w.c.k
	if w.failed {
		k.r.fail("write behind a failed write to %s", k.name)
	}
	w.failed = true
	if w.closed {
		k.r.fail("write to the closed writer of %s", k.name)
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := k.r.point("sink/write"); err != nil {
		return err
	}
	if k.exact && len(ids) != b.Rows() {
		return fmt.Errorf("%d identities for %d rows", len(ids), b.Rows())
	}
	for i := range b.Rows() {
		e := entry{row: rowOf(b, i), attempt: w.c.attempt, socket: w.socket}
		k.r.notAgain(k.name, e.row)
		if k.exact {
			e.id = ids[i]
			if w.c.adopted[e.id] {
				w.met = append(w.met, e.id)
				k.adopted++
				continue
			}
		}
		k.sockets[w.socket] = append(k.sockets[w.socket], e)
	}
	if k.r.rng.IntN(3) == 0 {
		k.land(w.socket, len(k.sockets[w.socket]))
	}
	err := k.r.point("sink/write/done")
	w.failed = err != nil
	return err
}

func (w *brokerWriter) Cut(messages.Epoch) (connectors.Flush, error) {
	k := w.c.k
	if w.failed {
		k.r.fail("cut behind a failed write to %s", k.name)
	}
	if err := k.r.point("sink/cut"); err != nil {
		return nil, err
	}
	met := w.met
	w.met = nil
	return func(ctx context.Context) (connectors.Token, error) {
		if err := k.r.point("sink/flush"); err != nil {
			return nil, err
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if k.fence > w.c.attempt {
			return nil, fmt.Errorf("fenced")
		}
		k.land(w.socket, len(k.sockets[w.socket]))
		data, err := json.Marshal(met)
		if err != nil {
			return nil, err
		}
		return data, k.r.point("sink/flush/done")
	}, nil
}

func (w *brokerWriter) Close() error {
	w.closed = true
	w.c.k.r.opened--
	return nil
}

// check verifies what must hold at all times: no identity twice.
func (k *broker) check() {
	if !k.exact {
		return
	}
	seen := map[messages.ID128]int{}
	for i, e := range k.log {
		if j, ok := seen[e.id]; ok {
			k.r.fail("sink %s: row %v was published twice, at %d by attempt %d and at %d by attempt %d", k.name, e.row, j, k.log[j].attempt, i, e.attempt)
			return
		}
		seen[e.id] = i
	}
}
