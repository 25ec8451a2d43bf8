package nats

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages/fault"
)

// atEnd makes the next row name the end of the stream, as that of a process that
// was replaced may do by chance.
func (o *output) atEnd(s jetstream.Stream) {
	o.t.Helper()
	info, err := s.Info(o.t.Context())
	if err != nil {
		o.t.Fatal(err)
	}
	o.c.order.mu.Lock()
	defer o.c.order.mu.Unlock()
	o.c.order.last = info.State.LastSeq
}

// TestExclusiveZombie: rows of an attempt that was replaced are refused, even when
// they fit the end of the stream.
func TestExclusiveZombie(t *testing.T) {
	for _, offer := range []connectors.Offer{{Guarantee: connectors.ExactlyOnce}, perEpoch} {
		t.Run(offer.Visibility.String(), func(t *testing.T) {
			b := newBroker(t)
			js, _ := b.client()
			s := exclusiveStream(t, js)
			zombie := openOutput(t, outputConfig{attempt: 1, offer: offer}, exclusiveOptions(b)...)
			zombie.write(0, 0, 10)
			zombie.commit()
			c := outputConfig{attempt: 2, offer: offer, epoch: 1, last: zombie.last, stash: zombie.stash}
			o := openOutput(t, c, exclusiveOptions(b)...)
			o.write(0, 10, 20)
			o.commit()
			zombie.c.lease.renew(zombie.c.lease.now() + time.Hour) // it looks at nothing
			zombie.atEnd(s)
			if offer == perEpoch {
				enc, err := zombie.c.sink.encoder(numbers())
				if err != nil {
					t.Fatal(err)
				}
				w, err := zombie.c.addWriter(1, rowEncoder{subject: zombie.c.sink.subject, enc: enc})
				if err != nil {
					t.Fatal(err)
				}
				zombie.writers[0] = w
			}
			_, err := zombie.untilError(10)
			wantFault(t, err, fault.Config, classFenced, "attempt 2")
			o.write(0, 20, 30)
			o.commit()
			wantOnce(t, stored(t, js, "OUT"), 0, 30)
		})
	}
}

// TestExclusiveFenceIsRaced: an attempt that wakes up between taking the marker and
// putting its fence there, behind its successor, does not get through.
func TestExclusiveFenceIsRaced(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	exclusiveStream(t, js)
	zombie := openOutput(t, outputConfig{attempt: 1}, exclusiveOptions(b)...)
	o := openOutput(t, outputConfig{attempt: 2}, exclusiveOptions(b)...)
	wantFault(t, zombie.c.putFence(t.Context(), zombie.c.link), fault.Config, classFenced, "attempt 2")
	_, err := zombie.c.link.writeMarker(t.Context(), zombie.c.fencePlace(), zombie.c.newMarker(0, 0), 1) // it has read the first one
	if !isWrongLast(err) {
		t.Errorf("the old fence was replaced once more: %v", err)
	}
	o.write(0, 0, 10)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 10)
}

// TestExclusiveFenceIsRemoved: limits of the stream may remove the fence; rows come
// through all the same.
func TestExclusiveFenceIsRemoved(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := exclusiveStream(t, js)
	o := openOutput(t, outputConfig{subtasks: 2}, exclusiveOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	for i := 1; i < 4; i++ {
		if err := s.Purge(t.Context(), jetstream.WithPurgeSubject(fenceSubjects+">")); err != nil {
			t.Fatal(err)
		}
		o.write(i%2, i*10, i*10+10)
		o.commit()
	}
	wantOnce(t, stored(t, js, "OUT"), 0, 40)
}

// TestExclusiveReconnects: what a lost connection may still deliver lies behind a
// new fence.
func TestExclusiveReconnects(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	s := exclusiveStream(t, js)
	o := openOutput(t, outputConfig{}, exclusiveOptions(b)...)
	o.write(0, 0, 10)
	o.c.link.nc.Close()
	o.write(0, 10, 20)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 20)
	m, err := s.GetLastMsgForSubject(t.Context(), fenceSubjects+">")
	if err != nil || m.Sequence == 1 {
		t.Errorf("the last fence is %+v (%v)", m, err)
	}
}

func TestExclusiveNeedsASubjectForFences(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := tryOutput(t, outputConfig{}, exclusiveOptions(b)...)
	wantFault(t, o.com.Recover(t.Context(), 0, nil), fault.Config, classSubject, "nats stream edit OUT --subjects 'out.>,streamd.fences.q.out'")
	if err := js.DeleteStream(t.Context(), "OUT"); err != nil {
		t.Fatal(err)
	}
	o = openOutput(t, outputConfig{}, append(exclusiveOptions(b), "create", "true")...)
	o.write(0, 0, 10)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 10)
}

func TestExclusiveNeedsAServerWithFences(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	exclusiveStream(t, js)
	o := tryOutput(t, outputConfig{}, exclusiveOptions(b)...)
	o.c.order.least = "99.1.0"
	wantFault(t, o.com.Recover(t.Context(), 0, nil), fault.Config, classVersion, "exclusive = true in a stream with one replica needs 99.1.0")
}

// TestExclusiveWithReplicas: a stream with several replicas takes one row for a
// fence at a time, so rows name none, and many are on their way.
func TestExclusiveWithReplicas(t *testing.T) {
	url := cluster(t)
	b := &broker{t: t}
	if _, err := fmt.Sscanf(strings.TrimPrefix(url, "nats://127.0.0.1:"), "%d", &b.opts.Port); err != nil {
		t.Fatal(err)
	}
	js, _ := b.client()
	cfg := jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>", fenceSubjects + ">"}, Replicas: 3, Duplicates: noWindow}
	var s jetstream.Stream
	for limit := time.Now().Add(30 * time.Second); ; {
		var err error
		if s, err = js.CreateStream(t.Context(), cfg); err == nil {
			break
		}
		if time.Now().After(limit) {
			t.Fatal(err)
		}
	}
	o := openOutput(t, outputConfig{subtasks: 2}, exclusiveOptions(b)...)
	o.write(0, 0, 500)
	o.write(1, 500, 1000)
	o.commit()
	wantOnce(t, stored(t, js, "OUT"), 0, 1000)
	m, err := s.GetMsg(t.Context(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if m.Header.Get(headerExpected) != "1" || m.Header.Get(headerFence) != "" {
		t.Errorf("a row has the header %v", m.Header)
	}
}

// cluster starts three servers and returns the address of one.
func cluster(t *testing.T) string {
	t.Helper()
	var ports []int
	var routes []string
	for range 3 {
		l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // only to find a port
		if err != nil {
			t.Fatal(err)
		}
		ports = append(ports, l.Addr().(*net.TCPAddr).Port)
		routes = append(routes, "nats://"+l.Addr().String())
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	var servers []*server.Server
	for i, port := range ports {
		srv, err := server.NewServer(&server.Options{
			ServerName: fmt.Sprintf("s%d", i), Host: "127.0.0.1", Port: -1, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
			Cluster: server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: port}, Routes: server.RoutesFromStr(strings.Join(routes, ",")),
		})
		if err != nil {
			t.Fatal(err)
		}
		srv.Start()
		t.Cleanup(func() { srv.Shutdown(); srv.WaitForShutdown() })
		servers = append(servers, srv)
	}
	for _, srv := range servers {
		if !srv.ReadyForConnections(20 * time.Second) {
			t.Fatal("nats-server is not ready")
		}
	}
	return servers[0].ClientURL()
}
