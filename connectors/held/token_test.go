package held_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/connectors/held"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/alloctest"
)

func TestATokenThatNoSinkHasMadeIsRefused(t *testing.T) {
	good := `[{"epoch":7,"rows":3,"parts":[0,4]},{"epoch":9,"rows":0,"parts":[1]}]`
	var u held.Unconfirmed
	if err := json.Unmarshal([]byte(good), &u); err != nil || len(u) != 2 {
		t.Fatalf("%s: got %v, %v", good, u, err)
	}
	for what, text := range map[string]string{
		"no parts":         `[{"epoch":7,"rows":3}]`,
		"a part twice":     `[{"epoch":7,"rows":3,"parts":[4,4]}]`,
		"parts backwards":  `[{"epoch":7,"rows":3,"parts":[4,0]}]`,
		"epochs backwards": `[{"epoch":9,"rows":3,"parts":[0]},{"epoch":7,"rows":3,"parts":[0]}]`,
		"an epoch twice":   `[{"epoch":7,"rows":3,"parts":[0]},{"epoch":7,"rows":3,"parts":[0]}]`,
		"epoch 0":          `[{"epoch":0,"rows":3,"parts":[0]}]`,
		"negative rows":    `[{"epoch":7,"rows":-1,"parts":[0]}]`,
		"a huge part":      `[{"epoch":7,"rows":1,"parts":[65536]}]`,
		"no list":          `{}`,
	} {
		if err := json.Unmarshal([]byte(text), &u); err == nil {
			t.Errorf("%s: %s is accepted", what, text)
		}
	}
}

// FuzzUnconfirmed is about the part of a sink's token that says which epochs may
// be unpublished. What is accepted can be replayed, and is written as it was read.
func FuzzUnconfirmed(f *testing.F) {
	f.Add([]byte(`[{"epoch":7,"rows":3,"parts":[0,4]},{"epoch":9,"rows":0,"parts":[1]}]`))
	f.Add([]byte(`[{"epoch":7,"rows":3,"parts":[]}]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		var u held.Unconfirmed
		var err error
		alloctest.Within(t, 256, len(data), func() { err = json.Unmarshal(data, &u) })
		if err != nil {
			return
		}
		text, err := json.Marshal(u)
		if err != nil {
			t.Fatal(err)
		}
		var again held.Unconfirmed
		if err := json.Unmarshal(text, &again); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(again, u); diff != "" {
			t.Fatalf("written again it differs (-got +want):\n%s", diff)
		}
		r := newWorld(t, held.Config{}, 0).rows
		r.Recover(u)
		for _, e := range r.Pending(^messages.Epoch(0)) { // the stash has nothing of it
			if err := r.Replay(t.Context(), e, func(*held.Block) error { return nil }); err == nil {
				t.Errorf("epoch %d is replayed from an empty checkpoint", e)
			}
			r.Confirm(e)
		}
	})
}
