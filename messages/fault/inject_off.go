//go:build !fault

package fault

// Injecting reports whether this build has fault points (-tags fault).
const Injecting = false

// Inject marks a named point at which a test build can fail; see the
// documentation of the package built with -tags fault. In this build it does
// nothing and is inlined away. Points are named part/step or part/step/detail, such as
// "epochs/commit/synced".
func Inject(string) error { return nil }

// Set reports that this build has no fault points.
func Set(string) error {
	return New(Config, "set fault points: this binary was built without them; build with -tags fault")
}
