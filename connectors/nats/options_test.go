package nats

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestSourceOptionsThatAreRefused(t *testing.T) {
	tests := []struct {
		kv   []string
		want string
	}{
		{[]string{"stream", "IN.a"}, "not a stream name"},
		{[]string{"stream", "IN", "url", ""}, "no server given"},
		{[]string{"stream", "IN", "url", "http://h"}, `scheme "http"`},
		{[]string{"stream", "IN", "url", "nats://u:s3cret@"}, "no host name"},
		{[]string{"stream", "IN", "subject", "a..b"}, "empty token"},
		{[]string{"stream", "IN", "subject", "a.>.b"}, "at the end"},
		{[]string{"stream", "IN", "subject", "a b"}, "white space"},
		{[]string{"stream", "IN", "subject", "a.{partition}"}, "partitions = N"},
		{[]string{"stream", "IN", "subject", "a.b", "partitions", "3"}, "{partition}"},
		{[]string{"stream", "IN", "filters", "a.*,a.b"}, "overlap"},
		{[]string{"stream", "IN", "filters", "a.>", "subject", "b"}, "either"},
		{[]string{"stream", "IN", "start", "yesterday"}, "earliest, latest, seq:N"},
		{[]string{"stream", "IN", "start", "seq:0"}, "seq:17"},
		{[]string{"stream", "IN", "start", "time:now"}, "time:2026"},
		{[]string{"stream", "IN", "token", "a", "user", "b", "password", "c"}, "not several"},
		{[]string{"stream", "IN", "user", "b"}, "go together"},
		{[]string{"stream", "IN", "tls_cert", "b"}, "go together"},
		{[]string{"stream", "IN", "nkey_file", "/does/not/exist"}, "nkey_file"},
		{[]string{"stream", "IN", "creds_file", "/does/not/exist"}, "creds_file: open /does/not/exist"},
		{[]string{"stream", "IN", "tls_ca", "/does/not/exist"}, "tls_ca: open"},
		{[]string{"stream", "IN", "tls_cert", "/dev/null", "tls_key", "/does/not/exist"}, "tls_key: open"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.kv, " "), func(t *testing.T) {
			_, err := tryInput(t, inputConfig{}, tt.kv...)
			wantFault(t, err, fault.Config, "", tt.want)
			if strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows a password: %v", err)
			}
		})
	}
}

func TestSinkOptionsThatAreRefused(t *testing.T) {
	tests := []struct {
		kv   []string
		want string
	}{
		{[]string{"stream", "OUT"}, "give stream and subject"},
		{[]string{"bucket", "B"}, "bucket and key go together, for instance bucket = 'HOT', key = '{n}'"},
		{[]string{"stream", "S", "bucket", "B", "key", "{n}"}, "either stream and subject, or bucket and key"},
		{[]string{"bucket", "B", "key", "{n}", "exclusive", "true"}, "exclusive: a bucket is written with expected revisions anyway"},
		{[]string{"bucket", "B.C", "key", "{n}"}, "bucket \"B.C\": the name may hold letters, digits, - and _"},
		{[]string{"bucket", "B", "key", "{m}"}, "key \"{m}\": there is no column \"m\""},
		{[]string{"bucket", "B", "key", "a b.{n}"}, "holds ' '"},
		{[]string{"bucket", "B", "key", ".{n}"}, "empty token"},
		{[]string{"bucket", "B", "key", "_kv.{n}"}, "NATS keeps for itself"},
		{[]string{"bucket", "B", "key", "{n}{n}"}, "put a dot between {n} and {n}"},
		{[]string{"stream", "OUT", "subject", "o.{m}"}, `no column "m"`},
		{[]string{"stream", "OUT", "subject", "o.{n:hex}"}, ":raw"},
		{[]string{"stream", "OUT", "subject", "o.{n"}, "braces"},
		{[]string{"stream", "OUT", "subject", "o.}n"}, "braces"},
		{[]string{"stream", "OUT", "subject", "o.*"}, "wildcard"},
		{[]string{"stream", "OUT", "subject", "{n}..x"}, "empty token"},
	}
	for _, tt := range tests {
		t.Run(strings.Join(tt.kv, " "), func(t *testing.T) {
			_, err := newTestSink(t, nil, tt.kv...)
			wantFault(t, err, fault.Config, "", tt.want)
		})
	}
}

func TestUnknownOptionNamesTheNearest(t *testing.T) {
	_, errs := option.Parse("nats source", Connector().SourceOptions, []option.Given{{Key: "stream", Value: "IN"}, {Key: "subjct", Value: "a"}})
	if len(errs) != 1 || !strings.Contains(errs[0].Error(), "did you mean subject?") {
		t.Errorf("errors = %v", errs)
	}
	for _, o := range append(Connector().SourceOptions, Connector().SinkOptions...) {
		if secret := o.Name == "password" || o.Name == "token"; secret != (o.Kind == option.Secret) || o.Doc == "" {
			t.Errorf("option %s: kind %d, doc %q", o.Name, o.Kind, o.Doc)
		}
	}
}

