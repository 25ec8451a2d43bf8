package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/streamd-io/streamd/test/bench/meter"
)

// daemonBenchmarks measure the program streamd itself.
func daemonBenchmarks() []benchmark {
	return []benchmark{{
		name: "daemon/one-query", doc: "streamd run from the start of the process to its first row, then idle: memory and CPU time", run: runDaemon,
	}}
}

// daemonSQL reads one line and waits for more.
const daemonSQL = `
CREATE SOURCE numbers (n BIGINT) WITH (connector = 'file', path = '%s', format = 'json');
CREATE SINK out WITH (connector = 'console');
INSERT INTO out SELECT n, n * 2 AS twice FROM numbers WHERE n > 0;
`

func runDaemon(ctx context.Context, e *env) (*result, error) {
	bin := filepath.Join(e.dir, "streamd")
	build := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", bin, "github.com/streamd-io/streamd/cmd/streamd")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("build streamd (the bench has to run in the repository): %w\n%s", err, out)
	}
	in, script := filepath.Join(e.dir, "in"), filepath.Join(e.dir, "script.sql")
	if err := os.Mkdir(in, 0o700); err != nil {
		return nil, err
	}
	for path, text := range map[string]string{filepath.Join(in, "one.json"): `{"n":21}` + "\n", script: fmt.Sprintf(daemonSQL, in)} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return nil, err
		}
	}
	cmd := exec.CommandContext(ctx, bin, "run", "--dir", filepath.Join(e.dir, "state"), script)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	started := time.Now()
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	r, err := watchDaemon(ctx, e, cmd.Process.Pid, bufio.NewScanner(out), started)
	_ = cmd.Process.Kill() // nothing of it is needed
	_ = cmd.Wait()         // says that it was killed
	return r, err
}

func watchDaemon(ctx context.Context, e *env, pid int, lines *bufio.Scanner, started time.Time) (*result, error) {
	for lines.Scan() && !strings.Contains(lines.Text(), "42") {
	}
	first := time.Since(started)
	if !strings.Contains(lines.Text(), "42") {
		return nil, fmt.Errorf("streamd ended without a row: %w", lines.Err())
	}
	ended := make(chan error, 1)
	if err := waitUntil(ctx, time.Now().Add(e.warmup), ended); err != nil {
		return nil, err
	}
	before, err := meter.CPUOf(pid)
	if err != nil {
		return nil, err
	}
	if err := waitUntil(ctx, time.Now().Add(e.duration), ended); err != nil {
		return nil, err
	}
	after, err := meter.CPUOf(pid)
	if err != nil {
		return nil, err
	}
	_, peak, err := meter.MemoryOf(pid)
	if err != nil {
		return nil, err
	}
	r := newResult()
	r.RSS = figure(float64(peak) / (1 << 20))
	r.extra["first_row_ms"] = figure(first.Seconds() * 1000)
	r.extra["cpu_percent_of_a_core"] = figure(100 * (after - before).Seconds() / e.duration.Seconds())
	return r, nil
}
