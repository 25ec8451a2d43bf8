package plan

import (
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// Catalog finds tables and views by name. Names are compared without regard to
// case by the catalog itself.
type Catalog interface {
	// Relation returns a *Table or a *View, nil if there is none of that name.
	Relation(name string) Relation
	// Names lists what there is, for "did you mean".
	Names() []string
}

// Relation is what a name in FROM stands for: *Table or *View.
//
//sumtype:decl
type Relation interface{ relation() }

// Table is a source or a static table: what plans say about it and the handle
// that the compiled query reads through. It is immutable.
type Table struct {
	Name   string
	Schema *messages.Schema
	// Watermark is what CREATE SOURCE declares, or nil.
	Watermark *WatermarkDecl
	// MaxRowsPerSecond bounds what a query takes from the source; 0 means no limit.
	MaxRowsPerSecond int64
	// Streaming is false for static tables.
	Streaming bool
	// Handle makes the source; nil in plans that are only checked.
	Handle Handle
}

// WatermarkDecl declares the event time of a table.
type WatermarkDecl struct {
	Column string
	Delay  time.Duration
}

// Handle is how a compiled query reads a table. It is safe for concurrent use.
type Handle interface {
	// Source is the configured source. Its schema is that of the table.
	Source() connectors.Source
	// Rows returns the function that makes the collector of one reader. needed
	// says per column of the table whether the query reads it, so that the
	// decoder can skip the others; the rows have all columns anyway, NULL where
	// skipped.
	Rows(needed []bool) func() (*connectors.Rows, error)
}

// View is a named query.
type View struct {
	Name    string
	Columns []sql.Ident
	Query   *sql.Query
}

func (*Table) relation() {}
func (*View) relation()  {}
