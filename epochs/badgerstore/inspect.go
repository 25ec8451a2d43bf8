package badgerstore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"

	"github.com/streamd-io/streamd/epochs"
)

// inspect looks at the files of a database before Badger opens it, which would
// lose data or end the process over some kinds of damage. With repair it removes
// what holds nothing.
func inspect(dir string, opts badger.Options, repair bool) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	manifest, data := false, ""
	for _, f := range files {
		info, err := f.Info()
		if err != nil {
			return err
		}
		name := f.Name()
		useless, err := superfluous(dir, info)
		switch {
		case err != nil:
			return err
		case useless && repair:
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		case useless:
		case filepath.Ext(name) == ".mem", filepath.Ext(name) == ".vlog":
			data = name
			if err := inspectLog(filepath.Join(dir, name)); err != nil {
				return err
			}
		case filepath.Ext(name) == ".sst":
			data = name
		case name == badger.ManifestFilename:
			manifest = true
		}
	}
	switch {
	case manifest:
		return inspectTables(dir, opts)
	case data != "":
		return fmt.Errorf("%s is missing beside %s: %w", filepath.Join(dir, badger.ManifestFilename), data, epochs.ErrDamaged)
	}
	return nil
}

// discardSize is the size of Badger's statistics about garbage, or of a part of
// them. A file of another size would end the process when it is written to.
const discardSize = 1 << 20

// keyRegistry is what Badger's file of that name holds without encryption, behind
// 16 random bytes: nothing but a text.
const keyRegistry = "Hello Badger"

// superfluous reports whether a file is of no use: a log of zero length, left by
// a process that was killed between creating and sizing it; statistics that are
// cut, which only make the collection of garbage less exact; a damaged registry
// of keys, of which there are none; a file of a compaction's trial.
func superfluous(dir string, f fs.FileInfo) (bool, error) {
	switch ext := filepath.Ext(f.Name()); {
	case !f.Mode().IsRegular():
		return false, nil
	case ext == ".mem", ext == ".vlog":
		return f.Size() == 0, nil
	case strings.HasPrefix(f.Name(), probePrefix):
		return true, nil
	case f.Name() == "DISCARD":
		return f.Size() == 0 || f.Size()%discardSize != 0, nil
	case f.Name() == badger.KeyRegistryFileName:
		if f.Size() != int64(16+len(keyRegistry)) {
			return true, nil
		}
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		return err == nil && string(b[min(16, len(b)):]) != keyRegistry, err
	}
	return false, nil
}

// inspectLog checks the head of a log: Badger leaves goroutines behind when it
// meets a damaged one, and ends the process over some.
func inspectLog(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	head := make([]byte, 20) // number of a key, 0 for none, and 12 random bytes
	_, err = io.ReadFull(f, head)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || err == nil && binary.BigEndian.Uint64(head) != 0 {
		return fmt.Errorf("log %s is damaged at its head: %w", name, epochs.ErrDamaged)
	}
	return err
}

// inspectTables checks that every table of the manifest is there and ends as a
// table ends.
func inspectTables(dir string, opts badger.Options) (err error) {
	f, err := os.Open(filepath.Join(dir, badger.ManifestFilename))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	manifest, _, err := badger.ReplayManifestFile(f, opts.ExternalMagicVersion, opts)
	if _, ok := errors.AsType[*fs.PathError](err); ok {
		return fmt.Errorf("%s: %w: %w", f.Name(), err, epochs.ErrDamaged)
	}
	if err != nil { // Badger's text has several lines, about upgrades of itself
		return fmt.Errorf("the content of %s is not a list of tables: %w", f.Name(), epochs.ErrDamaged)
	}
	for id := range manifest.Tables {
		if err := inspectTable(table.NewFilename(id, dir)); err != nil {
			return err
		}
	}
	return nil
}

