package actors

import "github.com/asynkron/protoactor-go/actor"

// stepMailbox hands messages to its actor one per scheduled step, so that a
// seeded scheduler can interleave actors message by message. Everything happens
// on the scheduler's goroutine.
type stepMailbox struct {
	schedule func(func())
	invoker  actor.MessageInvoker
	system   []any
	user     []any
}

func (m *stepMailbox) PostUserMessage(msg any) {
	m.user = append(m.user, msg)
	m.schedule(m.step)
}

func (m *stepMailbox) PostSystemMessage(msg any) {
	m.system = append(m.system, msg)
	m.schedule(m.step)
}

func (m *stepMailbox) RegisterHandlers(invoker actor.MessageInvoker, _ actor.Dispatcher) {
	m.invoker = invoker
}

func (m *stepMailbox) Start()                {}
func (m *stepMailbox) UserMessageCount() int { return len(m.user) }

func (m *stepMailbox) step() {
	if len(m.system) > 0 {
		msg := m.system[0]
		m.system = m.system[1:]
		switch msg.(type) {
		case *actor.SuspendMailbox, *actor.ResumeMailbox:
			// Receive never fails, so the mailbox is never suspended.
		default:
			m.invoker.InvokeSystemMessage(msg)
		}
		return
	}
	if len(m.user) > 0 {
		msg := m.user[0]
		m.user = m.user[1:]
		m.invoker.InvokeUserMessage(msg)
	}
}
