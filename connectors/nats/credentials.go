package nats

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/nats-io/nats.go"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
)

// authOptions reads how to enter a server. Files must hold what they should when the
// query starts: nats.go reads them for each connection, and one that is missing or
// broken would look like a server that is away.
func authOptions(v option.Values, env connectors.Env) ([]nats.Option, error) {
	file := func(name string) string {
		p := v.String(name)
		if p == "" || filepath.IsAbs(p) {
			return p
		}
		return filepath.Join(env.BaseDir, p)
	}
	cert, key := file("tls_cert"), file("tls_key")
	if (cert == "") != (key == "") {
		return nil, fault.New(fault.Config, "tls_cert and tls_key go together")
	}
	for _, name := range []string{"creds_file", "tls_ca", "tls_cert", "tls_key"} {
		if err := readable(name, file(name)); err != nil {
			return nil, err
		}
	}
	var opts []nats.Option
	ways := 0
	if f := file("creds_file"); f != "" {
		o := nats.UserCredentials(f)
		if err := usable(o, "creds_file %q must hold a user's JWT and seed", f); err != nil {
			return nil, err
		}
		opts = append(opts, o)
		ways++
	}
	if v.Has("user") {
		opts = append(opts, nats.UserInfo(v.String("user"), v.Secret("password").Reveal()))
		ways++
	}
	if t := v.Secret("token"); !t.IsZero() {
		opts = append(opts, nats.Token(t.Reveal()))
		ways++
	}
	if f := file("nkey_file"); f != "" {
		o, err := nats.NkeyOptionFromSeed(f)
		if err != nil {
			return nil, fault.Wrap(fault.Config, err, "nkey_file %q", f)
		}
		opts = append(opts, o)
		ways++
	}
	if ways > 1 {
		return nil, fault.New(fault.Config, "give one of creds_file, user, token and nkey_file, not several")
	}
	if v.Has("user") != v.Has("password") {
		return nil, fault.New(fault.Config, "user and password go together")
	}
	if f := file("tls_ca"); f != "" {
		o := nats.RootCAs(f)
		if err := usable(o, "tls_ca %q must hold certificates (PEM)", f); err != nil {
			return nil, err
		}
		opts = append(opts, o)
	}
	if cert != "" {
		o := nats.ClientCert(cert, key)
		if err := usable(o, "tls_cert %q and tls_key %q must hold a certificate and its key (PEM)", cert, key); err != nil {
			return nil, err
		}
		opts = append(opts, o)
	}
	return opts, nil
}

// readable looks whether a file named by an option is there, and a file.
func readable(option, path string) error {
	if path == "" {
		return nil
	}
	f, err := os.Open(path)
	if err != nil {
		return fault.Wrap(fault.Config, err, "%s", option)
	}
	info, err := f.Stat()
	if err = errors.Join(err, f.Close()); err != nil {
		return fault.Wrap(fault.Config, err, "%s", option)
	}
	if info.IsDir() {
		return fault.New(fault.Config, "%s: %s is a directory; name a file", option, path)
	}
	return nil
}

// usable tries what an option does with its files for each connection.
func usable(o nats.Option, text string, args ...any) error {
	var try nats.Options
	err := o(&try)
	if err == nil && try.UserJWT != nil {
		if _, err = try.UserJWT(); err == nil {
			_, err = try.SignatureCB([]byte("nonce"))
		}
	}
	return fault.Wrap(fault.Config, err, text, args...)
}
