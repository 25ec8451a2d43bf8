//go:build fault

package fault

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Injecting reports whether this build has fault points (-tags fault).
const Injecting = true

// faultsVar is the environment variable with the rules of a process.
const faultsVar = "STREAMD_FAULTS"

// exitCode is what a shell shows for a process that was killed with SIGKILL.
const exitCode = 137

// effect is what a rule does when it fires.
type effect string

const (
	effectError effect = "error"
	effectPanic effect = "panic"
	effectExit  effect = "exit"
	effectKill  effect = "kill"
	effectHang  effect = "hang"
)

// rule is what to do at one point.
type rule struct {
	do      effect
	kind    Kind // of the error, for effectError
	nth     int  // fire at this hit only, from 1; 0: at every hit
	reached chan struct{}
	release chan struct{}
	fired   bool
	freed   bool
}

// points is the state of all fault points of the process. It is a package
// variable because the points are spread over packages that share nothing
// else; it exists in test builds only.
var points struct { //nolint:gochecknoglobals // see above
	env sync.Once // loads faultsVar before the first use

	mu    sync.Mutex // guards the fields below
	rules map[string]*rule
	hits  map[string]int
	hook  func(point string) error
}

// Inject marks a named point at which a test build can fail. Points are named
// part/step or part/step/detail, such as "epochs/commit/synced". Without a rule
// for the point it counts the hit and returns nil. What a rule does:
//
//	error        returns an error of kind Restart; error(transient) etc. picks the kind
//	panic        panics
//	exit         os.Exit(137): deferred calls do not run, the OS keeps written files
//	kill         SIGKILL to the own process; Inject does not return
//	hang         blocks until Release or Reset, then returns nil
func Inject(point string) error {
	loadEnv()
	points.mu.Lock()
	points.hits[point]++
	hit := points.hits[point]
	r := points.rules[point]
	if hook := points.hook; hook != nil {
		points.mu.Unlock()
		return hook(point)
	}
	if r == nil || (r.nth != 0 && r.nth != hit) {
		points.mu.Unlock()
		return nil
	}
	if !r.fired {
		r.fired = true
		close(r.reached)
	}
	points.mu.Unlock()

	switch r.do {
	case effectError:
		return New(r.kind, "injected fault at %q, hit %d", point, hit)
	case effectPanic:
		panic(fmt.Sprintf("injected panic at %q, hit %d", point, hit))
	case effectExit:
		os.Exit(exitCode)
	case effectKill:
		killSelf()
	case effectHang:
		<-r.release
	}
	return nil
}

// killSelf ends the process without giving it a chance to clean up.
func killSelf() {
	p, err := os.FindProcess(os.Getpid())
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		panic(fmt.Sprintf("injected kill: %v", err))
	}
	select {} // the signal is on its way; nothing after this point may run
}

// Set adds rules, written as in the environment variable STREAMD_FAULTS:
//
//	point=action[:nth][,point=action[:nth]]...
//
// With nth the rule fires at that hit only, counted from 1 since the process
// started or Reset was called. A new rule for a point replaces the old one and
// releases what hangs there. No rule is added when one of them is malformed.
func Set(rules string) error {
	loadEnv()
	parsed, err := parseRules(rules)
	if err != nil {
		return err
	}
	points.mu.Lock()
	defer points.mu.Unlock()
	for point, r := range parsed {
		points.rules[point].free()
		points.rules[point] = r
	}
	return nil
}

// SetHook lets f decide what happens at every point instead of the rules, for
// simulations that choose by themselves; nil gives back to the rules. f is called
// on the goroutine that passes the point.
func SetHook(f func(point string) error) {
	loadEnv()
	points.mu.Lock()
	defer points.mu.Unlock()
	points.hook = f
}

// Reset removes all rules, releases everything that hangs and forgets the
// hits. Rules from the environment do not come back.
func Reset() {
	loadEnv()
	points.mu.Lock()
	defer points.mu.Unlock()
	for _, r := range points.rules {
		r.free()
	}
	points.rules, points.hits = map[string]*rule{}, map[string]int{}
}

// Release lets everything go on that hangs at point, now and later.
func Release(point string) {
	loadEnv()
	points.mu.Lock()
	defer points.mu.Unlock()
	points.rules[point].free()
}

// Reached returns a channel that is closed when the current rule of point
// fires for the first time. Without a rule the channel is nil and blocks for
// ever.
func Reached(point string) <-chan struct{} {
	loadEnv()
	points.mu.Lock()
	defer points.mu.Unlock()
	if r := points.rules[point]; r != nil {
		return r.reached
	}
	return nil
}

// Hits returns how often each point was passed, with or without a rule, so
// that a test run can show that no point is dead.
func Hits() map[string]int {
	loadEnv()
	points.mu.Lock()
	defer points.mu.Unlock()
	hits := make(map[string]int, len(points.hits))
	for point, n := range points.hits {
		hits[point] = n
	}
	return hits
}

// free releases what hangs at the rule; the mutex is held. A nil rule is fine.
func (r *rule) free() {
	if r != nil && !r.freed {
		r.freed = true
		close(r.release)
	}
}

// loadEnv reads the rules of the environment once. A malformed variable ends
// the process: a fault test that injects nothing would pass for nothing.
func loadEnv() {
	points.env.Do(func() {
		rules, err := parseRules(os.Getenv(faultsVar))
		if err != nil {
			fmt.Fprintf(os.Stderr, "%s: %v\n", faultsVar, err)
			os.Exit(2)
		}
		points.mu.Lock()
		defer points.mu.Unlock()
		points.rules, points.hits = rules, map[string]int{}
	})
}

// parseRules reads the text form of rules.
func parseRules(text string) (map[string]*rule, error) {
	rules := map[string]*rule{}
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		if part == "" {
			continue
		}
		point, action, ok := strings.Cut(part, "=")
		if !ok || point == "" {
			return nil, New(Config, "fault rule %q: write point=action[:nth]", part)
		}
		r, err := parseAction(action)
		if err != nil {
			return nil, Wrap(Config, err, "fault rule %q", part)
		}
		rules[point] = r
	}
	return rules, nil
}

// parseAction reads action[:nth].
func parseAction(text string) (*rule, error) {
	r := &rule{kind: Restart, reached: make(chan struct{}), release: make(chan struct{})}
	name, nth, counted := strings.Cut(text, ":")
	if counted {
		n, err := strconv.Atoi(nth)
		if err != nil || n < 1 {
			return nil, New(Config, "hit %q is not a number from 1", nth)
		}
		r.nth = n
	}
	if kind, ok := strings.CutPrefix(name, string(effectError)+"("); ok {
		kind, ok = strings.CutSuffix(kind, ")")
		k, known := parseKind(kind)
		if !ok || !known {
			return nil, New(Config, "kind %q is none of internal, transient, bad_row, restart, config", kind)
		}
		r.kind, name = k, string(effectError)
	}
	switch r.do = effect(name); r.do {
	case effectError, effectPanic, effectExit, effectKill, effectHang:
		return r, nil
	default:
		return nil, New(Config, "action %q is none of error, panic, exit, kill, hang", name)
	}
}

// parseKind is the inverse of Kind.String.
func parseKind(name string) (Kind, bool) {
	for _, k := range []Kind{Internal, Transient, BadRow, Restart, Config} {
		if k.String() == name {
			return k, true
		}
	}
	return Internal, false
}
