package state

import "math/bits"

// Cursor walks over entries, group by group. Between two calls of Next entries
// may be inserted, changed and deleted and panes dropped; whether entries
// inserted meanwhile are met is unspecified, all others are met once.
type Cursor struct {
	s     *Store
	pane  int64
	all   bool
	begun bool // pane is the pane being walked (with all)
	group int
	id    uint32
}

// Scan returns a cursor over the entries of a pane.
func (s *Store) Scan(pane int64) Cursor { return Cursor{s: s, pane: pane} }

// ScanAll returns a cursor over all entries, in order of group and pane.
func (s *Store) ScanAll() Cursor { return Cursor{s: s, all: true} }

// Next returns the next entry; ok is false at the end.
func (c *Cursor) Next() (e Entry, ok bool) {
	if c.s == nil {
		return Entry{}, false
	}
	for c.group < len(c.s.groups) {
		t := c.table(&c.s.groups[c.group])
		if t == nil {
			c.group++
			c.id, c.begun = 0, false
			continue
		}
		if id, found := t.nextLive(c.id); found {
			c.id = id + 1
			return Entry{t, id}, true
		}
		c.id = 0
		if !c.all {
			c.group++
			continue
		}
		c.next(&c.s.groups[c.group])
	}
	return Entry{}, false
}

// table returns the table the cursor stands in, or the next one.
func (c *Cursor) table(g *group) *table {
	if !c.all {
		i, ok := g.search(c.pane)
		if !ok {
			return nil
		}
		return g.tables[i]
	}
	if len(g.tables) == 0 {
		return nil
	}
	if !c.begun {
		c.begun = true
		c.pane = g.tables[0].at
		return g.tables[0]
	}
	i, found := g.search(c.pane)
	if i == len(g.tables) {
		return nil
	}
	if !found {
		c.pane, c.id = g.tables[i].at, 0
	}
	return g.tables[i]
}

// next moves to the pane behind the current one.
func (c *Cursor) next(g *group) {
	i, found := g.search(c.pane)
	if found {
		i++
	}
	if i >= len(g.tables) {
		c.group++
		c.begun = false
		return
	}
	c.pane = g.tables[i].at
}

// nextLive returns the first live entry from id on.
func (t *table) nextLive(id uint32) (uint32, bool) {
	for w := int(id >> 6); w < len(t.live); w++ {
		word := t.live[w]
		if w == int(id>>6) {
			word &^= 1<<(id&63) - 1
		}
		if word != 0 {
			return uint32(w<<6 + bits.TrailingZeros64(word)), true
		}
	}
	return 0, false
}
