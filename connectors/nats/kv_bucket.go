package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// classBucket is that of errors about a bucket that does not suit.
const classBucket = "NATS_BUCKET_UNSUITABLE"

// Headers of values in a bucket.
const (
	headerOperation = "KV-Operation"
	headerRevision  = "Nats-Expected-Last-Subject-Sequence"
	// headerBytes is what the headers of a value take, without the tag.
	headerBytes = 160
)

// bucketSpec names a bucket and says what to do when it is missing.
type bucketSpec struct {
	name   string
	create bool
}

func (b *bucketSpec) stream() string { return "KV_" + b.name }

// subject is what the subjects of all keys begin with.
func (b *bucketSpec) subject() string { return "$KV." + b.name + "." }

// info asks for the state of the bucket's stream. The error for a missing bucket
// is of kind Config and shows the command that makes one.
func (b *bucketSpec) info(ctx context.Context, l *link) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	look := func(ctx context.Context) error {
		h, err := l.js.Stream(ctx, b.stream())
		if err == nil {
			info = h.CachedInfo()
		}
		return err
	}
	err := l.call(ctx, "look up bucket "+b.name, look)
	if err == nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return info, err
	}
	if !b.create {
		err := fault.New(fault.Config, "bucket %s does not exist; make it with: nats kv add %s --history 1 --storage file (or set create = true)", b.name, b.name)
		return nil, fault.WithClass(err, classMissing)
	}
	err = l.call(ctx, "create bucket "+b.name, func(ctx context.Context) error {
		if _, err := l.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: b.name, History: 1, Storage: jetstream.FileStorage}); err != nil {
			return err
		}
		return look(ctx)
	})
	return info, err
}

// checkBucket refuses buckets that cannot keep the promise. It is held to at the
// start and after every connect, as buckets are edited while queries run. tag is
// the length of the header that names the sink.
func checkBucket(info *jetstream.StreamInfo, b *bucketSpec, converges bool, tag int) error {
	c := &info.Config
	unsuited := func(text string, args ...any) error {
		return fault.WithClass(fault.New(fault.Config, "bucket "+b.name+" "+text, args...), classBucket)
	}
	takes := false
	for _, s := range c.Subjects {
		takes = takes || covers(s, b.subject()+">")
	}
	switch {
	case c.Mirror != nil:
		return unsuited("mirrors %s and takes no values; write to that one", c.Mirror.Name)
	case !takes || c.SubjectTransform != nil:
		return unsuited("is not a plain bucket: stream %s must take '%s>' and transform no subjects; make a bucket with: nats kv add NAME", b.stream(), b.subject())
	case c.Sealed:
		return unsuited("is sealed and takes no values; write to another one")
	case c.NoAck:
		return unsuited("does not acknowledge values (no_ack), so that no epoch could end; make a bucket with: nats kv add NAME")
	case c.DiscardNewPerSubject && c.MaxMsgsPerSubject > 0:
		return unsuited("refuses a value for good once its key has %d revisions (discard new per subject); turn that off with: nats stream edit %s --no-discard-per-subject", c.MaxMsgsPerSubject, b.stream())
	case c.MaxMsgSize > 0 && int(c.MaxMsgSize) <= headerBytes+tag:
		return unsuited("takes values of %d bytes, headers included (max_value_size), which the headers alone need; give it at least %d", c.MaxMsgSize, 2*(headerBytes+tag))
	case c.PersistMode == jetstream.AsyncPersistMode:
		return unsuited("acknowledges values before they are written (persist_mode async), so that a crash of the server loses values of committed epochs; " +
			"make a bucket with the default persist mode: nats kv add NAME")
	case !converges:
		return nil
	case c.Retention != jetstream.LimitsPolicy:
		return unsuited("forgets values that were read (%s retention), so that it cannot converge; make a bucket with: nats kv add NAME", c.Retention)
	case c.Discard == jetstream.DiscardOld && (c.MaxMsgs > 0 || c.MaxBytes > 0):
		return unsuited("drops the oldest keys when it is full (discard old), so that it cannot converge; set: nats stream edit %s --discard new, or guarantee = 'at_least_once'", b.stream())
	}
	return nil
}

// remarks are what a person should know about a bucket that does suit.
func remarks(info *jetstream.StreamInfo) []string {
	var out []string
	if age := info.Config.MaxAge; age > 0 {
		out = append(out, "values that do not change for "+age.Round(time.Millisecond).String()+" disappear from the bucket (ttl)")
	}
	if info.Config.Storage == jetstream.MemoryStorage {
		out = append(out, "the bucket is in memory: a restart of its server empties it")
	}
	return out
}

// kvOp is the last thing that happened to a key.
type kvOp struct {
	key     string
	seq     uint64
	deleted bool
	mine    bool // written by this sink
}

// each reads the headers of a bucket from its beginning and reports every
// revision that is kept, in order. Those of any incarnation of the sink called name
// are its own.
func (b *bucketSpec) each(ctx context.Context, l *link, name string, f func(kvOp)) error {
	_, err := l.headers(ctx, b.stream(), 1, func(m *nats.Msg, seq uint64) {
		key, ok := strings.CutPrefix(m.Subject, b.subject())
		if !ok {
			return
		}
		f(kvOp{
			key: key, seq: seq, mine: tagName(m.Header.Get(headerSink)) == name,
			deleted: m.Header.Get(headerOperation) != "" || m.Header.Get("Nats-Marker-Reason") != "",
		})
	})
	return err
}

// revision reads the last revision of a key, 0 if there is none.
func (b *bucketSpec) revision(ctx context.Context, l *link, key string) (uint64, error) {
	var seq uint64
	err := l.call(ctx, "read the revision of key "+key+" of bucket "+b.name, func(ctx context.Context) error {
		s, err := l.js.Stream(ctx, b.stream())
		if err != nil {
			return err
		}
		m, err := s.GetLastMsgForSubject(ctx, b.subject()+key)
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			return nil
		}
		if err == nil {
			seq = m.Sequence
		}
		return err
	})
	return seq, err
}
