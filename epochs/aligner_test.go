package epochs_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// TestAlignerTranscripts runs the stories in testdata/aligner. "marker 1 e=7"
// delivers a marker on input 1; "release" ends the alignment. Each line is
// repeated with the result and the inputs that are held back.
func TestAlignerTranscripts(t *testing.T) {
	datadriven.Walk(t, "testdata/aligner", func(t *testing.T, path string) {
		var a *epochs.Aligner
		inputs := 0
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "new" {
				var last int
				d.ScanArgs(t, "inputs", &inputs)
				d.ScanArgs(t, "last", &last)
				a = epochs.NewAligner(inputs, messages.Epoch(last))
				return ""
			}
			var out strings.Builder
			for line := range strings.Lines(d.Input) {
				line = strings.TrimSpace(line)
				fmt.Fprintf(&out, "%-20s", line)
				f := strings.Fields(line)
				switch f[0] {
				case "release":
					a.Release()
				case "marker":
					aligned, err := a.Marker(number(t, f[1]), scriptMarker(t, f[2:]))
					switch {
					case err != nil:
						fmt.Fprintf(&out, " error: %v", err)
					case aligned:
						out.WriteString(" aligned")
					}
				default:
					t.Fatalf("unknown line %q", line)
				}
				held := []string{}
				for i := range inputs {
					if a.Held(i) {
						held = append(held, fmt.Sprint(i))
					}
				}
				fmt.Fprintf(&out, " held [%s]", strings.Join(held, " "))
				if a.Aligning() {
					out.WriteString(" aligning")
				}
				out.WriteByte('\n')
			}
			return out.String()
		})
	})
}

func scriptMarker(t *testing.T, f []string) messages.Marker {
	var m messages.Marker
	for _, arg := range f {
		switch arg {
		case "final":
			m.Final = true
		case "flush":
			m.Flush = true
		default:
			m.Epoch = messages.Epoch(number(t, strings.TrimPrefix(arg, "e=")))
		}
	}
	return m
}

// TestAlignedInputsNeverMixEpochs sends rows and markers over inputs of random
// speed and processes what the aligner lets through: whatever the order, the
// rows between two alignments are exactly those of one epoch.
func TestAlignedInputsNeverMixEpochs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		inputs := rapid.IntRange(1, 5).Draw(t, "inputs")
		last := rapid.IntRange(1, 4).Draw(t, "epochs")
		// An element is the epoch of a row, or minus the epoch of a marker.
		queues := make([][]int, inputs)
		want := make([]int, last+1)
		for i := range queues {
			for e := 1; e <= last; e++ {
				rows := rapid.IntRange(0, 4).Draw(t, "rows")
				want[e] += rows
				for range rows {
					queues[i] = append(queues[i], e)
				}
				queues[i] = append(queues[i], -e)
			}
		}
		a := epochs.NewAligner(inputs, 0)
		got := make([]int, last+1)
		open := 1
		for open <= last {
			var ready []int
			for i, q := range queues {
				if len(q) > 0 && !a.Held(i) {
					ready = append(ready, i)
				}
			}
			if len(ready) == 0 {
				t.Fatalf("epoch %d: nothing may be processed, but %v waits", open, queues)
			}
			i := rapid.SampledFrom(ready).Draw(t, "input")
			el := queues[i][0]
			queues[i] = queues[i][1:]
			if el > 0 {
				if el != open {
					t.Fatalf("row of epoch %d processed in epoch %d", el, open)
				}
				got[el]++
				continue
			}
			aligned, err := a.Marker(i, messages.Marker{Epoch: messages.Epoch(-el)})
			if err != nil {
				t.Fatal(err)
			}
			if aligned {
				if -el != open {
					t.Fatalf("aligned epoch %d while epoch %d is open", -el, open)
				}
				a.Release()
				open++
			}
		}
		if diff := cmp.Diff(got, want); diff != "" {
			t.Fatalf("rows per epoch (-got +want):\n%s", diff)
		}
	})
}
