package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"

	natsd "github.com/nats-io/nats-server/v2/server"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/test/bench/meter"
)

// child is a process of the bench with which the round talks in lines.
type child struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	exited chan error
}

// startChild starts this program in another role.
func startChild(ctx context.Context, role, dir string) (*child, error) {
	cmd, err := self(ctx, "-role", role, "-dir", dir)
	if err != nil {
		return nil, err
	}
	c := &child{cmd: cmd, exited: make(chan error, 1)}
	if c.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	// Not StdoutPipe, which Wait closes although lines have not been read.
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	cmd.Stdout, cmd.Stderr = w, os.Stderr
	c.out = bufio.NewReader(r)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	_ = w.Close() // the child has its own
	go func() {
		c.exited <- cmd.Wait()
		close(c.exited)
	}()
	return c, nil
}

func (c *child) pid() int { return c.cmd.Process.Pid }

// line reads the next line.
func (c *child) line() (string, error) {
	s, err := c.out.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("a process of the bench ended early: %w", err)
	}
	return s[:len(s)-1], nil
}

// say sends a line.
func (c *child) say(line string) error {
	_, err := io.WriteString(c.in, line+"\n")
	return err
}

// reply sends a line and returns the answer.
func (c *child) reply(line string) (string, error) {
	if err := c.say(line); err != nil {
		return "", err
	}
	return c.line()
}

// kill ends the process at once and waits for it.
func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended
	for range c.exited {
	}
}

// engineConfig is what the role engine runs.
type engineConfig struct {
	Dir    string
	Script string
	Epoch  time.Duration
	Marked bool // meter from the start
	// Profile is the directory of profiles, or "", and Name the benchmark's.
	Profile, Name string
}

// engineReport is what it answers.
type engineReport struct {
	Usage  meter.Usage
	Peak   int64
	Result *result // epochs and what they cost
}

// startEngine starts the role engine and returns when its queries run.
func startEngine(ctx context.Context, cfg engineConfig) (*child, error) {
	c, err := startChild(ctx, roleEngine, cfg.Dir)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(cfg)
	if err != nil {
		return nil, err
	}
	ready, err := c.reply(string(text))
	if err != nil {
		return nil, err
	}
	if ready != "ready" {
		return nil, fmt.Errorf("the engine says %q", ready)
	}
	return c, nil
}

// engineResult makes a result of an engine's report about a number of rows.
func engineResult(report string, rows uint64) (*result, error) {
	var rep engineReport
	if err := json.Unmarshal([]byte(report), &rep); err != nil {
		return nil, fmt.Errorf("report of the engine %q: %w", report, err)
	}
	r := rep.Result
	r.used(rep.Usage, rows)
	r.RSS = figure(float64(rep.Peak) / (1 << 20))
	return r, nil
}

// playEngine is the role engine: a session with one script in a process of its
// own. It reads its configuration, says ready, and then obeys lines: mark begins
// to meter, read answers with a report and drains.
func playEngine(ctx context.Context, stdin io.Reader) error {
	in := bufio.NewScanner(stdin)
	in.Buffer(nil, 1<<20)
	if !in.Scan() {
		return in.Err()
	}
	var cfg engineConfig
	if err := json.Unmarshal(in.Bytes(), &cfg); err != nil {
		return err
	}
	stop, err := startProfiles(cfg.Profile, cfg.Name)
	if err != nil {
		return err
	}
	s, err := runtime.Open(ctx, runtime.Config{
		Dir: cfg.Dir, Connectors: all.Connectors(), Formats: all.Formats(), Defaults: map[string]string{"epoch_interval": cfg.Epoch.String()},
	})
	if err != nil {
		return err
	}
	w := &watch{}
	s.AddListener(w)
	if err := s.Exec(ctx, cfg.Script); err != nil {
		return err
	}
	before, err := meter.Read()
	if err != nil {
		return err
	}
	if cfg.Marked {
		w.begin()
	}
	fmt.Println("ready")
	for in.Scan() {
		switch in.Text() {
		case "mark":
			w.begin()
			if before, err = meter.Read(); err != nil {
				return err
			}
		case "read":
			if err := report(w, before, stop); err != nil {
				return err
			}
		}
	}
	return s.Close()
}

// report prints what has been used since before. The round may end this process
// as soon as it has read it, so profiles are written first.
func report(w *watch, before meter.Reading, stopProfiles func() error) error {
	after, err := meter.Read()
	if err != nil {
		return err
	}
	_, peak, err := meter.Memory()
	if err != nil {
		return err
	}
	w.end()
	r := newResult()
	w.report(r)
	if err := stopProfiles(); err != nil {
		return err
	}
	text, err := json.Marshal(engineReport{after.Since(before), peak, r})
	if err != nil {
		return err
	}
	_, err = fmt.Printf("%s\n", text)
	return err
}

// startServer starts a NATS server with JetStream on disk.
func startServer(dir string) (*natsd.Server, error) {
	srv, err := natsd.NewServer(&natsd.Options{
		ServerName: "bench", Host: "127.0.0.1", Port: natsd.RANDOM_PORT, NoLog: true, NoSigs: true, JetStream: true, StoreDir: dir,
	})
	if err != nil {
		return nil, err
	}
	srv.Start()
	if !srv.ReadyForConnections(10 * time.Second) {
		return nil, fmt.Errorf("the NATS server did not start within 10 s")
	}
	return srv, nil
}
