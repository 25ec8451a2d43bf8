package runtime

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// Progress describes one epoch of a query, with the field names of Spark's
// StreamingQueryProgress. BatchID is the epoch number.
type Progress struct {
	ID                     string             `json:"id"`
	RunID                  string             `json:"runId"`
	Name                   string             `json:"name"`
	Timestamp              string             `json:"timestamp"` // ISO-8601, UTC, when the epoch was injected
	BatchID                uint64             `json:"batchId"`
	BatchDuration          int64              `json:"batchDuration"` // ms from injection to the durable commit record
	NumInputRows           int64              `json:"numInputRows"`
	InputRowsPerSecond     float64            `json:"inputRowsPerSecond"`
	ProcessedRowsPerSecond float64            `json:"processedRowsPerSecond"`
	DurationMs             map[string]int64   `json:"durationMs"`
	EventTime              map[string]string  `json:"eventTime,omitempty"`
	StateOperators         []StateProgress    `json:"stateOperators"`
	Sources                []SourceProgress   `json:"sources"`
	Sink                   SinkProgress       `json:"sink"`
	ObservedMetrics        map[string]any     `json:"observedMetrics,omitempty"`
	Checkpoint             CheckpointProgress `json:"checkpoint"`
	Final                  bool               `json:"final,omitempty"`
}

// CheckpointProgress is what Spark has no field for.
type CheckpointProgress struct {
	Bytes      int64 `json:"bytes"`      // written for the epoch
	AlignedMs  int64 `json:"alignedMs"`  // until the last subtask had acknowledged
	DurationUs int64 `json:"durationUs"` // until the commit record was durable
}

// StateProgress describes a stateful operator at the epoch.
type StateProgress struct {
	OperatorName              string `json:"operatorName"`
	NumRowsTotal              int64  `json:"numRowsTotal"`
	NumRowsUpdated            int64  `json:"numRowsUpdated"`
	NumRowsRemoved            int64  `json:"numRowsRemoved"`
	MemoryUsedBytes           int64  `json:"memoryUsedBytes"`
	NumRowsDroppedByWatermark int64  `json:"numRowsDroppedByWatermark"`
}

// SourceProgress describes a source at the epoch. Offsets are objects by
// partition.
type SourceProgress struct {
	Description        string          `json:"description"`
	StartOffset        json.RawMessage `json:"startOffset"`
	EndOffset          json.RawMessage `json:"endOffset"`
	NumInputRows       int64           `json:"numInputRows"`
	InputRowsPerSecond float64         `json:"inputRowsPerSecond"`
}

// SinkProgress describes the sink at the epoch.
type SinkProgress struct {
	Description   string `json:"description"`
	NumOutputRows int64  `json:"numOutputRows"`
}

// progressRing keeps the last progress objects.
const progressRing = 100

// progressMaker turns epoch reports into progress objects by comparing each
// with its predecessor.
type progressMaker struct {
	id, runID, name string
	sink            string
	prev            *epochs.Record
	prevAt          time.Time
}

func (p *progressMaker) make(r actors.EpochReport, now time.Time) *Progress {
	rec := r.Record
	at := time.UnixMicro(rec.WallMicros).UTC().Add(-r.Aligned)
	out := &Progress{
		ID: p.id, RunID: p.runID, Name: p.name, Timestamp: at.Format("2006-01-02T15:04:05.000Z"),
		BatchID: uint64(rec.Epoch), BatchDuration: r.Duration.Milliseconds(), Final: rec.Final,
		DurationMs: map[string]int64{
			"triggerExecution": r.Duration.Milliseconds(),
			"addBatch":         r.Aligned.Milliseconds(),
			"commitOffsets":    (r.Duration - r.Aligned).Milliseconds(),
		},
		StateOperators: []StateProgress{},
		Checkpoint:     CheckpointProgress{Bytes: r.Bytes, AlignedMs: r.Aligned.Milliseconds(), DurationUs: r.Duration.Microseconds()},
	}
	seconds := now.Sub(p.prevAt).Seconds()
	out.Sources = p.sources(rec, seconds)
	for i := range out.Sources {
		out.NumInputRows += out.Sources[i].NumInputRows
	}
	if seconds > 0 {
		out.InputRowsPerSecond = float64(out.NumInputRows) / seconds
		out.ProcessedRowsPerSecond = out.InputRowsPerSecond
	}
	p.states(out, rec)
	if wm := watermarkOf(rec); wm != messages.NoEventTime {
		out.EventTime = map[string]string{"watermark": wm.Time().Format("2006-01-02T15:04:05.000Z")}
	}
	out.Sink = p.sinkProgress(rec)
	p.prev, p.prevAt = rec, now
	return out
}

