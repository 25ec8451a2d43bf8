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
	Done []identity `json:"done"`
	// Current is the file being read and At the position of the next record in it.
	Current *identity `json:"current,omitempty"`
	At      int64     `json:"at,omitempty"`
	// Newest is the latest modification time of all finished files.
	Newest int64 `json:"newest"`

	names map[string]identity // of Done
	// done is the JSON text of Done without its end: it grows long and changes
	// rarely, while the position changes with every Read.
	done []byte
}

func newProgress(from connectors.Offset) (*progress, error) {
	p := &progress{}
	if from != nil {
		if err := json.Unmarshal(from, p); err != nil {
			return nil, fault.Wrap(fault.Config, err, "file source: the offset in the checkpoint is not one of this source")
		}
	}
	p.names = make(map[string]identity, len(p.Done))
	for _, f := range p.Done {
		p.names[f.Name] = f
	}
	return p, p.encode()
}

// encode makes done anew.
func (p *progress) encode() error {
	p.done = append(p.done[:0], `{"done":[`...)
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
	f := *p.Current
	p.Current, p.At = nil, 0
	p.Newest = max(p.Newest, f.Time)
	p.Done = append(p.Done, f)
	p.names[f.Name] = f
	limit, limited := p.horizon(maxAge)
	if !limited || !slices.ContainsFunc(p.Done, func(d identity) bool { return d.Time < limit }) {
		return p.encodeOne(len(p.Done) - 1)
	}
	p.Done = slices.DeleteFunc(p.Done, func(d identity) bool {
		if d.Time >= limit {
			return false
		}
		delete(p.names, d.Name)
		return true
	})
	return p.encode()
}

// pending returns those of the listed files that are to be read, in order. It
// fails when a finished file has changed.
func (p *progress) pending(files []found, maxAge time.Duration) ([]found, error) {
	limit, limited := p.horizon(maxAge)
	var todo []found
	for _, f := range files {
		if done, ok := p.names[f.Name]; ok {
			if done != f.identity {
				return nil, changed(done, f.identity, "it has been read")
			}
			continue
		}
		if limited && f.Time < limit || p.Current != nil && f.Name == p.Current.Name {
			continue
		}
		todo = append(todo, f)
	}
	return todo, nil
}

func changed(was, is identity, when string) error {
	return fault.New(fault.Config, "file source: %s changed after %s (size %d, modified %s; before: size %d, modified %s); files must not change, write new rows to new files",
		was.Name, when, is.Size, is.modified(), was.Size, was.modified())
}
