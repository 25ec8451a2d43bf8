//go:build fault

package fault_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages/fault"
)

// childVar makes the test binary pass one fault point and end normally.
const childVar = "STREAMD_FAULT_TEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(childVar) == "" {
		os.Exit(m.Run())
	}
	for range 3 {
		if err := fault.Inject("child/point"); err != nil {
			fmt.Println("error:", err)
			os.Exit(3)
		}
		fmt.Println("passed")
	}
}

func TestInjectPassesWithoutARule(t *testing.T) {
	fault.Reset()
	for range 2 {
		if err := fault.Inject("a/b"); err != nil {
			t.Errorf("Inject = %v, want nil", err)
		}
	}
	if diff := cmp.Diff(map[string]int{"a/b": 2}, fault.Hits()); diff != "" {
		t.Errorf("hits (-want +got):\n%s", diff)
	}
	if fault.Reached("a/b") != nil {
		t.Error("Reached without a rule is not nil")
	}
}

func TestInjectError(t *testing.T) {
	tests := []struct {
		rule string
		want []bool // whether hits 1, 2, 3 fail
		kind fault.Kind
	}{
		{"a/b=error", []bool{true, true, true}, fault.Restart},
		{"a/b=error:2", []bool{false, true, false}, fault.Restart},
		{" x=panic, a/b=error(transient):1 ,", []bool{true, false, false}, fault.Transient},
		{"a/b=error(internal):3", []bool{false, false, true}, fault.Internal},
		{"c/d=error", []bool{false, false, false}, fault.Restart},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			set(t, tt.rule)
			var got []bool
			for range tt.want {
				err := fault.Inject("a/b")
				got = append(got, err != nil)
				if err != nil && fault.KindOf(err) != tt.kind {
					t.Errorf("kind = %v, want %v", fault.KindOf(err), tt.kind)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("hits that fail (-want +got):\n%s", diff)
			}
		})
	}
}

func TestInjectPanic(t *testing.T) {
	set(t, "a/b=panic")
	defer func() {
		if v := recover(); v == nil || !strings.Contains(fmt.Sprint(v), `"a/b"`) {
			t.Errorf("recovered %v, want a panic that names the point", v)
		}
	}()
	err := fault.Inject("a/b")
	t.Errorf("Inject returned %v, want a panic", err)
}

func TestInjectHang(t *testing.T) {
	for name, release := range map[string]func(){
		"until Release":             func() { fault.Release("a/b") },
		"until Reset":               fault.Reset,
		"until the rule is changed": func() { set(t, "a/b=error:9") },
	} {
		t.Run(name, func(t *testing.T) {
			set(t, "a/b=hang")
			var wg sync.WaitGroup
			results := make(chan error, 2)
			for range cap(results) {
				wg.Go(func() { results <- fault.Inject("a/b") })
			}
			<-fault.Reached("a/b")
			if len(results) != 0 {
				t.Error("Inject returned before it was released")
			}
			release()
			wg.Wait()
			for range cap(results) {
				if err := <-results; err != nil {
					t.Errorf("Inject = %v, want nil", err)
				}
			}
		})
	}
	t.Run("a released point does not hang again", func(t *testing.T) {
		set(t, "a/b=hang")
		fault.Release("a/b")
		fault.Release("a/b")
		fault.Release("no/rule")
		if err := fault.Inject("a/b"); err != nil {
			t.Errorf("Inject = %v, want nil", err)
		}
	})
}

func TestSetRefusesMalformedRules(t *testing.T) {
	for _, rule := range []string{
		"a/b", "=error", "a/b=", "a/b=explode", "a/b=error:0", "a/b=error:x", "a/b=error(", "a/b=error(bad)", "a/b=error(config", "ok=panic,a/b",
	} {
		t.Run(rule, func(t *testing.T) {
			fault.Reset()
			err := fault.Set(rule)
			if err == nil || fault.KindOf(err) != fault.Config {
				t.Errorf("Set = %v, want a Config error", err)
			}
			if err := fault.Inject("ok"); err != nil {
				t.Errorf("a rule was added although another is malformed: %v", err)
			}
		})
	}
}

func TestRulesFromTheEnvironment(t *testing.T) {
	tests := []struct {
		faults string
		output string
		code   int
		signal syscall.Signal
	}{
		{"", "passed\npassed\npassed\n", 0, 0},
		{"child/point=exit:2", "passed\n", 137, 0},
		{"child/point=kill:3", "passed\npassed\n", -1, syscall.SIGKILL},
		{"child/point=error:1", "error: injected fault at \"child/point\", hit 1\n", 3, 0},
		{"nonsense", "", 2, 0},
	}
	for _, tt := range tests {
		t.Run("with "+tt.faults, func(t *testing.T) {
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), exe)
			cmd.Env = append(os.Environ(), childVar+"=1", "STREAMD_FAULTS="+tt.faults)
			out, err := cmd.Output()
			if _, isExit := errors.AsType[*exec.ExitError](err); err != nil && !isExit {
				t.Fatal(err)
			}
			status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus)
			if !ok {
				t.Skip("no wait status on this system")
			}
			if got := cmd.ProcessState.ExitCode(); got != tt.code {
				t.Errorf("exit code = %d, want %d", got, tt.code)
			}
			if tt.signal != 0 && status.Signal() != tt.signal {
				t.Errorf("signal = %v, want %v", status.Signal(), tt.signal)
			}
			if got := string(out); got != tt.output {
				t.Errorf("output = %q, want %q", got, tt.output)
			}
		})
	}
}

// set replaces all rules for the rest of the test.
func set(t *testing.T, rules string) {
	t.Helper()
	fault.Reset()
	t.Cleanup(fault.Reset)
	if err := fault.Set(rules); err != nil {
		t.Fatal(err)
	}
}

func TestHookDecidesInsteadOfTheRules(t *testing.T) {
	fault.Reset()
	defer fault.Reset()
	if err := fault.Set("a/b=panic"); err != nil {
		t.Fatal(err)
	}
	want := fault.New(fault.Transient, "from the hook")
	var seen []string
	fault.SetHook(func(point string) error { seen = append(seen, point); return want })
	err := fault.Inject("a/b")
	fault.SetHook(nil)
	if err != want || len(seen) != 1 || seen[0] != "a/b" || fault.Hits()["a/b"] != 1 { //nolint:errorlint // the same value
		t.Errorf("got %v at %q", err, seen)
	}
	defer func() {
		if recover() == nil {
			t.Error("without the hook the rules do not hold again")
		}
	}()
	_ = fault.Inject("a/b")
}
