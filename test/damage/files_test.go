package damage

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// blow is one damage.
type blow struct {
	file string // below the session's directory
	what string
}

func (b blow) String() string { return b.what + " of " + b.file }

// kindOf groups files, so that rare kinds are hit as often as common ones. Logs
// and tables are told apart by age: the newest one is where the end of a crash
// is, and an older one is not.
func kindOf(files []string, file string) string {
	ext := filepath.Ext(file)
	if ext == "" {
		return filepath.Base(filepath.Dir(file)) + "/" + filepath.Base(file)
	}
	var same []string
	for _, f := range files {
		if filepath.Ext(f) == ext {
			same = append(same, f)
		}
	}
	slices.Sort(same)
	if same[len(same)-1] == file {
		return "newest " + ext
	}
	return "older " + ext
}

// list names all files below a directory.
func list(t *testing.T, dir string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			files = append(files, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// used is the length of a file up to its last byte that is not zero: logs are made
// longer than what is in them.
func used(b []byte) int {
	n := len(b)
	for n > 0 && b[n-1] == 0 {
		n--
	}
	return n
}

// strike damages a file that rng picks.
func strike(t *testing.T, dir string, rng *rand.Rand) blow {
	t.Helper()
	files := list(t, dir)
	byKind := map[string][]string{}
	var kinds []string
	for _, f := range files {
		k := kindOf(files, f)
		if byKind[k] == nil {
			kinds = append(kinds, k)
		}
		byKind[k] = append(byKind[k], f)
	}
	slices.Sort(kinds)
	kind := kinds[rng.IntN(len(kinds))]
	b := blow{file: byKind[kind][rng.IntN(len(byKind[kind]))]}
	path := filepath.Join(dir, b.file)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	n := used(data)
	what := rng.IntN(6)
	if n == 0 {
		what = 2 + rng.IntN(2)
	}
	switch what {
	case 0, 1:
		at := rng.IntN(n)
		data[at] ^= 1 << rng.IntN(8)
		b.what = fmt.Sprintf("a flipped bit at %d", at)
		err = write(path, data)
	case 2:
		b.what = "the loss"
		err = os.Remove(path)
	case 3:
		b.what = "the emptying"
		err = os.Truncate(path, 0)
	case 4:
		at := rng.IntN(n)
		b.what = fmt.Sprintf("the cut at %d", at)
		err = os.Truncate(path, int64(at))
	default:
		at := rng.IntN(n)
		clear(data[at:min(at+4096, n)])
		b.what = fmt.Sprintf("a page of zeros at %d", at)
		err = write(path, data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func write(path string, data []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}
