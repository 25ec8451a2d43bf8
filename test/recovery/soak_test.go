package recovery

import (
	"bufio"
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// sample is what the child, its directory and the server hold at one moment.
type sample struct {
	goroutines int
	resident   int64 // bytes
	disk       int64 // bytes, as allocated
	consumers  int   // on the input stream
}

// TestSoak runs for the time that SOAK says (30m) at 20,000 rows/s, with a kill
// each minute. In the samples before the kills nothing grows: the greatest of the
// last third is not above those of the first by more than a little.
func TestSoak(t *testing.T) {
	if os.Getenv("SOAK") == "" {
		t.Skip("SKIPPED: set SOAK=30m")
	}
	length, err := time.ParseDuration(os.Getenv("SOAK"))
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t, setup{lanes: []lane{windowsLane(), totalsLane(), bucketLane()}, rate: number("SOAK_RATE", 20_000)})
	var samples []sample
	for end := time.Now().Add(length); time.Now().Before(end); {
		addr := fmt.Sprintf("127.0.0.1:%d", freePort(t))
		r.args = []string{"--http", addr}
		r.start()
		r.running()
		r.pass(min(time.Minute, length/3))
		s := r.sample(addr)
		samples = append(samples, s)
		in := r.feed.snapshot()
		t.Logf("%d rows: %d goroutines, RSS %.1f MB, disk %.1f MB, %d consumers", len(in.rows), s.goroutines,
			float64(s.resident)/1e6, float64(s.disk)/1e6, s.consumers)
		r.child.kill(t)
		r.inspect(r.lanes[r.rng.IntN(len(r.lanes))], in, false)
	}
	third := max(1, len(samples)/3)
	first, last := greatest(samples[:third]), greatest(samples[len(samples)-third:])
	// Parallelism, and with it the number of actors, differs between cycles.
	if last.goroutines > first.goroutines+60 || last.resident > first.resident*3/2+64<<20 || last.disk > first.disk*2+64<<20 || last.consumers > first.consumers+24 {
		t.Errorf("it grows: %+v at first, %+v in the end", first, last)
	}
	r.finish()
}

func greatest(list []sample) sample {
	var g sample
	for _, s := range list {
		g = sample{max(g.goroutines, s.goroutines), max(g.resident, s.resident), max(g.disk, s.disk), max(g.consumers, s.consumers)}
	}
	return g
}

// sample looks at a child that runs.
func (r *rig) sample(addr string) sample {
	r.t.Helper()
	s := sample{disk: r.diskUse()}
	eventually(r.t, "metrics", 10*time.Second, func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+"/metrics", nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close() //nolint:errcheck // read below
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			name, value, _ := strings.Cut(lines.Text(), " ")
			if !slices.Contains([]string{"go_goroutines", "process_resident_memory_bytes"}, name) {
				continue
			}
			x, err := strconv.ParseFloat(value, 64)
			if err != nil {
				return err
			}
			if name == "go_goroutines" {
				s.goroutines = int(x)
			} else {
				s.resident = int64(x)
			}
		}
		if s.goroutines == 0 || s.resident == 0 {
			return fmt.Errorf("%s: no goroutines or no memory in the answer", resp.Status)
		}
		stream, err := r.js.Stream(ctx, inputStream)
		if err == nil {
			s.consumers = stream.CachedInfo().State.Consumers
		}
		return err
	})
	return s
}

// diskUse is what the directory of the checkpoints takes.
func (r *rig) diskUse() int64 {
	var sum int64
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // files come and go
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				sum += st.Blocks * 512
			}
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return sum
}
