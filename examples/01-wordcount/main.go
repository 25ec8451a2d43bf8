// Command wordcount counts the words typed into nc -lk 9999 and prints the whole
// table whenever it changes. wordcount.sql beside it says the same for streamd run.
package main

import (
	"context"
	"log"
	"os/signal"
	"syscall"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT)
	defer stop()
	s, err := runtime.Open(ctx, runtime.Config{Connectors: all.Connectors(), Formats: all.Formats()})
	check(err)
	check(s.Exec(ctx, `CREATE SOURCE lines (value STRING) WITH (connector = 'socket', host = 'localhost', port = '9999')`))
	words := s.Table("lines").Select(runtime.Explode(runtime.Call("split", runtime.Col("value"), " ")).As("word"))
	q, err := words.GroupBy(runtime.Col("word")).Count().WriteStream(ctx, runtime.Write{Name: "wordcount", Mode: "complete"})
	check(err)
	<-ctx.Done() // Ctrl-C
	check(q.Stop(context.Background()))
	check(s.Close())
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
