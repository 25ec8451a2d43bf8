package messages

import (
	"strings"
	"testing"
)

// TestPoolForgetsABurst: batches that once were large are not kept for ever by a
// stream that has become quiet.
func TestPoolForgetsABurst(t *testing.T) {
	if invariants {
		t.Skip("batches are not reused in this build")
	}
	tests := []struct {
		name, value string
		rows        int
	}{
		{"many rows", "a", 1024},
		{"a long value", strings.Repeat("a", 1<<20), 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			bl := NewBuilder(NewSchema(Field{"n", T(BigInt)}, Field{"s", T(String)}))
			held := func(rows int, value string) int {
				for i := range rows {
					bl.Column(0).AppendInt64(int64(i))
					bl.Column(1).AppendString(value)
					bl.EndRow()
				}
				b := bl.Finish()
				defer b.Release()
				return 8*len(b.own[0].fixed) + 4*cap(b.own[1].offsets) + cap(b.own[1].data)
			}
			burst := held(tt.rows, tt.value)
			// The builder fills one batch while another is in use.
			for range 2*idleUses + 4 {
				held(1, "a")
			}
			if left := max(held(1, "a"), held(1, "a")); left > 1024 {
				t.Errorf("after %d small batches one holds %d bytes, %d in the burst", 2*idleUses, left, burst)
			}
		})
	}
}

// TestPoolForgetsLongElements: what nested columns hold counts, too.
func TestPoolForgetsLongElements(t *testing.T) {
	b := NewPool(NewSchema(Field{"l", ArrayType(T(String))})).Get()
	use := func(value string) bool {
		c := b.Own(0)
		c.reset(&b.schema.Fields[0].Type)
		c.Child(0).AppendString(value)
		c.CloseList()
		return b.oversized()
	}
	if use(strings.Repeat("a", 1<<20)) {
		t.Fatal("given up when it was used")
	}
	for range idleUses - 1 {
		use("a")
	}
	if !use("a") {
		t.Errorf("kept after %d uses for one byte", idleUses)
	}
}

// TestPoolKeepsWhatIsUsedNowAndThen: batches of changing size are not made anew.
func TestPoolKeepsWhatIsUsedNowAndThen(t *testing.T) {
	pool := NewPool(NewSchema(Field{"n", T(BigInt)}))
	b := pool.Get()
	for use := range 10 * idleUses {
		n := 1
		if use%(idleUses/2) == 0 {
			n = 1024
		}
		b.Own(0).Resize(n)
		if b.oversized() {
			t.Fatalf("given up at use %d", use)
		}
	}
}
