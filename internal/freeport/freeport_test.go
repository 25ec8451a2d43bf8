package freeport_test

import (
	"fmt"
	"net"
	"testing"

	"github.com/streamd-io/streamd/internal/freeport"
)

func TestAFoundPortCanBeListenedOn(t *testing.T) {
	port, err := freeport.Find()
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}
