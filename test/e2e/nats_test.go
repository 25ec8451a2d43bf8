package e2e

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/internal/freeport"
)

// broker is a NATS server that can go away and come back on the same port.
type broker struct {
	t    testing.TB
	opts natsd.Options
	srv  *natsd.Server
}

// newBroker takes a port without starting the server.
func newBroker(t testing.TB) *broker {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	b := &broker{t: t, opts: natsd.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true}}
	t.Cleanup(b.down)
	return b
}

func (b *broker) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", b.opts.Port) }

func (b *broker) up() jetstream.JetStream {
	b.t.Helper()
	o := b.opts
	srv, err := natsd.NewServer(&o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = srv
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		b.t.Fatal("the NATS server did not start")
	}
	nc, err := nats.Connect(b.url(), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		b.t.Fatal(err)
	}
	return js
}

func (b *broker) down() {
	if b.srv != nil {
		b.srv.Shutdown()
		b.srv.WaitForShutdown()
		b.srv = nil
	}
}

func (b *broker) stream(js jetstream.JetStream, name string) {
	b.t.Helper()
	if _, err := js.CreateStream(b.t.Context(), jetstream.StreamConfig{Name: name, Subjects: []string{strings.ToLower(name) + ".>"}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *broker) publish(js jetstream.JetStream, payloads ...string) {
	b.t.Helper()
	for _, p := range payloads {
		if _, err := js.Publish(b.t.Context(), "in.x", []byte(p)); err != nil {
			b.t.Fatal(err)
		}
	}
}

// rows returns the payloads of a stream, at least n of them.
func (b *broker) rows(js jetstream.JetStream, name string, n int) []string {
	b.t.Helper()
	var s jetstream.Stream
	eventually(b.t, fmt.Sprintf("%d messages in %s", n, name), func() bool {
		var err error
		s, err = js.Stream(b.t.Context(), name)
		return err == nil && int(s.CachedInfo().State.Msgs) >= n
	})
	var out []string
	for i := s.CachedInfo().State.FirstSeq; i <= s.CachedInfo().State.LastSeq; i++ {
		m, err := s.GetMsg(b.t.Context(), i)
		if err != nil {
			b.t.Fatal(err)
		}
		out = append(out, string(m.Data))
	}
	return out
}

// copies is a script that copies stream IN to stream OUT.
func (b *broker) copies(source, sink string) string {
	return fmt.Sprintf(`CREATE SOURCE s (id BIGINT) WITH (connector = 'nats', url = '%[1]s', stream = 'IN', subject = 'in.>', format = 'json', start = 'earliest'%[2]s);
CREATE SINK k WITH (connector = 'nats', url = '%[1]s', stream = 'OUT', subject = 'out.x', format = 'json', guarantee = 'exactly_once'%[3]s);
SET epoch_interval = '50ms';
CREATE QUERY copy AS INSERT INTO k SELECT id FROM s;`, b.url(), source, sink)
}

func TestNATSMayBeAwayAtTheStartAndLater(t *testing.T) {
	long(t)
	b := newBroker(t)
	p := here(t, b.copies("", ", create = true"))
	x := p.start(t, "run", "q.sql", "--http", "127.0.0.1:0")
	addr := x.says(`address=(http://\S+)`)
	retrying := func() bool {
		code, body := get(t, addr+"/readyz")
		q := tryQuery(addr, "copy")
		return code == 503 && strings.Contains(body, "retrying: ") && strings.Contains(body, "connect to nats server") && q != nil && q.Status.State == "retrying"
	}
	ready := func() bool { code, _ := get(t, addr+"/readyz"); return code == 200 }
	eventually(t, "the sink to wait at the start", retrying)
	js := b.up()
	b.stream(js, "IN")
	b.publish(js, `{"id":1}`)
	b.rows(js, "OUT", 1)
	eventually(t, "readiness", ready)
	b.down()
	eventually(t, "source and sink to wait", retrying)
	js = b.up()
	b.publish(js, `{"id":2}`)
	got := b.rows(js, "OUT", 2)
	if d := cmp.Diff([]string{`{"id":1}`, `{"id":2}`}, got); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	eventually(t, "readiness", ready)
	x.stop()
}

func TestASecondSignalEndsADrainThatCannotEnd(t *testing.T) {
	long(t)
	first := map[os.Signal]os.Signal{os.Interrupt: syscall.SIGTERM, syscall.SIGTERM: os.Interrupt}
	for s, code := range map[os.Signal]int{os.Interrupt: 130, syscall.SIGTERM: 143} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			js := b.up()
			b.stream(js, "IN")
			b.publish(js, `{"id":1}`)
			p := here(t, b.copies("", ", create = true"))
			x := p.start(t, "run", "q.sql", "--http", "127.0.0.1:0")
			addr := x.says(`address=(http://\S+)`)
			query(t, addr, "copy")
			b.down()
			eventually(t, "the loss to be noticed", func() bool { q := tryQuery(addr, "copy"); return q != nil && q.Status.State == "retrying" })
			x.signal(first[s])
			x.says("draining; a second signal ends at once")
			x.signal(s)
			x.ends(code)
			x = p.start(t, "run", "q.sql", "--shutdown-timeout", "100ms")
			x.says("waits for the server")
			x.signal(s)
			x.wait()
			js = b.up()
			b.publish(js, `{"id":2}`)
			x = p.start(t, "run", "q.sql")
			if d := cmp.Diff([]string{`{"id":1}`, `{"id":2}`}, b.rows(js, "OUT", 2)); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			x.stop()
		})
	}
}

