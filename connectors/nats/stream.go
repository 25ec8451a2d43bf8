package nats

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/streamd-io/streamd/messages/fault"
)

// Classes of the errors that a person has to deal with.
const (
	classAuthorization = "NATS_AUTHORIZATION"
	classPermission    = "NATS_PERMISSION"
	classMissing       = "NATS_STREAM_MISSING"
	classRecreated     = "NATS_STREAM_RECREATED"
	classBeyondEnd     = "NATS_OFFSET_BEYOND_END"
	classDataLoss      = "NATS_DATA_LOSS"
	classAcknowledged  = "NATS_ACKNOWLEDGED"
	classConsumerGone  = "NATS_CONSUMER_MISSING"
	classConsumerBusy  = "NATS_CONSUMER_IN_USE"
	classOverlap       = "NATS_WORKQUEUE_OVERLAP"
	classRetention     = "NATS_RETENTION_UNSUPPORTED"
	classSubject       = "NATS_SUBJECT_NOT_IN_STREAM"
	classFenced        = "NATS_SINK_FENCED"
	classTrimmed       = "NATS_SINK_TRIMMED"
	classAhead         = "NATS_SINK_AHEAD"
	classAtomic        = "NATS_ATOMIC_PUBLISH_DISABLED"
	classTooLarge      = "NATS_EPOCH_TOO_LARGE"
	classUnsuitable    = "NATS_STREAM_UNSUITABLE"
	classVersion       = "NATS_SERVER_VERSION"
	classExclusive     = "NATS_SINK_NOT_EXCLUSIVE"
)

// streamSpec names a stream and says what to do when it is missing.
type streamSpec struct {
	name     string
	subjects []string // for creating it
	create   bool
	atomic   bool // it is to take atomic batches
}

// info asks for the stream's state. The error for a missing stream is of kind
// Config and shows the command that makes one.
func (l *link) info(ctx context.Context, s *streamSpec) (*jetstream.StreamInfo, error) {
	var info *jetstream.StreamInfo
	err := l.call(ctx, "look up stream "+s.name, func(ctx context.Context) error {
		h, err := l.js.Stream(ctx, s.name)
		if err == nil {
			info = h.CachedInfo()
		}
		return err
	})
	if err == nil || !errors.Is(err, jetstream.ErrStreamNotFound) {
		return info, err
	}
	if !s.create {
		err := fault.New(fault.Config, "stream %s does not exist; make it with: %s (or set create = true)", s.name, s.command())
		return nil, fault.WithClass(err, classMissing)
	}
	err = l.call(ctx, "create stream "+s.name, func(ctx context.Context) error {
		h, err := l.js.CreateStream(ctx, jetstream.StreamConfig{
			Name: s.name, Subjects: s.subjects, Retention: jetstream.LimitsPolicy, Storage: jetstream.FileStorage,
			AllowAtomicPublish: s.atomic,
		})
		if err == nil {
			info = h.CachedInfo()
		}
		return err
	})
	return info, err
}

// command is what a person types to make the stream.
func (s *streamSpec) command() string {
	var b strings.Builder
	b.WriteString("nats stream add " + s.name + " --subjects ")
	subjects := s.subjects
	if len(subjects) == 0 {
		subjects = []string{strings.ToLower(s.name) + ".>"}
	}
	b.WriteString("'" + strings.Join(subjects, ",") + "'")
	b.WriteString(" --storage file --retention limits --defaults")
	if s.atomic {
		b.WriteString(" --allow-batch")
	}
	return b.String()
}

// checkRetention refuses streams that forget what was delivered.
func checkRetention(info *jetstream.StreamInfo, side string) error {
	if info.Config.Retention == jetstream.LimitsPolicy {
		return nil
	}
	err := fault.New(fault.Config, "stream %s has %s retention; a %s needs limits retention, because other messages disappear once they are delivered or "+
		"nobody asks for them (nats stream add NEW --retention limits, or a limits stream that sources this one)",
		info.Config.Name, strings.ToLower(info.Config.Retention.String()), side)
	return fault.WithClass(err, classRetention)
}

// formatCreated writes a stream's creation time, its identity, without loss.
func formatCreated(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }
