package expr

import (
	"encoding/binary"
	"encoding/hex"
	"math"

	"github.com/streamd-io/streamd/messages"
)

func randomFunctions() []*Function {
	return []*Function{
		{
			Name: "rand", Aliases: []string{"random"}, Family: "random", Usage: "rand([seed])", Signature: "[bigint] -> double",
			Doc: "a number from 0.0 to below 1.0 that depends on seed and the identity of the row only", volatile: true, seeded: true, special: makeRandom(randomDouble),
		},
		{
			Name: "randn", Family: "random", Usage: "randn([seed])", Signature: "[bigint] -> double",
			Doc: "a number of the standard normal distribution that depends on seed and the identity of the row only", volatile: true, seeded: true, special: makeRandom(randomNormal),
		},
		{
			Name: "uuid", Family: "random", Usage: "uuid()", Signature: "[bigint] -> string",
			Doc: "a UUID that depends on the identity of the row only", volatile: true, seeded: true, special: makeRandom(randomUUID),
		},
	}
}

// random is a stream of numbers that belongs to one call in a query. Where rows have
// no stable identity it counts them, so results differ after a replay.
type random struct {
	seed  uint64
	count uint64
	out   messages.Column
	x     exec
	k     kernel
	typ   messages.Type
	hi    uint64
	lo    uint64
}

func makeRandom(row func(r *random) func(x *exec) error) func(*compiler, *FuncCall) (program, error) {
	return func(c *compiler, n *FuncCall) (program, error) {
		r := &random{seed: mix(c.opts.Seed + 0x9e3779b97f4a7c15), typ: n.Of}
		if len(n.Args) > 0 {
			lit, ok := Fold(n.Args[0], c.opts).(*Literal)
			if !ok {
				return nil, internalError("the seed of %s must be a constant", n.Func.Name)
			}
			v, _ := lit.Int64()
			r.seed = mix(r.seed ^ uint64(v))
		}
		for _, b := range []byte(n.Func.Name) {
			r.seed = mix(r.seed ^ uint64(b))
		}
		r.k = perRowFor(n.Of, row(r))
		return r, nil
	}
}

// mix is the finalizer of splitmix64.
func mix(v uint64) uint64 {
	v ^= v >> 30
	v *= 0xbf58476d1ce4e5b9
	v ^= v >> 27
	v *= 0x94d049bb133111eb
	return v ^ v>>31
}

func (r *random) eval(f *frame) (vec, error) {
	r.out.Reset(r.typ)
	r.out.Resize(f.n)
	r.x.f, r.x.out = f, &r.out
	if err := r.k(&r.x); err != nil {
		return vec{}, err
	}
	return column(&r.out), nil
}

// draw sets hi and lo for a row.
func (r *random) draw(x *exec) {
	var l messages.Lineage
	if x.f.b != nil {
		l = x.f.b.Lineage()
	}
	h := r.seed
	if l.A == nil {
		r.count++
		h = mix(h + r.count)
	} else {
		h = mix(mix(h^l.Base.Hi) ^ l.Base.Lo)
		h = mix(h ^ l.A[x.i])
		if l.B != nil {
			h = mix(h + 0x9e3779b97f4a7c15*(l.B[x.i]+1))
		}
	}
	r.hi, r.lo = mix(h+0x9e3779b97f4a7c15), mix(h+0x3c6ef372fe94f82a)
}

func unit(v uint64) float64 { return float64(v>>11) / (1 << 53) }

func randomDouble(r *random) func(x *exec) error {
	return func(x *exec) error { r.draw(x); x.setFloat64(unit(r.hi)); return nil }
}

// randomNormal is the transformation of Box and Muller.
func randomNormal(r *random) func(x *exec) error {
	return func(x *exec) error {
		r.draw(x)
		x.setFloat64(math.Sqrt(-2*math.Log(1-unit(r.hi))) * math.Cos(2*math.Pi*unit(r.lo)))
		return nil
	}
}

func randomUUID(r *random) func(x *exec) error {
	return func(x *exec) error {
		r.draw(x)
		var b [16]byte
		binary.BigEndian.PutUint64(b[:8], r.hi)
		binary.BigEndian.PutUint64(b[8:], r.lo)
		b[6] = b[6]&0x0f | 0x40 // version 4
		b[8] = b[8]&0x3f | 0x80 // variant 1
		for i, part := range [...][]byte{b[:4], b[4:6], b[6:8], b[8:10], b[10:]} {
			if i > 0 {
				x.buf = append(x.buf, '-')
			}
			x.buf = hex.AppendEncode(x.buf, part)
		}
		return nil
	}
}
