package actors

import (
	"log/slog"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/streamd-io/streamd/connectors"
)

// SystemConfig configures a System. The zero value works.
type SystemConfig struct {
	// Clock is the source of time; nil means the system clock.
	Clock connectors.Clock
	// Executor runs blocking work; nil means goroutines.
	Executor Executor
	// Schedule, if not nil, is given one function per message to be delivered
	// and decides when it runs, one at a time: the seam for deterministic
	// simulation. Nil means that actors run on goroutines.
	Schedule func(run func())
	// Log takes the engine's messages; nil discards them.
	Log *slog.Logger
}

// System hosts the actors of all queries of a process. It is heavy (about 3 MB);
// one per process is enough. Safe for concurrent use.
type System struct {
	cfg   SystemConfig
	as    *actor.ActorSystem
	props []actor.PropsOption
	// dispatcher runs the actors unless cfg.Schedule does.
	dispatcher *dispatcher
}

// NewSystem starts an actor system.
func NewSystem(cfg SystemConfig) *System {
	if cfg.Clock == nil {
		cfg.Clock = NewSystemClock()
	}
	if cfg.Executor == nil {
		cfg.Executor = goExecutor{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	quiet := slog.New(slog.DiscardHandler)
	s := &System{cfg: cfg, dispatcher: newDispatcher()}
	s.as = actor.NewActorSystem(
		actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }),
		// The throttle of the log for undelivered messages, which is discarded
		// anyhow, holds a goroutine for as long as this.
		actor.WithDeadLetterThrottleInterval(time.Millisecond),
	)
	s.props = []actor.PropsOption{actor.WithSupervisor(stopStrategy{}), actor.WithDispatcher(s.dispatcher)}
	if cfg.Schedule != nil {
		s.props = append(s.props, actor.WithMailbox(func() actor.Mailbox { return &stepMailbox{schedule: cfg.Schedule} }))
	}
	return s
}

// Clock returns the system's clock.
func (s *System) Clock() connectors.Clock { return s.cfg.Clock }

// Close stops the actor system. All attempts must have ended.
func (s *System) Close() {
	s.as.Shutdown()
	s.dispatcher.close()
}

func (s *System) propsOf(make func() actor.Actor) *actor.Props {
	return actor.PropsFromProducer(make, s.props...)
}

// stopStrategy stops an actor whose Receive panicked in spite of its own
// recover. Data actors are never restarted in place: that would lose rows.
type stopStrategy struct{}

func (stopStrategy) HandleFailure(_ *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, _ *actor.RestartStatistics, _, _ any) {
	sup.StopChildren(child)
}
