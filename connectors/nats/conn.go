package nats

import (
	"context"
	"crypto/x509"
	"errors"
	"net"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	dialTimeout = 3 * time.Second // one server, greeting included
	apiTimeout  = 5 * time.Second // one request to JetStream
)

// connConfig says how to reach a server. It is immutable but for entry and enabled.
type connConfig struct {
	urls    []string
	domain  string
	options []nats.Option // without handlers
	entry   entry
	enabled entry // to JetStream
}

// newConnConfig reads the connection options. Files are read when connecting,
// so that rotated credentials are picked up.
func newConnConfig(v option.Values, env connectors.Env) (*connConfig, error) {
	c := &connConfig{domain: v.String("domain")}
	for u := range strings.SplitSeq(v.String("url"), ",") {
		u = strings.TrimSpace(u)
		if u == "" {
			continue
		}
		if err := checkURL(u); err != nil {
			return nil, err
		}
		c.urls = append(c.urls, u)
	}
	if len(c.urls) == 0 {
		return nil, fault.New(fault.Config, "url: no server given")
	}
	c.options = []nats.Option{
		nats.Name(v.String("name")),
		nats.NoReconnect(), // see the package comment
		nats.Timeout(dialTimeout),
		nats.SkipHostLookup(), // the dialer resolves, within its context
		nats.PingInterval(10 * time.Second),
		nats.MaxPingsOutstanding(2),
		nats.FlusherTimeout(5 * time.Second), // a server that does not read
		nats.SkipSubjectValidation(),         // subjects come from checked options and escaped values
	}
	if p := v.String("inbox_prefix"); p != "" {
		if err := checkSubject(p, false); err != nil {
			return nil, fault.Wrap(fault.Config, err, "inbox_prefix")
		}
		c.options = append(c.options, nats.CustomInboxPrefix(p))
	}
	auth, err := authOptions(v, env)
	c.options = append(c.options, auth...)
	return c, err
}

func checkURL(text string) error {
	full := text
	if !strings.Contains(full, "://") {
		full = "nats://" + full
	}
	u, err := url.Parse(full)
	if err != nil {
		// The cause quotes the text, which may hold a password.
		return fault.New(fault.Config, "url: not a valid address; write nats://host:4222")
	}
	switch u.Scheme {
	case "nats", "tls", "ws", "wss":
	default:
		return fault.New(fault.Config, "url: scheme %q is not one of nats, tls, ws, wss", u.Scheme)
	}
	if u.Hostname() == "" {
		return fault.New(fault.Config, "url: no host name; write nats://host:4222")
	}
	return nil
}

// hosts lists the servers without credentials, for messages.
func (c *connConfig) hosts() string {
	names := make([]string, len(c.urls))
	for i, u := range c.urls {
		_, rest, ok := strings.Cut(u, "://")
		if !ok {
			rest = u
		}
		if at := strings.LastIndexByte(rest, '@'); at >= 0 {
			rest = rest[at+1:]
		}
		names[i] = rest
	}
	return strings.Join(names, ", ")
}

// link is one connection. It does not come back once it is lost.
type link struct {
	nc      *nats.Conn
	js      jetstream.JetStream
	api     string // prefix of JetStream's API subjects
	version string // of the server; nats.go does not say it of a lost connection
	enabled *entry
	gone    chan struct{}
	// bytes is how many bytes have come in over the connection.
	bytes atomic.Int64
	// inbox is the prefix of reply subjects to rows, "" while nobody listens.
	inbox string

	mu sync.Mutex
	// mu guards the fields below.
	cause  error // why it is gone
	denied error // the last permission that was refused
	calls  map[*request]struct{}
}

// contextDialer makes dialing and greeting end with a context.
type contextDialer struct {
	ctx context.Context //nolint:containedctx // nats.Connect takes none
	net.Dialer
	stops []func() bool // detach connections from the context
	bytes *atomic.Int64 // that have come in
}

// Dial implements nats.CustomDialer.
func (d *contextDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := d.DialContext(d.ctx, network, address)
	if err != nil {
		return nil, err
	}
	d.stops = append(d.stops, context.AfterFunc(d.ctx, func() { _ = conn.Close() })) // ends the read that waits for the greeting
	return &countedConn{Conn: conn, bytes: d.bytes}, nil
}

// countedConn counts the bytes that come in. A large message on a slow line, or
// into a slow process, takes longer than the server's signs of life may be
// missing, and they wait behind it: bytes that flow are a sign of life, too.
type countedConn struct {
	net.Conn
	bytes *atomic.Int64
}

// Read implements net.Conn.
func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (d *contextDialer) detach() {
	for _, stop := range d.stops {
		stop()
	}
}

// dial connects to one of the servers. The error is Transient, unless the
// server refuses the credentials or the context has ended.
func (c *connConfig) dial(ctx context.Context) (*link, error) {
	l := &link{gone: make(chan struct{}), api: "$JS.API.", enabled: &c.enabled, calls: map[*request]struct{}{}}
	d := &contextDialer{ctx: ctx, Dialer: net.Dialer{Timeout: dialTimeout}, bytes: &l.bytes}
	opts := append([]nats.Option{
		nats.SetCustomDialer(d),
		nats.ClosedHandler(func(nc *nats.Conn) {
			l.mu.Lock()
			l.cause = nc.LastError()
			l.mu.Unlock()
			close(l.gone)
		}),
		nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) {
			if errors.Is(err, nats.ErrPermissionViolation) {
				l.refuse(err)
			}
		}),
	}, c.options...)
	nc, err := nats.Connect(strings.Join(c.urls, ","), opts...)
	d.detach()
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, c.entry.refused(c.dialError(err))
	}
	c.entry.granted()
	l.nc = nc
	if c.domain != "" {
		l.api = "$JS." + c.domain + ".API."
		l.js, err = jetstream.NewWithDomain(nc, c.domain)
	} else {
		l.js, err = jetstream.New(nc)
	}
	if err == nil {
		if l.version = nc.ConnectedServerVersion(); l.version == "" {
			l.close()
			return nil, fault.New(fault.Transient, "connection to nats server %s lost again: %s", c.hosts(), l.reason())
		}
		err = checkVersion(l.version)
	}
	if err != nil {
		l.close()
		return nil, fault.Wrap(fault.Config, err, "nats server %s", c.hosts())
	}
	return l, nil
}

