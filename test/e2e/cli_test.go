package e2e

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestHelpFitsOnAScreen(t *testing.T) {
	t.Parallel()
	p := &place{dir: t.TempDir()}
	for _, command := range []string{"", "run", "validate", "explain", "checkpoints", "checkpoints ls", "checkpoints inspect", "checkpoints verify", "demo", "version"} {
		x := p.run(t, append(strings.Fields(command), "--help")...)
		x.ends(0)
		help := x.out.String()
		if n := strings.Count(help, "\n"); n >= 40 {
			t.Errorf("the help of %q has %d lines", command, n)
		}
		if n := strings.Count(help, "\n    streamd "); n < 2 {
			t.Errorf("the help of %q has %d examples, want 2", command, n)
		}
	}
}

func TestUsageErrors(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // a port that is taken
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	p := here(t, ones+`SELECT a FROM ones;`)
	for args, want := range map[string]string{
		"":                                      `expected one of "run"`,
		"rn q.sql":                              `did you mean "run"?`,
		"run":                                   `expected "<file>"`,
		"run nope.sql":                          "file nope.sql does not exist",
		"run .":                                 "is a directory",
		"run q.sql --availble-now":              `did you mean "--available-now"?`,
		"run q.sql --set epoch":                 "expected \"<key>=<value>\"",
		"run q.sql --set epoc_interval=1s":      "unknown option epoc_interval (did you mean epoch_interval?)",
		"run q.sql --set epoch_interval=fast":   "is not a duration",
		"run q.sql --log-format xml":            `must be one of "text","json"`,
		"run q.sql --http 0.0.0.0:0":            "is not a loopback address",
		"run q.sql --http 8080":                 "want HOST:PORT",
		"run q.sql --http " + l.Addr().String(): "address already in use",
		"run q.sql --dir q.sql":                 "q.sql",
		"run q.sql --http 127.0.0.1:99999":      "the port must be a number",
		"run q.sql --shutdown-timeout -5s":      "a duration that is not below 0",
		"run q.sql --dir":                       "--dir: a value is missing\nRun streamd run --help",
		"validate q.sql --against nowhere":      "--against: there is no directory nowhere",
		"checkpoints ls nowhere":                "there is no directory nowhere",
		"checkpoints inspect . --epoch -1":      `want a whole number, not "-1"`,
		"help rn":                               `did you mean "run"?`,
		"explain nope.sql":                      "does not exist",
		"demo --rate 0":                         "must be between",
		"demo --rate -1":                        "--rate is -1, it must be between",
		"demo --duration 5":                     `want a duration such as 90s or 5m, not "5"`,
	} {
		t.Run("streamd "+args, func(t *testing.T) {
			x := p.run(t, strings.Fields(args)...)
			x.ends(2, want)
			if x.out.String() != "" || strings.Contains(x.err.String(), "query started") {
				t.Errorf("something was started:\n%s\n%s", x.out.String(), x.err.String())
			}
		})
	}
	if _, err := os.Stat(p.dir + "/streamd-data/queries/select_1"); err == nil {
		t.Error("a checkpoint was made")
	}
}

func TestAnEmptyDirectoryNameIsRefused(t *testing.T) {
	t.Parallel()
	p := here(t, ones+"SELECT a FROM ones;")
	for _, args := range [][]string{{"run", "q.sql", "--dir", ""}, {"run", "q.sql", "--dir="}, {"demo", "--dir", ""}} {
		p.run(t, args...).ends(2, "--dir is empty", "name a directory")
	}
	p.run(t, "checkpoints", "ls", "").ends(2, "DIR is empty")
	p.run(t, "validate", "q.sql", "--against", "").ends(2, "--against is empty")
	p.env = []string{"STREAMD_DIR="}
	p.run(t, "run", "q.sql").ends(2, "--dir is empty", "STREAMD_DIR")
	p.run(t, "demo").ends(2, "--dir is empty")
}

func TestHelpAndVersionAreCommandsAndFlags(t *testing.T) {
	t.Parallel()
	p := here(t, "")
	for _, c := range [][2]string{{"help", "--help"}, {"help run", "run --help"}, {"help checkpoints ls", "checkpoints ls --help"}, {"--version", "version"}, {"--version --json", "version --json"}} {
		got, want := p.run(t, strings.Fields(c[0])...), p.run(t, strings.Fields(c[1])...)
		got.ends(0)
		want.ends(0)
		if got.out.String() != want.out.String() || got.out.String() == "" {
			t.Errorf("streamd %s prints\n%s\nand streamd %s\n%s", c[0], got.out.String(), c[1], want.out.String())
		}
	}
}

