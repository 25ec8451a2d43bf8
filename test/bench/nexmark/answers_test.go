package nexmark_test

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/load"
	"github.com/streamd-io/streamd/test/bench/nexmark"
)

const (
	events = 20_000
	rate   = 1_000 // 20 s of event time: several windows close
)

var base = time.Date(2026, 3, 1, 7, 59, 50, 0, time.UTC).UnixMicro()

// bid is a bid as the batch recomputation sees it.
type bid struct {
	auction, bidder, price int64
	channel, url, extra    string
	at, arrival            time.Time
}

// bids makes the bids of the stream, in order of their arrival.
func bids(group uint64) []bid {
	g, s := nexmark.New(nexmark.Config{Base: base, Rate: rate, Group: group}), load.Schedule{Start: base, Rate: rate}
	var out []bid
	for i := range uint64(events) {
		if ev := g.Event(i); ev.Kind == nexmark.BidEvent {
			out = append(out, bid{
				ev.Auction, ev.Bidder, ev.Price, ev.Channel, ev.URL, string(ev.Extra),
				time.UnixMicro(ev.Time).UTC(), time.UnixMicro(s.Due(i)).UTC(),
			})
		}
	}
	return out
}

// milli writes 0.908 times a whole number.
func milli(price int64) string { return fmt.Sprintf("%d.%03d", price*908/1000, price*908%1000) }

func row(values ...any) string { return fmt.Sprint(values...) }

// each makes a row of every bid that f accepts.
func each(all []bid, f func(b bid) (string, bool)) []string {
	var out []string
	for _, b := range all {
		if r, ok := f(b); ok {
			out = append(out, r)
		}
	}
	return out
}

// answers recompute the queries from the list of bids.
var answers = map[string]func(all []bid) []string{
	"q0": func(all []bid) []string {
		return each(all, func(b bid) (string, bool) { return row(b.auction, b.bidder, b.price, b.at, b.extra), true })
	},
	"q1": func(all []bid) []string {
		return each(all, func(b bid) (string, bool) {
			return row(b.auction, b.bidder, milli(b.price), b.at, b.extra), true
		})
	},
	"q2": func(all []bid) []string {
		return each(all, func(b bid) (string, bool) { return row(b.auction, b.price), b.auction%123 == 0 })
	},
	"q5": func(all []bid) []string {
		last := lastTime(all)
		num, top := map[time.Time]map[int64]int{}, map[time.Time]int{}
		for _, b := range all {
			for _, at := range closed(b, last) {
				if num[at] == nil {
					num[at] = map[int64]int{}
				}
				num[at][b.auction]++
				top[at] = max(top[at], num[at][b.auction])
			}
		}
		var out []string
		for at, auctions := range num {
			for a, n := range auctions {
				if n == top[at] {
					out = append(out, row(at, a, n))
				}
			}
		}
		return out
	},
	"q5a": func(all []bid) []string {
		last := lastTime(all)
		return counted(all, func(b bid) []string {
			var windows []string
			for _, at := range closed(b, last) {
				windows = append(windows, row(b.auction, at))
			}
			return windows
		})
	},
	"q12": func(all []bid) []string {
		return counted(all, func(b bid) []string {
			at := b.arrival.Truncate(10 * time.Second)
			return []string{row(b.bidder, at, at.Add(10*time.Second))}
		})
	},
	"q14": func(all []bid) []string {
		return each(all, func(b bid) (string, bool) {
			kind := "otherTime"
			switch h := b.at.Hour(); {
			case h >= 8 && h <= 18:
				kind = "dayTime"
			case h <= 6 || h >= 20:
				kind = "nightTime"
			}
			n := b.price * 908
			return row(b.auction, b.bidder, milli(b.price), kind, b.at, b.extra, strings.Count(b.extra, "c")), n > 1_000_000_000 && n < 50_000_000_000
		})
	},
	"q17": perAuction,
	"q21": func(all []bid) []string {
		id := regexp.MustCompile("(&|^)channel_id=([^&]*)")
		hot := map[string]string{"apple": "0", "google": "1", "facebook": "2", "baidu": "3"}
		return each(all, func(b bid) (string, bool) {
			n, ok := hot[strings.ToLower(b.channel)]
			if m := id.FindStringSubmatch(b.url); !ok && m != nil {
				n, ok = m[2], true
			}
			return row(b.auction, b.bidder, b.price, b.channel, n), ok
		})
	},
	"q22": func(all []bid) []string {
		return each(all, func(b bid) (string, bool) {
			p := strings.Split(b.url, "/")
			return row(b.auction, b.bidder, b.price, b.channel, p[3], p[4], p[5]), true
		})
	},
}

