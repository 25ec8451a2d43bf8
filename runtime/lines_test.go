package runtime_test

import (
	"bytes"
	"iter"
	"log/slog"
	"strings"
	"sync"
)

// lines collects what is logged and written.
type lines struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// with yields the lines that hold a text.
func (l *lines) with(text string) iter.Seq[string] {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := l.buf.String()
	return func(yield func(string) bool) {
		for line := range strings.SplitSeq(all, "\n") {
			if strings.Contains(line, text) && !yield(line) {
				return
			}
		}
	}
}
