package actors

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages/fault"
)

// ErrSourceChanged marks a checkpoint with positions of another source than the
// graph reads; see ChangedSources.
var ErrSourceChanged = errors.New("a source is not the one of the checkpoint")

// ChangedSources compares the sources of a graph with the positions in a commit
// record. A source that took the place of another one, or that has none of the
// partitions it had, would be read from its start: rows that have been read under
// the old name or filter would come again. The error wraps ErrSourceChanged, or
// connectors.ErrForeignOffset where the source itself says that it is another one.
// Sources and partitions that are only added are no error, and neither is a source
// that cannot be read again.
func ChangedSources(ctx context.Context, g *Graph, rec *epochs.Record) error {
	var added []string
	have := map[string]bool{}
	for _, n := range g.nodes {
		if n.source == nil {
			continue
		}
		have[n.name] = true
		if !n.source.Source.Traits().Replayable {
			continue // it gives nothing that has been read
		}
		old := positions(rec, n.name)
		if len(old) == 0 {
			added = append(added, n.name)
			continue
		}
		if err := checkPartitions(ctx, n, old, rec.Query); err != nil {
			return err
		}
	}
	gone := goneSources(rec, have)
	if len(added) == 0 || len(gone) == 0 {
		return nil
	}
	return fault.Wrap(fault.Config, ErrSourceChanged, "the checkpoint holds positions of %s, which the query does not read any more, and none of %s, which it would read from the start: "+
		"rows that came from one could come again from the other; set the source back, start the query anew with --fresh %s, or accept it with --allow-dropped-state",
		quoted(gone), quoted(added), rec.Query)
}

// positions lists what a record has of a source.
func positions(rec *epochs.Record, source string) []*epochs.SourceState {
	var out []*epochs.SourceState
	for i := range rec.Sources {
		if rec.Sources[i].Source == source {
			out = append(out, &rec.Sources[i])
		}
	}
	return out
}

// goneSources names the sources of a record that are not among have.
func goneSources(rec *epochs.Record, have map[string]bool) []string {
	var gone []string
	for i := range rec.Sources {
		if s := rec.Sources[i].Source; !have[s] && !slices.Contains(gone, s) {
			gone = append(gone, s)
		}
	}
	return gone
}

func checkPartitions(ctx context.Context, n *Node, old []*epochs.SourceState, query string) error {
	now, err := n.source.Source.Partitions(ctx)
	if err != nil {
		return nil //nolint:nilerr // the attempt asks again, and knows whether waiting helps
	}
	checker, checks := n.source.Source.(connectors.OffsetChecker)
	var was []string
	kept := false
	for _, s := range old {
		was = append(was, s.Partition)
		if !slices.Contains(now, s.Partition) {
			continue
		}
		kept = true
		if !checks || len(s.Offset) == 0 {
			continue
		}
		if err := checker.CheckOffset(s.Partition, s.Offset); err != nil {
			return fault.Wrap(fault.Config, err, "%s: to start the query anew: --fresh %s; to read the source from its start: --allow-dropped-state", n.name, query)
		}
	}
	if kept || len(now) == 0 {
		return nil
	}
	return fault.Wrap(fault.Config, ErrSourceChanged, "%s: the checkpoint holds positions of %s, the source has %s now and would be read from the start: "+
		"rows could come again; set it back, start the query anew with --fresh %s, or accept it with --allow-dropped-state",
		n.name, quoted(was), quoted(now), query)
}

func quoted(names []string) string { return "'" + strings.Join(names, "', '") + "'" }

// restore takes over a position. One of another source is given up, which has been
// accepted; else ChangedSources has refused it.
func (src *sourceHalf) restore(st *epochs.SourceState, q *queryActor) {
	if c, ok := src.spec.Source.(connectors.OffsetChecker); ok && q.cfg.AllowDroppedState && len(st.Offset) > 0 {
		if err := c.CheckOffset(st.Partition, st.Offset); err != nil {
			q.sys.cfg.Log.Warn("a position is given up; the partition is read from the source's start", "query", q.cfg.Query, "source", st.Source, "partition", st.Partition, "reason", err)
			return
		}
	}
	src.offset = append(src.offset, st.Offset...)
	src.restoredWM, src.rows = st.Watermark, st.Rows
}

// reportSources says which sources begin at their start although the query goes on
// from a checkpoint, and which positions are given up.
func (q *queryActor) reportSources(partitions map[*Node][]string) {
	rec := q.cfg.From
	if rec == nil {
		return
	}
	log := q.sys.cfg.Log
	have := map[string]bool{}
	for _, n := range q.cfg.Graph.nodes {
		if n.source == nil {
			continue
		}
		have[n.name] = true
		old := positions(rec, n.name)
		for _, p := range partitions[n] {
			if !slices.ContainsFunc(old, func(s *epochs.SourceState) bool { return s.Partition == p }) {
				log.Info("the checkpoint has no position in this partition; it is read from the source's start", "query", q.cfg.Query, "source", n.name, "partition", p)
			}
		}
		for _, s := range old {
			if !slices.Contains(partitions[n], s.Partition) {
				log.Warn("the source has this partition no more; its position is given up", "query", q.cfg.Query, "source", n.name, "partition", s.Partition)
			}
		}
	}
	for _, s := range goneSources(rec, have) {
		log.Warn("the query does not read this source any more; its positions are given up", "query", q.cfg.Query, "source", s)
	}
}
