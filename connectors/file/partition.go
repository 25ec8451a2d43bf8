package file

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// nullValue stands for NULL in the name of a directory, as in Hive and Spark.
const nullValue = "__HIVE_DEFAULT_PARTITION__"

// maxName is how long the name of a directory may be, in bytes.
const maxName = 255

// partitionBy reads the option partition_by.
func (s *sink) partitionBy(c connectors.SinkConfig) error {
	s.schema = c.Schema
	list := c.Options.String("partition_by")
	if list == "" {
		return nil
	}
	taken := map[int]bool{}
	names := make([]string, c.Schema.Len())
	for i, f := range c.Schema.Fields {
		names[i] = f.Name
	}
	for name := range strings.SplitSeq(list, ",") {
		name = strings.TrimSpace(name)
		i := c.Schema.Index(name)
		if i < 0 {
			hint := "columns: " + strings.Join(names, ", ")
			if n, ok := option.Nearest(name, names); ok {
				hint = "did you mean " + n + "?"
			}
			return fault.New(fault.Config, "file sink: partition_by: there is no column %q (%s)", name, hint)
		}
		f := c.Schema.Fields[i]
		if taken[i] {
			return fault.New(fault.Config, "file sink: partition_by names column %s twice", f.Name)
		}
		switch f.Type.Kind {
		case messages.Array, messages.Map, messages.Struct, messages.Interval, messages.Null:
			return fault.New(fault.Config, "file sink: partition_by: column %s of type %s cannot name a directory", f.Name, f.Type)
		}
		taken[i] = true
		s.partition = append(s.partition, i)
		s.names = append(s.names, string(escape(nil, []byte(f.Name))))
	}
	s.schema = &messages.Schema{}
	for i, f := range c.Schema.Fields {
		if !taken[i] {
			s.columns = append(s.columns, i)
			s.schema.Fields = append(s.schema.Fields, f)
		}
	}
	if len(s.columns) == 0 {
		return fault.New(fault.Config, "file sink: partition_by names every column; one must be left for the files")
	}
	return nil
}

// directory returns the directory of a row, with slashes; it is valid until the
// next call.
func (w *writer) directory(b *messages.Batch, row int) ([]byte, error) {
	s := w.c.sink
	dst := w.path[:0]
	for k, i := range s.partition {
		if k > 0 {
			dst = append(dst, '/')
		}
		from := len(dst)
		dst = append(append(dst, s.names[k]...), '=')
		if c := b.Column(i); c.IsNull(row) {
			dst = append(dst, nullValue...)
		} else {
			w.text, _ = format.AppendScalar(w.text[:0], c, row) // partitionBy lets only scalars through
			dst = escape(dst, w.text)
		}
		if len(dst)-from > maxName {
			return nil, fault.New(fault.BadRow, "file sink: the value of column %s is too long for the name of a directory (%d bytes, %d are possible)", b.Schema().Fields[i].Name, len(dst)-from, maxName)
		}
	}
	w.path = dst
	return dst, nil
}

// escape appends s with everything but letters, digits and a few signs as %XX.
func escape(dst, s []byte) []byte {
	const hexDigits = "0123456789ABCDEF"
	for i, c := range s {
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '-' || c == '.' || c == '_' || c == '~' || c == '+'
		if plain && (i > 0 || string(s) != nullValue) { // what looks like NULL is escaped
			dst = append(dst, c)
		} else {
			dst = append(dst, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return dst
}

// makeDir makes the directory of the sink.
func (s *sink) makeDir() error {
	if err := s.fs.MkdirAll(s.dir); err != nil {
		return s.ioError(err, "make the directory")
	}
	return nil
}

// makeDirs makes a directory below that of the sink, level by level, so that
// each level is durable in the one above.
func (w *writer) makeDirs(dir string) error {
	if dir == "" || w.made[dir] {
		return nil
	}
	s := w.c.sink
	at := s.dir
	for level := range strings.SplitSeq(path.Clean(dir), "/") {
		at = filepath.Join(at, level)
		if err := s.fs.MkdirAll(at); err != nil {
			return s.ioError(err, "make "+at)
		}
	}
	if len(w.made) >= maxOpen { // only a cache
		clear(w.made)
	}
	w.made[dir] = true
	return nil
}
