package file

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// inProgress is the end of the names of parts that are not visible yet. Their
// names begin with a dot as well, so that readers leave them alone.
const inProgress = ".inprogress"

type sink struct {
	fs     fileSystem
	clock  connectors.Clock
	dir    string
	ext    string
	header []byte // with its line end; nil for none
	// partition are the columns of partition_by and columns all others, which are
	// what the files hold: schema. Without partition_by columns is nil.
	partition, columns []int
	names              []string // of the partition columns, escaped
	schema             *messages.Schema
	encoder            func(*messages.Schema) (format.Encoder, error)
	rollSize           int64
	rollAfter          time.Duration
	log                *slog.Logger
}

func newSink(_ context.Context, c connectors.SinkConfig) (connectors.Sink, error) {
	return makeSink(c, osFS{})
}

func makeSink(c connectors.SinkConfig, fsys fileSystem) (*sink, error) {
	if c.Encoder == nil {
		return nil, fault.New(fault.Config, "file sink: add format = 'json', 'csv' or 'text'")
	}
	s := &sink{
		fs: fsys, clock: c.Env.Clock, dir: resolve(c.Env, c.Options.String("path")), ext: c.Format.Extension, encoder: c.Encoder,
		rollSize: c.Options.Bytes("roll_size"), rollAfter: c.Options.Duration("roll_interval"), log: c.Env.Log,
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.rollSize < 1 || s.rollAfter <= 0 {
		return nil, fault.New(fault.Config, "file sink: roll_size and roll_interval must be above 0")
	}
	if err := s.partitionBy(c); err != nil {
		return nil, err
	}
	if _, err := c.Encoder(s.schema); err != nil {
		return nil, err
	}
	if c.Format.Header != nil {
		c.FormatConfig.Schema = s.schema
		line, err := c.Format.Header(c.FormatConfig)
		if err != nil {
			return nil, err
		}
		if line != nil {
			s.header = append(line, '\n')
		}
	}
	return s, nil
}

func (s *sink) Traits() connectors.SinkTraits {
	return connectors.SinkTraits{
		Append: true,
		Guarantees: []connectors.Offer{
			{Guarantee: connectors.ExactlyOnce, Visibility: connectors.PerEpoch},
			{Guarantee: connectors.AtLeastOnce, Visibility: connectors.PerEpoch},
		},
	}
}

// Open implements connectors.Sink.
func (s *sink) Open(_ context.Context, q connectors.WriteRequest) (connectors.Committer, error) {
	// Other queries may write to the same directory, also earlier ones of the
	// same name.
	h := sha256.Sum256([]byte(q.Sink))
	return &committer{
		sink: s, attempt: q.Attempt, accept: q.AcceptDuplicates,
		prefix: fmt.Sprintf("part-%016x-%x", q.Incarnation.Hi^q.Incarnation.Lo, h[:3]),
	}, nil
}

// part names a part file and how much of it is valid.
type part struct {
	Name string `json:"name"` // with its directory, without the leading dot and inProgress
	Size int64  `json:"size"`
	Rows int64  `json:"rows"`
}

// token is the sink's token, and that of a writer.
type token struct {
	// Open are the parts that go on in the next epoch.
	Open []part `json:"open,omitempty"`
	// Rolled are the parts that are finished and not known to be renamed.
	Rolled []part `json:"rolled,omitempty"`
}

func decodeToken(t connectors.Token) (token, error) {
	var v token
	if len(t) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(t, &v); err != nil {
		return v, fault.Wrap(fault.Config, err, "file sink: the token in the checkpoint is not one of this sink")
	}
	for _, p := range slices.Concat(v.Open, v.Rolled) {
		// Files are cut and renamed by what it says: none outside the directory.
		if !filepath.IsLocal(p.Name) || p.Size < 0 || p.Rows < 0 {
			return v, fault.New(fault.Config, "file sink: the token in the checkpoint is not one of this sink: it names %q with %d bytes and %d rows", p.Name, p.Size, p.Rows)
		}
	}
	return v, nil
}

func (t token) encode() (connectors.Token, error) {
	b, err := json.Marshal(t)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "file sink: encode the token")
	}
	return b, nil
}

