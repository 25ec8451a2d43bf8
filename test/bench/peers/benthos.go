package main

import (
	"bytes"
	"context"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	_ "github.com/redpanda-data/benthos/v4/public/components/pure" // its processors and buffers
	"github.com/redpanda-data/benthos/v4/public/service"

	"github.com/streamd-io/streamd/internal/pacer"
	"github.com/streamd-io/streamd/test/bench/load"
)

// The same queries for benthos, with the batch size that was fastest for it.
const (
	benthosBatch  = 256
	benthosFilter = `
input: { load: {} }
pipeline:
  threads: 1
  processors:
    - mapping: |
        root = if this.price % 10 == 0 { deleted() } else { {"auction": this.auction, "bidder": this.bidder, "price": this.price * 2, "url": this.url, "ts": this.ts} }
output: { measure: {} }
logger: { level: ERROR }
`
	benthosCount = `
input: { load: {} }
buffer:
  system_window:
    size: 1s
pipeline:
  threads: 1
  processors:
    - group_by_value:
        value: '${! json("auction") }'
    - mapping: |
        root = if batch_index() == 0 { {"auction": this.auction, "n": batch_size()} } else { deleted() }
output: { measure: {} }
logger: { level: ERROR }
`
)

func runBenthos(ctx context.Context, o options, j job) (*result, error) {
	in := &benthosInput{run: plan(o, j), stop: make(chan struct{})}
	out := &benthosOutput{rec: load.NewRecorder(in.run.From), until: in.run.Until, timed: !j.Keyed && j.Rate > 0}
	env := service.NewEnvironment()
	if err := env.RegisterBatchInput("load", service.NewConfigSpec(), func(*service.ParsedConfig, *service.Resources) (service.BatchInput, error) {
		return in, nil
	}); err != nil {
		return nil, err
	}
	if err := env.RegisterBatchOutput("measure", service.NewConfigSpec(), func(*service.ParsedConfig, *service.Resources) (service.BatchOutput, service.BatchPolicy, int, error) {
		return out, service.BatchPolicy{}, 1, nil
	}); err != nil {
		return nil, err
	}
	b := env.NewStreamBuilder()
	config := benthosFilter
	if j.Keyed {
		config = benthosCount
	}
	if err := b.SetYAML(config); err != nil {
		return nil, err
	}
	s, err := b.Build()
	if err != nil {
		return nil, err
	}
	failed := make(chan error, 1)
	go func() { failed <- s.Run(ctx) }()
	r, err := metered(ctx, o, in.made.Load, failed)
	if err != nil {
		return nil, err
	}
	close(in.stop)
	if err := <-failed; err != nil {
		return nil, err
	}
	if out.err != nil {
		return nil, out.err
	}
	r.latencies(out.rec)
	return r, nil
}

// benthosInput makes the load for benthos; paced, it hands over what is due.
type benthosInput struct {
	run   load.Run
	stop  chan struct{}
	next  uint64
	made  atomic.Uint64
	pacer *pacer.Pacer
	buf   []byte
}

func (in *benthosInput) Connect(context.Context) error { return nil }

func (in *benthosInput) ReadBatch(ctx context.Context) (service.MessageBatch, service.AckFunc, error) {
	select {
	case <-in.stop:
		return nil, nil, service.ErrEndOfInput
	default:
	}
	n, err := in.due(ctx)
	if err != nil {
		return nil, nil, err
	}
	batch := make(service.MessageBatch, n)
	for i := range batch {
		in.buf = payload(in.buf[:0], in.next, in.run.Schedule.Due(in.next))
		batch[i] = service.NewMessage(bytes.Clone(in.buf)) // the message keeps it
		in.next++
	}
	in.made.Add(n)
	return batch, func(context.Context, error) error { return nil }, nil
}

func (in *benthosInput) due(ctx context.Context) (uint64, error) {
	if in.run.FlatOut {
		return benthosBatch, nil
	}
	if in.pacer == nil {
		// The context of a read ends with the read: the pacer gets its own.
		p, err := pacer.New(context.WithoutCancel(ctx))
		if err != nil {
			return 0, err
		}
		in.pacer = p
	}
	s := in.run.Schedule
	if s.Due(in.next) >= in.run.Until {
		return 0, service.ErrEndOfInput
	}
	if s.Passed(time.Now().UnixMicro()) < in.next+benthosBatch {
		if err := in.pacer.Sleep(time.Until(s.At(in.next))); err != nil {
			return 0, err
		}
	}
	return min(benthosBatch, max(s.Passed(time.Now().UnixMicro()), in.next+1)-in.next), nil
}

func (in *benthosInput) Close(context.Context) error {
	if in.pacer == nil {
		return nil
	}
	return in.pacer.Close()
}

// benthosOutput turns results into bytes, which benthos does lazily, and
// measures them.
type benthosOutput struct {
	rec   *load.Recorder
	until int64
	timed bool
	err   error
}

func (out *benthosOutput) Connect(context.Context) error { return nil }

func (out *benthosOutput) WriteBatch(_ context.Context, batch service.MessageBatch) error {
	now := int64(0)
	for _, m := range batch {
		row, err := m.AsBytes()
		if err != nil {
			return err
		}
		if !out.timed {
			continue
		}
		if now == 0 {
			now = time.Now().UnixMicro()
		}
		due, err := dueIn(row)
		if err != nil {
			out.err = err
			return err
		}
		if due < out.until {
			out.rec.Record(due, now)
		}
	}
	return nil
}

func (out *benthosOutput) Close(context.Context) error { return nil }

// dueIn reads the member ts of a JSON object.
func dueIn(row []byte) (int64, error) {
	_, rest, ok := bytes.Cut(row, []byte(`"ts":`))
	if !ok {
		return 0, errors.New("a result has no member ts")
	}
	end := bytes.IndexAny(rest, ",}")
	return strconv.ParseInt(string(rest[:max(end, 0)]), 10, 64)
}
