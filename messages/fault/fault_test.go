package fault_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages/fault"
)

var errPlain = errors.New("no space left")

// positioned is an error type with a kind of its own.
type positioned struct {
	line  int
	cause error
}

func (p *positioned) Error() string         { return fmt.Sprintf("%d: %v", p.line, p.cause) }
func (p *positioned) Unwrap() error         { return p.cause }
func (p *positioned) FaultKind() fault.Kind { return fault.Config }

func TestKindOf(t *testing.T) {
	transient := fault.Wrap(fault.Transient, io.ErrUnexpectedEOF, "read")
	badRow := fault.New(fault.BadRow, "column %q: not a number", "price")
	restart := fault.New(fault.Restart, "segment lost")
	config := fault.New(fault.Config, "no such stream")

	tests := []struct {
		name string
		err  error
		want fault.Kind
	}{
		{"an unclassified error is internal", errPlain, fault.Internal},
		{"a cancelled context is not classified", context.Canceled, fault.Internal},
		{"a classified error has its kind", badRow, fault.BadRow},
		{"the kind survives wrapping with %w", fmt.Errorf("decode: %w", fmt.Errorf("line 3: %w", badRow)), fault.BadRow},
		{"the kind does not survive wrapping by text", fmt.Errorf("decode: %s", badRow.Error()), fault.Internal},
		{"the outermost classification of a chain counts", fault.Wrap(fault.Config, transient, "connect"), fault.Config},
		{"a milder outer classification counts as well", fault.Wrap(fault.Transient, config, "connect"), fault.Transient},
		{"a classification made with New and %w counts over its cause", fault.New(fault.Restart, "publish: %w", transient), fault.Restart},
		{"of joined errors the most severe counts", errors.Join(transient, config, badRow), fault.Config},
		{"a bad row beside a transient error counts", errors.Join(badRow, transient), fault.BadRow},
		{"a restart beside a bad row counts", errors.Join(badRow, restart), fault.Restart},
		{"an unclassified error beside a classified one is internal", errors.Join(transient, errPlain), fault.Internal},
		{"nil entries of a join do not count", errors.Join(nil, transient, nil), fault.Transient},
		{"several %w are a join", fmt.Errorf("%w; %w", transient, restart), fault.Restart},
		{"joins nest", errors.Join(transient, fmt.Errorf("close: %w", errors.Join(transient, restart))), fault.Restart},
		{"a class does not change the kind", fault.WithClass(badRow, "CAST_INVALID_INPUT"), fault.BadRow},
		{"a location does not change the kind", fault.At(fault.Location{Query: "q"}, transient), fault.Transient},
		{"a panic is internal even if it threw a classified error", fault.Recovered(config, nil), fault.Internal},
		{"an error type may know its kind", fmt.Errorf("parse: %w", &positioned{3, transient}), fault.Config},
		{"nil is internal by definition", nil, fault.Internal},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fault.KindOf(tt.err); got != tt.want {
				t.Errorf("KindOf(%v) = %v, want %v", tt.err, got, tt.want)
			}
		})
	}
}

func TestReaction(t *testing.T) {
	// The table of the design: what the engine does about each kind.
	want := map[fault.Kind]fault.Action{
		fault.Transient: fault.Retry,
		fault.BadRow:    fault.ApplyRowPolicy,
		fault.Restart:   fault.RestartAttempt,
		fault.Config:    fault.Fail,
		fault.Internal:  fault.RestartAttempt,
		fault.Kind(77):  fault.Fail,
	}
	for kind, action := range want {
		if got := fault.Reaction(kind); got != action {
			t.Errorf("Reaction(%v) = %v, want %v", kind, got, action)
		}
	}
	var zero fault.Kind
	if zero != fault.Internal {
		t.Errorf("the zero kind is %v, want %v", zero, fault.Internal)
	}
}

func TestNames(t *testing.T) {
	var got []string
	for k := fault.Internal; k <= fault.Config+1; k++ {
		got = append(got, k.String())
	}
	for a := fault.Fail; a <= fault.RestartAttempt+1; a++ {
		got = append(got, a.String())
	}
	want := []string{
		"internal", "transient", "bad_row", "restart", "config", "kind(5)",
		"fail", "retry", "apply row policy", "restart attempt", "action(4)",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
}

func TestText(t *testing.T) {
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"New formats", fault.New(fault.Config, "option %q: %d is below 1", "partitions", 0), `option "partitions": 0 is below 1`},
		{"Wrap puts the text in front", fault.Wrap(fault.Restart, errPlain, "persist %s", "segment"), "persist segment: no space left"},
		{"Wrap without a text only classifies", fault.Wrap(fault.Restart, errPlain, ""), "no space left"},
		{"a class is not shown", fault.WithClass(errPlain, "DISK"), "no space left"},
		{
			"a full location",
			fault.At(fault.Location{Query: "orders", Operator: "window", Subtask: 2, Parallelism: 4, Epoch: 118}, fault.Wrap(fault.Restart, errPlain, "persist segment")),
			`query "orders": window[2/4]: epoch 118: persist segment: no space left`,
		},
		{"a location without subtask and epoch", fault.At(fault.Location{Query: "orders", Operator: "window"}, errPlain), `query "orders": window: no space left`},
		{"only an epoch", fault.At(fault.Location{Epoch: 1}, errPlain), "epoch 1: no space left"},
		{"an empty location", fault.At(fault.Location{}, errPlain), "no space left"},
		{"a panic", fault.Recovered("index out of range", nil), "panic: index out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.err.Error(); got != tt.want {
				t.Errorf("text = %q, want %q", got, tt.want)
			}
		})
	}
}

