package actors

import (
	"context"
	"errors"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
)

// filters is a source that names its partitions after what they let through.
type filters struct {
	connectors.Source
	names []string
	once  bool // it cannot be read again
}

func (f filters) Traits() connectors.Traits { return connectors.Traits{Replayable: !f.once} }

func (f filters) Partitions(context.Context) ([]string, error) { return f.names, nil }

func TestASourceWithoutAnyOfItsPartitionsIsAnother(t *testing.T) {
	rec := &epochs.Record{Query: "q", Sources: []epochs.SourceState{{Source: "s", Partition: "ord.>"}}}
	for _, c := range []struct {
		now         []string
		once, fails bool
	}{{[]string{"ord.*"}, false, true}, {[]string{"ord.>"}, false, false}, {[]string{"ord.>", "new.>"}, false, false}, {[]string{"ord.*"}, true, false}} {
		g := NewGraph()
		g.Source("s", SourceSpec{Source: filters{names: c.now, once: c.once}, Rows: func() (*connectors.Rows, error) { return nil, nil }})
		err := ChangedSources(t.Context(), g, rec)
		if got := errors.Is(err, ErrSourceChanged); got != c.fails {
			t.Errorf("partitions %v: got error %v, want one: %v", c.now, err, c.fails)
		}
	}
}