// inspectTable checks all checksums of a table:
//
//	blocks | index | length of the index/4 | its checksum | length of that/4
//
// where a block ends with its own checksum and the length of that. Tables hold
// keys and pointers only and are small; reading them takes milliseconds.
func inspectTable(name string) error {
	b, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("table %s is missing: %w", name, epochs.ErrDamaged)
	}
	if err != nil {
		return err
	}
	damaged := func(what string) error {
		return fmt.Errorf("table %s is damaged (%s): %w", name, what, epochs.ErrDamaged)
	}
	rest, sum, ok := cutChecksum(b)
	if !ok {
		return damaged("no checksum at its end")
	}
	rest, index, ok := cutSized(rest)
	if !ok || len(index) == 0 || y.VerifyChecksum(index, sum) != nil {
		return damaged("index")
	}
	offsets := fb.GetRootAsTableIndex(index, 0)
	var block fb.BlockOffset
	for i := range offsets.OffsetsLength() {
		if !offsets.Offsets(&block, i) {
			return damaged("index")
		}
		from, to := uint64(block.Offset()), uint64(block.Offset())+uint64(block.Len())
		if to > uint64(len(rest)) {
			return damaged("a block is beyond its end")
		}
		data, sum, ok := cutChecksum(rest[from:to])
		if !ok || y.VerifyChecksum(data, sum) != nil {
			return damaged("checksum of a block")
		}
	}
	return nil
}

// cutSized cuts what precedes its length, 4 bytes, off the end of b.
func cutSized(b []byte) (rest, cut []byte, ok bool) {
	if len(b) < 4 {
		return nil, nil, false
	}
	b, length := b[:len(b)-4], uint64(binary.BigEndian.Uint32(b[len(b)-4:]))
	if length > uint64(len(b)) {
		return nil, nil, false
	}
	at := uint64(len(b)) - length
	return b[:at], b[at:], true
}

// cutChecksum cuts a checksum with its length off the end of b. A checksum is
// the message {algo = 1: enum, sum = 2: uint64}; two varints need no library.
func cutChecksum(b []byte) (rest []byte, sum *pb.Checksum, ok bool) {
	rest, b, ok = cutSized(b)
	sum = &pb.Checksum{}
	for ok && len(b) > 0 {
		tag := b[0]
		v, n := binary.Uvarint(b[1:])
		if n <= 0 {
			return nil, nil, false
		}
		switch tag {
		case 1 << 3:
			sum.Algo = pb.Checksum_Algorithm(v)
		case 2 << 3:
			sum.Sum = v
		default:
			return nil, nil, false
		}
		b = b[1+n:]
	}
	return rest, sum, ok && (sum.Algo == pb.Checksum_CRC32C || sum.Algo == pb.Checksum_XXHash64)
}

// errorLog is Badger's logger. Badger reports some failures, also of a sync, to
// its log only; the store takes every error in the log for a failed write.
type errorLog struct {
	log    logSink
	errors chan string // the oldest error nobody has asked for; capacity 1
}

func (l *errorLog) Errorf(format string, args ...any) {
	if strings.HasPrefix(format, "Unable to read") || strings.HasPrefix(format, "Key: %v, Version") || strings.HasPrefix(format, "Invalid read") {
		return // the reader gets the error
	}
	text := strings.TrimSpace(fmt.Sprintf(format, args...))
	select {
	case l.errors <- text:
	default: // one is enough
	}
	l.log.Error("badger: " + text)
}

func (l *errorLog) Warningf(format string, args ...any) {
	l.log.Warn("badger: " + strings.TrimSpace(fmt.Sprintf(format, args...)))
}

// Infof and Debugf are about Badger's inner life.
func (l *errorLog) Infof(string, ...any)  {}
func (l *errorLog) Debugf(string, ...any) {}

// take returns an error that was logged since the last call.
func (l *errorLog) take() error {
	select {
	case text := <-l.errors:
		return errors.New(text)
	default:
		return nil
	}
}

// logSink is the part of slog.Logger that is used.
type logSink interface {
	Warn(msg string, args ...any)
	Error(msg string, args ...any)
}