func TestADrainThatTakesTooLongFails(t *testing.T) {
	long(t)
	b := newBroker(t)
	js := b.up()
	b.stream(js, "IN")
	b.publish(js, `{"id":1}`)
	x := here(t, b.copies("", ", create = true")).start(t, "run", "q.sql", "--shutdown-timeout", "300ms", "--http", "127.0.0.1:0")
	addr := x.says(`address=(http://\S+)`)
	query(t, addr, "copy")
	b.down()
	eventually(t, "the loss to be noticed", func() bool { q := tryQuery(addr, "copy"); return q != nil && q.Status.State == "retrying" })
	x.signal(syscall.SIGTERM)
	x.ends(1, "did not drain in time", "sink:k: connect to nats server")
	if n := strings.Count(x.err.String(), "sink commit, trying again"); n > 3 {
		t.Errorf("the same trouble is logged %d times", n)
	}
}

func TestStreamsThatAreNotAsExpected(t *testing.T) {
	long(t)
	b := newBroker(t)
	js := b.up()
	strict, lenient := b.copies("", ", create = true"), b.copies(", on_data_loss = 'warn'", ", create = true")
	p := here(t, strict)
	run := func(want int, texts ...string) {
		t.Helper()
		p.run(t, "run", "q.sql", "--available-now").ends(want, texts...)
	}
	p.write(t, "q.sql", b.copies("", ""))
	run(1, "stream OUT does not exist; make it with: nats stream add OUT --subjects 'out.x'", "create = true")
	p.write(t, "q.sql", strict)
	run(1, "stream IN does not exist; make it with: nats stream add IN --subjects 'in.>'")
	b.stream(js, "IN")
	b.publish(js, `{"id":1}`, `{"id":2}`, `{"id":3}`)
	run(0)
	b.publish(js, `{"id":4}`, `{"id":5}`)
	in, err := js.Stream(t.Context(), "IN")
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Purge(t.Context(), jetstream.WithPurgeSequence(5)); err != nil {
		t.Fatal(err)
	}
	run(1, "stream IN: messages 4 to 4 were removed before they were read", "on_data_loss = 'warn'")
	p.write(t, "q.sql", lenient)
	run(0, "messages were removed from the stream before they were read")
	p.write(t, "q.sql", strict)
	if err := js.DeleteStream(t.Context(), "IN"); err != nil {
		t.Fatal(err)
	}
	b.stream(js, "IN")
	run(3, "stream IN was deleted and re-created")
	p.write(t, "q.sql", lenient)
	b.publish(js, `{"id":6}`)
	run(0, "stream was re-created; reading it from its first message")
	if d := cmp.Diff([]string{`{"id":1}`, `{"id":2}`, `{"id":3}`, `{"id":5}`, `{"id":6}`}, b.rows(js, "OUT", 5)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	p.write(t, "q.sql", strings.Replace(strict, "earliest", "seq:500", 1))
	p.run(t, "run", "q.sql", "--available-now", "--dir", "new").ends(1, "stream IN ends at sequence 1, before 500")
	p.write(t, "q.sql", strings.Replace(strict, "subject = 'out.x'", "subject = 'in.y'", 1))
	p.run(t, "run", "q.sql", "--available-now", "--dir", "other").ends(1, "stream OUT does not take subject in.y", "nats stream edit OUT")
	if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
		t.Fatal(err)
	}
	p.write(t, "q.sql", lenient)
	run(1, "exactly_once: stream OUT ")
}

func TestDeadLettersInAStream(t *testing.T) {
	t.Parallel()
	b := newBroker(t)
	js := b.up()
	b.stream(js, "IN")
	b.publish(js, `{"id":1}`, `{"id":`, `{"id":0}`)
	p := here(t, fmt.Sprintf("CREATE SINK bad WITH (connector = 'nats', url = '%s', stream = 'BAD', subject = 'bad.{query}', format = 'json', create = true);\n", b.url())+
		strings.Replace(b.copies(", on_error = 'dead_letter', dead_letter = 'bad'", ", create = true"), "SELECT id", "SELECT 10 div id AS id", 1))
	p.run(t, "run", "q.sql", "--available-now").ends(0)
	if d := cmp.Diff([]string{`{"id":10}`}, b.rows(js, "OUT", 1)); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	letters := strings.Join(b.rows(js, "BAD", 2), "\n")
	for _, want := range []string{`"origin":"stream IN sequence 2 subject in.x"`, `"payload":"{\"id\":"`, "division by zero", `"payload":"{\"id\":0}"`} {
		if !strings.Contains(letters, want) {
			t.Errorf("no %s in:\n%s", want, letters)
		}
	}
}
