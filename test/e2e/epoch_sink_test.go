package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestCountsPerEpoch writes a changing result to a stream through kills of the
// daemon and of the server: no version of a count comes twice or goes back, and the
// last ones are right.
func TestCountsPerEpoch(t *testing.T) {
	long(t)
	for _, guarantee := range []string{"exactly_once", "transactional"} {
		t.Run(guarantee, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			js := b.up()
			b.stream(js, "IN")
			p := here(t, fmt.Sprintf(`CREATE SOURCE bids (k BIGINT) WITH (connector = 'nats', url = '%[1]s', stream = 'IN', subject = 'in.>', format = 'json');
CREATE SINK counts WITH (connector = 'nats', url = '%[1]s', stream = 'OUT', subject = 'out.{k}', format = 'json', guarantee = '%[2]s', create = 'true');
SET epoch_interval = '20ms';
CREATE QUERY q WITH (output_mode = 'update') AS INSERT INTO counts SELECT k, count(*) AS n FROM bids GROUP BY k;`, b.url(), guarantee))
			want := map[int64]int64{}
			for i := range 4 {
				x := p.start(t, "run", "q.sql")
				for j := range 20 {
					var rows []string
					for n := range 25 {
						k := int64((n*7 + j) % 11)
						want[k]++
						rows = append(rows, fmt.Sprintf(`{"k":%d}`, k))
					}
					b.publish(js, rows...)
				}
				if i == 1 {
					b.down()
					js = b.up()
				}
				eventually(t, "the last counts to be right", func() bool { return maps.Equal(want, lastCounts(t, js)) })
				if i == 3 {
					x.stop()
					break
				}
				want[0]++
				b.publish(js, `{"k":0}`)
				x.signal(syscall.SIGKILL)
				<-x.done
			}
		})
	}
}

// lastCounts reads the output and checks that counts only grow.
func lastCounts(t *testing.T, js jetstream.JetStream) map[int64]int64 {
	t.Helper()
	last := map[int64]int64{}
	s, err := js.Stream(t.Context(), "OUT")
	if err != nil {
		return last // not made yet
	}
	cons, err := s.OrderedConsumer(t.Context(), jetstream.OrderedConsumerConfig{FilterSubjects: []string{"out.>"}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := cons.Info(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	it, err := cons.Messages()
	if err != nil {
		t.Fatal(err)
	}
	defer it.Stop()
	for range info.NumPending {
		m, err := it.Next(jetstream.NextMaxWait(10 * time.Second))
		if err != nil {
			t.Fatal(err)
		}
		var row struct{ K, N int64 }
		if err := json.Unmarshal(m.Data(), &row); err != nil {
			t.Fatal(err)
		}
		if row.N <= last[row.K] {
			t.Fatalf("key %d: count %d comes behind %d", row.K, row.N, last[row.K])
		}
		last[row.K] = row.N
	}
	return last
}