func TestMetadataIsChecked(t *testing.T) {
	s := messages.NewSchema(messages.Field{Name: "n", Type: messages.T(messages.BigInt)}, messages.Field{Name: "m", Type: messages.T(messages.Int)})
	for name, want := range map[string]string{"seq": "no metadata", "sequence": "is of type bigint, not int"} {
		_, err := tryInput(t, inputConfig{schema: s, metadata: map[int]string{1: name}}, "stream", "IN")
		wantFault(t, err, fault.Config, "", want)
	}
	_, err := newSource(connectors.SourceConfig{Options: values(t, "", Connector().SourceOptions, []string{"stream", "IN"})})
	wantFault(t, err, fault.Config, "", "CREATE SOURCE")
}

func TestRefusedCredentials(t *testing.T) {
	b := newBroker(t)
	b.stop()
	b.opts.Users = []*server.User{
		{Username: "ann", Password: "s3cret"},
		{Username: "bob", Password: "s3cret", Permissions: &server.Permissions{Publish: &server.SubjectPermission{Allow: []string{"$JS.API.STREAM.INFO.>"}}}},
	}
	b.start()
	t.Run("a wrong password is no reason to retry", func(t *testing.T) {
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "user", "ann", "password", "hunter2")
		err := in.fails()
		wantFault(t, err, fault.Config, "NATS_AUTHORIZATION", "password", b.url()[len("nats://"):])
		if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	})
	t.Run("the right one is let in", func(t *testing.T) {
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "create", "true", "user", "ann", "password", "s3cret")
		in.until(in.caughtUp)
	})
	t.Run("a missing permission is named", func(t *testing.T) {
		in := openInput(t, inputConfig{}, "url", b.url(), "stream", "IN", "user", "bob", "password", "s3cret")
		wantFault(t, in.fails(), fault.Config, "NATS_PERMISSION", "$JS.API.CONSUMER.CREATE.IN")
	})
	t.Run("credentials in the url are not shown", func(t *testing.T) {
		in := openInput(t, inputConfig{}, "url", strings.Replace(b.url(), "//", "//ann:hunter2@", 1), "stream", "IN")
		if err := in.fails(); strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the password: %v", err)
		}
	})
}

func TestVersions(t *testing.T) {
	for v, ok := range map[string]bool{"2.10.0": true, "2.9.25": false, "2.15.3": true, "3.0.0": true, "1.4.1": false, "2.12.0-RC.1": true, "v2.11.0": true, "x": false} {
		if err := checkVersion(v); (err == nil) != ok {
			t.Errorf("version %s: %v", v, err)
		}
	}
}

// TestSubjectSets compares covers and overlaps with all subjects of up to three
// tokens over a small alphabet.
func TestSubjectSets(t *testing.T) {
	var subjects, filters []string
	for _, a := range []string{"a", "b"} {
		subjects = append(subjects, a)
		for _, b := range []string{"a", "b"} {
			subjects = append(subjects, a+"."+b, a+"."+b+".a", a+"."+b+".b")
		}
	}
	for _, a := range []string{"a", "*", ">"} {
		filters = append(filters, a)
		if a == ">" {
			continue
		}
		for _, b := range []string{"b", "*", ">"} {
			filters = append(filters, a+"."+b)
			if b != ">" {
				filters = append(filters, a+"."+b+".a", a+"."+b+".>")
			}
		}
	}
	match := func(f, s string) bool { // the rule, token by token
		ft, st := strings.Split(f, "."), strings.Split(s, ".")
		for i, x := range ft {
			if x == ">" {
				return len(st) > i
			}
			if i >= len(st) || x != "*" && x != st[i] {
				return false
			}
		}
		return len(ft) == len(st)
	}
	for _, p := range filters {
		for _, f := range filters {
			both, all := false, true
			for _, s := range subjects {
				both = both || match(p, s) && match(f, s)
				all = all && (!match(f, s) || match(p, s))
			}
			if strings.Count(f, ".") == 2 && strings.HasSuffix(f, ">") && strings.Count(p, ".") == 2 && !strings.HasSuffix(p, ">") {
				all = false // longer subjects than we list
			}
			if got := covers(p, f); got != all && !(all && strings.HasSuffix(f, ">")) {
				t.Errorf("covers(%s, %s) = %v", p, f, got)
			}
			if got := overlaps(p, f); got != both {
				t.Errorf("overlaps(%s, %s) = %v", p, f, got)
			}
		}
	}
}

func TestConnectorRecord(t *testing.T) {
	c := Connector()
	if _, err := connectors.NewRegistry([]connectors.Connector{c}, nil); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Name, len(c.Metadata)); got != "nats6" && got != "nats 6" {
		t.Errorf("record %s", got)
	}
}
