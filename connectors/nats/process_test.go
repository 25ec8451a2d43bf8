package nats

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/streamd-io/streamd/connectors"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

// writerConfig is in the environment of a process that writes.
type writerConfig struct {
	URL   string
	Dir   string
	Offer connectors.Offer
}

const (
	writerEnv   = "STREAMD_TEST_NATS_WRITER"
	writerRows  = 20_000
	writerEpoch = 400 // rows
	maxKills    = 15
)

// checkpoint is what a process that writes leaves in a directory: the commit
// record, and the parts of its stash in files of their own.
type checkpoint struct {
	dir string
	Record
}

// Record is the commit record.
type Record struct {
	Epoch   messages.Epoch
	Attempt uint64
	Next    int // first row that is not committed
	Token   connectors.Token
}

func (c *checkpoint) load() (*checkpoint, error) {
	data, err := os.ReadFile(filepath.Join(c.dir, "record"))
	if errors.Is(err, os.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return nil, err
	}
	return c, stdjson.Unmarshal(data, &c.Record)
}

func (c *checkpoint) save() error {
	data, err := stdjson.Marshal(&c.Record)
	if err != nil {
		return err
	}
	return c.replace("record", data)
}

// replace writes a file so that a killed process leaves the old or the new one.
func (c *checkpoint) replace(name string, data []byte) error {
	tmp := filepath.Join(c.dir, "tmp-"+name)
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, filepath.Join(c.dir, name))
}

// Put implements connectors.Stash.
func (c *checkpoint) Put(_ context.Context, e messages.Epoch, part uint16, data []byte) error {
	return c.replace(fmt.Sprintf("part-%d-%05d", e, part), data)
}

// Load implements connectors.Stash.
func (c *checkpoint) Load(_ context.Context, e messages.Epoch, f func(part uint16, data []byte) error) error {
	names, err := filepath.Glob(filepath.Join(c.dir, fmt.Sprintf("part-%d-*", e)))
	if err != nil {
		return err
	}
	for _, n := range names { // sorted
		var part uint16
		if _, err := fmt.Sscanf(filepath.Base(n), fmt.Sprintf("part-%d-%%05d", e), &part); err != nil {
			return err
		}
		data, err := os.ReadFile(n)
		if err != nil {
			return err
		}
		if err := f(part, data); err != nil {
			return err
		}
	}
	return nil
}

// TestWriterProcess is the process that TestKilledWriter kills: one attempt.
func TestWriterProcess(t *testing.T) {
	var c writerConfig
	if text := os.Getenv(writerEnv); text == "" {
		t.Skip("it is a part of TestKilledWriter")
	} else if err := stdjson.Unmarshal([]byte(text), &c); err != nil {
		t.Fatal(err)
	}
	cp, err := (&checkpoint{dir: c.Dir}).load()
	if err != nil {
		t.Fatal(err)
	}
	committed := cp.Epoch // what the record says
	cp.Attempt++
	if err := cp.save(); err != nil {
		t.Fatal(err)
	}
	o := openOutput(t, outputConfig{offer: c.Offer, attempt: cp.Attempt, epoch: committed, last: cp.Token, subtasks: 2, store: cp}, "url", c.URL, "stream", "OUT", "subject", "out.{n}")
	// Numbers are never reused: each attempt has its own.
	o.epoch = max(committed, messages.Epoch(cp.Attempt*1000))
	for cp.Next < writerRows {
		end := min(cp.Next+writerEpoch, writerRows)
		o.write(0, cp.Next, cp.Next+100)
		o.write(1, cp.Next+100, end)
		o.last = o.prepare()
		cp.Token = o.last
		cp.Epoch, cp.Next = o.epoch, end
		if err := cp.save(); err != nil {
			t.Fatal(err)
		}
		o.commitNow()
	}
	o.close()
}

// commitNow repeats the sink's commit as the engine does.
func (o *output) commitNow() {
	o.t.Helper()
	for {
		err := o.com.Commit(o.t.Context(), o.epoch, o.last)
		if err == nil {
			return
		}
		if fault.KindOf(err) != fault.Transient {
			o.t.Fatal(err)
		}
	}
}

// TestKilledWriter kills the writing process again and again, wherever it is. What
// it had sent is found even though the server has forgotten the identities.
func TestKilledWriter(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	for _, offer := range (&sink{}).Traits().Guarantees {
		if offer.Guarantee == connectors.AtLeastOnce {
			continue
		}
		t.Run(offer.Guarantee.String()+" "+offer.Visibility.String(), func(t *testing.T) { killedWriter(t, offer) })
	}
}

func killedWriter(t *testing.T, offer connectors.Offer) {
	b := newChild(t)
	js, _ := b.client()
	atomicStream(t, js, "OUT", "out.>")
	cfg, err := stdjson.Marshal(writerConfig{URL: b.url(), Dir: t.TempDir(), Offer: offer})
	if err != nil {
		t.Fatal(err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kills := 0
	for {
		cmd := exec.CommandContext(t.Context(), exe, "-test.run=^TestWriterProcess$", "-test.v")
		cmd.Env = append(os.Environ(), writerEnv+"="+string(cfg))
		var out bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		life := time.Duration(60+rand.IntN(400)) * time.Millisecond
		if kills == maxKills {
			life = time.Minute // on a slow machine no process would get to its end
		}
		kill := time.NewTimer(life)
		select {
		case err = <-done:
			kill.Stop()
		case <-kill.C:
			_ = cmd.Process.Kill()
			if err = <-done; err == nil {
				break // it had just ended
			}
			if kills++; kills > maxKills {
				t.Fatalf("the process does not end\n%s", out.String())
			}
			<-time.After(noWindow + 50*time.Millisecond) // the server forgets identities
			continue
		}
		if err != nil {
			t.Fatalf("after %d kills: %v\n%s", kills, err, out.String())
		}
		break
	}
	wantOnce(t, stored(t, js, "OUT"), 0, writerRows)
	t.Logf("%d kills", kills)
}

// TestKilledServerPerEpoch kills the server while committed epochs are published.
func TestKilledServerPerEpoch(t *testing.T) {
	for _, offer := range []connectors.Offer{perEpoch, transactional} {
		t.Run(offer.Guarantee.String(), func(t *testing.T) {
			c := newChild(t)
			js, _ := c.client()
			atomicStream(t, js, "OUT", "out.>")
			o := openOutput(t, outputConfig{offer: offer}, "url", c.url(), "stream", "OUT", "subject", "out.{n}")
			rounds, step := 6, 900
			if testing.Short() {
				rounds = 2
			}
			for i := range rounds {
				o.write(0, i*step, i*step+step)
				o.record()
				done := make(chan struct{})
				go func() {
					defer close(done)
					o.commitNow()
				}()
				c.kill()
				c.start()
				<-done
			}
			js, _ = c.client()
			wantOnce(t, stored(t, js, "OUT"), 0, rounds*step)
		})
	}
}
