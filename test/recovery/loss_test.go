package recovery

import (
	"context"
	"regexp"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// TestLoss takes messages or whole streams away. What is gone cannot be made up
// for: the child ends and says so, and no wrong row is visible.
func TestLoss(t *testing.T) {
	long(t)
	tests := []struct {
		name  string
		alive bool // it happens under a child that runs, else between two
		do    func(t *testing.T, r *rig)
		says  []string
	}{
		{"the input is trimmed", false, func(t *testing.T, r *rig) {
			in := r.feed.snapshot()
			r.purge(inputStream, jetstream.WithPurgeSequence(in.rows[len(in.rows)-1].Seq))
		}, []string{"INPUT", "were removed before they were read"}},
		{"the input is made again", false, func(t *testing.T, r *rig) { r.recreate(inputStream) }, []string{"INPUT", "re-created"}},
		{"the input is made again under the child", true, func(t *testing.T, r *rig) { r.recreate(inputStream) }, []string{"INPUT", "re-created|does not exist"}},
		{"the input is deleted under the child", true, func(t *testing.T, r *rig) { r.remove(inputStream) }, []string{"INPUT", "does not exist"}},
		{"an output is purged", false, func(t *testing.T, r *rig) { r.purge("ROWS") }, []string{"ROWS", "trimmed"}},
		{"an output is made again", false, func(t *testing.T, r *rig) { r.recreate("ROWS") }, []string{"ROWS", "re-created"}},
		{"an output is made again under the child", true, func(t *testing.T, r *rig) { r.recreate("ROWS") }, []string{"ROWS", "re-created|does not exist"}},
		{"the markers are deleted under the child", true, func(t *testing.T, r *rig) { r.remove("STREAMD_COMMITS") }, []string{"deleted the marker"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, setup{lanes: []lane{rowsLane()}})
			r.start()
			r.running()
			r.commits(2, 1)
			if !tt.alive {
				r.child.kill(t)
				r.pass(300 * time.Millisecond)
			}
			before := r.taps["rows"].read()
			tt.do(t, r)
			if !tt.alive {
				r.start()
			}
			if !r.child.ended(30 * time.Second) {
				t.Fatalf("streamd goes on\n%s", r.child.out.String())
			}
			if r.child.err == nil {
				t.Errorf("streamd ended as if all were well")
			}
			text := r.child.out.String()
			for _, s := range tt.says {
				if !regexp.MustCompile(s).MatchString(text) {
					t.Errorf("streamd does not say %q", s)
				}
			}
			if t.Failed() {
				t.Log(text)
			}
			if bad := checkStateless(r.feed.abandon(), before, func(*row) bool { return false }); len(bad) > 0 {
				t.Errorf("visible rows: %s", bad)
			}
		})
	}
}

func (r *rig) purge(stream string, opts ...jetstream.StreamPurgeOpt) {
	r.onStream(stream, func(ctx context.Context, s jetstream.Stream) error { return s.Purge(ctx, opts...) })
}

func (r *rig) remove(stream string) {
	r.onStream(stream, func(ctx context.Context, s jetstream.Stream) error { return r.js.DeleteStream(ctx, stream) })
}

func (r *rig) recreate(stream string) {
	r.onStream(stream, func(ctx context.Context, s jetstream.Stream) error {
		if err := r.js.DeleteStream(ctx, stream); err != nil {
			return err
		}
		_, err := r.js.CreateStream(ctx, s.CachedInfo().Config)
		return err
	})
}

func (r *rig) onStream(stream string, do func(ctx context.Context, s jetstream.Stream) error) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(r.t.Context(), 10*time.Second)
	defer cancel()
	s, err := r.js.Stream(ctx, stream)
	if err == nil {
		err = do(ctx, s)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}
