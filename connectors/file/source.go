package file

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// partitionName is the name of the one partition.
const partitionName = "files"

type source struct {
	schema    *messages.Schema
	metadata  map[int]string
	path      string // as configured, made absolute
	base      string // directory that names in offsets are relative to
	pattern   string // glob pattern or single file; "" reads the directory base
	nested    bool   // list has found key=value directories
	maxAge    time.Duration
	newest    bool   // the newest file first
	clean     string // off, archive or delete
	archive   string
	log       *slog.Logger
	poll      time.Duration
	maxRecord int
	clock     connectors.Clock
}

func newSource(_ context.Context, c connectors.SourceConfig) (connectors.Source, error) {
	if c.Schema == nil {
		return nil, fault.New(fault.Config, "file source: the columns of files are not guessed; declare them")
	}
	if c.Decoder == nil {
		return nil, fault.New(fault.Config, "file source: add format = 'json', 'csv' or 'text'")
	}
	s := &source{
		schema: c.Schema, metadata: c.MetadataColumns, path: resolve(c.Env, c.Options.String("path")),
		maxAge: c.Options.Duration("max_file_age"), poll: c.Options.Duration("poll_interval"),
		maxRecord: int(c.Options.Bytes("max_record_size")), clock: c.Env.Clock, log: c.Env.Log,
		newest: c.Options.Bool("latest_first"), clean: c.Options.Enum("clean_source"),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.newest {
		s.maxAge = 0 // else the older files would be too old by the time they are read
	}
	if s.poll <= 0 {
		return nil, fault.New(fault.Config, "file source: poll_interval must be above 0")
	}
	if s.maxRecord < 1 {
		return nil, fault.New(fault.Config, "file source: max_record_size must be above 0")
	}
	if strings.ContainsAny(s.path, "*?[") {
		if _, err := filepath.Match(s.path, ""); err != nil {
			return nil, fault.New(fault.Config, "file source: path %q is no valid pattern: %w", s.path, err)
		}
		s.pattern = s.path
		for s.base = filepath.Dir(s.path); strings.ContainsAny(s.base, "*?["); {
			s.base = filepath.Dir(s.base)
		}
	}
	return s, s.checkClean(c)
}

// checkClean checks the options about finished files.
func (s *source) checkClean(c connectors.SourceConfig) error {
	dir := c.Options.String("source_archive_dir")
	switch {
	case s.clean != "archive" && dir != "":
		return fault.New(fault.Config, "file source: source_archive_dir needs clean_source = 'archive'")
	case s.clean != "archive":
		return nil
	case dir == "":
		return fault.New(fault.Config, "file source: clean_source = 'archive' needs source_archive_dir")
	}
	s.archive = resolve(c.Env, dir)
	base := s.base
	if base == "" {
		base = s.path
	}
	if rel, err := filepath.Rel(base, s.archive); err == nil && rel != ".." && !strings.HasPrefix(rel, ".."+string(filepath.Separator)) {
		return fault.New(fault.Config, "file source: source_archive_dir %s lies in %s, so archived files could be read again; choose a directory outside", s.archive, base)
	}
	return nil
}

func (s *source) Schema() *messages.Schema { return s.schema }

func (s *source) Traits() connectors.Traits {
	return connectors.Traits{Replayable: true, BrokerTime: true}
}

func (s *source) Partitions(context.Context) ([]string, error) {
	return []string{partitionName}, nil
}

// CheckOffset implements connectors.OffsetChecker.
func (s *source) CheckOffset(_ string, from connectors.Offset) error {
	own := *s
	p, err := newProgress(from)
	if err != nil || own.locate() != nil {
		return nil //nolint:nilerr // Open says what is wrong with them
	}
	return own.checkBase(p)
}

// checkBase compares the directory with that of an offset. One that was moved has
// the files that were read; in another one everything would count as unread.
func (s *source) checkBase(p *progress) error {
	known := len(p.Done)
	if p.Current != nil {
		known++
	}
	if p.Base == "" || p.Base == s.base || known == 0 {
		return nil
	}
	for _, f := range p.Done {
		if _, err := os.Stat(s.pathOf(f.Name)); err == nil {
			return nil
		}
	}
	if p.Current != nil {
		if _, err := os.Stat(s.pathOf(p.Current.Name)); err == nil {
			return nil
		}
	}
	return connectors.Foreign("file source: the checkpoint was made with files in %s, none of which is in %s; set the path back", p.Base, s.base)
}

// found is a file that can be read.
type found struct {
	identity
	// at is where reading begins, with the checksum of what is before it; gen is how
	// often the path was given to another file; again says that it had been finished.
	at      int64
	sum     uint32
	gen     int
	again   bool
	columns []pathColumn
}

// identity is what a file must keep. Its JSON form is part of the offset.
type identity struct {
	Name string `json:"name"` // relative to the base, with slashes
	Size int64  `json:"size"`
	Time int64  `json:"mtime"` // nanoseconds since 1970
}

func (f identity) modified() messages.EventTime { return messages.EventTime(f.Time / 1000) }

func identityOf(name string, info fs.FileInfo) identity {
	return identity{name, info.Size(), info.ModTime().UnixNano()}
}

// lineage is the identity of a file's rows. It stays the same while the file
// grows, and differs between files that had the same path one after the other.
func lineage(base, name string, gen int, firstLine []byte) messages.ID128 {
	h := sha256.New()
	for _, part := range [][]byte{[]byte("file 2"), []byte(base), []byte(name), firstLine} {
		h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part)))) // never fails
		h.Write(part)
	}
	h.Write(binary.BigEndian.AppendUint64(nil, uint64(gen)))
	sum := h.Sum(nil)
	return messages.ID128{Hi: binary.BigEndian.Uint64(sum), Lo: binary.BigEndian.Uint64(sum[8:])}
}

