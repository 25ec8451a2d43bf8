package actors

import (
	"runtime/debug"

	"github.com/streamd-io/streamd/messages/fault"
)

// Executor provides the goroutines in which actors do blocking work. The
// production one starts goroutines; a simulation runs the tasks itself.
type Executor interface {
	// Worker returns a new worker. name says what it does, for messages; failed
	// is told about a task that panicked.
	Worker(name string, failed func(error)) Worker
}

// Worker runs tasks one after the other, in the order of submission.
type Worker interface {
	// Submit queues a task. It never blocks; the caller keeps the number of
	// outstanding tasks below MaxTasks.
	Submit(task func())
	// Stop drops the tasks that have not started, and calls final in the worker
	// once the running one has returned. Nothing may be submitted afterwards.
	Stop(final func())
}

// MaxTasks is the largest number of tasks a worker accepts at a time.
const MaxTasks = 64

// goExecutor runs each worker as a goroutine.
type goExecutor struct{}

func (goExecutor) Worker(_ string, failed func(error)) Worker {
	w := &goWorker{tasks: make(chan func(), MaxTasks), quit: make(chan func(), 1), failed: failed}
	go w.run()
	return w
}

type goWorker struct {
	tasks  chan func()
	quit   chan func()
	failed func(error)
}

func (w *goWorker) Submit(task func()) {
	select {
	case w.tasks <- task:
	default:
		panic("actors: worker has too many outstanding tasks")
	}
}

func (w *goWorker) Stop(final func()) { w.quit <- final }

func (w *goWorker) run() {
	for {
		select {
		case final := <-w.quit:
			guard(final, w.failed)
			return
		default:
		}
		select {
		case final := <-w.quit:
			guard(final, w.failed)
			return
		case task := <-w.tasks:
			guard(task, w.failed)
		}
	}
}

// guard runs f and reports a panic, which must not kill the process.
func guard(f func(), failed func(error)) {
	defer func() {
		if v := recover(); v != nil {
			failed(fault.Recovered(v, debug.Stack()))
		}
	}()
	f()
}
