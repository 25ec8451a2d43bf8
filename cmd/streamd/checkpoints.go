package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/streamd-io/streamd/cmd/streamd/internal/demo"
	"github.com/streamd-io/streamd/runtime"
)

type checkpointsCmd struct {
	Ls      checkpointsLsCmd      `cmd:"" help:"List queries and the epochs they can go on from."`
	Inspect checkpointsInspectCmd `cmd:"" help:"Show offsets, watermarks, rows and state of an epoch."`
	Verify  checkpointsVerifyCmd  `cmd:"" help:"Read everything, compare it with its checksums and add up the rows."`
}

// checkpointsArgs are what the commands have in common.
type checkpointsArgs struct {
	Dir   string `arg:"" help:"Directory that was given to streamd run or demo as --dir."`
	Query string `arg:"" optional:"" help:"Only this query."`
	JSON  bool   `name:"json" help:"Print JSON instead of text."`
}

type checkpointsLsCmd struct{ checkpointsArgs }

type checkpointsInspectCmd struct {
	checkpointsArgs
	Epoch uint64 `help:"The epoch to show instead of the newest." placeholder:"N"`
}

type checkpointsVerifyCmd struct{ checkpointsArgs }

// each calls f for the chosen queries.
func (a *checkpointsArgs) each(f func(ctx context.Context, c *runtime.Checkpoints, query string) error) error {
	if err := existing("DIR", a.Dir); err != nil {
		return err
	}
	c, err := runtime.OpenCheckpoints(stateDir(a.Dir))
	if err != nil {
		return err
	}
	names := []string{a.Query}
	if a.Query == "" {
		names, err = c.Queries()
	}
	for _, n := range names {
		if err == nil {
			err = f(context.Background(), c, n)
		}
	}
	return errors.Join(err, c.Close())
}

// stateDir finds the checkpoints in the directory of a demo, which holds those of
// its server as well.
func stateDir(dir string) string {
	if there(filepath.Join(dir, "queries")) || !there(filepath.Join(dir, demo.StateDir, "queries")) {
		return dir
	}
	return filepath.Join(dir, demo.StateDir)
}

// there reports whether something of that name exists; what is wrong with it
// comes out when it is opened.
func there(name string) bool {
	_, err := os.Stat(name)
	return err == nil
}

