package option

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/messages/fault"
)

var all = []Option{
	{Name: "url", Required: true, Doc: "Addresses of the servers."},
	{Name: "rows_per_second", Kind: Int, Default: "1", Min: 1},
	{Name: "port", Kind: Int, Min: 1, Max: 65535},
	{Name: "create", Kind: Bool, Default: "false"},
	{Name: "roll_interval", Kind: Duration, Default: "60s"},
	{Name: "roll_size", Kind: Bytes, Default: "64MB"},
	{Name: "password", Kind: Secret},
	{Name: "on_data_loss", Kind: Enum, Default: "fail", Values: []string{"fail", "warn"}},
}

func given(keyValues ...string) []Given {
	var g []Given
	for i := 0; i < len(keyValues); i += 2 {
		g = append(g, Given{keyValues[i], keyValues[i+1], i})
	}
	return g
}

func TestParseReadsValues(t *testing.T) {
	v, errs := Parse("nats source", all, given("URL", "a,b", "rowsPerSecond", "500", "Create", "TRUE", "roll_interval", "500 ms", "rollsize", "1GiB", "password", "hunter2", "on_data_loss", "Warn"))
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	got := []any{v.String("url"), v.Int("rows_per_second"), v.Int("port"), v.Bool("create"), v.Duration("roll_interval"), v.Bytes("roll_size"), v.Secret("password").Reveal(), v.Enum("on_data_loss")}
	want := []any{"a,b", int64(500), int64(0), true, 500 * time.Millisecond, int64(1 << 30), "hunter2", "warn"}
	if diff := cmp.Diff(got, want); diff != "" {
		t.Errorf("got (-) differs from want (+):\n%s", diff)
	}
	if v.Has("port") || !v.Has("url") || v.Has("unheard_of") {
		t.Error("Has must be true for given options only")
	}
	if !v.Declared("port") || v.Declared("unheard_of") {
		t.Error("Declared must be true for options of the list only")
	}
	for _, verb := range []string{"%v", "%+v", "%#v"} {
		if text := fmt.Sprintf(verb, v); strings.Contains(text, "hunter2") {
			t.Errorf("%s prints the secret: %s", verb, text)
		}
	}
}

func TestParseFillsInDefaults(t *testing.T) {
	v, errs := Parse("s", all, given("url", "x"))
	if len(errs) != 0 {
		t.Fatal(errs)
	}
	if v.Int("rows_per_second") != 1 || v.Bool("create") || v.Duration("roll_interval") != time.Minute || v.Bytes("roll_size") != 64_000_000 || v.Enum("on_data_loss") != "fail" || !v.Secret("password").IsZero() {
		t.Errorf("defaults are wrong: %+v", v)
	}
}

func TestParseReportsEveryFault(t *testing.T) {
	for _, tc := range []struct {
		name  string
		given []Given
		want  []string
	}{
		{"a missing option", nil, []string{"s: option url is missing (Addresses of the servers.)"}},
		{"an empty option", given("url", " "), []string{"s: option url: it is empty; Addresses of the servers."}},
		{"a typing error", given("url", "x", "rol_interval", "1s"), []string{"s: unknown option rol_interval (did you mean roll_interval?)"}},
		{"an unknown option", given("url", "x", "zzzzzz", "1"), []string{"s: unknown option zzzzzz (known: create, on_data_loss, password, port, roll_interval, roll_size, rows_per_second, url)"}},
		{"an option of Spark", given("url", "x", "checkpointLocation", "/tmp"), []string{"s: unknown option checkpointLocation (checkpoints live below the directory given by --dir)"}},
		{"one key twice", given("url", "x", "Url", "y"), []string{"s: option url is given twice"}},
		{"one key twice, the first one bad", given("url", "x", "port", "a", "port", "1"), []string{`s: option port: "a" is not a positive integer`, "s: option port is given twice"}},
		{"the key as it was written", given("url", "x", "rowsPerSecond", "1.5"), []string{`s: option rowsPerSecond: "1.5" is not a positive integer`}},
		{"a required option that is bad is not missing", given("url", ""), []string{"s: option url: it is empty; Addresses of the servers."}},
		{"several faults in order", given("port", "0", "url", "x", "create", "yes", "roll_size", "big", "roll_interval", "soon", "on_data_loss", "fial", "rows_per_second", "0"), []string{
			"s: option port: 0 is out of range; give a number from 1 to 65535",
			`s: option create: "yes" is neither true nor false`,
			`s: option roll_size: "big" is not a size (write 4096, 64MB or 1GiB)`,
			`s: option roll_interval: "soon" is not a duration (write 500ms, 10s, 1h30m or '10 seconds')`,
			`s: option on_data_loss: "fial" is not allowed (did you mean fail?)`,
			`s: option rows_per_second: "0" is not a positive integer`,
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, errs := Parse("s", all, tc.given)
			var got []string
			for _, err := range errs {
				got = append(got, err.Error())
				if fault.KindOf(err) != fault.Config {
					t.Errorf("%v has kind %v, want config", err, fault.KindOf(err))
				}
			}
			if diff := cmp.Diff(got, tc.want); diff != "" {
				t.Errorf("got (-) differs from want (+):\n%s", diff)
			}
		})
	}
}

