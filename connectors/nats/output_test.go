package nats

import (
	"context"
	"encoding/binary"
	stdjson "encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/messages"
)

// output is one attempt of a query whose row n has the identity n.
type output struct {
	t       testing.TB
	com     connectors.Committer
	c       *committer // what com is made of
	stash   *connectortest.Stash
	writers []connectors.Writer
	builder *messages.Builder
	epoch   messages.Epoch
	last    connectors.Token
}

type outputConfig struct {
	attempt     uint64
	incarnation uint64
	epoch       messages.Epoch
	last        connectors.Token
	atLeastOnce bool
	offer       connectors.Offer     // when it is not at once
	stash       *connectortest.Stash // of the attempt before
	store       connectors.Stash     // instead of stash
	keys        []int
	subtasks    int
	log         *slog.Logger
	accept      bool // AcceptDuplicates
}

func newTestSink(t testing.TB, log *slog.Logger, kv ...string) (connectors.Sink, error) {
	return newSinkOf(t, numbers(), log, kv)
}

func newTestSinkOf(t testing.TB, s *messages.Schema, kv ...string) (connectors.Sink, error) {
	return newSinkOf(t, s, nil, kv)
}

func newSinkOf(t testing.TB, s *messages.Schema, log *slog.Logger, kv []string) (connectors.Sink, error) {
	rec := Connector()
	f := json.Format()
	return rec.Sink(t.Context(), connectors.SinkConfig{
		Options: values(t, "nats sink", rec.SinkOptions, kv), Schema: s, Format: f, Env: connectors.Env{Log: log},
		Encoder: func(s *messages.Schema) (format.Encoder, error) {
			return f.Encoder(format.Config{Schema: s, Options: values(t, "json", f.Options, nil)})
		},
	})
}

// tryOutput opens a committer without recovering it.
func tryOutput(t testing.TB, c outputConfig, kv ...string) *output {
	t.Helper()
	s, err := newTestSink(t, c.log, kv...)
	if err != nil {
		t.Fatal(err)
	}
	if c.offer == (connectors.Offer{}) && !c.atLeastOnce {
		c.offer.Guarantee = connectors.ExactlyOnce
	}
	if c.stash == nil {
		c.stash = &connectortest.Stash{}
	}
	if c.store == nil {
		c.store = c.stash
	}
	if c.incarnation == 0 {
		c.incarnation = 77
	}
	com, err := s.Open(t.Context(), connectors.WriteRequest{
		Query: "q", Sink: "out", Incarnation: messages.ID128{Hi: c.incarnation}, Attempt: max(c.attempt, 1), Schema: numbers(), Offer: c.offer,
		Stash: c.store, KeyColumns: c.keys, AcceptDuplicates: c.accept,
	})
	if err != nil {
		t.Fatal(err)
	}
	o := &output{t: t, com: com, stash: c.stash, builder: messages.NewBuilder(numbers()), epoch: c.epoch, last: c.last}
	switch com := com.(type) {
	case *committer:
		o.c = com
	case *epochCommitter:
		o.c = com.committer
	case *transactionCommitter:
		o.c = com.committer
	}
	t.Cleanup(o.close)
	return o
}

func openOutput(t testing.TB, c outputConfig, kv ...string) *output {
	t.Helper()
	o := tryOutput(t, c, kv...)
	o.recover(c)
	return o
}

// recover recovers the committer and opens the writers.
func (o *output) recover(c outputConfig) {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), 20*time.Second)
	defer cancel()
	if err := o.com.Recover(ctx, c.epoch, c.last); err != nil {
		o.t.Fatal(err)
	}
	for i := range max(c.subtasks, 1) {
		w, err := o.com.Writer(o.t.Context(), i, max(c.subtasks, 1))
		if err != nil {
			o.t.Fatal(err)
		}
		o.writers = append(o.writers, w)
	}
}

func (o *output) close() {
	if o.c != nil {
		if err := o.com.Close(); err != nil {
			o.t.Error(err)
		}
		// Nothing may rest on the duplicate window, which is longer than these
		// tests are slow.
		if n := o.c.duplicates.Load(); n > 0 && o.c.exact {
			o.t.Errorf("%d rows were published although they were in the stream", n)
		}
		o.c = nil
	}
}

func rowID(n int64) messages.ID128 {
	return messages.ID128{Hi: 0xabcdef, Lo: uint64(n)}
}

