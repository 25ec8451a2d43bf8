package file

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// progress is what has been read. Its JSON form is the offset.
type progress struct {
	Done []finished `json:"done"`
	// Base is the directory that names are relative to; "" in older offsets.
	Base string `json:"base,omitempty"`
	// Current is the file being read, At the position of the next record in it, Sum
	// the checksum of what is before that, and Gen how often the path was given to
	// another file.
	Current *identity `json:"current,omitempty"`
	At      int64     `json:"at,omitempty"`
	Sum     uint32    `json:"sum,omitempty"`
	Gen     int       `json:"gen,omitempty"`
	// Newest is the latest modification time of all finished files.
	Newest int64 `json:"newest"`

	names map[string]finished // of Done
	old   map[string]bool     // files beyond max_file_age that are known
	// done is the JSON text of Done without its end: it grows long and changes
	// rarely, while the position changes with every Read.
	done []byte
}

// finished is a file that was read to its end.
type finished struct {
	identity
	Sum uint32 `json:"sum"` // of its content
	Gen int    `json:"gen,omitempty"`
}

func newProgress(from connectors.Offset) (*progress, error) {
	p := &progress{old: map[string]bool{}}
	if from != nil {
		if err := json.Unmarshal(from, p); err != nil {
			return nil, fault.Wrap(fault.Config, err, "file source: the offset in the checkpoint is not one of this source")
		}
		if p.At < 0 || p.Current == nil && p.At > 0 {
			return nil, fault.New(fault.Config, "file source: the offset in the checkpoint is not one of this source: position %d of no file", p.At)
		}
	}
	p.names = make(map[string]finished, len(p.Done))
	for _, f := range p.Done {
		p.names[f.Name] = f
	}
	return p, p.encode()
}

// encode makes done anew.
func (p *progress) encode() error {
	p.done = p.done[:0]
	if base, err := json.Marshal(p.Base); err == nil && p.Base != "" { // a string can be encoded
		p.done = append(append(append(p.done, `{"base":`...), base...), `,"done":[`...)
	} else {
		p.done = append(p.done, `{"done":[`...)
	}
	for i := range p.Done {
		if err := p.encodeOne(i); err != nil {
			return err
		}
	}
	return nil
}

// encodeOne adds the i-th finished file, the next one, to done.
func (p *progress) encodeOne(i int) error {
	text, err := json.Marshal(p.Done[i])
	if err != nil {
		return fault.Wrap(fault.Internal, err, "file source: encode the offset")
	}
	if i > 0 {
		p.done = append(p.done, ',')
	}
	p.done = append(p.done, text...)
	return nil
}

// append appends the offset. current is the JSON text of Current.
func (p *progress) append(dst connectors.Offset, current []byte) connectors.Offset {
	dst = append(dst, p.done...)
	dst = strconv.AppendInt(append(dst, `],"newest":`...), p.Newest, 10)
	if p.Current != nil {
		dst = append(append(dst, `,"current":`...), current...)
		dst = strconv.AppendInt(append(dst, `,"at":`...), p.At, 10)
		dst = strconv.AppendUint(append(dst, `,"sum":`...), uint64(p.Sum), 10)
		dst = strconv.AppendInt(append(dst, `,"gen":`...), int64(p.Gen), 10)
	}
	return append(dst, '}')
}

// horizon is the modification time before which files are not looked at.
func (p *progress) horizon(maxAge time.Duration) (int64, bool) {
	return p.Newest - int64(maxAge), maxAge > 0 && len(p.Done) > 0
}

// finish moves the current file to the finished ones and forgets those that
// are too old.
func (p *progress) finish(maxAge time.Duration) error {
	f := finished{identity: *p.Current, Sum: p.Sum, Gen: p.Gen}
	p.Current, p.At, p.Sum, p.Gen = nil, 0, 0, 0
	p.Newest = max(p.Newest, f.Time)
	p.Done = append(p.Done, f)
	p.names[f.Name] = f
	limit, limited := p.horizon(maxAge)
	if !limited || !slices.ContainsFunc(p.Done, func(d finished) bool { return d.Time < limit }) {
		return p.encodeOne(len(p.Done) - 1)
	}
	p.Done = slices.DeleteFunc(p.Done, func(d finished) bool {
		if d.Time >= limit {
			return false
		}
		delete(p.names, d.Name)
		p.old[d.Name] = true
		return true
	})
	return p.encode()
}

// again takes a finished file out of Done, since it is read again.
func (p *progress) again(name string) error {
	delete(p.names, name)
	p.Done = slices.DeleteFunc(p.Done, func(d finished) bool { return d.Name == name })
	return p.encode()
}

// touched notes that a finished file has another modification time.
func (p *progress) touched(f identity) error {
	for i := range p.Done {
		if p.Done[i].Name == f.Name {
			p.Done[i].identity = f
			p.names[f.Name] = p.Done[i]
		}
	}
	return p.encode()
}

func changed(was, is identity, when string) error {
	return fault.New(fault.Config, "file source: %s changed after %s (size %d, modified %s; before: size %d, modified %s); files must not change, write new rows to new files",
		was.Name, when, is.Size, is.modified(), was.Size, was.modified())
}
