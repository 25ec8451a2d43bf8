package nats

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/format/json"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
)

// broker is a server in this process that can be stopped and started again on
// the same port and directory.
type broker struct {
	t    testing.TB
	opts server.Options
	srv  *server.Server
}

func newBroker(t testing.TB) *broker {
	b := &broker{t: t, opts: server.Options{Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	b.start()
	t.Cleanup(b.stop)
	return b
}

func (b *broker) start() {
	b.t.Helper()
	opts := b.opts
	srv, err := server.NewServer(&opts)
	if err != nil {
		b.t.Fatal(err)
	}
	srv.Start()
	if !srv.ReadyForConnections(20 * time.Second) {
		b.t.Fatal("nats-server is not ready")
	}
	b.srv = srv
	if b.opts.Port < 0 {
		_, err = fmt.Sscanf(strings.TrimPrefix(srv.ClientURL(), "nats://127.0.0.1:"), "%d", &b.opts.Port)
		if err != nil {
			b.t.Fatal(err)
		}
	}
}

func (b *broker) stop() {
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
		b.srv = nil
	}
}

func (b *broker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.opts.Port) }

// client returns a JetStream client of the test itself.
func (b *broker) client() (jetstream.JetStream, *nats.Conn) {
	b.t.Helper()
	nc, err := nats.Connect(b.url(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js, nc
}

// stream creates a stream with file storage.
func stream(t testing.TB, js jetstream.JetStream, cfg jetstream.StreamConfig) jetstream.Stream {
	t.Helper()
	s, err := js.CreateStream(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// publish publishes {"n":from} to {"n":to-1} on a subject.
func publish(t testing.TB, js jetstream.JetStream, subject string, from, to int) {
	t.Helper()
	var futures []jetstream.PubAckFuture
	for i := from; i < to; i++ {
		f, err := js.PublishAsync(subject, fmt.Appendf(nil, `{"n":%d}`, i))
		if err != nil {
			t.Fatal(err)
		}
		futures = append(futures, f)
	}
	for _, f := range futures {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			t.Fatal(err)
		case <-time.After(20 * time.Second):
			t.Fatal("publishing takes too long")
		}
	}
}

func values(t testing.TB, what string, opts []option.Option, kv []string) option.Values {
	t.Helper()
	var given []option.Given
	for i := 0; i < len(kv); i += 2 {
		given = append(given, option.Given{Key: kv[i], Value: kv[i+1], Pos: -1})
	}
	v, errs := option.Parse(what, opts, given)
	if len(errs) > 0 {
		t.Fatal(errs[0])
	}
	return v
}

// numbers is the schema of the rows of publish.
func numbers() *messages.Schema {
	return messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)})
}

// input is a source with one open reader.
type input struct {
	t      testing.TB
	src    connectors.Source
	reader connectors.Reader
	rows   *connectors.Rows
	next   connectors.Offset
	got    []int64
	status connectors.Status
}

type inputConfig struct {
	from      connectors.Offset
	partition string
	bounded   bool
	policy    connectors.OnError
	schema    *messages.Schema
	metadata  map[int]string
	log       *slog.Logger
	maxRows   int
	query     string
	run       uint64 // incarnation of the query
}

func openInput(t testing.TB, c inputConfig, kv ...string) *input {
	t.Helper()
	in, err := tryInput(t, c, kv...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(in.close)
	return in
}

func tryInput(t testing.TB, c inputConfig, kv ...string) (*input, error) {
	t.Helper()
	if c.schema == nil {
		c.schema = numbers()
	}
	rec := Connector()
	src, err := rec.Source(t.Context(), connectors.SourceConfig{
		Options: values(t, "nats source", rec.SourceOptions, kv), Schema: c.schema, MetadataColumns: c.metadata, Env: connectors.Env{Log: c.log},
	})
	if err != nil {
		return nil, err
	}
	skip := make([]bool, c.schema.Len())
	for i := range c.metadata {
		skip[i] = true
	}
	dec, err := json.Format().Decoder(format.Config{Schema: c.schema, Skip: skip, Options: values(t, "json", json.Format().Options, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if c.partition == "" {
		ps, err := src.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.partition = ps[0]
	}
	if c.maxRows == 0 {
		c.maxRows = 1024
	}
	r, err := src.Open(t.Context(), connectors.ReadRequest{Partition: c.partition, From: c.from, Bounded: c.bounded, MaxRows: c.maxRows, Query: c.query, Source: "source:in", Incarnation: messages.ID128{Lo: c.run}})
	if err != nil {
		return nil, err
	}
	return &input{t: t, src: src, reader: r, rows: connectors.NewRows(c.schema, dec, c.policy)}, nil
}

func (in *input) close() {
	if in.reader != nil {
		if err := in.reader.Close(); err != nil {
			in.t.Error(err)
		}
		in.reader = nil
	}
}

// read does one Read and collects column n.
func (in *input) read(ctx context.Context) error {
	in.rows.Reset()
	err := in.reader.Read(ctx, in.rows)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	in.status = in.rows.Status
	if len(in.rows.Next) > 0 {
		in.next = append(in.next[:0], in.rows.Next...)
	}
	if b := in.rows.Finish(); b != nil {
		for i := range b.Rows() {
			if !b.Column(0).IsNull(b.Row(i)) {
				in.got = append(in.got, b.Column(0).Int64s()[b.Row(i)])
			}
		}
		b.Release()
	}
	return err
}

// until reads until done holds.
func (in *input) until(done func() bool) {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), 30*time.Second)
	defer cancel()
	for !done() {
		if err := in.read(ctx); err != nil {
			in.t.Fatalf("read after %d rows, status %+v: %v", len(in.got), in.status, err)
		}
	}
}

// fails reads until an error comes.
func (in *input) fails() error {
	in.t.Helper()
	ctx, cancel := context.WithTimeout(in.t.Context(), 30*time.Second)
	defer cancel()
	for {
		if err := in.read(ctx); err != nil {
			if ctx.Err() != nil {
				in.t.Fatalf("no error; %d rows, status %+v", len(in.got), in.status)
			}
			return err
		}
	}
}

func (in *input) count(n int) func() bool { return func() bool { return len(in.got) >= n } }

func (in *input) caughtUp() bool { return in.status.State == connectors.CaughtUp }

func sequence(from, to int) []int64 {
	var s []int64
	for i := from; i < to; i++ {
		s = append(s, int64(i))
	}
	return s
}

func rowOf(b *messages.Batch, i int) []any { return format.RowAt(b, b.Row(i)) }
