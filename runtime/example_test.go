package runtime_test

import (
	"context"
	"fmt"
	"time"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
)

// A session runs SQL over a source that the program feeds.
func Example() {
	ctx := context.Background()
	s, err := runtime.Open(ctx, runtime.Config{}) // Dir: "state" keeps checkpoints on disk
	if err != nil {
		panic(err)
	}
	defer s.Close() //nolint:errcheck // the example ends here

	schema, err := runtime.ParseSchema("auction BIGINT, price BIGINT, ts TIMESTAMP")
	if err != nil {
		panic(err)
	}
	bids, out := memory.NewSource(schema), memory.NewSink()
	if err := s.Register("bids", bids, "ts", "4 seconds"); err != nil {
		panic(err)
	}
	if err := s.RegisterSink("hot", out); err != nil {
		panic(err)
	}
	err = s.Exec(ctx, `INSERT INTO hot
SELECT auction, count(*) AS bids, max(price) AS top FROM bids GROUP BY auction, window(ts, '10 seconds')`)
	if err != nil {
		panic(err)
	}

	at := func(sec int64) time.Time { return time.Unix(sec, 0) }
	for _, row := range [][]any{{int64(7), int64(100), at(1)}, {int64(7), int64(250), at(8)}, {int64(7), int64(90), at(30)}} {
		if err := bids.Add(row); err != nil {
			panic(err)
		}
	}
	if err := s.Query("hot").ProcessAllAvailable(ctx); err != nil {
		panic(err)
	}
	fmt.Println(out.Rows())
	// Output: [[7 2 250]]
}

// A data frame says the same as SQL, in Go.
func ExampleDataFrame() {
	ctx := context.Background()
	s, err := runtime.Open(ctx, runtime.Config{})
	if err != nil {
		panic(err)
	}
	defer s.Close() //nolint:errcheck // the example ends here
	schema, err := runtime.ParseSchema("value STRING")
	if err != nil {
		panic(err)
	}
	lines, out := memory.NewSource(schema), memory.NewSink()
	words := s.From("lines", lines).
		Select(runtime.Explode(runtime.Call("split", runtime.Col("value"), " ")).As("word")).
		Filter(runtime.Col("word").Ne("")).
		GroupBy(runtime.Col("word")).Count()
	q, err := words.WriteStream(ctx, runtime.Write{Name: "words", To: out, Mode: "update"})
	if err != nil {
		panic(err)
	}
	if err := lines.Add([]any{"tick tock tick"}); err != nil {
		panic(err)
	}
	if err := q.ProcessAllAvailable(ctx); err != nil {
		panic(err)
	}
	fmt.Println(len(out.Rows()), "words")
	// Output: 2 words
}