// closed are the starts of the windows of 10 s, one every 2 s, that b is in and
// that have closed when the last bid is in.
func closed(b bid, last time.Time) []time.Time {
	var starts []time.Time
	for at := b.at.Truncate(2 * time.Second); at.After(b.at.Add(-10 * time.Second)); at = at.Add(-2 * time.Second) {
		if !at.Add(10 * time.Second).After(last.Add(-4 * time.Second)) {
			starts = append(starts, at)
		}
	}
	return starts
}

func lastTime(all []bid) time.Time {
	return slices.MaxFunc(all, func(a, b bid) int { return a.at.Compare(b.at) }).at
}

// counted counts the bids of each group.
func counted(all []bid, groups func(bid) []string) []string {
	n := map[string]int{}
	for _, b := range all {
		for _, g := range groups(b) {
			n[g]++
		}
	}
	var out []string
	for g, k := range n {
		out = append(out, row(g, k))
	}
	return out
}

func perAuction(all []bid) []string {
	type group struct {
		auction int64
		day     string
	}
	prices := map[group][]int64{}
	for _, b := range all {
		g := group{b.auction, b.at.Format(time.DateOnly)}
		prices[g] = append(prices[g], b.price)
	}
	var out []string
	for g, all := range prices {
		var rank [3]int
		sum := int64(0)
		for _, p := range all {
			sum += p
			switch {
			case p < 10_000:
				rank[0]++
			case p < 1_000_000:
				rank[1]++
			default:
				rank[2]++
			}
		}
		out = append(out, row(g.auction, g.day, len(all), rank[0], rank[1], rank[2], slices.Min(all), slices.Max(all), float64(sum)/float64(len(all)), sum))
	}
	return out
}

// regroup writes a result row of the counting queries as counted does.
func regroup(query string, r []any) string {
	switch query {
	case "q5a":
		return row(row(r[0], r[1]), r[2])
	case "q12":
		return row(row(r[0], r[2], r[3]), r[1])
	}
	return row(r...)
}

// TestAnswers runs every query over all events and compares the result with a
// batch recomputation, in order and out of order, from rows and from JSON.
func TestAnswers(t *testing.T) {
	for _, q := range nexmark.Queries() {
		for _, group := range []uint64{1, 1000} {
			for _, format := range []string{"rows", "json"} {
				t.Run(fmt.Sprintf("%s/group %d/%s", q.Name, group, format), func(t *testing.T) {
					if testing.Short() && (group == 1) == (format == "json") {
						t.Skip("half of the combinations are enough")
					}
					got := run(t, q, group, format == "json")
					want := answers[q.Name](bids(group))
					slices.Sort(got)
					slices.Sort(want)
					if len(want) == 0 {
						t.Fatal("the recomputation has no rows")
					}
					if d := cmp.Diff(want, got); d != "" {
						t.Errorf("rows (-want +got):\n%.2000s", d)
					}
				})
			}
		}
	}
}

func run(t *testing.T, q nexmark.Query, group uint64, asJSON bool) []string {
	t.Helper()
	g := nexmark.New(nexmark.Config{Base: base, Rate: rate, Group: group})
	source, options := load.SourceConfig{}, "connector = 'load'"
	if asJSON {
		source.Payload = func(dst []byte, i uint64, _ int64) []byte { return g.Event(i).AppendJSON(dst) }
		options += ", format = 'json', timestamp_format = 'unix_ms'"
	} else {
		source.Fill = func(b *messages.Builder, i uint64, _ int64) { g.Event(i).Append(b) }
	}
	ends := load.NewEnds(source, load.SinkConfig{})
	s, err := runtime.Open(t.Context(), runtime.Config{Connectors: append(all.Connectors(), ends.Connector()), Formats: all.Formats()})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	out := memory.NewSink()
	if err := s.RegisterSink("out", out); err != nil {
		t.Fatal(err)
	}
	ends.Gate.Begin(load.Run{FlatOut: true, Count: events, Schedule: load.Schedule{Start: base, Rate: rate}})
	script := fmt.Sprintf("CREATE SOURCE events (%s, WATERMARK FOR dateTime AS dateTime - INTERVAL 4 SECONDS) WITH (%s);\n%s\n", nexmark.Columns, options, nexmark.Views) +
		fmt.Sprintf("CREATE QUERY q WITH (output_mode = '%s') AS INSERT INTO out %s", q.Mode, q.SQL)
	if err := s.Exec(t.Context(), script); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var rows []string
	for _, r := range out.Rows() {
		rows = append(rows, regroup(q.Name, r))
	}
	return rows
}

