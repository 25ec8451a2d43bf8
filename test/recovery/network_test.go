package recovery

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// toxiproxy builds the proxy, which has a module of its own.
var toxiproxy = sync.OnceValues(func() (string, error) {
	b, err := binaries()
	if err != nil || b["toxiproxy"] != "" {
		return b["toxiproxy"], err
	}
	path := filepath.Join(b["dir"], "toxiproxy")
	return path, build("build", "-C", "toxiproxy", "-o", path, "github.com/Shopify/toxiproxy/v2/cmd/server")
})

// link is a toxiproxy process with one proxy, between the child and the server.
type link struct {
	t   *testing.T
	api string
}

// newLink starts the proxy in front of the server and returns the URL of it.
func newLink(r *rig, l *link) string {
	path, err := toxiproxy()
	if err != nil {
		r.t.Fatal(err)
	}
	port, api := freePort(r.t), freePort(r.t)
	p := startProcess(r.t, command{name: "toxiproxy", path: path, args: []string{"-host", "127.0.0.1", "-port", fmt.Sprint(api)}})
	l.t, l.api = r.t, fmt.Sprintf("http://127.0.0.1:%d", api)
	eventually(r.t, "toxiproxy answers", 20*time.Second, func(ctx context.Context) error {
		if p.ended(0) {
			r.t.Fatalf("toxiproxy ended: %v\n%s", p.err, p.tail())
		}
		return l.try(ctx, http.MethodGet, "/version", nil)
	})
	l.call(http.MethodPost, "/proxies", map[string]any{
		"name": "nats", "listen": fmt.Sprintf("127.0.0.1:%d", port), "upstream": fmt.Sprintf("127.0.0.1:%d", r.srv.port), "enabled": true,
	})
	return fmt.Sprintf("nats://127.0.0.1:%d", port)
}

func (l *link) try(ctx context.Context, method, path string, body any) error {
	data, err := json.Marshal(body)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, l.api+path, bytes.NewReader(data))
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close() //nolint:errcheck // read below
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= 300 {
		err = fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, text)
	}
	return err
}

func (l *link) call(method, path string, body any) {
	l.t.Helper()
	if err := l.try(l.t.Context(), method, path, body); err != nil {
		l.t.Fatal(err)
	}
}

// enable opens or cuts all connections and the listener.
func (l *link) enable(on bool) {
	l.t.Helper()
	l.call(http.MethodPost, "/proxies/nats", map[string]any{"enabled": on})
}

// poison adds a toxic for the given time.
func (l *link) poison(r *rig, d time.Duration, kind, stream string, attributes map[string]any) {
	l.t.Helper()
	l.call(http.MethodPost, "/proxies/nats/toxics", map[string]any{"name": "x", "type": kind, "stream": stream, "attributes": attributes})
	r.pass(d)
	l.call(http.MethodDelete, "/proxies/nats/toxics/x", nil)
}

// TestNetwork cuts and spoils the connection between the child and the server;
// the child lives through all of it. Now and then it is killed while the
// connection is bad.
func TestNetwork(t *testing.T) {
	long(t)
	l := &link{}
	r := newRig(t, setup{proxied: func(r *rig) string { return newLink(r, l) }})
	faults := []struct {
		name string
		do   func()
	}{
		{"cut", func() { l.enable(false); r.pass(700 * time.Millisecond); l.enable(true) }},
		{"long cut", func() { l.enable(false); r.pass(6 * time.Second); l.enable(true) }},
		{"black hole towards the child", func() { l.poison(r, 6*time.Second, "timeout", "downstream", map[string]any{"timeout": 0}) }},
		{"black hole towards the server", func() { l.poison(r, 6*time.Second, "timeout", "upstream", map[string]any{"timeout": 0}) }},
		{"reset", func() { l.poison(r, 300*time.Millisecond, "reset_peer", "downstream", map[string]any{"timeout": 20}) }},
		{"cut in the middle of a message", func() { l.poison(r, time.Second, "limit_data", "downstream", map[string]any{"bytes": 30_000}) }},
		{"cut in the middle of a row", func() { l.poison(r, time.Second, "limit_data", "upstream", map[string]any{"bytes": 30_000}) }},
		{"latency", func() {
			l.poison(r, time.Second, "latency", "downstream", map[string]any{"latency": 150, "jitter": 50})
		}},
		{"crumbs", func() {
			l.poison(r, time.Second, "slicer", "downstream", map[string]any{"average_size": 40, "size_variation": 20, "delay": 20})
		}},
		{"thin line", func() { l.poison(r, time.Second, "bandwidth", "upstream", map[string]any{"rate": 20}) }},
	}
	r.start()
	r.running()
	for i, f := range faults {
		r.pass(r.upTo(300 * time.Millisecond))
		f.do()
		r.alive()
		t.Logf("%s: the child has lived through it", f.name)
		if i%3 == 2 {
			l.enable(false)
			r.child.kill(t)
			r.start()
			r.pass(300 * time.Millisecond)
			l.enable(true)
		}
		r.running()
	}
	r.finish()
}
