package conformance

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// conformanceCase is one case as it is written in the files.
type conformanceCase struct {
	ID          string                 `json:"id"`
	Area        string                 `json:"area"`
	Schemas     map[string][]column    `json:"schemas"`
	Static      map[string]staticTable `json:"static"`
	Sources     map[string]*files      `json:"sources"` // streams read from files
	Sink        *files                 `json:"sink"`    // a sink of files
	SQL         string                 `json:"sql"`
	Plan        []planOp               `json:"plan"` // instead of SQL
	Watermark   []watermark            `json:"watermark"`
	OutputMode  string                 `json:"output_mode"`
	Options     map[string]any         `json:"options"`
	Result      []column               `json:"result"`
	UpdateKey   []int                  `json:"update_key"`
	Ordered     bool                   `json:"ordered"`
	Timing      string                 `json:"timing"`
	Requires    []string               `json:"requires"`
	Steps       []step                 `json:"steps"`
	Verdict     string                 `json:"verdict"`
	ExpectError string                 `json:"expect_error"`
	ErrorAbout  []string               `json:"error_about"`
}

// files are a directory that a stream reads, or that the query writes to.
type files struct {
	Format      string            `json:"format"`
	Path        string            `json:"path"` // with $DIR or $OUT
	PartitionBy []string          `json:"partition_by"`
	Options     map[string]string `json:"options"`
}

// column is a name and a SQL type.
type column [2]string

type staticTable struct {
	Schema []column            `json:"schema"`
	Rows   [][]json.RawMessage `json:"rows"`
}

type watermark struct {
	Alias  string `json:"alias"`
	Table  string `json:"table"`
	Column string `json:"column"`
	Delay  string `json:"delay"`
}

// step is an object whose keys say what to do and what to expect.
type step map[string]json.RawMessage

func (s step) has(key string) bool { _, ok := s[key]; return ok }

// text returns a member that is a string, "" if it is not there.
func (s step) text(key string) string {
	var v string
	if json.Unmarshal(s[key], &v) != nil {
		return ""
	}
	return v
}

// planOp is one operation of a plan that SQL cannot say.
type planOp struct {
	Op     string     `json:"op"`
	Table  string     `json:"table"`
	SQL    string     `json:"sql"`
	Exprs  []string   `json:"exprs"`
	Group  []string   `json:"group"`
	Aggs   []string   `json:"aggs"`
	Inputs [][]planOp `json:"inputs"`
}

// ddl writes columns as CREATE SOURCE has them, those named in required as NOT
// NULL.
func ddl(cols []column, required ...string) string {
	parts := make([]string, len(cols))
	for i, c := range cols {
		parts[i] = "`" + c[0] + "` " + c[1]
		if slices.Contains(required, c[0]) {
			parts[i] += " NOT NULL"
		}
	}
	return strings.Join(parts, ", ")
}

// readCases reads all *.json files of a directory.
func readCases(dir string) ([]*conformanceCase, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.json"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no *.json files in %s", dir)
	}
	var all []*conformanceCase
	seen := map[string]string{}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var cases []*conformanceCase
		if err := json.Unmarshal(data, &cases); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		for _, c := range cases {
			if other, ok := seen[c.ID]; ok {
				return nil, fmt.Errorf("%s: case %s is in %s already", f, c.ID, other)
			}
			seen[c.ID] = f
		}
		all = append(all, cases...)
	}
	return all, nil
}

// readKnown reads the list of cases that do not pass: an id and the reason on
// each line. Lines that begin with # are comments.
func readKnown(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	known := map[string]string{}
	lines := bufio.NewScanner(bytes.NewReader(data))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if strings.TrimSpace(reason) == "" {
			return nil, fmt.Errorf("%s:%d: %s has no reason", path, n, id)
		}
		if _, twice := known[id]; twice {
			return nil, fmt.Errorf("%s:%d: %s is listed twice", path, n, id)
		}
		known[id] = strings.TrimSpace(reason)
	}
	return known, lines.Err()
}
