package e2e

import (
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Both forms of the first example connect to port 9999.
func TestExampleWordcount(t *testing.T) {
	long(t)
	l, err := net.Listen("tcp", "localhost:9999") //nolint:noctx // closed at the end
	if err != nil {
		t.Skipf("the port of the example is taken: %v", err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	script, err := os.ReadFile("../../examples/01-wordcount/wordcount.sql")
	if err != nil {
		t.Fatal(err)
	}
	p := here(t, string(script))
	for name, start := range map[string]func() *process{
		"as a Go program": func() *process { return p.launch(t, "01-wordcount") },
		"as SQL":          func() *process { return p.start(t, "run", "q.sql") },
	} {
		t.Run(name, func(t *testing.T) {
			x := start()
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fmt.Fprint(c, "to be or\nnot to be\n"); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the counts", func() bool {
				got := x.out.String()
				got = got[strings.LastIndex(got, "Query:")+1:]
				for _, row := range []string{"to|    2", "be|    2", "or|    1", "not|    1"} {
					if !strings.Contains(got, row) {
						return false
					}
				}
				return true
			})
			x.signal(syscall.SIGINT)
			x.ends(0)
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestExamplesThatEndByThemselves(t *testing.T) {
	long(t)
	for name, want := range map[string]string{
		"02-jetstream": `large.C1 {"id":4,"customer":"C1","amount":120}
large.C2 {"id":5,"customer":"C2","amount":150}
large.C0 {"id":6,"customer":"C0","amount":180}
large.C1 {"id":7,"customer":"C1","amount":210}
large.C2 {"id":8,"customer":"C2","amount":240}
large.C0 {"id":9,"customer":"C0","amount":270}
`,
		"03-graph": "device 2 has been silent since 2026-01-01 00:00:04 +0000 UTC\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := &place{dir: t.TempDir()}
			x := p.launch(t, name)
			x.ends(0)
			if d := cmp.Diff(want, x.out.String()); d != "" {
				t.Errorf("output (-want +got):\n%s", d)
			}
		})
	}
}
