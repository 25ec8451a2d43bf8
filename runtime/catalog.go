package runtime

import (
	"maps"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/plan"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// catalog knows the sources, tables, views and sinks of a session. Sources,
// tables and views share one name space, sinks have their own. Names are
// compared without regard to case. It is guarded by the session.
type catalog struct {
	sources map[string]*definition // streaming and static
	views   map[string]*plan.View
	sinks   map[string]*definition
	texts   map[string]string // of views, for DESCRIBE
	order   []string          // keys of everything, in the order of definition
	// broken and brokenSinks are names whose definition failed: they may still be what
	// a misspelt name means. They are of one script, which fails.
	broken, brokenSinks []string
}

func newCatalog() *catalog {
	return &catalog{sources: map[string]*definition{}, views: map[string]*plan.View{}, sinks: map[string]*definition{}, texts: map[string]string{}}
}

// clone returns a copy that can be changed without changing c.
func (c *catalog) clone() *catalog {
	return &catalog{
		sources: maps.Clone(c.sources), views: maps.Clone(c.views), sinks: maps.Clone(c.sinks), texts: maps.Clone(c.texts),
		order: slices.Clone(c.order),
	}
}

func key(name string) string { return strings.ToLower(name) }

func (c *catalog) addSource(d *definition) {
	c.sources[key(d.name)] = d
	c.order = append(c.order, d.name)
}

func (c *catalog) addSink(d *definition) { c.sinks[key(d.name)] = d; c.order = append(c.order, d.name) }

func (c *catalog) addView(v *plan.View) {
	if c.views[key(v.Name)] == nil {
		c.order = append(c.order, v.Name)
	}
	c.views[key(v.Name)] = v
}

// taken reports whether a source, table or view has the name.
func (c *catalog) taken(name string) bool {
	return c.sources[key(name)] != nil || c.views[key(name)] != nil
}

// names lists what satisfies keep, in the order of definition.
func (c *catalog) names(keep func(k string) bool) []string {
	var out []string
	for _, n := range c.order {
		if keep(key(n)) && !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	return out
}

// sink finds a sink; the error names the nearest one.
func (c *catalog) sink(n sql.Name) (*definition, *sql.Error) {
	if d := c.sinks[key(n.String())]; d != nil {
		return d, nil
	}
	e := configError(n.Span, classUnknown, "there is no sink %s", n)
	all := append(c.names(func(k string) bool { return c.sinks[k] != nil }), c.brokenSinks...)
	if c.taken(n.String()) {
		e.Hint = n.String() + " can be read only; define where to write to with CREATE SINK"
	} else if near, ok := option.Nearest(n.String(), all); ok {
		e.Hint = "did you mean " + near + "?"
	} else if len(all) == 0 {
		e.Hint = "define it with CREATE SINK"
	}
	return nil, e
}

// view of the catalog that plans are made with. handles are made per query: each
// query has its own readers.
type planCatalog struct {
	*catalog
	open    func(d *definition) (*handle, error)
	handles map[*definition]*handle
	fail    func(d *definition, err error)
}

// Relation finds a source, table or view.
func (p *planCatalog) Relation(name string) plan.Relation {
	if v := p.views[key(name)]; v != nil {
		return v
	}
	d := p.sources[key(name)]
	if d == nil {
		return nil
	}
	if d.broken {
		return &plan.Table{Name: d.name, Schema: d.schema, Watermark: d.watermark, Streaming: d.streaming}
	}
	h := p.handles[d]
	if h == nil {
		var err error
		if h, err = p.open(d); err != nil {
			p.fail(d, err)
			return &plan.Table{Name: d.name, Schema: orEmpty(d.schema), Watermark: d.watermark, Streaming: d.streaming}
		}
		p.handles[d] = h
	}
	return &plan.Table{Name: d.name, Schema: h.source.Schema(), Watermark: d.watermark, Streaming: d.streaming, MaxRowsPerSecond: d.maxRows(), Handle: h}
}

func orEmpty(s *messages.Schema) *messages.Schema {
	if s == nil {
		return &messages.Schema{}
	}
	return s
}

// Names lists sources, tables and views.
func (p *planCatalog) Names() []string {
	return append(p.names(func(k string) bool { return p.taken(k) }), p.broken...)
}
