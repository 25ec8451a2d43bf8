package runtime

import (
	"errors"
	goruntime "runtime"
	"slices"
	"strings"
	"time"

	"github.com/streamd-io/streamd/connectors/option"
	"github.com/streamd-io/streamd/messages/fault"
	"github.com/streamd-io/streamd/runtime/internal/sql"
)

// queryOptions checks the options of a query: those of the statement, then those
// set before it in the script, then the session's defaults.
func (s *Session) queryOptions(own, sets []sql.Option) (option.Values, []*sql.Error) {
	var errs []*sql.Error
	all := slices.Clone(own)
	add := func(o sql.Option) {
		if _, ok := lookup(all, o.Key); !ok {
			all = append(all, o)
		}
	}
	for _, o := range slices.Backward(sets) {
		add(o)
	}
	for k, v := range s.cfg.Defaults {
		add(sql.Option{Key: k, Value: v})
	}
	v, bad := option.Parse("query", QueryOptions(), given(all))
	errs = append(errs, optionErrors(sql.Span{}, all, bad)...)
	wrong := func(name string) bool {
		return slices.ContainsFunc(bad, func(e *option.Error) bool { return option.Fold(e.Key) == option.Fold(name) })
	}
	if o, ok := lookup(all, "time_zone"); ok {
		if _, err := time.LoadLocation(o.Value); err != nil {
			errs = append(errs, configError(o.ValueSpan, classOption, "time_zone: %q is not a time zone such as UTC or Europe/Berlin", o.Value))
		}
	}
	if o, ok := lookup(all, "max_uncommitted"); ok {
		if _, err := parseUncommitted(o.Value); err != nil {
			errs = append(errs, configError(o.ValueSpan, classOption, "max_uncommitted: %v", err))
		}
	}
	if o, ok := lookup(all, "epoch_interval"); ok && !wrong("epoch_interval") && v.Duration("epoch_interval") == 0 {
		errs = append(errs, configError(o.ValueSpan, classOption, "epoch_interval: there must be some time between two checkpoints, such as 100ms"))
	}
	if o, ok := lookup(all, "trigger"); ok {
		if _, _, err := trigger(o.Value); err != nil {
			errs = append(errs, configError(o.ValueSpan, classOption, "trigger: %v", err))
		}
	}
	return v, errs
}

// checkDefaults finds faults in the options that hold for all queries.
func (s *Session) checkDefaults() error {
	_, errs := s.queryOptions(nil, nil)
	var out []error
	for _, e := range errs {
		text := e.Msg
		if e.Hint != "" {
			text += " (" + e.Hint + ")"
		}
		out = append(out, fault.New(fault.Config, "default query options: %s", text))
	}
	return errors.Join(out...)
}

// trigger reads the option of that name: whether the query reads only what is
// there, and an emit interval if a duration was given as in Spark.
func trigger(text string) (bounded bool, emit time.Duration, err error) {
	switch option.Fold(strings.TrimSpace(text)) {
	case "", "continuous":
		return false, 0, nil
	case "availablenow", "once":
		return true, 0, nil
	}
	d, err := option.ParseDuration(text)
	return false, d, err
}

// bounded reports whether the query reads only what is there.
func bounded(v option.Values) bool {
	b, _, _ := trigger(v.String("trigger")) // checked with the options
	return b
}

// defaultParallelism is how many subtasks a keyed operator has.
func defaultParallelism() int { return min(goruntime.GOMAXPROCS(0), 4) }
