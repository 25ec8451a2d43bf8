package nats

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// TestConnectionIsLostBehindTheGreeting: that is no mistake of the user, whenever it
// happens.
func TestConnectionIsLostBehindTheGreeting(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nothing was written
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close() //nolint:errcheck // the client is gone first
				_, err := fmt.Fprint(c, "INFO {\"server_id\":\"x\",\"version\":\"2.12.0\",\"headers\":true,\"max_payload\":1048576,\"proto\":1}\r\n")
				for s := bufio.NewScanner(c); err == nil && s.Scan(); {
					if s.Text() == "PING" {
						fmt.Fprint(c, "PONG\r\n") //nolint:errcheck // and goes away
						return
					}
				}
			}()
		}
	}()
	s, err := newTestSink(t, nil, "url", "nats://"+l.Addr().String(), "stream", "OUT", "subject", "out.x")
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		k, err := s.(*sink).conn.dial(t.Context())
		if err == nil {
			<-k.gone
			err = k.atLeast(atomicVersion, "") // what is known of it does not change
			k.close()
		}
		if err != nil && fault.KindOf(err) != fault.Transient {
			t.Fatal(err)
		}
	}
}

// TestFilesThatAreRefused: a file of credentials or certificates that holds something
// else is noticed at the start.
func TestFilesThatAreRefused(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad")
	if err := os.WriteFile(bad, []byte("garbage\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		kv   []string
		want string
	}{
		{[]string{"creds_file", bad}, "must hold a user's JWT and seed"},
		{[]string{"creds_file", dir}, "creds_file: " + dir + " is a directory; name a file"},
		{[]string{"nkey_file", bad}, "nkey_file"},
		{[]string{"tls_ca", bad}, "must hold certificates (PEM)"},
		{[]string{"tls_ca", dir}, "is a directory"},
		{[]string{"tls_cert", bad, "tls_key", bad}, "must hold a certificate and its key (PEM)"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.kv, " "), func(t *testing.T) {
			_, err := newTestSink(t, nil, append([]string{"stream", "OUT", "subject", "out.x"}, tt.kv...)...)
			wantFault(t, err, fault.Config, "", tt.want)
		})
	}
}

// TestCredentialsAreReplacedLate: a server that refuses what it has accepted before
// is tried again for a while.
func TestCredentialsAreReplacedLate(t *testing.T) {
	b := newBroker(t)
	restart := func(password string) {
		b.stop()
		b.opts.Users = []*server.User{{Username: "ann", Password: password}}
		b.start()
	}
	s, err := newTestSink(t, nil, append(outOptions(b), "user", "ann", "password", "old")...)
	if err != nil {
		t.Fatal(err)
	}
	c := s.(*sink).conn
	dial := func() error {
		l, err := c.dial(t.Context())
		if err == nil {
			l.close()
		}
		return err
	}
	restart("new")
	wantFault(t, dial(), fault.Config, classAuthorization) // never accepted
	restart("old")
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	restart("new")
	wantFault(t, dial(), fault.Transient, classAuthorization, "accepted it before", "check user, password")
	c.entry.since = c.entry.since.Add(-entryPatience)
	wantFault(t, dial(), fault.Config, classAuthorization)
	restart("old")
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	restart("new")
	wantFault(t, dial(), fault.Transient, classAuthorization)
}

// TestRefusalsAreOfWhoAsked: a refused permission ends the call that needs it, and
// nothing for good that may not.
func TestRefusalsAreOfWhoAsked(t *testing.T) {
	refusal := func(subject string) error {
		return fmt.Errorf("%w: Permissions Violation for Publish to %q", nats.ErrPermissionViolation, subject)
	}
	run := func(l *link, rows bool) chan error {
		done := make(chan error, 1)
		begun := make(chan struct{})
		go func() {
			done <- l.run(t.Context(), &request{what: "wait", limit: time.Minute, rows: rows}, func(ctx context.Context) error {
				close(begun)
				<-ctx.Done()
				return ctx.Err()
			})
		}()
		<-begun
		return done
	}
	l := &link{api: "$JS.API.", enabled: &entry{}, calls: map[*request]struct{}{}}
	call, batch := run(l, false), run(l, true)
	l.refuse(refusal("out.1"))
	wantFault(t, <-batch, fault.Config, classPermission, "out.1")
	other := run(l, false)
	l.refuse(refusal("$JS.API.STREAM.INFO.OUT"))
	for _, c := range []chan error{call, other} {
		wantFault(t, <-c, fault.Transient, classPermission, "STREAM.INFO.OUT", "at the same time")
	}
	call = run(l, false)
	l.refuse(refusal("$JS.API.STREAM.INFO.OUT"))
	wantFault(t, <-call, fault.Config, classPermission, "STREAM.INFO.OUT")
}

