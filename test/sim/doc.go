// Package sim tests the whole engine in simulated worlds: actors, coordinator,
// operators and state run as in production, while time, scheduling, storage and
// the outside systems are models driven by one seed on one goroutine.
//
// A seed decides the plan, its options, the input, the order in which messages
// are delivered and workers run, and which faults strike where: errors, panics,
// crashes of the process, calls that hang or take long and jumps of the wall clock,
// before and after each call becomes durable; drains, slow workers, a full disk.
// After the run, and at each commit, the results are compared with what naive code
// computes from the input. A run of many seeds fails if some fault never struck at
// some boundary.
//
//	go test ./test/sim                       # the usual seeds
//	SIM_SEEDS=1000000 go test -timeout 2h ./test/sim   # make sim
//	SIM_FIRST=N ...                          # from another seed on than 0
//	SIM_SEED=17 go test -v ./test/sim        # one, with its story
//	SIM_MUTANTS=1 go test -run Mutants -v ./test/sim
//
// A failing seed is one line in the output; put it into testdata/seeds.txt,
// whose lines are run first.
package sim
