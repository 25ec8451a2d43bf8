package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	goruntime "runtime"
	"runtime/pprof"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// benchmark is one thing to measure.
type benchmark struct {
	name string
	doc  string
	rate int64 // offered rows/s, 0: flat out
	// run does one round in this process.
	run func(ctx context.Context, e *env) (*result, error)
}

// env is what a round runs in.
type env struct {
	bench    benchmark
	duration time.Duration // measured
	warmup   time.Duration // before it
	dir      string        // empty, on disk, removed afterwards
	profile  string        // directory of profiles, or ""
}

// heapProfile writes what is in use when the measured time ends.
func (e *env) heapProfile() error {
	if e.profile == "" {
		return nil
	}
	goruntime.GC()
	return writeProfile("heap", profileFile(e.profile, e.bench.name, "heap"))
}

// roundTimeout is how long a round may take beyond warm-up and measured time:
// preparation, catching up after an overload, recovery.
const roundTimeout = 4 * time.Minute

// runRounds runs a benchmark several times, each in a process of its own.
func runRounds(ctx context.Context, b benchmark, o options) (*result, error) {
	var rounds []*result
	for i := range o.rounds {
		own := o
		if i < o.rounds-1 {
			own.profile = ""
		}
		r, err := runRound(ctx, b, own)
		if err != nil {
			return nil, fmt.Errorf("round %d: %w", i+1, err)
		}
		rounds = append(rounds, r)
	}
	return summarize(rounds), nil
}

func runRound(ctx context.Context, b benchmark, o options) (*result, error) {
	dir, err := os.MkdirTemp(o.dir, "streamd-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir) //nolint:errcheck // a directory for temporary files
	ctx, cancel := context.WithTimeout(ctx, 2*o.duration+roundTimeout)
	defer cancel()
	args := []string{"-role", roleRound, "-name", b.name, "-duration", o.duration.String(), "-dir", dir}
	if o.profile != "" {
		args = append(args, "-profile", o.profile)
	}
	cmd, err := self(ctx, args...)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	r := newResult()
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, fmt.Errorf("result %q: %w", out.Bytes(), err)
	}
	return r, nil
}

// self returns a command that runs this program, which ends with it.
func self(ctx context.Context, args ...string) (*exec.Cmd, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, exe, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.WaitDelay = 10 * time.Second
	return cmd, nil
}

// Roles of processes that the bench starts.
const (
	roleRound  = "round"
	roleServer = "server"
	roleEngine = "engine"
	roleVictim = "victim"
)

func playRole(ctx context.Context, o options) error {
	switch o.role {
	case roleRound:
		return playRound(ctx, o)
	case roleServer:
		return serve(ctx, o.dir)
	case roleEngine:
		return playEngine(ctx, os.Stdin)
	case roleVictim:
		return playVictim(ctx, os.Stdin)
	}
	return fmt.Errorf("there is no role %q", o.role)
}

func playRound(ctx context.Context, o options) error {
	var b *benchmark
	for _, c := range benchmarks() {
		if c.name == o.name {
			b = &c
		}
	}
	if b == nil {
		return fmt.Errorf("there is no benchmark %q", o.name)
	}
	e := &env{bench: *b, duration: o.duration, warmup: min(max(o.duration/5, 500*time.Millisecond), 10*time.Second), dir: o.dir, profile: o.profile}
	stop, err := startProfiles(o.profile, b.name)
	if err != nil {
		return err
	}
	load := machineLoad()
	r, err := b.run(ctx, e)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	r.Name, r.Rate = b.name, b.rate
	r.extra["machine_load"] = load
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(append(text, '\n'))
	return err
}

// machineLoad is how many tasks wanted to run during the last minute, those of
// others included; NaN if the system does not say.
func machineLoad() figure {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return figure(math.NaN())
	}
	first, _, _ := strings.Cut(string(text), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return figure(math.NaN())
	}
	return figure(v)
}

// startProfiles begins profiles of CPU, blocking and mutexes; what it returns
// writes them, and that of allocations, into dir.
func startProfiles(dir, name string) (stop func() error, err error) {
	if dir == "" {
		return func() error { return nil }, nil
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	cpu, err := os.Create(profileFile(dir, name, "cpu"))
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return nil, errors.Join(err, cpu.Close())
	}
	goruntime.SetBlockProfileRate(10_000)
	goruntime.SetMutexProfileFraction(10)
	return func() error {
		pprof.StopCPUProfile()
		errs := []error{cpu.Close()}
		for _, kind := range []string{"allocs", "block", "mutex"} {
			errs = append(errs, writeProfile(kind, profileFile(dir, name, kind)))
		}
		return errors.Join(errs...)
	}, nil
}

func profileFile(dir, name, kind string) string {
	return filepath.Join(dir, strings.ReplaceAll(name, "/", "_")+"."+kind+".pprof")
}

func writeProfile(kind, path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup(kind).WriteTo(f, 0), f.Close())
}
