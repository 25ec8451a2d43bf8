// Package e2e tests the binary, the examples and the documents as a user meets
// them.
//
//go:generate go test . -run TestReferencePage -write
package e2e
