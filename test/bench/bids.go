package main

import (
	"strconv"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/test/bench/channels"
	"github.com/streamd-io/streamd/test/bench/load"
)

// bidColumns is the schema of most benchmarks: about 100 bytes a row.
const bidColumns = "auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING, ts TIMESTAMP"

// bids makes the rows of the table bids. Event time is the instant at which the
// row is due, so that every result can tell how late it is.
type bids struct {
	keys     uint64
	channels []string
	urls     []string
	// hot is the share, of 1024, of rows that go to key 0.
	hot uint64
}

func newBids(keys uint64) *bids {
	return &bids{
		keys:     keys,
		channels: []string{"Google", "Facebook", "Baidu", "Apple"},
		urls: []string{
			"https://www.nexmark.com/googoo/item.htm?query=1", "https://www.nexmark.com/faceboo/item.htm?query=1",
			"https://www.nexmark.com/baibai/item.htm?query=1", "https://www.nexmark.com/appapp/item.htm?query=1",
		},
	}
}

// fill appends row i.
func (g *bids) fill(b *messages.Builder, i uint64, due int64) {
	h := load.Hash(i)
	key := h % g.keys
	if g.hot > 0 && h>>54 < g.hot {
		key = 0
	}
	b.Column(0).AppendInt64(int64(key))
	b.Column(1).AppendInt64(int64(h >> 40))
	b.Column(2).AppendInt64(int64(h >> 20 & 0xfffff))
	b.Column(3).AppendString(g.channels[i&3])
	b.Column(4).AppendString(g.urls[i&3])
	b.Column(5).AppendInt64(due)
}

// row makes row i for the pipeline of channels, equal to that of fill.
func (g *bids) row(b *channels.Bid, i uint64, due int64) {
	h := load.Hash(i)
	*b = channels.Bid{
		Auction: int64(h % g.keys), Bidder: int64(h >> 40), Price: int64(h >> 20 & 0xfffff),
		Channel: g.channels[i&3], URL: g.urls[i&3], TS: due,
	}
}

// json appends the bytes of row i.
func (g *bids) json(dst []byte, i uint64, due int64) []byte {
	h := load.Hash(i)
	dst = strconv.AppendUint(append(dst, `{"auction":`...), h%g.keys, 10)
	dst = strconv.AppendUint(append(dst, `,"bidder":`...), h>>40, 10)
	dst = strconv.AppendUint(append(dst, `,"price":`...), h>>20&0xfffff, 10)
	dst = append(append(dst, `,"channel":"`...), g.channels[i&3]...)
	dst = append(append(dst, `","url":"`...), g.urls[i&3]...)
	dst = strconv.AppendInt(append(dst, `","ts":`...), due, 10)
	return append(dst, '}')
}

// dueOf measures by a timestamp column of the result that says when the row's
// cause was due.
func dueOf(column int) func(b *messages.Batch, i int, _ *load.Run) int64 {
	return func(b *messages.Batch, i int, _ *load.Run) int64 { return b.Column(column).Int64s()[i] }
}