func TestAFileWithoutAQuery(t *testing.T) {
	t.Parallel()
	const none = "there is no query in the file"
	for _, text := range []string{"", "-- a comment\n", ";;;", ones} {
		p := here(t, text)
		p.run(t, "run", "q.sql").ends(2, "q.sql: "+none)
		p.run(t, "validate", "q.sql").ends(0, "q.sql: warning: "+none)
		x := p.run(t, "explain", "q.sql")
		x.ends(0)
		if !strings.Contains(x.out.String(), none) {
			t.Errorf("explain of %q prints %q", text, x.out.String())
		}
	}
	here(t, "DROP QUERY IF EXISTS q;").run(t, "run", "q.sql").ends(2, none)
	p := here(t, ones+"DESCRIBE ones; EXPLAIN SELECT a FROM ones;")
	p.run(t, "run", "q.sql").ends(0, none) // it prints what was asked for
	x := p.run(t, "explain", "q.sql")
	x.ends(0)
	if !strings.Contains(x.out.String(), "Replay verdict") {
		t.Errorf("EXPLAIN is not explained:\n%s", x.out.String())
	}
}

func TestVariablesThatSetNothingAreNamed(t *testing.T) {
	t.Parallel()
	p := here(t, ones+"CREATE VIEW v AS SELECT '${STREAMD_MINE}' AS x FROM ones; SHOW VIEWS;")
	p.env = []string{"STREAMD_LOGLEVEL=debug", "STREAMD_MINE=1"}
	for _, command := range []string{"run", "validate", "explain"} {
		x := p.run(t, command, "q.sql")
		x.ends(0, "no flag is set by the variable STREAMD_LOGLEVEL (did you mean STREAMD_LOG_LEVEL?)")
		if strings.Contains(x.err.String(), "STREAMD_MINE") {
			t.Errorf("a variable of the script is reported:\n%s", x.err.String())
		}
	}
}

func TestAFileThatMayNotBeReadIsNamed(t *testing.T) {
	if syscall.Getuid() == 0 {
		t.Skip("root may read everything")
	}
	p := here(t, "")
	if err := os.Chmod(p.dir+"/q.sql", 0); err != nil {
		t.Fatal(err)
	}
	p.run(t, "run", "q.sql").ends(2, "q.sql: permission denied")
}

// events is a source to write wrong statements about.
const events = `CREATE SOURCE events (id BIGINT, name STRING, ts TIMESTAMP, WATERMARK FOR ts AS ts - INTERVAL 1 SECOND)
WITH (connector = 'file', path = 'in', format = 'json');
`

func TestValidateSaysWhatIsWrongAndWhere(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"SELEC 1":  "q.sql:1:1: PARSE_SYNTAX_ERROR: unknown statement \"SELEC\"\n  SELEC 1\n  ^^^^^\n  hint: did you mean SELECT?",
		"SELECT 1": "no table in FROM is a stream",
		"CREATE SOURCE s (a BIGINT) WITH (connector = 'natts')":                                      `unknown connector "natts" (did you mean nats?)`,
		"CREATE SOURCE s (a BIGINT) WITH (connector = 'file', path = 'x', format = 'jsn')":           `unknown format "jsn" (did you mean json?)`,
		"CREATE SOURCE s (a BIGINT) WITH (connector = 'file', pth = 'x', format = 'json')":           "unknown option pth",
		"CREATE SOURCE s (a BIGIN) WITH (connector = 'file', path = 'x', format = 'json')":           "did you mean BIGINT?",
		"CREATE SOURCE s (a BIGINT METADATA FROM 'sequnce') WITH (connector = 'nats', stream = 'S')": "did you mean sequence?",
		"CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', stream = 'S', url = '${NO_SUCH}')":     "variable NO_SUCH is not set",
		"SET epoch_intervall = '1s'":                                                               "did you mean epoch_interval?",
		"DROP SOURCE nope":                                                                         "there is no source nope",
		events + "SELECT nme FROM events":                                                          "q.sql:3:8: UNRESOLVED_COLUMN",
		events + "SELECT uper(name) FROM events":                                                   "did you mean upper?",
		events + "SELECT upper(name, 1) FROM events":                                               "usage: upper(str)",
		events + "SELECT id FROM event":                                                            "did you mean events?",
		events + "SELECT id + ts FROM events":                                                      "+ cannot be applied to (bigint, timestamp)",
		events + "SELECT id FROM events WHERE name":                                                "is of type string, not boolean",
		events + "SELECT name FROM events WHERE name = 'x":                                         "string is not closed",
		events + "SELECT name, count(*) FROM events GROUP BY name":                                 "use output_mode = 'update'",
		events + "SELECT name, count(*) FROM events":                                               "add GROUP BY name",
		events + "SELECT id FROM events ORDER BY id":                                               "UNSUPPORTED_STREAMING_OPERATION",
		events + "SELECT window(ts, '10 seonds') FROM events":                                      "did you mean seconds?",
		events + "INSERT INTO out SELECT id FROM events":                                           "define it with CREATE SINK",
		events + "CREATE QUERY q WITH (output_mode = 'appnd') AS SELECT id FROM events":            "did you mean append?",
		events + "CREATE QUERY q WITH (checkpointLocation = '/x') AS SELECT id FROM events":        "--dir",
		events + "CREATE QUERY q AS SELECT id FROM events; CREATE QUERY q AS SELECT 1 FROM events": "there is a query called q already",
		events + "CREATE SINK k WITH (connector = 'nats', stream = 'S', subject = 's.{idd}', format = 'json'); INSERT INTO k SELECT id FROM events": `there is no column "idd"`,
		events + "CREATE SINK k WITH (connector = 'console', guarantee = 'exactly_once');\nINSERT INTO k SELECT id FROM events":                     "guarantee = 'exactly_once' is not possible",
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			here(t, text).run(t, "validate", "q.sql").ends(2, want, "q.sql:", "^")
		})
	}
}

