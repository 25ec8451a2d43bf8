package e2e

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go/jetstream"
)

// hotItems is the query of the contract, into a bucket.
func (b *broker) hotItems(key, sink string) string {
	return fmt.Sprintf(`CREATE SOURCE bids (auction BIGINT, price BIGINT, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 4 SECONDS)
WITH (connector = 'nats', url = '%[1]s', stream = 'IN', subject = 'in.>', format = 'json');
CREATE SINK hot WITH (connector = 'nats', url = '%[1]s', bucket = 'HOT', key = '%[2]s', format = 'json'%[3]s);
SET epoch_interval = '50ms';
CREATE QUERY hot_items WITH (output_mode = 'update') AS
INSERT INTO hot
SELECT auction, window.start AS start, window.end AS end, count(*) AS n, max(price) AS top
FROM bids GROUP BY auction, window(ts, '10 seconds', '2 seconds');`, b.url(), key, sink)
}

// hotItem is a value in the bucket.
type hotItem struct {
	Auction    int64
	Start, End time.Time
	N, Top     int64
}

// bids makes input and, in a way of its own, what the bucket has to hold for it.
type bids struct {
	n    int
	want map[string]hotItem
}

// next makes n more rows, one each 300 ms of event time.
func (g *bids) next(n int) []string {
	var out []string
	if g.want == nil {
		g.want = map[string]hotItem{}
	}
	origin := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for range n {
		at := origin.Add(time.Duration(g.n) * 300 * time.Millisecond)
		auction, price := int64(g.n*7%5), int64(g.n*31%97)
		out = append(out, fmt.Sprintf(`{"auction":%d,"price":%d,"ts":"%s"}`, auction, price, at.Format(time.RFC3339Nano)))
		for s := origin.Add(-10 * time.Second); !s.After(at); s = s.Add(2 * time.Second) {
			if s.Add(10 * time.Second).After(at) {
				key := fmt.Sprintf("%d.%s", auction, strings.NewReplacer(":", "=3A", ".", "=2E").Replace(s.Format("2006-01-02T15:04:05.000000Z")))
				item := g.want[key]
				g.want[key] = hotItem{auction, s, s.Add(10 * time.Second), item.N + 1, max(item.Top, price)}
			}
		}
		g.n++
	}
	return out
}

// items reads the bucket.
func items(t testing.TB, kv jetstream.KeyValue) map[string]hotItem {
	t.Helper()
	got := map[string]hotItem{}
	l, err := kv.ListKeys(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for k := range l.Keys() {
		e, err := kv.Get(t.Context(), k)
		if err != nil {
			t.Fatal(err)
		}
		var x hotItem
		if err := json.Unmarshal(e.Value(), &x); err != nil {
			t.Fatalf("%s: %q: %v", k, e.Value(), err)
		}
		got[k] = x
	}
	return got
}

func TestHotItemsInABucket(t *testing.T) {
	long(t)
	for name, sink := range map[string]string{"at once": "", "per epoch": ", guarantee = 'exactly_once', visibility = 'epoch'"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			js := b.up()
			b.stream(js, "IN")
			kv, err := js.CreateKeyValue(t.Context(), jetstream.KeyValueConfig{Bucket: "HOT"})
			if err != nil {
				t.Fatal(err)
			}
			var g bids
			p := here(t, b.hotItems("{auction}.{start}", sink))
			for i := range 3 { // killed twice, drained once
				x := p.start(t, "run", "q.sql")
				b.publish(js, g.next(40)...)
				if i == 1 {
					b.down()
					js = b.up()
					if kv, err = js.KeyValue(t.Context(), "HOT"); err != nil {
						t.Fatal(err)
					}
					b.publish(js, g.next(40)...)
				}
				eventually(t, "the bucket to hold the right values", func() bool { return maps.Equal(g.want, items(t, kv)) })
				b.publish(js, g.next(20)...)
				if i < 2 {
					x.signal(syscall.SIGKILL)
					<-x.done
					continue
				}
				x.stop()
			}
			p.run(t, "run", "q.sql", "--available-now").ends(0)
			if d := cmp.Diff(g.want, items(t, kv)); d != "" {
				t.Errorf("bucket (-want +got):\n%s", d)
			}
		})
	}
}

func TestBucketsThatDoNotFit(t *testing.T) {
	long(t)
	b := newBroker(t)
	js := b.up()
	b.stream(js, "IN")
	p := here(t, b.hotItems("{auction}.{start}", ""))
	x := p.run(t, "explain", "q.sql")
	x.ends(0)
	if text := x.out.String(); !strings.Contains(text, "converges, at_once: the key tells the groups apart") {
		t.Errorf("EXPLAIN does not show the guarantee:\n%s", text)
	}
	p.run(t, "run", "q.sql", "--available-now").ends(1, "bucket HOT does not exist; make it with: nats kv add HOT", "create = true")
	p.write(t, "q.sql", b.hotItems("{auction}", ""))
	p.run(t, "run", "q.sql").ends(2, "the key lacks grouping column start", "add {start} to the key")
	p.write(t, "q.sql", b.hotItems("{auction}{start}", ""))
	p.run(t, "run", "q.sql").ends(2, "put a dot between {auction} and {start}")
	p.write(t, "q.sql", b.hotItems("{auction}.{start}", ", create = true"))
	p.run(t, "run", "q.sql", "--available-now").ends(0)
	if _, err := js.KeyValue(t.Context(), "HOT"); err != nil {
		t.Errorf("the bucket was not made: %v", err)
	}
}
