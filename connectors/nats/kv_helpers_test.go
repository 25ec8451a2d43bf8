package nats

import (
	"context"
	stdjson "encoding/json"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
)

// pairs is the schema of the rows that these tests write to a bucket.
func pairs() *messages.Schema {
	return messages.NewSchema(messages.Field{Name: "k", Type: messages.T(messages.String)}, messages.Field{Name: "v", Type: messages.T(messages.BigInt)})
}

// change is a row for a bucket.
type change struct {
	k    string
	v    int64
	kind messages.RowKind
}

func set(k string, v int) change { return change{k: k, v: int64(v), kind: messages.UpdateAfter} }

// kvOutput is one attempt of a query that writes to a bucket.
type kvOutput struct {
	t       testing.TB
	c       *kvCommitter
	writers []connectors.Writer
	builder *messages.Builder
	epoch   messages.Epoch
	last    connectors.Token
}

type kvConfig struct {
	attempt   uint64
	epoch     messages.Epoch
	last      connectors.Token
	guarantee connectors.Guarantee // at least once is 0; see openKV
	subtasks  int
	log       *slog.Logger
	maxIdle   int
}

func newKVTestSink(t testing.TB, s *messages.Schema, log *slog.Logger, kv ...string) (*kvSink, error) {
	t.Helper()
	rec := Connector()
	f := json.Format()
	out, err := rec.Sink(t.Context(), connectors.SinkConfig{
		Options: values(t, "nats sink", rec.SinkOptions, kv), Schema: s, Format: f, Env: connectors.Env{Log: log},
		Encoder: func(s *messages.Schema) (format.Encoder, error) {
			return f.Encoder(format.Config{Schema: s, Options: values(t, "json", f.Options, nil)})
		},
	})
	if err != nil {
		return nil, err
	}
	return out.(*kvSink), nil
}

func kvOptions(b interface{ url() string }) []string {
	return []string{"url", b.url(), "bucket", "HOT", "key", "{k}"}
}

// tryKV opens a committer that converges, without recovering it.
func tryKV(t testing.TB, c kvConfig, kv ...string) *kvOutput {
	t.Helper()
	s, err := newKVTestSink(t, pairs(), c.log, kv...)
	if err != nil {
		t.Fatal(err)
	}
	if c.maxIdle > 0 {
		s.maxIdle = c.maxIdle
	}
	if c.guarantee == connectors.AtLeastOnce {
		c.guarantee = connectors.Converges
	}
	return openKVSink(t, s, c)
}

func openKVSink(t testing.TB, s *kvSink, c kvConfig) *kvOutput {
	t.Helper()
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "hot", Incarnation: messages.ID128{Hi: 77}, Attempt: max(c.attempt, 1), Schema: pairs(), Offer: connectors.Offer{Guarantee: c.guarantee}, KeyColumns: []int{0},
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &kvOutput{t: t, c: com.(*kvCommitter), builder: messages.NewBuilder(pairs()), epoch: c.epoch, last: c.last}
	t.Cleanup(o.close)
	return o
}

func (o *kvOutput) recover(c kvConfig) *kvOutput {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	if err := o.c.Recover(ctx, c.epoch, c.last); err != nil {
		o.t.Fatal(err)
	}
	for i := range max(c.subtasks, 1) {
		w, err := o.c.Writer(o.t.Context(), i, max(c.subtasks, 1))
		if err != nil {
			o.t.Fatal(err)
		}
		o.writers = append(o.writers, w)
	}
	return o
}

func openKV(t testing.TB, c kvConfig, kv ...string) *kvOutput {
	t.Helper()
	return tryKV(t, c, kv...).recover(c)
}

func (o *kvOutput) close() {
	if o.c != nil {
		if err := o.c.Close(); err != nil {
			o.t.Error(err)
		}
		o.c = nil
	}
}

// try writes rows to a subtask.
func (o *kvOutput) try(subtask int, frame messages.Frame, rows ...change) error {
	for _, r := range rows {
		o.builder.Column(0).AppendString(r.k)
		o.builder.Column(1).AppendInt64(r.v)
		o.builder.EndRow()
	}
	b := o.builder.Finish()
	defer b.Release()
	if frame == 0 {
		kinds := make([]messages.RowKind, 0, len(rows))
		for _, r := range rows {
			kinds = append(kinds, r.kind)
		}
		b.SetKinds(kinds)
	}
	b.SetFrame(frame)
	ctx, cancel := context.WithTimeout(o.t.Context(), 30*time.Second)
	defer cancel()
	return o.writers[subtask].Write(ctx, b, nil)
}

func (o *kvOutput) write(subtask int, rows ...change) {
	o.t.Helper()
	if err := o.try(subtask, 0, rows...); err != nil {
		o.t.Fatal(err)
	}
}

func (o *kvOutput) table(rows ...change) {
	o.t.Helper()
	if err := o.try(0, messages.FrameStart|messages.FrameEnd, rows...); err != nil {
		o.t.Fatal(err)
	}
}

// prepare ends an epoch up to the commit record.
func (o *kvOutput) prepare() error {
	o.epoch++
	o.c.Begin(o.epoch)
	ctx, cancel := context.WithTimeout(o.t.Context(), 30*time.Second)
	defer cancel()
	var fs []connectors.Flush
	for _, w := range o.writers {
		f, err := w.Cut(o.epoch)
		if err != nil {
			return err
		}
		fs = append(fs, f)
	}
	var toks []connectors.Token
	for _, f := range fs {
		tok, err := f(ctx)
		if err != nil {
			return err
		}
		toks = append(toks, tok)
	}
	tok, err := o.c.Prepare(ctx, o.epoch, toks)
	if err == nil {
		o.last = tok
	}
	return err
}

func (o *kvOutput) commit() {
	o.t.Helper()
	if err := o.prepare(); err != nil {
		o.t.Fatal(err)
	}
	if err := o.c.Commit(o.t.Context(), o.epoch, o.last); err != nil {
		o.t.Fatal(err)
	}
}

func bucket(t testing.TB, js jetstream.JetStream, cfg jetstream.KeyValueConfig) jetstream.KeyValue {
	t.Helper()
	if cfg.Bucket == "" {
		cfg.Bucket = "HOT"
	}
	kv, err := js.CreateKeyValue(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return kv
}

// content reads a bucket as any client would.
func content(t testing.TB, kv jetstream.KeyValue) map[string]int64 {
	t.Helper()
	w, err := kv.WatchAll(t.Context(), jetstream.IgnoreDeletes())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Stop(); err != nil {
			t.Error(err)
		}
	}()
	got := map[string]int64{}
	for {
		select {
		case e := <-w.Updates():
			if e == nil {
				return got
			}
			var row struct{ V int64 }
			if err := stdjson.Unmarshal(e.Value(), &row); err != nil {
				t.Fatal(fmt.Errorf("%s: %q: %w", e.Key(), e.Value(), err))
			}
			got[e.Key()] = row.V
		case <-time.After(20 * time.Second):
			t.Fatal("reading the bucket takes too long")
		}
	}
}
