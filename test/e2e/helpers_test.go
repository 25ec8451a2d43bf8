package e2e

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// bin is where the programs under test are.
var bin = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "streamd-e2e") })

// builds builds each program once, when it is first needed.
var builds = map[string]func() error{
	"streamd":      build("../../cmd/streamd"),
	"01-wordcount": build("../../examples/01-wordcount"),
	"02-jetstream": build("../../examples/02-jetstream"),
	"03-graph":     build("../../examples/03-graph"),
}

func build(pkg string) func() error {
	return sync.OnceValue(func() error {
		dir, err := bin()
		if err != nil {
			return err
		}
		cmd := exec.Command("go", "build", "-o", dir+"/", pkg)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return errors.New(string(out))
		}
		return nil
	})
}

func TestMain(m *testing.M) {
	code := m.Run()
	if dir, err := bin(); err == nil {
		if err := os.RemoveAll(dir); err != nil {
			code = max(code, 1)
		}
	}
	os.Exit(code)
}

func program(t testing.TB, name string) string {
	t.Helper()
	if err := builds[name](); err != nil {
		t.Fatal(err)
	}
	dir, err := bin()
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, name)
}

// long leaves out a test with -short and lets others run at the same time.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds")
	}
	t.Parallel()
}

// output collects what a process writes, for readers at any time.
type output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// process is a program that was started in a directory of its own.
type process struct {
	t        testing.TB
	cmd      *exec.Cmd
	out, err output
	done     chan struct{}
}

// place is where and how programs run.
type place struct {
	dir   string
	stdin string
	env   []string
}

// here is an empty directory that holds q.sql with the given text.
func here(t testing.TB, sql string) *place {
	t.Helper()
	p := &place{dir: t.TempDir()}
	p.write(t, "q.sql", sql)
	return p
}

func (p *place) write(t testing.TB, name, text string) {
	t.Helper()
	path := filepath.Join(p.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// read returns the visible files of a directory, in the order of their names, as
// one text.
func (p *place) read(t testing.TB, name string) string {
	t.Helper()
	var b strings.Builder
	paths, err := filepath.Glob(filepath.Join(p.dir, name, "part-*"))
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(paths)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		b.Write(text)
	}
	return b.String()
}

// start starts streamd.
func (p *place) start(t testing.TB, args ...string) *process {
	t.Helper()
	return p.launch(t, "streamd", args...)
}

func (p *place) launch(t testing.TB, name string, args ...string) *process {
	t.Helper()
	x := &process{t: t}
	return p.launchTo(x, &x.out, name, args...)
}

// pipe starts streamd with a standard output that nobody reads.
func (p *place) pipe(t testing.TB, args ...string) *process {
	t.Helper()
	r, w, err := os.Pipe()
	if err == nil {
		err = r.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close() //nolint:errcheck // the process has its own
	return p.launchTo(&process{t: t}, w, "streamd", args...)
}

func (p *place) launchTo(x *process, out io.Writer, name string, args ...string) *process {
	t := x.t
	t.Helper()
	x.done, x.cmd = make(chan struct{}), exec.Command(program(t, name), args...)
	x.cmd.Dir, x.cmd.Stdin, x.cmd.Stdout, x.cmd.Stderr = p.dir, strings.NewReader(p.stdin), out, &x.err
	x.cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STREAMD_") })
	x.cmd.Env = append(x.cmd.Env, p.env...)
	if err := x.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(x.done)
		_ = x.cmd.Wait() // the exit code is looked at
	}()
	t.Cleanup(func() {
		x.signal(syscall.SIGKILL)
		<-x.done
	})
	return x
}

// run runs streamd to its end.
func (p *place) run(t testing.TB, args ...string) *process {
	t.Helper()
	x := p.start(t, args...)
	x.wait()
	return x
}

func (x *process) signal(s os.Signal) {
	_ = x.cmd.Process.Signal(s) // it may have ended
}

// patience bounds every wait.
const patience = 40 * time.Second

// wait waits for the end and returns the exit code.
func (x *process) wait() int {
	x.t.Helper()
	select {
	case <-x.done:
	case <-time.After(patience):
		x.signal(syscall.SIGQUIT)
		<-x.done
		x.t.Fatalf("%v has not ended after %s\n%s\n%s", x.cmd.Args, patience, x.out.String(), x.err.String())
	}
	return x.cmd.ProcessState.ExitCode()
}

// ends checks the exit code and texts that standard error has to hold.
func (x *process) ends(code int, texts ...string) {
	x.t.Helper()
	if got := x.wait(); got != code {
		x.t.Fatalf("%v: exit code %d, want %d\nstdout: %s\nstderr: %s", x.cmd.Args[1:], got, code, x.out.String(), x.err.String())
	}
	for _, text := range texts {
		if !strings.Contains(x.err.String(), text) {
			x.t.Errorf("%v: standard error does not hold %q:\n%s", x.cmd.Args[1:], text, x.err.String())
		}
	}
}

// stop drains a process, which has to work.
func (x *process) stop() {
	x.t.Helper()
	x.signal(syscall.SIGTERM)
	x.ends(0)
}

// says waits until standard output or error holds what the pattern matches and
// returns its first group.
func (x *process) says(pattern string) string {
	x.t.Helper()
	re := regexp.MustCompile(pattern)
	var m []string
	eventually(x.t, "a line like "+pattern, func() bool {
		m = re.FindStringSubmatch(x.err.String() + x.out.String())
		select {
		case <-x.done:
			if m == nil {
				m = re.FindStringSubmatch(x.err.String() + x.out.String())
			}
			if m == nil {
				x.t.Fatalf("%v has ended without a line like %s:\n%s\n%s", x.cmd.Args[1:], pattern, x.out.String(), x.err.String())
			}
		default:
		}
		return m != nil
	})
	return m[len(m)-1]
}

// eventually polls until ok holds.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %s for %s", patience, what)
		}
	}
}
