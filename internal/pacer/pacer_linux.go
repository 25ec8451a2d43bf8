// Package pacer waits for instants more precisely than the timers of the Go
// runtime, for generators of load that must be punctual.
package pacer

import (
	"context"
	"errors"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Pacer waits for instants more precisely than timers of the Go runtime, which
// round to a millisecond when a process is otherwise asleep. It belongs to one
// goroutine.
type Pacer struct {
	file *os.File
	fd   int
	stop func() bool
}

// New returns a pacer whose waits end with ctx.
func New(ctx context.Context) (*Pacer, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	p := &Pacer{file: os.NewFile(uintptr(fd), "timerfd"), fd: fd}
	p.stop = context.AfterFunc(ctx, func() { _ = p.file.SetReadDeadline(time.Unix(1, 0)) }) // fails only when closed
	return p, nil
}

// Sleep waits for d or until the context has ended.
func (p *Pacer) Sleep(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	if err := unix.TimerfdSettime(p.fd, 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil); err != nil {
		return os.NewSyscallError("timerfd_settime", err)
	}
	var buf [8]byte
	_, err := p.file.Read(buf[:])
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return context.Canceled
	}
	return err
}

// Close releases the timer.
func (p *Pacer) Close() error {
	p.stop()
	return p.file.Close()
}
