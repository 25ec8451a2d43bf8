package recovery

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// binaries builds streamd and nats-server once per test run.
var binaries = sync.OnceValues(func() (map[string]string, error) {
	dir, err := os.MkdirTemp("", "streamd-recovery")
	if err != nil {
		return nil, err
	}
	out := map[string]string{"dir": dir}
	for name, pkg := range map[string]string{"streamd": "../../cmd/streamd", "nats-server": "github.com/nats-io/nats-server/v2"} {
		path := filepath.Join(dir, name)
		cmd := exec.Command("go", "build", "-o", path, pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if text, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w\n%s", pkg, err, text)
		}
		out[name] = path
	}
	return out, nil
})

func TestMain(m *testing.M) {
	code := m.Run()
	if b, err := binaries(); err == nil {
		_ = os.RemoveAll(b["dir"]) // a directory for temporary files
	}
	os.Exit(code)
}

// process is a child that can be killed and started again.
type process struct {
	name string
	cmd  *exec.Cmd
	done chan error
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

// said returns an error until the process has printed the text.
func (p *process) said(text string) error {
	if !strings.Contains(p.out.String(), text) {
		return fmt.Errorf("%s has not said %q yet", p.name, text)
	}
	return nil
}

func startProcess(t *testing.T, name, path string, args ...string) *process {
	t.Helper()
	p := &process{name: name, cmd: exec.Command(path, args...), done: make(chan error, 1), out: &output{}}
	p.cmd.Stdout, p.cmd.Stderr = p.out, p.out
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { p.done <- p.cmd.Wait() }()
	return p
}

// kill ends the process at once and waits for it.
func (p *process) kill(t *testing.T) {
	t.Helper()
	select {
	case err := <-p.done:
		t.Fatalf("%s ended by itself: %v\n%s", p.name, err, p.tail())
	default:
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := <-p.done; err == nil {
		t.Fatalf("%s ended in good order instead of being killed\n%s", p.name, p.tail())
	}
}

// terminate asks the process to drain and waits for a good end.
func (p *process) terminate(t *testing.T) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.done:
		if err != nil {
			t.Fatalf("%s did not drain: %v\n%s", p.name, err, p.tail())
		}
	case <-time.After(30 * time.Second):
		_ = p.cmd.Process.Signal(syscall.SIGQUIT) // for the stacks
		err := <-p.done
		t.Fatalf("%s did not drain within 30 s: %v\n%s", p.name, err, p.tail())
	}
}

func (p *process) tail() string {
	lines := strings.Split(p.out.String(), "\n")
	return strings.Join(lines[max(0, len(lines)-60):], "\n")
}

// server is a nats-server process with file storage on a fixed port.
type server struct {
	t    *testing.T
	path string
	dir  string
	port int
	proc *process
}

func startServer(t *testing.T, path string) *server {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, path: path, dir: t.TempDir(), port: l.Addr().(*net.TCPAddr).Port}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	s.start()
	return s
}

func (s *server) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

func (s *server) start() {
	s.proc = startProcess(s.t, "nats-server", s.path, "-js", "-sd", s.dir, "-a", "127.0.0.1", "-p", fmt.Sprint(s.port))
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
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f(ctx)
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%s: %v", what, err)
		}
	}
}
