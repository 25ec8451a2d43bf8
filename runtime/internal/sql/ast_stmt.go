package sql

// Statement is one statement of a script.
//
//sumtype:decl
type Statement interface {
	Node
	statement()
}

// Option is one entry of WITH (...) or OPTIONS (...). The value is text: a
// string literal without quotes, or a number or word as written.
type Option struct {
	Span
	Key       string
	KeySpan   Span
	Value     string
	ValueSpan Span
}

// ColumnDef declares a column of a source, sink or table.
type ColumnDef struct {
	Span
	Name    Ident
	Type    TypeName
	NotNull bool
	// IsMetadata is set for METADATA [FROM 'key']; Metadata is the key, which is
	// the column name where FROM is missing.
	IsMetadata bool
	Metadata   string
	Comment    string
}

// WatermarkDef is WATERMARK FOR column AS column [- INTERVAL ...].
type WatermarkDef struct {
	Span
	Column Name
	// Delay is nil where the watermark has no delay.
	Delay *IntervalLit
}

// CreateSource is CREATE SOURCE.
type CreateSource struct {
	Span
	IfNotExists bool
	Name        Name
	Columns     []ColumnDef
	Watermark   *WatermarkDef
	// Using is the word after USING (Spark's spelling of the connector), or nil.
	Using   *Ident
	Options []Option
}

// CreateSink is CREATE SINK.
type CreateSink struct {
	Span
	IfNotExists bool
	Name        Name
	Columns     []ColumnDef
	Using       *Ident
	Options     []Option
}

// CreateTable is CREATE TABLE: a static table, or, with Query, the batch form
// CREATE TABLE ... AS SELECT.
type CreateTable struct {
	Span
	IfNotExists bool
	Name        Name
	Columns     []ColumnDef
	Using       *Ident
	Options     []Option
	Query       *Query
}

// CreateView is CREATE [OR REPLACE] [TEMP] VIEW.
type CreateView struct {
	Span
	OrReplace   bool
	Temp        bool
	IfNotExists bool
	Name        Name
	Columns     []Ident
	Query       *Query
}

// CreateQuery is CREATE QUERY name [WITH (...)] AS [INSERT INTO sink] SELECT.
type CreateQuery struct {
	Span
	IfNotExists bool
	Name        Ident
	Options     []Option
	// Sink is nil where the rows go to the console.
	Sink        *Name
	SinkColumns []Ident
	Query       *Query
}

// Insert is INSERT INTO sink [(columns)] query: a query named after its sink.
type Insert struct {
	Span
	Sink    Name
	Columns []Ident
	Query   *Query
}

// SelectStatement is a query standing alone; its rows go to the console.
type SelectStatement struct {
	Span
	Query *Query
}

// Set is SET key = value: a default for the statements below it. SET TIME ZONE
// is read as the key time_zone.
type Set struct {
	Span
	Option Option
}

// Explain is EXPLAIN [EXTENDED] statement.
type Explain struct {
	Span
	Extended  bool
	Statement Statement
}

// ShowKind says what SHOW lists.
type ShowKind uint8

// The kinds of SHOW.
const (
	ShowQueries ShowKind = iota + 1
	ShowSources
	ShowSinks
	ShowTables
	ShowViews
	ShowFunctions
)

// String returns the word as it stands in the statement.
func (k ShowKind) String() string {
	return [...]string{"", "QUERIES", "SOURCES", "SINKS", "TABLES", "VIEWS", "FUNCTIONS"}[k]
}

// Show is SHOW QUERIES | SOURCES | SINKS | TABLES | VIEWS | FUNCTIONS.
type Show struct {
	Span
	Kind ShowKind
}

// ObjectKind is a kind of named object; AnyObject where the statement does not say.
type ObjectKind uint8

// The kinds of named objects.
const (
	AnyObject ObjectKind = iota
	QueryObject
	SourceObject
	SinkObject
	TableObject
	ViewObject
	FunctionObject
)

// String returns the word as it stands in the statement; "" for AnyObject.
func (k ObjectKind) String() string {
	return [...]string{"", "QUERY", "SOURCE", "SINK", "TABLE", "VIEW", "FUNCTION"}[k]
}

// Describe is DESCRIBE [kind] [EXTENDED] name.
type Describe struct {
	Span
	Kind     ObjectKind
	Extended bool
	Name     Name
}

// Drop is DROP kind [IF EXISTS] name. Kind is never AnyObject or FunctionObject.
type Drop struct {
	Span
	Kind     ObjectKind
	IfExists bool
	Name     Name
}

func (*CreateSource) statement()    {}
func (*CreateSink) statement()      {}
func (*CreateTable) statement()     {}
func (*CreateView) statement()      {}
func (*CreateQuery) statement()     {}
func (*Insert) statement()          {}
func (*SelectStatement) statement() {}
func (*Set) statement()             {}
func (*Explain) statement()         {}
func (*Show) statement()            {}
func (*Describe) statement()        {}
func (*Drop) statement()            {}
