// Package conformance holds the engine to answers that were asserted by the test
// suites of Apache Spark. The cases are data: input rows, a query, and what must
// be in the sink after each step; testdata has them, and a description of the
// format is in testdata/README.md.
//
//	go test ./test/conformance                  all cases of testdata
//	go test ./test/conformance -cases DIR       those of another directory
//	go test ./test/conformance -run '//wm-001'  one case
//
// Every case runs through the public API of package runtime, in several modes
// that must not make a difference: undisturbed, restarted from its checkpoint
// before every addition of rows, and with several subtasks per operator.
//
// A case that the engine cannot answer is listed in testdata/known.txt with the
// reason; it is run all the same, and must be taken from the list when it passes.
package conformance
