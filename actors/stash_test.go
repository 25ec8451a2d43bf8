package actors

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/badgerstore"
	"github.com/streamd-io/streamd/epochs/memstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// ledger is an outside system that remembers which row of which epoch it has, and
// a sink per epoch that writes to it. It outlives attempts.
type ledger struct {
	cfg held.Config
	// point is called wherever a crash may strike; an error is what it does.
	point func(name string) error

	mu   sync.Mutex
	rows map[messages.ID128]int64 // the value of column v
	log  []int64                  // in the order of publication
	last messages.Epoch           // published
	// ask is what the newest committer was given.
	ask func()
}

func newLedger() *ledger {
	return &ledger{rows: map[messages.ID128]int64{}, point: func(string) error { return nil }}
}

func (l *ledger) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{Append: true, Guarantees: []connectors.Offer{perEpoch}}
}

var perEpoch = connectors.Offer{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch}

func (l *ledger) spec() SinkSpec { return SinkSpec{Sink: l, Schema: testSchema, Offer: perEpoch} }

func (l *ledger) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	c := l.cfg
	c.Sink, c.Request = "ledger", q
	l.mu.Lock()
	l.ask = q.AskEpoch
	l.mu.Unlock()
	rows, err := held.New(c)
	return &ledgerCommitter{l: l, rows: rows}, errors.Join(err, l.point("open"))
}

// published returns the values in the order in which they were published.
func (l *ledger) published() []int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.log)
}

type ledgerCommitter struct {
	l    *ledger
	rows *held.Rows
}

func (c *ledgerCommitter) Recover(ctx context.Context, e messages.Epoch, last connectors.Token) error {
	var u held.Unconfirmed
	if last != nil {
		if err := json.Unmarshal(last, &u); err != nil {
			return err
		}
	}
	c.rows.Recover(u)
	return c.publish(ctx, e)
}

func (c *ledgerCommitter) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	w, err := c.rows.Writer(subtask)
	return &ledgerWriter{w, c.l}, err
}

func (c *ledgerCommitter) Begin(messages.Epoch) {}

func (c *ledgerCommitter) Prepare(_ context.Context, e messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	if err := c.l.point("prepare"); err != nil {
		return nil, err
	}
	u, err := c.rows.Prepare(e, tokens)
	if u == nil || err != nil {
		return nil, err
	}
	t, err := json.Marshal(u)
	return t, errors.Join(err, c.l.point("prepared"))
}

func (c *ledgerCommitter) Commit(ctx context.Context, e messages.Epoch, _ connectors.Token) error {
	return c.publish(ctx, e)
}

func (c *ledgerCommitter) publish(ctx context.Context, last messages.Epoch) error {
	for _, e := range c.rows.Pending(last) {
		if err := c.rows.Replay(ctx, e, c.block); err != nil {
			return err
		}
		if err := c.l.point("published"); err != nil {
			return err
		}
		c.rows.Confirm(e)
	}
	return nil
}

