package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
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
func (c *demoCmd) Run(unknown strays) error {
	signals, done := watchSignals()
	defer done()
	syscall.Umask(0o077)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(demoGC)
	}
	if c.Rate < 1 || c.Rate > 1_000_000 {
		return fmt.Errorf("--rate is %d, it must be between 1 and 1000000", c.Rate)
	}
	if err := checkDir(c.Dir, "streamd-demo"); err != nil {
		return err
	}
	unknown.warn("")
	if c.LogLevel == "info" {
		c.LogLevel = "warn" // the view shows what the log would say
	}
	ctx := context.Background()
	d, err := demo.Start(ctx, demo.Config{Dir: c.Dir, Rate: c.Rate, Log: c.logger(os.Stderr)})
	if err != nil {
		return err
	}
	defer d.Close()
	unwatched := c.watch(d, signals)
	if !c.JSON {
		fmt.Println("\rdraining: reading stops, rows in flight are finished, a final epoch is committed")
	}
	drainCtx, cancel := context.WithTimeout(ctx, drainTimeout)
	defer cancel()
	if err := d.Drain(drainCtx); err != nil {
		return &exitError{code: exitFailed, err: err}
	}
	if err := cmp.Or(unwatched, c.finish(d)); err != nil {
		return &exitError{code: exitFailed, err: fmt.Errorf("write to standard output: %s", cause(err))}
	}
	return nil
}

// finish prints the summary.
func (c *demoCmd) finish(d *demo.Demo) error {
	sum := d.Summarize()
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(sum)
	}
	text := ""
	for _, q := range d.Session().Queries() {
		if p := q.LastProgress(); p != nil {
			text += fmt.Sprintf("%s: final epoch %d committed\n", q.Name(), p.BatchID)
		}
	}
	_, err := fmt.Print(text + sum.Text(c.Duration))
	return err
}

// watch shows the demo until a signal comes, its time is over, or nobody reads
// what it shows, which is the error: a picture that is redrawn on a terminal,
// plain lines elsewhere.
func (c *demoCmd) watch(d *demo.Demo, signals <-chan os.Signal) error {
	var over <-chan time.Time
	if c.Duration > 0 {
		over = time.After(c.Duration)
	}
	var ticks <-chan time.Time
	if !c.JSON {
		t := time.NewTicker(time.Second)
		defer t.Stop()
		ticks = t.C
	}
	p := picture{view: d.NewView(), live: term.IsTerminal(int(os.Stdout.Fd()))}
	for {
		select {
		case <-signals:
			return nil
		case <-over:
			return nil
		case <-ticks:
		}
		if err := p.show(d); err != nil {
			return err
		}
	}
}

// picture is what standard output shows of a demo.
type picture struct {
	view      *demo.View
	live      bool // on a terminal
	announced bool
	lines     int // of the picture before
}

func (p *picture) show(d *demo.Demo) error {
	text := ""
	if r := d.Resumed(); !p.announced && r != "" {
		text = fmt.Sprintf("resumed %s\n\n", r)
		p.announced = true
	}
	if p.live {
		frame := clip(p.view.Frame()+"\nCtrl-C drains and ends.\n", columns())
		if p.lines > 0 {
			text += fmt.Sprintf("\x1b[%dA\x1b[J", p.lines)
		}
		p.lines = strings.Count(frame, "\n")
		text += frame
	} else {
		text += p.view.Line() + "\n"
	}
	_, err := fmt.Print(text)
	return err
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
