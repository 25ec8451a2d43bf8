package nats

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestOnlyRefusedRowsEndTheQuery: a permission that was refused for something else,
// however long ago, says nothing about rows that wait for their answers.
func TestOnlyRefusedRowsEndTheQuery(t *testing.T) {
	b := newBroker(t)
	b.stop()
	b.opts.Users = []*server.User{{Username: "ann", Password: "s3cret", Permissions: &server.Permissions{
		Publish: &server.SubjectPermission{Deny: []string{"out.7", "$KV.HOT.forbidden", "elsewhere"}},
	}}}
	b.start()
	user := []string{"user", "ann", "password", "s3cret"}
	refused := func(l *link) {
		t.Helper()
		if err := l.nc.Publish("elsewhere", nil); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for l.refused() == nil {
			if err := l.nc.FlushWithContext(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Run("stream", func(t *testing.T) {
		o := openOutput(t, outputConfig{}, append(append(outOptions(b), "create", "true"), user...)...)
		refused(o.c.link)
		w := o.writers[0].(*writer)
		w.mu.Lock()
		w.ring[0].subject, w.ring[0].state = []byte("out.1"), slotSent // its answer takes a while
		w.tail.Store(1)
		w.mu.Unlock()
		if o.c.denied() {
			t.Fatalf("what was refused for another subject ends the query: %v", o.c.err)
		}
		w.mu.Lock()
		w.tail.Store(0)
		w.mu.Unlock()
		o.write(0, 7, 8)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		wantFault(t, w.await(ctx, 1), fault.Config, classPermission, `Publish to "out.7"`, "stream OUT")
	})
	t.Run("bucket", func(t *testing.T) {
		o := openKV(t, kvConfig{}, append(append(kvOptions(b), "create", "true"), user...)...)
		refused(o.c.current())
		o.write(0, set("a", 1))
		o.commit()
		k := kvWatch{c: o.c}
		if k.tick(); o.c.table.failure() != nil {
			t.Fatal(o.c.table.failure())
		}
		o.write(0, set("forbidden", 1))
		wantFault(t, o.prepare(), fault.Config, classPermission, "forbidden", "bucket HOT")
	})
}
