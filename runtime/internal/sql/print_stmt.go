package sql

import "strings"

func (p *printer) statement(s Statement) {
	switch s := s.(type) {
	case *CreateSource:
		p.create("SOURCE", s.IfNotExists, s.Name)
		p.columns(s.Columns, s.Watermark)
		p.connector(s.Using, s.Options)
	case *CreateSink:
		p.create("SINK", s.IfNotExists, s.Name)
		p.columns(s.Columns, nil)
		p.connector(s.Using, s.Options)
	case *CreateTable:
		p.create("TABLE", s.IfNotExists, s.Name)
		p.columns(s.Columns, nil)
		p.connector(s.Using, s.Options)
		if s.Query != nil {
			p.str(" AS ")
			p.query(s.Query)
		}
	case *CreateView:
		p.createView(s)
	case *CreateQuery:
		p.createQuery(s)
	case *Insert:
		p.insert(&s.Sink, s.Columns)
		p.query(s.Query)
	case *SelectStatement:
		p.query(s.Query)
	case *Set:
		p.str("SET ")
		p.option(s.Option)
	case *Explain:
		p.str("EXPLAIN ")
		p.when(s.Extended, "EXTENDED ")
		p.statement(s.Statement)
	case *Show:
		p.str("SHOW " + s.Kind.String())
	case *Describe:
		p.str("DESCRIBE ")
		p.when(s.Kind != AnyObject, s.Kind.String()+" ")
		p.when(s.Extended, "EXTENDED ")
		p.names(s.Name.Parts, ".")
	case *Drop:
		p.str("DROP " + s.Kind.String() + " ")
		p.when(s.IfExists, "IF EXISTS ")
		p.names(s.Name.Parts, ".")
	}
}

func (p *printer) create(kind string, ifNotExists bool, name Name) {
	p.str("CREATE " + kind + " ")
	p.when(ifNotExists, "IF NOT EXISTS ")
	p.names(name.Parts, ".")
}

func (p *printer) createView(s *CreateView) {
	kind := "VIEW"
	if s.Temp {
		kind = "TEMP VIEW"
	}
	if s.OrReplace {
		kind = "OR REPLACE " + kind
	}
	p.create(kind, s.IfNotExists, s.Name)
	p.when(len(s.Columns) > 0, " ")
	p.nameList(s.Columns)
	p.str(" AS ")
	p.query(s.Query)
}

func (p *printer) createQuery(s *CreateQuery) {
	p.create("QUERY", s.IfNotExists, Name{Parts: []Ident{s.Name}})
	p.options(s.Options)
	p.str(" AS ")
	if s.Sink != nil {
		p.insert(s.Sink, s.SinkColumns)
	}
	p.query(s.Query)
}

func (p *printer) insert(sink *Name, columns []Ident) {
	p.str("INSERT INTO ")
	p.names(sink.Parts, ".")
	p.str(" ")
	p.nameList(columns)
	p.when(len(columns) > 0, " ")
}

func (p *printer) columns(list []ColumnDef, watermark *WatermarkDef) {
	if len(list) == 0 && watermark == nil {
		return
	}
	p.str(" (")
	for i, c := range list {
		p.when(i > 0, ", ")
		p.name(c.Name.Name)
		p.str(" ")
		p.typeName(c.Type)
		p.when(c.NotNull, " NOT NULL")
		p.when(c.IsMetadata, " METADATA FROM "+quoteString(c.Metadata))
		p.when(c.Comment != "", " COMMENT "+quoteString(c.Comment))
	}
	if watermark != nil {
		p.when(len(list) > 0, ", ")
		p.str("WATERMARK FOR ")
		p.names(watermark.Column.Parts, ".")
		p.str(" AS ")
		p.names(watermark.Column.Parts, ".")
		if watermark.Delay != nil {
			p.str(" - ")
			p.interval(watermark.Delay)
		}
	}
	p.str(")")
}

func (p *printer) connector(using *Ident, options []Option) {
	if using != nil {
		p.str(" USING ")
		p.name(using.Name)
	}
	p.options(options)
}

// options writes WITH (...); an empty list is left out.
func (p *printer) options(list []Option) {
	if len(list) == 0 {
		return
	}
	p.str(" WITH (")
	for i, o := range list {
		p.when(i > 0, ", ")
		p.option(o)
	}
	p.str(")")
}

func (p *printer) option(o Option) {
	plain := true
	for part := range strings.SplitSeq(o.Key, ".") {
		plain = plain && isPlainName(part)
	}
	if plain {
		p.str(o.Key)
	} else {
		p.str(quoteString(o.Key))
	}
	p.str(" = " + quoteString(o.Value))
}
