package epochs_test

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

// TestWhatMayPassIsNoReasonToGiveAQueryUp: limits of files and space, whoever reports them.
func TestWhatMayPassIsNoReasonToGiveAQueryUp(t *testing.T) {
	for _, c := range []struct {
		err  error
		want fault.Kind
	}{
		{fault.New(fault.Restart, "truncate 00001.mem: file too large"), fault.Restart},
		{fault.New(fault.Transient, "later"), fault.Transient},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}, fault.Restart},
		{&fs.PathError{Op: "open", Path: "x", Err: syscall.EACCES}, fault.Config},
		{fault.Wrap(fault.Config, epochs.ErrDamaged, "open checkpoint"), fault.Config},
		{fault.New(fault.Config, "damaged: too many open files"), fault.Config},
		{errors.New("who knows"), fault.Config},
	} {
		if got := epochs.OpenKind(c.err); got != c.want {
			t.Errorf("epochs.OpenKind(%v) = %v, want %v", c.err, got, c.want)
		}
	}
}

// TestNoSpace: a database hands on the text of an error only.
func TestNoSpace(t *testing.T) {
	for err, want := range map[error]bool{
		fault.Wrap(fault.Restart, epochs.ErrNoSpace, "open checkpoint"):                            true,
		&fs.PathError{Op: "write", Path: "part-1", Err: syscall.ENOSPC}:                            true,
		fault.New(fault.Restart, "put: while opening file: x: %s", syscall.EDQUOT.Error()):         true,
		&fs.PathError{Op: "open", Path: "x", Err: syscall.EMFILE}:                                  false,
		fault.Wrap(fault.Config, errors.New("the row says: no space"), "the sink refuses the row"): false,
	} {
		if got := epochs.NoSpace(err); got != want {
			t.Errorf("NoSpace(%v) = %v, want %v", err, got, want)
		}
	}
	if epochs.NoSpace(nil) {
		t.Error("no error is no lack of space")
	}
}
