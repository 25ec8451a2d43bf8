package operator

// ChildPath returns the generator path of the index-th row that a generator
// (explode, flatMap) makes from a row with the given path. It depends on nothing
// else, so a replay gives the same paths, and it must be taken before any later
// step drops rows. Index -1 stands for the row that an outer generator makes
// from nothing. Paths are part of row ids: the function never changes.
func ChildPath(path uint64, index int) uint64 {
	return mix(mix(path+nullHash) + uint64(index) + 2)
}
