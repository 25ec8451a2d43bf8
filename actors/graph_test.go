package actors

import (
	"strings"
	"testing"
)

func TestNamesOfNodesAreText(t *testing.T) {
	for name, want := range map[string]string{"日本": "", "a\xff": "must be UTF-8", "src": "two nodes"} {
		g := NewGraph()
		src := &sliceSource{parts: [][][2]int64{nil}}
		g.Sink(name, (&collectSink{}).spec(), Forward(g.Source("src", src.spec())))
		if err := g.Check(); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", name, err, want)
		}
	}
}
