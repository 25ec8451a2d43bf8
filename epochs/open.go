package epochs

import (
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/streamd-io/streamd/messages/fault"
)

// AtLimit reports whether something could not be made for want of space, files or
// memory, which may be there again later.
func AtLimit(err error) bool {
	return NoSpace(err) || says(err, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM)
}

// NoSpace reports whether something could not be made for want of disk space, inodes
// or quota. nil is no such error.
func NoSpace(err error) bool {
	return errors.Is(err, ErrNoSpace) || says(err, syscall.ENOSPC, syscall.EDQUOT)
}

// says looks at the text: that is all a database hands on of such an error.
func says(err error, limits ...syscall.Errno) bool {
	return err != nil && slices.ContainsFunc(limits, func(e syscall.Errno) bool { return strings.Contains(err.Error(), e.Error()) })
}

// OpenKind is the kind of a failure to open or read a checkpoint. What may pass, as a
// limit or a store that has to be reopened, is no reason to give a query up; everything
// else is for people.
func OpenKind(err error) fault.Kind {
	switch k := fault.KindOf(err); {
	case k == fault.Transient, k == fault.Restart:
		return k
	case k == fault.Internal && AtLimit(err): // nobody has classified it
		return fault.Restart
	}
	return fault.Config
}
