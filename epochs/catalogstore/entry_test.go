package catalogstore

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

// sampleEntry has a change of each kind.
func sampleEntry() []byte {
	chain := chainID{operator: "q/aggregate", group: epochs.OperatorGroup}
	return appendEntry(nil, 6, 1<<40, []change{
		{v: &value{kind: recordKind, query: "orders", epoch: 118, data: []byte("a record")}},
		{v: &value{kind: recordKind, query: "orders", epoch: 115}, delete: true},
		{v: &value{kind: segmentKind, query: "orders", chain: chain, epoch: 118, base: true, data: []byte("a segment")}},
		{v: &value{kind: segmentKind, query: "orders", chain: chainID{group: 3}, epoch: 117}, delete: true},
		{v: &value{kind: highestKind, query: "", epoch: 1<<64 - 1}},
		{v: &value{kind: damageKind, epoch: 5}},
		{v: &value{kind: resetKind, query: "b\xff"}},
	})
}

func diffEntries(got, want entry) string {
	return cmp.Diff(got, want, cmp.AllowUnexported(entry{}, change{}, value{}, chainID{}), cmpopts.EquateEmpty())
}

func TestEntriesComeBackAsTheyWereAndCutsAreNoticed(t *testing.T) {
	b := sampleEntry()
	e, err := parseEntry(7, b)
	if err != nil {
		t.Fatal(err)
	}
	if got := appendEntry(nil, e.prev, e.oldest, e.changes); string(got) != string(b) {
		t.Errorf("written again it is %x, was %x", got, b)
	}
	whole := map[int]bool{} // cuts between changes; the store below has a checksum
	for n := range e.changes {
		whole[len(appendEntry(nil, e.prev, e.oldest, e.changes[:n]))] = true
	}
	for n := range b {
		if _, err := parseEntry(7, b[:n]); (err == nil) != whole[n] || err != nil && !errors.Is(err, epochs.ErrDamaged) {
			t.Errorf("cut to %d bytes: got error %v, between changes: %v", n, err, whole[n])
		}
	}
	for version, want := range map[byte]error{0: epochs.ErrDamaged, format + 1: epochs.ErrNewerFormat} {
		b[0] = version
		if _, err := parseEntry(7, b); !errors.Is(err, want) {
			t.Errorf("format %d: got error %v, want %v", version, err, want)
		}
	}
}

// FuzzParseEntry looks for panics, for entries that change when they are written
// again, and for allocations that the input does not pay for: the shortest change
// has 3 bytes, and a value 150.
func FuzzParseEntry(f *testing.F) {
	f.Add(sampleEntry())
	f.Add(appendEntry(nil, 0, 0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e entry
		var err error
		alloctest.Within(t, 128, len(b), func() { e, err = parseEntry(messages.Epoch(7), b) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) && !errors.Is(err, epochs.ErrNewerFormat) {
				t.Fatalf("got error %v, want ErrDamaged or ErrNewerFormat", err)
			}
			return
		}
		again, err := parseEntry(7, appendEntry(nil, e.prev, e.oldest, e.changes))
		if err != nil {
			t.Fatal(err)
		}
		if diff := diffEntries(again, e); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}
