package nexmark

import (
	"fmt"
	"math"
	"math/bits"
	"strings"
)

// The rules. Identifiers start at these numbers so that no kind has a 0.
const (
	firstPerson   = 1000
	firstAuction  = 1000
	firstCategory = 10
	categories    = 5

	blockSize        = 50 // events: 1 person, 3 auctions, 46 bids
	auctionsPerBlock = 3

	hotEvery       = 100 // each 100th auction, seller and bidder is a hot one
	activePeople   = 1000
	openAuctions   = 100
	lead           = 10  // references may run ahead of what they refer to by so many
	disorder       = 953 // prime; permutes the events of a group
	personBytes    = 200
	auctionBytes   = 500
	bidBytes       = 100
	channels       = 10_000
	horizonInBlock = openAuctions * blockSize / auctionsPerBlock // events until 100 more auctions
)

// Kind is what an event is.
type Kind int32

// The kinds, as column event_type has them.
const (
	PersonEvent Kind = iota
	AuctionEvent
	BidEvent
)

// Event is one event. Only the fields of its kind are set. Byte slices are
// valid until the generator makes the next event.
type Event struct {
	Kind Kind
	Time int64 // microseconds since the Unix epoch, whole milliseconds

	ID    int64 // of a person or auction
	Extra []byte

	Name, Email, Card, City, State []byte // person

	Item, Description                                       []byte // auction
	InitialBid, Reserve, Expires /* µs */, Seller, Category int64

	Auction, Bidder, Price int64 // bid
	Channel, URL           string
}

// Config describes a stream of events.
type Config struct {
	// Base is the time of event 0 in microseconds since the Unix epoch.
	Base int64
	// Rate is how many events fall into a second of event time.
	Rate int64
	// Group is how many consecutive events come out of order; 0 or 1: none.
	Group uint64
}

// Generator makes events. It belongs to one goroutine.
type Generator struct {
	cfg      Config
	event    Event
	buf      []byte
	padding  []byte
	channels []string
	urls     []string
}

// New returns a generator.
func New(cfg Config) *Generator {
	cfg.Group = max(cfg.Group, 1)
	g := &Generator{cfg: cfg}
	r := random{1 << 63}
	g.padding = make([]byte, 16<<10) // stays in the first cache
	for i := range g.padding {
		g.padding[i] = 'a' + byte(r.below(26))
	}
	for i := range channels {
		var path [3]string
		for k := range path {
			path[k] = string(r.text(nil, 5))
		}
		url := "https://www.nexmark.com/" + strings.Join(path[:], "/") + "/item.htm?query=1"
		if r.below(10) > 0 {
			url += fmt.Sprintf("&channel_id=%d", bits.Reverse32(uint32(i)))
		}
		g.channels = append(g.channels, fmt.Sprintf("channel-%d", i))
		g.urls = append(g.urls, url)
	}
	return g
}

// Event makes event e of the stream. The result is valid until the next call.
func (g *Generator) Event(e uint64) *Event {
	n := e/g.cfg.Group*g.cfg.Group + e*disorder%g.cfg.Group
	ev := &g.event
	*ev = Event{Time: g.timeOf(n)}
	g.buf = g.buf[:0]
	r := random{n}
	switch rest := n % blockSize; {
	case rest == 0:
		ev.Kind = PersonEvent
		g.person(ev, n, &r)
	case rest <= auctionsPerBlock:
		ev.Kind = AuctionEvent
		g.auction(ev, n, &r)
	default:
		ev.Kind = BidEvent
		g.bid(ev, n, &r)
	}
	return ev
}

func (g *Generator) timeOf(n uint64) int64 {
	hi, lo := bits.Mul64(n, 1000)
	ms, _ := bits.Div64(hi, lo, uint64(g.cfg.Rate))
	return g.cfg.Base + int64(ms)*1000
}

// lastPerson is the number, from 0, of the newest person at event n.
func lastPerson(n uint64) int64 { return int64(n / blockSize) }

// lastAuction is the number, from 0, of the newest auction at event n.
func lastAuction(n uint64) int64 {
	block, rest := int64(n/blockSize), int64(n%blockSize)
	return max(block*auctionsPerBlock+min(rest, auctionsPerBlock)-1, 0)
}

func (g *Generator) person(ev *Event, n uint64, r *random) {
	ev.ID = firstPerson + lastPerson(n)
	g.buf = append(append(append(g.buf, r.pick(firstNames)...), ' '), r.pick(lastNames)...)
	ev.Name = g.buf
	start := len(g.buf)
	g.buf = append(r.text(g.buf, 7), '@')
	g.buf = append(r.text(g.buf, 5), ".com"...)
	ev.Email = g.buf[start:]
	start = len(g.buf)
	for i := range 4 {
		if i > 0 {
			g.buf = append(g.buf, ' ')
		}
		d := r.below(10_000)
		g.buf = append(g.buf, '0'+byte(d/1000), '0'+byte(d/100%10), '0'+byte(d/10%10), '0'+byte(d%10))
	}
	ev.Card = g.buf[start:]
	start = len(g.buf)
	g.buf = append(g.buf, r.pick(cities)...)
	ev.City = g.buf[start:]
	start = len(g.buf)
	g.buf = append(g.buf, r.pick(states)...)
	ev.State = g.buf[start:]
	ev.Extra = g.extra(r, 8+8+len(ev.Name)+len(ev.Email)+len(ev.Card)+len(ev.City)+len(ev.State), personBytes)
}

