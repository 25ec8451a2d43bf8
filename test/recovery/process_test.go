package recovery

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/internal/freeport"
)

// binaries builds the programs once per test run: streamd with its fault
// points, and nats-server. With RECOVERY_BIN they come from that directory instead.
var binaries = sync.OnceValues(func() (map[string]string, error) {
	if dir := os.Getenv("RECOVERY_BIN"); dir != "" {
		return map[string]string{
			"streamd": filepath.Join(dir, "streamd"), "nats-server": filepath.Join(dir, "nats-server"), "toxiproxy": filepath.Join(dir, "toxiproxy"),
		}, nil
	}
	dir, err := os.MkdirTemp("", "streamd-recovery")
	if err != nil {
		return nil, err
	}
	out := map[string]string{"dir": dir}
	for name, args := range map[string][]string{
		"streamd":     {"build", "-tags", "fault", "-o", filepath.Join(dir, "streamd"), "../../cmd/streamd"},
		"nats-server": {"build", "-o", filepath.Join(dir, "nats-server"), "github.com/nats-io/nats-server/v2"},
	} {
		if err := build(args...); err != nil {
			return nil, err
		}
		out[name] = filepath.Join(dir, name)
	}
	return out, nil
})

// long skips a test that takes more than a few seconds.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short")
	}
}

// build runs the go command without cgo.
func build(args ...string) error {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, text)
	}
	return nil
}

func TestMain(m *testing.M) {
	code := m.Run()
	if b, err := binaries(); err == nil && b["dir"] != "" {
		_ = os.RemoveAll(b["dir"]) // a directory for temporary files
	}
	os.Exit(code)
}

// command says how a child is started.
type command struct {
	name, path string
	args       []string
	env        []string // in addition to the test's own
}

// process is a child that can be killed and started again.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan struct{} // closed when the child has ended
	err  error         // how; set before done is closed
	out  *output
}

// output collects what a child prints.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// said returns an error until the process has printed the text n times.
func (p *process) said(text string, n int) error {
	if got := strings.Count(p.out.String(), text); got < n {
		return fmt.Errorf("%s has said %q %d times, not %d times yet\n%s", p.name, text, got, n, p.tail())
	}
	return nil
}

func startProcess(t *testing.T, c command) *process {
	t.Helper()
	p := &process{name: c.name, cmd: exec.Command(c.path, c.args...), done: make(chan struct{}), out: &output{}}
	p.cmd.Env = append(os.Environ(), c.env...)
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill() // usually it has ended
		<-p.done
	})
	return p
}

// signal sends a signal to a process that runs.
func (p *process) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	select {
	case <-p.done:
		t.Fatalf("%s ended by itself: %v\n%s", p.name, p.err, p.tail())
	default:
	}
	if err := p.cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// freeze stops the process and waits until all of its threads stand still.
func (p *process) freeze(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
	eventually(t, p.name+" stands still", 10*time.Second, func(context.Context) error {
		stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", p.cmd.Process.Pid))
		for _, path := range stats {
			text, err := os.ReadFile(path)
			if _, state, ok := bytes.Cut(text, []byte(") ")); err == nil && (!ok || state[0] != 'T') {
				return fmt.Errorf("%s: %.60s", path, text)
			}
		}
		return err
	})
}

// thaw lets a frozen process go on.
func (p *process) thaw(t *testing.T) { p.signal(t, syscall.SIGCONT) }

// kill ends the process at once and waits for it.
func (p *process) kill(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	<-p.done
	if !p.wasKilled() {
		t.Fatalf("%s ended by itself instead of being killed: %v\n%s", p.name, p.err, p.tail())
	}
}

// end kills a process that may be about to end by itself, in good order or for a
// reason that it has printed.
func (p *process) end(t *testing.T, reasons ...string) {
	t.Helper()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatal(err)
	}
	<-p.done
	if p.err != nil && !p.wasKilled() && !p.saidOne(reasons) {
		t.Fatalf("%s: %v\n%s", p.name, p.err, p.tail())
	}
}

// saidOne reports whether the process has printed one of the texts.
func (p *process) saidOne(texts []string) bool {
	out := p.out.String()
	return slices.ContainsFunc(texts, func(text string) bool { return strings.Contains(out, text) })
}

// ended reports whether the process ends by itself within the limit.
func (p *process) ended(limit time.Duration) bool {
	select {
	case <-p.done:
		return true
	default:
	}
	select {
	case <-p.done:
		return true
	case <-time.After(limit):
		return false
	}
}

// wasKilled reports whether the process, which has ended, was ended by SIGKILL.
func (p *process) wasKilled() bool {
	status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

// terminate asks the process to drain and waits for a good end.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	p.signal(t, syscall.SIGTERM)
	if !p.ended(30 * time.Second) {
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks
		<-p.done
		t.Fatalf("%s did not drain within 30 s: %v\n%s", p.name, p.err, p.out.String())
	}
	if p.err != nil {
		t.Fatalf("%s did not drain: %v\n%s", p.name, p.err, p.tail())
	}
}

func (p *process) tail() string {
	lines := strings.Split(p.out.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// server is a nats-server process with file storage on a fixed port.
type server struct {
	t      *testing.T
	path   string
	dir    string
	config string
	port   int
	proc   *process
}

func startServer(t *testing.T, path string) *server {
	t.Helper()
	s := &server{t: t, path: path, dir: t.TempDir(), port: freePort(t)}
	s.config = filepath.Join(t.TempDir(), "server.conf")
	// After an outage an epoch is larger than the usual limit of a batch.
	text := fmt.Sprintf("listen: 127.0.0.1:%d\njetstream {\n store_dir: %q\n limits { batch { max_msgs: 200000 } }\n}\n", s.port, s.dir)
	if err := os.WriteFile(s.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s
}

func freePort(t *testing.T) int {
	t.Helper()
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (s *server) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

func (s *server) start() {
	s.proc = startProcess(s.t, command{
		name: "nats-server", path: s.path, args: []string{"-c", s.config},
	})
}

func (s *server) restart() {
	s.proc.kill(s.t)
	s.start()
}

// connect connects a client that outlives restarts of the server.
func (s *server) connect() (*nats.Conn, jetstream.JetStream) {
	s.t.Helper()
	nc, err := nats.Connect(s.url(), nats.RetryOnFailedConnect(true), nats.MaxReconnects(-1), nats.ReconnectWait(20*time.Millisecond))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		s.t.Fatal(err)
	}
	return nc, js
}

// eventually calls f until it succeeds.
func eventually(t *testing.T, what string, limit time.Duration, f func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		if !pause(ctx, 20*time.Millisecond) {
			t.Fatalf("%s: %v", what, err)
		}
	}
}

// pause waits and reports whether the context still holds.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
