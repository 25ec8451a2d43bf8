// Package damage damages the checkpoint of a real query and starts the query
// again: it must go on with exactly the right results, go back to an older epoch
// where that can repeat nothing, or refuse with an error that names what is
// damaged. It never emits a wrong row, ends the process or hangs.
//
// Each damage is one seed: it picks a query, how its process ended, a file of the
// checkpoint directory and what happens to it. The rows of the source and of the
// sink outlive the damage, as those of outside systems do. What must be in the
// sink in the end is computed from the input with nothing of the engine.
package damage
