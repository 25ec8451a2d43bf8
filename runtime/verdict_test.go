package runtime_test

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/runtime"
)

// brokenScripts are wrong in one way each. They follow the definitions of src, a
// stream of k BIGINT, s STRING, ts TIMESTAMP, and of the sink out.
var brokenScripts = []string{
	"SELEC 1",
	"INSERT INTO out SELECT k FROM src WHERE",
	"INSERT INTO out SELECT 'open FROM src",
	"INSERT INTO out SELECT nope FROM src",
	"INSERT INTO out SELECT nope(k) FROM src",
	"INSERT INTO out SELECT k FROM nowhere",
	"INSERT INTO nowhere SELECT k FROM src",
	"INSERT INTO out SELECT k + ARRAY(1) AS x FROM src",
	"INSERT INTO out SELECT substring(k) AS x FROM src",
	"INSERT INTO out SELECT k FROM src GROUP BY s",
	"INSERT INTO out SELECT k, count(*) AS n FROM src GROUP BY k", // append mode
	"INSERT INTO out SELECT sum(count(k)) AS n FROM src",
	"INSERT INTO out SELECT k FROM src ORDER BY k",
	"INSERT INTO out SELECT window.start AS w, count(*) AS n FROM src GROUP BY window(ts, '0 seconds')",
	"INSERT INTO out SELECT window.start AS w, count(*) AS n FROM src GROUP BY window(ts, 'soon')",
	"INSERT INTO out SELECT k FROM src UNION ALL SELECT k, s FROM src",
	"INSERT INTO out (a, b) SELECT k FROM src",
	"CREATE QUERY q WITH (output_mode = 'sometimes') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (epoch_intervall = '1s') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (epoch_interval = 'often') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (epoch_interval = '-1s') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (epoch_interval = '0s') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (time_zone = 'Mars/Olympus') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (max_uncommitted = 'much') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (trigger = 'never') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (late_output = 'nowhere') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (flush_at_end = 'true') AS INSERT INTO out SELECT k FROM src",
	"CREATE QUERY q WITH (checkpointLocation = '/data/x') AS INSERT INTO out SELECT k FROM src",
	"INSERT INTO out SELECT k FROM src; INSERT INTO out SELECT k + 1 AS k FROM src",
	"SET epoch_intervall = '1s'",
	"SET epoch_interval = 'often'",
	"CREATE SOURCE b (k BIGINT)",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'carrier-pigeon')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', format = 'json')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'jsn')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'json', on_error = 'ignore')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'json', on_error = 'dead_letter')",
	"CREATE SOURCE b (k NUMBER) WITH (connector = 'file', path = '/tmp', format = 'json')",
	"CREATE SOURCE b (k BIGINT, k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'json')",
	"CREATE SOURCE b (k BIGINT, WATERMARK FOR t AS t) WITH (connector = 'file', path = '/tmp', format = 'json')",
	"CREATE SOURCE b (k BIGINT, WATERMARK FOR k AS k) WITH (connector = 'file', path = '/tmp', format = 'json')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'nats', stream = 'S', format = 'json', url = 'nats://h', start = 'sometime')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'nats', format = 'json', url = 'nats://h')",
	"CREATE SOURCE b (k BIGINT METADATA FROM 'nothing') WITH (connector = 'nats', stream = 'S', format = 'json', url = 'nats://h')",
	"CREATE SOURCE b (a STRING, b STRING) WITH (connector = 'file', path = '/tmp', format = 'text')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'text')",
	"CREATE SOURCE b (a ARRAY<INT>) WITH (connector = 'file', path = '/tmp', format = 'csv')",
	"CREATE SOURCE b (i INTERVAL) WITH (connector = 'socket', host = 'h', port = '1', format = 'json')",
	"CREATE SOURCE b (k BIGINT) WITH (connector = 'file', path = '/tmp', format = 'csv', delimiter = 'abc')",
	"CREATE SOURCE b WITH (connector = 'rate', rows_per_second = 'fast')",
	"CREATE SOURCE src (k BIGINT) WITH (connector = 'rate')",
	"CREATE SINK b WITH (connector = 'file', format = 'json')",
	"CREATE SINK b WITH (connector = 'console', num_rows = 'all')",
	"CREATE SINK b WITH (connector = 'console', guarantee = 'mostly')",
	"CREATE SINK b WITH (connector = 'nats', stream = 'S', format = 'json', url = 'nats://h'); INSERT INTO b SELECT k FROM src",
	"CREATE SINK b WITH (connector = 'nats', stream = 'S', subject = 's.{nope}', format = 'json', url = 'nats://h'); INSERT INTO b SELECT k FROM src",
	"CREATE SINK b WITH (connector = 'nats', stream = 'S', subject = 's', bucket = 'B', key = 'k', format = 'json', url = 'nats://h'); INSERT INTO b SELECT k FROM src",
	"CREATE SINK b WITH (connector = 'console', guarantee = 'exactly_once'); INSERT INTO b SELECT k FROM src",
	"CREATE SINK b WITH (connector = 'file', path = '/data/x', format = 'json'); INSERT INTO b SELECT k AS a, k AS a FROM src",
	"CREATE SINK b WITH (connector = 'file', path = '/data/x', format = 'csv'); INSERT INTO b SELECT array(k) AS a FROM src",
	"CREATE VIEW v AS SELECT nope FROM src",
	"CREATE VIEW src AS SELECT k FROM src",
	"DROP QUERY nope",
	"DROP VIEW nope",
	"DESCRIBE nope",
	"EXPLAIN SELECT nope FROM src",
	"SHOW EVERYTHING",
}

// TestOneVerdict: what cannot run is found before it runs, and checking a script,
// explaining it and running it find the same. Nothing of it is done.
func TestOneVerdict(t *testing.T) {
	s := open(t, runtime.Config{})
	source(t, s, "src", "k BIGINT, s STRING, ts TIMESTAMP", "ts")
	sink(t, s, "out")
	faults := func(err error) []runtime.Diagnostic {
		var se *runtime.ScriptError
		if !errors.As(err, &se) {
			t.Fatalf("got %v, want a ScriptError", err)
		}
		if n := len(s.Queries()); n > 0 {
			t.Fatalf("%d queries were started", n)
		}
		return se.Diagnostics
	}
	for _, script := range brokenScripts {
		err := s.Validate(t.Context(), "sql", script)
		if err == nil {
			t.Errorf("%s\n\tis right", script)
			continue
		}
		checked, text := faults(err), err.Error()
		if err = s.Exec(t.Context(), script); err == nil {
			t.Errorf("%s\n\truns, although: %s", script, text)
			continue
		}
		if d := cmp.Diff(checked, faults(err), cmpopts.IgnoreUnexported(runtime.Diagnostic{})); d != "" {
			t.Errorf("%s\n\tis wrong in another way when it runs (-check +run):\n%s", script, d)
		}
		if _, err = s.ExplainScript(t.Context(), "sql", script); err == nil {
			t.Errorf("%s\n\tis explained, although: %s", script, text)
			continue
		}
		if d := cmp.Diff(checked, faults(err), cmpopts.IgnoreUnexported(runtime.Diagnostic{})); d != "" {
			t.Errorf("%s\n\tis wrong in another way when it is explained (-check +explain):\n%s", script, d)
		}
	}
}
