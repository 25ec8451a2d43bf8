package expr

import (
	"bytes"
	"regexp"
	"strings"

	"github.com/streamd-io/streamd/messages/fault"
)

func regexpFunctions() []*Function {
	return []*Function{
		{
			Name: "rlike", Aliases: []string{"regexp", "regexp_like"}, Family: "regexp", Usage: "str RLIKE regexp", Signature: "string, string -> boolean", infix: true,
			Doc: "whether the regular expression matches somewhere in str", costly: true, fails: true, make: makeRegexp(func(x *exec, re *regexp.Regexp) error {
				x.setBool(re.Match(x.bytes(0)))
				return nil
			}),
		},
		{
			Name: "regexp_extract", Family: "regexp", Usage: "regexp_extract(str, regexp[, group])", Signature: "string, string, [int] -> string",
			Doc: "the part of the first match that is in the group (1; 0 is the whole match); empty if there is none", costly: true, fails: true, make: makeRegexp(regexpExtract),
		},
		{
			Name: "regexp_extract_all", Family: "regexp", Usage: "regexp_extract_all(str, regexp[, group])", Signature: "string, string, [int] -> array<string>",
			Doc: "the parts of all matches that are in the group (1; 0 is the whole match)", costly: true, fails: true, make: makeRegexp(regexpExtractAll),
		},
		{
			Name: "regexp_replace", Family: "regexp", Usage: "regexp_replace(str, regexp, by[, pos])", Signature: "string, string, string, [int] -> string",
			Doc: "str with every match from character pos on replaced; $1 in by is group 1", costly: true, fails: true, make: makeRegexp(regexpReplace),
		},
		{
			Name: "regexp_count", Family: "regexp", Usage: "regexp_count(str, regexp)", Signature: "string, string -> int",
			Doc: "the number of matches", costly: true, fails: true, make: makeRegexp(func(x *exec, re *regexp.Regexp) error {
				x.setInt32(int32(len(re.FindAllIndex(x.bytes(0), -1))))
				return nil
			}),
		},
		{
			Name: "regexp_substr", Family: "regexp", Usage: "regexp_substr(str, regexp)", Signature: "string, string -> string",
			Doc: "the first match; NULL if there is none", costly: true, fails: true, make: makeRegexp(func(x *exec, re *regexp.Regexp) error {
				at := re.FindIndex(x.bytes(0))
				if x.isNull = at == nil; !x.isNull {
					x.buf = append(x.buf, x.bytes(0)[at[0]:at[1]]...)
				}
				return nil
			}),
		},
		{
			Name: "regexp_instr", Family: "regexp", Usage: "regexp_instr(str, regexp)", Signature: "string, string -> int",
			Doc: "the character position of the first match, from 1; 0 if there is none", costly: true, fails: true, make: makeRegexp(func(x *exec, re *regexp.Regexp) error {
				x.setInt32(0)
				if at := re.FindIndex(x.bytes(0)); at != nil {
					x.setInt32(int32(len([]rune(string(x.bytes(0)[:at[0]])))) + 1)
				}
				return nil
			}),
		},
		{
			Name: "split", Family: "regexp", Usage: "split(str, regexp[, limit])", Signature: "string, string, [int] -> array<string>",
			Doc: "str cut at the matches, into at most limit parts if that is positive", costly: true, fails: true, make: makeRegexp(splitRow),
		},
	}
}

// maxRegexp bounds the size of a regular expression, whose program may be larger.
const maxRegexp = 10_000

// regexps keeps the expression of the last row.
type regexps struct {
	text string
	re   *regexp.Regexp
	err  error
	set  bool
}

func (r *regexps) get(text string) (*regexp.Regexp, error) {
	if !r.set || r.text != text {
		r.text = strings.Clone(text)
		r.set = true
		if r.re, r.err = compileRegexp(r.text); r.err != nil {
			r.re = nil
		}
	}
	return r.re, r.err
}

func compileRegexp(text string) (*regexp.Regexp, error) {
	if len(text) > maxRegexp {
		return nil, fault.WithClass(fault.New(fault.BadRow, "the regular expression is longer than %d bytes", maxRegexp), "INVALID_PARAMETER_VALUE.PATTERN")
	}
	re, err := regexp.Compile(text)
	if err != nil {
		return nil, fault.WithClass(fault.Wrap(fault.BadRow, err, "the regular expression %q is not valid (look-around and back-references are not supported)", text), "INVALID_PARAMETER_VALUE.PATTERN")
	}
	return re, nil
}

