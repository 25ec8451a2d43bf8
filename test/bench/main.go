// Command bench measures the engine from outside: latency under an open-loop
// load, throughput per CPU second, the cost of epochs, recovery, memory and
// fairness. docs/performance.md explains what the figures mean.
//
//	go run ./test/bench -list
//	go run ./test/bench -run 'stateless|keyed' -duration 10s -json
//
// Every round of a benchmark runs in a process of its own, so that memory, CPU
// time and garbage of one do not show in another.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	list     bool
	run      string
	duration time.Duration
	rounds   int
	json     bool
	dir      string
	profile  string
	table    bool
	files    []string // of -table

	role string // what this process is, if it was started by another one of the bench
	name string // of the benchmark, for the role round
}

func parseFlags(args []string, stderr io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.list, "list", false, "list the benchmarks and what they measure")
	f.StringVar(&o.run, "run", "", "run the benchmarks whose name matches this regular expression")
	f.DurationVar(&o.duration, "duration", 10*time.Second, "measured time of a round; a fifth of it goes before as warm-up")
	f.IntVar(&o.rounds, "rounds", 3, "rounds per benchmark; the median is reported, and the worst beside it")
	f.BoolVar(&o.json, "json", false, "print one JSON object per benchmark and line")
	f.StringVar(&o.dir, "dir", "", "directory for checkpoints and streams (default a temporary one)")
	f.StringVar(&o.profile, "profile", "", "directory for profiles of the last round of each benchmark")
	f.BoolVar(&o.table, "table", false, "print the files given as arguments, written with -json, as a Markdown table")
	f.StringVar(&o.role, "role", "", "used by the bench itself")
	f.StringVar(&o.name, "name", "", "used by the bench itself")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	o.files = f.Args()
	switch {
	case f.NArg() > 0 && !o.table:
		return o, fmt.Errorf("bench takes no arguments, only flags: %q", f.Arg(0))
	case o.duration < 100*time.Millisecond:
		return o, fmt.Errorf("-duration is %s, it must be at least 100ms", o.duration)
	case o.rounds < 1:
		return o, fmt.Errorf("-rounds is %d, it must be at least 1", o.rounds)
	}
	return o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	o, err := parseFlags(os.Args[1:], os.Stderr)
	if err == nil {
		err = start(ctx, o)
	}
	stop()
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, o options) error {
	if o.role != "" {
		return playRole(ctx, o)
	}
	if o.table {
		return printTable(os.Stdout, o.files)
	}
	chosen, err := choose(benchmarks(), o.run)
	if err != nil {
		return err
	}
	if o.list {
		for _, b := range chosen {
			if o.json {
				if err := json.NewEncoder(os.Stdout).Encode(map[string]any{"name": b.name, "rate": b.rate, "doc": b.doc}); err != nil {
					return err
				}
				continue
			}
			fmt.Printf("%-40s %s\n", b.name, b.doc)
		}
		return nil
	}
	if !o.json {
		if err := printHeader(os.Stdout); err != nil {
			return err
		}
	}
	failed := 0
	for _, b := range chosen {
		res, err := runRounds(ctx, b, o)
		if err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			failed++
			fmt.Fprintf(os.Stderr, "bench: %s: %v\n", b.name, err)
			continue
		}
		if err := printResult(os.Stdout, res, o.json); err != nil {
			return err
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d benchmarks failed", failed, len(chosen))
	}
	return nil
}

func choose(all []benchmark, pattern string) ([]benchmark, error) {
	re, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("-run: %w", err)
	}
	var out []benchmark
	for _, b := range all {
		if re.MatchString(b.name) {
			out = append(out, b)
		}
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("-run %q matches no benchmark; -list shows them", pattern)
	}
	return out, nil
}
