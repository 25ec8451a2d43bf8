package runtime

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// restoreEpoch is the epoch that a query is to go back to, 0: none. mu is held.
func (s *Session) restoreEpoch(query string) messages.Epoch {
	if s.started[query] {
		return 0 // it has gone back already
	}
	if e := s.cfg.RestoreEpochs[query]; e != 0 {
		return messages.Epoch(e)
	}
	return messages.Epoch(s.cfg.RestoreEpoch)
}

// checkRestore finds out whether it is clear which queries of a script are to go
// back to an older epoch. mu is held.
func (s *Session) checkRestore(sc *script) error {
	var names []string
	for _, q := range sc.queries {
		if !s.started[q.name] {
			names = append(names, q.name)
		}
	}
	if s.cfg.RestoreEpoch != 0 && len(names) > 1 {
		return fault.New(fault.Config, "--restore-epoch %d: epochs are counted per query, and there are several (%s); say --restore-epoch %s=%d",
			s.cfg.RestoreEpoch, strings.Join(names, ", "), names[0], s.cfg.RestoreEpoch)
	}
	for _, name := range slices.Sorted(maps.Keys(s.cfg.RestoreEpochs)) {
		if len(sc.queries) > 0 && !slices.Contains(names, name) && !s.started[name] {
			return fault.New(fault.Config, "--restore-epoch %s=%d: there is no query called %s (there is %s)", name, s.cfg.RestoreEpochs[name], name, cmp.Or(strings.Join(names, ", "), "none"))
		}
	}
	return nil
}