// TestKindsOfAPIErrors: what passes by itself is waited for.
func TestKindsOfAPIErrors(t *testing.T) {
	tests := []struct {
		api  jetstream.APIError
		kind fault.Kind
	}{
		{jetstream.APIError{Code: 429, ErrorCode: 10167}, fault.Transient},
		{jetstream.APIError{Code: 408}, fault.Transient},
		{jetstream.APIError{Code: 503, ErrorCode: 10008}, fault.Transient},
		{jetstream.APIError{Code: 400, ErrorCode: codeAccountExhausted}, fault.Config}, // but a message is waited for
		{jetstream.APIError{Code: 404, ErrorCode: 10059}, fault.Config},
	}
	for _, tt := range tests {
		if err := classify("do it", &tt.api); fault.KindOf(err) != tt.kind {
			t.Errorf("kind %v: %v", fault.KindOf(err), err)
		}
	}
}

// TestAccountIsFull: markers wait like rows.
func TestAccountIsFull(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	o := openOutput(t, outputConfig{}, outOptions(b)...)
	o.write(0, 0, 10)
	o.commit()
	o.write(0, 10, 20)
	o.record()
	limit := func(bytes int64) {
		t.Helper()
		if err := b.srv.GlobalAccount().UpdateJetStreamLimits(map[string]server.JetStreamAccountLimits{"": {MaxStore: bytes, MaxMemory: -1, MaxStreams: -1, MaxConsumers: -1}}); err != nil {
			t.Fatal(err)
		}
	}
	limit(100)
	wantFault(t, o.com.Commit(t.Context(), o.epoch, o.last), fault.Transient, "", "write the marker", "resource limits exceeded")
	limit(-1)
	if err := o.com.Commit(t.Context(), o.epoch, o.last); err != nil {
		t.Fatal(err)
	}
}

// TestCertificateThatDoesNotFit: it does not pass by itself.
func TestCertificateThatDoesNotFit(t *testing.T) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	b := newBroker(t)
	ca := filepath.Join(t.TempDir(), "ca")
	restart := func(host net.IP) {
		t.Helper()
		cert := &x509.Certificate{
			SerialNumber: big.NewInt(1), IPAddresses: []net.IP{host}, NotAfter: time.Now().Add(time.Hour),
			IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		}
		der, err := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
		if err == nil {
			err = os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		b.stop()
		b.opts.TLS, b.opts.TLSTimeout = true, 5
		b.opts.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}}}
		b.start()
	}
	dial := func(kv ...string) error {
		t.Helper()
		s, err := newTestSink(t, nil, append(outOptions(b), kv...)...)
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.(*sink).conn.dial(t.Context())
		if err == nil {
			l.close()
		}
		return err
	}
	restart(net.IPv4(127, 0, 0, 1))
	wantFault(t, dial(), fault.Config, "", "check url and tls_ca", "unknown authority")
	if err := dial("tls_ca", ca); err != nil {
		t.Error(err)
	}
	restart(net.IPv4(127, 0, 0, 2))
	wantFault(t, dial("tls_ca", ca), fault.Config, "", "check url and tls_ca", "127.0.0.2")
}

// TestJetStreamGoesBeforeItsConnections: a server that is stopped takes JetStream away
// from an account before it closes the account's connections.
func TestJetStreamGoesBeforeItsConnections(t *testing.T) {
	b := newBroker(t)
	js, _ := b.client()
	outStream(t, js)
	s, err := newTestSink(t, nil, outOptions(b)...)
	if err != nil {
		t.Fatal(err)
	}
	out := s.(*sink)
	l, err := out.conn.dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if _, err := l.info(t.Context(), &out.stream); err != nil {
		t.Fatal(err)
	}
	account, err := b.srv.LookupAccount("$G")
	if err != nil {
		t.Fatal(err)
	}
	if err := account.DisableJetStream(); err != nil {
		t.Fatal(err)
	}
	_, err = l.info(t.Context(), &out.stream)
	wantFault(t, err, fault.Transient, "", "JetStream", "not enabled")
	_, err = l.newest(t.Context(), "OUT", "")
	wantFault(t, err, fault.Transient, "", "JetStream", "not enabled")
	if s, err = newTestSink(t, nil, outOptions(b)...); err != nil {
		t.Fatal(err)
	}
	fresh, err := s.(*sink).conn.dial(t.Context()) // who has never got in
	if err != nil {
		t.Fatal(err)
	}
	defer fresh.close()
	_, err = fresh.info(t.Context(), &out.stream)
	wantFault(t, err, fault.Config, "", "enable JetStream for the account")
}
