package nats

import (
	"strings"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestNestedRowsAreRefusedInTime: what a nested value takes does not go by the bytes
// it has in memory.
func TestNestedRowsAreRefusedInTime(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	stream(t, js, jetstream.StreamConfig{Name: "OUT", Subjects: []string{"out.>"}, MaxMsgSize: 10_000})
	point := messages.StructType(messages.Field{Name: strings.Repeat("a_long_name", 50), Type: messages.T(messages.BigInt)})
	points := func(n int) func(c *messages.Column) {
		return func(c *messages.Column) {
			for i := range n {
				c.Child(0).Child(0).AppendInt64(int64(i))
				c.Child(0).CloseStruct()
			}
			c.CloseList()
		}
	}
	flags := func(n int) func(c *messages.Column) {
		return func(c *messages.Column) {
			for i := range n {
				c.Child(0).AppendBool(i%2 == 0)
			}
			c.CloseList()
		}
	}
	names := func(n int) func(c *messages.Column) {
		return func(c *messages.Column) {
			for range n {
				c.Child(0).Child(0).AppendString("x")
				c.Child(0).Child(1).AppendString(strings.Repeat("y", 10))
				c.Child(0).CloseStruct()
			}
			c.CloseList()
		}
	}
	for _, tt := range []struct {
		name string
		typ  messages.Type
		fill func(c *messages.Column)
		bad  bool
	}{
		{"no structs", messages.ArrayType(point), points(0), false},
		{"few structs", messages.ArrayType(point), points(15), false},
		{"many structs", messages.ArrayType(point), points(30), true},
		{"few flags", messages.ArrayType(messages.T(messages.Boolean)), flags(1500), false},
		{"many flags", messages.ArrayType(messages.T(messages.Boolean)), flags(2000), true},
		{"few entries", messages.MapType(messages.T(messages.String), messages.T(messages.String)), names(400), false},
		{"many entries", messages.MapType(messages.T(messages.String), messages.T(messages.String)), names(800), true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			schema := messages.NewSchema(messages.Field{Name: "a", Type: tt.typ})
			s, err := newTestSinkOf(t, schema, "url", b.url(), "stream", "OUT", "subject", "out.all")
			if err != nil {
				t.Fatal(err)
			}
			com, err := s.Open(t.Context(), connectors.WriteRequest{Query: "q", Sink: "out", Attempt: 1, Schema: schema, Offer: perEpoch, Stash: noStash{}})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := com.Close(); err != nil {
					t.Error(err)
				}
			}()
			if err := com.Recover(t.Context(), 0, nil); err != nil {
				t.Fatal(err)
			}
			w, err := com.Writer(t.Context(), 0, 1)
			if err != nil {
				t.Fatal(err)
			}
			builder := messages.NewBuilder(schema)
			builder.Column(0).AppendNull()
			builder.EndRow()
			tt.fill(builder.Column(0))
			builder.EndRow()
			rows := builder.Finish()
			defer rows.Release()
			if err := w.Write(t.Context(), rows, nil); tt.bad {
				wantFault(t, err, fault.BadRow, "", "larger than stream OUT takes")
			} else if err != nil {
				t.Error(err)
			}
		})
	}
}
