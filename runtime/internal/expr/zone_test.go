package expr

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/streamd-io/streamd/actors/operator"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

func TestTimesFollowTheSessionTimeZone(t *testing.T) {
	newYork, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ text, want string }{
		// Skipped and repeated wall clock times, as java.time resolves them.
		{"unix_seconds(timestamp('2024-03-10 02:30:00'))", "1710055800"},
		{"unix_seconds(timestamp('2024-11-03 01:30:00'))", "1730611800"},
		{"string(timestamp_seconds(1710055800))", "2024-03-10 03:30:00"},
		{"hour(timestamp_seconds(0))", "19"},
		{"string(date(timestamp_seconds(0)))", "1969-12-31"},
		{"string(date_trunc('day', timestamp_seconds(0)))", "1969-12-31 00:00:00"},
		// A month is one on the calendar, a day of an interval 24 hours.
		{"string(timestamp('2024-03-09 12:00:00') + INTERVAL 1 DAY)", "2024-03-10 13:00:00"},
		{"string(timestamp('2024-02-10 12:00:00') + INTERVAL 1 MONTH)", "2024-03-10 12:00:00"},
		{"string(timestampadd(DAY, 1, timestamp('2024-03-09 12:00:00')))", "2024-03-10 12:00:00"},
		{"date_format(timestamp_seconds(1710055800), 'yyyy-MM-dd HH:mm XXX z')", "2024-03-10 03:30 -04:00 EDT"},
		{"string(to_timestamp('2024-07-01 12', 'yyyy-MM-dd HH'))", "2024-07-01 12:00:00"},
		{"unix_seconds(to_timestamp('2024-07-01 12', 'yyyy-MM-dd HH'))", "1719849600"},
		{"string(timestamp_ntz '2024-07-01 12:00:00')", "2024-07-01 12:00:00"},
		{"unix_seconds(CAST(timestamp_ntz '2024-07-01 12:00:00' AS TIMESTAMP))", "1719849600"},
		{"to_json(named_struct('t', timestamp_seconds(0)))", `{"t":"1969-12-31T19:00:00.000-05:00"}`},
	} {
		got, err := evalText(t, c.text, Options{Zone: newYork})
		if err != nil {
			t.Errorf("%s: %v", c.text, err)
		} else if got != c.want {
			t.Errorf("%s: %s, want %s", c.text, got, c.want)
		}
	}
}

func TestWallClockTimesResolveAsTheStandardLibraryDoes(t *testing.T) {
	for _, name := range []string{"America/New_York", "Europe/Berlin", "Australia/Lord_Howe", "Asia/Kathmandu", "Pacific/Apia"} {
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		z := newZone(loc)
		for hour := range 24 * 366 {
			at := time.Date(2011, 1, 1, hour, 17, 0, 0, time.UTC)
			in := at.In(loc)
			local := time.Date(in.Year(), in.Month(), in.Day(), in.Hour(), in.Minute(), 0, 0, time.UTC)
			if got := z.local(at.UnixMicro()); got != local.UnixMicro() {
				t.Fatalf("%s: local time of %v is %d, want %v", name, at, got, local)
			}
			back := z.instant(local.UnixMicro())
			if z.local(back) != local.UnixMicro() {
				t.Fatalf("%s: %v resolves to %d, which shows another time", name, local, back)
			}
			if back > at.UnixMicro() {
				t.Fatalf("%s: %v resolves to the later of two instants", name, local)
			}
		}
	}
}

func TestCurrentTimestampIsTheArrivalTimeOfTheRow(t *testing.T) {
	s := schemaOf(t, "a int")
	b := batchOf(t, s, [][]any{{1}, {2}})
	n := resolveText(t, "current_timestamp()", s)
	if Deterministic(n) {
		t.Error("current_timestamp() is called deterministic")
	}
	e, err := Compile(Fold(n, Options{}), Options{Now: func() messages.EventTime { return 5 }})
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Eval(b)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := c.Int64s()[1], int64(b.Arrivals()[1]); got != want {
		t.Errorf("time %d, want %d", got, want)
	}
	v := messages.NewViewPool().View(b)
	v.SetArrivals(nil)
	if c, err = e.Eval(v.Publish()); err != nil {
		t.Fatal(err)
	}
	if got := c.Int64s()[0]; got != 5 {
		t.Errorf("time without arrivals %d, want that of the clock, 5", got)
	}
}

func TestRandomNumbersDependOnTheRowAndNotOnTheBatch(t *testing.T) {
	s := schemaOf(t, "a int")
	whole := batchOf(t, s, [][]any{{1}, {2}, {3}})
	n := resolveText(t, "concat(rand(), uuid(), rand())", s)
	texts := func(sel []int32) []string {
		e, err := Compile(n, Options{Seed: 3})
		if err != nil {
			t.Fatal(err)
		}
		v := messages.NewViewPool().View(whole)
		v.Select(sel)
		c, err := e.Eval(v.Publish())
		if err != nil {
			t.Fatal(err)
		}
		out := []string{}
		for _, i := range sel {
			out = append(out, valueText(c, int(i)))
		}
		return out
	}
	all := texts([]int32{0, 1, 2})
	if got := texts([]int32{2}); got[0] != all[2] {
		t.Errorf("row alone %s, in the batch %s", got[0], all[2])
	}
	if all[0] == all[1] || strings.HasPrefix(all[0], all[0][len(all[0])-10:]) {
		t.Errorf("values repeat: %v", all)
	}
}

func TestUserFunctionsAreCalledPerRow(t *testing.T) {
	bad := errors.New("too long")
	f, err := NewFunction(UserFunction{
		Name: "Shout", Args: []messages.Type{messages.T(messages.String), messages.T(messages.Int)}, Result: messages.T(messages.String),
		Call: func(args []UserArg, out *messages.Column) error {
			s := args[0].Column.Str(args[0].Row)
			if len(s) > 3 {
				return bad
			}
			out.AppendString(strings.ToUpper(s) + strings.Repeat("!", int(args[1].Column.Int32s()[args[1].Row])))
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	reg := Builtins().With(f)
	s := schemaOf(t, "s string")
	n, err := reg.Call("SHOUT", NewColumn(0, "s", messages.T(messages.String)), Int(2))
	if err != nil {
		t.Fatal(err)
	}
	e, err := Compile(n, Options{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := e.Eval(batchOf(t, s, [][]any{{"ab"}, {nil}, {"c"}}))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := valueText(c, 0)+valueText(c, 1)+valueText(c, 2), "AB!!NULLC!!"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
	_, err = e.Eval(batchOf(t, s, [][]any{{"ab"}, {"long"}}))
	at, ok := errors.AsType[*operator.RowError](err)
	if !ok || at.Row != 1 || !errors.Is(err, bad) || fault.KindOf(err) != fault.BadRow {
		t.Errorf("error %v, want a bad row 1 because of %v", err, bad)
	}
	if _, ok := Builtins().Lookup("shout"); ok {
		t.Error("the built-in registry has changed")
	}
}
