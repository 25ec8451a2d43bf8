// Command jetstream runs SQL inside a Go program over a NATS server in the same
// process: orders in one stream, large ones exactly once in another. It ends by
// itself; nothing else is needed to run it.
package main

import (
	"context"
	"fmt"
	"log"
	"os"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
)

const script = `
CREATE SOURCE orders (id BIGINT, customer STRING, amount DOUBLE)
WITH (connector = 'nats', url = '%[1]s', stream = 'ORDERS', subject = 'orders.>', format = 'json', start = 'earliest');

CREATE SINK large WITH (connector = 'nats', url = '%[1]s', stream = 'LARGE', subject = 'large.{customer}',
                        format = 'json', guarantee = 'exactly_once', create = true);

INSERT INTO large SELECT id, upper(customer) AS customer, amount FROM orders WHERE amount >= 100;
`

func main() {
	dir, err := os.MkdirTemp("", "streamd-example")
	check(err)
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for this run
	srv, err := natsd.NewServer(&natsd.Options{Host: "127.0.0.1", Port: natsd.RANDOM_PORT, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
	check(err)
	srv.Start()
	defer srv.Shutdown()
	if !srv.ReadyForConnections(5 * time.Second) {
		log.Fatal("the NATS server did not start")
	}

	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	nc, err := nats.Connect(srv.ClientURL())
	check(err)
	defer nc.Close()
	js, err := jetstream.New(nc)
	check(err)
	_, err = js.CreateStream(ctx, jetstream.StreamConfig{Name: "ORDERS", Subjects: []string{"orders.>"}})
	check(err)

	s, err := runtime.Open(ctx, runtime.Config{Connectors: all.Connectors(), Formats: all.Formats()})
	check(err)
	check(s.Exec(ctx, fmt.Sprintf(script, srv.ClientURL())))

	for i := range 10 {
		_, err := js.Publish(ctx, "orders.new", fmt.Appendf(nil, `{"id":%d,"customer":"c%d","amount":%d}`, i, i%3, 30*i))
		check(err)
	}

	// The results arrive while the query runs; six of the ten orders are large.
	var results jetstream.Stream
	for results == nil { // the query makes the stream when it starts
		if results, err = js.Stream(ctx, "LARGE"); err != nil && ctx.Err() != nil {
			check(err)
		}
	}
	consumer, err := results.OrderedConsumer(ctx, jetstream.OrderedConsumerConfig{})
	check(err)
	for range 6 {
		msg, err := consumer.Next(jetstream.FetchMaxWait(10 * time.Second))
		check(err)
		fmt.Printf("%s %s\n", msg.Subject(), msg.Data())
	}
	check(s.Stop(ctx)) // a final checkpoint
	check(s.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
