package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"github.com/streamd-io/streamd/connectors/option"
)

// envPrefix begins the names of the variables that set flags.
const envPrefix = "STREAMD_"

var (
	flagName     = regexp.MustCompile(`^--([a-z-]+)`)
	envar        = regexp.MustCompile(` \(from envar (` + envPrefix + `[A-Z_]+)="[^"]*"\)$`)
	wholeNumber  = regexp.MustCompile(`expected a valid \d+ bit u?int but got ("[^"]*")`)
	negative     = regexp.MustCompile(`^-[0-9]`)
	longFlag     = regexp.MustCompile(`^--[a-z-]+$`)
	expectedKind = regexp.MustCompile(`expected \S+ value but got "([^"]*)" \([^)]*\).*$`)
)

// commandLine turns what people type into what the parser knows: "help" and
// "--version", and numbers below 0, which it would take for flags.
func commandLine(args []string) []string {
	switch {
	case len(args) == 0:
		return args
	case args[0] == "help":
		return append(slices.Clone(args[1:]), "--help")
	case args[0] == "--version":
		return append([]string{"version"}, args[1:]...)
	}
	var out []string
	for _, a := range args {
		if n := len(out); n > 0 && negative.MatchString(a) && longFlag.MatchString(out[n-1]) {
			out[n-1] += "=" + a
			continue
		}
		out = append(out, a)
	}
	return out
}

// usageText says what is wrong with a command line and where to look.
func usageText(err error, args []string) string {
	text := err.Error()
	text = wholeNumber.ReplaceAllString(text, "want a whole number, not $1")
	text = expectedKind.ReplaceAllString(text, `a value is missing before $1`)
	text = strings.TrimSuffix(text, " before EOL")
	text = strings.ReplaceAll(text, "unexpected argument", "there is no command or argument called")
	if m := envar.FindStringSubmatch(text); m != nil {
		text = "the variable " + m[1] + ": " + strings.TrimSuffix(text, m[0])
	} else if m := flagName.FindStringSubmatch(text); m != nil {
		name := envPrefix + strings.ToUpper(strings.ReplaceAll(m[1], "-", "_"))
		given := slices.ContainsFunc(args, func(a string) bool { return a == m[0] || strings.HasPrefix(a, m[0]+"=") })
		if _, ok := os.LookupEnv(name); ok && !given {
			text += " (from the variable " + name + ")"
		}
	}
	command, what := "streamd", "commands"
	if p, ok := errors.AsType[*kong.ParseError](err); ok {
		for _, step := range p.Context.Path {
			if step.Command != nil {
				command, what = command+" "+step.Command.Name, "arguments"
			}
		}
	}
	return fmt.Sprintf("streamd: %s\nRun %s --help for its %s and flags.", text, command, what)
}

// durationMapper reads durations and says how to write one.
func durationMapper() kong.Option {
	return kong.TypeMapper(reflect.TypeFor[time.Duration](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		var text string
		if err := ctx.Scan.PopValueInto("duration", &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		switch {
		case err != nil:
			return fmt.Errorf("want a duration such as 90s or 5m, not %q", text)
		case d < 0:
			return fmt.Errorf("want a duration that is not below 0, not %s", text)
		}
		target.SetInt(int64(d))
		return nil
	}))
}

// checkDir refuses the empty name, which stands for memory inside the engine:
// nobody wants checkpoints that are gone after the run.
func checkDir(dir, usual string) error {
	if strings.TrimSpace(dir) == "" {
		return fmt.Errorf("--dir is empty, so that there is no place for checkpoints; name a directory, or leave out --dir and %sDIR to have %s", envPrefix, usual)
	}
	return nil
}

// existing checks the name of a directory to look into.
func existing(what, dir string) error {
	info, err := os.Stat(dir)
	switch {
	case dir == "":
		return fmt.Errorf("%s is empty; name the directory that was given to streamd run as --dir", what)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%s: there is no directory %s", what, dir)
	case err != nil:
		return fmt.Errorf("%s: cannot look at %s: %s", what, dir, cause(err))
	case !info.IsDir():
		return fmt.Errorf("%s: %s is not a directory", what, dir)
	}
	return nil
}

// cause is an error about a file without the name of the system call.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// strays are variables that look like ours and set nothing.
type strays []string

// findStrays compares the environment with the variables of all flags.
func findStrays(app *kong.Application, environ []string) strays {
	var known []string
	var add func(n *kong.Node)
	add = func(n *kong.Node) {
		for _, f := range n.Flags {
			known = append(known, f.Tag.Envs...)
		}
		for _, c := range n.Children {
			add(c)
		}
	}
	add(app.Node)
	var found strays
	for _, e := range environ {
		name, _, _ := strings.Cut(e, "=")
		if strings.HasPrefix(name, envPrefix) && !slices.Contains(known, name) {
			found = append(found, name)
		}
	}
	slices.Sort(found)
	for i, name := range found {
		if near, ok := option.Nearest(name, known); ok {
			found[i] += " (did you mean " + near + "?)"
		}
	}
	return found
}

// texts are the warnings about variables that are not named by a script.
func (s strays) texts(script string) []string {
	var out []string
	for _, v := range s {
		name, _, _ := strings.Cut(v, " ")
		if !strings.Contains(script, "${"+name) {
			out = append(out, "no flag is set by the variable "+v)
		}
	}
	return out
}

// warn writes the warnings to standard error.
func (s strays) warn(script string) {
	for _, text := range s.texts(script) {
		fmt.Fprintln(os.Stderr, "streamd: warning:", text)
	}
}