func TestValidateReportsEverythingAtOnce(t *testing.T) {
	t.Parallel()
	p := here(t, events+"SELECT nme FROM events;\nSELECT uper(name) FROM events;\nSET epoch = '1s';\n")
	p.run(t, "validate", "q.sql").ends(2, "q.sql:3:8:", "q.sql:4:8:", "q.sql:5:5:")
	p.write(t, "good.sql", events+"SELECT id FROM events;")
	x := p.run(t, "validate", "good.sql")
	x.ends(0)
	if got := x.out.String(); got != "good.sql: ok\n" {
		t.Errorf("got %q", got)
	}
}

func TestExplainShowsPlanAndGuarantee(t *testing.T) {
	t.Parallel()
	p := here(t, events+`CREATE SINK out WITH (connector = 'nats', stream = 'S', subject = 's.{id}', format = 'json');
INSERT INTO out SELECT id FROM events;
CREATE QUERY names WITH (output_mode = 'update') AS SELECT name, count(*) AS n FROM events GROUP BY name;`)
	x := p.run(t, "explain", "q.sql")
	x.ends(0)
	for _, want := range []string{"Query out (output mode append)", "Replay verdict\n  T (total)", "exactly_once, at_once", "Query names (output mode update)", "key: name", "N (not repeatable): aggregate"} {
		if !strings.Contains(x.out.String(), want) {
			t.Errorf("no %q in:\n%s", want, x.out.String())
		}
	}
}

func TestVariablesSetFlagsAndAreReplacedInFiles(t *testing.T) {
	t.Parallel()
	p := &place{dir: t.TempDir(), stdin: fmt.Sprintf(`CREATE SOURCE s (a BIGINT) WITH (connector = 'file', path = '${IN:-nowhere}', format = 'json');
CREATE SINK out WITH (connector = 'file', path = '${OUT}', format = 'json'); INSERT INTO out SELECT a + %d AS b FROM s;`, 1)}
	p.write(t, "one.json", `{"a":1}`+"\n")
	p.env = []string{"IN=one.json", "OUT=here", "STREAMD_AVAILABLE_NOW=true", "STREAMD_LOG_FORMAT=json", "STREAMD_DIR=state", "STREAMD_SET=epoch_interval=100ms;parallelism=1"}
	x := p.run(t, "run", "-")
	x.ends(0)
	if got := p.read(t, "here"); got != `{"b":2}`+"\n" {
		t.Errorf("got rows %q", got)
	}
	if _, err := os.Stat(p.dir + "/state/queries/out"); err != nil {
		t.Error(err)
	}
	for _, line := range strings.Split(strings.TrimSpace(x.err.String()), "\n") {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
	p.env = append(p.env, "STREAMD_LOG_LEVEL=loud")
	p.run(t, "run", "-").ends(2, "--log-level", "(from the variable STREAMD_LOG_LEVEL)")
}

func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	const secret = "hunter2-very-secret"
	p := here(t, `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', url = 'nats://bob:${PW}@127.0.0.1:1', stream = 'S', subject = 's', format = 'json', token = '${PW}');
CREATE SINK k WITH (connector = 'nats', url = 'nats://bob:${PW}@127.0.0.1:1', stream = 'K', subject = 'k', format = 'json', password = '${PW}', user = 'bob');
INSERT INTO k SELECT a FROM s;
DESCRIBE s; SHOW SOURCES; SHOW SINKS;`)
	p.write(t, "wrong.sql", `CREATE SOURCE s (a BIGINT) WITH (connector = 'nats', pasword = '${PW}', url = 'nats://bob:${PW}@h', strem = 'S', token '${PW}`)
	p.env = []string{"PW=" + secret}
	check := func(what, text string) {
		if strings.Contains(text, secret) {
			t.Errorf("%s shows the secret:\n%s", what, text)
		}
	}
	for _, args := range [][]string{{"explain", "q.sql"}, {"validate", "q.sql"}, {"validate", "wrong.sql"}} {
		x := p.run(t, args...)
		check(strings.Join(args, " "), x.out.String()+x.err.String())
	}
	x := p.start(t, "run", "q.sql", "--http", "127.0.0.1:0", "--log-level", "debug")
	addr := x.says(`address=(http://\S+)`)
	x.says("waits for the server")
	for _, path := range []string{"/readyz", "/metrics", "/api/v1/queries", "/api/v1/queries/k"} {
		_, body := get(t, addr+path)
		check(path, body)
	}
	x.signal(syscall.SIGTERM)
	x.signal(os.Interrupt)
	x.wait()
	check("the log", x.err.String())
	check("standard output", x.out.String())
}
