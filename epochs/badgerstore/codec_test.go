package badgerstore

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

func samplePack() ([]byte, []packMember, [][]byte) {
	var p packBuilder
	var want []packMember
	var data [][]byte
	for i, op := range []string{"a", "a", "", "b/c", "a"} {
		d := bytes.Repeat([]byte{byte(i + 1)}, i*i*50)
		id := epochs.SegmentID{Operator: op, Group: uint16(i * 64), Epoch: 9}
		p.add(epochs.Segment{SegmentID: id, Base: i%2 == 0, Data: d})
		want = append(want, packMember{id: id, base: i%2 == 0, size: uint32(len(d)), crc: checksum(d)})
		data = append(data, d)
	}
	return p.encode(), want, data
}

func TestPacksComeBackAsTheyWere(t *testing.T) {
	b, want, data := samplePack()
	got, err := parsePack(9, b)
	if err != nil {
		t.Fatal(err)
	}
	for i := range got {
		m := got[i]
		if !bytes.Equal(b[m.off:m.off+m.size], data[i]) {
			t.Errorf("member %d has other data", i)
		}
		got[i].off = 0
	}
	if diff := cmp.Diff(got, want, cmp.AllowUnexported(packMember{})); diff != "" {
		t.Errorf("members (-got +want):\n%s", diff)
	}
}

func TestEveryFlippedBitAndCutOfAPackIsNoticed(t *testing.T) {
	good, _, _ := samplePack()
	dir := packHeader + int(binary.BigEndian.Uint32(good[4:]))
	for i := range dir * 8 {
		bad := bytes.Clone(good)
		bad[i/8] ^= 1 << (i % 8)
		if _, err := parsePack(9, bad); !errors.Is(err, epochs.ErrDamaged) {
			t.Fatalf("bit %d: got error %v, want ErrDamaged", i, err)
		}
	}
	for n := range good {
		if _, err := parsePack(9, good[:n]); !errors.Is(err, epochs.ErrDamaged) {
			t.Fatalf("cut to %d: got error %v, want ErrDamaged", n, err)
		}
	}
}

func FuzzParsePack(f *testing.F) {
	b, _, _ := samplePack()
	f.Add(b)
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= packHeader {
			// Make length and checksum right, or the fuzzer would get nowhere.
			n := min(int(binary.BigEndian.Uint32(b[4:])), len(b)-packHeader)
			binary.BigEndian.PutUint32(b[4:], uint32(n))
			binary.BigEndian.PutUint32(b, checksum(b[packHeader:packHeader+n]))
		}
		var members []packMember
		var err error
		alloctest.Within(t, 128, len(b), func() { members, err = parsePack(9, b) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Fatalf("got error %v, want ErrDamaged", err)
			}
			return
		}
		var again packBuilder
		for _, m := range members {
			again.add(epochs.Segment{SegmentID: m.id, Base: m.base, Data: b[m.off : m.off+m.size]}) // within the pack
		}
		same, err := parsePack(9, again.encode())
		if err != nil {
			t.Fatal(err)
		}
		place := cmpopts.IgnoreFields(packMember{}, "off", "crc") // names may be listed in another order; checksums are compared when a member is loaded
		if diff := cmp.Diff(same, members, cmp.AllowUnexported(packMember{}), place, cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	f.Add(storedRecord{prev: 7, data: []byte("data")}.encode())
	f.Add(storedRecord{prev: 7, gaps: []span{{8, 9}, {12, 1 << 60}}}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if len(b) >= 4 {
			binary.BigEndian.PutUint32(b, checksum(b[4:]))
		}
		var r storedRecord
		var err error
		alloctest.Within(t, 64, len(b), func() { r, err = parseRecord(1, b) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Fatalf("got error %v, want ErrDamaged", err)
			}
			return
		}
		again, err := parseRecord(1, r.encode())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, r, cmp.AllowUnexported(storedRecord{}, span{})); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
	})
}

func FuzzParseSegmentKey(f *testing.F) {
	f.Add(segmentKey{id: epochs.SegmentID{Operator: "a/b", Group: 256, Epoch: 1 << 60}, number: 3, part: 1, parts: 2, base: true, size: 5, crc: 6}.encode())
	f.Fuzz(func(t *testing.T, b []byte) {
		b = bytes.Clone(b)
		if n := len(b) - 4; n > 20 {
			b[19] &= 1
			binary.BigEndian.PutUint32(b[n:], checksum(b[:n]))
		}
		var k segmentKey
		var err error
		alloctest.Within(t, 16, len(b), func() { k, err = parseSegmentKey(b) })
		if err != nil {
			if !errors.Is(err, epochs.ErrDamaged) {
				t.Fatalf("got error %v, want ErrDamaged", err)
			}
			return
		}
		if got := k.encode(); !bytes.Equal(got, b) {
			t.Fatalf("written again it is %x, was %x", got, b)
		}
	})
}

