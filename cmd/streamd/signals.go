package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// echo is how long after the first signal the same one again is taken for the
// first: timeout(1) and some service managers signal a process and then its
// group. People who want it ended at once are slower.
const echo = 500 * time.Millisecond

// signalWatch tells the first signal from the second.
type signalWatch struct {
	now  func() time.Time
	exit func(code int)
}

// watchSignals returns the first signal that asks for the end; a second one ends
// the process at once, which loses nothing. done gives the signals back.
//
// From here on a closed standard output does not end the process: what writes
// there gets an error, and everything else goes on.
func watchSignals() (first <-chan os.Signal, done func()) {
	signal.Ignore(syscall.SIGPIPE)
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	w := &signalWatch{now: time.Now, exit: os.Exit}
	return w.start(signals), func() {
		signal.Stop(signals)
		close(signals)
	}
}

// start passes on the first of signals; it ends with their channel.
func (w *signalWatch) start(signals <-chan os.Signal) <-chan os.Signal {
	first := make(chan os.Signal, 1)
	go func() {
		sig, ok := <-signals
		if !ok {
			return
		}
		at := w.now()
		first <- sig
		for again := range signals {
			if again == sig && w.now().Sub(at) < echo {
				continue
			}
			w.exit(exitSignal(again))
			return
		}
	}()
	return first
}

// exitSignal is the exit code of a process that a signal has ended at once.
func exitSignal(sig os.Signal) int {
	if s, ok := sig.(syscall.Signal); ok {
		return 128 + int(s)
	}
	return exitFailed
}
