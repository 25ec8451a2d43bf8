// Package runtime is the API for programs that run streaming queries: sessions,
// SQL, data frames and query handles.
//
//	s, err := runtime.Open(ctx, runtime.Config{Dir: "state"})
//	...
//	defer s.Close()
//	err = s.Exec(ctx, `CREATE SOURCE ...; CREATE SINK out ...; INSERT INTO out SELECT ...`)
//
// A session owns everything it starts: after Close no goroutine of it is left.
// The package installs no signal handlers, never exits the process and keeps no
// global state; two sessions in one process do not know each other, but may not
// share a checkpoint directory.
//
// The standard library's package of the same name is imported as goruntime
// throughout this module.
package runtime
