package main

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestASecondSignal(t *testing.T) {
	for name, c := range map[string]struct {
		second os.Signal
		after  time.Duration
		want   int // 0: it is taken for the first one
	}{
		"at the same moment, as timeout sends it": {syscall.SIGTERM, 0, 0},
		"almost at the same moment":               {syscall.SIGTERM, echo - 1, 0},
		"later":                                   {syscall.SIGTERM, echo, 143},
		"of another kind at the same moment":      {os.Interrupt, 0, 130},
	} {
		t.Run(name, func(t *testing.T) {
			times := make(chan time.Time, 3)
			start := time.Now()
			times <- start
			times <- start.Add(c.after)
			times <- start.Add(time.Hour)
			codes := make(chan int, 1)
			w := &signalWatch{now: func() time.Time { return <-times }, exit: func(code int) { codes <- code }}
			signals := make(chan os.Signal, 3)
			signals <- syscall.SIGTERM
			signals <- c.second
			first := w.start(signals)
			if got := <-first; got != syscall.SIGTERM {
				t.Errorf("the first signal is %v", got)
			}
			want := c.want
			if want == 0 { // then the next one counts
				signals <- syscall.SIGTERM
				want = 143
			}
			if got := <-codes; got != want {
				t.Errorf("got exit code %d, want %d", got, want)
			}
			if left := len(times); (c.want == 0) != (left == 0) && c.second == syscall.SIGTERM {
				t.Errorf("%d looks at the clock are left", left)
			}
		})
	}
}
