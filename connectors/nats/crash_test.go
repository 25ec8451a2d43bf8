package nats

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/connectortest"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestExactlyOnceUnderRandomCrashes runs a query of 8 partitions whose rows
// change subtasks with every attempt, crashes it at every step of an epoch,
// and restarts the server now and then.
func TestExactlyOnceUnderRandomCrashes(t *testing.T) {
	for _, offer := range (&sink{}).Traits().Guarantees {
		if offer.Guarantee != connectors.AtLeastOnce {
			t.Run(offer.Guarantee.String()+" "+offer.Visibility.String(), func(t *testing.T) { randomCrashes(t, offer) })
		}
	}
}

// crashRun is what survives the crashes of randomCrashes.
type crashRun struct {
	rnd       *rand.Rand
	committed [crashPartitions]int // offsets
	config    outputConfig
	highest   messages.Epoch
	shift     int
	pos       [crashPartitions]int // of the attempt
}

const crashPartitions, crashRows = 8, 400

func randomCrashes(t *testing.T, offer connectors.Offer) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	b := newBroker(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	r := &crashRun{rnd: rand.New(rand.NewPCG(seed, 1)), config: outputConfig{offer: offer, subtasks: 3, stash: &connectortest.Stash{}}}
	for slices.Min(r.committed[:]) < crashRows {
		r.config.attempt++
		o := openOutput(t, r.config, outOptions(b)...)
		r.pos, r.shift = r.committed, r.rnd.IntN(3)
		for range r.rnd.IntN(4) {
			if !r.epoch(o, b) {
				break
			}
		}
		o.close()
		r.config.stash.Crash()
	}
	r.config.attempt++
	openOutput(t, r.config, outOptions(b)...) // publishes what is left
	js, _ = b.client()
	wantOnce(t, stored(t, js, "OUT"), 0, crashPartitions*crashRows)
	t.Logf("%d attempts, %d epochs", r.config.attempt, r.highest)
}

// step writes some rows of a partition.
func (r *crashRun) step(o *output, p int) {
	n := min(r.rnd.IntN(30), crashRows-r.pos[p])
	o.write((p+r.shift)%3, p*crashRows+r.pos[p], p*crashRows+r.pos[p]+n)
	r.pos[p] += n
}

// epoch runs an epoch and reports whether it got through.
func (r *crashRun) epoch(o *output, b *broker) bool {
	o.t.Helper()
	for range r.rnd.IntN(12) {
		r.step(o, r.rnd.IntN(crashPartitions))
	}
	if r.rnd.IntN(12) == 0 {
		b.stop()
		b.start()
	}
	r.highest++
	o.epoch = r.highest
	o.com.Begin(o.epoch)
	var flushes []connectors.Flush
	at := r.pos
	for i, w := range o.writers { // markers arrive at different times
		f, err := w.Cut(o.epoch)
		if err != nil {
			o.t.Fatal(err)
		}
		flushes = append(flushes, f)
		for p := range crashPartitions {
			if (p+r.shift)%3 == i {
				at[p] = r.pos[p]
			}
		}
		r.step(o, r.rnd.IntN(crashPartitions))
	}
	if r.rnd.IntN(6) == 0 {
		return false // crash before the tokens
	}
	tok := o.finish(flushes)
	if r.rnd.IntN(6) == 0 {
		return false // crash before the commit record
	}
	o.stash.Commit(o.epoch)
	r.committed, r.config.epoch, r.config.last = at, o.epoch, tok
	switch r.rnd.IntN(6) {
	case 0:
		return false // crash before the sink commit
	case 1, 2: // or inside it
		ctx, cancel := context.WithTimeout(o.t.Context(), time.Duration(r.rnd.IntN(4000))*time.Microsecond)
		defer cancel()
		if err := o.com.Commit(ctx, o.epoch, tok); err != nil && !errors.Is(err, context.DeadlineExceeded) && fault.KindOf(err) != fault.Transient {
			o.t.Fatal(err)
		}
		return false
	}
	for err := fault.New(fault.Transient, ""); err != nil; {
		if err = o.com.Commit(o.t.Context(), o.epoch, tok); err != nil && fault.KindOf(err) != fault.Transient {
			o.t.Fatal(err)
		}
	}
	return true
}
