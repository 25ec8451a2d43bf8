// Package recovery kills the real binary while it works and checks that the
// results are those of a run that nothing happened to.
//
// A child streamd reads a partitioned JetStream stream from a real nats-server
// process and publishes to output streams; it is killed with SIGKILL at random
// moments, also during restore, and started again with another parallelism, and
// now and then the server is killed too. The duplicate window of the output
// streams is far shorter than a restart, and a foreign producer publishes to the
// same streams, so that nothing but the engine's own protocol can keep results
// exact. At the end a batch recomputation over the input, which shares no code
// with the engine, says what must be there, once.
//
// RECOVERY_CYCLES sets the number of kills; RECOVERY_SEED repeats a run.
package recovery
