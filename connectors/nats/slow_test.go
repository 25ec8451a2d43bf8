package nats

import (
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
)

// slowLine forwards connections to a server and lets bytes from it through at the
// given rate. It returns its address.
func slowLine(t *testing.T, server string, bytesPerSecond int) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var conns []net.Conn
	wg.Go(func() {
		for {
			in, err := l.Accept()
			if err != nil {
				return // the test is over
			}
			out, err := net.Dial("tcp", server)
			if err != nil {
				_ = in.Close() // the server is gone
				continue
			}
			mu.Lock()
			conns = append(conns, in, out)
			mu.Unlock()
			wg.Go(func() { _, _ = io.Copy(out, in) }) // ends with either side
			wg.Go(func() { trickle(in, out, bytesPerSecond) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close() // ends Accept
		mu.Lock()
		for _, c := range conns {
			_ = c.Close() // ends the copies
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// trickle copies in steps of at most a fiftieth of a second.
func trickle(to io.Writer, from io.Reader, bytesPerSecond int) {
	buf := make([]byte, bytesPerSecond/50)
	pause := time.NewTimer(0)
	defer pause.Stop()
	<-pause.C
	var next time.Time
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil {
			return
		}
		if now := time.Now(); next.Before(now.Add(-time.Second)) {
			next = now // the line was idle
		}
		// On a busy machine reads give little and timers are late: the rate holds.
		next = next.Add(time.Duration(n) * time.Second / time.Duration(bytesPerSecond))
		pause.Reset(time.Until(next))
		<-pause.C
	}
}

// TestALargeMessageOnASlowLineArrives: the message takes longer than signs of life
// from the server may be missing, and they wait behind it.
func TestALargeMessageOnASlowLineArrives(t *testing.T) {
	if testing.Short() {
		t.Skip("takes as long as the line is slow")
	}
	b := newBroker(t)
	b.stop()
	b.opts.MaxPayload = 20 << 20
	b.start()
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}})
	publish(t, js, "in.a", 0, 1)
	big := []byte(`{"n":1,"x":"` + strings.Repeat("x", 10<<20) + `"}`)
	if _, err := js.Publish(t.Context(), "in.a", big); err != nil {
		t.Fatal(err)
	}
	publish(t, js, "in.a", 2, 3)
	line := slowLine(t, strings.TrimPrefix(b.url(), "nats://"), 1<<20)
	in := openInput(t, inputConfig{policy: connectors.FailOnError}, "url", "nats://"+line, "stream", "IN", "max_record_size", "16MiB")
	in.until(in.caughtUp)
	if diff := cmp.Diff([]int64{0, 1, 2}, in.got); diff != "" {
		t.Error(diff)
	}
}
