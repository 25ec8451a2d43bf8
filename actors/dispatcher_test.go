package actors

import (
	goruntime "runtime"
	"sync"
	"testing"
)

func TestGoroutinesOfActorsAreUsedAgain(t *testing.T) {
	d := newDispatcher()
	defer d.close()
	started := func(n int) {
		var wg sync.WaitGroup
		hold := make(chan struct{})
		for range n {
			wg.Add(1)
			d.Schedule(func() { <-hold; wg.Done() })
		}
		close(hold)
		wg.Wait()
		for int(d.idle.Load()) < min(n, maxReady) { // they are on their way there
			goruntime.Gosched()
		}
	}
	started(10)
	before := goruntime.NumGoroutine()
	for range 100 {
		started(10)
	}
	// One that is about to wait cannot take work yet: a few more are made.
	if n := goruntime.NumGoroutine(); n > before+10 {
		t.Errorf("there were %d goroutines before 1,000 runs and are %d", before, n)
	}
	started(10 * maxReady)
	for goruntime.NumGoroutine() > before+maxReady {
		goruntime.Gosched()
	}
}

func TestActorsRunWhenTheDispatcherIsClosed(t *testing.T) {
	d := newDispatcher()
	d.close()
	done := make(chan struct{})
	d.Schedule(func() { close(done) })
	<-done
}
