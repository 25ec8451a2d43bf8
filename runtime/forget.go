package runtime

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
)

// Forget removes the checkpoints of the named queries before a script runs that has
// the given queries, and returns those that had one. A name that neither the script
// nor the directory knows is an error, and so is one that is to go back to an older
// epoch too; nothing is removed then.
func (s *Session) Forget(names, queries []string) (removed []string, err error) {
	stored, err := s.Stored()
	if err != nil {
		return nil, err
	}
	known := slices.Concat(queries, stored)
	for _, name := range names {
		if !slices.Contains(known, name) {
			hint := "queries: " + cmp.Or(strings.Join(slices.Compact(slices.Sorted(slices.Values(known))), ", "), "none")
			if near, ok := option.Nearest(name, known); ok {
				hint = "did you mean " + near + "?"
			}
			return nil, fault.New(fault.Config, "--fresh %s: neither the file nor the directory has a query of that name (%s)", name, hint)
		}
		if s.cfg.RestoreEpochs[name] != 0 || s.cfg.RestoreEpoch != 0 && slices.Contains(queries, name) {
			return nil, fault.New(fault.Config, "--fresh %s and --restore-epoch contradict each other: one removes the checkpoint, the other goes back in it; nothing was changed", name)
		}
	}
	if slices.ContainsFunc(names, func(name string) bool { return !slices.Contains(stored, name) }) {
		shared, err := s.stores.shared(context.Background())
		if err != nil {
			return nil, err
		}
		stored = slices.Concat(stored, shared)
	}
	for _, name := range names {
		if !slices.Contains(stored, name) {
			continue
		}
		if err := s.Fresh(name); err != nil {
			return removed, err
		}
		removed = append(removed, name)
	}
	return removed, nil
}
