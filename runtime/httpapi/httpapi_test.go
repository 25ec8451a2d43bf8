package httpapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/runtime/httpapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// session runs one query; rows of value 0 make it fail.
func session(t *testing.T) (*runtime.Session, *memory.Source) {
	t.Helper()
	s, err := runtime.Open(t.Context(), runtime.Config{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	schema, err := runtime.ParseSchema("v BIGINT")
	if err != nil {
		t.Fatal(err)
	}
	src := memory.NewSource(schema)
	if err := s.Register("n", src, "", ""); err != nil {
		t.Fatal(err)
	}
	if err := s.RegisterSink("out", memory.NewSink()); err != nil {
		t.Fatal(err)
	}
	if err := s.Exec(t.Context(), "INSERT INTO out SELECT 10 DIV v AS x FROM n"); err != nil {
		t.Fatal(err)
	}
	if err := src.Add([]any{int64(5)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Query("out").ProcessAllAvailable(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s, src
}

func get(t *testing.T, h http.Handler, host, path string) (int, string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "http://"+host+path, nil)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestRoutes(t *testing.T) {
	s, _ := session(t)
	h := httpapi.Handler(s)
	for path, want := range map[string]string{
		"/healthz":             `"ok"`,
		"/readyz":              `"ready": true`,
		"/metrics":             `streamd_query_running{query="out"} 1`,
		"/api/v1/queries":      `"name": "out"`,
		"/api/v1/queries/out":  `"recentProgress"`,
		"/api/v1/queries/out?": `"numInputRows": 1`,
	} {
		code, body := get(t, h, "127.0.0.1:8080", path)
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("GET %s: %d, want 200 with %s:\n%s", path, code, want, body)
		}
	}
	if code, _ := get(t, h, "localhost", "/api/v1/queries/none"); code != http.StatusNotFound {
		t.Errorf("a query that does not exist: %d, want 404", code)
	}
	var list struct{ Queries []map[string]any }
	_, body := get(t, h, "[::1]:1", "/api/v1/queries")
	if err := json.Unmarshal([]byte(body), &list); err != nil || len(list.Queries) != 1 {
		t.Errorf("the list is not JSON of one query: %v\n%s", err, body)
	}
}

func TestOnlyLoopbackNamesAreServed(t *testing.T) {
	s, _ := session(t)
	h := httpapi.Handler(s)
	for _, host := range []string{"evil.example", "evil.example:8080", "10.0.0.1", "127.0.0.1.evil.example"} {
		for _, path := range []string{"/healthz", "/metrics", "/api/v1/queries"} {
			if code, _ := get(t, h, host, path); code != http.StatusMisdirectedRequest {
				t.Errorf("GET %s with host %s: %d, want 421", path, host, code)
			}
		}
	}
}

func TestAFailedQueryIsNotReady(t *testing.T) {
	s, src := session(t)
	if err := src.Add([]any{int64(0)}); err != nil {
		t.Fatal(err)
	}
	if err := s.Query("out").Wait(t.Context()); err == nil {
		t.Fatal("the query did not fail")
	}
	code, body := get(t, httpapi.Handler(s), "localhost", "/readyz")
	if code != http.StatusServiceUnavailable || !strings.Contains(body, "zero") {
		t.Errorf("got %d, want 503 with the reason:\n%s", code, body)
	}
}

func TestBindSaysWhatIsWrongWithAnAddress(t *testing.T) {
	taken, err := httpapi.Bind(t.Context(), "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close() //nolint:errcheck // nothing was written
	for addr, want := range map[string]string{
		taken.Addr().String(): "address already in use; choose another port",
		"127.0.0.1:99999":     "the port must be a number from 0",
		"127.0.0.1:abc":       "the port must be a number from 0",
		"127.0.0.1":           "want HOST:PORT",
	} {
		l, err := httpapi.Bind(t.Context(), addr)
		if err == nil {
			_ = l.Close() // it should not have been taken
			t.Errorf("%s was taken", addr)
			continue
		}
		if got := err.Error(); !strings.Contains(got, want) || !strings.Contains(got, addr) || strings.Contains(got, "listen tcp") {
			t.Errorf("%s: got %q, want %q", addr, got, want)
		}
	}
}

func TestListenRefusesOtherAddresses(t *testing.T) {
	s, _ := session(t)
	for _, addr := range []string{"0.0.0.0:0", ":0", "10.1.2.3:80", "nonsense"} {
		if srv, err := httpapi.Listen(t.Context(), addr, s); err == nil {
			_ = srv.Close() // it should not have started
			t.Errorf("listening on %q was not refused", addr)
		}
	}
	srv, err := httpapi.Listen(t.Context(), "127.0.0.1:0", s)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.Get("http://" + srv.Addr() + "/healthz") //nolint:noctx // a test
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Error(err)
	}
	if err := resp.Body.Close(); err != nil {
		t.Error(err)
	}
	http.DefaultClient.CloseIdleConnections()
	if err := srv.Close(); err != nil {
		t.Error(err)
	}
}