// atLeast refuses a server that is too old for what.
func (l *link) atLeast(least, what string) error {
	var have, want [3]int
	if parseVersion(l.version, &have) && parseVersion(least, &want) && slices.Compare(have[:], want[:]) >= 0 {
		return nil
	}
	return fault.WithClass(fault.New(fault.Config, "nats server %s has version %s; %s needs %s or later", l.nc.ConnectedUrlRedacted(), l.version, what, least), classVersion)
}

// minVersion is the first server line with named consumers, headers only
// consumers and consumers in memory that behave as this package needs.
const minVersion = "2.10.0"

func checkVersion(version string) error {
	var have, want [3]int
	if !parseVersion(version, &have) {
		return fault.New(fault.Config, "version %q is not understood; need %s or later", version, minVersion)
	}
	parseVersion(minVersion, &want)
	for i := range have {
		if have[i] != want[i] {
			if have[i] < want[i] {
				return fault.New(fault.Config, "version %s is too old; need %s or later", version, minVersion)
			}
			return nil
		}
	}
	return nil
}

// parseVersion reads "2.12.1" and "v2.13.0-RC.2".
func parseVersion(s string, v *[3]int) bool {
	s = strings.TrimPrefix(s, "v")
	s, _, _ = strings.Cut(s, "-")
	for i := range v {
		part, rest, _ := strings.Cut(s, ".")
		n, ok := parseUint(part)
		if !ok {
			return false
		}
		v[i], s = int(n), rest
	}
	return true
}

func (c *connConfig) dialError(err error) error {
	_, unknown := errors.AsType[x509.UnknownAuthorityError](err)
	_, other := errors.AsType[x509.HostnameError](err)
	switch {
	case unknown, other:
		return fault.Wrap(fault.Config, err, "connect to nats server %s (check url and tls_ca against the server's certificate)", c.hosts())
	case errors.Is(err, nats.ErrAuthorization), errors.Is(err, nats.ErrAuthExpired), errors.Is(err, nats.ErrAuthRevoked),
		errors.Is(err, nats.ErrAccountAuthExpired), errors.Is(err, nats.ErrUserInfoAlreadySet), errors.Is(err, nats.ErrTokenAlreadySet),
		errors.Is(err, nats.ErrNkeysNotSupported):
		err = fault.Wrap(fault.Config, err, "connect to nats server %s (check user, password, token, creds_file, nkey_file)", c.hosts())
		return fault.WithClass(err, classAuthorization)
	case errors.Is(err, nats.ErrSecureConnRequired), errors.Is(err, nats.ErrSecureConnWanted):
		return fault.Wrap(fault.Config, err, "connect to nats server %s (check tls_ca, tls_cert, tls_key)", c.hosts())
	}
	return fault.Wrap(fault.Transient, err, "connect to nats server %s", c.hosts())
}

// alive reports whether the connection stands.
func (l *link) alive() bool {
	select {
	case <-l.gone:
		return false
	default:
		return !l.nc.IsClosed()
	}
}

// reason says why the connection is gone.
func (l *link) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.cause != nil {
		return l.cause.Error()
	}
	return "connection closed"
}

// close closes the connection and waits until nats.go has let go of it.
func (l *link) close() {
	l.nc.Close()
	<-l.gone
}

// codeAccountExhausted says that the account may not hold more.
const codeAccountExhausted = 10002

// exhausted reports whether the server takes no more for now: who writes a message
// can wait until there is room, who creates a stream cannot.
func exhausted(err error) bool {
	api, ok := errors.AsType[*jetstream.APIError](err)
	return ok && (api.ErrorCode == codeAccountExhausted || api.Code == 429)
}

// classify gives an error of a request its kind.
func classify(what string, err error) error {
	api, isAPI := errors.AsType[*jetstream.APIError](err)
	switch {
	case errors.Is(err, jetstream.ErrJetStreamNotEnabledForAccount):
		return fault.Wrap(fault.Config, err, "%s (enable JetStream for the account)", what)
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return fault.Wrap(fault.Transient, err, "%s", what) // a new one is made
	case errors.Is(err, nats.ErrNoResponders), errors.Is(err, jetstream.ErrJetStreamNotEnabled):
		return fault.Wrap(fault.Transient, err, "%s: JetStream does not answer (is it enabled, or just starting?)", what)
	case isAPI && api.ErrorCode == jetstream.JSErrCodeMaximumConsumersLimit:
		return fault.Wrap(fault.Transient, err, "%s", what) // there is room again when others leave
	case isAPI && api.ErrorCode == codeAccountExhausted:
		return fault.Wrap(fault.Config, err, "%s (raise the JetStream limits of the account, or delete what it need not hold)", what)
	case isAPI && api.Code < 500 && api.Code != 408 && api.Code != 429:
		return fault.Wrap(fault.Config, err, "%s", what)
	}
	return fault.Wrap(fault.Transient, err, "%s", what)
}