// committer implements connectors.Committer and EpochAsker.
type committer struct {
	sink    *sink
	prefix  string
	attempt uint64
	accept  bool // parts may hold rows of newer epochs that were published
	// mu guards the fields below; WantsEpoch and Commit may be called while
	// Prepare runs.
	mu       sync.Mutex
	writers  []*writer
	unlisted []part // rolled in epochs that have not been committed yet
	open     []part // what the last commit says of parts that go on
}

// Recover implements connectors.Committer: parts of committed epochs become
// visible, cut to their valid length, and all others of this query vanish.
func (c *committer) Recover(_ context.Context, _ messages.Epoch, last connectors.Token) error {
	t, err := decodeToken(last)
	if err != nil {
		return err
	}
	s := c.sink
	if err := s.makeDir(); err != nil {
		return err
	}
	keep := map[string]bool{}
	var done []part
	for _, p := range slices.Concat(t.Rolled, t.Open) {
		if p.Rows == 0 {
			continue
		}
		published := false
		if c.accept {
			if published, err = s.grown(p); err != nil {
				return err
			}
		}
		if !published {
			keep[s.hidden(p.Name)] = true
			done = append(done, p)
		}
	}
	if err := s.publishAll(done); err != nil {
		return err
	}
	if err := s.removeLeftovers(s.dir, "."+c.prefix, keep, len(s.partition)); err != nil {
		return err
	}
	return s.syncDirs([]part{{}})
}

