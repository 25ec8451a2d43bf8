package runtime_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime"
)

// TestOneMistakeHidesNoOther checks scripts with several mistakes. Each is to be
// reported at its place, and nothing else.
func TestOneMistakeHidesNoOther(t *testing.T) {
	for name, c := range map[string]struct {
		script string
		want   []string // line:column and a part of the text
	}{
		"query options": {
			"CREATE QUERY q WITH (output_mode = 'updat', trigger = 'never', time_zone = 'Mars') AS\nSELECT v FROM n",
			[]string{"1:22 output_mode", "1:55 trigger", "1:76 time_zone"},
		},
		"column types": {
			"CREATE SOURCE s (a NUMBER(3), b BIGINT, c STRNG, d BIGIN) WITH (connector = 'rate')",
			[]string{"1:20 NUMBER", "1:43 STRNG", "1:52 BIGIN"},
		},
		"a source's option and a query over it": {
			"CREATE SOURCE s (a BIGINT) WITH (connector = 'file', path = '/tmp', format = 'json', on_errr = 'drop');\nCREATE QUERY q AS SELECT aa FROM s",
			[]string{"1:86 on_errr", "2:26 aa"},
		},
		"connector and format": {
			"CREATE SOURCE s (a BIGINT, b BIGINT) WITH (connector = 'fil', path = '/tmp', format = 'jsn')",
			[]string{"1:56 fil", "1:87 jsn"},
		},
		"a name near a broken one": {
			"CREATE SOURCE bids (a BIGIN) WITH (connector = 'nope');\nCREATE SOURCE tally (a BIGINT) WITH (connector = 'nope');\nSELECT a FROM taly",
			[]string{"1:23 BIGIN", "2:50 nope", "3:15 did you mean tally?"},
		},
		"a watermark's column":    {"CREATE SOURCE s (ts TIMESTAMP, WATERMARK FOR tss AS ts) WITH (connector = 'rate')", []string{"1:46 did you mean ts?"}},
		"an option's value":       {"CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', stream = 'S', format = 'json', start = 'latst')", []string{"1:93 did you mean latest?"}},
		"describe":                {"SET time_zone = 'UTC';\n\n  DESCRIBE nn", []string{"3:12 nn"}},
		"a source is no sink":     {"INSERT INTO n SELECT v FROM n", []string{"1:13 CREATE SINK"}},
		"the number of arguments": {"SELECT upper('a', 'b') AS x FROM n", []string{"1:8 takes 1 argument, not 2"}},
		"offsets per partition": {
			"CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', stream = 'S', format = 'json', startingOffsets = '{\"a\":1}')",
			[]string{"1:103 per partition"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, runtime.Config{})
			source(t, s, "n", "v BIGINT", "")
			err := s.Validate(t.Context(), "sql", c.script)
			se, ok := err.(*runtime.ScriptError) //nolint:errorlint // Validate returns nothing else
			if !ok || len(se.Diagnostics) != len(c.want) {
				t.Fatalf("got\n%v\nwant the mistakes %q", err, c.want)
			}
			for i, d := range se.Diagnostics {
				at, text, _ := strings.Cut(c.want[i], " ")
				if got := fmt.Sprintf("%d:%d", d.Line, d.Column); got != at || !strings.Contains(d.Message+" "+d.Hint, text) {
					t.Errorf("got %s %s (%s), want %s", got, d.Message, d.Hint, c.want[i])
				}
			}
		})
	}
}

func TestStartingOffsetsIsTheStart(t *testing.T) {
	for _, value := range []string{"earliest", "latest"} {
		if text, err := explained(t, "stream = 'IN', startingOffsets = '"+value+"'"); err != nil {
			t.Errorf("%s: %v\n%s", value, err, text)
		}
	}
	if _, err := explained(t, "stream = 'IN', startingOffsets = 'latest', start = 'latest'"); err == nil || !strings.Contains(err.Error(), "twice") {
		t.Errorf("got %v, want that start is given twice", err)
	}
}

// TestAnotherSelectUnderANumberIsTold leaves out the first SELECT of a file: the
// second one becomes select_1.
func TestAnotherSelectUnderANumberIsTold(t *testing.T) {
	dir, in := t.TempDir(), t.TempDir()
	write(t, in, "1.json", `{"v":1}`+"\n")
	first, second := "SELECT v FROM o WHERE v > 0;", "SELECT v + 1 AS w FROM o;"
	for i, c := range []struct {
		selects string
		told    int
	}{{first + second, 0}, {first + second, 0}, {second, 2}} { // by ValidateAgainst and by the run
		log := &lines{}
		s := open(t, runtime.Config{Dir: dir, Log: log.logger(), Defaults: map[string]string{"trigger": "once"}, Stdout: log})
		script := fileSource("o", in) + c.selects
		if i > 0 {
			if err := s.ValidateAgainst(t.Context(), "sql", script); err != nil {
				t.Fatal(err)
			}
		}
		exec(t, s, script)
		if err := s.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		told := slices.Collect(log.with("no name of its own"))
		if len(told) != c.told {
			t.Errorf("run %d: it was told %d times, want %d: %v", i, len(told), c.told, told)
		}
	}
}
