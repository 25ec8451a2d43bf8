package epochs

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/wire"
)

// An encoded record is
//
//	magic "sdcr" | format version, 1 byte | wire.CommitRecord | crc32c of all before, 4 bytes little-endian
//
// The frame is the same in every version, so that damage is told from a newer
// version: the checksum is looked at first.
const (
	recordMagic   = "sdcr"
	recordFormat  = 1
	recordHeader  = len(recordMagic) + 1
	recordTrailer = 4
)

// EncodeRecord encodes a commit record for Segments.Commit. It fails if a text
// other than the name of a partition is not valid UTF-8. Equal records have
// equal encodings.
func EncodeRecord(r *Record) ([]byte, error) {
	b := append(make([]byte, 0, 512+24*len(r.Chains)), recordMagic...)
	b = append(b, recordFormat)
	b, err := wire.AppendCommit(b, recordToWire(r))
	if err != nil {
		return nil, fmt.Errorf("epochs: encode commit record of epoch %d: %w", r.Epoch, err)
	}
	return binary.LittleEndian.AppendUint32(b, recordSum(b)), nil
}

// DecodeRecord decodes what EncodeRecord has written and shares no memory with
// it. The error wraps ErrDamaged or ErrNewerFormat.
func DecodeRecord(data []byte) (*Record, error) {
	n := len(data) - recordTrailer
	if n < recordHeader || !bytes.HasPrefix(data, []byte(recordMagic)) {
		return nil, fmt.Errorf("epochs: decode commit record: %d bytes that are not a commit record: %w", len(data), ErrDamaged)
	}
	if got, want := recordSum(data[:n]), binary.LittleEndian.Uint32(data[n:]); got != want {
		return nil, fmt.Errorf("epochs: decode commit record: checksum is %08x, stored is %08x: %w", got, want, ErrDamaged)
	}
	switch v := data[len(recordMagic)]; {
	case v > recordFormat:
		return nil, fmt.Errorf("epochs: decode commit record: format version %d, this program reads up to %d; use a newer streamd: %w", v, recordFormat, ErrNewerFormat)
	case v < recordFormat:
		return nil, fmt.Errorf("epochs: decode commit record: format version %d never existed: %w", v, ErrDamaged)
	}
	m, err := wire.ParseCommit(data[recordHeader:n])
	if err != nil {
		return nil, fmt.Errorf("epochs: decode commit record: %w: %w", err, ErrDamaged)
	}
	r, err := recordFromWire(m)
	if err != nil {
		return nil, fmt.Errorf("epochs: decode commit record of epoch %d: %w: %w", m.GetEpoch(), err, ErrDamaged)
	}
	return r, nil
}

func recordSum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }

func recordToWire(r *Record) *wire.CommitRecord {
	m := &wire.CommitRecord{
		Epoch:         uint64(r.Epoch),
		Prev:          uint64(r.Prev),
		Attempt:       r.Attempt,
		Query:         r.Query,
		IncarnationHi: r.Incarnation.Hi,
		IncarnationLo: r.Incarnation.Lo,
		WallMicros:    r.WallMicros,
		Final:         r.Final,
		Plan:          &wire.CommitPlan{Fingerprint: r.Plan.Fingerprint, HashVersion: r.Plan.HashVersion, MaxWatermark: r.Plan.MaxWatermark},
	}
	for _, o := range r.Plan.Operators {
		m.Plan.Operators = append(m.Plan.Operators, &wire.CommitOperator{Uid: o.UID, Kind: o.Kind, Schema: o.Schema, Format: o.Format})
	}
	for _, s := range r.Sources {
		w := &wire.CommitSource{
			Source: s.Source, Partition: []byte(s.Partition), Offset: s.Offset,
			Watermark: watermarkToWire(s.Watermark), Idle: s.Idle, Ended: s.Ended, Rows: s.Rows,
		}
		m.Sources = append(m.Sources, w)
	}
	for _, s := range r.Sinks {
		m.Sinks = append(m.Sinks, &wire.CommitSink{Sink: s.Sink, Epoch: uint64(s.Epoch), Token: s.Token})
	}
	m.Chains = chainsToWire(r.Epoch, r.Chains)
	for i := range r.Counters {
		c := &r.Counters[i]
		m.Counters = append(m.Counters, &wire.CommitCounters{
			Rule: uint32(c.Rule), Inputs: c.Inputs,
			Operator: c.Operator, In: c.In, Out: c.Out,
			Late: c.Late, Filtered: c.Filtered, Bad: c.Bad, Absorbed: c.Absorbed, Deduplicated: c.Deduplicated,
			Adopted: c.Adopted, Evicted: c.Evicted, StateRows: c.StateRows, StateBytes: c.StateBytes,
			Watermark: watermarkToWire(c.Watermark),
		})
	}
	for _, w := range r.Ranges {
		m.Ranges = append(m.Ranges, &wire.CommitRange{Operator: w.Operator, From: uint32(w.From), To: uint32(w.To), Watermark: watermarkToWire(w.Watermark)})
	}
	return m
}

// watermarkToWire leaves "none yet" out: it is the usual value of a source
// without event time, and a long number.
func watermarkToWire(at messages.EventTime) *int64 {
	if at == messages.NoEventTime {
		return nil
	}
	micros := int64(at)
	return &micros
}

func watermarkFromWire(micros *int64) messages.EventTime {
	if micros == nil {
		return messages.NoEventTime
	}
	return messages.EventTime(*micros)
}

