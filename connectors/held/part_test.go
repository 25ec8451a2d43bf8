package held

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/wire"
)

var partSchema = messages.NewSchema(
	messages.Field{Name: "k", Type: messages.T(messages.String)},
	messages.Field{Name: "v", Type: messages.ArrayType(messages.T(messages.BigInt))},
)

// part holds blocks of the given numbers of rows.
func part(t testing.TB, ids bool, rows ...int) []byte {
	t.Helper()
	p := appendPart(nil, wire.EncodeSchema(nil, partSchema), ids)
	for _, n := range rows {
		b := messages.NewPool(partSchema).Get()
		var own []messages.ID128
		for i := range n {
			b.Own(0).AppendString(strings.Repeat("x", i))
			b.Own(1).Child(0).AppendInt64(int64(i))
			b.Own(1).CloseList()
			own = append(own, messages.ID128{Hi: 1, Lo: uint64(i)})
		}
		b.SetLen(n)
		p = wire.EncodeBatch(p, b.Publish())
		if ids {
			p = appendIDs(p, own)
		}
	}
	return p
}

// read reads a part to its end.
func read(data []byte) (rows int, err error) {
	d := &decoder{pool: messages.NewPool(partSchema)}
	bs, err := d.open(data)
	for err == nil && !bs.end() {
		var b *messages.Batch
		var ids []messages.ID128
		if b, ids, err = bs.next(); err != nil {
			break
		}
		if ids != nil && len(ids) != b.Rows() {
			return rows, fmt.Errorf("%d identities for %d rows", len(ids), b.Rows())
		}
		rows += b.Rows()
		for i := range b.Columns() {
			if len(data) < 1<<12 { // what is accepted can be read
				if bad := b.Column(i).Check(); bad != nil {
					panic(bad)
				}
			}
		}
		b.Release()
	}
	return rows, err
}

func TestAPartIsReadOrRefused(t *testing.T) {
	for _, ids := range []bool{false, true} {
		whole := part(t, ids, 3, 0, 5)
		if n, err := read(whole); n != 8 || err != nil {
			t.Errorf("ids %v: got %d rows, %v, want 8", ids, n, err)
		}
		for end := range whole {
			n, err := read(whole[:end])
			if err == nil && n == 8 {
				t.Errorf("ids %v: %d of %d bytes give all rows", ids, end, len(whole))
			}
		}
	}
	for what, change := range map[string]func(p []byte){
		"magic":            func(p []byte) { p[0] = 'X' },
		"version":          func(p []byte) { p[4] = 2 },
		"flags":            func(p []byte) { p[5] = 2 },
		"zeros":            func(p []byte) { p[7] = 1 },
		"size of a schema": func(p []byte) { p[11] = 0xff },
		"schema":           func(p []byte) { p[12] = 0xff },
	} {
		p := part(t, false, 3)
		change(p)
		if _, err := read(p); err == nil {
			t.Errorf("a part with another %s is accepted", what)
		}
	}
}

// FuzzPart looks for panics, for a changed input, and for allocations that it does
// not pay for.
func FuzzPart(f *testing.F) {
	f.Add(part(f, false, 3, 1))
	f.Add(part(f, true, 2, 0))
	f.Add(part(f, true))
	f.Add([]byte(partMagic))
	f.Fuzz(func(t *testing.T, data []byte) {
		given := bytes.Clone(data)
		var n int
		var err error
		alloctest.Within(t, 256, len(data), func() { n, err = read(data) })
		if err == nil && n > 1<<24 {
			t.Errorf("%d rows in %d bytes", n, len(data))
		}
		if !bytes.Equal(data, given) {
			t.Error("the input is changed")
		}
	})
}