// Run lists.
func (a *checkpointsLsCmd) Run(unknown strays) error {
	unknown.warn("")
	list := []*runtime.CheckpointSummary{}
	err := a.each(func(ctx context.Context, c *runtime.Checkpoints, query string) error {
		s, err := c.Summary(ctx, query)
		list = append(list, s)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON {
		err = printJSON(list)
	} else {
		var out strings.Builder
		printSummaries(&out, list)
		fmt.Print(out.String())
	}
	if err == nil && slices.ContainsFunc(list, func(s *runtime.CheckpointSummary) bool { return s.Problem != "" }) {
		return &exitError{code: exitIncompatible}
	}
	return err
}

// Run shows.
func (a *checkpointsInspectCmd) Run(unknown strays) error {
	unknown.warn("")
	var list []*runtime.CheckpointDetail
	err := a.each(func(ctx context.Context, c *runtime.Checkpoints, query string) error {
		d, err := c.Inspect(ctx, query, a.Epoch)
		list = append(list, d)
		return err
	})
	if err != nil {
		return err
	}
	if a.JSON && a.Query != "" {
		return printJSON(list[0])
	}
	if a.JSON {
		return printJSON(list)
	}
	var out strings.Builder
	for i, d := range list {
		if i > 0 {
			out.WriteByte('\n')
		}
		printDetail(&out, d)
	}
	fmt.Print(out.String())
	return nil
}

// Run verifies.
func (a *checkpointsVerifyCmd) Run(unknown strays) error {
	unknown.warn("")
	list := []*runtime.CheckpointReport{}
	problems := 0
	err := a.each(func(ctx context.Context, c *runtime.Checkpoints, query string) error {
		r, err := c.Verify(ctx, query)
		if err != nil {
			return err
		}
		list = append(list, r)
		problems += len(r.Problems)
		return nil
	})
	if err != nil {
		return err
	}
	if a.JSON {
		err = printJSON(list)
	} else {
		var out strings.Builder
		printReports(&out, list)
		fmt.Print(out.String())
	}
	if err == nil && problems > 0 {
		return &exitError{code: exitIncompatible}
	}
	return err
}

func printJSON(v any) error {
	e := json.NewEncoder(os.Stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// table aligns columns that are separated by tabs.
func table(w *strings.Builder, rows func(t *strings.Builder)) {
	var raw strings.Builder
	rows(&raw)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = io.WriteString(t, raw.String()) // into memory
	_ = t.Flush()
}

func printSummaries(w *strings.Builder, list []*runtime.CheckpointSummary) {
	if len(list) == 0 {
		fmt.Fprintln(w, "no checkpoints")
		return
	}
	table(w, func(t *strings.Builder) {
		fmt.Fprintln(t, "QUERY\tON DISK\tEPOCH\tCOMMITTED\tATTEMPT\tROWS READ\tSTATE ROWS\tSTATE\tNOTE")
		for _, s := range list {
			name, disk := s.Query, bytesText(s.Bytes)
			for _, e := range s.Epochs {
				note := ""
				if e.Final {
					note = "final: drained or ended"
				}
				fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%d\t%d\t%d\t%s\t%s\n", name, disk, e.Epoch, timeText(&e.At), e.Attempt, e.RowsIn, e.StateRows, bytesText(e.StateBytes), note)
				name, disk = "", ""
			}
			if len(s.Epochs) == 0 {
				fmt.Fprintf(t, "%s\t%s\t-\t\t\t\t\t\tno epoch has been read\n", name, disk)
			}
		}
	})
	for _, s := range list {
		if s.Problem != "" {
			fmt.Fprintf(w, "%s: %s\n", s.Query, s.Problem)
		}
	}
}

func printDetail(w *strings.Builder, d *runtime.CheckpointDetail) {
	kept := strings.Trim(strings.Join(strings.Fields(fmt.Sprint(d.Retained)), ", "), "[]")
	final := ""
	if d.Final {
		final = ", final"
	}
	fmt.Fprintf(w, "query %s, epoch %d%s (retained: %s)\n", d.Query, d.Epoch, final, kept)
	fmt.Fprintf(w, "committed %s by attempt %d, after epoch %d; record of %s\n", timeText(&d.At), d.Attempt, d.Prev, bytesText(int64(d.RecordBytes)))
	fmt.Fprintf(w, "incarnation %s, plan %s\n\n", d.Incarnation, d.Plan)
	table(w, func(t *strings.Builder) {
		fmt.Fprintln(t, "SOURCE\tPARTITION\tROWS\tWATERMARK\tSTATUS\tOFFSET")
		for _, s := range d.Sources {
			status := "active"
			if s.Ended {
				status = "ended"
			} else if s.Idle {
				status = "idle"
			}
			fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", s.Source, orDash(s.Partition), s.Rows, timeText(s.Watermark), status, shorten(string(s.Offset), 60))
		}
	})
	fmt.Fprintln(w)
	table(w, func(t *strings.Builder) {
		fmt.Fprintln(t, "NODE\tIN\tOUT\tFILTERED\tLATE\tBAD\tREPEATED\tINTO STATE\tWATERMARK")
		for _, o := range d.Operators {
			fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", o.Name, o.In, o.Out, o.Filtered, o.Late, o.Bad, o.Deduplicated, o.IntoState, timeText(o.Watermark))
		}
	})
	fmt.Fprintln(w)
	printState(w, d)
	table(w, func(t *strings.Builder) {
		fmt.Fprintln(t, "SINK\tEPOCH\tTOKEN")
		for _, s := range d.Sinks {
			fmt.Fprintf(t, "%s\t%d\t%s\n", s.Sink, s.Epoch, shorten(orDash(s.Token), 80))
		}
	})
}

func printState(w *strings.Builder, d *runtime.CheckpointDetail) {
	any := false
	for _, o := range d.Operators {
		any = any || o.Kind != "" || o.Segments > 0
	}
	if !any {
		return
	}
	table(w, func(t *strings.Builder) {
		fmt.Fprintln(t, "STATE\tROWS\tBYTES\tEVICTED\tKEY GROUPS\tSEGMENTS\tKIND\tSCHEMA")
		for _, o := range d.Operators {
			if o.Kind != "" || o.Segments > 0 {
				fmt.Fprintf(t, "%s\t%d\t%s\t%d\t%d\t%d\t%s\t%s\n", o.Name, o.StateRows, bytesText(o.StateBytes), o.Evicted, o.KeyGroups, o.Segments, orDash(o.Kind), shorten(o.Schema, 80))
			}
		}
	})
	fmt.Fprintln(w)
}

func printReports(w *strings.Builder, list []*runtime.CheckpointReport) {
	problems := 0
	for _, r := range list {
		for _, p := range r.Problems {
			fmt.Fprintf(w, "%s: %s\n", r.Query, p)
		}
		problems += len(r.Problems)
		if len(r.Problems) == 0 {
			fmt.Fprintf(w, "%s: ok: %d epochs, %d segments with %s of state, rows of %d operators\n", r.Query, len(r.Epochs), r.Segments, bytesText(r.Bytes), r.Operators)
		}
	}
	if problems > 0 {
		fmt.Fprintf(w, "%d problems\n", problems)
	}
}

func timeText(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Format("2006-01-02T15:04:05.000Z")
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func shorten(s string, n int) string {
	if r := []rune(s); len(r) > n {
		return string(r[:n]) + fmt.Sprintf("... (%d more)", len(r)-n)
	}
	return s
}

func bytesText(n int64) string {
	switch {
	case n < 10<<10:
		return fmt.Sprintf("%d B", n)
	case n < 10<<20:
		return fmt.Sprintf("%d KB", n>>10)
	}
	return fmt.Sprintf("%d MB", n>>20)
}

// restoreEpochs reads the values of --restore-epoch: N, or NAME=N.
func restoreEpochs(values []string) (only uint64, named map[string]uint64, err error) {
	for _, v := range values {
		at := strings.LastIndexByte(v, '=')
		n, err := strconv.ParseUint(v[at+1:], 10, 64)
		if err != nil || n == 0 {
			return 0, nil, fmt.Errorf("--restore-epoch %s: want the number of an epoch, N or NAME=N (see streamd checkpoints ls)", v)
		}
		switch {
		case at >= 0 && named[v[:at]] != 0, at < 0 && only != 0:
			return 0, nil, fmt.Errorf("--restore-epoch %s: given twice", v)
		case at < 0:
			only = n
		default:
			if named == nil {
				named = map[string]uint64{}
			}
			named[v[:at]] = n
		}
	}
	return only, named, nil
}
