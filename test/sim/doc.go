// Package sim tests the whole engine in simulated worlds: actors, coordinator,
// operators and state run as in production, while time, scheduling, storage and
// the outside systems are models driven by one seed on one goroutine.
//
// A seed decides the plan, its options, the input, the order in which messages
// are delivered and workers run, and which faults strike where: errors, panics
// and crashes of the process before and after each call becomes durable, drains,
// slow workers, jumps of the wall clock. After the run, and at each commit, the
// results are compared with what naive code computes from the input.
//
//	go test ./test/sim                       # the usual seeds
//	SIM_SEEDS=20000 go test ./test/sim       # more of them
//	SIM_SEED=17 go test -v ./test/sim        # one, with its story
//	SIM_MUTANTS=1 go test -run Mutants -v ./test/sim
//
// A failing seed is one line in the output; put it into testdata/seeds.txt,
// whose lines are run first.
package sim
