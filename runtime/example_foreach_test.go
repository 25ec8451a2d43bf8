package runtime_test

import (
	"context"
	"fmt"

	"github.com/streamd-io/streamd/connectors/foreach"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime"
)

// ledger stands for a database: what a transaction changes is there as a whole
// or not at all.
type ledger struct {
	done map[int]messages.Epoch // last epoch of each partition, kept with the sums
	sums map[string]int64
}

// posting writes one partition's rows of one epoch to the ledger.
type posting struct {
	to        *ledger
	partition int
	epoch     messages.Epoch
	rows      map[string]int64
}

// Open begins a transaction, unless the ledger has the epoch: after a crash the last
// ones come again, with the same rows.
func (p *posting) Open(partition int, epoch messages.Epoch) (bool, error) {
	p.partition, p.epoch, p.rows = partition, epoch, map[string]int64{}
	return epoch > p.to.done[partition], nil
}

func (p *posting) Process(r foreach.Row) error {
	p.rows[r.Value(0).(string)] += r.Value(1).(int64)
	return nil
}

// Close commits the rows together with the epoch.
func (p *posting) Close(err error) error {
	if err != nil || p.epoch <= p.to.done[p.partition] {
		return nil //nolint:nilerr // nothing was written; the rows come again
	}
	for account, amount := range p.rows {
		p.to.sums[account] += amount
	}
	p.to.done[p.partition] = p.epoch
	return nil
}

// Rows reach code of the program exactly once when it remembers the last epoch of
// each partition in the transaction that writes the rows.
func ExampleSession_RegisterSinkAs() {
	ctx := context.Background()
	s, err := runtime.Open(ctx, runtime.Config{}) // Dir: "state" keeps checkpoints on disk
	if err != nil {
		panic(err)
	}
	defer s.Close() //nolint:errcheck // the example ends here
	schema, err := runtime.ParseSchema("account STRING, amount BIGINT")
	if err != nil {
		panic(err)
	}
	payments := memory.NewSource(schema)
	if err := s.Register("payments", payments, "", ""); err != nil {
		panic(err)
	}
	books := &ledger{done: map[int]messages.Epoch{}, sums: map[string]int64{}}
	sink := foreach.NewSink(func() foreach.Writer { return &posting{to: books} })
	if err := s.RegisterSinkAs("books", sink, runtime.Delivery{Guarantee: "exactly_once", Visibility: "epoch"}); err != nil {
		panic(err)
	}
	if err := s.Exec(ctx, "INSERT INTO books SELECT account, amount FROM payments WHERE amount <> 0"); err != nil {
		panic(err)
	}
	for _, row := range [][]any{{"rent", int64(-700)}, {"rent", int64(100)}, {"food", int64(-30)}} {
		if err := payments.Add(row); err != nil {
			panic(err)
		}
	}
	if err := s.Query("books").ProcessAllAvailable(ctx); err != nil {
		panic(err)
	}
	fmt.Println(books.sums)
	// Output: map[food:-30 rent:-600]
}
