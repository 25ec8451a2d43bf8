package runtime

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Checkpoints looks at the checkpoints of a session's directory without changing
// them. While it is open no session can use the directory. It is for one
// goroutine.
type Checkpoints struct {
	dir  string
	lock *os.File
	from *reader
}

// CheckpointSummary lists the epochs that a query can go on from.
type CheckpointSummary struct {
	Query string `json:"query"`
	// Bytes is what the query's checkpoint takes on disk, an estimate.
	Bytes int64 `json:"bytes"`
	// Epochs are the retained ones, newest first.
	Epochs []CheckpointEpoch `json:"epochs"`
	// Problem says why not everything could be read; see Verify for more.
	Problem string `json:"problem,omitempty"`
}

// CheckpointEpoch is one commit record in short.
type CheckpointEpoch struct {
	Epoch       uint64    `json:"epoch"`
	Prev        uint64    `json:"prev"`
	Attempt     uint64    `json:"attempt"`
	At          time.Time `json:"at"`
	Final       bool      `json:"final"`
	RowsIn      uint64    `json:"rows_in"` // read from sources since the query first started, bad ones included
	StateRows   int64     `json:"state_rows"`
	StateBytes  int64     `json:"state_bytes"`
	RecordBytes int       `json:"record_bytes"`
}

// OpenCheckpoints opens a directory for reading. The error says which process
// uses it, if one does.
func OpenCheckpoints(dir string) (*Checkpoints, error) {
	if _, err := os.Stat(filepath.Join(dir, "queries")); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fault.New(fault.Config, "%s holds no checkpoints: it has no folder called queries; name the directory that was given as --dir", dir)
		}
		return nil, fault.Wrap(fault.Config, err, "checkpoint directory")
	}
	c := &Checkpoints{dir: dir}
	f, err := os.OpenFile(filepath.Join(dir, "LOCK"), os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist): // nobody can have locked it
	case err != nil:
		return nil, fault.Wrap(fault.Config, err, "lock the checkpoint directory")
	default:
		if err := flockDir(f, dir, "stop it first, or look at a copy of the directory"); err != nil {
			return nil, err
		}
		c.lock = f
	}
	c.from = newReader(dir)
	return c, nil
}

// Close lets others use the directory.
func (c *Checkpoints) Close() error {
	err := c.from.close()
	if c.lock != nil {
		err = errors.Join(err, c.lock.Close())
	}
	return err
}

// Queries names the queries that have a checkpoint, sorted.
func (c *Checkpoints) Queries() ([]string, error) {
	names, err := (&stores{dir: c.dir}).stored()
	slices.Sort(names)
	return names, err
}

// known returns an error for a query that has no checkpoint.
func (c *Checkpoints) known(query string) error {
	names, err := c.Queries()
	if err != nil {
		return err
	}
	if !slices.Contains(names, query) {
		return fault.New(fault.Config, "%s holds no checkpoint of a query called %s (it has %s)", c.dir, query, cmp.Or(strings.Join(names, ", "), "none"))
	}
	return nil
}

// Summary lists the epochs of a query.
func (c *Checkpoints) Summary(ctx context.Context, query string) (*CheckpointSummary, error) {
	if err := c.known(query); err != nil {
		return nil, err
	}
	s := &CheckpointSummary{Query: query, Epochs: []CheckpointEpoch{}}
	store, err := c.from.open(ctx, query)
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // it never got as far as its first epoch
	}
	if err != nil {
		s.Problem = err.Error()
		return s, nil //nolint:nilerr // it is in the answer
	}
	s.Bytes = c.from.size(query)
	records, problems, err := readRecords(ctx, store)
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	for _, p := range problems {
		s.Problem = p.Error()
	}
	for _, r := range records {
		s.Epochs = append(s.Epochs, r.summary())
	}
	return s, nil
}

// sizedRecord is a commit record and the size of its encoding.
type sizedRecord struct {
	*epochs.Record
	bytes int
}

