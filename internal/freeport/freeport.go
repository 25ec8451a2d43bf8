// Package freeport finds ports for the servers of tests that go away and come back.
package freeport

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports below those that systems give to outgoing connections (from 32768 on with
// Linux): a client that asks for a server which is down may be given the very port of
// that server, and then nobody can listen on it.
const (
	first = 15000
	last  = 32000
)

// Find returns a TCP port of the loopback interface that was free a moment ago. Safe
// for concurrent use.
func Find() (int, error) {
	var failed error
	for range 100 {
		port := first + rand.IntN(last-first)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))) //nolint:noctx // only to see that it is free
		if err == nil {
			return port, l.Close()
		}
		failed = err
	}
	return 0, errors.Join(errors.New("find a free port"), failed)
}
