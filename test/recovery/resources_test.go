package recovery

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// root skips a test that has to mount or limit, and says so.
func root(t *testing.T, why string) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skipf("SKIPPED: needs root to %s", why)
	}
}

// run runs a program that has to succeed.
func run(t *testing.T, args ...string) string {
	t.Helper()
	text, err := exec.Command(args[0], args[1:]...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, text)
	}
	return string(text)
}

// mount mounts a file system and unmounts it at the end.
func mount(t *testing.T, dir string, args ...string) {
	t.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("mount", append(args, dir)...).CombinedOutput(); err != nil {
		t.Skipf("SKIPPED: cannot mount here: %v\n%s", err, text)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "-l", dir).Run() }) // it may be unmounted
}

// TestFullDisk fills the disk of the checkpoints under a child and empties it
// again. The child may hold or end, but says why, and nothing is lost.
func TestFullDisk(t *testing.T) {
	long(t)
	root(t, "mount a small tmpfs")
	disk := filepath.Join(t.TempDir(), "disk")
	mount(t, disk, "-t", "tmpfs", "-o", "size=400m", "tmpfs")
	full := []string{"space", "unexpected fault address", "SIGBUS"}
	r := newRig(t, setup{dir: filepath.Join(disk, "streamd")})
	r.start()
	r.commits(2, 1)
	for i := range 3 {
		ballast := filepath.Join(disk, "ballast")
		fill(t, ballast)
		ended := r.child.ended(time.Duration(1+i) * time.Second)
		t.Logf("full for %d s: the child has ended: %v", 1+i, ended)
		if ended && !r.child.saidOne(full) {
			t.Errorf("the child has ended without saying why:\n%s", r.child.out.String())
		}
		if ended { // a start on a full disk fails as well, and breaks nothing
			r.start()
			if r.child.ended(3*time.Second) && r.child.err == nil {
				t.Errorf("a start on a full disk ended as if all were well\n%s", r.child.tail())
			}
			r.child.end(t, full...)
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		switch {
		case ended:
			r.start()
		case i == 1:
			r.child.end(t, full...)
			r.start()
		}
		r.pass(500 * time.Millisecond)
	}
	r.finish()
}

// fill writes a file until the disk is full.
func fill(t *testing.T, path string) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close() //nolint:errcheck // the disk is full
	block := make([]byte, 1<<20)
	for size := len(block); size >= 4096; size /= 16 {
		for err = nil; err == nil; {
			_, err = f.Write(block[:size])
		}
	}
}

// TestFileSizeLimit lowers and lifts the limit of file sizes under a child.
func TestFileSizeLimit(t *testing.T) {
	long(t)
	const tooLarge = "too large"
	r := newRig(t, setup{})
	for range 3 {
		r.start()
		r.running()
		r.pass(r.upTo(400 * time.Millisecond))
		limit(t, r.child, unix.RLIMIT_FSIZE, 4096)
		ended := r.child.ended(2 * time.Second)
		t.Logf("the child has ended: %v", ended)
		if ended {
			if r.child.err == nil || !r.child.saidOne([]string{tooLarge}) {
				t.Errorf("the child has ended without saying why: %v\n%s", r.child.err, r.child.tail())
			}
			continue
		}
		limit(t, r.child, unix.RLIMIT_FSIZE, unix.RLIM_INFINITY)
		r.pass(300 * time.Millisecond)
		r.child.end(t, tooLarge) // a query may have failed, and the others drain
	}
	r.start()
	r.finish()
}

// TestFileLimit starts a child that may open too few files, and one whose limit
// falls while it runs.
func TestFileLimit(t *testing.T) {
	long(t)
	const tooMany = "too many open files"
	r := newRig(t, setup{})
	r.start()
	r.running()
	limit(t, r.child, unix.RLIMIT_NOFILE, 12)
	r.pass(500 * time.Millisecond)
	r.srv.restart() // connections have to be made again
	if !r.child.ended(2 * time.Second) {
		limit(t, r.child, unix.RLIMIT_NOFILE, 4096)
		r.pass(500 * time.Millisecond)
		r.child.end(t, tooMany)
	} else if r.child.err == nil || !r.child.saidOne([]string{tooMany}) {
		t.Errorf("the child has ended without saying why: %v\n%s", r.child.err, r.child.tail())
	}
	r.start()
	limit(t, r.child, unix.RLIMIT_NOFILE, 16)
	if r.child.ended(5*time.Second) && (r.child.err == nil || !r.child.saidOne([]string{tooMany})) {
		t.Errorf("the child has ended without saying why: %v\n%s", r.child.err, r.child.tail())
	}
	r.child.end(t, tooMany)
	r.start()
	r.finish()
}

// limit sets a limit of a running process; what it had above stays open.
func limit(t *testing.T, p *process, resource int, value uint64) {
	t.Helper()
	var old unix.Rlimit
	if err := unix.Prlimit(p.cmd.Process.Pid, resource, nil, &old); err != nil {
		t.Fatal(err)
	}
	if err := unix.Prlimit(p.cmd.Process.Pid, resource, &unix.Rlimit{Cur: min(value, old.Max), Max: old.Max}, nil); err != nil {
		t.Fatal(err)
	}
}

// TestMemoryLimit runs a child in a control group that is too small for it: the
// kernel kills it again and again. Once more room is there, nothing is missing.
func TestMemoryLimit(t *testing.T) {
	long(t)
	root(t, "make a control group")
	file, procs := memoryGroup(t)
	r := newRig(t, setup{})
	for i := range 3 {
		if err := os.WriteFile(file, []byte(strconv.Itoa(64<<20)), 0o600); err != nil {
			t.Fatal(err)
		}
		r.start("GOGC=400")
		if err := os.WriteFile(procs, []byte(strconv.Itoa(r.child.cmd.Process.Pid)), 0o600); err != nil {
			t.Fatal(err)
		}
		r.pass(time.Second)
		// What it has is taken from it, down to what it needs to stand.
		for room := 56 << 20; room > 4<<20 && !r.child.ended(100*time.Millisecond); room -= 4 << 20 {
			_ = os.WriteFile(file, []byte(strconv.Itoa(room)), 0o600) // refused when it cannot be freed
		}
		if r.child.ended(2 * time.Second) {
			if !r.child.wasKilled() {
				t.Errorf("the child has ended by itself: %v\n%s", r.child.err, r.child.tail())
			}
			t.Logf("%d: killed for its memory", i)
		} else {
			t.Logf("%d: it can live with that", i)
			r.child.kill(t)
		}
	}
	r.start("GOMEMLIMIT=48MiB") // collects all the time, and goes on
	r.finish()
}

// memoryGroup makes a memory control group of version 2 or 1.
func memoryGroup(t *testing.T) (limitFile, procs string) {
	t.Helper()
	name := fmt.Sprintf("streamd-recovery-%d", os.Getpid())
	for _, g := range []struct{ dir, file string }{
		{filepath.Join("/sys/fs/cgroup", name), "memory.max"},
		{filepath.Join("/sys/fs/cgroup/memory", name), "memory.limit_in_bytes"},
		{filepath.Join("/sys/fs/cgroup/unified", name), "memory.max"},
	} {
		if err := os.Mkdir(g.dir, 0o700); err != nil {
			continue
		}
		t.Cleanup(func() { _ = syscall.Rmdir(g.dir) })
		if _, err := os.Stat(filepath.Join(g.dir, g.file)); err == nil {
			return filepath.Join(g.dir, g.file), filepath.Join(g.dir, "cgroup.procs")
		}
	}
	t.Skip("SKIPPED: no memory control group can be made here")
	return "", ""
}
