package plan

import (
	"errors"
	"fmt"
	"strings"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

// StateError says that a plan cannot go on from a checkpoint. Restarting cannot
// help: its fault kind is Config.
type StateError struct {
	// Class is ClassState, ClassStateSchema or ClassStateValues.
	Class string
	// Operator is the uid of the stateful operator.
	Operator string
	// Old and New are the schemas of its state; New is "" where the plan has no such
	// operator.
	Old, New string
	text     string
}

// Error returns class and text.
func (e *StateError) Error() string { return e.Class + ": " + e.text }

// FaultKind returns fault.Config.
func (e *StateError) FaultKind() fault.Kind { return fault.Config }

// CheckState compares the plan in a commit record with a new one, operator by
// operator. Filters, projections, rates, sinks and parallelism may differ. State
// under the same uid must be of the same kind with the same keys, aggregates and
// windows. State that the new plan has no place for is an error unless
// allowDropped; operators that are new start empty. query is the query's name.
func CheckState(query string, old, now epochs.Plan, allowDropped bool) error {
	if len(old.Operators) > 0 && old.HashVersion != now.HashVersion {
		return &StateError{Class: ClassStateSchema, Operator: old.Operators[0].UID, text: fmt.Sprintf(
			"the checkpoint places keys by version %d of the key hash, this program by version %d", old.HashVersion, now.HashVersion)}
	}
	var errs []error
	for _, o := range old.Operators {
		if err := checkOperator(query, o, now, allowDropped); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return errors.Join(errs...)
}

func checkOperator(query string, o epochs.OperatorState, now epochs.Plan, allowDropped bool) error {
	for _, n := range now.Operators {
		if n.UID != o.UID {
			continue
		}
		switch {
		case n.Kind != o.Kind || n.Schema != o.Schema:
			return &StateError{Class: schemaClass(o, n), Operator: o.UID, Old: o.Schema, New: n.Schema, text: fmt.Sprintf(
				"operator %s: the checkpoint holds state of %s %s, the query needs %s %s; start the query anew (--fresh %s) or under another name",
				o.UID, o.Kind, o.Schema, n.Kind, n.Schema, query)}
		case n.Format < o.Format:
			return &StateError{Class: ClassStateSchema, Operator: o.UID, Old: o.Schema, New: n.Schema, text: fmt.Sprintf(
				"operator %s: the checkpoint was written by a newer version (format %d, this one reads up to %d)", o.UID, o.Format, n.Format)}
		}
		return nil
	}
	if allowDropped {
		return nil
	}
	var have []string
	for _, n := range now.Operators {
		have = append(have, n.UID+" ("+n.Schema+")")
	}
	text := fmt.Sprintf("operator %s: the checkpoint holds its state (%s), but the query has no such operator", o.UID, o.Schema)
	if len(have) > 0 {
		text += "; it has " + strings.Join(have, ", ")
	}
	return &StateError{
		Class: ClassState, Operator: o.UID, Old: o.Schema,
		text: text + "; --allow-dropped-state gives that state up",
	}
}

// schemaClass tells a change of the keys from one of what is kept under them.
func schemaClass(old, now epochs.OperatorState) string {
	keys := func(o epochs.OperatorState) string {
		for _, behind := range []string{" window(", " time(", " aggregates("} {
			if before, _, found := strings.Cut(o.Schema, behind); found {
				return before
			}
		}
		return o.Schema
	}
	if old.Kind == now.Kind && keys(old) == keys(now) {
		return ClassStateValues
	}
	return ClassStateSchema
}
