package e2e

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
)

// get asks for a page and returns status and body.
func get(t testing.TB, url string) (int, string) {
	t.Helper()
	code, body, err := ask(url, "")
	if err != nil {
		t.Fatal(err)
	}
	return code, body
}

func ask(url, host string) (int, string, error) {
	r, err := http.NewRequest(http.MethodGet, url, nil) //nolint:noctx // loopback, bounded by the test
	if err != nil {
		return 0, "", err
	}
	r.Host = host
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close() //nolint:errcheck // read to its end
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// queryState is what the tests read of a query.
type queryState struct {
	ID, RunID, Name, Exception string
	Status                     struct {
		State, Message   string
		ResumedFromEpoch uint64
	}
	LastProgress *struct {
		BatchID      uint64
		NumInputRows int64
		Sources      []struct{ Description string }
		EventTime    map[string]string
	}
}

func tryQuery(addr, name string) *queryState {
	code, body, err := ask(addr+"/api/v1/queries/"+name, "")
	q := &queryState{}
	if err != nil || code != http.StatusOK || json.Unmarshal([]byte(body), q) != nil {
		return nil
	}
	return q
}

// query returns the state of a query that has committed an epoch or is over.
func query(t testing.TB, addr, name string) *queryState {
	t.Helper()
	var q *queryState
	eventually(t, "query "+name, func() bool {
		q = tryQuery(addr, name)
		return q != nil && (q.LastProgress != nil || q.Status.State == "failed")
	})
	return q
}

func TestHTTP(t *testing.T) {
	t.Parallel()
	p := here(t, ticks+out+"INSERT INTO out SELECT value FROM ticks;")
	x := p.start(t, "run", "q.sql", "--http", "127.0.0.1:0", "--set", "epoch_interval=50ms")
	addr := x.says(`address=(http://\S+)`)
	t.Run("one query", func(t *testing.T) {
		eventually(t, "rows", func() bool { return query(t, addr, "out").LastProgress.NumInputRows > 0 })
		q := query(t, addr, "out")
		if q.Name != "out" || q.ID == "" || q.RunID == "" || q.Status.State != "running" || q.LastProgress.Sources[0].Description == "" || q.LastProgress.EventTime["watermark"] == "" {
			t.Errorf("got %+v", q)
		}
		if code, body := get(t, addr+"/api/v1/queries/nope"); code != 404 || !strings.Contains(body, "nope") {
			t.Errorf("an unknown query: %d %s", code, body)
		}
	})
	t.Run("all queries", func(t *testing.T) {
		code, body := get(t, addr+"/api/v1/queries")
		var all struct{ Queries []queryState }
		if err := json.Unmarshal([]byte(body), &all); code != 200 || err != nil || len(all.Queries) != 1 || all.Queries[0].Name != "out" {
			t.Errorf("got %d %s (%v)", code, body, err)
		}
	})
	t.Run("health and readiness", func(t *testing.T) {
		for _, path := range []string{"/healthz", "/readyz"} {
			if code, body := get(t, addr+path); code != 200 {
				t.Errorf("%s: got %d %s", path, code, body)
			}
		}
	})
	t.Run("metrics", func(t *testing.T) {
		code, body := get(t, addr+"/metrics")
		if code != 200 || !strings.Contains(body, `query="out"`) {
			t.Errorf("got %d %.500s", code, body)
		}
	})
	t.Run("only loopback names are served", func(t *testing.T) {
		if code, _, err := ask(addr+"/healthz", "evil.example"); err != nil || code != http.StatusMisdirectedRequest {
			t.Errorf("got %d, %v", code, err)
		}
		if code, _, err := ask(addr+"/healthz", "localhost:1"); err != nil || code != 200 {
			t.Errorf("localhost: got %d, %v", code, err)
		}
	})
	x.stop()
}
