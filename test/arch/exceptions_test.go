package arch

import "strings"

// exception lets one file, or everything below a folder, off one rule.
type exception struct {
	rule   string // name of the rule
	path   string // a file, or a folder ending in "/"
	reason string // why the rule has to give way here
}

func (e exception) covers(rule, p string) bool {
	if e.rule != rule {
		return false
	}
	if strings.HasSuffix(e.path, "/") {
		return strings.HasPrefix(p, e.path)
	}
	return p == e.path
}

// exceptions is the only way around a rule. The last test of this package
// reports a line for a single file that is no longer needed.
var exceptions = []exception{
	{"globals", "messages/fault/inject_on.go", "fault points are spread over packages that share nothing else; exists only with -tags fault"},

	// Who may read the machine's clock. Everybody else gets the time from the
	// task or the environment handed to it, so that tests and replays control it.
	{"parameters", "actors/system.go", "HandleFailure is an interface of the actor library"},
	{"time-now", "actors/clock.go", "the clock of the operating system, behind connectors.Clock"},
	{"time-now", "cmd/", "the outermost layer; nothing is replayed there"},
	{"time-now", "examples/", "programs of users"},
	{"time-now", "test/", "measures, times out, and generates load"},
	{"time-now", "runtime/httpapi/", "deadlines and uptime of HTTP requests; no row passes here"},
	{"time-now", "connectors/nats/", "deadlines of network calls"},
	{"time-now", "connectors/socket/", "deadlines of network calls"},
	{"time-now", "connectors/http/", "deadlines of network calls"},
	{"time-now", "connectors/kafka/", "deadlines of network calls"},
	{"time-now", "connectors/sql/", "deadlines of network calls"},
	{"time-now", "connectors/memory/", "arrival time of rows that a program adds; it is kept with them, so replays see the same time"},
	{"time-now", "connectors/connectortest/", "times out when a connector under test blocks"},
}