func (g *Generator) auction(ev *Event, n uint64, r *random) {
	ev.ID = firstAuction + lastAuction(n)
	start := len(g.buf)
	g.buf = r.text(g.buf, 20)
	ev.Item = g.buf[start:]
	start = len(g.buf)
	g.buf = r.text(g.buf, 100)
	ev.Description = g.buf[start:]
	ev.InitialBid = r.price()
	ev.Reserve = ev.InitialBid + r.price()
	horizon := horizonInBlock * 1000 / float64(g.cfg.Rate) // ms
	ev.Expires = ev.Time + 1000*(1+int64(r.below(uint64(max(2*horizon, 1)))))
	ev.Category = firstCategory + int64(r.below(categories))
	if last := lastPerson(n); r.below(4) > 0 {
		ev.Seller = firstPerson + last/hotEvery*hotEvery
	} else {
		ev.Seller = firstPerson + coldPerson(last, r)
	}
	ev.Extra = g.extra(r, 8*7+len(ev.Item)+len(ev.Description), auctionBytes)
}

func (g *Generator) bid(ev *Event, n uint64, r *random) {
	if last := lastAuction(n); r.below(2) > 0 {
		ev.Auction = firstAuction + last/hotEvery*hotEvery
	} else {
		low := max(last-openAuctions, 0)
		ev.Auction = firstAuction + low + int64(r.below(uint64(last-low+1+lead)))
	}
	if last := lastPerson(n); r.below(4) > 0 {
		ev.Bidder = firstPerson + last/hotEvery*hotEvery + 1
	} else {
		ev.Bidder = firstPerson + coldPerson(last, r)
	}
	ev.Price = r.price()
	if r.below(2) > 0 {
		k := r.below(uint64(len(hotChannels)))
		ev.Channel, ev.URL = hotChannels[k], hotURLs[k]
	} else {
		k := r.below(channels)
		ev.Channel, ev.URL = g.channels[k], g.urls[k]
	}
	ev.Extra = g.extra(r, 8*4, bidBytes)
}

// coldPerson is one of the latest people, or one who will come soon.
func coldPerson(last int64, r *random) int64 {
	active := min(last+1, activePeople)
	return last + 1 - active + int64(r.below(uint64(active+lead)))
}

// extra is padding that brings the event to its average size, a fifth more or less.
func (g *Generator) extra(r *random, size, average int) []byte {
	if size >= average {
		return nil
	}
	want := average - size
	delta := int(math.Round(float64(want) * 0.2))
	n := want - delta
	if delta > 0 {
		n += int(r.below(uint64(2 * delta)))
	}
	at := r.below(uint64(len(g.padding) - n))
	return g.padding[at : at+uint64(n)]
}

// random is the generator splitmix64; the state is the seed.
type random struct{ state uint64 }

func (r *random) next() uint64 {
	r.state += 0x9e3779b97f4a7c15
	z := r.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// below returns a number from 0 to n-1.
func (r *random) below(n uint64) uint64 {
	hi, _ := bits.Mul64(r.next(), n)
	return hi
}

// pick returns one of the words.
func (r *random) pick(words []string) string { return words[r.below(uint64(len(words)))] }

// price is in cents, from 100 to 10^8, its logarithm evenly distributed.
func (r *random) price() int64 {
	u := float64(r.next()>>11) / (1 << 53)
	return int64(math.Round(math.Exp(6*math.Ln10*u) * 100))
}

// text appends 3 to limit-1 letters, some of them spaces, none at either end.
func (r *random) text(dst []byte, limit int) []byte {
	n := 3 + int(r.below(uint64(limit-3)))
	start := len(dst)
	for range n {
		if r.below(13) == 0 {
			if len(dst) > start {
				dst = append(dst, ' ')
			}
			continue
		}
		dst = append(dst, 'a'+byte(r.below(26)))
	}
	for len(dst) > start && dst[len(dst)-1] == ' ' {
		dst = dst[:len(dst)-1]
	}
	return dst
}

var (
	firstNames  = []string{"Peter", "Paul", "Luke", "John", "Saul", "Vicky", "Kate", "Julie", "Sarah", "Deiter", "Walter"}
	lastNames   = []string{"Shultz", "Abrams", "Spencer", "White", "Bartels", "Walton", "Smith", "Jones", "Noris"}
	cities      = []string{"Phoenix", "Los Angeles", "San Francisco", "Boise", "Portland", "Bend", "Redmond", "Seattle", "Kent", "Cheyenne"}
	states      = []string{"AZ", "CA", "ID", "OR", "WA", "WY"}
	hotChannels = []string{"Google", "Facebook", "Baidu", "Apple"}
	hotURLs     = []string{
		"https://www.nexmark.com/hhj/qwerty/aa/item.htm?query=1", "https://www.nexmark.com/kkl/asdfgh/bb/item.htm?query=1",
		"https://www.nexmark.com/mmn/zxcvbn/cc/item.htm?query=1", "https://www.nexmark.com/ppo/poiuyt/dd/item.htm?query=1",
	}
)