// removeLeftovers removes the parts of this query that are not visible and not
// to be kept, in dir and the partition directories of the given depth below.
func (s *sink) removeLeftovers(dir, prefix string, keep map[string]bool, depth int) error {
	names, err := s.fs.Names(dir)
	if err != nil {
		return s.ioError(err, "list "+dir)
	}
	for _, n := range names {
		name := filepath.Join(dir, n)
		switch {
		case strings.HasPrefix(n, prefix) && strings.HasSuffix(n, inProgress) && !keep[name]:
			if err := s.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return s.ioError(err, "remove "+name)
			}
		case depth > 0 && strings.HasPrefix(n, s.names[len(s.partition)-depth]+"="):
			if err := s.removeLeftovers(name, prefix, keep, depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}

// hidden is the path of a part before it is visible, visible the one after.
func (s *sink) hidden(name string) string {
	dir, base := path.Split(name)
	return filepath.Join(s.dir, filepath.FromSlash(dir), "."+base+inProgress)
}

func (s *sink) visible(name string) string { return filepath.Join(s.dir, filepath.FromSlash(name)) }

// publish cuts a part to its valid length and gives it its visible name. It may
// be repeated; the caller syncs the directory.
func (s *sink) publish(p part) error {
	from, to := s.hidden(p.Name), s.visible(p.Name)
	size, ok, err := s.fs.Size(from)
	if err != nil {
		return s.ioError(err, "look at "+from)
	}
	if !ok { // it has its visible name already
		size, ok, err = s.fs.Size(to)
		switch {
		case err != nil:
			return s.ioError(err, "look at "+to)
		case !ok:
			return fault.New(fault.Config, "file sink: %s is missing, and so are %d committed rows; put the file back or start the query afresh", to, p.Rows)
		case size > p.Size:
			return fault.New(fault.Config, "file sink: %s has %d bytes, but the epoch to start from has committed %d; a newer epoch has published the rest, or somebody changed the file; "+
				"start from the newest epoch, or accept that rows may be published twice, with --accept-duplicates", to, size, p.Size)
		case size != p.Size:
			return fault.New(fault.Config, "file sink: %s has %d bytes, but %d were committed; somebody changed it", to, size, p.Size)
		}
		return nil
	}
	if size < p.Size {
		return fault.New(fault.Config, "file sink: %s has %d bytes, but %d were committed; the file system lost synced data", from, size, p.Size)
	}
	if size > p.Size {
		if err := s.fs.Truncate(from, p.Size); err != nil {
			return s.ioError(err, "truncate "+from)
		}
	}
	if err := s.fs.Rename(from, to); err != nil {
		return s.ioError(err, "rename "+from)
	}
	return nil
}

// grown reports whether a newer epoch than the one that p is of has made the part
// visible, with more rows; then the log says so.
func (s *sink) grown(p part) (bool, error) {
	if _, hidden, err := s.fs.Size(s.hidden(p.Name)); err != nil || hidden {
		return false, s.ioError(err, "look at "+s.hidden(p.Name))
	}
	to := s.visible(p.Name)
	size, ok, err := s.fs.Size(to)
	if err != nil || !ok || size <= p.Size {
		return false, s.ioError(err, "look at "+to)
	}
	s.log.Warn("file sink is set back to an older epoch than it has published; rows that follow may be in files already", "file", to, "bytes", p.Size, "bytes_published", size)
	return true, nil
}

// syncDirs makes the names in the directories of some parts durable.
func (s *sink) syncDirs(parts []part) error {
	synced := map[string]bool{}
	for _, p := range parts {
		dir := filepath.Dir(s.visible(p.Name))
		if p.Name == "" {
			dir = s.dir
		}
		if synced[dir] {
			continue
		}
		synced[dir] = true
		if err := s.fs.SyncDir(dir); err != nil {
			return s.ioError(err, "sync "+dir)
		}
	}
	return nil
}

// ioError says what happened where. Most trouble with files may be over at the
// next attempt.
func (s *sink) ioError(err error, doing string) error {
	kind := fault.Restart
	if os.IsPermission(err) || errors.Is(err, os.ErrExist) {
		kind = fault.Config
	}
	return fault.Wrap(kind, err, "file sink %s: %s", s.dir, doing)
}

// Writer implements connectors.Committer.
func (c *committer) Writer(_ context.Context, subtask, _ int) (connectors.Writer, error) {
	enc, err := c.sink.encoder(c.sink.schema)
	if err != nil {
		return nil, err
	}
	w := &writer{
		c: c, enc: enc, stem: fmt.Sprintf("%s-%06d-%05d", c.prefix, c.attempt, subtask),
		open: map[string]*openPart{}, files: map[*openPart]struct{}{}, made: map[string]bool{},
	}
	if c.sink.columns != nil {
		w.pool = messages.NewPool(c.sink.schema)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writers = append(c.writers, w)
	return w, nil
}

// Begin implements connectors.Committer.
func (c *committer) Begin(messages.Epoch) {}

// WantsEpoch implements connectors.EpochAsker: a part that is due to be rolled
// waits for an epoch to become visible with.
func (c *committer) WantsEpoch() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.writers, func(w *writer) bool { return w.due() })
}

// Prepare implements connectors.Committer.
func (c *committer) Prepare(_ context.Context, _ messages.Epoch, tokens []connectors.Token) (connectors.Token, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var all token
	for _, t := range tokens {
		one, err := decodeToken(t)
		if err != nil {
			return nil, err
		}
		all.Open = append(all.Open, one.Open...)
		c.unlisted = append(c.unlisted, one.Rolled...)
	}
	all.Rolled = c.unlisted
	return all.encode()
}

// Commit implements connectors.Committer: the parts rolled become visible.
func (c *committer) Commit(_ context.Context, _ messages.Epoch, t connectors.Token) error {
	v, err := decodeToken(t)
	if err != nil {
		return err
	}
	if err := c.sink.publishAll(v.Rolled); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open = v.Open
	c.unlisted = slices.DeleteFunc(c.unlisted, func(p part) bool { return slices.Contains(v.Rolled, p) })
	return nil
}

func (s *sink) publishAll(parts []part) error {
	for _, p := range parts {
		if err := s.publish(p); err != nil {
			return err
		}
	}
	return s.syncDirs(parts)
}

// Close implements connectors.Committer. Parts that hold nothing but committed
// rows become visible: after a drain that is all of them.
func (c *committer) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	var done []part
	for _, w := range c.writers {
		for _, p := range w.current() {
			if slices.Contains(c.open, p) {
				done = append(done, p)
			}
		}
		errs = append(errs, w.Close())
	}
	return errors.Join(append(errs, c.sink.publishAll(done))...)
}
