package sql

import (
	"fmt"
	"strconv"
	"strings"
)

// typeWords are the names of types, for hints.
var typeWords = strings.Fields(`boolean tinyint byte smallint short int integer bigint long float real double
decimal dec numeric string varchar char binary date timestamp timestamp_ntz timestamp_ltz interval array map struct void`)

// simpleType returns the type of a word that takes no parameters.
func simpleType(word string) (TypeKind, bool) {
	switch strings.ToLower(word) {
	case "boolean":
		return BooleanType, true
	case "tinyint", "byte":
		return TinyIntType, true
	case "smallint", "short":
		return SmallIntType, true
	case "int", "integer":
		return IntType, true
	case "bigint", "long":
		return BigIntType, true
	case "float", "real":
		return FloatType, true
	case "double":
		return DoubleType, true
	case "string":
		return StringType, true
	case "binary":
		return BinaryType, true
	case "date":
		return DateType, true
	case "timestamp", "timestamp_ltz":
		return TimestampType, true
	case "timestamp_ntz":
		return TimestampNTZType, true
	case "void":
		return VoidType, true
	}
	return 0, false
}

// typeName reads a data type.
func (p *parser) typeName() TypeName {
	t := p.peek()
	if t.kind != tokenWord {
		p.unexpected("a data type")
	}
	p.enter()
	defer p.leave()
	word := t.span().In(p.src)
	if kind, ok := simpleType(word); ok {
		p.next()
		return &SimpleType{Span: t.span(), Kind: kind}
	}
	switch t.text {
	case "DECIMAL", "DEC", "NUMERIC":
		return p.decimalType()
	case "VARCHAR", "CHAR", "CHARACTER":
		p.next()
		p.expect("(")
		n := p.typeNumber("length", 1, 1<<31-1)
		p.expect(")")
		return &SimpleType{Span: p.from(t.start), Kind: StringType, Length: n}
	case "INTERVAL":
		return p.intervalType()
	case "ARRAY":
		p.next()
		p.expect("<")
		element := p.typeName()
		p.closeAngle()
		return &ArrayType{Span: p.from(t.start), Element: element}
	case "MAP":
		p.next()
		p.expect("<")
		key := p.typeName()
		p.expect(",")
		value := p.typeName()
		p.closeAngle()
		return &MapType{Span: p.from(t.start), Key: key, Value: value}
	case "STRUCT":
		return p.structType()
	}
	hint := "types are boolean, tinyint, smallint, int, bigint, float, double, decimal(p,s), string, binary, date, timestamp, timestamp_ntz, interval, array<>, map<,>, struct<>"
	if w, ok := Nearest(word, typeWords); ok {
		hint = fmt.Sprintf("did you mean %s?", strings.ToUpper(w))
	}
	switch strings.ToLower(word) {
	case "text", "json", "uuid":
		hint = "did you mean STRING?"
	case "datetime":
		hint = "did you mean TIMESTAMP?"
	case "bool":
		hint = "did you mean BOOLEAN?"
	}
	if !p.lenient {
		p.failAt(t.span(), "unknown data type "+p.describe(t), hint)
	}
	p.later = append(p.later, &Error{Class: ClassSyntax, Msg: "unknown data type " + p.describe(t), Hint: hint, Span: t.span()})
	p.next()
	if p.accept("(") { // as in NUMBER(10)
		for !p.is(")") && p.peek().kind != tokenEOF {
			p.next()
		}
		p.expect(")")
	}
	return &SimpleType{Span: t.span(), Kind: VoidType}
}

// closeAngle reads one ">", which the lexer may have joined with the next ones.
func (p *parser) closeAngle() {
	t := p.peek()
	if t.is(">>") || t.is(">>>") {
		// Splitting is safe to do in place: nothing goes back behind a type.
		p.toks[p.pos].text = t.text[1:]
		p.toks[p.pos].start++
		return
	}
	p.expect(">")
}

func (p *parser) decimalType() TypeName {
	t := p.next()
	d := &DecimalType{Precision: 10}
	if p.accept("(") {
		d.Precision = p.typeNumber("precision", 1, 38)
		if p.accept(",") {
			d.Scale = p.typeNumber("scale", 0, d.Precision)
		}
		p.expect(")")
	}
	d.Span = p.from(t.start)
	return d
}

// typeNumber reads an integer from low to high.
func (p *parser) typeNumber(what string, low, high int) int {
	t := p.peek()
	if t.kind != tokenNumber {
		p.unexpected("a number for the " + what)
	}
	p.next()
	n, err := strconv.Atoi(t.span().In(p.src))
	if err != nil || n < low || n > high {
		p.failAt(t.span(), fmt.Sprintf("%s must be a whole number from %d to %d", what, low, high), "")
	}
	return n
}

func (p *parser) intervalType() TypeName {
	t := p.next()
	it := &IntervalType{}
	from, ok := fieldByName(p.peek().span().In(p.src))
	if ok && p.peek().kind == tokenWord {
		p.next()
		it.From, it.To = from, from
		if p.is("TO") {
			p.next()
			to, ok := fieldByName(p.peek().span().In(p.src))
			if !ok || to <= from || (from <= MonthUnit) != (to <= MonthUnit) {
				p.unexpected("a smaller field of the same kind of interval")
			}
			p.next()
			it.To = to
		}
	}
	it.Span = p.from(t.start)
	return it
}

func (p *parser) structType() TypeName {
	t := p.next()
	s := &StructType{}
	if p.accept("<>") {
		s.Span = p.from(t.start)
		return s
	}
	p.expect("<")
	for {
		start := p.peek().start
		f := StructField{Name: p.fieldName("field")}
		p.accept(":")
		f.Type = p.typeName()
		f.NotNull = p.acceptSeq("NOT", "NULL")
		if p.accept("COMMENT") {
			f.Comment = p.str("comment").Value
		}
		f.Span = p.from(start)
		s.Fields = append(s.Fields, f)
		if !p.accept(",") {
			break
		}
	}
	p.closeAngle()
	s.Span = p.from(t.start)
	return s
}
