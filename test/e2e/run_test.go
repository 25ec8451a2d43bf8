package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	// ones is a source of the JSON lines in the directory in.
	ones = "CREATE SOURCE ones (a BIGINT, b BIGINT) WITH (connector = 'file', path = 'in', format = 'json');\n"
	// out is a sink of part files.
	out = "CREATE SINK out WITH (connector = 'file', path = 'out', format = 'json');\n"
	// ticks is a source that never ends.
	ticks = `CREATE SOURCE ticks (timestamp TIMESTAMP, value BIGINT, WATERMARK FOR timestamp AS timestamp - INTERVAL 1 SECOND)
WITH (connector = 'rate', rows_per_second = '1000');
`
)

func TestAvailableNowReadsWhatIsNew(t *testing.T) {
	t.Parallel()
	p := here(t, ones+out+"INSERT INTO out SELECT a * 10 AS x FROM ones;")
	steps := []struct{ name, file, text, want string }{
		{"a directory of lines is read to its end", "in/1.json", `{"a":1}` + "\n" + `{"a":2}` + "\n", `{"x":10}` + "\n" + `{"x":20}` + "\n"},
		{"nothing new gives nothing", "", "", ""},
		{"a new file is read, without a newline at its end", "in/2.json", `{"a":3}`, `{"x":30}` + "\n"},
		{"an empty file is no row", "in/3.json", "", ""},
	}
	want := ""
	for _, s := range steps {
		if s.file != "" {
			p.write(t, s.file, s.text)
		}
		want += s.want
		p.run(t, "run", "q.sql", "--available-now").ends(0, "query ended")
		if d := cmp.Diff(want, p.read(t, "out")); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, d)
		}
	}
}

func TestABoundedRunNeedsItsInput(t *testing.T) {
	t.Parallel()
	p := here(t, ones+out+"INSERT INTO out SELECT a FROM ones;")
	p.run(t, "run", "q.sql", "--available-now").ends(1, "in does not exist")
}

func TestALineOfTenMegabytesIsARow(t *testing.T) {
	long(t)
	p := here(t, ones+out+"INSERT INTO out SELECT a FROM ones;")
	p.write(t, "in/big.json", `{"a":1,"pad":"`+strings.Repeat("x", 10<<20)+"\"}\n{\"a\":2}\n")
	p.run(t, "run", "q.sql", "--available-now").ends(0)
	if got, want := p.read(t, "out"), "{\"a\":1}\n{\"a\":2}\n"; got != want {
		t.Errorf("got %.100q, want %q", got, want)
	}
}

func TestTheConsoleWritesToStandardOutput(t *testing.T) {
	t.Parallel()
	for mode, want := range map[string]string{
		"append":   "+---+\n|  n|\n+---+\n|  2|\n+---+\n",
		"update":   "+---+---+\n|  b|  n|\n+---+---+\n|  7|  2|\n+---+---+\n",
		"complete": "+---+---+\n|  b|  n|\n+---+---+\n|  7|  2|\n+---+---+\n",
	} {
		t.Run("in mode "+mode, func(t *testing.T) {
			t.Parallel()
			query := "SELECT b, count(*) AS n FROM ones GROUP BY b"
			if mode == "append" {
				query = "SELECT a + 1 AS n FROM ones WHERE a = 1"
			}
			p := here(t, ones+"CREATE QUERY q WITH (output_mode = '"+mode+"') AS "+query+";")
			p.write(t, "in/1.json", "{\"a\":1,\"b\":7}\n{\"a\":2,\"b\":7}\n")
			x := p.run(t, "run", "q.sql", "--available-now")
			x.ends(0, "query started")
			got := x.out.String()
			if !strings.Contains(got, "Query: q  Epoch: 1\n") || !strings.Contains(got, want) {
				t.Errorf("got:\n%s\nwant a table:\n%s", got, want)
			}
			if strings.Contains(got, "level=") || strings.Contains(x.err.String(), "+---") {
				t.Errorf("log and rows are mixed up:\n%s\n%s", got, x.err.String())
			}
		})
	}
}

// values returns the numbers in field value of all visible rows and fails unless
// they are 0, 1, 2, ... without holes or repetitions.
func values(t *testing.T, p *place) int {
	t.Helper()
	seen := map[int]bool{}
	for _, line := range strings.Split(strings.TrimSpace(p.read(t, "out")), "\n") {
		var row struct {
			Value *int `json:"value"`
		}
		if err := json.Unmarshal([]byte(line), &row); err != nil || row.Value == nil || seen[*row.Value] {
			t.Fatalf("bad or repeated row %q: %v", line, err)
		}
		seen[*row.Value] = true
	}
	for i := range len(seen) {
		if !seen[i] {
			t.Fatalf("of %d rows, %d is missing", len(seen), i)
		}
	}
	return len(seen)
}

