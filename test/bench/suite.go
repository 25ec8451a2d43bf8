package main

import "slices"

// benchmarks lists everything that can be measured, in the order of running.
func benchmarks() []benchmark {
	return slices.Concat(pacingBenchmarks(), latencyBenchmarks(), committedBenchmarks(), jetStreamBenchmarks(), throughputBenchmarks(), channelBenchmarks(),
		epochBenchmarks(), recoveryBenchmarks(), adoptionBenchmarks(), memoryBenchmarks(), shapeBenchmarks(), daemonBenchmarks(), nexmarkBenchmarks())
}
