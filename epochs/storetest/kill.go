package storetest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/messages"
)

// KillConfig describes a test that kills the process that writes.
type KillConfig struct {
	// Open opens the store in the parent, to check it.
	Open Opener
	// Child makes the command of a process that calls WriteUntilKilled with the
	// same seed and its standard output.
	Child func(ctx context.Context) *exec.Cmd
	Seed  uint64
	// Rounds is how many children are killed.
	Rounds int
	// SelfKill says that children kill themselves, at a fault point.
	SelfKill bool
}

// killed is the workload of RunKills and its children.
func killed(seed uint64) Workload { return Workload{Seed: seed, Groups: 64} }

// WriteUntilKilled writes epochs and acknowledges each on a line of its own. It
// returns only when something goes wrong.
func WriteUntilKilled(ctx context.Context, open Opener, seed uint64, acks io.Writer) error {
	store, err := open(ctx)
	if err != nil {
		return err
	}
	w, err := killed(seed).NewWriter(ctx, store)
	if err != nil {
		return err
	}
	for {
		e, err := w.Step(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(acks, "ack %d\n", e); err != nil {
			return err
		}
	}
}

// RunKills starts a writer, kills it at a random moment with SIGKILL, opens the
// store and checks that every acknowledged epoch is there byte for byte, for the
// given number of rounds.
func RunKills(t *testing.T, cfg KillConfig) {
	t.Helper()
	rng := random(cfg.Seed)
	var acknowledged messages.Epoch
	epochsWritten, inside, unacknowledged := 0, 0, 0
	for round := range cfg.Rounds {
		// A tenth is killed while it opens the store.
		after, delay := rng.IntN(40), time.Duration(rng.IntN(15_000))*time.Microsecond
		if rng.IntN(10) == 0 {
			after, delay = 0, time.Duration(rng.IntN(60_000))*time.Microsecond
		}
		if cfg.SelfKill {
			after = math.MaxInt
		}
		last, n := runChild(t, cfg, after, delay)
		acknowledged = max(acknowledged, last)
		epochsWritten += n
		store, err := cfg.Open(t.Context())
		if err != nil {
			t.Fatalf("seed %d, round %d: open after a kill: %v", cfg.Seed, round, err)
		}
		committed, highest, err := killed(cfg.Seed).Verify(t.Context(), store)
		if err = errors.Join(err, store.Close()); err != nil {
			t.Fatalf("seed %d, round %d: after epoch %d was acknowledged: %v", cfg.Seed, round, acknowledged, err)
		}
		have := newest(committed)
		if have < acknowledged {
			t.Fatalf("seed %d, round %d: epoch %d was acknowledged, the newest record is that of %d", cfg.Seed, round, acknowledged, have)
		}
		if highest > have {
			inside++
		}
		if have > acknowledged {
			unacknowledged++
		}
		acknowledged = have
	}
	t.Logf("seed %d: %d kills, %d epochs; %d kills inside an epoch, %d with a record that was not acknowledged", cfg.Seed, cfg.Rounds, epochsWritten, inside, unacknowledged)
}

// runChild runs a child until it is killed: delay after it has acknowledged the
// given number of epochs. It returns the last acknowledged epoch, 0 if there was
// none, and how many there were.
func runChild(t *testing.T, cfg KillConfig, after int, delay time.Duration) (last messages.Epoch, n int) {
	t.Helper()
	cmd := cfg.Child(t.Context())
	var problems strings.Builder
	cmd.Stderr = &problems
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill() } // it may have ended; Wait tells
	if after == 0 {
		time.AfterFunc(delay, kill)
	}
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		number, ok := strings.CutPrefix(lines.Text(), "ack ")
		e, err := strconv.ParseUint(number, 10, 64)
		if !ok || err != nil {
			kill()
			t.Fatalf("the child says %q", lines.Text())
		}
		last = messages.Epoch(e)
		if n++; n == after {
			time.AfterFunc(delay, kill)
		}
	}
	err = cmd.Wait()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ProcessState.Exited() {
		t.Fatalf("the child ended by itself: %v\n%s", err, problems.String())
	}
	return last, n
}

// Rounds returns the number in an environment variable, or otherwise.
func Rounds(t *testing.T, variable string, otherwise int) int {
	t.Helper()
	v := os.Getenv(variable)
	if v == "" {
		return otherwise
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("%s: %v", variable, err)
	}
	return n
}

// KillTest is a pair of tests of a store with files: one starts this test binary
// again and again to run the other, and kills it.
type KillTest struct {
	// Env is the variable that tells a child where its store is.
	Env    string
	Seed   uint64
	Rounds int // unless STREAMD_STORE_KILLS is set
	Open   func(dir string) Opener
}

// Run kills children, which run the test of the given name, at random moments.
func (k KillTest) Run(t *testing.T, child string) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
	cfg := k.config(t, child, nil)
	cfg.Rounds = Rounds(t, "STREAMD_STORE_KILLS", k.Rounds)
	RunKills(t, cfg)
}

// RunAt lets children kill themselves: the one of a round by the fault rule that
// rule returns. It needs a test binary with fault points.
func (k KillTest) RunAt(t *testing.T, child string, rounds int, rule func(round int) string) {
	t.Helper()
	cfg := k.config(t, child, rule)
	cfg.Rounds, cfg.SelfKill = rounds, true
	RunKills(t, cfg)
}

func (k KillTest) config(t *testing.T, child string, rule func(round int) string) KillConfig {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir, round := t.TempDir(), 0
	return KillConfig{
		Open: k.Open(dir), Seed: k.Seed,
		Child: func(ctx context.Context) *exec.Cmd {
			cmd := exec.CommandContext(ctx, self, "-test.run=^"+child+"$")
			cmd.Env = append(os.Environ(), k.Env+"="+dir)
			if rule != nil {
				cmd.Env = append(cmd.Env, "STREAMD_FAULTS="+rule(round))
			}
			round++
			return cmd
		},
	}
}

// Child writes until it is killed; it skips a test that is not a child.
func (k KillTest) Child(t *testing.T) {
	t.Helper()
	dir := os.Getenv(k.Env)
	if dir == "" {
		t.Skip("not a child")
	}
	fmt.Fprintln(os.Stderr, WriteUntilKilled(t.Context(), k.Open(dir), k.Seed, os.Stdout))
	os.Exit(1)
}
