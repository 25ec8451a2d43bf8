package runtime

import (
	"io"
	"log/slog"
	"os"

	"github.com/streamd-io/streamd/actors"
	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
)

// Config configures a session. The zero value is a session without connectors
// that keeps its checkpoints in memory; pass all.Connectors() and all.Formats()
// of package connectors/all to have those that come with streamd.
type Config struct {
	// Dir is the directory for checkpoints, made if it does not exist. Empty
	// means that checkpoints are kept in memory and end with the session.
	Dir string
	// ReadOnly opens Dir for ValidateAgainst alone: nothing is written to it, and no
	// query can start.
	ReadOnly bool
	// Connectors and Formats are what CREATE SOURCE and CREATE SINK can use.
	Connectors []connectors.Connector
	Formats    []format.Format
	// Defaults are query options such as {"epoch_interval": "100ms"} that hold
	// where a statement does not say otherwise.
	Defaults map[string]string
	// Log takes what the session has to say; nil discards it.
	Log *slog.Logger
	// Stdout is where the console sink writes; nil means os.Stdout.
	Stdout io.Writer
	// BaseDir is what relative file paths in statements are relative to; empty
	// means the working directory.
	BaseDir string
	// LookupEnv replaces ${NAME} in scripts; nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
	// AllowDroppedState lets a query start although the checkpoint holds state
	// that the query no longer has a place for.
	AllowDroppedState bool
	// RestoreEpoch, if not 0, makes the only query of a script go back to that
	// epoch; RestoreEpochs does so by name. It happens once per query.
	RestoreEpoch  uint64
	RestoreEpochs map[string]uint64
	// AcceptDuplicates lets them go back although sinks may have published newer
	// epochs and will publish their rows again.
	AcceptDuplicates bool
	// System hosts the actors; nil makes one. It is closed with the session only
	// if the session made it.
	System *actors.System
}

func (c *Config) defaults() {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Stdout == nil {
		c.Stdout = os.Stdout
	}
	if c.LookupEnv == nil {
		c.LookupEnv = os.LookupEnv
	}
}

// QueryOptions lists the options of CREATE QUERY ... WITH (...) and SET.
func QueryOptions() []option.Option {
	return []option.Option{
		{Name: "output_mode", Kind: option.Enum, Default: "append", Values: []string{"append", "update", "complete"}, Doc: "Which rows of the result table leave: final ones, changed ones, or the whole table."},
		{Name: "epoch_interval", Kind: option.Duration, Default: "1s", Doc: "Time between two checkpoints; 10ms works."},
		{Name: "emit_interval", Kind: option.Duration, Doc: "How long update and complete mode collect changes before they emit; by default 0 for update and 1s for complete, whose table goes with every epoch to a sink that shows rows per epoch."},
		{Name: "trigger", Kind: option.String, Default: "continuous", Doc: "continuous, or available_now (once): read what is there, commit, end. A duration sets emit_interval."},
		{Name: "flush_at_end", Kind: option.Bool, Default: "false", Doc: "With trigger = 'available_now': close the windows that are open when all input has been read. Rows of closed windows that come in a later run are late."},
		{Name: "late_output", Kind: option.String, Doc: "The sink for rows that an operator drops because they are behind the watermark: the row, then late_operator and late_watermark."},
		{Name: "parallelism", Kind: option.Int, Min: 1, Max: 256, Doc: "Subtasks per keyed operator; by default the number of cores, at most 4."},
		{Name: "idle_timeout", Kind: option.Duration, Default: "30s", Doc: "How long a partition must be silent and caught up until it no longer holds back the watermark; 0 means never."},
		{Name: "max_future_skew", Kind: option.Duration, Default: "5m", Doc: "A row stamped further ahead of its broker time does not move the watermark."},
		{Name: "multiple_watermark_policy", Kind: option.Enum, Default: "min", Values: []string{"min", "max"}, Doc: "Whether the slowest or the fastest of several inputs decides about the watermark; it is fixed by the first start of a query."},
		{Name: "max_uncommitted", Kind: option.String, Doc: "How much may flow while epochs cannot begin (disk full) before sources stop: rows, bytes or a duration, or several separated by commas; by default 1000000 rows, 256MB, 10 minutes."},
		{Name: "max_restarts", Kind: option.Int, Default: "10", Min: 0, Max: 1 << 30, Doc: "Failed attempts in a row, without a committed epoch between them, after which the query stays failed. A full disk is waited for."},
		{Name: "time_zone", Kind: option.String, Default: "UTC", Doc: "Time zone of the session for dates, parsing and printing of timestamps."},
		{Name: "ansi", Kind: option.Bool, Default: "true", Doc: "ANSI mode: overflow, bad casts and division by zero are errors instead of NULL."},
	}
}