// makeRegexp compiles a constant expression at once; the second argument is the expression.
func makeRegexp(row func(x *exec, re *regexp.Regexp) error) func(*compiler, *FuncCall) (kernel, error) {
	return func(_ *compiler, n *FuncCall) (kernel, error) {
		r := &regexps{}
		if text, ok := constText(n.Args[1]); ok {
			if _, err := r.get(text); err != nil {
				return nil, fault.Wrap(fault.Config, err, "%s", n.Func.Name)
			}
		}
		return perRowFor(n.Of, func(x *exec) error {
			re, err := r.get(x.str(1))
			if err != nil {
				return err
			}
			return row(x, re)
		}), nil
	}
}

// group is the number of the group asked for.
func group(x *exec, re *regexp.Regexp) (int, error) {
	g := 1
	if len(x.args) == 3 {
		g = int(x.int32(2))
	}
	if g < 0 || g > re.NumSubexp() {
		return 0, rowError("INVALID_PARAMETER_VALUE.REGEX_GROUP_INDEX", "the regular expression %q has %d groups, there is no group %d", re, re.NumSubexp(), g)
	}
	return g, nil
}

func regexpExtract(x *exec, re *regexp.Regexp) error {
	g, err := group(x, re)
	if err != nil {
		return err
	}
	s := x.bytes(0)
	if at := re.FindSubmatchIndex(s); at != nil && at[2*g] >= 0 {
		x.buf = append(x.buf, s[at[2*g]:at[2*g+1]]...)
	}
	return nil
}

func regexpExtractAll(x *exec, re *regexp.Regexp) error {
	g, err := group(x, re)
	if err != nil {
		return err
	}
	s := x.bytes(0)
	for _, at := range re.FindAllSubmatchIndex(s, -1) {
		if at[2*g] < 0 {
			x.out.Child(0).AppendString("")
			continue
		}
		x.out.Child(0).AppendBytes(s[at[2*g]:at[2*g+1]])
	}
	return nil
}

func regexpReplace(x *exec, re *regexp.Regexp) error {
	s, by := x.bytes(0), x.bytes(2)
	if len(x.args) == 4 {
		before := head(s, int(x.int32(3))-1)
		x.buf = append(x.buf, before...)
		s = s[len(before):]
	}
	done := 0
	for _, at := range re.FindAllSubmatchIndex(s, -1) {
		x.buf = append(x.buf, s[done:at[0]]...)
		x.buf = expand(x.buf, by, s, at)
		done = at[1]
	}
	x.buf = append(x.buf, s[done:]...)
	return nil
}

// expand writes a replacement as Java reads it: $n is a group, of as many digits as
// there are groups for, and a backslash takes away the meaning of the next character.
func expand(dst, by, s []byte, at []int) []byte {
	for i := 0; i < len(by); i++ {
		switch {
		case by[i] == '\\' && i+1 < len(by):
			i++
			dst = append(dst, by[i])
		case by[i] == '$' && i+1 < len(by) && by[i+1] >= '0' && by[i+1] <= '9':
			i++
			g := int(by[i] - '0')
			for i+1 < len(by) && by[i+1] >= '0' && by[i+1] <= '9' && 2*(10*g+int(by[i+1]-'0')) < len(at) {
				i++
				g = 10*g + int(by[i]-'0')
			}
			if 2*g < len(at) && at[2*g] >= 0 {
				dst = append(dst, s[at[2*g]:at[2*g+1]]...)
			}
		default:
			dst = append(dst, by[i])
		}
	}
	return dst
}

func splitRow(x *exec, re *regexp.Regexp) error {
	s, limit := x.bytes(0), -1
	if len(x.args) == 3 {
		limit = int(x.int32(2))
	}
	out := x.out.Child(0)
	if len(x.bytes(1)) == 0 && len(s) > 0 {
		for len(s) > 0 && (limit <= 0 || limit > 1) {
			c := head(s, 1)
			out.AppendBytes(c)
			s = s[len(c):]
			limit--
		}
		if len(s) > 0 {
			out.AppendBytes(s)
		}
		return nil
	}
	if prefix, whole := re.LiteralPrefix(); whole && len(prefix) > 0 {
		for limit <= 0 || limit > 1 {
			i := bytes.Index(s, raw(prefix))
			if i < 0 {
				break
			}
			out.AppendBytes(s[:i])
			s = s[i+len(prefix):]
			if limit > 0 {
				limit--
			}
		}
		out.AppendBytes(s)
		return nil
	}
	done, parts := 0, 1
	for _, at := range re.FindAllIndex(s, -1) {
		if limit > 0 && parts == limit {
			break
		}
		if at[1] == 0 { // an empty match at the start cuts nothing off
			continue
		}
		out.AppendBytes(s[done:at[0]])
		done = at[1]
		parts++
	}
	out.AppendBytes(s[done:])
	return nil
}
