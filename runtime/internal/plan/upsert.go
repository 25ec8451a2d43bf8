package plan

import (
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/runtime/internal/expr"
)

// upsert says whether the last row per key of a sink is the right one after a
// replay.
type upsert struct {
	ok bool
	// reason says why it is, or why not.
	reason string
	// hint is set when the sink's key does not fit the rows of the result: rows of
	// different groups would replace each other, or changes of one would not.
	hint string
}

// upsertOf judges a sink that keeps the last row per key. A sink that is not
// Keyed takes the columns of the update key.
func upsertOf(cfg *CompileConfig, out *Compiled) upsert {
	keyed, ok := cfg.Sink.Sink.(connectors.Keyed)
	if !ok {
		if cfg.Mode != Update || out.UpdateKey == nil {
			return upsert{}
		}
		return repeats(cfg, out, "the sink keeps the last row per group key")
	}
	agg, above := groupsOf(out.optimized, cfg.Mode)
	if agg == nil {
		if out.Verdict.Replay > Total {
			return upsert{reason: out.Verdict.Operator + ": " + out.Verdict.Reason}
		}
		return upsert{ok: true, reason: "a replay writes the same rows again, and the last one per key counts"}
	}
	if u := fit(keyed.Key(), agg, above, out.optimized.Columns()); !u.ok {
		return u
	}
	return repeats(cfg, out, "the key tells the groups apart and the last row of each counts; readers may see older ones during recovery")
}

// repeats makes sure that a replay writes every key again that was written after
// the last checkpoint: that it meets the same groups.
func repeats(cfg *CompileConfig, out *Compiled, reason string) upsert {
	agg, _ := groupsOf(out.optimized, cfg.Mode)
	if agg == nil {
		return upsert{ok: true, reason: reason}
	}
	final := *cfg
	final.Mode = Append // that intermediate results differ does not matter
	if v := verdictOf(agg, &final); v.Replay > IDStable {
		return upsert{reason: v.Operator + ": " + v.Reason}
	}
	return upsert{ok: true, reason: reason}
}

// groupsOf finds the aggregation whose groups are the rows of a result, and the
// result's columns as expressions over its columns. It is nil if rows are no
// groups, or only some of them in a mode that does not take back the others.
func groupsOf(n Node, mode Mode) (*Aggregate, []expr.Node) {
	cols := n.Columns()
	all := make([]expr.Node, len(cols))
	for i, c := range cols {
		all[i] = expr.NewColumn(i, c.Name, c.Type)
	}
	for {
		switch x := n.(type) {
		case *Project:
			for i, e := range all {
				all[i] = substitute(e, x.Exprs)
			}
			n = x.Input
		case *Filter:
			n = x.Input
		case *Alias:
			n = x.Input
		case *Sort:
			n = x.Input
		case *Limit:
			if mode != Complete {
				return nil, nil
			}
			n = x.Input
		case *Aggregate:
			return x, all
		default:
			return nil, nil
		}
	}
}

// fit compares the parts of a key with the groups of agg: each group must be
// among them, and nothing that changes within a group. result are the columns of
// the result over those of agg.
func fit(key []connectors.KeyPart, agg *Aggregate, result []expr.Node, names []Column) upsert {
	has := make([]bool, len(agg.Groups))
	for _, k := range key {
		e := result[k.Column]
		name := names[k.Column].Name
		if k.Field != "" {
			name += "." + k.Field
		}
		if g, ok := groupOf(agg, e); ok && (k.Field == "" || isWindow(e.Type())) {
			has[g] = true
			continue
		}
		if !constant(agg, e) {
			return upsert{
				reason: "column " + name + " of the key is no grouping column: each change of a row would get a key of its own",
				hint:   "leave {" + name + "} out of the key",
			}
		}
	}
	for g, ok := range has {
		if ok {
			continue
		}
		column := ""
		for i, e := range result {
			if at, ok := groupOf(agg, e); ok && at == g && column == "" {
				column = names[i].Name
				if isWindow(e.Type()) {
					column += ".start"
				}
			}
		}
		if column == "" {
			return upsert{
				reason: "grouping column " + agg.cols[g].Name + " is not in the result, so that its rows cannot be told apart by a key",
				hint:   "select " + agg.cols[g].Name + " and add it to the key",
			}
		}
		return upsert{
			reason: "the key lacks grouping column " + column + ": rows of different groups would replace each other",
			hint:   "add {" + column + "} to the key, separated by a dot",
		}
	}
	return upsert{ok: true}
}

// groupOf tells which group an expression over the columns of agg is the value
// of; a window is known by its start or its end, too.
func groupOf(agg *Aggregate, e expr.Node) (int, bool) {
	if f, ok := e.(*expr.Field); ok && isWindow(f.X.Type()) {
		e = f.X
	}
	c, ok := e.(*expr.Column)
	if !ok || c.Index >= len(agg.Groups) {
		return 0, false
	}
	return c.Index, true
}

// constant reports whether an expression has one value per group.
func constant(agg *Aggregate, e expr.Node) bool {
	ok := expr.Deterministic(e) && clocks([]expr.Node{e}) == nil
	expr.Walk(e, func(e expr.Node) bool {
		if c, is := e.(*expr.Column); is && c.Index >= len(agg.Groups) {
			ok = false
		}
		return ok
	})
	return ok
}

// keyFault reports whether the key of the sink is at fault in a mode that
// changes rows.
func (u upsert) keyFault(m Mode) bool { return u.hint != "" && m != Append }

// alternative is the hint for a key that does not fit.
func (u upsert) alternative() string {
	return strings.Join([]string{u.hint, "or set guarantee = 'at_least_once' to keep whichever row comes last"}, ", ")
}
