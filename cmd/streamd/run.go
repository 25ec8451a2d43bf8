package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
	"github.com/streamd-io/streamd/runtime/httpapi"
)

// logFlags are shared by the commands that log.
type logFlags struct {
	LogFormat string `help:"Format of the log on stderr: text or json." enum:"text,json" default:"text"`
	LogLevel  string `help:"Least level that is logged: debug, info, warn or error." enum:"debug,info,warn,error" default:"info"`
}

func (f *logFlags) logger(w io.Writer) *slog.Logger {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.LogLevel)); err != nil {
		level = slog.LevelInfo // the flag is an enum
	}
	opts := &slog.HandlerOptions{Level: level, ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Value.Kind() == slog.KindDuration { // as text in JSON, too
			a.Value = slog.StringValue(a.Value.Duration().String())
		}
		return a
	}}
	if f.LogFormat == "json" {
		return slog.New(slog.NewJSONHandler(w, opts))
	}
	return slog.New(slog.NewTextHandler(w, opts))
}

type runCmd struct {
	File              string            `arg:"" help:"SQL file, or - for standard input."`
	Dir               string            `help:"Directory for checkpoints; the same command with the same directory resumes." default:"streamd-data" type:"path"`
	Set               map[string]string `help:"Default query option, such as epoch_interval=100ms; repeatable (in STREAMD_SET: separated by ;)." placeholder:"KEY=VALUE"`
	AvailableNow      bool              `help:"Read what is there, commit and end."`
	HTTP              string            `name:"http" help:"Serve health, metrics and progress on this loopback address, such as 127.0.0.1:8080." placeholder:"ADDR"`
	ExitOnFailure     bool              `help:"End when a query has failed."`
	Fresh             []string          `help:"Forget this query's checkpoint; repeatable." placeholder:"NAME"`
	AllowDroppedState bool              `help:"Give up state and positions that do not fit."`
	RestoreEpoch      []string          `help:"Go back to this retained epoch (N: one query)." placeholder:"NAME=N"`
	AcceptDuplicates  bool              `help:"Go back although rows will be published twice."`
	ShutdownTimeout   time.Duration     `help:"How long the first signal waits for the drain." default:"20s"`
	logFlags
}

