package messages

// Element is what an edge carries, in order: rows and control elements.
//
//sumtype:decl
type Element interface{ element() }

// Watermark says that the producer's event time has reached At: no row that
// keeps its declared delay will follow with an event time at or before At.
// Batches carry watermarks too; this element is for when there are no rows.
type Watermark struct{ At EventTime }

// Marker ends epoch Epoch on an edge: rows before it belong to the epoch, rows
// behind it to the next.
type Marker struct {
	Epoch Epoch
	// Final marks the query's last epoch (drain or end of all input).
	Final bool
	// Flush asks operators that coalesce their output to emit what is pending
	// before they forward the marker.
	Flush bool
}

// Idle says that the producer has nothing to send and does not hold back the
// watermark until it sends rows or a watermark again.
type Idle struct{}

// End says that the producer will send no more rows. Markers still follow, up
// to and including the final one.
type End struct{}

func (*Batch) element()    {}
func (Watermark) element() {}
func (Marker) element()    {}
func (Idle) element()      {}
func (End) element()       {}