func (r sizedRecord) summary() CheckpointEpoch {
	e := CheckpointEpoch{
		Epoch: uint64(r.Epoch), Prev: uint64(r.Prev), Attempt: r.Attempt, Final: r.Final, RecordBytes: r.bytes,
		At: time.UnixMicro(r.WallMicros).UTC(),
	}
	e.RowsIn = rowsOf(r.Record, "").In
	for i := range r.Counters {
		e.StateRows += r.Counters[i].StateRows
		e.StateBytes += r.Counters[i].StateBytes
	}
	return e
}

// readRecords reads the records of a store, newest first, and says which are
// damaged or lost.
func readRecords(ctx context.Context, store epochs.Segments) (records []sizedRecord, problems []error, err error) {
	stored, _, err := store.Committed(ctx)
	switch {
	case errors.Is(err, epochs.ErrDamaged):
		problems = append(problems, flatten(err)...)
	case err != nil:
		return nil, nil, err
	}
	for _, s := range stored {
		r, err := epochs.DecodeRecord(s.Data)
		if err != nil {
			problems = append(problems, &epochs.RecordError{Epoch: s.Epoch, Err: err})
			continue
		}
		records = append(records, sizedRecord{r, len(s.Data)})
	}
	return records, problems, nil
}

// flatten takes joined errors apart.
func flatten(err error) []error {
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		if _, one := err.(*epochs.RecordError); !one { //nolint:errorlint // likewise
			var out []error
			for _, e := range j.Unwrap() {
				out = append(out, flatten(e)...)
			}
			return out
		}
	}
	return []error{err}
}

// CheckpointDetail is a commit record for people and scripts.
type CheckpointDetail struct {
	CheckpointEpoch
	Query       string `json:"query"`
	Incarnation string `json:"incarnation"`
	Plan        string `json:"plan"` // fingerprint
	// Retained lists the epochs that the query can go back to, newest first.
	Retained  []uint64             `json:"retained"`
	Sources   []CheckpointSource   `json:"sources"`
	Operators []CheckpointOperator `json:"operators"`
	Sinks     []CheckpointSink     `json:"sinks"`
}

// CheckpointSource is the position in a source partition.
type CheckpointSource struct {
	Source    string          `json:"source"`
	Partition string          `json:"partition"`
	Offset    json.RawMessage `json:"offset"`
	Rows      uint64          `json:"rows"`
	Watermark *time.Time      `json:"watermark,omitempty"`
	Idle      bool            `json:"idle"`
	Ended     bool            `json:"ended"`
}

// CheckpointOperator has the row counters of a source, operator or sink, and what
// an operator with state holds.
type CheckpointOperator struct {
	Name         string     `json:"name"`
	Inputs       []string   `json:"inputs,omitempty"`
	In           uint64     `json:"in"`
	Out          uint64     `json:"out"`
	Filtered     uint64     `json:"filtered"`
	Late         uint64     `json:"late"`
	Bad          uint64     `json:"bad"`
	Deduplicated uint64     `json:"deduplicated"`
	IntoState    uint64     `json:"into_state"`
	Evicted      uint64     `json:"evicted"`
	StateRows    int64      `json:"state_rows"`
	StateBytes   int64      `json:"state_bytes"`
	Segments     int        `json:"segments"`
	KeyGroups    int        `json:"key_groups"`
	Watermark    *time.Time `json:"watermark,omitempty"`
	// Kind, Format and Schema describe the state.
	Kind   string `json:"kind,omitempty"`
	Format uint32 `json:"format,omitempty"`
	Schema string `json:"schema,omitempty"`
}

// CheckpointSink is the token of a sink.
type CheckpointSink struct {
	Sink  string `json:"sink"`
	Epoch uint64 `json:"epoch"`
	// Token is the sink's own; what is no text is shown in hexadecimal.
	Token string `json:"token"`
}

