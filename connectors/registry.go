package connectors

import (
	"slices"
	"strings"

	"github.com/streamd-io/streamd/connectors/format"
	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
)

// Registry finds connectors and formats by name. It is immutable and safe for
// concurrent use.
type Registry struct {
	connectors []Connector
	formats    []format.Format
}

// NewRegistry makes a registry; names must be unique within each list, without
// regard to case and underscores. The lists are copied.
func NewRegistry(cs []Connector, fs []format.Format) (*Registry, error) {
	seen := map[string]bool{}
	for _, c := range cs {
		if seen[option.Fold(c.Name)] {
			return nil, fault.New(fault.Config, "connectors: %q is registered twice", c.Name)
		}
		seen[option.Fold(c.Name)] = true
	}
	clear(seen)
	for _, f := range fs {
		if seen[option.Fold(f.Name)] {
			return nil, fault.New(fault.Config, "connectors: format %q is registered twice", f.Name)
		}
		seen[option.Fold(f.Name)] = true
	}
	return &Registry{connectors: slices.Clone(cs), formats: slices.Clone(fs)}, nil
}

// Connectors lists all connectors in the order of registration. The slice
// must not be changed.
func (r *Registry) Connectors() []Connector { return r.connectors }

// Formats lists all formats in the order of registration. The slice
// must not be changed.
func (r *Registry) Formats() []format.Format { return r.formats }

// Connector finds a connector; the error names the nearest one.
func (r *Registry) Connector(name string) (Connector, error) {
	names := make([]string, len(r.connectors))
	for i, c := range r.connectors {
		if option.Fold(c.Name) == option.Fold(name) {
			return c, nil
		}
		names[i] = c.Name
	}
	return Connector{}, notFound("connector", name, names)
}

// Format finds a format; the error names the nearest one.
func (r *Registry) Format(name string) (format.Format, error) {
	names := make([]string, len(r.formats))
	for i, f := range r.formats {
		if option.Fold(f.Name) == option.Fold(name) {
			return f, nil
		}
		names[i] = f.Name
	}
	return format.Format{}, notFound("format", name, names)
}

func notFound(what, name string, names []string) error {
	if n, ok := option.Nearest(name, names); ok {
		return fault.New(fault.Config, "unknown %s %q (did you mean %s?)", what, name, n)
	}
	return fault.New(fault.Config, "unknown %s %q (known: %s)", what, name, strings.Join(names, ", "))
}
