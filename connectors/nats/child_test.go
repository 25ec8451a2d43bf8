package nats

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"go.uber.org/goleak"
)

const (
	childDir  = "STREAMD_TEST_NATS_DIR"
	childPort = "STREAMD_TEST_NATS_PORT"
)

// TestMain runs the tests, or in a child process a server until its standard
// input is closed.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		port, err := strconv.Atoi(os.Getenv(childPort))
		if err != nil {
			panic(err)
		}
		srv, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
		if err != nil {
			panic(err)
		}
		srv.Start()
		if !srv.ReadyForConnections(20 * time.Second) {
			panic("nats-server is not ready")
		}
		fmt.Println(srv.ClientURL())
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// child is a server in a process of its own, which can be killed and frozen and
// whose goroutines are not ours.
type child struct {
	t    testing.TB
	dir  string
	port int
	cmd  *exec.Cmd
	in   io.Closer
}

func newChild(t testing.TB) *child {
	c := &child{t: t, dir: t.TempDir(), port: -1}
	c.start()
	t.Cleanup(c.kill)
	return c
}

func (c *child) start() {
	c.t.Helper()
	exe, err := os.Executable()
	if err != nil {
		c.t.Fatal(err)
	}
	c.cmd = exec.Command(exe)
	c.cmd.Env = append(os.Environ(), childDir+"="+c.dir, fmt.Sprintf("%s=%d", childPort, c.port))
	c.cmd.Stderr = os.Stderr
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		c.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	if _, err := fmt.Fscanf(out, "nats://127.0.0.1:%d", &c.port); err != nil {
		c.t.Fatalf("server does not start: %v", err)
	}
}

// kill ends the server like kill -9.
func (c *child) kill() {
	if c.cmd == nil {
		return
	}
	_ = c.cmd.Process.Kill()
	_ = c.cmd.Wait() // says that it was killed
	_ = c.in.Close()
	c.cmd = nil
}

// signal sends a signal. It returns from SIGSTOP when the process stands still.
func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
	if s != syscall.SIGSTOP {
		return
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		c.t.Fatalf("the server does not stop: status %v, %v", status, err)
	}
}

func (c *child) url() string { return fmt.Sprintf("nats://127.0.0.1:%d", c.port) }

func (c *child) client() (jetstream.JetStream, *nats.Conn) {
	c.t.Helper()
	nc, err := nats.Connect(c.url())
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		c.t.Fatal(err)
	}
	if _, err := js.AccountInfo(c.t.Context()); err != nil { // starts the client's goroutines
		c.t.Fatal(err)
	}
	return js, nc
}
