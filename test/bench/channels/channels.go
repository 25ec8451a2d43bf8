// Package channels has the queries of the benchmarks written by hand with
// nothing but goroutines and channels: no SQL, no checkpoints, no event time, no
// recovery. What it costs is the least that an engine with a stage per goroutine
// can cost, so the ratio to it is the price of everything else.
package channels

import (
	"sync/atomic"

	"github.com/streamd-io/streamd/test/bench/load"
)

// batchRows is how many rows travel together, as in the engine.
const batchRows = 1024

// Bid is a row of the table bids.
type Bid struct {
	Auction, Bidder, Price int64
	Channel, URL           string
	TS                     int64
}

// Config describes a pipeline.
type Config struct {
	// Fill makes row i.
	Fill func(b *Bid, i uint64, due int64)
	// Schedule gives the rows their event times.
	Schedule load.Schedule
}

// Pipeline runs until it is stopped. Its stages are a source, the query and a
// sink, each a goroutine, linked by channels of a few batches; batches are used
// again.
type Pipeline struct {
	made, out atomic.Uint64
	stop      chan struct{}
	done      chan struct{}
}

// Made is how many rows the source has made.
func (p *Pipeline) Made() uint64 { return p.made.Load() }

// Out is how many rows have reached the sink.
func (p *Pipeline) Out() uint64 { return p.out.Load() }

// Stop ends the pipeline and waits for it.
func (p *Pipeline) Stop() {
	close(p.stop)
	<-p.done
}

// Stateless starts a filter that keeps nine rows of ten and a projection.
func Stateless(c Config) *Pipeline {
	return start(c, func(in []Bid, out []Bid) []Bid {
		for i := range in {
			if b := &in[i]; b.Price%10 != 0 {
				out = append(out, Bid{Auction: b.Auction, Bidder: b.Bidder, Price: b.Price * 2, URL: b.URL, TS: b.TS})
			}
		}
		return out
	})
}

// Keyed starts a count per key and second of which every change is shown, at
// most once per batch and key. Old windows are forgotten a second after their end.
func Keyed(c Config) *Pipeline {
	type group struct{ key, second int64 }
	type state struct {
		n, due int64
		batch  uint64 // that changed it last
	}
	windows := map[int64]map[int64]*state{}
	var changed []group
	batch := uint64(0)
	return start(c, func(in []Bid, out []Bid) []Bid {
		batch++
		changed = changed[:0]
		for i := range in {
			b := &in[i]
			second := b.TS / 1_000_000
			w := windows[second]
			if w == nil {
				w = map[int64]*state{}
				windows[second] = w
				delete(windows, second-2)
			}
			s := w[b.Auction]
			if s == nil {
				s = &state{}
				w[b.Auction] = s
			}
			s.n++
			s.due = b.TS
			if s.batch != batch {
				s.batch = batch
				changed = append(changed, group{b.Auction, second})
			}
		}
		for _, g := range changed {
			if s := windows[g.second][g.key]; s != nil {
				out = append(out, Bid{Auction: g.key, Bidder: g.second, Price: s.n, TS: s.due})
			}
		}
		return out
	})
}

func start(c Config, query func(in, out []Bid) []Bid) *Pipeline {
	p := &Pipeline{stop: make(chan struct{}), done: make(chan struct{})}
	rows, results := make(chan []Bid, 4), make(chan []Bid, 4)
	spareRows, spareResults := make(chan []Bid, 8), make(chan []Bid, 8)
	go func() { // source
		defer close(rows)
		for i := uint64(0); ; i += batchRows {
			batch := buffer(spareRows)[:batchRows]
			for k := range batch {
				n := i + uint64(k)
				c.Fill(&batch[k], n, c.Schedule.Due(n))
			}
			select {
			case <-p.stop:
				return
			case rows <- batch:
				p.made.Add(batchRows)
			}
		}
	}()
	go func() { // query
		defer close(results)
		for in := range rows {
			results <- query(in, buffer(spareResults))
			giveBack(spareRows, in)
		}
	}()
	go func() { // sink
		defer close(p.done)
		for out := range results {
			p.out.Add(uint64(len(out)))
			giveBack(spareResults, out)
		}
	}()
	return p
}

// buffer returns an empty batch.
func buffer(spare chan []Bid) []Bid {
	select {
	case b := <-spare:
		return b[:0]
	default:
		return make([]Bid, 0, batchRows)
	}
}

func giveBack(spare chan []Bid, b []Bid) {
	select {
	case spare <- b:
	default:
	}
}
