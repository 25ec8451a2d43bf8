// Command graph builds an actor graph by hand, without SQL: readings of devices
// come from a Go program, an operator of its own with keyed state and an
// event-time timer notices devices that have fallen silent, and the alerts are
// printed. It ends by itself.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/actors/operator/eventtime"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
)

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	schema, err := runtime.ParseSchema("device BIGINT, ts TIMESTAMP")
	check(err)
	readings, alerts := memory.NewSource(schema), memory.NewSink()

	g := actors.NewGraph()
	src := g.Source("readings", actors.SourceSpec{Source: readings, Rows: func() (*connectors.Rows, error) {
		return connectors.NewRows(schema, nil, connectors.FailOnError), nil
	}})
	timed := g.Operator("watermark", 0, func() operator.Operator {
		return eventtime.New(eventtime.Config{Column: 1, Delay: time.Second})
	}, actors.Forward(src))
	silent := g.Operator("silence", 2, func() operator.Operator { return &silence{timeout: 10 * time.Second} }, actors.Keyed(timed, 0))
	g.Sink("alerts", actors.SinkSpec{Sink: alerts, Schema: alertSchema}, actors.Forward(silent))
	check(g.Check())

	s, err := runtime.Open(ctx, runtime.Config{})
	check(err)
	q, err := s.Run(ctx, "silence", g)
	check(err)

	// Device 1 reports every second, device 2 stops after five seconds.
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range 30 {
		at := messages.EventTimeOf(start.Add(time.Duration(i) * time.Second)).Time()
		check(readings.Add([]any{int64(1), at}))
		if i < 5 {
			check(readings.Add([]any{int64(2), at}))
		}
	}
	check(alerts.Wait(ctx, func(k *memory.Sink) bool { return len(k.Rows()) > 0 }))
	for _, r := range alerts.Rows() {
		fmt.Printf("device %v has been silent since %v\n", r[0], r[1])
	}
	check(q.Stop(ctx))
	check(s.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
