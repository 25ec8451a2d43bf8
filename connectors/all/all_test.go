package all_test

import (
	"context"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/connectors/all"
	"github.com/streamd-io/streamd/connectors/option"
)

func TestRecordsAreComplete(t *testing.T) {
	for _, c := range all.Connectors() {
		if c.Source == nil && c.Sink == nil {
			t.Errorf("connector %s has neither source nor sink", c.Name)
		}
		if c.Source == nil && len(c.SourceOptions) > 0 || c.Sink == nil && len(c.SinkOptions) > 0 {
			t.Errorf("connector %s has options for something it has not", c.Name)
		}
		checkDoc(t, c.Name, c.Doc)
		checkOptions(t, c.Name, c.SourceOptions)
		checkOptions(t, c.Name, c.SinkOptions)
		for _, m := range c.Metadata {
			checkDoc(t, c.Name+" metadata "+m.Name, m.Doc)
		}
	}
	for _, f := range all.Formats() {
		checkDoc(t, f.Name, f.Doc)
		checkOptions(t, f.Name, f.Options)
		if !strings.HasPrefix(f.Extension, ".") {
			t.Errorf("format %s has the extension %q, want one with a dot", f.Name, f.Extension)
		}
	}
}

func checkDoc(t *testing.T, what, doc string) {
	t.Helper()
	if doc == "" || !strings.HasSuffix(doc, ".") {
		t.Errorf("%s: the description %q is not a sentence", what, doc)
	}
}

// checkOptions makes sure that defaults pass their own checks.
func checkOptions(t *testing.T, what string, opts []option.Option) {
	t.Helper()
	seen := map[string]bool{}
	for _, o := range opts {
		checkDoc(t, what+" option "+o.Name, o.Doc)
		if seen[option.Fold(o.Name)] || o.Name != strings.ToLower(o.Name) {
			t.Errorf("%s: option %s is there twice or not in snake_case", what, o.Name)
		}
		seen[option.Fold(o.Name)] = true
		if o.Default == "" {
			continue
		}
		if _, errs := option.Parse(what, []option.Option{o}, []option.Given{{Key: o.Name, Value: o.Default}}); len(errs) > 0 {
			t.Errorf("the default: %v", errs[0])
		}
	}
}

func TestReferenceNamesEverything(t *testing.T) {
	reg, err := connectors.NewRegistry(all.Connectors(), all.Formats())
	if err != nil {
		t.Fatal(err)
	}
	page := connectors.Reference(reg)
	for _, c := range all.Connectors() {
		for _, want := range append([]string{"### " + c.Name + "\n"}, names(c.SourceOptions, c.SinkOptions)...) {
			if !strings.Contains(page, want) {
				t.Errorf("the reference page lacks %q", want)
			}
		}
	}
	for _, f := range all.Formats() {
		if !strings.Contains(page, "### "+f.Name+"\n") {
			t.Errorf("the reference page lacks format %s", f.Name)
		}
	}
	for _, line := range strings.Split(page, "\n") {
		if strings.HasPrefix(line, "| `") && strings.Count(line, "|")-strings.Count(line, `\|`) < 4 {
			t.Errorf("the line %q is not a row of a table", line)
		}
	}
}

func names(lists ...[]option.Option) []string {
	var n []string
	for _, l := range lists {
		for _, o := range l {
			n = append(n, "| `"+o.Name+"` |")
		}
	}
	return n
}

func TestSourcesAreMadeWithoutTheOutsideSystem(t *testing.T) {
	// A missing required option is found by Parse; nothing here may connect.
	for _, c := range all.Connectors() {
		if c.Source == nil {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		required := []option.Given{}
		for _, o := range c.SourceOptions {
			if o.Required {
				required = append(required, option.Given{Key: o.Name, Value: "1"})
			}
		}
		v, errs := option.Parse(c.Name, c.SourceOptions, required)
		if len(errs) > 0 {
			t.Errorf("%v", errs[0])
			continue
		}
		if _, err := c.Source(ctx, connectors.SourceConfig{Options: v}); err != nil && strings.Contains(err.Error(), context.Canceled.Error()) {
			t.Errorf("making a source of %s needs its context, so it seems to connect: %v", c.Name, err)
		}
	}
}
