package e2e

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// TestAQueueIsReadOnceAcrossKills: a stream that forgets what is acknowledged, read
// by two partitions, copied exactly once by a process that is killed again and
// again and drained in the end, which leaves nothing behind.
func TestAQueueIsReadOnceAcrossKills(t *testing.T) {
	long(t)
	for _, retention := range []jetstream.RetentionPolicy{jetstream.WorkQueuePolicy, jetstream.InterestPolicy} {
		t.Run(strings.ToLower(retention.String()), func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			js := b.up()
			in, err := js.CreateStream(t.Context(), jetstream.StreamConfig{Name: "IN", Subjects: []string{"in.>"}, Retention: retention})
			if err != nil {
				t.Fatal(err)
			}
			script := strings.Replace(b.copies("", ", create = true"), "subject = 'in.>'", "filters = 'in.a,in.b'", 1)
			p := here(t, script)
			const cycles, rows = 4, 300
			for cycle := range cycles {
				x := p.start(t, "run", "q.sql")
				eventually(t, "the consumers", func() bool { return len(consumersOf(t, in)) == 2 })
				for i := range rows {
					id := cycle*rows + i
					if _, err := js.PublishAsync([]string{"in.a", "in.b"}[id%2], fmt.Appendf(nil, `{"id":%d}`, id)); err != nil {
						t.Fatal(err)
					}
				}
				<-js.PublishAsyncComplete()
				b.rows(js, "OUT", cycle*rows+rows/3)
				x.signal(syscall.SIGKILL)
				x.wait()
			}
			x := p.start(t, "run", "q.sql")
			got := b.rows(js, "OUT", cycles*rows)
			x.stop()
			got = b.rows(js, "OUT", len(got))
			want := make([]string, cycles*rows)
			for i := range want {
				want[i] = fmt.Sprintf(`{"id":%d}`, i)
			}
			slices.Sort(want)
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			info, err := in.Info(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if info.State.Msgs != 0 {
				t.Errorf("%d messages left in the stream, want 0", info.State.Msgs)
			}
			for _, c := range consumersOf(t, in) {
				if c.NumAckPending != 0 {
					t.Errorf("consumer %s: %d messages not acknowledged", c.Name, c.NumAckPending)
				}
			}
		})
	}
}

func consumersOf(t *testing.T, s jetstream.Stream) []*jetstream.ConsumerInfo {
	t.Helper()
	var all []*jetstream.ConsumerInfo
	l := s.ListConsumers(t.Context())
	for i := range l.Info() {
		all = append(all, i)
	}
	if err := l.Err(); err != nil {
		t.Fatal(err)
	}
	return all
}
