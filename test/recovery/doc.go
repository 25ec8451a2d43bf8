// Package recovery kills the real binary while it works and checks that the
// results are those of a run that nothing happened to.
//
// A child streamd, built with its fault points, reads a partitioned JetStream
// stream from a real nats-server process and publishes to output streams. It is
// killed with SIGKILL at random moments, also during restore, and started again
// with another parallelism; now and then it drains, or the server is killed. The
// duplicate window of the output streams is shorter than a restart, a foreign
// producer publishes to the same streams, some rows are late and some have a
// clock that is wrong, so that nothing but the engine's own protocol can keep
// results exact.
//
// A batch recomputation over the input, which shares no code with the engine,
// says what must be there, once. A row behind its own partition's watermark may
// count or not; results list the rows they count, so the check is exact all the
// same. Commit records are read from copies of the killed child's stores: they
// follow from each other, their counters balance, and what is visible agrees
// with the offsets and watermarks they hold.
//
// Beside the loop there are: a loop that goes back to older epochs on purpose,
// SIGKILL at every fault point of the engine, engines
// and servers that are frozen and wake up, servers that restart, streams that are
// trimmed or made again, connections spoiled by toxiproxy, full disks, limits of
// files and memory, power cuts, and a soak.
//
// RECOVERY_CYCLES sets the number of kills, RECOVERY_RESTORES how often older epochs
// are gone back to, RECOVERY_POWER_CUTS the number of power cuts (as root), SOAK the
// length of the soak (30m; without it there is none), SOAK_RATE its rows per second
// and SOAK_KILL the time between its kills.
// RECOVERY_SEED repeats a run. RECOVERY_BIN is a directory with the programs, else
// they are built.
package recovery
