package messages

// Builder fills batches row by row. It belongs to one goroutine.
//
// A row is made by appending at most one value to each column and then calling
// EndRow; columns that got no value are NULL in that row. Rows of one source
// offset form a unit, closed by EndUnit.
type Builder struct {
	pool     *Pool
	b        *Batch
	rows     int
	unitFrom int
	base     ID128
	multi    bool // some unit had more than one row
}

// NewBuilder returns a builder of batches with schema s.
func NewBuilder(s *Schema) *Builder {
	bl := &Builder{pool: NewPool(s)}
	bl.next()
	return bl
}

func (bl *Builder) next() {
	bl.b = bl.pool.Get()
	s := &bl.b.side
	s.a, s.b, s.arrivals = s.a[:0], s.b[:0], s.arrivals[:0]
	bl.rows, bl.unitFrom, bl.multi = 0, 0, false
}

// Schema returns the schema of the batches.
func (bl *Builder) Schema() *Schema { return bl.pool.schema }

// Column returns column i for appending the current row's value.
func (bl *Builder) Column(i int) *Column { return &bl.b.own[i] }

// Rows is the number of finished rows in the batch being built.
func (bl *Builder) Rows() int { return bl.rows }

// Empty reports whether no row has been finished since the last Finish.
func (bl *Builder) Empty() bool { return bl.rows == 0 }

// EndRow finishes the current row.
func (bl *Builder) EndRow() {
	bl.rows++
	for i := range bl.b.own {
		if c := &bl.b.own[i]; c.n < bl.rows {
			c.AppendNull()
		}
	}
}

// AbortRow drops what was appended since the last EndRow.
func (bl *Builder) AbortRow() {
	for i := range bl.b.own {
		bl.b.own[i].Truncate(bl.rows)
	}
}

// AbortUnit drops all rows since the last EndUnit and what was appended behind
// them. It returns how many rows were dropped.
func (bl *Builder) AbortUnit() int {
	dropped := bl.rows - bl.unitFrom
	bl.rows = bl.unitFrom
	bl.AbortRow()
	return dropped
}

// SetOrigin sets the identity that the following batches' lineage starts from:
// query incarnation, source, incarnation of the outside stream, partition. It
// must be called while the builder is empty.
func (bl *Builder) SetOrigin(base ID128) { bl.base = base }

// EndUnit ends a unit: the rows finished since the previous EndUnit came from
// the given source offset and carry the given broker (or else arrival) time.
func (bl *Builder) EndUnit(offset uint64, arrival EventTime) {
	s := &bl.b.side
	for path := range bl.rows - bl.unitFrom {
		s.a = append(s.a, offset)
		s.b = append(s.b, uint64(path))
		s.arrivals = append(s.arrivals, arrival)
		bl.multi = bl.multi || path > 0
	}
	bl.unitFrom = bl.rows
}

// Finish publishes the rows built so far as a batch with one reference, owned
// by the caller, and starts the next batch. If some of its rows were finished by
// EndRow but not by EndUnit, the batch has no lineage. What was appended behind
// the last EndRow is dropped.
func (bl *Builder) Finish() *Batch {
	b := bl.b
	b.n = bl.rows
	for i := range b.own {
		if b.own[i].n != bl.rows || len(b.own[i].children) > 0 {
			b.own[i].Truncate(bl.rows)
		}
	}
	if s := &b.side; len(s.a) == bl.rows && bl.rows > 0 {
		b.lineage = Lineage{Base: bl.base, A: s.a}
		if bl.multi {
			b.lineage.B = s.b
		}
		b.arrivals = s.arrivals
	}
	b.Publish()
	bl.next()
	return b
}
