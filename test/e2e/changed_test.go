package e2e

import (
	"strings"
	"testing"
)

// TestAChangedSourceIsRefused reads a stream to its end, then asks for the same rows
// under another name or filter. The checkpoint survives every refusal.
func TestAChangedSourceIsRefused(t *testing.T) {
	b := newBroker(t)
	js := b.up()
	b.stream(js, "IN")
	b.stream(js, "OTHER")
	b.publish(js, `{"v":1}`, `{"v":2}`)
	script := func(source, options string) string {
		return "CREATE SOURCE " + source + " (v BIGINT) WITH (connector = 'nats', url = '" + b.url() + "', format = 'json', " + options + ");\n" +
			"CREATE SINK out WITH (connector = 'file', path = 'out', format = 'json', guarantee = 'exactly_once');\n" +
			"CREATE QUERY q AS INSERT INTO out SELECT v FROM " + source + ";\n"
	}
	first := script("o", "stream = 'IN', subject = 'in.>'")
	p := here(t, first)
	p.run(t, "run", "q.sql", "--available-now").ends(0, "rows_in=2 rows_out=2 late=0 bad=0")
	for text, want := range map[string]string{
		script("oo", "stream = 'IN', subject = 'in.>'"):   "'source:oo'",
		script("o", "stream = 'IN', subject = 'in.*'"):    "'in.*'",
		script("o", "stream = 'OTHER', subject = 'in.>'"): "stream OTHER",
	} {
		p.write(t, "changed.sql", text)
		p.run(t, "validate", "changed.sql", "--against", "streamd-data").ends(3, want, "--fresh q", "--allow-dropped-state")
		p.run(t, "run", "changed.sql", "--available-now").ends(3, want, "--fresh q", "--allow-dropped-state")
	}
	p.run(t, "run", "q.sql", "--available-now", "--fresh", "q", "--restore-epoch", "1").ends(2, "contradict")
	p.run(t, "run", "q.sql", "--available-now", "--fresh", "qq").ends(2, "did you mean q?")
	p.run(t, "run", "q.sql", "--available-now").ends(0, "goes on from its checkpoint", "rows_in=0")
	if got := strings.Count(p.read(t, "out"), "\n"); got != 2 {
		t.Errorf("there are %d rows, want each once", got)
	}
	p.write(t, "drop.sql", "DROP QUERY q;\n"+strings.ReplaceAll(first, "QUERY q", "QUERY again"))
	p.run(t, "run", "drop.sql", "--available-now").ends(0)
	p.run(t, "checkpoints", "ls", "streamd-data", "q").ends(2, "no checkpoint of a query called q")
}
