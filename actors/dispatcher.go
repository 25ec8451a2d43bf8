package actors

import "sync/atomic"

const (
	// throughput is how many messages an actor handles before others get a turn;
	// that of the library.
	throughput = 300
	// maxReady bounds the goroutines that wait for an actor to run: more than there
	// are processors, few enough to be forgotten after a burst.
	maxReady = 64
)

// dispatcher runs actors on goroutines that are used again. A new one begins with
// a small stack and grows it by copying on the way into the operators: for rows
// that come one by one that was 6 % of the CPU time of a process.
type dispatcher struct {
	ready chan func()
	idle  atomic.Int32
	quit  chan struct{}
}

func newDispatcher() *dispatcher {
	return &dispatcher{ready: make(chan func()), quit: make(chan struct{})}
}

func (d *dispatcher) Throughput() int { return throughput }

func (d *dispatcher) Schedule(run func()) {
	select {
	case d.ready <- run:
	default:
		go d.work(run)
	}
}

func (d *dispatcher) work(run func()) {
	for {
		run()
		if d.idle.Add(1) > maxReady {
			d.idle.Add(-1)
			return
		}
		select {
		case run = <-d.ready:
			d.idle.Add(-1)
		case <-d.quit:
			return
		}
	}
}

// close ends the goroutines that wait. What is scheduled later still runs.
func (d *dispatcher) close() { close(d.quit) }