func TestNilStaysNil(t *testing.T) {
	for name, err := range map[string]error{
		"Wrap":      fault.Wrap(fault.Config, nil, "x"),
		"WithClass": fault.WithClass(nil, "X"),
		"At":        fault.At(fault.Location{Query: "q"}, nil),
		"Recovered": fault.Recovered(nil, nil),
	} {
		if err != nil {
			t.Errorf("%s of nil = %v, want nil", name, err)
		}
	}
}

func TestCausesAreReachable(t *testing.T) {
	for name, err := range map[string]error{
		"New with %w": fault.New(fault.Config, "open: %w", errPlain),
		"Wrap":        fault.Wrap(fault.Config, errPlain, "open"),
		"WithClass":   fault.WithClass(errPlain, "X"),
		"At":          fault.At(fault.Location{Query: "q"}, errPlain),
		"Recovered":   fault.Recovered(errPlain, nil),
	} {
		if !errors.Is(err, errPlain) {
			t.Errorf("%s hides its cause", name)
		}
	}
}

func TestClassOf(t *testing.T) {
	divide := fault.WithClass(fault.New(fault.BadRow, "division by zero"), "DIVIDE_BY_ZERO")
	tests := []struct {
		name string
		err  error
		want string
	}{
		{"no class", errPlain, ""},
		{"nil", nil, ""},
		{"through wrapping and a location", fault.At(fault.Location{Query: "q"}, fmt.Errorf("row 3: %w", divide)), "DIVIDE_BY_ZERO"},
		{"the outermost class counts", fault.WithClass(divide, "ARITHMETIC"), "ARITHMETIC"},
		{"the first joined error with a class counts", errors.Join(errPlain, divide, fault.WithClass(errPlain, "X")), "DIVIDE_BY_ZERO"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := fault.ClassOf(tt.err); got != tt.want {
				t.Errorf("ClassOf(%v) = %q, want %q", tt.err, got, tt.want)
			}
		})
	}
}

func TestLocation(t *testing.T) {
	inner := fault.Location{Query: "orders", Operator: "window", Subtask: 0, Parallelism: 4, Epoch: 7}
	err := fmt.Errorf("stop: %w", fault.At(inner, errPlain))

	t.Run("a second location is not added", func(t *testing.T) {
		again := fault.At(fault.Location{Query: "orders", Operator: "sink"}, err)
		if got, want := again.Error(), err.Error(); got != want {
			t.Errorf("text = %q, want %q", got, want)
		}
	})
	t.Run("the location can be read back", func(t *testing.T) {
		got, ok := fault.LocationOf(err)
		if !ok || got != inner {
			t.Errorf("LocationOf = %+v, %v, want %+v, true", got, ok, inner)
		}
	})
	t.Run("an error without a location says so", func(t *testing.T) {
		if got, ok := fault.LocationOf(errPlain); ok {
			t.Errorf("LocationOf = %+v, true, want false", got)
		}
	})
	t.Run("the log form has the constant keys", func(t *testing.T) {
		if got, want := inner.LogValue().String(), "[query=orders operator=window subtask=0 epoch=7]"; got != want {
			t.Errorf("LogValue = %s, want %s", got, want)
		}
		if got := (fault.Location{}).LogValue().Group(); len(got) != 0 {
			t.Errorf("LogValue of the zero location = %v, want no attributes", got)
		}
	})
}

// rude panics when it is printed.
type rude struct{}

func (rude) Error() string { panic("rude") }

func TestRecovered(t *testing.T) {
	t.Run("keeps the stack and the thrown error", func(t *testing.T) {
		err := fmt.Errorf("process: %w", fault.Recovered(errPlain, []byte("goroutine 1")))
		p, ok := errors.AsType[*fault.Panic](err)
		if !ok || string(p.Stack) != "goroutine 1" || !errors.Is(p, errPlain) {
			t.Errorf("panic = %+v, %v, want the stack and %v", p, ok, errPlain)
		}
	})
	t.Run("survives a value whose Error method panics", func(t *testing.T) {
		if got := fault.Recovered(rude{}, nil).Error(); !strings.Contains(got, "rude") {
			t.Errorf("text = %q, want it to name the second panic", got)
		}
	})
}
