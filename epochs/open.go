package epochs

import (
	"slices"
	"strings"
	"syscall"

	"github.com/streamd-io/streamd/messages/fault"
)

// AtLimit reports whether something could not be made for want of space, files or
// memory, which may be there again later. It looks at the text, too: that is all a
// database hands on of such an error.
func AtLimit(err error) bool {
	limits := []syscall.Errno{syscall.ENOSPC, syscall.EDQUOT, syscall.EFBIG, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM}
	return slices.ContainsFunc(limits, func(e syscall.Errno) bool { return strings.Contains(err.Error(), e.Error()) })
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
