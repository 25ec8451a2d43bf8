//go:build !fault

package fault_test

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/messages/fault"
)

func TestInjectDoesNothingInANormalBuild(t *testing.T) {
	t.Setenv("STREAMD_FAULTS", "some/point=exit")
	if fault.Injecting {
		t.Error("Injecting = true, want false")
	}
	if err := fault.Inject("some/point"); err != nil {
		t.Errorf("Inject = %v, want nil", err)
	}
	if err := fault.Set("some/point=error"); fault.KindOf(err) != fault.Config {
		t.Errorf("Set = %v, want a Config error that names the build tag", err)
	}
}

func TestInjectCostsNothingInANormalBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("asks the compiler")
	}
	gotool, err := exec.LookPath("go")
	if err != nil {
		t.Skip("needs the go command")
	}
	out, err := exec.CommandContext(t.Context(), gotool, "build", "-gcflags=-m", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	if !strings.Contains(string(out), "can inline Inject") {
		t.Errorf("the compiler does not inline Inject:\n%s", out)
	}
}
