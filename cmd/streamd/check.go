package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	goruntime "runtime"
	"runtime/debug"

	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/runtime"
)

type validateCmd struct {
	File    string            `arg:"" help:"SQL file, or - for standard input."`
	Against *string           `help:"Also check that the checkpoints in this directory fit the queries." placeholder:"DIR"`
	Set     map[string]string `help:"Default query option; repeatable (in STREAMD_SET: separated by ;)." placeholder:"KEY=VALUE"`
}

// Run checks the file; it connects to nothing.
func (c *validateCmd) Run(unknown strays) error {
	dir := ""
	if c.Against != nil {
		dir = *c.Against
		if err := existing("--against", dir); err != nil {
			return err
		}
		dir = stateDir(dir)
	}
	return withScript(c.File, dir, c.Set, func(ctx context.Context, s *runtime.Session, name, text string) error {
		unknown.warn(text)
		o, err := s.Outline(ctx, name, text)
		if err != nil {
			return err
		}
		for _, n := range o.Notes {
			fmt.Fprintln(os.Stderr, n)
		}
		if dir != "" {
			if err := s.ValidateAgainst(ctx, name, text); err != nil {
				return err
			}
		}
		if len(o.Queries) == 0 {
			fmt.Fprintf(os.Stderr, "%s: warning: %s\n", name, noQuery)
		}
		fmt.Printf("%s: ok\n", name)
		return nil
	})
}

type explainCmd struct {
	File string            `arg:"" help:"SQL file, or - for standard input."`
	Set  map[string]string `help:"Default query option; repeatable (in STREAMD_SET: separated by ;)." placeholder:"KEY=VALUE"`
}

// Run explains the queries of the file; it connects to nothing.
func (c *explainCmd) Run(unknown strays) error {
	return withScript(c.File, "", c.Set, func(ctx context.Context, s *runtime.Session, name, text string) error {
		unknown.warn(text)
		out, err := s.ExplainScript(ctx, name, text)
		if err != nil {
			return err
		}
		if out == "" {
			out = name + ": " + noQuery + "; nothing to explain\n"
		}
		fmt.Print(out)
		return nil
	})
}

// withScript opens a session that runs nothing.
func withScript(file, dir string, set map[string]string, f func(ctx context.Context, s *runtime.Session, name, text string) error) error {
	text, name, err := readScript(file)
	if err != nil {
		return err
	}
	ctx := context.Background()
	s, err := runtime.Open(ctx, runtime.Config{Dir: dir, ReadOnly: true, Connectors: all.Connectors(), Formats: all.Formats(), Defaults: set, Log: (&logFlags{LogLevel: "warn"}).logger(os.Stderr)})
	if err != nil {
		return err
	}
	err = f(ctx, s, name, text)
	if cerr := s.Close(); err == nil {
		err = cerr
	}
	return err
}

// version is set by the linker.
var version = "dev"

type versionCmd struct {
	JSON bool `help:"Print as JSON."`
}

// Run prints the version.
func (c *versionCmd) Run(unknown strays) error {
	unknown.warn("")
	v := map[string]string{"version": version, "go": goruntime.Version(), "os": goruntime.GOOS, "arch": goruntime.GOARCH}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				v["revision"] = s.Value
			}
		}
	}
	if c.JSON {
		return json.NewEncoder(os.Stdout).Encode(v)
	}
	fmt.Printf("streamd %s (%s, %s/%s)\n", v["version"], v["go"], v["os"], v["arch"])
	return nil
}
