package recovery

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestPowerCut cuts the power of the disk that holds the checkpoints: they lie on
// a file system on a loop device, and what its backing file holds at one moment is
// what the disk has been given. A child is frozen, the backing file copied, the
// child killed, and the next one goes on from the copy, behind the file system's
// own recovery. What was not synced is gone; what the server was told stays told.
func TestPowerCut(t *testing.T) {
	root(t, "mount a loop device")
	cuts := number("RECOVERY_POWER_CUTS", 8)
	if testing.Short() {
		cuts = 2
	}
	for done := 0; done < cuts; done += round {
		n := min(round, cuts-done)
		if !t.Run(fmt.Sprintf("%d", done), func(t *testing.T) { cutPower(t, n) }) {
			t.FailNow()
		}
	}
}

func cutPower(t *testing.T, cuts int) {
	base := t.TempDir()
	image := func(i int) string { return filepath.Join(base, fmt.Sprintf("disk%d.img", i)) }
	disk := func(i int) string { return filepath.Join(base, fmt.Sprintf("disk%d", i)) }
	f, err := os.Create(image(0))
	if err == nil {
		err = f.Truncate(384 << 20)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	run(t, "mkfs.ext4", "-q", "-F", image(0))
	mount(t, disk(0), "-o", "loop", image(0))
	r := newRig(t, setup{dir: filepath.Join(disk(0), "streamd")})
	begun := time.Now()
	for i := range cuts {
		r.start()
		if i%4 != 3 { // else the power goes during recovery
			r.running()
			r.pass(r.upTo(800 * time.Millisecond))
		} else {
			r.pass(r.upTo(150 * time.Millisecond))
		}
		r.child.freeze(t)
		lost := fmt.Sprintf("unsynced%d", i)
		if err := os.WriteFile(filepath.Join(disk(i), lost), make([]byte, 1<<16), 0o600); err != nil {
			t.Fatal(err)
		}
		run(t, "cp", "--sparse=always", image(i), image(i+1))
		r.child.kill(t)
		run(t, "umount", disk(i))
		if err := os.Remove(image(i)); err != nil {
			t.Fatal(err)
		}
		mount(t, disk(i+1), "-o", "loop", image(i+1))
		if info, err := os.Stat(filepath.Join(disk(i+1), lost)); err == nil && info.Size() == 1<<16 {
			t.Fatal("what was not synced is still there: this is no power cut")
		}
		r.dir = filepath.Join(disk(i+1), "streamd")
		if r.rng.IntN(4) == 0 {
			r.inspect(r.lanes[r.rng.IntN(len(r.lanes))], r.feed.settled(), false)
		}
	}
	cut := time.Since(begun)
	rows := r.finish()
	t.Logf("%d power cuts of %v, %d rows", cuts, cut/time.Duration(cuts), rows)
}
