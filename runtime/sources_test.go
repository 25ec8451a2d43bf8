package runtime_test

import (
	"strings"
	"testing"

	"github.com/streamd-io/streamd/runtime"
)

// explained returns EXPLAIN of a query that copies a source.
func explained(t *testing.T, options string) (string, error) {
	t.Helper()
	return open(t, runtime.Config{}).ExplainScript(t.Context(), "sql", `
		CREATE SINK k WITH (connector = 'nats', stream = 'OUT', subject = 'out.x', format = 'json');
		CREATE SOURCE src (k BIGINT) WITH (connector = 'nats', format = 'json', `+options+`);
		CREATE QUERY q AS INSERT INTO k SELECT k FROM src`)
}

func TestExplainShowsTheLimitOfASource(t *testing.T) {
	text, err := explained(t, "stream = 'IN', max_rows_per_second = 500")
	if err != nil || !strings.Contains(text, "source:src: at most 500 rows per second") {
		t.Errorf("error %v, EXPLAIN does not show the limit:\n%s", err, text)
	}
	if _, err := explained(t, "stream = 'IN', max_rows_per_second = 0"); err == nil || !strings.Contains(err.Error(), "max_rows_per_second") {
		t.Errorf("got error %v, want one that names max_rows_per_second", err)
	}
}

func TestExplainShowsThatASubjectCannotBeReplayed(t *testing.T) {
	text, err := explained(t, "subject = 'in.>'")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"source src", "cannot be read again", "at_least_once"} {
		if !strings.Contains(text, want) {
			t.Errorf("EXPLAIN does not show %q:\n%s", want, text)
		}
	}
	if again, err := explained(t, "stream = 'IN', subject = 'in.>'"); err != nil || strings.Contains(again, "cannot be read again") {
		t.Errorf("error %v, a stream can be read again:\n%s", err, again)
	}
}
