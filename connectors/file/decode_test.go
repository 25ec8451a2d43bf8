package file

import (
	"encoding/json"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/messages/alloctest"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestATokenThatLeavesTheDirectoryIsRefused(t *testing.T) {
	for _, text := range []string{
		`{"open":[{"name":"../part-1","size":1,"rows":1}]}`, `{"rolled":[{"name":"/etc/passwd","size":1,"rows":1}]}`,
		`{"open":[{"name":"","size":1,"rows":1}]}`, `{"open":[{"name":"a","size":-1,"rows":1}]}`, `{"open":[{"name":"a","size":1,"rows":-1}]}`,
	} {
		if _, err := decodeToken([]byte(text)); fault.KindOf(err) != fault.Config {
			t.Errorf("%s: got error %v, want one of kind Config", text, err)
		}
	}
}

// FuzzToken is about the token of the sink and of its writers: whatever it says, no
// file outside the sink's directory is touched.
func FuzzToken(f *testing.F) {
	f.Add([]byte(`{"open":[{"name":"d=1/part-1","size":5,"rows":1}],"rolled":[{"name":"part-2","size":0,"rows":0}]}`))
	f.Add([]byte(`{"open":[{"name":"../part-1","size":-5}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var tok token
		var err error
		alloctest.Within(t, 256, len(data), func() { tok, err = decodeToken(data) })
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("got error %v, want one of kind Config", err)
			}
			return
		}
		s := &sink{dir: "/d"}
		for _, p := range slices.Concat(tok.Open, tok.Rolled) {
			for _, name := range []string{s.hidden(p.Name), s.visible(p.Name)} {
				if in, err := filepath.Rel(s.dir, name); err != nil || !filepath.IsLocal(in) {
					t.Errorf("part %q is %s", p.Name, name)
				}
			}
		}
		text, err := tok.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeToken(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, tok, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}

// FuzzOffset is about the offset of the source: what is accepted is written, and
// read again, as the same.
func FuzzOffset(f *testing.F) {
	f.Add([]byte(`{"done":[{"name":"a","size":5,"mtime":7,"sum":9,"gen":1}],"newest":7,"current":{"name":"b","size":8,"mtime":9},"at":3,"sum":4,"gen":0}`))
	f.Add([]byte(`{"done":[],"newest":0}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var p *progress
		var err error
		alloctest.Within(t, 256, len(data), func() { p, err = newProgress(data) })
		if err != nil {
			if fault.KindOf(err) != fault.Config {
				t.Fatalf("got error %v, want one of kind Config", err)
			}
			return
		}
		current, err := json.Marshal(p.Current)
		if err != nil {
			t.Fatal(err)
		}
		text := p.append(nil, current)
		again, err := newProgress(text)
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if p.Current == nil { // the rest is about it
			p.Sum, p.Gen = 0, 0
		}
		if diff := cmp.Diff(again.append(nil, current), text); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
		if again.At != p.At || again.Sum != p.Sum || again.Gen != p.Gen || again.Newest != p.Newest || !maps.Equal(again.names, p.names) {
			t.Fatalf("%s: read again it is %+v, was %+v", data, again, p)
		}
	})
}