// Inspect describes an epoch of a query; 0 means the newest.
func (c *Checkpoints) Inspect(ctx context.Context, query string, epoch uint64) (*CheckpointDetail, error) {
	if err := c.known(query); err != nil {
		return nil, err
	}
	store, err := c.from.open(ctx, query)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fault.New(fault.Config, "query %s has committed no epoch", query)
	}
	if err != nil {
		return nil, err
	}
	records, problems, err := readRecords(ctx, store)
	if err = errors.Join(err, store.Close()); err != nil {
		return nil, err
	}
	var kept []uint64
	var found *sizedRecord
	for i := range records {
		kept = append(kept, uint64(records[i].Epoch))
		if found == nil && (epoch == 0 || uint64(records[i].Epoch) == epoch) {
			found = &records[i]
		}
	}
	switch {
	case found != nil:
		return detail(*found, kept), nil
	case len(problems) > 0:
		return nil, fault.Wrap(fault.Config, errors.Join(problems...), "query %s", query)
	case epoch == 0:
		return nil, fault.New(fault.Config, "query %s has committed no epoch", query)
	}
	return nil, fault.New(fault.Config, "query %s: epoch %d is not retained (retained: %s)", query, epoch, strings.Trim(strings.ReplaceAll(fmt.Sprint(kept), " ", ", "), "[]"))
}

func detail(r sizedRecord, kept []uint64) *CheckpointDetail {
	d := &CheckpointDetail{
		CheckpointEpoch: r.summary(), Query: r.Query, Incarnation: uuidOf(r.Incarnation), Plan: r.Plan.Fingerprint, Retained: kept,
		Sources: []CheckpointSource{}, Operators: []CheckpointOperator{}, Sinks: []CheckpointSink{},
	}
	for i := range r.Sources {
		s := &r.Sources[i]
		d.Sources = append(d.Sources, CheckpointSource{
			Source: s.Source, Partition: s.Partition, Offset: offsetJSON(s.Offset), Rows: s.Rows,
			Watermark: timeOf(s.Watermark), Idle: s.Idle, Ended: s.Ended,
		})
	}
	for _, i := range downstream(r.Counters) {
		d.Operators = append(d.Operators, operatorDetail(r.Record, &r.Counters[i]))
	}
	for _, s := range r.Sinks {
		d.Sinks = append(d.Sinks, CheckpointSink{Sink: s.Sink, Epoch: uint64(s.Epoch), Token: tokenText(s.Token)})
	}
	return d
}

func operatorDetail(r *epochs.Record, c *epochs.Counters) CheckpointOperator {
	o := CheckpointOperator{
		Name: c.Operator, Inputs: c.Inputs, In: c.In, Out: c.Out, Filtered: c.Filtered, Late: c.Late, Bad: c.Bad,
		Deduplicated: c.Deduplicated, IntoState: c.Absorbed, Evicted: c.Evicted,
		StateRows: c.StateRows, StateBytes: c.StateBytes, Watermark: timeOf(c.Watermark),
	}
	for i := range r.Chains {
		if r.Chains[i].Operator == c.Operator {
			o.KeyGroups++
			o.Segments += int(r.Chains[i].Segments)
		}
	}
	for _, s := range r.Plan.Operators {
		if s.UID == c.Operator {
			o.Kind, o.Format, o.Schema = s.Kind, s.Format, s.Schema
		}
	}
	return o
}

func timeOf(t messages.EventTime) *time.Time {
	if t == messages.NoEventTime {
		return nil
	}
	at := t.Time().UTC()
	return &at
}

func tokenText(token []byte) string {
	for _, b := range token {
		if b < ' ' || b > '~' {
			return hex.EncodeToString(token)
		}
	}
	return string(token)
}

// downstream returns the positions of nodes so that each comes behind its inputs.
func downstream(nodes []epochs.Counters) []int {
	var out []int
	placed := map[string]bool{}
	for range nodes {
		for i := range nodes {
			waits := placed[nodes[i].Operator]
			for _, in := range nodes[i].Inputs {
				waits = waits || !placed[in]
			}
			if !waits {
				placed[nodes[i].Operator] = true
				out = append(out, i)
			}
		}
	}
	for i := range nodes { // inputs that are not there
		if !placed[nodes[i].Operator] {
			out = append(out, i)
		}
	}
	return out
}