func (c *ledgerCommitter) block(b *held.Block) error {
	c.l.mu.Lock()
	defer c.l.mu.Unlock()
	for i := range b.Batch.Rows() {
		id := c.rows.RowID(b.Epoch, b.First+int64(i))
		v := b.Batch.Column(1).Int64s()[i]
		if before, ok := c.l.rows[id]; ok {
			if before != v {
				return fmt.Errorf("row %d of epoch %d was %d and is %d", b.First+int64(i), b.Epoch, before, v)
			}
			continue
		}
		if b.Epoch < c.l.last {
			return fmt.Errorf("row %d of epoch %d is published after epoch %d", b.First+int64(i), b.Epoch, c.l.last)
		}
		c.l.last = b.Epoch
		c.l.rows[id] = v
		c.l.log = append(c.l.log, v)
		if i == b.Batch.Rows()/2 {
			if err := c.l.point("publish"); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c *ledgerCommitter) Close() error { return nil }

type ledgerWriter struct {
	connectors.Writer
	l *ledger
}

func (w *ledgerWriter) Write(ctx context.Context, b *messages.Batch, ids []messages.ID128) error {
	if err := w.l.point("write"); err != nil {
		return err
	}
	return w.Writer.Write(ctx, b, ids)
}

func (w *ledgerWriter) Cut(e messages.Epoch) (connectors.Flush, error) {
	flush, err := w.Writer.Cut(e)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (connectors.Token, error) {
		if err := w.l.point("flush"); err != nil {
			return nil, err
		}
		t, err := flush(ctx)
		return t, errors.Join(err, w.l.point("flushed"))
	}, nil
}

// pace counts commit records.
type pace struct {
	mu      sync.Mutex
	records int
	next    chan struct{} // closed and replaced with each record
	// waiting readers want the record that comes next; when all do, ask is called.
	waiting, readers int
	ask              func()
}

func (p *pace) note() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.records++
	p.waiting = 0
	close(p.next)
	p.next = make(chan struct{})
}

// wait returns a channel that is closed with the next record, nil if there are
// more than seen already.
func (p *pace) wait(seen int) (records int, next <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if seen < 0 || p.records > seen {
		return p.records, nil
	}
	if p.waiting++; p.waiting == p.readers && p.ask != nil {
		p.ask()
	}
	return p.records, p.next
}

// pacedSource waits for a commit record between two reads, so that epochs divide
// the rows.
type pacedSource struct {
	sliceSource
	pace *pace
}

func (s *pacedSource) Open(ctx context.Context, r connectors.ReadRequest) (connectors.Reader, error) {
	in, err := s.sliceSource.Open(ctx, r)
	return &pacedReader{in, s.pace, -1}, err
}

type pacedReader struct {
	connectors.Reader
	pace *pace
	seen int // records at the last Read
}

func (r *pacedReader) Read(ctx context.Context, dst *connectors.Rows) error {
	n, next := r.pace.wait(r.seen)
	if next == nil {
		r.seen = n
		return r.Reader.Read(ctx, dst)
	}
	select {
	case <-next:
		r.seen = n + 1
		return r.Reader.Read(ctx, dst)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *pacedSource) spec() SourceSpec {
	spec := s.sliceSource.spec()
	spec.Source = s
	return spec
}

// ledgerWorld runs attempts of one query until it has ended.
type ledgerWorld struct {
	open   func() (epochs.Segments, error)
	crash  func()
	ledger *ledger
	graph  func() *Graph
	wrap   func(epochs.Segments) epochs.Segments
	config func(*AttemptConfig)
	number uint64
	pace   pace
	rows   int // of the two partitions together
	batch  int // rows of a Read
}

func newLedgerWorld() *ledgerWorld {
	w := &ledgerWorld{ledger: newLedger(), pace: pace{next: make(chan struct{}), readers: 2}, rows: 60, batch: 7}
	disk := memstore.New(memstore.Options{Seed: 1, KeepUnsynced: 50, Fault: func(op string) error { return w.ledger.point(op) }})
	w.open, w.crash = disk.Open, disk.Crash
	w.graph = func() *Graph { return w.into("out", w.ledger) }
	return w
}

// into is a graph that ends in l under the given name.
func (w *ledgerWorld) into(name string, l *ledger) *Graph {
	src := &pacedSource{sliceSource{parts: [][][2]int64{numbers(w.rows/2, 13), shifted(w.rows / 2)}, bounded: true, batch: w.batch}, &w.pace}
	spec := src.spec()
	if w.batch == w.rows { // nothing to wait for
		spec = src.sliceSource.spec()
	}
	g := NewGraph()
	g.Sink(name, l.spec(), Forward(g.Source("src", spec)))
	return g
}

// shifted are the numbers that follow those of n rows.
func shifted(n int) [][2]int64 {
	rows := numbers(n, 13)
	for i := range rows {
		rows[i][1] += int64(n)
	}
	return rows
}

// newest returns the newest commit record, nil if there is none.
func newest(t *testing.T, store epochs.Segments) (*epochs.Record, messages.Epoch) {
	t.Helper()
	recs, highest, err := store.Committed(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(recs) == 0 {
		return nil, highest
	}
	rec, err := epochs.DecodeRecord(recs[0].Data)
	if err != nil {
		t.Fatal(err)
	}
	return rec, highest
}

// attempt runs an attempt from the newest record; during is called while it runs.
func (w *ledgerWorld) attempt(t *testing.T, during func(*Attempt)) error {
	t.Helper()
	point := w.ledger.point
	w.ledger.point = func(string) error { return nil } // looking is not part of the attempt
	store, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	rec, highest := newest(t, store)
	w.ledger.point = point
	defer func() {
		w.ledger.point = func(string) error { return nil }
		if err := store.Close(); err != nil {
			t.Error(err)
		}
		w.ledger.point = point
	}()
	inner := store
	if w.wrap != nil {
		inner = w.wrap(store)
	}
	w.number++
	cfg := AttemptConfig{
		Graph: w.graph(), Query: "q", Attempt: w.number, Store: inner, From: rec, NextEpoch: highest + 1,
		Incarnation: messages.ID128{Hi: 1, Lo: 2}, EpochInterval: time.Millisecond,
	}
	if w.config != nil {
		w.config(&cfg)
	}
	told := cfg.OnEpoch
	cfg.OnEpoch = func(r EpochReport) {
		w.pace.note()
		if told != nil {
			told(r)
		}
	}
	sys := NewSystem(SystemConfig{})
	defer sys.Close()
	a, err := sys.Start(t.Context(), cfg)
	if err != nil {
		return err
	}
	if during != nil {
		during(a)
	}
	return wait(t, a)
}

// finish runs attempts until the query has ended, and checks that every row was
// published once.
func (w *ledgerWorld) finish(t *testing.T) {
	t.Helper()
	for range 20 {
		if err := w.attempt(t, nil); err == nil {
			w.check(t)
			return
		} else if !errors.Is(err, errCrash) && !errors.Is(err, memstore.ErrCrashed) {
			t.Fatal(err)
		}
		w.crash()
	}
	t.Fatal("the query does not end")
}

func (w *ledgerWorld) check(t *testing.T) {
	t.Helper()
	var want []int64
	for i := range int64(w.rows) {
		want = append(want, i)
	}
	got := w.ledger.published()
	slices.Sort(got)
	if diff := gocmp.Diff(got, want); diff != "" {
		t.Errorf("published rows: got (-) differs from want (+):\n%s", diff)
	}
}

var errCrash = fault.New(fault.Restart, "crash")

// crashAt makes the world crash when it comes to the given points, each counted
// from the crash before. It returns a function that tells how many points there
// were.
func (w *ledgerWorld) crashAt(at ...int) func() int {
	var mu sync.Mutex
	n, down := 0, false
	w.ledger.point = func(string) error {
		mu.Lock()
		defer mu.Unlock()
		n++
		if down || len(at) > 0 && n == at[0] {
			down = true // until the attempt has ended, nothing works
			return errCrash
		}
		return nil
	}
	restart := w.crash
	w.crash = func() {
		mu.Lock()
		if down {
			n, down, at = 0, false, at[1:]
		}
		mu.Unlock()
		restart()
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return n
	}
}

func TestRowsHeldForAnEpochSurviveACrashAtEveryPoint(t *testing.T) {
	w := newLedgerWorld()
	points := w.crashAt()
	w.finish(t)
	total := points()
	if total < 30 || w.ledger.last < 3 {
		t.Fatalf("a run has %d points and %d epochs", total, w.ledger.last)
	}
	step := 1
	if testing.Short() {
		step = 7
	}
	for at := 1; at <= total; at += step {
		t.Run(fmt.Sprintf("crash at point %d", at), func(t *testing.T) {
			w := newLedgerWorld()
			w.crashAt(at)
			w.finish(t)
		})
		if at%3 != 0 {
			continue
		}
		t.Run(fmt.Sprintf("crash at point %d and at others soon after", at), func(t *testing.T) {
			w := newLedgerWorld()
			w.crashAt(at, 1+at%17, 1+at%5)
			w.finish(t)
		})
	}
}

func TestRowsHeldForAnEpochSurviveInBadger(t *testing.T) {
	for at := 5; at < 40; at += 6 {
		t.Run(fmt.Sprintf("crash at point %d", at), func(t *testing.T) {
			w, dir := newLedgerWorld(), t.TempDir()
			w.open = func() (epochs.Segments, error) { return badgerstore.Open(t.Context(), dir, badgerstore.Options{}) }
			w.crash = func() {}
			w.crashAt(at, at/2)
			w.finish(t)
		})
	}
}

// stopped runs the query until rows of two epochs wait to be published and kills
// it there. An epoch begins when every reader has read: with two epochs
// unpublished there is no third, so none of them may be empty.
func stopped(t *testing.T, w *ledgerWorld) *epochs.Record {
	t.Helper()
	w.ledger.point = func(name string) error {
		if name == "publish" {
			return fault.New(fault.Transient, "the outside system is away")
		}
		return nil
	}
	committed := make(chan messages.Epoch, 100)
	w.pace.ask = func() {
		w.ledger.mu.Lock()
		defer w.ledger.mu.Unlock()
		w.ledger.ask()
	}
	defer func() { w.pace.ask = nil }()
	w.config = func(c *AttemptConfig) {
		c.EpochInterval = time.Hour
		c.OnEpoch = func(r EpochReport) {
			if cs := r.Record.Chains; slices.ContainsFunc(cs, func(c epochs.Chain) bool { return c.Base != cs[0].Base }) {
				committed <- r.Record.Epoch
			}
		}
	}
	if err := w.attempt(t, func(a *Attempt) {
		select {
		case <-committed:
		case <-a.Done():
			t.Fatalf("the attempt ended before rows of two epochs waited: %v", a.Err())
		}
		a.Stop()
	}); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
	w.ledger.point, w.config = func(string) error { return nil }, nil
	store, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	}()
	rec, _ := newest(t, store)
	return rec
}

func TestTheTokenDoesNotHoldTheRows(t *testing.T) {
	w := newLedgerWorld()
	rec := stopped(t, w)
	if n := len(rec.Sinks[0].Token); n == 0 || n > 200 {
		t.Errorf("the token is %s", rec.Sinks[0].Token)
	}
	seen := map[messages.Epoch]bool{}
	for _, c := range rec.Chains {
		if !strings.HasPrefix(c.Operator, "sink/out/") || c.BaseBytes == 0 {
			t.Errorf("got chain %+v, want parts of the sink", c)
		}
		seen[c.Base] = true
	}
	if !seen[rec.Epoch] || !seen[rec.Prev] {
		t.Errorf("the record of epoch %d has parts of %v, want its own and those of epoch %d", rec.Epoch, seen, rec.Prev)
	}
	w.finish(t)
}

func TestManyRowsOfTwoEpochsAreBothKept(t *testing.T) {
	w := newLedgerWorld()
	w.rows, w.batch = 400_000, 80_000 // parts of more than staleBytes
	rec := stopped(t, w)
	parts := 0
	for _, c := range rec.Chains {
		if c.BaseBytes > staleBytes {
			parts++
		}
	}
	if parts < 2 {
		t.Fatalf("got %d large parts, want those of two epochs", parts)
	}
	w.finish(t)
}

// damagedStore loses or changes segments of a sink when they are loaded.
type damagedStore struct {
	epochs.Segments
	epoch messages.Epoch
	lose  bool
}

func (s damagedStore) Load(ctx context.Context, r epochs.LoadRange, f func(epochs.Segment) error) error {
	return s.Segments.Load(ctx, r, func(seg epochs.Segment) error {
		if seg.Epoch == s.epoch && strings.HasPrefix(seg.Operator, stashPrefix) {
			if s.lose {
				return nil
			}
			seg.Data = slices.Clone(seg.Data)
			seg.Data[len(seg.Data)-1] ^= 1
		}
		return f(seg)
	})
}

func TestDamagedRowsEndTheQuery(t *testing.T) {
	for _, lose := range []bool{false, true} {
		for _, which := range []string{"newest", "the one before"} {
			w := newLedgerWorld()
			rec := stopped(t, w)
			e := rec.Epoch
			if which != "newest" {
				e = rec.Prev
			}
			before := len(w.ledger.published())
			w.wrap = func(s epochs.Segments) epochs.Segments { return damagedStore{s, e, lose} }
			err := w.attempt(t, nil)
			if !errors.Is(err, epochs.ErrDamaged) || fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), fmt.Sprintf(`sink "out" held for epoch %d (an older epoch may be whole: --restore-epoch)`, e)) {
				t.Errorf("%s epoch, lost %v: got %v (%v)", which, lose, err, fault.KindOf(err))
			}
			if which != "newest" && len(w.ledger.published()) != before {
				t.Errorf("rows were published although those before them are damaged")
			}
		}
	}
}

