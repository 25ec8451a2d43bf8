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
	Against string            `help:"Also check that the checkpoints in this directory fit the queries." placeholder:"DIR" type:"existingdir"`
	Set     map[string]string `help:"Default query option; repeatable." placeholder:"KEY=VALUE"`
}

// Run checks the file; it connects to nothing.
func (c *validateCmd) Run() error {
	return withScript(c.File, c.Against, c.Set, func(ctx context.Context, s *runtime.Session, name, text string) error {
		if err := s.Validate(ctx, name, text); err != nil {
			return err
		}
		if c.Against != "" {
			if err := s.ValidateAgainst(ctx, name, text); err != nil {
				return err
			}
		}
		fmt.Printf("%s: ok\n", name)
		return nil
	})
}

type explainCmd struct {
	File string            `arg:"" help:"SQL file, or - for standard input."`
	Set  map[string]string `help:"Default query option; repeatable." placeholder:"KEY=VALUE"`
}

// Run explains the queries of the file; it connects to nothing.
func (c *explainCmd) Run() error {
	return withScript(c.File, "", c.Set, func(ctx context.Context, s *runtime.Session, name, text string) error {
		out, err := s.ExplainScript(ctx, name, text)
		if err != nil {
			return err
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
	s, err := runtime.Open(ctx, runtime.Config{Dir: dir, Connectors: all.Connectors(), Formats: all.Formats(), Defaults: set})
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
func (c *versionCmd) Run() error {
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
