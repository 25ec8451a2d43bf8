// Package httpapi serves a session over HTTP: health, readiness, metrics and the
// progress of queries. Handler can be mounted by programs that embed the engine;
// Server is what the daemon listens with.
//
// There is no authentication, so a Server listens on loopback addresses only and
// answers only requests whose Host is a loopback name: a web page that makes a
// browser resolve its own name to 127.0.0.1 gets nothing. Nothing here changes
// state.
package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/streamd-io/streamd/runtime"
)

// Handler serves the session:
//
//	GET /healthz               200 while the process works
//	GET /readyz                200 when every query runs, 503 with reasons if not
//	GET /metrics               Prometheus text format
//	GET /api/v1/queries        status and last progress of all queries
//	GET /api/v1/queries/NAME   one query with its recent progress
func Handler(s *runtime.Session) http.Handler {
	reg := prometheus.NewRegistry()
	reg.MustRegister(&collector{session: s}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
	})
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) { ready(w, s) })
	mux.Handle("GET /metrics", promhttp.HandlerFor(reg, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /api/v1/queries", func(w http.ResponseWriter, _ *http.Request) { list(w, s) })
	mux.HandleFunc("GET /api/v1/queries/{name}", func(w http.ResponseWriter, r *http.Request) { one(w, r, s) })
	return hostCheck(mux)
}

// hostCheck refuses requests that were not addressed to a loopback name.
func hostCheck(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if h, _, err := net.SplitHostPort(host); err == nil {
			host = h
		}
		if !loopback(strings.Trim(host, "[]")) {
			http.Error(w, "this address serves loopback names only", http.StatusMisdirectedRequest)
			return
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r)
	})
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

type queryJSON struct {
	ID             string              `json:"id"`
	RunID          string              `json:"runId"`
	Name           string              `json:"name"`
	Status         runtime.Status      `json:"status"`
	Exception      string              `json:"exception,omitempty"`
	LastProgress   *runtime.Progress   `json:"lastProgress"`
	RecentProgress []*runtime.Progress `json:"recentProgress,omitempty"`
}

func describe(q *runtime.Query) queryJSON {
	j := queryJSON{ID: q.ID(), RunID: q.RunID(), Name: q.Name(), Status: q.Status(), LastProgress: q.LastProgress()}
	if err := q.Err(); err != nil {
		j.Exception = err.Error()
	}
	return j
}

func list(w http.ResponseWriter, s *runtime.Session) {
	out := []queryJSON{}
	for _, q := range s.Queries() {
		out = append(out, describe(q))
	}
	writeJSON(w, http.StatusOK, map[string]any{"queries": out})
}

func one(w http.ResponseWriter, r *http.Request, s *runtime.Session) {
	q := s.Query(r.PathValue("name"))
	if q == nil {
		writeJSON(w, http.StatusNotFound, map[string]string{"error": fmt.Sprintf("there is no query %q", r.PathValue("name"))})
		return
	}
	j := describe(q)
	j.RecentProgress = q.RecentProgress()
	writeJSON(w, http.StatusOK, j)
}

// ready is 200 only when every query does what it should: it runs, or it has
// ended or been stopped on purpose.
func ready(w http.ResponseWriter, s *runtime.Session) {
	reasons := map[string]string{}
	for _, q := range s.Queries() {
		switch st := q.Status(); st.State {
		case "running", "ended", "stopped":
		default:
			reasons[q.Name()] = st.State + ": " + st.Message
		}
	}
	code := http.StatusOK
	if len(reasons) > 0 {
		code = http.StatusServiceUnavailable
	}
	writeJSON(w, code, map[string]any{"ready": len(reasons) == 0, "reasons": reasons})
}

func writeJSON(w http.ResponseWriter, code int, v any) {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(append(b, '\n')) // the client may be gone
}

// Server listens on a loopback address and serves Handler.
type Server struct {
	http *http.Server
	addr net.Addr
	done chan error
}

// Listen starts a server: Bind and Serve in one.
func Listen(ctx context.Context, addr string, s *runtime.Session) (*Server, error) {
	l, err := Bind(ctx, addr)
	if err != nil {
		return nil, err
	}
	return Serve(l, s), nil
}

// Bind takes the address; requests wait until Serve. A daemon binds before it
// starts queries, so that an address it cannot have leaves nothing started.
// Addresses that are not loopback are refused, since there is no authentication.
func Bind(ctx context.Context, addr string) (net.Listener, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("http address %q: want HOST:PORT, for instance 127.0.0.1:8080", addr)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return nil, fmt.Errorf("http address %q: the port must be a number from 0 (any that is free) to 65535", addr)
	}
	if !loopback(host) {
		return nil, fmt.Errorf("http address %q is not a loopback address; the API has no authentication, so it listens on 127.0.0.1, ::1 or localhost only", addr)
	}
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, bindError(addr, err)
	}
	return l, nil
}

// bindError says why an address cannot be had.
func bindError(addr string, err error) error {
	errno, ok := errors.AsType[syscall.Errno](err)
	switch {
	case ok && errno == syscall.EADDRINUSE:
		return fmt.Errorf("http address %q: address already in use; choose another port, or 0 for any that is free", addr)
	case ok:
		return fmt.Errorf("http address %q: cannot listen there: %w", addr, errno)
	}
	return fmt.Errorf("http address %q: cannot listen there: %w", addr, err)
}

// Serve answers requests on l, which it takes over.
func Serve(l net.Listener, s *runtime.Session) *Server {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	srv := &Server{addr: l.Addr(), done: make(chan error, 1), http: &http.Server{
		Handler: Handler(s), Protocols: protocols,
		ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() { srv.done <- srv.http.Serve(l) }()
	return srv
}

// Addr is the address the server listens on.
func (s *Server) Addr() string { return s.addr.String() }

// Close stops the server and waits for it.
func (s *Server) Close() error {
	err := s.http.Close()
	if serr := <-s.done; err == nil && !errors.Is(serr, http.ErrServerClosed) {
		err = serr
	}
	return err
}