func TestASinkThatIsGoneLeavesNoRowsBehindUnsaid(t *testing.T) {
	other := func(w *ledgerWorld) *ledger {
		l := newLedger()
		w.graph = func() *Graph { return w.into("other", l) }
		return l
	}
	w := newLedgerWorld()
	rec := stopped(t, w)
	published := len(w.ledger.published())
	former := w.graph
	other(w)
	err := w.attempt(t, nil)
	if !errors.Is(err, ErrUnpublished) || fault.KindOf(err) != fault.Config || !strings.Contains(err.Error(), fmt.Sprintf(`rows of epoch %d for "out"`, rec.Prev)) && !strings.Contains(err.Error(), fmt.Sprintf(`rows of epoch %d for "out"`, rec.Epoch)) {
		t.Fatalf("got %v, want a refusal that names the sink", err)
	}
	w.graph = former
	w.finish(t) // as the error says
	if len(w.ledger.published()) == published {
		t.Fatal("nothing was published")
	}
	other(w)
	if err := w.attempt(t, nil); err != nil {
		t.Errorf("behind an end in good order: %v", err)
	}

	w = newLedgerWorld()
	w.batch = w.rows
	w.config = func(c *AttemptConfig) { c.EpochInterval = time.Hour } // all rows are left when reading ends
	w.finish(t)
	other(w)
	if err := w.attempt(t, nil); err != nil {
		t.Errorf("behind the end of a query of one epoch: %v", err)
	}

	w = newLedgerWorld()
	stopped(t, w)
	l := other(w)
	w.config = func(c *AttemptConfig) { c.AllowDroppedState = true }
	if err := w.attempt(t, nil); err != nil {
		t.Fatal(err)
	}
	if n := len(l.published()); n == 0 || n == w.rows {
		t.Errorf("the other sink got %d rows, want those behind the checkpoint", n)
	}
	store, err := w.open()
	if err != nil {
		t.Fatal(err)
	}
	last, _ := newest(t, store)
	for _, c := range last.Chains {
		if c.BaseBytes != 0 {
			t.Errorf("the final record still has %d bytes of %s", c.BaseBytes, c.Operator)
		}
	}
}