func TestKillAndResume(t *testing.T) {
	long(t)
	p := here(t, ticks+strings.Replace(out, "'json'", "'json', roll_interval = '50ms'", 1)+"SET epoch_interval = '20ms'; INSERT INTO out SELECT value FROM ticks;")
	for range 3 {
		before := len(p.read(t, "out"))
		x := p.start(t, "run", "q.sql")
		eventually(t, "visible rows", func() bool { return len(p.read(t, "out")) > before })
		x.signal(syscall.SIGKILL)
		if got := x.wait(); got != -1 {
			t.Fatalf("exit code %d of a process that was killed", got)
		}
	}
	x := p.start(t, "run", "q.sql")
	x.says("query goes on from its checkpoint.* epoch=")
	x.stop()
	if n := values(t, p); n < 100 {
		t.Errorf("only %d rows", n)
	}
}

func TestADrainMakesEverythingVisible(t *testing.T) {
	long(t)
	p := here(t, ticks+out+"INSERT INTO out SELECT value FROM ticks;")
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		x := p.start(t, "run", "q.sql", "--set", "epoch_interval=50ms", "--http", "127.0.0.1:0")
		addr := x.says(`address=(http://\S+)`)
		eventually(t, "an epoch", func() bool { return query(t, addr, "out").LastProgress.BatchID > 0 })
		x.signal(s)
		x.ends(0, "draining", "query stopped")
	}
	values(t, p)
}

// TestOneSignalThatComesTwice: timeout(1) signals a process and then its group.
func TestOneSignalThatComesTwice(t *testing.T) {
	long(t)
	p := here(t, ticks+out+"INSERT INTO out SELECT value FROM ticks;")
	x := p.start(t, "run", "q.sql", "--log-format", "json")
	x.says("query started")
	x.signal(syscall.SIGTERM)
	x.signal(syscall.SIGTERM)
	x.ends(0, "draining", `"timeout":"20s"`, "query stopped")
}

// TestAClosedStandardOutput: whoever reads the console may go away, as head does.
func TestAClosedStandardOutput(t *testing.T) {
	long(t)
	p := here(t, ticks+out+"CREATE QUERY watch AS SELECT value FROM ticks;\nINSERT INTO out SELECT value FROM ticks;")
	p.write(t, "watch.sql", ticks+"CREATE QUERY watch AS SELECT value FROM ticks;")
	t.Run("ends the query that prints", func(t *testing.T) {
		x := p.pipe(t, "run", "q.sql", "--http", "127.0.0.1:0", "--set", "epoch_interval=50ms")
		addr := x.says(`address=(http://\S+)`)
		x.says(`query failed.* query=watch .*nobody reads standard output any more`)
		epoch := query(t, addr, "out").LastProgress.BatchID
		eventually(t, "epochs of the other query", func() bool { return query(t, addr, "out").LastProgress.BatchID > epoch })
		x.signal(syscall.SIGTERM)
		x.ends(1, "query stopped")
		values(t, p)
	})
	t.Run("ends the run if nothing else does anything", func(t *testing.T) {
		p.pipe(t, "run", "watch.sql", "--dir", "other").ends(1, "nobody reads standard output any more")
	})
	t.Run("ends the demo", func(t *testing.T) {
		p.pipe(t, "demo", "--rate", "1000").ends(1, "write to standard output: broken pipe")
	})
}

