package catalogstore_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/epochs/catalogstore"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// unable is a store whose writes fail as long as fails says so.
type unable struct {
	epochs.Segments
	fails *string
}

var errUnable = fault.New(fault.Restart, "no space left on device")

func (u unable) Rewind(ctx context.Context, to messages.Epoch) error {
	if *u.fails == "the rewind" {
		return errUnable
	}
	return u.Segments.Rewind(ctx, to)
}

func (u unable) Commit(ctx context.Context, prev, e messages.Epoch, data []byte) error {
	if *u.fails == "the entry" {
		return errUnable
	}
	return u.Segments.Commit(ctx, prev, e, data)
}

// TestALossThatCannotBePutOnRecordIsTriedAgain: the disk may have room again, so it is
// no reason to give up every query.
func TestALossThatCannotBePutOnRecordIsTriedAgain(t *testing.T) {
	for _, at := range []string{"the mark", "the rewind", "the entry", "the end of the mark"} {
		t.Run(at, func(t *testing.T) {
			dir, fails := lose(t), at
			marked := filepath.Join(dir, "LOST")
			switch at {
			case "the mark": // as good as a full disk
				ok(t, os.Symlink("nowhere", marked))
			case "the end of the mark":
				ok(t, os.MkdirAll(filepath.Join(marked, "file"), 0o700))
				witnessOf(t, dir, 4) // nothing is lost any more
			}
			c := catalogstore.NewIn(dir, func(ctx context.Context) (epochs.Segments, error) {
				base, err := lostAt(dir)(ctx)
				return unable{base, &fails}, err
			})
			_, err := c.Open(t.Context(), "a")
			if err == nil || fault.KindOf(err) != fault.Restart {
				t.Errorf("got %v of kind %v, want %v", err, fault.KindOf(err), fault.Restart)
			}
			fails = ""
			if at == "the mark" || at == "the end of the mark" {
				ok(t, os.RemoveAll(marked))
			}
			open(t, c, "a")
			ok(t, c.Close())
		})
	}
}