func TestASinkAsksForAnEarlyEpoch(t *testing.T) {
	w := newLedgerWorld()
	w.ledger.cfg.MaxRows = 40
	asking := make(chan struct{})
	w.graph = func() *Graph {
		src := &sliceSource{parts: [][][2]int64{numbers(30, 13)}, batch: 7}
		g := NewGraph()
		g.Sink("out", w.ledger.spec(), Forward(g.Source("src", src.spec())))
		return g
	}
	w.config = func(c *AttemptConfig) {
		c.EpochInterval = time.Hour
		c.OnEpoch = func(EpochReport) { close(asking) }
	}
	if err := w.attempt(t, func(a *Attempt) {
		<-asking
		a.Stop()
	}); !errors.Is(err, ErrStopped) {
		t.Fatal(err)
	}
}

func TestNoNodeMayBeCalledLikeAStash(t *testing.T) {
	g := NewGraph()
	src := &sliceSource{parts: [][][2]int64{nil}}
	g.Sink("sink/out", newLedger().spec(), Forward(g.Source("src", src.spec())))
	if err := g.Check(); err == nil {
		t.Error("the name is accepted")
	}
}

func TestPartsOfConfirmedEpochsAreGivenUp(t *testing.T) {
	disk := memstore.New(memstore.Options{})
	store, err := disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	s := newStash(store, "out")
	prev := messages.Epoch(0)
	commit := func(e, unconfirmed messages.Epoch, final bool) map[uint16]messages.Epoch {
		t.Helper()
		chains, dropped, _ := s.settle(e, unconfirmed, final)
		if len(dropped) > 0 {
			if err := store.Put(t.Context(), e, dropped); err != nil {
				t.Fatal(err)
			}
		}
		if err := store.Commit(t.Context(), prev, e, []byte("record")); err != nil {
			t.Fatal(err)
		}
		prev = e
		left := map[uint16]messages.Epoch{}
		for _, c := range chains {
			if c.BaseBytes > 0 {
				left[partOf(chainKey{c.Operator, c.Group})] = c.Base
			}
		}
		return left
	}
	put := func(e messages.Epoch, part uint16, n int) {
		t.Helper()
		if err := s.Put(t.Context(), e, part, make([]byte, n)); err != nil {
			t.Fatal(err)
		}
	}
	want := func(got, want map[uint16]messages.Epoch) {
		t.Helper()
		if diff := gocmp.Diff(got, want); diff != "" {
			t.Errorf("parts: got (-) differs from want (+):\n%s", diff)
		}
	}
	const much = staleBytes
	put(1, 3, much)
	put(1, 300, 10)
	want(commit(1, 1, false), map[uint16]messages.Epoch{3: 1, 300: 1})
	want(commit(2, 1, false), map[uint16]messages.Epoch{3: 1, 300: 1}) // epoch 1 is not confirmed
	var parts []uint16
	if err := s.Load(t.Context(), 1, func(part uint16, data []byte) error { parts = append(parts, part); return nil }); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(parts, []uint16{3, 300}); diff != "" {
		t.Errorf("order of parts: got (-) differs from want (+):\n%s", diff)
	}
	want(commit(3, 2, false), map[uint16]messages.Epoch{})
	put(4, 3, 10)
	want(commit(4, 4, false), map[uint16]messages.Epoch{3: 4})
	want(commit(5, 5, false), map[uint16]messages.Epoch{3: 4}) // too little to be worth a write
	want(commit(6, 6, true), map[uint16]messages.Epoch{})
	if err := store.Drop(t.Context(), 6, 6); err != nil {
		t.Fatal(err)
	}
	if n := store.Size(); n > 1000 {
		t.Errorf("the store still has %d bytes", n)
	}
	for _, bad := range []struct {
		part uint16
		data []byte
	}{{0, nil}, {connectors.MaxStashParts, []byte("x")}} {
		if err := s.Put(t.Context(), 7, bad.part, bad.data); err == nil {
			t.Errorf("part %d with %d bytes is accepted", bad.part, len(bad.data))
		}
	}
	if err := s.Put(t.Context(), 7, 0, []byte("x")); err != nil {
		t.Fatal(err)
	}
	commit(7, 7, false)
	if err := s.Load(t.Context(), 7, func(uint16, []byte) error { return io.ErrUnexpectedEOF }); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %v, want the error of the callback", err)
	}
}
