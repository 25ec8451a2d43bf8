package expr

import (
	"testing"
	"time"
)

// TestClockChanges is about the wall clock times that a change of the clock skips
// or repeats: truncating keeps apart what the clock shows twice, and a time that no
// clock has shown becomes the first instant behind the gap.
func TestClockChanges(t *testing.T) {
	for _, c := range []struct{ zone, text, want string }{
		// 01:40 comes twice, an hour apart, and each has a full hour of its own.
		{"America/Los_Angeles", "unix_seconds(date_trunc('hour', timestamp '2023-11-05 01:40:00-07:00'))", "1699171200"},
		{"America/Los_Angeles", "unix_seconds(date_trunc('hour', timestamp '2023-11-05 01:40:00-08:00'))", "1699174800"},
		{"America/Los_Angeles", "unix_seconds(date_trunc('minute', timestamp '2023-11-05 01:40:30-08:00'))", "1699177200"},
		{"America/Los_Angeles", "unix_seconds(date_trunc('day', timestamp '2023-11-05 23:00:00-08:00'))", "1699167600"},
		{"Europe/Berlin", "unix_seconds(date_trunc('hour', timestamp '2023-10-29 02:30:00+02:00'))", "1698537600"},
		{"Europe/Berlin", "unix_seconds(date_trunc('hour', timestamp '2023-10-29 02:30:00+01:00'))", "1698541200"},
		{"Europe/Berlin", "unix_seconds(timestamp('2023-10-29 02:30:00'))", "1698539400"},
		{"Europe/Berlin", "unix_seconds(timestamp('2024-03-31 02:30:00'))", "1711848600"},
		// Only half an hour is repeated: the hour begins before the change.
		{"Australia/Lord_Howe", "unix_seconds(date_trunc('hour', timestamp '2024-04-07 01:45:00+10:30'))", "1712412000"},
		{"Australia/Lord_Howe", "unix_seconds(date_trunc('minute', timestamp '2024-04-07 01:45:00+10:30'))", "1712416500"},
		// The offset is no whole number of hours.
		{"Asia/Kathmandu", "unix_seconds(date_trunc('hour', timestamp '2024-01-01 00:00:00Z'))", "1704064500"},
		// Midnight does not exist on that day; it begins at one o'clock.
		{"America/Sao_Paulo", "unix_seconds(date_trunc('day', timestamp '2018-11-04 12:00:00-02:00'))", "1541300400"},
		{"America/Sao_Paulo", "unix_seconds(timestamp(date '2018-11-04'))", "1541300400"},
		{"America/Sao_Paulo", "string(date_trunc('day', timestamp '2018-11-04 12:00:00-02:00'))", "2018-11-04 01:00:00"},
		// Midnight comes twice on that day; it begins with the first.
		{"America/Havana", "unix_seconds(date_trunc('day', timestamp '2023-11-05 00:30:00-05:00'))", "1699156800"},
		{"America/Havana", "unix_seconds(date_trunc('hour', timestamp '2023-11-05 00:30:00-05:00'))", "1699160400"},
		// Calendar arithmetic keeps to the second of two as long as it exists.
		{"Europe/Berlin", "unix_seconds(timestampadd(DAY, 0, timestamp '2023-10-29 02:30:00+01:00'))", "1698543000"},
		{"Europe/Berlin", "unix_seconds(timestamp '2023-11-29 02:30:00+01:00' - INTERVAL 1 MONTH)", "1698543000"},
		{"Europe/Berlin", "unix_seconds(timestamp '2023-09-29 02:30:00+02:00' + INTERVAL 1 MONTH)", "1698539400"},
		{"Europe/Berlin", "unix_seconds(timestampadd(DAY, -1, timestamp '2023-10-29 02:30:00+01:00'))", "1698453000"},
		// A day that was left out as a whole.
		{"Pacific/Apia", "string(timestamp('2011-12-30 12:00:00'))", "2011-12-31 12:00:00"},
		// The clock changes were given up.
		{"Europe/Moscow", "unix_seconds(date_trunc('hour', timestamp '2014-10-26 01:20:00+04:00'))", "1414270800"},
		{"Europe/Moscow", "unix_seconds(date_trunc('hour', timestamp '2014-10-26 01:20:00+03:00'))", "1414274400"},
	} {
		zone, err := time.LoadLocation(c.zone)
		if err != nil {
			t.Fatal(err)
		}
		got, err := evalText(t, c.text, Options{Zone: zone})
		if err != nil {
			t.Errorf("%s: %s: %v", c.zone, c.text, err)
		} else if got != c.want {
			t.Errorf("%s: %s: %s, want %s", c.zone, c.text, got, c.want)
		}
	}
}
