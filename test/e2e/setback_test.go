package e2e

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestGoingBackBehindASink: a query whose sink has published newer epochs goes
// back to an older one when duplicates are accepted, and repeats their rows.
func TestGoingBackBehindASink(t *testing.T) {
	long(t)
	for _, guarantee := range []string{"exactly_once", "transactional"} {
		t.Run(guarantee, func(t *testing.T) {
			t.Parallel()
			b := newBroker(t)
			js := b.up()
			b.stream(js, "IN")
			p := here(t, fmt.Sprintf(`CREATE SOURCE s (id BIGINT) WITH (connector = 'nats', url = '%[1]s', stream = 'IN', subject = 'in.>', format = 'json');
CREATE SINK k WITH (connector = 'nats', url = '%[1]s', stream = 'OUT', subject = 'out.x', format = 'json', guarantee = '%[2]s', visibility = 'epoch', create = 'true');
CREATE QUERY copy AS INSERT INTO k SELECT id FROM s;`, b.url(), guarantee))
			const rounds = 3
			var want []string
			for i := range rounds {
				want = append(want, fmt.Sprintf(`{"id":%d}`, i))
				b.publish(js, want[i])
				p.run(t, "run", "q.sql", "--available-now").ends(0)
			}
			ls := p.run(t, "checkpoints", "ls", "streamd-data", "--json")
			ls.ends(0)
			var list []struct {
				Epochs []struct {
					Epoch int
					Rows  int `json:"rows_in"`
				}
			}
			if err := json.Unmarshal([]byte(ls.out.String()), &list); err != nil || len(list) != 1 || len(list[0].Epochs) < 2 {
				t.Fatalf("%v: %s", err, ls.out.String())
			}
			published := list[0].Epochs[0].Epoch - 1 // the final epoch has no rows
			back := list[0].Epochs[len(list[0].Epochs)-1]
			if back.Rows == rounds {
				t.Fatalf("no retained epoch lacks a row: %+v", list[0].Epochs)
			}
			flag := fmt.Sprintf("--restore-epoch=%d", back.Epoch)
			p.run(t, "run", "q.sql", "--available-now", flag).ends(3, "would be published again", "--accept-duplicates")
			x := p.run(t, "run", "q.sql", "--available-now", flag, "--accept-duplicates")
			x.ends(0, "nats sink is set back", fmt.Sprintf("epoch=%d published=%d epochs_repeated=%d", back.Epoch, published, published-back.Epoch))
			want = append(want, want[back.Rows:]...)
			var got []string
			for _, row := range b.rows(js, "OUT", len(want)) {
				if row[:6] == `{"id":` { // and no marker
					got = append(got, row)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			p.run(t, "run", "q.sql", "--available-now").ends(0) // nothing to be said any more
		})
	}
}
