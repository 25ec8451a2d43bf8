package nats

import (
	"fmt"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
)

// cpu is the time this process has used.
func cpu(t testing.TB) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLatency publishes 10,000 messages a second, in small bursts as the
// timer allows, and measures from the publishing of each to the return of the Read that holds it, and for comparison
// to the callback of an ordered consumer of nats.go, which decodes nothing. The
// server is another process.
func BenchmarkLatency(b *testing.B) {
	b.Run("Read", func(b *testing.B) {
		c := newChild(b)
		js, nc := c.client()
		stream(b, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
		in := openInput(b, inputConfig{}, "url", c.url(), "stream", "IN")
		in.until(in.caughtUp)
		latency(b, nc, func(seen func(n int64)) error {
			for at := 0; at < b.N; {
				if err := in.read(b.Context()); err != nil {
					return err
				}
				for ; at < len(in.got); at++ {
					seen(in.got[at])
				}
			}
			return nil
		})
	})
	b.Run("nats.go", func(b *testing.B) {
		c := newChild(b)
		js, nc := c.client()
		s := stream(b, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
		cons, err := s.OrderedConsumer(b.Context(), jetstream.OrderedConsumerConfig{})
		if err != nil {
			b.Fatal(err)
		}
		latency(b, nc, func(seen func(n int64)) error {
			done := make(chan struct{})
			n := int64(0)
			ctx, err := cons.Consume(func(jetstream.Msg) {
				seen(n)
				if n++; n == int64(b.N) {
					close(done)
				}
			})
			if err == nil {
				<-done
				ctx.Stop()
			}
			return err
		})
	})
}

// latency publishes b.N messages and reports when read has seen them.
func latency(b *testing.B, nc *nats.Conn, read func(seen func(n int64)) error) {
	const rate = 10_000
	late := make([]time.Duration, 0, b.N)
	sent := make([]atomic.Int64, b.N) // nanoseconds since start
	b.ResetTimer()
	start := time.Now()
	due := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second / rate) }
	done := make(chan error, 1)
	go func() {
		var err error
		tick := time.NewTicker(500 * time.Microsecond)
		defer tick.Stop()
		for i := 0; i < b.N && err == nil; {
			for ; i < b.N && !time.Now().Before(due(i)); i++ {
				sent[i].Store(int64(time.Since(start)))
				err = nc.Publish("in", fmt.Appendf(nil, `{"n":%d}`, i))
			}
			if i < b.N {
				<-tick.C
			}
		}
		done <- err
	}()
	if err := read(func(n int64) { late = append(late, time.Since(start)-time.Duration(sent[n].Load())) }); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	if err := <-done; err != nil {
		b.Fatal(err)
	}
	slices.Sort(late)
	for _, q := range []struct {
		name string
		at   float64
	}{{"p50-µs", 0.5}, {"p99-µs", 0.99}, {"p999-µs", 0.999}} {
		b.ReportMetric(float64(late[int(float64(len(late)-1)*q.at)].Microseconds()), q.name)
	}
	b.ReportMetric(0, "ns/op")
}

// BenchmarkRead reads a full stream as fast as it goes, decoding included. The
// server is another process; cpu is that of this one.
func BenchmarkRead(b *testing.B) {
	c := newChild(b)
	js, _ := c.client()
	stream(b, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
	publish(b, js, "in", 0, b.N)
	in := openInput(b, inputConfig{}, "url", c.url(), "stream", "IN")
	b.ReportAllocs()
	b.ResetTimer()
	used := cpu(b)
	for len(in.got) < b.N {
		if err := in.read(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N)/(cpu(b)-used).Seconds(), "rows/cpu-s")
}

// BenchmarkPublish publishes rows exactly once, in batches of 256, at once and per
// epoch. The server is another process; cpu is that of this one.
func BenchmarkPublish(b *testing.B) {
	atOnce := connectors.Offer{Guarantee: connectors.ExactlyOnce}
	for _, c := range []struct {
		name, subject string
		offer         connectors.Offer
		epoch         int // rows
		more          []string
	}{
		{"at_once", "out.all", atOnce, 50_000, nil},
		{"at_once", "out.{n}", atOnce, 50_000, nil},
		{"at_once/exclusive", "out.{n}", atOnce, 50_000, []string{"exclusive", "true"}},
		{"epoch", "out.{n}", perEpoch, 50_000, nil},
		{"epoch", "out.{n}", perEpoch, 1000, nil},
		{"transactional", "out.{n}", transactional, 768, nil},
	} {
		b.Run(fmt.Sprintf("%s/%s/%d", c.name, c.subject, c.epoch), func(b *testing.B) {
			s := newChild(b)
			js, _ := s.client()
			atomicStream(b, js, "OUT", "out.>")
			o := openOutput(b, outputConfig{offer: c.offer}, append([]string{"url", s.url(), "stream", "OUT", "subject", c.subject}, c.more...)...)
			ids := make([]messages.ID128, 256)
			b.ReportAllocs()
			b.ResetTimer()
			used := cpu(b)
			for at := 0; at < b.N; {
				n := min(256, b.N-at)
				for i := range n {
					o.builder.Column(0).AppendInt64(int64(at + i))
					o.builder.EndRow()
					ids[i] = messages.ID128{Hi: 1, Lo: uint64(at + i)}
				}
				batch := o.builder.Finish()
				if err := o.writers[0].Write(b.Context(), batch, ids[:n]); err != nil {
					b.Fatal(err)
				}
				batch.Release()
				if at/c.epoch != (at+n)/c.epoch {
					o.commit()
				}
				at += n
			}
			o.commit()
			b.ReportMetric(float64(b.N)/(cpu(b)-used).Seconds(), "rows/cpu-s")
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

var (
	_ connectors.Committer = (*committer)(nil)
	_ connectors.Committer = (*epochCommitter)(nil)
	_ connectors.Committer = (*transactionCommitter)(nil)
)
