// Package arch holds the rules of this code base as a test: which package may
// import which, how long files and functions may be, what may not be used.
//
// The test parses every Go file below the module root, whatever its build
// tags, and needs neither network nor compiled packages. Each rule is one
// subtest:
//
//	go test ./test/arch
//	go test ./test/arch -run Rules/imports
//
// A finding says what to do. Where a rule has to give way, add a line to the
// table exceptions in exceptions_test.go with the reason. Which package may
// import what is the table layers, and which package owns an outside library
// is the table owners, both in imports_test.go.
package arch
