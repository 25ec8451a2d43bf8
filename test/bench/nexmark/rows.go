package nexmark

import (
	"strconv"

	"github.com/streamd-io/streamd/messages"
)

// Columns is the schema of the stream: one row per event, of which only the
// struct of its kind is not NULL.
const Columns = `event_type INT,
  person STRUCT<id: BIGINT, name: STRING, emailAddress: STRING, creditCard: STRING, city: STRING, state: STRING, extra: STRING>,
  auction STRUCT<id: BIGINT, itemName: STRING, description: STRING, initialBid: BIGINT, reserve: BIGINT, expires: TIMESTAMP, seller: BIGINT, category: BIGINT, extra: STRING>,
  bid STRUCT<auction: BIGINT, bidder: BIGINT, price: BIGINT, channel: STRING, url: STRING, extra: STRING>,
  dateTime TIMESTAMP`

// The columns.
const (
	colType = iota
	colPerson
	colAuction
	colBid
	colTime
)

// Append appends the event's row without EndRow.
func (ev *Event) Append(b *messages.Builder) {
	b.Column(colType).AppendInt32(int32(ev.Kind))
	b.Column(colTime).AppendInt64(ev.Time)
	switch ev.Kind {
	case PersonEvent:
		c := b.Column(colPerson)
		c.Child(0).AppendInt64(ev.ID)
		for i, v := range [][]byte{ev.Name, ev.Email, ev.Card, ev.City, ev.State, ev.Extra} {
			c.Child(1 + i).AppendBytes(v)
		}
		c.CloseStruct()
	case AuctionEvent:
		c := b.Column(colAuction)
		c.Child(0).AppendInt64(ev.ID)
		c.Child(1).AppendBytes(ev.Item)
		c.Child(2).AppendBytes(ev.Description)
		for i, v := range []int64{ev.InitialBid, ev.Reserve, ev.Expires, ev.Seller, ev.Category} {
			c.Child(3 + i).AppendInt64(v)
		}
		c.Child(8).AppendBytes(ev.Extra)
		c.CloseStruct()
	default:
		c := b.Column(colBid)
		c.Child(0).AppendInt64(ev.Auction)
		c.Child(1).AppendInt64(ev.Bidder)
		c.Child(2).AppendInt64(ev.Price)
		c.Child(3).AppendString(ev.Channel)
		c.Child(4).AppendString(ev.URL)
		c.Child(5).AppendBytes(ev.Extra)
		c.CloseStruct()
	}
}

// AppendJSON appends the event as one JSON object; times are in milliseconds
// since the Unix epoch. No string of the generator needs escaping.
func (ev *Event) AppendJSON(dst []byte) []byte {
	number := func(name string, v int64) {
		dst = append(append(append(dst, '"'), name...), `":`...)
		dst = append(strconv.AppendInt(dst, v, 10), ',')
	}
	text := func(name string, v []byte) {
		dst = append(append(append(dst, '"'), name...), `":"`...)
		dst = append(append(dst, v...), `",`...)
	}
	dst = append(dst, '{')
	number("event_type", int64(ev.Kind))
	switch ev.Kind {
	case PersonEvent:
		dst = append(dst, `"person":{`...)
		number("id", ev.ID)
		text("name", ev.Name)
		text("emailAddress", ev.Email)
		text("creditCard", ev.Card)
		text("city", ev.City)
		text("state", ev.State)
	case AuctionEvent:
		dst = append(dst, `"auction":{`...)
		number("id", ev.ID)
		text("itemName", ev.Item)
		text("description", ev.Description)
		number("initialBid", ev.InitialBid)
		number("reserve", ev.Reserve)
		number("expires", ev.Expires/1000)
		number("seller", ev.Seller)
		number("category", ev.Category)
	default:
		dst = append(dst, `"bid":{`...)
		number("auction", ev.Auction)
		number("bidder", ev.Bidder)
		number("price", ev.Price)
		text("channel", []byte(ev.Channel))
		text("url", []byte(ev.URL))
	}
	text("extra", ev.Extra)
	dst[len(dst)-1] = '}'
	dst = append(dst, ',')
	number("dateTime", ev.Time/1000)
	dst[len(dst)-1] = '}'
	return dst
}