func (p *progressMaker) states(out *Progress, rec *epochs.Record) {
	for _, op := range rec.Plan.Operators { // from source to sink
		c, ok := countersOf(rec, op.UID)
		if !ok {
			continue
		}
		old, _ := countersOf(p.prev, op.UID)
		out.StateOperators = append(out.StateOperators, StateProgress{
			OperatorName: c.Operator, NumRowsTotal: c.StateRows, MemoryUsedBytes: c.StateBytes,
			NumRowsUpdated: int64(c.Absorbed - old.Absorbed), NumRowsRemoved: int64(c.Evicted - old.Evicted),
			NumRowsDroppedByWatermark: int64(c.Late - old.Late),
		})
	}
}

// countersOf finds the counters of an operator; rec may be nil.
func countersOf(rec *epochs.Record, operator string) (epochs.Counters, bool) {
	if rec == nil {
		return epochs.Counters{}, false
	}
	i := slices.IndexFunc(rec.Counters, func(c epochs.Counters) bool { return c.Operator == operator })
	if i < 0 {
		return epochs.Counters{}, false
	}
	return rec.Counters[i], true
}

func (p *progressMaker) sources(rec *epochs.Record, seconds float64) []SourceProgress {
	var out []SourceProgress
	for i := 0; i < len(rec.Sources); {
		name := rec.Sources[i].Source
		s := SourceProgress{Description: name}
		start, end := map[string]json.RawMessage{}, map[string]json.RawMessage{}
		for ; i < len(rec.Sources) && rec.Sources[i].Source == name; i++ {
			part := &rec.Sources[i]
			end[part.Partition] = offsetJSON(part.Offset)
			old := p.previous(name, part.Partition)
			if old != nil {
				start[part.Partition] = offsetJSON(old.Offset)
				s.NumInputRows -= int64(old.Rows)
			}
			s.NumInputRows += int64(part.Rows)
		}
		s.StartOffset, s.EndOffset = object(start), object(end)
		if seconds > 0 {
			s.InputRowsPerSecond = float64(s.NumInputRows) / seconds
		}
		out = append(out, s)
	}
	return out
}

func (p *progressMaker) previous(source, partition string) *epochs.SourceState {
	if p.prev == nil {
		return nil
	}
	for i := range p.prev.Sources {
		if s := &p.prev.Sources[i]; s.Source == source && s.Partition == partition {
			return s
		}
	}
	return nil
}

// sinkProgress counts the rows that went to the sink since the record before;
// NumOutputRows is -1, as in Spark, when they are not known.
func (p *progressMaker) sinkProgress(rec *epochs.Record) SinkProgress {
	s := SinkProgress{Description: p.sink, NumOutputRows: -1}
	if now, ok := countersOf(rec, p.sink); ok {
		old, _ := countersOf(p.prev, p.sink)
		s.NumOutputRows = int64(now.In - old.In)
	}
	return s
}

// watermarkOf is the query's watermark: the minimum over the partitions that are
// neither idle nor ended, the maximum if all are or with the policy max.
func watermarkOf(rec *epochs.Record) messages.EventTime {
	low, high, active := messages.MaxEventTime, messages.NoEventTime, false
	for i := range rec.Sources {
		s := &rec.Sources[i]
		high = max(high, s.Watermark)
		if !s.Idle && !s.Ended {
			active = true
			low = min(low, s.Watermark)
		}
	}
	if active && !rec.Plan.MaxWatermark {
		return low
	}
	return high
}

func offsetJSON(o []byte) json.RawMessage {
	if len(o) == 0 {
		return json.RawMessage("null")
	}
	if json.Valid(o) {
		return json.RawMessage(o)
	}
	b, err := json.Marshal(string(o))
	if err != nil {
		return json.RawMessage("null")
	}
	return b
}

func object(m map[string]json.RawMessage) json.RawMessage {
	b, err := json.Marshal(m)
	if err != nil {
		return json.RawMessage("null") // every member was checked by offsetJSON
	}
	return b
}