// chainsToWire puts each run of chains of one operator into columns. Epochs are
// stored by their distance from the record's and groups by the step from the
// one before, which makes most of them one byte long.
func chainsToWire(epoch messages.Epoch, chains []Chain) []*wire.CommitChains {
	var runs []*wire.CommitChains
	var run *wire.CommitChains
	last := int32(-1)
	for _, c := range chains {
		if run == nil || run.GetOperator() != c.Operator {
			run = &wire.CommitChains{Operator: c.Operator}
			runs = append(runs, run)
			last = -1
		}
		run.GroupStep = append(run.GroupStep, int32(c.Group)-last)
		last = int32(c.Group)
		run.BaseAgo = append(run.BaseAgo, int64(epoch-c.Base))
		run.LastAgo = append(run.LastAgo, int64(epoch-c.Last))
		run.Segments = append(run.Segments, c.Segments)
		run.Sum = append(run.Sum, c.Sum)
		run.BaseBytes = append(run.BaseBytes, c.BaseBytes)
		run.DeltaBytes = append(run.DeltaBytes, c.DeltaBytes)
	}
	return runs
}

func recordFromWire(m *wire.CommitRecord) (*Record, error) {
	r := &Record{
		Epoch:       messages.Epoch(m.GetEpoch()),
		Prev:        messages.Epoch(m.GetPrev()),
		Attempt:     m.GetAttempt(),
		Query:       m.GetQuery(),
		Incarnation: messages.ID128{Hi: m.GetIncarnationHi(), Lo: m.GetIncarnationLo()},
		WallMicros:  m.GetWallMicros(),
		Final:       m.GetFinal(),
		Plan:        Plan{Fingerprint: m.GetPlan().GetFingerprint(), HashVersion: m.GetPlan().GetHashVersion(), MaxWatermark: m.GetPlan().GetMaxWatermark()},
	}
	for _, o := range m.GetPlan().GetOperators() {
		r.Plan.Operators = append(r.Plan.Operators, OperatorState{UID: o.GetUid(), Kind: o.GetKind(), Schema: o.GetSchema(), Format: o.GetFormat()})
	}
	for _, s := range m.GetSources() {
		r.Sources = append(r.Sources, SourceState{
			Source: s.GetSource(), Partition: string(s.GetPartition()), Offset: s.GetOffset(),
			Watermark: watermarkFromWire(s.Watermark), Idle: s.GetIdle(), Ended: s.GetEnded(), Rows: s.GetRows(),
		})
	}
	for _, s := range m.GetSinks() {
		r.Sinks = append(r.Sinks, SinkState{Sink: s.GetSink(), Epoch: messages.Epoch(s.GetEpoch()), Token: s.GetToken()})
	}
	var err error
	if r.Chains, err = chainsFromWire(r.Epoch, m.GetChains()); err != nil {
		return nil, err
	}
	for _, c := range m.GetCounters() {
		if c.GetRule() > math.MaxUint8 {
			return nil, fmt.Errorf("counters of operator %q: rule %d", c.GetOperator(), c.GetRule())
		}
		r.Counters = append(r.Counters, Counters{
			Operator: c.GetOperator(), In: c.GetIn(), Out: c.GetOut(),
			Late: c.GetLate(), Filtered: c.GetFiltered(), Bad: c.GetBad(), Absorbed: c.GetAbsorbed(), Deduplicated: c.GetDeduplicated(),
			Adopted: c.GetAdopted(), Evicted: c.GetEvicted(), StateRows: c.GetStateRows(), StateBytes: c.GetStateBytes(),
			Watermark: watermarkFromWire(c.Watermark), Rule: RowRule(c.GetRule()), Inputs: c.GetInputs(),
		})
	}
	for _, w := range m.GetRanges() {
		if w.GetFrom() > math.MaxUint16 || w.GetTo() > math.MaxUint16 {
			return nil, fmt.Errorf("watermarks of operator %q: key groups [%d, %d)", w.GetOperator(), w.GetFrom(), w.GetTo())
		}
		r.Ranges = append(r.Ranges, RangeWatermark{Operator: w.GetOperator(), From: uint16(w.GetFrom()), To: uint16(w.GetTo()), Watermark: watermarkFromWire(w.Watermark)})
	}
	return r, nil
}

func chainsFromWire(epoch messages.Epoch, runs []*wire.CommitChains) ([]Chain, error) {
	n := 0
	for _, run := range runs {
		n += len(run.GetGroupStep())
	}
	if n == 0 {
		return nil, nil
	}
	chains := make([]Chain, 0, n)
	for _, run := range runs {
		group := int64(-1)
		for i, step := range run.GetGroupStep() {
			group += int64(step)
			if group < 0 || group > math.MaxUint16 {
				return nil, fmt.Errorf("chains of operator %q: key group %d", run.GetOperator(), group)
			}
			chains = append(chains, Chain{
				Operator:   run.GetOperator(),
				Group:      uint16(group),
				Base:       epoch - messages.Epoch(run.GetBaseAgo()[i]),
				Last:       epoch - messages.Epoch(run.GetLastAgo()[i]),
				Segments:   run.GetSegments()[i],
				Sum:        run.GetSum()[i],
				BaseBytes:  run.GetBaseBytes()[i],
				DeltaBytes: run.GetDeltaBytes()[i],
			})
		}
	}
	return chains, nil
}
