package nats

import (
	"fmt"
	"slices"
	"syscall"
	"testing"
	"time"

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

// BenchmarkLatency publishes 10,000 messages a second and measures from the
// due time of each to the return of the Read that holds it. The server is
// another process.
func BenchmarkLatency(b *testing.B) {
	const rate = 10_000
	c := newChild(b)
	js, nc := c.client()
	stream(b, js, jetstream.StreamConfig{Name: "IN", Subjects: []string{"in"}})
	in := openInput(b, inputConfig{}, "url", c.url(), "stream", "IN")
	in.until(in.caughtUp)
	late := make([]time.Duration, 0, b.N)
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
				err = nc.Publish("in", fmt.Appendf(nil, `{"n":%d}`, i))
			}
			if i < b.N {
				<-tick.C
			}
		}
		done <- err
	}()
	for len(in.got) < b.N {
		if err := in.read(b.Context()); err != nil {
			b.Fatal(err)
		}
		now := time.Now()
		for len(late) < len(in.got) {
			late = append(late, now.Sub(due(int(in.got[len(late)]))))
		}
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

// BenchmarkPublish publishes rows exactly once, in batches of 256, with an epoch
// every 50,000. The server is another process; cpu is that of this one.
func BenchmarkPublish(b *testing.B) {
	for _, subject := range []string{"out.all", "out.{n}"} {
		b.Run(subject, func(b *testing.B) {
			c := newChild(b)
			js, _ := c.client()
			stream(b, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}})
			o := openOutput(b, outputConfig{}, "url", c.url(), "stream", "OUT", "subject", subject)
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
				if at/50_000 != (at+n)/50_000 {
					o.commit()
				}
				at += n
			}
			o.commit()
			b.ReportMetric(float64(b.N)/(cpu(b)-used).Seconds(), "rows/cpu-s")
		})
	}
}

var _ connectors.Committer = (*committer)(nil)
