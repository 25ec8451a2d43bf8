package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"golang.org/x/term"

	"github.com/streamd-io/streamd/cmd/streamd/internal/demo"
)

type demoCmd struct {
	Duration time.Duration `help:"End after this time; 0 runs until Ctrl-C." default:"0"`
	Rate     int           `help:"Bids per second." default:"10000"`
	JSON     bool          `name:"json" help:"Print one summary object at the end instead of the live view."`
	Dir      string        `help:"Directory of server and checkpoints; the same command resumes." default:"streamd-demo" type:"path"`
	logFlags
}

// demoGC makes the garbage collector run less often than usual. Server, generator
// and queries share a heap of a few megabytes here, so by default it would run
// several times a second, which shows in the slowest results.
const demoGC = 400

// drainTimeout bounds the drain at the end of the demo.
const drainTimeout = 20 * time.Second

// Run runs the demo.
func (c *demoCmd) Run() error {
	syscall.Umask(0o077)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(demoGC)
	}
	if c.Rate < 1 || c.Rate > 1_000_000 {
		return fmt.Errorf("--rate is %d, it must be between 1 and 1000000", c.Rate)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if c.LogLevel == "info" {
		c.LogLevel = "warn" // the view shows what the log would say
	}
	d, err := demo.Start(context.WithoutCancel(ctx), demo.Config{Dir: c.Dir, Rate: c.Rate, Log: c.logger(os.Stderr)})
	if err != nil {
		return err
	}
	defer d.Close()
	if c.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, c.Duration)
		defer cancel()
	}
	c.watch(ctx, d)
	stop() // from here on a signal ends the process
	if !c.JSON {
		fmt.Println("\rdraining: reading stops, rows in flight are finished, a final epoch is committed")
	}
	drainCtx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := d.Drain(drainCtx); err != nil {
		return &exitError{code: exitFailed, err: err}
	}
	return c.finish(d)
}

func (c *demoCmd) finish(d *demo.Demo) error {
	sum := d.Summarize()
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(sum)
	}
	for _, q := range d.Session().Queries() {
		if p := q.LastProgress(); p != nil {
			fmt.Printf("%s: final epoch %d committed\n", q.Name(), p.BatchID)
		}
	}
	fmt.Printf("%d bids in, %d results out; the same command goes on from these epochs\n", sum.RowsIn, sum.RowsOut)
	return nil
}

// watch shows the demo until ctx ends: a picture that is redrawn on a terminal,
// plain lines elsewhere.
func (c *demoCmd) watch(ctx context.Context, d *demo.Demo) {
	if c.JSON {
		<-ctx.Done()
		return
	}
	live := term.IsTerminal(int(os.Stdout.Fd()))
	v := d.NewView()
	announced := false
	t := time.NewTicker(time.Second)
	defer t.Stop()
	lines := 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		if r := d.Resumed(); !announced && r != "" {
			fmt.Printf("resumed %s\n\n", r)
			announced = true
		}
		if !live {
			fmt.Println(v.Line())
			continue
		}
		frame := clip(v.Frame()+"\nCtrl-C drains and ends.\n", columns())
		if lines > 0 {
			fmt.Printf("\x1b[%dA\x1b[J", lines)
		}
		fmt.Print(frame)
		lines = strings.Count(frame, "\n")
	}
}

// columns is the width of the terminal.
func columns() int {
	w, _, err := term.GetSize(int(os.Stdout.Fd()))
	if err != nil || w < 20 {
		return 80
	}
	return w
}

// clip cuts lines to a width, so that each takes one row of the terminal and the
// next picture covers this one.
func clip(text string, width int) string {
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if r := []rune(l); len(r) >= width {
			lines[i] = string(r[:width-1])
		}
	}
	return strings.Join(lines, "\n")
}
