package deploy

import (
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// commitTwo makes a checkpoint of two epochs. The first holds rows for a sink that
// the query does not have.
func commitTwo(t *testing.T, w *world) {
	t.Helper()
	store, err := w.disk.Open()
	if err != nil {
		t.Fatal(err)
	}
	rows := []byte("rows")
	const former = "sink/former/1"
	sum := epochs.ChainSum(0, crc32.Checksum(rows, crc32.MakeTable(crc32.Castagnoli)), true)
	err = store.Put(t.Context(), 1, []epochs.Segment{{SegmentID: epochs.SegmentID{Operator: former, Epoch: 1}, Base: true, Data: rows}})
	for _, rec := range []*epochs.Record{
		{Epoch: 1, Attempt: 1, Query: "q", Chains: []epochs.Chain{{Operator: former, Base: 1, Last: 1, Segments: 1, Sum: sum, BaseBytes: int64(len(rows))}}},
		{Epoch: 2, Prev: 1, Attempt: 1, Query: "q"},
	} {
		data, eerr := epochs.EncodeRecord(rec)
		err = errors.Join(err, eerr, store.Commit(t.Context(), rec.Prev, rec.Epoch, data))
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
}

// TestNothingIsGivenUpForAnEpochThatDoesNotFit: a start that is refused leaves all
// epochs, be the way back asked for or taken after damage.
func TestNothingIsGivenUpForAnEpochThatDoesNotFit(t *testing.T) {
	ways := map[string]func(*world){
		"asked for":    func(w *world) { w.restore, w.accept = 1, true },
		"after damage": func(w *world) { w.wrap = func(s epochs.Segments) epochs.Segments { return &halfStore{s, 1} } },
	}
	reasons := map[string]func(*world){
		"its state": func(w *world) {
			w.allow = true
			w.check = func(epochs.Plan) error { return errors.New("the keys were others then") }
		},
		"rows of a sink that is gone": func(*world) {},
	}
	for way, goBack := range ways {
		for reason, change := range reasons {
			t.Run(fmt.Sprintf("%s does not fit, %s", reason, way), func(t *testing.T) {
				w := newWorld(t, 0, nil)
				commitTwo(t, w)
				goBack(w)
				change(w)
				r := w.start(t, 0)
				over(t, r)
				if r.State() != Failed || !errors.Is(r.Err(), ErrIncompatible) || !strings.Contains(r.Err().Error(), "epoch 1: ") {
					t.Errorf("got state %s with %v, want ErrIncompatible of epoch 1", r.State(), r.Err())
				}
				records, err := w.records(t)
				if err != nil {
					t.Fatal(err)
				}
				var left []messages.Epoch
				for _, rec := range records {
					left = append(left, rec.Epoch)
				}
				if d := cmp.Diff([]messages.Epoch{2, 1}, left); d != "" {
					t.Errorf("epochs (-want +got):\n%s", d)
				}
			})
		}
	}
}