// TestProportions checks the stream against the published rules.
func TestProportions(t *testing.T) {
	g := nexmark.New(nexmark.Config{Rate: 1_000_000, Base: base})
	const n = 500_000
	var kinds [3]int
	var hotAuction, hotBidder, bidBytes, rank1, hotChannel int
	last := [2]int64{}
	for i := range uint64(n) {
		ev := g.Event(i)
		kinds[ev.Kind]++
		switch ev.Kind {
		case nexmark.PersonEvent:
			if i > 0 && ev.ID != last[0]+1 {
				t.Fatalf("person %d follows %d", ev.ID, last[0])
			}
			last[0] = ev.ID
		case nexmark.AuctionEvent:
			if last[1] > 0 && ev.ID != last[1]+1 {
				t.Fatalf("auction %d follows %d", ev.ID, last[1])
			}
			last[1] = ev.ID
		default:
			if ev.Auction%100 == 0 {
				hotAuction++
			}
			if ev.Bidder%100 == 1 {
				hotBidder++
			}
			if ev.Price < 10_000 {
				rank1++
			}
			if !strings.HasPrefix(ev.Channel, "channel-") {
				hotChannel++
			}
			bidBytes += 32 + len(ev.Extra)
		}
	}
	if d := cmp.Diff([3]int{n / 50, 3 * n / 50, 46 * n / 50}, kinds); d != "" {
		t.Errorf("events per kind (-want +got):\n%s", d)
	}
	b := float64(kinds[2])
	// A cold pick hits a hot key with about one in a hundred.
	for _, c := range []struct {
		name      string
		got, want float64
	}{
		{"hot auctions", float64(hotAuction) / b, 0.505},
		{"hot bidders", float64(hotBidder) / b, 0.7525},
		{"prices of rank 1", float64(rank1) / b, 1.0 / 3},
		{"hot channels", float64(hotChannel) / b, 0.5},
		{"size of a bid in 100 bytes", float64(bidBytes) / b / 100, 1},
	} {
		if c.got < c.want-0.01 || c.got > c.want+0.01 {
			t.Errorf("%s: got %.4f, want %.4f", c.name, c.got, c.want)
		}
	}
}

// TestDisorder: a group holds the same events in another order, and an event
// made alone equals the one made in its turn.
func TestDisorder(t *testing.T) {
	a, b, c := nexmark.New(nexmark.Config{Rate: rate}), nexmark.New(nexmark.Config{Rate: rate, Group: 1000}), nexmark.New(nexmark.Config{Rate: rate, Group: 1000})
	var inOrder, shuffled []string
	for i := range uint64(2000) {
		inOrder = append(inOrder, string(a.Event(i).AppendJSON(nil)))
		shuffled = append(shuffled, string(b.Event(i).AppendJSON(nil)))
	}
	if slices.Equal(inOrder, shuffled) {
		t.Error("a group of 1000 is in order")
	}
	for _, i := range []uint64{1999, 0, 1, 999, 1000} {
		if got := string(c.Event(i).AppendJSON(nil)); got != shuffled[i] {
			t.Errorf("event %d alone is %s, want %s", i, got, shuffled[i])
		}
	}
	for from := 0; from < 2000; from += 1000 {
		x, y := slices.Sorted(slices.Values(inOrder[from:from+1000])), slices.Sorted(slices.Values(shuffled[from:from+1000]))
		if d := cmp.Diff(x, y); d != "" {
			t.Errorf("group at %d (-in order +shuffled):\n%.1000s", from, d)
		}
	}
}
