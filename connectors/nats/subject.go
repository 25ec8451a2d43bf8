package nats

import (
	"strings"

	"github.com/streamd-io/streamd/messages/fault"
)

// maxSubject is the longest subject a row may have, in bytes.
const maxSubject = 255

// checkSubject verifies that s is a subject, with wildcards if allowed.
func checkSubject(s string, wildcards bool) error {
	if s == "" {
		return fault.New(fault.Config, "subject is empty")
	}
	if len(s) > maxSubject {
		return fault.New(fault.Config, "subject %.40q... has %d bytes, more than %d", s, len(s), maxSubject)
	}
	tokens := strings.Split(s, ".")
	for i, t := range tokens {
		switch {
		case t == "":
			return fault.New(fault.Config, "subject %q has an empty token", s)
		case strings.ContainsFunc(t, func(r rune) bool { return r <= ' ' || r == 0x7f }):
			return fault.New(fault.Config, "subject %q holds white space or control characters", s)
		case (t == "*" || t == ">") && !wildcards:
			return fault.New(fault.Config, "subject %q holds a wildcard", s)
		case t == ">" && i != len(tokens)-1:
			return fault.New(fault.Config, "subject %q: > stands at the end only", s)
		}
	}
	return nil
}

// covers reports whether every subject that matches filter matches pattern too.
func covers(pattern, filter string) bool {
	for {
		p, prest, pmore := strings.Cut(pattern, ".")
		f, frest, fmore := strings.Cut(filter, ".")
		switch {
		case p == ">":
			return true
		case f == ">":
			return false
		case p != "*" && p != f:
			return false
		case !pmore || !fmore:
			return pmore == fmore
		}
		pattern, filter = prest, frest
	}
}

// overlaps reports whether some subject matches both filters.
func overlaps(a, b string) bool {
	for {
		p, prest, pmore := strings.Cut(a, ".")
		f, frest, fmore := strings.Cut(b, ".")
		switch {
		case p == ">" || f == ">":
			return true
		case p != "*" && f != "*" && p != f:
			return false
		case !pmore || !fmore:
			return pmore == fmore
		}
		a, b = prest, frest
	}
}
