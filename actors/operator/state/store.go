package state

import (
	"fmt"
	"slices"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Config describes the records of a Store. It is part of the format of the
// segments: a store reads only segments written under the same shape.
type Config struct {
	// UID is the operator's uid, under which the segments are stored.
	UID string
	// From and To are the key groups [From, To) of the subtask; To = 0 means all.
	From, To uint16
	// Kind, Schema and Format are what Describe returns.
	Kind, Schema string
	Format       uint32
	// IntKeys makes keys 8-byte integers held in the record (FindInt, UpsertInt);
	// otherwise keys are bytes (Find, Upsert).
	IntKeys bool
	// Words is the number of 8-byte slots, Values the number of values of variable
	// size, of each record.
	Words, Values int
	// Timers gives each entry an event-time timer.
	Timers bool
}

// Limits of a Config. A value or key holds at most MaxValue bytes.
const (
	MaxWords  = 4096
	MaxValues = 200
	MaxValue  = 64 << 20
)

// Store is the keyed state of one operator subtask.
type Store struct {
	cfg    Config
	shape  shape
	groups []group
	panes  []*paneInfo // ordered by pane
	rows   int64
	bytes  int64 // of live tables and their arenas
	timers timerHeap
	tables []*table // every table ever made; timers refer to it by position
	spare  spares
	snap   snapshot
	blob   blobState
}

// shape is the layout of a record: key, timer, slots, values, one word each.
type shape struct {
	stride, timer, words, values int
	intKeys, timers              bool
	nWords, nValues              int
}

// paneInfo counts what a pane holds over all groups.
type paneInfo struct {
	pane   int64
	tables int
	rows   int64
}

// group is one key group.
type group struct {
	last   *table   // of the latest access
	tables []*table // ordered by pane
	number uint16
	rows   int64
	seg    groupSnapshot
}

// New returns an empty store.
func New(cfg Config) (*Store, error) {
	if cfg.To == 0 {
		cfg.To = epochs.KeyGroups
	}
	switch {
	case cfg.From >= cfg.To || cfg.To > epochs.KeyGroups:
		return nil, fmt.Errorf("state: key groups [%d, %d) are not within [0, %d)", cfg.From, cfg.To, epochs.KeyGroups)
	case cfg.Words < 0 || cfg.Words > MaxWords:
		return nil, fmt.Errorf("state: %d slots per record; at most %d are possible", cfg.Words, MaxWords)
	case cfg.Values < 0 || cfg.Values > MaxValues:
		return nil, fmt.Errorf("state: %d values per record; at most %d are possible", cfg.Values, MaxValues)
	}
	s := &Store{cfg: cfg, groups: make([]group, cfg.To-cfg.From)}
	for i := range s.groups {
		s.groups[i].number = cfg.From + uint16(i)
	}
	s.shape = shape{intKeys: cfg.IntKeys, timers: cfg.Timers, nWords: cfg.Words, nValues: cfg.Values, timer: 1, words: 1}
	if cfg.Timers {
		s.shape.words = 2
	}
	s.shape.values = s.shape.words + cfg.Words
	s.shape.stride = s.shape.values + cfg.Values
	return s, nil
}

// Config returns the store's configuration.
func (s *Store) Config() Config { return s.cfg }

// Describe returns Kind, Schema and Format of the configuration.
func (s *Store) Describe() (kind, schema string, format uint32) {
	return s.cfg.Kind, s.cfg.Schema, s.cfg.Format
}

// Rows is the number of entries.
func (s *Store) Rows() int64 { return s.rows }

// Bytes is the memory held by the tables, spare ones included.
func (s *Store) Bytes() int64 { return s.bytes + s.spare.bytes + int64(len(s.blob.data)) }

// MinPane returns the smallest pane that has entries (or had, if all were
// deleted one by one); ok is false when there is none. It is O(1).
func (s *Store) MinPane() (pane int64, ok bool) {
	if len(s.panes) == 0 {
		return 0, false
	}
	return s.panes[0].pane, true
}

// NextPane returns the smallest pane that is at least from.
func (s *Store) NextPane(from int64) (pane int64, ok bool) {
	i, _ := s.findPane(from)
	if i == len(s.panes) {
		return 0, false
	}
	return s.panes[i].pane, true
}

// PaneRows returns the number of entries of a pane.
func (s *Store) PaneRows(pane int64) int64 {
	i, ok := s.findPane(pane)
	if !ok {
		return 0
	}
	return s.panes[i].rows
}

func (s *Store) findPane(pane int64) (int, bool) {
	return slices.BinarySearchFunc(s.panes, pane, func(p *paneInfo, at int64) int {
		switch {
		case p.pane < at:
			return -1
		case p.pane > at:
			return 1
		}
		return 0
	})
}

func (s *Store) groupOf(hash uint64) *group {
	i := int(hash>>56) - int(s.cfg.From)
	if uint(i) >= uint(len(s.groups)) {
		panic(fmt.Sprintf("state: key group %d belongs to another subtask, this one has [%d, %d)", hash>>56, s.cfg.From, s.cfg.To))
	}
	return &s.groups[i]
}

// find returns the table of the pane, nil if there is none.
func (g *group) find(pane int64) *table {
	if t := g.last; t != nil && t.at == pane {
		return t
	}
	if i, ok := g.search(pane); ok {
		g.last = g.tables[i]
		return g.last
	}
	return nil
}

func (g *group) search(pane int64) (int, bool) {
	// Most panes are recent: look from the end, where new panes are.
	n := len(g.tables)
	if n == 0 || g.tables[n-1].at < pane {
		return n, false
	}
	lo, hi := 0, n
	for lo < hi {
		m := int(uint(lo+hi) >> 1)
		if g.tables[m].at < pane {
			lo = m + 1
		} else {
			hi = m
		}
	}
	return lo, lo < n && g.tables[lo].at == pane
}

// table returns the table of the pane, a new one if there is none.
func (s *Store) table(g *group, pane int64) *table {
	if t := g.find(pane); t != nil {
		return t
	}
	i, _ := g.search(pane)
	t := s.newTable(g)
	j, ok := s.findPane(pane)
	if !ok {
		s.panes = slices.Insert(s.panes, j, &paneInfo{pane: pane})
	}
	t.pane, t.at = s.panes[j], pane
	t.pane.tables++
	g.tables = slices.Insert(g.tables, i, t)
	g.last = t
	return t
}

// unlink takes table i out of its group and out of the counts.
func (s *Store) unlink(g *group, i int) *table {
	t := g.tables[i]
	g.tables = slices.Delete(g.tables, i, i+1)
	if g.last == t {
		g.last = nil
	}
	n := int64(t.rows)
	g.rows -= n
	s.rows -= n
	s.bytes -= t.size()
	t.gone = true
	p := t.pane
	p.rows -= n
	p.tables--
	if p.tables == 0 {
		if j, ok := s.findPane(p.pane); ok {
			s.panes = slices.Delete(s.panes, j, j+1)
		}
	}
	return t
}

// FindInt looks an integer key up.
func (s *Store) FindInt(hash uint64, pane, key int64) (Entry, bool) {
	t := s.groupOf(hash).find(pane)
	if t == nil {
		return Entry{}, false
	}
	id, ok := t.findInt(uint32(hash), uint64(key))
	return Entry{t, id}, ok
}

// UpsertInt looks an integer key up and inserts it with zero slots, no values
// and no timer if it is missing. The hash must be a function of the key; its
// top 8 bits are the key group.
func (s *Store) UpsertInt(hash uint64, pane, key int64) (e Entry, created bool) {
	g := s.groupOf(hash)
	t := g.find(pane)
	if t == nil {
		t = s.table(g, pane)
	}
	if id, ok := t.findInt(uint32(hash), uint64(key)); ok {
		return Entry{t, id}, false
	}
	id := t.insert(uint32(hash))
	t.slab[int(id)*int(t.stride)] = uint64(key)
	return Entry{t, id}, true
}

// Find looks a key of bytes up.
func (s *Store) Find(hash uint64, pane int64, key []byte) (Entry, bool) {
	t := s.groupOf(hash).find(pane)
	if t == nil {
		return Entry{}, false
	}
	id, ok := t.findBytes(uint32(hash), key)
	return Entry{t, id}, ok
}

// Upsert is UpsertInt for a key of bytes, at most MaxValue of them.
func (s *Store) Upsert(hash uint64, pane int64, key []byte) (e Entry, created bool) {
	g := s.groupOf(hash)
	t := g.find(pane)
	if t == nil {
		t = s.table(g, pane)
	}
	if id, ok := t.findBytes(uint32(hash), key); ok {
		return Entry{t, id}, false
	}
	id := t.insert(uint32(hash))
	t.setKey(id, key)
	return Entry{t, id}, true
}

// Mutate declares that the entry is about to change and returns its slots for
// writing. It must be called before slots are written, once per call of the
// operator and entry at least.
func (s *Store) Mutate(e Entry) []uint64 {
	e.t.touch(e.id)
	return e.Slots()
}

// Delete removes the entry. Other entries keep their place.
func (s *Store) Delete(e Entry) { e.t.delete(e.id) }

// DropPane removes all entries of a pane and returns how many there were. It
// costs a step per key group, not per entry.
func (s *Store) DropPane(pane int64) int64 {
	rows := int64(0)
	for i := range s.groups {
		g := &s.groups[i]
		j, ok := g.search(pane)
		if !ok {
			continue
		}
		rows += int64(g.tables[j].rows)
		s.dropTable(g, j)
	}
	return rows
}

// dropTable removes table j of g. A running snapshot that needs its entries
// keeps it until they are encoded.
func (s *Store) dropTable(g *group, j int) {
	t := s.unlink(g, j)
	s.timers.stale += t.timersSet
	if t.kept && !slices.Contains(g.seg.drops, t.at) {
		g.seg.drops = append(g.seg.drops, t.at)
		g.seg.dirty = true
	}
	if t.dirty {
		i := slices.Index(g.seg.tables, t)
		g.seg.tables = slices.Delete(g.seg.tables, i, i+1)
		t.dirty = false
	}
	if !t.pending {
		s.spare.put(s, t)
	}
}

// Clear removes everything, as dropping all panes does.
func (s *Store) Clear() {
	for len(s.panes) > 0 {
		s.DropPane(s.panes[0].pane)
	}
}

// NextTimer returns a time before which no timer is due, MaxEventTime if none
// is set.
func (s *Store) NextTimer() messages.EventTime { return s.timers.next() }