// TestFilesAreReadableForOthers: results follow the umask, checkpoints do not.
func TestFilesAreReadableForOthers(t *testing.T) {
	t.Parallel()
	p := here(t, ones+out+"INSERT INTO out SELECT a FROM ones;")
	p.write(t, "in/1.json", `{"a":1}`+"\n")
	usual := func(make func(path string) error) os.FileMode {
		path := filepath.Join(t.TempDir(), "x")
		if err := make(path); err != nil {
			t.Fatal(err)
		}
		return mode(t, path)
	}
	file := usual(func(path string) error { return os.WriteFile(path, nil, 0o666) }) //nolint:gosec // the umask decides
	dir := usual(func(path string) error { return os.Mkdir(path, 0o777) })           //nolint:gosec // the umask decides
	if err := os.Mkdir(filepath.Join(p.dir, "state"), 0o755); err != nil {           //nolint:gosec // a directory that was there before
		t.Fatal(err)
	}
	p.run(t, "run", "q.sql", "--available-now", "--dir", "state").ends(0)
	parts, err := filepath.Glob(filepath.Join(p.dir, "out", "part-*"))
	if err != nil || len(parts) == 0 {
		t.Fatalf("no output (%v)", err)
	}
	if got := mode(t, parts[0]); got != file {
		t.Errorf("%s has mode %s, want %s", parts[0], got, file)
	}
	if got := mode(t, filepath.Join(p.dir, "out")); got != dir {
		t.Errorf("the directory of the output has mode %s, want %s", got, dir)
	}
	entries, err := os.ReadDir(filepath.Join(p.dir, "state"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if got := mode(t, filepath.Join(p.dir, "state", e.Name())); got.Perm()&0o077 != 0 {
			t.Errorf("the checkpoints' %s has mode %s", e.Name(), got)
		}
	}
}

func mode(t *testing.T, path string) os.FileMode {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Mode()
}

func TestASecondProcessIsRefused(t *testing.T) {
	t.Parallel()
	p := here(t, ticks+out+"INSERT INTO out SELECT value FROM ticks;")
	x := p.start(t, "run", "q.sql")
	x.says("query started")
	pid := fmt.Sprintf("is used by process %d", x.cmd.Process.Pid)
	p.run(t, "run", "q.sql").ends(2, pid)
	p.run(t, "validate", "q.sql", "--against", "streamd-data").ends(2, pid)
	p.run(t, "run", "q.sql", "--dir", "other", "--available-now", "--set", "trigger=continuous", "--http", "nowhere").ends(2)
	x.stop()
}

func TestTheLockIsNotWrittenThroughALink(t *testing.T) {
	t.Parallel()
	p := here(t, ones+out+"INSERT INTO out SELECT a FROM ones;")
	p.write(t, "precious", "text")
	p.write(t, "streamd-data/x", "")
	if err := os.Symlink(filepath.Join(p.dir, "precious"), filepath.Join(p.dir, "streamd-data", "LOCK")); err != nil {
		t.Fatal(err)
	}
	p.run(t, "run", "q.sql", "--available-now").ends(2, "is a symbolic link")
	got, err := os.ReadFile(filepath.Join(p.dir, "precious"))
	if err != nil || string(got) != "text" {
		t.Errorf("the file behind the link holds %q (%v)", got, err)
	}
}

func TestAChangedQuery(t *testing.T) {
	long(t)
	counts := func(size, columns string) string {
		return ticks + "CREATE QUERY c WITH (output_mode = 'update', epoch_interval = '50ms') AS SELECT count(*) AS n" + columns +
			" FROM ticks GROUP BY window(timestamp, '" + size + "');\n"
	}
	p := here(t, counts("10 seconds", ""))
	p.write(t, "window.sql", counts("20 seconds", ""))
	p.write(t, "sum.sql", counts("10 seconds", ", sum(value) AS s"))
	p.write(t, "output.sql", strings.Replace(counts("10 seconds", ", 'x' AS x"), "FROM ticks", "FROM ticks WHERE value >= 0", 1))
	p.write(t, "none.sql", ticks+"CREATE QUERY c AS SELECT value FROM ticks;")
	once := func(args ...string) *process {
		x := p.start(t, append([]string{"run", "--http", "127.0.0.1:0"}, args...)...)
		addr := x.says(`address=(http://\S+)`)
		eventually(t, "an epoch or the end", func() bool {
			select {
			case <-x.done:
				return true
			default:
			}
			q := tryQuery(addr, "c")
			return q != nil && q.LastProgress != nil
		})
		x.signal(syscall.SIGTERM)
		x.wait()
		return x
	}
	once("q.sql").ends(0)
	for _, file := range []string{"window.sql", "sum.sql"} {
		p.run(t, "run", file).ends(3, "operator aggregate: the checkpoint holds", "the query needs", "--fresh")
		p.run(t, "validate", file, "--against", "streamd-data").ends(3, "operator aggregate")
	}
	p.run(t, "validate", "q.sql", "--against", "streamd-data").ends(0)
	once("output.sql").ends(0, "query goes on from its checkpoint")
	p.run(t, "run", "none.sql").ends(3, "--allow-dropped-state")
	p.run(t, "run", "q.sql", "--restore-epoch", "999999").ends(3, "is not retained")
	once("q.sql", "--restore-epoch", "2").ends(0, "query goes on from its checkpoint", "epoch=2")
	once("none.sql", "--allow-dropped-state").ends(0, "query goes on from its checkpoint")
	once("window.sql", "--fresh", "c").ends(0, "checkpoint removed")
	p.run(t, "run", "nothing.sql", "--fresh", "c").ends(2)
	p.write(t, "nothing.sql", "SHOW QUERIES;")
	p.run(t, "run", "nothing.sql").ends(0, "not in the file", "queries=c")
	p.run(t, "run", "nothing.sql", "--fresh", "d").ends(2, "neither the file nor the directory has a query of that name")
	if _, err := os.Stat(filepath.Join(p.dir, "streamd-data", "queries", "c")); err != nil {
		t.Error("a checkpoint was removed although nobody asked for it")
	}
}

func TestAFailingQuery(t *testing.T) {
	long(t)
	p := here(t, ones+ticks+out+"INSERT INTO out SELECT value FROM ticks;\nCREATE QUERY bad AS SELECT a / b AS q FROM ones;")
	p.write(t, "in/1.json", "{\"a\":1,\"b\":0}\n")
	t.Run("does not stop the others", func(t *testing.T) {
		x := p.start(t, "run", "q.sql", "--http", "127.0.0.1:0")
		addr := x.says(`address=(http://\S+)`)
		eventually(t, "the failure in readyz", func() bool {
			code, body := get(t, addr+"/readyz")
			return code == 503 && strings.Contains(body, "failed: ") && strings.Contains(body, "division by zero")
		})
		if q := query(t, addr, "bad"); q.Status.State != "failed" || !strings.Contains(q.Exception, "division by zero") {
			t.Errorf("got %+v", q)
		}
		if q := query(t, addr, "out"); q.Status.State != "running" {
			t.Errorf("the other query: %+v", q)
		}
		x.signal(syscall.SIGTERM)
		x.ends(1, "query failed", "division by zero", "query stopped")
	})
	t.Run("ends the process with --exit-on-failure", func(t *testing.T) {
		p.run(t, "run", "q.sql", "--exit-on-failure").ends(1, "division by zero")
	})
}

func TestBadRecords(t *testing.T) {
	t.Parallel()
	const input = `{"a":1,"b":1}` + "\n" + `{"a":2,"b":0}` + "\nnot json\n" + `{"a":"x","b":1}` + "\n" + `{"a":6,"b":2}` + "\n"
	good := `{"a":1,"q":1}` + "\n" + `{"a":6,"q":3}` + "\n"
	for _, c := range []struct {
		name, policy string
		code         int
		want         string
		letters      []string
	}{
		{"fail by default", "", 1, "", nil},
		{"fail", "on_error = 'fail'", 1, "", nil},
		{"become NULL", "on_error = 'null'", 0, `{"a":1,"q":1}` + "\n" + `{"a":2,"q":null}` + "\n" + strings.Repeat(`{"a":null,"q":null}`+"\n", 2) + `{"a":6,"q":3}` + "\n", nil},
		{"are dropped", "on_error = 'drop'", 0, good, nil},
		{
			"go to a dead-letter sink", "on_error = 'dead_letter', dead_letter = 'letters'", 0, good,
			[]string{`"origin":"file 1.json byte 28"`, `"payload":"not json"`, `is not a bigint`, "division by zero", `"payload":"{\"a\":2,\"b\":0}"`},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			source := ones
			if c.policy != "" {
				source = strings.Replace(ones, "'json')", "'json', "+c.policy+")", 1)
			}
			p := here(t, source+out+`CREATE SINK letters WITH (connector = 'file', path = 'letters', format = 'json');
INSERT INTO out SELECT a, a div b AS q FROM ones;`)
			p.write(t, "in/1.json", input)
			x := p.run(t, "run", "q.sql", "--available-now")
			x.ends(c.code)
			if c.code != 0 && !strings.Contains(x.err.String(), "division by zero") && !strings.Contains(x.err.String(), "file 1.json byte 28: bad record") {
				t.Errorf("the cause is not named:\n%s", x.err.String())
			}
			if d := cmp.Diff(c.want, p.read(t, "out")); d != "" {
				t.Errorf("rows (-want +got):\n%s", d)
			}
			letters := p.read(t, "letters")
			if n := strings.Count(letters, "\n"); (n > 0) != (c.letters != nil) || c.letters != nil && n != 3 {
				t.Errorf("%d dead letters:\n%s", n, letters)
			}
			for _, l := range c.letters {
				if !strings.Contains(letters, l) {
					t.Errorf("no %s in the dead letters:\n%s", l, letters)
				}
			}
		})
	}
	t.Run("are not produced by try functions", func(t *testing.T) {
		t.Parallel()
		p := here(t, ones+out+"INSERT INTO out SELECT try_divide(a, b) AS q, try_cast(concat('x', a) AS INT) AS c FROM ones;")
		p.write(t, "in/1.json", `{"a":1,"b":0}`+"\n")
		p.run(t, "run", "q.sql", "--available-now").ends(0)
		if got, want := p.read(t, "out"), `{"q":null,"c":null}`+"\n"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	})
	t.Run("fail in casts", func(t *testing.T) {
		t.Parallel()
		p := here(t, ones+out+"INSERT INTO out SELECT CAST(concat('x', a) AS INT) AS c FROM ones;")
		p.write(t, "in/1.json", `{"a":1}`+"\n")
		p.run(t, "run", "q.sql", "--available-now").ends(1, `cannot cast the string \"x1\" to int; use try_cast`)
	})
}
