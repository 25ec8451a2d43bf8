package messages

import (
	"bytes"
	"cmp"
	"math"
)

// Compare orders value i of a and value j of b, which have the same type:
// negative, 0 or positive. NULL comes before everything and equals NULL, also
// inside of nested values. Structs are ordered field by field and arrays element
// by element, the start of another array before it. Intervals count a day as 24
// hours and compare their months first. Maps have no order and compare as 0 only
// when they have equal entries.
func Compare(a *Column, i int, b *Column, j int) int {
	switch an, bn := a.IsNull(i), b.IsNull(j); {
	case an && bn:
		return 0
	case an:
		return -1
	case bn:
		return 1
	}
	switch a.Type().Kind {
	case Boolean:
		return compareBools(a.Bool(i), b.Bool(j))
	case TinyInt:
		return cmp.Compare(a.Int8s()[i], b.Int8s()[j])
	case SmallInt:
		return cmp.Compare(a.Int16s()[i], b.Int16s()[j])
	case Int, Date:
		return cmp.Compare(a.Int32s()[i], b.Int32s()[j])
	case BigInt, Timestamp, TimestampNTZ:
		return cmp.Compare(a.Int64s()[i], b.Int64s()[j])
	case Float:
		return CompareFloats(float64(a.Float32s()[i]), float64(b.Float32s()[j]))
	case Double:
		return CompareFloats(a.Float64s()[i], b.Float64s()[j])
	case Decimal:
		return a.Decimals()[i].Compare(b.Decimals()[j])
	case String, Binary:
		return bytes.Compare(a.Bytes(i), b.Bytes(j))
	case Interval:
		return compareIntervals(a.Intervals()[i], b.Intervals()[j])
	case Struct:
		for f := range a.Type().Fields {
			if r := Compare(a.Child(f), i, b.Child(f), j); r != 0 {
				return r
			}
		}
		return 0
	default:
		return compareLists(a, i, b, j)
	}
}

func compareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	default:
		return 1
	}
}

// CompareFloats orders floats as SQL does: -0.0 equals 0.0, NaN equals itself and
// is larger than everything else.
func CompareFloats(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	case a == b:
		return 0
	}
	return compareBools(math.IsNaN(a), math.IsNaN(b))
}

// Compare orders decimals of the same scale: negative, 0 or positive.
func (d Decimal128) Compare(e Decimal128) int {
	switch {
	case d.Hi != e.Hi:
		if d.Hi < e.Hi {
			return -1
		}
		return 1
	case d.Lo != e.Lo:
		if d.Lo < e.Lo {
			return -1
		}
		return 1
	}
	return 0
}

// compareIntervals works on whole days and the rest, as the sum of both may be
// too large for an int64.
func compareIntervals(a, b IntervalValue) int {
	ad, ar := a.days()
	bd, br := b.days()
	return cmp.Or(cmp.Compare(a.Months, b.Months), cmp.Compare(ad, bd), cmp.Compare(ar, br))
}

// days returns the part below the months as days and microseconds of a day.
func (v IntervalValue) days() (days, micros int64) {
	const perDay = 24 * 60 * 60 * 1_000_000
	days, micros = int64(v.Days), v.Nanos/1000
	days, micros = days+micros/perDay, micros%perDay
	if micros < 0 {
		return days - 1, micros + perDay
	}
	return days, micros
}

func compareLists(a *Column, i int, b *Column, j int) int {
	x, xEnd := a.Offsets()[i], a.Offsets()[i+1]
	y, yEnd := b.Offsets()[j], b.Offsets()[j+1]
	for ; x < xEnd && y < yEnd; x, y = x+1, y+1 {
		if r := Compare(a.Child(0), int(x), b.Child(0), int(y)); r != 0 {
			return r
		}
	}
	return cmp.Compare(xEnd-x, yEnd-y)
}
