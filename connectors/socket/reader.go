package socket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// Pauses between attempts to connect.
const (
	firstPause = 100 * time.Millisecond
	maxPause   = 10 * time.Second
)

// queued is how many lines wait for Read at most; then the server has to wait.
const queued = 256

// line is one thing the connection has to say: a line, or that it is gone.
type line struct {
	text    []byte
	tooLong bool // text is its beginning
	err     error
	up      bool // a connection stands
}

// reader takes lines from a goroutine that owns the connection.
type reader struct {
	s       *source
	maxRows int
	count   uint64
	lines   chan line
	cancel  context.CancelFunc
	running sync.WaitGroup
	pending *line // taken from lines, not used yet
	origin  messages.ID128
	status  connectors.Status
	fresh   bool // status has not been told yet
	meta    connectors.Meta
}

func newReader(s *source, q connectors.ReadRequest) (*reader, error) {
	r := &reader{s: s, maxRows: max(q.MaxRows, 1), lines: make(chan line, queued)}
	if q.From != nil {
		var err error
		if r.count, err = parseOffset(q.From); err != nil {
			return nil, err
		}
	}
	r.meta.Origin = func() string { return fmt.Sprintf("socket %s line %d", s.address, r.meta.Offset) }
	r.origin = messages.ID128{Hi: 0x736f636b6574, Lo: uint64(s.clock.Now().UnixNano())}
	ctx, cancel := context.WithCancel(context.Background()) // ends with Close
	r.cancel = cancel
	r.running.Go(func() { r.connect(ctx) })
	return r, nil
}

// appendOffset appends the offset behind count lines.
func appendOffset(dst connectors.Offset, count uint64) connectors.Offset {
	return append(strconv.AppendUint(append(dst, `{"line":`...), count, 10), '}')
}

func parseOffset(o connectors.Offset) (count uint64, err error) {
	number, begins := strings.CutPrefix(string(o), `{"line":`)
	number, ends := strings.CutSuffix(number, "}")
	if count, err = strconv.ParseUint(number, 10, 64); err != nil || !begins || !ends {
		return 0, fault.New(fault.Config, "socket source: offset %q is not one of this source", o)
	}
	return count, nil
}

// connect keeps a connection and hands over what it brings.
func (r *reader) connect(ctx context.Context) {
	pause := firstPause
	for {
		conn, err := r.s.dial(ctx, "tcp", r.s.address)
		if err == nil {
			pause = firstPause
			if !r.hand(ctx, line{up: true}) {
				closeConn(conn)
				return
			}
			err = r.receive(ctx, conn)
		}
		if !r.hand(ctx, line{err: fmt.Errorf("%w; connecting again in %s", err, pause)}) || !r.sleep(ctx, pause) {
			return
		}
		pause = min(2*pause, maxPause)
	}
}

func (r *reader) hand(ctx context.Context, l line) bool {
	select {
	case <-ctx.Done():
		return false
	case r.lines <- l:
		return true
	}
}

func (r *reader) sleep(ctx context.Context, d time.Duration) bool {
	ready := make(chan struct{})
	stop := r.s.clock.AfterFunc(d, func() { close(ready) })
	defer stop()
	select {
	case <-ctx.Done():
		return false
	case <-ready:
		return true
	}
}

// receive hands over the lines of a connection until it breaks.
func (r *reader) receive(ctx context.Context, conn net.Conn) error {
	stop := context.AfterFunc(ctx, func() { closeConn(conn) })
	defer func() {
		if stop() {
			closeConn(conn)
		}
	}()
	in := bufio.NewReaderSize(conn, 64<<10)
	var text []byte
	tooLong := false
	for {
		chunk, err := in.ReadSlice('\n')
		if room := r.s.maxRecord + 2 - len(text); len(chunk) > room {
			chunk, tooLong = chunk[:room], true // the rest of the line is dropped
		}
		text = append(text, chunk...)
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		whole := err == nil || len(text) > 0 && errors.Is(err, io.EOF)
		text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte{'\n'}), []byte{'\r'})
		tooLong = tooLong || len(text) > r.s.maxRecord
		if whole && !r.hand(ctx, line{text: text, tooLong: tooLong}) {
			return ctx.Err()
		}
		if errors.Is(err, io.EOF) {
			return fmt.Errorf("%s closed the connection", r.s.address)
		}
		if err != nil {
			return err
		}
		text, tooLong = nil, false
	}
}

// closeConn closes a connection whose lines have been read or given up; an
// error says nothing new then.
func closeConn(c net.Conn) { _ = c.Close() }

// Read implements connectors.Reader.
func (r *reader) Read(ctx context.Context, dst *connectors.Rows) error {
	dst.SetOrigin(r.origin)
	for !dst.Full(r.maxRows) {
		l, ok := r.next(ctx, dst.Payloads == 0 && !r.fresh)
		if !ok {
			if err := ctx.Err(); err != nil && dst.Payloads == 0 {
				return err
			}
			break
		}
		if l.up || l.err != nil {
			if dst.Payloads > 0 {
				r.pending = &l // rows first, then what happened behind them
				break
			}
			r.note(l)
			continue
		}
		if err := r.record(l, dst); err != nil {
			return err
		}
	}
	r.fresh = false
	dst.Status = r.status
	dst.Status.Lag = -1
	if r.status.State == connectors.CaughtUp && len(r.lines) > 0 {
		dst.Status.State = connectors.Reading
	}
	dst.Next = appendOffset(dst.Next[:0], r.count)
	return nil
}

// next takes the next line. With wait, it waits for one.
func (r *reader) next(ctx context.Context, wait bool) (line, bool) {
	if r.pending != nil {
		l := *r.pending
		r.pending = nil
		return l, true
	}
	if !wait {
		select {
		case l := <-r.lines:
			return l, true
		default:
			return line{}, false
		}
	}
	select {
	case <-ctx.Done():
		return line{}, false
	case l := <-r.lines:
		return l, true
	}
}

// note turns news about the connection into the status.
func (r *reader) note(l line) {
	r.fresh = true
	if l.up {
		r.status = connectors.Status{State: connectors.CaughtUp}
		return
	}
	r.status = connectors.Status{State: connectors.Retrying, Reason: l.err.Error()}
}

func (r *reader) record(l line, dst *connectors.Rows) error {
	r.meta.Offset = r.count
	r.meta.Arrival = messages.EventTimeOf(r.s.clock.Now())
	r.count++
	switch {
	case l.tooLong:
		return dst.Refuse(l.text[:min(len(l.text), 64)], fault.New(fault.BadRow, "the line is longer than max_record_size (%d bytes)", r.s.maxRecord), &r.meta)
	case r.s.decodes:
		if len(bytes.TrimSpace(l.text)) == 0 && dst.SkipsBlank() {
			return nil
		}
		return dst.Record(l.text, &r.meta)
	case !utf8.Valid(l.text):
		return dst.Refuse(l.text, fault.New(fault.BadRow, "the line is not valid UTF-8"), &r.meta)
	}
	dst.Payloads++
	dst.PayloadBytes += len(l.text)
	b := dst.Builder()
	b.Column(0).AppendBytes(l.text)
	b.EndRow()
	b.EndUnit(r.meta.Offset, r.meta.Arrival)
	return nil
}

// Committed implements connectors.Reader.
func (r *reader) Committed(context.Context, connectors.Offset) error { return nil }

// Close implements connectors.Reader.
func (r *reader) Close() error {
	r.cancel()
	r.running.Wait()
	return nil
}
