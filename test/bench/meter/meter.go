// Package meter reads what a process has used: CPU time, the share of the
// garbage collector, allocations and memory. Wall-clock rates swing on a shared
// machine; CPU seconds much less so.
package meter

import (
	"bytes"
	"fmt"
	"os"
	"runtime/metrics"
	"strconv"
	"syscall"
	"time"
)

// Reading is what the process has used since its start.
type Reading struct {
	At      time.Time
	CPU     time.Duration // user and system
	GC      time.Duration // CPU time of the collector, as of its last cycle
	Objects uint64        // allocated
	Bytes   uint64        // allocated
	Cycles  uint64        // of the collector
}

// Read takes a reading.
func Read() (Reading, error) {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return Reading{}, os.NewSyscallError("getrusage", err)
	}
	s := []metrics.Sample{
		{Name: "/cpu/classes/gc/total:cpu-seconds"},
		{Name: "/cpu/classes/gc/mark/idle:cpu-seconds"},
		{Name: "/gc/heap/allocs:objects"},
		{Name: "/gc/heap/allocs:bytes"},
		{Name: "/gc/cycles/total:gc-cycles"},
	}
	metrics.Read(s)
	return Reading{
		At: time.Now(), CPU: time.Duration(u.Utime.Nano() + u.Stime.Nano()),
		GC:      time.Duration((s[0].Value.Float64() - s[1].Value.Float64()) * 1e9),
		Objects: s[2].Value.Uint64(), Bytes: s[3].Value.Uint64(), Cycles: s[4].Value.Uint64(),
	}, nil
}

// Usage is the difference of two readings.
type Usage struct {
	Wall, CPU, GC   time.Duration
	Objects, Bytes  uint64
	CollectorCycles uint64
}

// Since returns what was used between an earlier reading and r.
func (r Reading) Since(a Reading) Usage {
	return Usage{
		Wall: r.At.Sub(a.At), CPU: r.CPU - a.CPU, GC: r.GC - a.GC,
		Objects: r.Objects - a.Objects, Bytes: r.Bytes - a.Bytes, CollectorCycles: r.Cycles - a.Cycles,
	}
}

// GCShare is the part of the CPU time that the collector took, 0 to 1.
func (u Usage) GCShare() float64 {
	if u.CPU <= 0 {
		return 0
	}
	return u.GC.Seconds() / u.CPU.Seconds()
}

// Memory returns the resident memory of the process in bytes: now, and at its
// greatest.
func Memory() (now, peak int64, err error) { return MemoryOf(os.Getpid()) }

// MemoryOf is Memory of another process.
func MemoryOf(pid int) (now, peak int64, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0, err
	}
	for line := range bytes.Lines(text) {
		name, rest, _ := bytes.Cut(line, []byte(":"))
		kb, err := strconv.ParseInt(string(bytes.TrimSuffix(bytes.TrimSpace(rest), []byte(" kB"))), 10, 64)
		if err != nil {
			continue // not a size
		}
		switch string(name) {
		case "VmRSS":
			now = kb << 10
		case "VmHWM":
			peak = kb << 10
		}
	}
	return now, peak, nil
}

// CPUOf is the CPU time that another process has used, to 10 ms.
func CPUOf(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name, in parentheses, may contain anything; user and system time are the
	// 12th and 13th field behind it, in ticks of 10 ms on every Linux.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond, nil
}