func TestParseDuration(t *testing.T) {
	for _, tc := range []struct {
		text string
		want time.Duration
	}{
		{"500ms", 500 * time.Millisecond},
		{"1h30m", 90 * time.Minute},
		{"0", 0},
		{"10 seconds", 10 * time.Second},
		{"1 Second", time.Second},
		{"500 ms", 500 * time.Millisecond},
		{"5 us", 5 * time.Microsecond},
		{"3 milliseconds", 3 * time.Millisecond},
		{"2 m", 2 * time.Minute},
		{"2 mins", 2 * time.Minute},
		{"1 s", time.Second},
		{"1 day 2 hours", 26 * time.Hour},
		{"interval 1 week", 7 * 24 * time.Hour},
		{"7 d", 7 * 24 * time.Hour},
	} {
		if got, err := ParseDuration(tc.text); err != nil || got != tc.want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "10", "-1s", "-1 seconds", "ten seconds", "1 fortnight", "1 day 2", "200000 weeks 200000 weeks", "99999999999 hours"} {
		if got, err := ParseDuration(text); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", text, got)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for _, tc := range []struct {
		text string
		want int64
	}{{"0", 0}, {"4096", 4096}, {"64MB", 64_000_000}, {"64 MiB", 64 << 20}, {"1g", 1 << 30}, {"10k", 10 << 10}, {"7b", 7}, {"2kb", 2000}, {"8589934591GiB", 8589934591 << 30}} {
		if got, err := ParseBytes(tc.text); err != nil || got != tc.want {
			t.Errorf("ParseBytes(%q) = %v, %v, want %v", tc.text, got, err, tc.want)
		}
	}
	for _, text := range []string{"", "-1", "1.5MB", "MB", "8589934592GiB", "1TB x"} {
		if got, err := ParseBytes(text); err == nil {
			t.Errorf("ParseBytes(%q) = %v, want an error", text, got)
		}
	}
}

func TestNearest(t *testing.T) {
	words := []string{"rows_per_second", "ramp_up", "partitions", "url"}
	for _, tc := range []struct{ word, want string }{
		{"rowspersecond", "rows_per_second"},
		{"row_per_second", "rows_per_second"},
		{"partitoins", "partitions"},
		{"part", "partitions"},
		{"URLS", "url"},
		{"rampup_", "ramp_up"},
		{"xyz", ""},
		{"", ""},
		{"compression", ""},
	} {
		got, ok := Nearest(tc.word, words)
		if got != tc.want || ok != (tc.want != "") {
			t.Errorf("Nearest(%q) = %q, %v, want %q", tc.word, got, ok, tc.want)
		}
	}
}

func TestValuesPanicOnUndeclaredNames(t *testing.T) {
	v, _ := Parse("s", all, given("url", "x"))
	defer func() {
		if recover() == nil {
			t.Error("reading an undeclared option did not panic")
		}
	}()
	v.String("unheard_of")
}

// FuzzParse makes sure that no value panics later that Parse has accepted.
func FuzzParse(f *testing.F) {
	f.Add("port", "1")
	f.Add("roll_interval", "1 day")
	f.Add("roll_size", "1 gib")
	f.Fuzz(func(_ *testing.T, key, value string) {
		v, _ := Parse("s", all, []Given{{key, value, 0}})
		for _, o := range all {
			if !v.Declared(o.Name) { // required and missing
				continue
			}
			switch o.Kind {
			case Int:
				v.Int(o.Name)
			case Duration:
				v.Duration(o.Name)
			case Bytes:
				v.Bytes(o.Name)
			case Bool:
				v.Bool(o.Name)
			case Secret:
				v.Secret(o.Name)
			case Enum:
				v.Enum(o.Name)
			case String:
				v.String(o.Name)
			}
		}
	})
}
