// Command peers runs the same workload, the same bytes, on streamd and on other
// Go stream processors embedded in the same kind of process, in alternating
// order (A B B A), each round in a process of its own. It is a module of its own
// so that their dependencies stay out of the main one.
//
//	cd test/bench/peers && go run . -duration 10s -rounds 4 -json
package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
	"time"
)

// job is one workload.
type job struct {
	Name string
	Doc  string
	Rate int64 // rows/s, 0: flat out
	// Keyed counts per auction and second; otherwise rows are filtered and projected.
	Keyed bool
}

func jobs() []job {
	return []job{
		{"filter-project/flat-out", "JSON in, nine rows of ten, five fields of six, JSON out", 0, false},
		{"filter-project/10k", "the same at 10,000 rows/s: latency from due time to sink", 10_000, false},
		{"filter-project/50k", "the same at 50,000 rows/s", 50_000, false},
		{"windowed-count/flat-out", "JSON in, count per key and second over 1,000 keys, JSON out", 0, true},
	}
}

// engines run a job in this process. The order is that of the first pass.
func engines() []string { return []string{"streamd", "benthos"} }

// result is what one round measured.
type result struct {
	Name         string  `json:"name"`
	Engine       string  `json:"engine"`
	Round        int     `json:"round"`
	Rate         int64   `json:"rate"`
	Rows         uint64  `json:"rows"`
	P50          float64 `json:"p50_ms"`
	P99          float64 `json:"p99_ms"`
	P999         float64 `json:"p999_ms"`
	Max          float64 `json:"max_ms"`
	RowsPerS     float64 `json:"rows_per_s"`
	RowsPerCPU   float64 `json:"rows_per_cpu_s"`
	CPU          float64 `json:"cpu_s"`
	GCShare      float64 `json:"gc_share"`
	RSS          float64 `json:"rss_mb"`
	AllocsPerRow float64 `json:"allocs_per_row"`
}

type options struct {
	duration    time.Duration
	rounds      int
	json        bool
	run         string
	engine, job string // set in the process of a round
	warmup      time.Duration
}

func main() {
	var o options
	flag.DurationVar(&o.duration, "duration", 10*time.Second, "measured time of a round; a fifth of it goes before as warm-up")
	flag.IntVar(&o.rounds, "rounds", 4, "rounds per engine and workload")
	flag.BoolVar(&o.json, "json", false, "print one JSON object per round and line")
	flag.StringVar(&o.run, "run", "", "run the workloads whose name matches this regular expression")
	flag.StringVar(&o.engine, "engine", "", "used by the program itself")
	flag.StringVar(&o.job, "job", "", "used by the program itself")
	flag.Parse()
	o.warmup = max(o.duration/5, 500*time.Millisecond)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := start(ctx, o)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func start(ctx context.Context, o options) error {
	if o.engine != "" {
		return round(ctx, o)
	}
	re, err := regexp.Compile(o.run)
	if err != nil {
		return fmt.Errorf("-run: %w", err)
	}
	for _, j := range jobs() {
		if !re.MatchString(j.Name) {
			continue
		}
		all := map[string][]*result{}
		for n := range o.rounds {
			order := slices.Clone(engines())
			if n%2 == 1 {
				slices.Reverse(order)
			}
			for _, name := range order {
				r, err := runRound(ctx, o, j, name)
				if err != nil {
					return fmt.Errorf("%s on %s: %w", j.Name, name, err)
				}
				r.Round = n + 1
				all[name] = append(all[name], r)
				if o.json {
					if err := json.NewEncoder(os.Stdout).Encode(r); err != nil {
						return err
					}
				}
			}
		}
		if !o.json {
			printMedians(j, all)
		}
	}
	return nil
}

func printMedians(j job, all map[string][]*result) {
	fmt.Printf("%s: %s\n", j.Name, j.Doc)
	for _, name := range engines() {
		rs := all[name]
		m := func(of func(*result) float64) float64 {
			v := make([]float64, len(rs))
			for i, r := range rs {
				v[i] = of(r)
			}
			slices.Sort(v)
			return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
		}
		fmt.Printf("  %-10s %10.0f rows/CPU s  %9.0f rows/s  p50 %.3f  p99 %.3f  p99.9 %.3f  max %.2f ms  RSS %.0f MB  %.2f allocs/row\n", name,
			m(func(r *result) float64 { return r.RowsPerCPU }), m(func(r *result) float64 { return r.RowsPerS }),
			m(func(r *result) float64 { return r.P50 }), m(func(r *result) float64 { return r.P99 }), m(func(r *result) float64 { return r.P999 }),
			m(func(r *result) float64 { return r.Max }), m(func(r *result) float64 { return r.RSS }), m(func(r *result) float64 { return r.AllocsPerRow }))
	}
}

// runRound runs one round in a process of its own.
func runRound(ctx context.Context, o options, j job, engine string) (*result, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*o.duration+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, exe, "-engine", engine, "-job", j.Name, "-duration", o.duration.String())
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Run(); err != nil {
		return nil, err
	}
	r := &result{}
	if err := json.Unmarshal(out.Bytes(), r); err != nil {
		return nil, fmt.Errorf("result %q: %w", out.Bytes(), err)
	}
	return r, nil
}

// round is the process of one round.
func round(ctx context.Context, o options) error {
	i := slices.IndexFunc(jobs(), func(j job) bool { return j.Name == o.job })
	if i < 0 {
		return fmt.Errorf("there is no workload %q", o.job)
	}
	j := jobs()[i]
	var r *result
	var err error
	switch o.engine {
	case "streamd":
		r, err = runStreamd(ctx, o, j)
	case "benthos":
		r, err = runBenthos(ctx, o, j)
	default:
		err = errors.New("there is no engine " + o.engine)
	}
	if err != nil {
		return err
	}
	r.Name, r.Engine, r.Rate = j.Name, o.engine, j.Rate
	return json.NewEncoder(os.Stdout).Encode(r)
}