// Run runs the file.
func (c *runCmd) Run(unknown strays) error {
	// Signals count from here on: one that comes while queries start drains them.
	signals, done := watchSignals()
	defer done()
	if err := checkDir(c.Dir, "streamd-data"); err != nil {
		return err
	}
	text, name, err := readScript(c.File)
	if err != nil {
		return err
	}
	log := c.logger(os.Stderr)
	for _, w := range unknown.texts(text) {
		log.Warn(w)
	}
	defaults := c.Set
	if c.AvailableNow {
		if defaults == nil {
			defaults = map[string]string{}
		}
		defaults["trigger"] = "available_now"
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	epoch, epochs, err := restoreEpochs(c.RestoreEpoch)
	if err != nil {
		return err
	}
	s, err := runtime.Open(ctx, runtime.Config{
		Dir: c.Dir, Connectors: all.Connectors(), Formats: all.Formats(), Defaults: defaults, Log: log,
		AllowDroppedState: c.AllowDroppedState, RestoreEpoch: epoch, RestoreEpochs: epochs, AcceptDuplicates: c.AcceptDuplicates,
	})
	if err != nil {
		return err
	}
	err = c.runSession(ctx, s, &job{log: log, name: name, text: text, signals: signals})
	if cerr := s.Close(); err == nil && cerr != nil {
		err = cerr
	}
	return err
}

// noQuery is said of files that start nothing.
const noQuery = "there is no query in the file"

// job is what a run carries out.
type job struct {
	log        *slog.Logger
	name, text string
	signals    <-chan os.Signal
}

func (c *runCmd) runSession(ctx context.Context, s *runtime.Session, j *job) error {
	log := j.log
	var address net.Listener
	if c.HTTP != "" {
		l, err := httpapi.Bind(ctx, c.HTTP)
		if err != nil {
			return fmt.Errorf("--http: %w", err)
		}
		address = l
		defer l.Close() //nolint:errcheck // the server closes it, if it came to that
	}
	// Nothing may be forgotten for a file that cannot run.
	o, err := s.Outline(ctx, j.name, j.text)
	if err != nil {
		return err
	}
	if len(o.Queries)+len(o.Drops) == 0 && !o.Prints {
		return fmt.Errorf("%s: %s; add a SELECT, or INSERT INTO a sink ... SELECT", j.name, noQuery)
	}
	if err := c.forget(s, log, o.Queries); err != nil {
		return err
	}
	s.AddListener(&stateLog{log: log})
	if err := s.ExecNamed(ctx, j.name, j.text); err != nil {
		return err
	}
	c.reportStored(s, log)
	if address != nil {
		srv := httpapi.Serve(address, s)
		log.Info("serving http", "address", "http://"+srv.Addr())
		defer func() {
			if err := srv.Close(); err != nil {
				log.Warn("close http server", "error", err)
			}
		}()
	}
	if len(o.Queries) == 0 {
		log.Warn(noQuery, "file", j.name)
		return nil
	}
	return c.wait(ctx, s, log, j.signals)
}

// forget carries out --fresh, given the queries of the file.
func (c *runCmd) forget(s *runtime.Session, log *slog.Logger, queries []string) error {
	removed, err := s.Forget(c.Fresh, queries)
	for _, q := range c.Fresh {
		switch {
		case slices.Contains(removed, q):
			log.Info("checkpoint removed (--fresh)", "query", q)
		case err == nil:
			log.Warn("--fresh: the query has no checkpoint", "query", q)
		}
	}
	return err
}

// reportStored lists the queries that have a checkpoint but are not in the file.
func (c *runCmd) reportStored(s *runtime.Session, log *slog.Logger) {
	stored, err := s.Stored()
	if err != nil {
		log.Warn("list checkpoints", "error", err)
		return
	}
	stored = slices.DeleteFunc(stored, func(n string) bool { return s.Query(n) != nil })
	if len(stored) > 0 {
		log.Info("checkpoints of queries that are not in the file are left alone", "queries", strings.Join(stored, ", "))
	}
}

// wait runs until all queries are over or the first signal comes, which drains.
func (c *runCmd) wait(ctx context.Context, s *runtime.Session, log *slog.Logger, signals <-chan os.Signal) error {
	over := make(chan error, 1)
	go func() { over <- c.waitQueries(ctx, s) }()
	select {
	case err := <-over:
		return outcome(s, err)
	case sig := <-signals:
		log.Info("draining; a second signal ends at once", "signal", sig.String(), "timeout", c.ShutdownTimeout)
	}
	stopCtx, cancel := context.WithTimeout(ctx, c.ShutdownTimeout)
	defer cancel()
	if err := s.Stop(stopCtx); err != nil && stopCtx.Err() != nil {
		return &exitError{code: exitFailed, err: err}
	}
	return outcome(s, nil) // queries that have failed were logged
}

// waitQueries waits until all queries are over, or until the first one failed if
// that ends the run.
func (c *runCmd) waitQueries(ctx context.Context, s *runtime.Session) error {
	if !c.ExitOnFailure {
		return s.Wait(ctx)
	}
	for len(s.Active()) > 0 {
		if _, err := s.WaitAny(ctx); err != nil {
			return err
		}
	}
	return nil
}

// outcome turns the ends of the queries into the exit code; the failures have
// been logged.
func outcome(s *runtime.Session, err error) error {
	code := exitOK
	for _, q := range s.Queries() {
		qerr := q.Err()
		switch {
		case qerr == nil:
		case runtime.Incompatible(qerr):
			code = exitIncompatible
		case code == exitOK:
			code = exitFailed
		}
	}
	if code == exitOK && err != nil {
		return &exitError{code: exitFailed, err: err}
	}
	if code != exitOK {
		return &exitError{code: code}
	}
	return nil
}

// stateLog logs the life of queries.
type stateLog struct{ log *slog.Logger }

func (l *stateLog) OnStarted(q *runtime.Query) {
	l.log.Info("query started", "query", q.Name(), "run", q.RunID())
}
func (l *stateLog) OnProgress(*runtime.Query, *runtime.Progress) {}
func (l *stateLog) OnTerminated(q *runtime.Query, err error) {
	if err != nil {
		return // logged by the engine
	}
	if p := q.LastProgress(); p != nil {
		r := q.Rows()
		l.log.Info("query "+q.Status().State, "query", q.Name(), "epoch", p.BatchID, "rows_in", r.In, "rows_out", r.Out, "late", r.Late, "bad", r.Bad)
	} else {
		l.log.Info("query "+q.Status().State, "query", q.Name())
	}
}

// readScript reads a file, or standard input for "-".
func readScript(file string) (text, name string, err error) {
	if file == "-" {
		b, err := io.ReadAll(os.Stdin)
		return string(b), "stdin", err
	}
	b, err := os.ReadFile(file)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", "", fmt.Errorf("file %s does not exist", file)
	case errors.Is(err, syscall.EISDIR):
		return "", "", fmt.Errorf("%s is a directory; name a SQL file in it", file)
	case err != nil:
		return "", "", fmt.Errorf("cannot read %s: %s", file, cause(err))
	}
	return string(b), file, nil
}
