package epochs_test

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

// sampleRecord has every field set, at limits where there are any.
func sampleRecord() *epochs.Record {
	return &epochs.Record{
		Epoch: 118, Prev: 117, Attempt: 3, Query: "orders", Incarnation: messages.ID128{Hi: math.MaxUint64, Lo: 7},
		WallMicros: 1_750_000_000_000_000, Final: true,
		Plan: epochs.Plan{Fingerprint: "f1", HashVersion: 1, MaxWatermark: true, Operators: []epochs.OperatorState{{UID: "hot/aggregate", Kind: "aggregate", Schema: "k BIGINT; count", Format: 2}}},
		Sources: []epochs.SourceState{
			{Source: "bids", Partition: "a\xff.csv", Offset: []byte{0, 1, 2}, Watermark: messages.NoEventTime, Idle: true, Rows: 9},
			{Source: "bids", Partition: "", Watermark: -5, Ended: true, Rows: math.MaxUint64},
			{Source: "names", Watermark: messages.MaxEventTime},
			{Source: "zero", Watermark: 0},
		},
		Sinks: []epochs.SinkState{{Sink: "hot", Epoch: 117, Token: []byte("t")}},
		Chains: []epochs.Chain{
			{Operator: "a", Group: 0, Base: 100, Last: 118, Segments: 4, Sum: math.MaxUint64, BaseBytes: 1 << 40, DeltaBytes: 5},
			{Operator: "a", Group: 255, Base: 118, Last: 118, Segments: 1},
			{Operator: "b", Group: epochs.OperatorGroup, Base: 1, Last: 2, Segments: 2, Sum: 1},
			{Operator: "a", Group: 7, Base: 1, Last: 1, Segments: 1, Sum: 1},
			{Operator: "a", Group: math.MaxUint16, Base: 119, Last: math.MaxUint64},
		},
		Counters: []epochs.Counters{{Operator: "a", Rule: epochs.IntoState, Inputs: []string{"b", "c"}, In: 1, Out: 2, Late: 3, Filtered: 4, Bad: 5, Absorbed: 6, Deduplicated: 7, Adopted: 8, Evicted: 9, StateRows: 10, StateBytes: 11, Watermark: -12}, {Operator: "b", Watermark: messages.NoEventTime}},
		Ranges:   []epochs.RangeWatermark{{Operator: "a", To: 128, Watermark: -12}, {Operator: "a", From: 128, To: 256, Watermark: messages.NoEventTime}},
	}
}

func mustEncode(t interface {
	Helper()
	Fatal(...any)
}, r *epochs.Record,
) []byte {
	t.Helper()
	b, err := epochs.EncodeRecord(r)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRecordsComeBackAsTheyWere(t *testing.T) {
	for name, want := range map[string]*epochs.Record{"full": sampleRecord(), "empty": {}} {
		got, err := epochs.DecodeRecord(mustEncode(t, want))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(got, want, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: decoded record differs (-got +want):\n%s", name, diff)
		}
	}
}

func TestAnyRecordComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := rapid.Make[epochs.Record]().Draw(t, "record")
		got, err := epochs.DecodeRecord(mustEncode(t, &want))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(got, &want, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("decoded record differs (-got +want):\n%s", diff)
		}
	})
}

func TestEveryFlippedBitAndEveryCutOfARecordIsDamage(t *testing.T) {
	good := mustEncode(t, sampleRecord())
	for i := range len(good) * 8 {
		bad := append([]byte(nil), good...)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := epochs.DecodeRecord(bad); !errors.Is(err, epochs.ErrDamaged) {
			t.Fatalf("bit %d flipped: got error %v, want ErrDamaged", i, err)
		}
	}
	for n := range good {
		if _, err := epochs.DecodeRecord(good[:n]); !errors.Is(err, epochs.ErrDamaged) {
			t.Fatalf("cut to %d bytes: got error %v, want ErrDamaged", n, err)
		}
	}
}

// reseal makes the checksum right again.
func reseal(b []byte) []byte {
	n := len(b) - 4
	binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

func TestARecordOfANewerVersionIsRefusedAsSuch(t *testing.T) {
	b := mustEncode(t, sampleRecord())
	b[4]++
	if _, err := epochs.DecodeRecord(reseal(b)); !errors.Is(err, epochs.ErrNewerFormat) {
		t.Errorf("got error %v, want ErrNewerFormat", err)
	}
}

func TestChainsOfAllKeyGroupsStaySmall(t *testing.T) {
	const operators = 4
	r := &epochs.Record{Epoch: 1_000_000, Prev: 999_999}
	for op := range operators {
		for g := range epochs.KeyGroups {
			r.Chains = append(r.Chains, epochs.Chain{
				Operator: "hot_items/aggregate" + string(rune('0'+op)), Group: uint16(g),
				Base: r.Epoch - messages.Epoch(g%60), Last: r.Epoch, Segments: uint32(g % 60),
				Sum: uint64(g+1) * 0x9e3779b97f4a7c15, BaseBytes: 60_000 + int64(g), DeltaBytes: 15_000 + int64(g),
			})
		}
	}
	// 8 bytes are the checksum; the rest is at most 9 bytes.
	if got, limit := len(mustEncode(t, r)), operators*epochs.KeyGroups*17+1000; got > limit {
		t.Errorf("record with %d chains is %d bytes long, want at most %d", len(r.Chains), got, limit)
	}
}

func TestANameThatIsNotUTF8IsAnErrorAndNotARecord(t *testing.T) {
	if _, err := epochs.EncodeRecord(&epochs.Record{Query: "\xff"}); err == nil {
		t.Error("got no error")
	}
}

// FuzzDecodeRecord looks for panics, for records that change when they are
// written again, and for allocations that the input does not pay for: an empty
// list of chains takes 2 bytes, and its description 300. The checksum is made right
// first, or the fuzzer would get nowhere.
func FuzzDecodeRecord(f *testing.F) {
	f.Add(mustEncode(f, sampleRecord()))
	f.Add(mustEncode(f, &epochs.Record{}))
	f.Add([]byte("sdcr\x01"))
	f.Fuzz(func(t *testing.T, data []byte) {
		data = append([]byte(nil), data...)
		if len(data) >= 4 {
			data = reseal(data)
		}
		var r *epochs.Record
		var err error
		alloctest.Within(t, 256, len(data), func() { r, err = epochs.DecodeRecord(data) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) && !errors.Is(err, epochs.ErrNewerFormat) {
				t.Fatalf("got error %v, want ErrDamaged or ErrNewerFormat", err)
			}
			return
		}
		again, err := epochs.DecodeRecord(mustEncode(t, r))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, r, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}
