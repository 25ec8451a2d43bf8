package plan

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/memory"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// traitsSource is a source that only has traits.
type traitsSource struct {
	*memory.Source
	traits connectors.Traits
}

func (s traitsSource) Traits() connectors.Traits { return s.traits }

type traitsTable struct{ src traitsSource }

func (h traitsTable) Source() connectors.Source { return h.src }

func (h traitsTable) Rows([]bool) func() (*connectors.Rows, error) {
	return func() (*connectors.Rows, error) { return connectors.NewRows(h.src.Schema(), nil, 0), nil }
}

// TestExplain holds the text of EXPLAIN to the files below testdata/explain. Commands
// as in TestPlans, and:
//
//	stream NAME [not-replayable] [no-broker-time]
//	explain [mode=M] [parallelism=N] [sink=log|kv|bucket|console|file] [key=COLUMN,COLUMN.FIELD] [guarantee=G] [visibility=V] [policy=max] [extended]
//
// A bucket offers what a kv does, without per epoch, and has a key of its own.
func TestExplain(t *testing.T) {
	datadriven.Walk(t, "testdata/explain", func(t *testing.T, path string) {
		cat := &testCatalog{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			switch d.Cmd {
			case "stream", "table":
				cat.declare(t, d)
				table := cat.Relation(d.CmdArgs[0].Key).(*Table)
				table.Handle = traitsTable{traitsSource{memory.NewSource(table.Schema), connectors.Traits{
					Replayable: !d.HasArg("not-replayable"), BrokerTime: !d.HasArg("no-broker-time"),
				}}}
				return "ok"
			case "explain":
				return explain(t, cat, d)
			}
			t.Fatalf("unknown command %s", d.Cmd)
			return ""
		})
	})
}

// traitsSink is a sink that only has traits.
type traitsSink struct {
	*memory.Sink
	traits connectors.SinkTraits
}

func (s traitsSink) Traits() connectors.SinkTraits { return s.traits }

// keyedSink is one whose key is made from a template.
type keyedSink struct {
	traitsSink
	key []connectors.KeyPart
}

func (s keyedSink) Key() []connectors.KeyPart { return s.key }

// keyOf finds the parts of a key among the columns of a result.
func keyOf(t *testing.T, n Node, text string) []connectors.KeyPart {
	t.Helper()
	var out []connectors.KeyPart
	for name := range strings.SplitSeq(text, ",") {
		if name == "" {
			continue
		}
		column, field, _ := strings.Cut(name, ".")
		at := slices.IndexFunc(n.Columns(), func(c Column) bool { return c.Name == column })
		if at < 0 {
			t.Fatalf("the result has no column %s", column)
		}
		out = append(out, connectors.KeyPart{Column: at, Field: field})
	}
	return out
}

// sinkOf returns kinds of sinks there are.
func sinkOf(kind string) connectors.SinkTraits {
	offer := func(g connectors.Guarantee, v connectors.Visibility) connectors.Offer {
		return connectors.Offer{Guarantee: g, Visibility: v}
	}
	switch kind {
	case "kv":
		return connectors.SinkTraits{Append: true, Update: true, Guarantees: []connectors.Offer{
			offer(connectors.AtLeastOnce, connectors.AtOnce), offer(connectors.Converges, connectors.AtOnce),
			offer(connectors.ExactlyOnce, connectors.PerEpoch),
		}}
	case "bucket":
		return connectors.SinkTraits{Append: true, Update: true, Complete: true, Guarantees: []connectors.Offer{
			offer(connectors.AtLeastOnce, connectors.AtOnce), offer(connectors.Converges, connectors.AtOnce),
		}}
	case "console":
		return connectors.SinkTraits{Append: true, Update: true, Complete: true, SingleWriter: true, Guarantees: []connectors.Offer{
			offer(connectors.AtLeastOnce, connectors.AtOnce),
		}}
	case "file":
		return connectors.SinkTraits{Append: true, Guarantees: []connectors.Offer{offer(connectors.ExactlyOnce, connectors.PerEpoch)}}
	}
	return connectors.SinkTraits{Append: true, Update: true, Guarantees: []connectors.Offer{
		offer(connectors.AtLeastOnce, connectors.AtOnce), offer(connectors.ExactlyOnce, connectors.AtOnce),
		offer(connectors.ExactlyOnce, connectors.PerEpoch), offer(connectors.Transactional, connectors.PerEpoch),
	}}
}

// argument returns an argument of a command, "" if it is missing.
func argument(t *testing.T, d *datadriven.TestData, key string) string {
	t.Helper()
	v := ""
	if d.HasArg(key) {
		d.ScanArgs(t, key, &v)
	}
	return v
}

func explain(t *testing.T, cat *testCatalog, d *datadriven.TestData) string {
	t.Helper()
	mode, merr := ParseMode(argument(t, d, "mode"))
	if merr != nil {
		t.Fatal(merr)
	}
	n, errs := FromSelect(parseQuery(t, d.Input), cat, Options{})
	if len(errs) > 0 {
		return render(d.Input, errs)
	}
	cfg := CompileConfig{Mode: mode, Sink: SinkConfig{
		Name: "out", Sink: traitsSink{memory.NewSink(), sinkOf(argument(t, d, "sink"))},
		Guarantee: argument(t, d, "guarantee"), Visibility: argument(t, d, "visibility"),
	}}
	if d.HasArg("key") {
		cfg.Sink.Sink = keyedSink{cfg.Sink.Sink.(traitsSink), keyOf(t, n, argument(t, d, "key"))}
	}
	cfg.MaxWatermark = argument(t, d, "policy") == "max"
	if p := argument(t, d, "parallelism"); p != "" {
		var err error
		if cfg.Parallelism, err = strconv.Atoi(p); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Compile(n, cfg)
	if err != nil {
		if errs, ok := errors.AsType[Errors](err); ok {
			return render(d.Input, []*sql.Error(errs))
		}
		return err.Error()
	}
	if d.HasArg("delivery") {
		return c.Verdict.String() + "\n" + c.Delivery.String() + "\n"
	}
	out := c.Explain(d.HasArg("extended"))
	for _, o := range c.Plan.Operators {
		out += "state " + o.UID + ": " + o.Kind + " " + o.Schema + "\n"
	}
	return out
}