// try writes rows [from, to) to a subtask.
func (o *output) try(subtask, from, to int) error {
	var ids []messages.ID128
	for n := from; n < to; n++ {
		o.builder.Column(0).AppendInt64(int64(n))
		o.builder.EndRow()
		ids = append(ids, rowID(int64(n)))
	}
	if from == to {
		return nil
	}
	b := o.builder.Finish()
	defer b.Release()
	ctx, cancel := context.WithTimeout(o.t.Context(), 30*time.Second)
	defer cancel()
	return o.writers[subtask].Write(ctx, b, ids)
}

func (o *output) write(subtask, from, to int) {
	o.t.Helper()
	if err := o.try(subtask, from, to); err != nil {
		o.t.Fatal(err)
	}
}

// prepare ends an epoch up to the commit record.
func (o *output) prepare() connectors.Token {
	o.t.Helper()
	o.epoch++
	o.com.Begin(o.epoch)
	return o.finish(o.cut(o.epoch))
}

func (o *output) cut(e messages.Epoch) []connectors.Flush {
	o.t.Helper()
	var fs []connectors.Flush
	for _, w := range o.writers {
		f, err := w.Cut(e)
		if err != nil {
			o.t.Fatal(err)
		}
		fs = append(fs, f)
	}
	return fs
}

func (o *output) finish(fs []connectors.Flush) connectors.Token {
	o.t.Helper()
	tok, err := o.tryFinish(fs)
	if err != nil {
		o.t.Fatal(err)
	}
	return tok
}

func (o *output) tryFinish(fs []connectors.Flush) (connectors.Token, error) {
	ctx, cancel := context.WithTimeout(o.t.Context(), 30*time.Second)
	defer cancel()
	var toks []connectors.Token
	for _, f := range fs {
		tok, err := f(ctx)
		if err != nil {
			return nil, err
		}
		toks = append(toks, tok)
	}
	return o.com.Prepare(ctx, o.epoch, toks)
}

// commit ends an epoch.
func (o *output) commit() {
	o.t.Helper()
	o.last = o.prepare()
	o.stash.Commit(o.epoch)
	if err := o.com.Commit(o.t.Context(), o.epoch, o.last); err != nil {
		o.t.Fatal(err)
	}
}

// stored reads column n of every message of a stream, in order.
func stored(t testing.TB, js jetstream.JetStream, name string) []int64 {
	t.Helper()
	var got []int64
	for _, data := range payloads(t, js, name) {
		var row struct{ N int64 }
		if err := stdjson.Unmarshal(data, &row); err != nil {
			t.Fatalf("%q: %v", data, err)
		}
		got = append(got, row.N)
	}
	return got
}

// payloads reads every message of a stream but markers, in order.
func payloads(t testing.TB, js jetstream.JetStream, name string) [][]byte {
	t.Helper()
	s, err := js.Stream(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	var got [][]byte
	state := s.CachedInfo().State
	if state.Msgs == 0 {
		return nil
	}
	cons, err := js.OrderedConsumer(t.Context(), name, jetstream.OrderedConsumerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	it, err := cons.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	for range state.Msgs {
		m, err := it.Next(jetstream.NextMaxWait(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(m.Subject(), "streamd.") {
			got = append(got, m.Data())
		}
	}
	return got
}

// wantOnce checks that the stream holds each of the numbers [from, to) once, in
// any order.
func wantOnce(t testing.TB, got []int64, from, to int) {
	t.Helper()
	count := map[int64]int{}
	for _, n := range got {
		count[n]++
	}
	var lost, twice, foreign []int64
	for n := int64(from); n < int64(to); n++ {
		if count[n] == 0 {
			lost = append(lost, n)
		}
		if count[n] > 1 {
			twice = append(twice, n)
		}
		delete(count, n)
	}
	for n := range count {
		foreign = append(foreign, n)
	}
	slices.Sort(foreign)
	if len(lost)+len(twice)+len(foreign) > 0 {
		t.Errorf("lost %s, twice %s, unexpected %s", brief(lost), brief(twice), brief(foreign))
	}
}

func brief(s []int64) string {
	if len(s) > 10 {
		return fmt.Sprintf("%d rows: %v...", len(s), s[:10])
	}
	return fmt.Sprintf("%d rows: %v", len(s), s)
}

// idOf is an independent way to write the identity of a row.
func idOf(n int64) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], 0xabcdef)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	return fmt.Sprintf("%x", b)
}