// pathOf is the path of a file in the file system.
func (s *source) pathOf(name string) string { return filepath.Join(s.base, filepath.FromSlash(name)) }

// pathColumn is a column filled from a key=value directory.
type pathColumn struct {
	column int
	text   string
	null   bool
}

// locate finds out what the path is. It must be called before list.
func (s *source) locate() error {
	if s.pattern != "" {
		if _, err := os.Stat(s.base); err != nil {
			return accessError(s.base, err)
		}
		return nil
	}
	info, err := os.Stat(s.path)
	if err != nil {
		return accessError(s.path, err)
	}
	s.base = s.path
	if !info.IsDir() {
		s.base = filepath.Dir(s.path)
		s.pattern = escapeGlob(s.path)
	}
	return nil
}

func escapeGlob(path string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(path)
}

func accessError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fault.New(fault.Config, "file source: %s does not exist", path)
	case errors.Is(err, fs.ErrPermission):
		return fault.New(fault.Config, "file source: no permission to read %s", path)
	}
	return fault.Wrap(fault.Restart, err, "file source: read %s", path)
}

// list returns the files there are, oldest first, then by name.
func (s *source) list() ([]found, error) {
	var files []found
	var err error
	if s.pattern == "" {
		err = s.walk(s.base, nil, &files)
	} else {
		var matches []string
		if matches, err = filepath.Glob(s.pattern); err == nil {
			err = s.addMatches(matches, &files)
		}
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(files, func(a, b found) int {
		order := cmp.Compare(a.Time, b.Time)
		if s.newest {
			order = -order
		}
		return cmp.Or(order, strings.Compare(a.Name, b.Name))
	})
	return files, nil
}

func (s *source) addMatches(matches []string, files *[]found) error {
	for _, m := range matches {
		if hidden(filepath.Base(m)) && s.path != m {
			continue
		}
		info, err := os.Stat(m)
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since it was matched
		}
		if err != nil {
			return accessError(m, err)
		}
		if info.Mode().IsRegular() {
			if err := s.add(m, info, nil, files); err != nil {
				return err
			}
		}
	}
	return nil
}

// walk lists a directory and the key=value directories in it.
func (s *source) walk(dir string, columns []pathColumn, files *[]found) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return accessError(dir, err)
	}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if hidden(e.Name()) {
			continue
		}
		info, err := os.Stat(path) // follows symbolic links
		if errors.Is(err, fs.ErrNotExist) {
			continue // gone since the directory was read
		}
		if err != nil {
			return accessError(path, err)
		}
		if key, value, ok := strings.Cut(e.Name(), "="); ok && info.IsDir() {
			s.nested = true
			if err := s.walk(path, s.withColumn(columns, key, value), files); err != nil {
				return err
			}
		}
		if info.Mode().IsRegular() {
			if err := s.add(path, info, columns, files); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *source) withColumn(columns []pathColumn, key, value string) []pathColumn {
	if plain, err := url.PathUnescape(key); err == nil {
		key = plain
	}
	i := s.schema.Index(key)
	if i < 0 {
		return columns
	}
	null := value == nullValue
	if plain, err := url.PathUnescape(value); err == nil {
		value = plain
	}
	c := pathColumn{column: i, text: value, null: null}
	return append(slices.Clip(columns), c)
}

func (s *source) add(path string, info fs.FileInfo, columns []pathColumn, files *[]found) error {
	rel, err := filepath.Rel(s.base, path)
	if err != nil {
		return fault.Wrap(fault.Internal, err, "file source: %s", path)
	}
	*files = append(*files, found{identity: identityOf(filepath.ToSlash(rel), info), columns: columns})
	return nil
}
