// Command streamd runs streaming queries: SQL in, results out, continuously,
// with exactly-once checkpoints in a directory.
//
//	streamd run FILE.sql         run every query of a file until a signal
//	streamd validate FILE.sql    report everything that is wrong with it
//	streamd explain FILE.sql     show plan, stages and guarantees
//	streamd checkpoints ls DIR   list, inspect and verify checkpoints
//	streamd demo                 a NATS server, a generator and three queries in one process
//	streamd version
//	streamd help COMMAND
//
// Every flag can be given as an environment variable: --log-level is
// STREAMD_LOG_LEVEL.
package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/alecthomas/kong"

	"github.com/streamd-io/streamd/runtime"
)

// The exit codes.
const (
	exitOK           = 0
	exitFailed       = 1 // a query failed, or the drain timed out
	exitUsage        = 2 // usage, configuration or SQL error
	exitIncompatible = 3 // a checkpoint does not fit the query, or is damaged
)

// exitError carries an exit code out of a command.
type exitError struct {
	code int
	err  error // nil: said already
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

type cli struct {
	Run         runCmd         `cmd:"" help:"Run every query of a SQL file until a signal, or until all have ended."`
	Validate    validateCmd    `cmd:"" help:"Check a SQL file and report everything that is wrong with it."`
	Explain     explainCmd     `cmd:"" help:"Show plan, stages, replay verdict and guarantees of every query of a file."`
	Checkpoints checkpointsCmd `cmd:"" help:"Look at the checkpoints of a directory that is not in use."`
	Demo        demoCmd        `cmd:"" help:"Run a NATS server, a generator of bids and three queries in this process."`
	Version     versionCmd     `cmd:"" help:"Print the version."`
}

func main() {
	os.Exit(realMain(os.Args[1:]))
}

func realMain(args []string) int {
	var c cli
	stop := -1
	parser, err := kong.New(&c, append(helpOptions(),
		kong.Name("streamd"),
		kong.Description("Continuous streaming queries with exactly-once results."),
		kong.DefaultEnvars("STREAMD"),
		durationMapper(),
		kong.Exit(func(code int) { stop = code }),
	)...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "streamd:", err)
		return exitUsage
	}
	args = commandLine(args)
	ctx, err := parser.Parse(args)
	if stop >= 0 { // --help has been printed
		return stop
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, usageText(err, args))
		return exitUsage
	}
	return exitCode(ctx.Run(findStrays(parser.Model, os.Environ())))
}

// exitCode prints an error that has not been printed and picks the exit code.
func exitCode(err error) int {
	if err == nil {
		return exitOK
	}
	code := exitUsage
	if e, ok := errors.AsType[*exitError](err); ok {
		if e.err == nil {
			return e.code
		}
		code = e.code
	}
	if runtime.Incompatible(err) {
		code = exitIncompatible
	}
	text := err.Error()
	if _, ok := errors.AsType[*runtime.ScriptError](err); !ok && !strings.HasPrefix(text, "streamd: ") {
		text = "streamd: " + text
	}
	fmt.Fprintln(os.Stderr, text)
	return code
}