// FuzzParseKey is about the keys that are nothing but numbers.
func FuzzParseKey(f *testing.F) {
	f.Add(recordKey(7))
	f.Add(packKey(1<<60, 3))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, isRecord := parseRecordKey(b)
		if isRecord && !bytes.Equal(recordKey(e), b) {
			t.Errorf("%x reads as the key of record %d", b, e)
		}
		e, number, isPack := parsePackKey(b)
		if isPack && !bytes.Equal(packKey(e, number), b) {
			t.Errorf("%x reads as the key of pack %d of epoch %d", b, number, e)
		}
		if isRecord && isPack {
			t.Errorf("%x is two keys", b)
		}
	})
}

// FuzzReadFiles is about the small files beside the database: what is taken for a
// witness is exactly what is written for its epoch, and a format version is read or
// is damage.
func FuzzReadFiles(f *testing.F) {
	f.Add([]byte(witnessContent(7)))
	f.Add([]byte(formatPrefix + "1\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		for _, name := range []string{witnessName, formatName} {
			if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		e, err := readWitness(dir)
		if err == nil && witnessContent(e) != string(b) || err != nil && !errors.Is(err, epochs.ErrDamaged) {
			t.Errorf("witness %q: got epoch %d, error %v", b, e, err)
		}
		err = checkFormat(dir)
		if err == nil && strings.TrimSpace(string(b)) != formatPrefix+"1" || err != nil && !errors.Is(err, epochs.ErrDamaged) && !errors.Is(err, epochs.ErrNewerFormat) {
			t.Errorf("format %q: got error %v", b, err)
		}
	})
}

// FuzzCutChecksum is about the end of Badger's tables and of their blocks, which
// is read before anything of them is known to be sound.
func FuzzCutChecksum(f *testing.F) {
	f.Add(withChecksum([]byte("block")))
	f.Add([]byte{0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		rest, sum, ok := cutChecksum(b)
		if !ok {
			return
		}
		if !bytes.HasPrefix(b, rest) || len(rest) > len(b)-4 {
			t.Errorf("%x is cut to %x", b, rest)
		}
		_ = y.VerifyChecksum(rest, sum) // knows the algorithm, or it would end the process
	})
}

// withChecksum puts a checksum behind data as Badger does.
func withChecksum(data []byte) []byte {
	b := binary.AppendUvarint([]byte{1 << 3, byte(pb.Checksum_CRC32C), 2 << 3}, y.CalculateChecksum(data, pb.Checksum_CRC32C))
	return binary.BigEndian.AppendUint32(slices.Concat(data, b), uint32(len(b)))
}

func TestKeysOfPartsDifferInThePartOnly(t *testing.T) {
	k := segmentKey{id: epochs.SegmentID{Operator: "a", Group: 3, Epoch: 4}, number: 5, parts: 700, size: 6, crc: 7}
	b := &blob{key: string(k.encode()), parts: 700}
	part := uint16(0)
	b.keys(func(key []byte) {
		got, err := parseSegmentKey(key)
		if err != nil {
			t.Fatal(err)
		}
		want := k
		want.part = part
		if got != want {
			t.Fatalf("got %+v, want %+v", got, want)
		}
		part++
	})
	if part != 700 {
		t.Errorf("got %d keys, want 700", part)
	}
}

func TestSpansOfLostEpochsAreKeptAsLongAsTheyMayMatter(t *testing.T) {
	x := newIndex()
	commit := func(prev, e messages.Epoch) []span {
		gaps := x.nextGaps(prev, e)
		x.records = append(x.records, indexedRecord{epoch: e, gaps: gaps})
		x.highest = max(x.highest, e)
		return gaps
	}
	put := func(e messages.Epoch, base bool) {
		b := &blob{epoch: e, parts: 1}
		x.addBlob(b)
		x.add(epochs.SegmentID{Operator: "a", Epoch: e}, entry{blob: b, base: base})
	}
	put(1, true)
	commit(0, 1)
	put(3, true) // never committed
	put(5, false)
	if diff := cmp.Diff(commit(1, 5), []span{{2, 4}}, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("after the gap (-got +want):\n%s", diff)
	}
	if diff := cmp.Diff(commit(5, 6), []span{{2, 4}}, cmp.AllowUnexported(span{})); diff != "" {
		t.Errorf("one later (-got +want):\n%s", diff)
	}
	put(7, true)
	commit(6, 7)
	x.drop(7, 7)
	if got := commit(7, 8); len(got) != 1 {
		t.Errorf("epochs 1 to 5 wait for their deletion, but the span is gone: %v", got)
	}
	x.dead = nil
	if got := commit(8, 9); len(got) != 0 {
		t.Errorf("nothing is left of the lost epochs, but the spans are %v", got)
	}
}
