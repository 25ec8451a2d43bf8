package runtime

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors/option"
)

// parseUncommitted reads the option max_uncommitted: up to three bounds, rows,
// bytes and a duration, separated by commas. Those that are not given keep their
// defaults.
func parseUncommitted(text string) (actors.Uncommitted, error) {
	var u actors.Uncommitted
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		number, isRows := strings.CutSuffix(strings.ToLower(part), "rows")
		rows, err := strconv.ParseInt(strings.TrimSpace(number), 10, 64)
		bytes, berr := option.ParseBytes(part)
		d, derr := option.ParseDuration(part)
		bound := false
		switch {
		case err == nil:
			bound = rows > 0 && u.Rows == 0
			u.Rows = rows
		case isRows:
		case berr == nil:
			bound = bytes > 0 && u.Bytes == 0
			u.Bytes = bytes
		case derr == nil:
			bound = d > 0 && u.Time == 0
			u.Time = d
		}
		if !bound {
			return actors.Uncommitted{}, fmt.Errorf("%q is not a number of rows, of bytes or a duration above 0, such as '500000 rows', '64MB' or '5 minutes', each once", part)
		}
	}
	return u, nil
}
