package runtime

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
)

// placed are the stores of a directory, as a process that may die has them.
type placed struct {
	*testing.T
	dir string
	st  *stores
}

func (p *placed) start() {
	p.Helper()
	cfg := Config{Dir: p.dir}
	cfg.defaults()
	st, err := openStores(&cfg)
	if err != nil {
		p.Fatal(err)
	}
	p.st = st
}

func (p *placed) stop() {
	p.Helper()
	if err := p.st.close(); err != nil {
		p.Fatal(err)
	}
}

// open opens the query's store and checks its records, newest first.
func (p *placed) open(shared bool, want ...messages.Epoch) epochs.Segments {
	p.Helper()
	s, err := p.st.open(p.Context(), "q", false, shared)
	if err != nil {
		p.Fatal(err)
	}
	list, _, err := s.Committed(p.Context())
	if err != nil {
		p.Fatal(err)
	}
	got := []messages.Epoch{}
	for _, r := range list {
		got = append(got, r.Epoch)
	}
	if !slices.Equal(got, want) {
		p.Fatalf("the checkpoint has the epochs %v, want %v", got, want)
	}
	if _, _, err := p.st.nextAttempt("q", nil); err != nil { // as the query's next attempt does
		p.Fatal(err)
	}
	return s
}

func (p *placed) commit(s epochs.Segments, prev, e messages.Epoch, chains ...epochs.Chain) {
	p.Helper()
	data, err := epochs.EncodeRecord(&epochs.Record{Epoch: e, Prev: prev, Query: "q", Chains: chains})
	if err == nil {
		err = s.Commit(p.Context(), prev, e, data)
	}
	if err != nil {
		p.Fatal(err)
	}
}

func (p *placed) close(s epochs.Segments) {
	p.Helper()
	if err := s.Close(); err != nil {
		p.Fatal(err)
	}
}

func (p *placed) own() bool {
	p.Helper()
	there, err := isThere(filepath.Join(p.st.path("q"), ownDir))
	if err != nil {
		p.Fatal(err)
	}
	return there
}

func TestACheckpointMovesWithWhatTheQueryIs(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	e := messages.Epoch(0)
	want := []messages.Epoch{}
	for _, shared := range []bool{true, false, false, true, true, false, true} {
		p.start()
		s := p.open(shared, want...)
		if p.own() == shared {
			t.Errorf("epoch %d: own store %v, shared %v", e, p.own(), shared)
		}
		p.commit(s, e, e+1)
		e++
		want = append([]messages.Epoch{e}, want...)
		p.close(s)
		p.stop()
	}
}

func TestACheckpointWithStateStaysWhereItIs(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	p.start()
	s := p.open(false)
	p.commit(s, 0, 1, epochs.Chain{Operator: "aggregate", Segments: 1})
	p.close(s)
	s = p.open(true, 1)
	if !p.own() {
		t.Error("the state was left behind")
	}
	p.close(s)
	p.stop()
}

// TestACrashInAMoveLeavesOneTruth interrupts a move at every step, goes on with
// either kind of query and moves again.
func TestACrashInAMoveLeavesOneTruth(t *testing.T) {
	steps := map[bool][]string{true: {"opened", "copied", "renamed"}, false: {"copied", "renamed"}}
	for shared, names := range steps {
		for _, step := range names {
			for _, after := range []bool{true, false} {
				t.Run(fmt.Sprintf("shared %v, at %s, then shared %v", shared, step, after), func(t *testing.T) {
					p := &placed{T: t, dir: t.TempDir()}
					p.start()
					s := p.open(!shared)
					p.commit(s, 0, 1)
					p.commit(s, 1, 2)
					p.close(s)
					died := errors.New("died")
					p.st.onStep = func(name string) error {
						if name == step {
							return died
						}
						return nil
					}
					if _, err := p.st.open(t.Context(), "q", false, shared); !errors.Is(err, died) {
						t.Fatalf("got %v", err)
					}
					p.stop()
					p.start()
					s = p.open(after, 2, 1)
					p.commit(s, 2, 3)
					p.close(s)
					p.stop()
					p.start()
					s = p.open(!after, 3, 2, 1)
					p.commit(s, 3, 4)
					p.close(s)
					s = p.open(after, 4, 3, 2, 1)
					p.close(s)
					entries, err := os.ReadDir(p.st.path("q"))
					if err != nil {
						t.Fatal(err)
					}
					for _, f := range entries {
						if f.Name() != identityName && f.Name() != ownDir {
							t.Errorf("%s is left", f.Name())
						}
					}
					p.stop()
				})
			}
		}
	}
}

func TestADroppedQueryIsForgottenInTheCatalog(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	p.start()
	s := p.open(true)
	p.commit(s, 0, 1)
	p.close(s)
	if err := p.st.drop("q"); err != nil {
		t.Fatal(err)
	}
	s = p.open(true)
	p.commit(s, 0, 1)
	p.close(s)
	// A drop that died behind its rename.
	if err := os.Rename(p.st.path("q"), filepath.Join(p.dir, "queries", droppedPrefix+"q")); err != nil {
		t.Fatal(err)
	}
	p.stop()
	p.start()
	p.close(p.open(true))
	p.stop()
}

// TestAQueryWhoseDirectoryIsGoneIsDroppedFromTheCatalog: what is to begin anew does
// not go on from what the catalog still has.
func TestAQueryWhoseDirectoryIsGoneIsDroppedFromTheCatalog(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	p.start()
	s := p.open(true)
	p.commit(s, 0, 1)
	p.close(s)
	if err := os.RemoveAll(p.st.path("q")); err != nil {
		t.Fatal(err)
	}
	if err := p.st.drop("q"); err != nil {
		t.Fatal(err)
	}
	p.close(p.open(true))
	p.stop()
}

// TestALostIdentityDoesNotHideWhatTheCatalogHas: a query that gains state goes on
// from its records there.
func TestALostIdentityDoesNotHideWhatTheCatalogHas(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	p.start()
	s := p.open(true)
	p.commit(s, 0, 1)
	p.close(s)
	if err := os.Remove(filepath.Join(p.st.path("q"), identityName)); err != nil {
		t.Fatal(err)
	}
	s, err := p.st.open(t.Context(), "q", false, false)
	if err != nil {
		t.Fatal(err)
	}
	list, _, err := s.Committed(t.Context())
	if err != nil || len(list) != 1 || list[0].Epoch != 1 || !p.own() {
		t.Errorf("the checkpoint has the records %v (%v), want that of epoch 1", list, err)
	}
	p.close(s)
	p.stop()
}

// TestDamageOfTheCatalogIsNamedUntilItIsSettled: the witness of the shared database
// is lost, and so nobody knows whether newer epochs are.
func TestDamageOfTheCatalogIsNamedUntilItIsSettled(t *testing.T) {
	for what, settle := range map[string]func(*placed) []messages.Epoch{
		"by going back": func(p *placed) []messages.Epoch {
			s, err := p.st.open(p.Context(), "q", true, true)
			if err == nil {
				err = errors.Join(s.Rewind(p.Context(), 1), s.Close())
			}
			if err != nil {
				p.Fatal(err)
			}
			return []messages.Epoch{1}
		},
		"by starting anew": func(p *placed) []messages.Epoch {
			if err := p.st.drop("q"); err != nil {
				p.Fatal(err)
			}
			return nil
		},
	} {
		t.Run(what, func(t *testing.T) {
			p := &placed{T: t, dir: t.TempDir()}
			p.start()
			s := p.open(true)
			p.commit(s, 0, 1)
			p.close(s)
			p.stop()
			if err := os.WriteFile(filepath.Join(p.dir, catalogDir, "EPOCH"), []byte("nonsense"), 0o600); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				p.start()
				s, err := p.st.open(t.Context(), "q", false, true)
				if err != nil {
					t.Fatal(err)
				}
				if _, _, err = s.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) || !strings.Contains(err.Error(), "EPOCH") {
					t.Errorf("got %v, want ErrDamaged of EPOCH", err)
				}
				p.close(s)
				p.stop()
			}
			p.start()
			want := settle(p)
			p.stop()
			p.start()
			p.close(p.open(true, want...))
			p.stop()
		})
	}
}

// TestACatalogThatHasLostEntriesIsKnown: a process has died while it accepted that
// entries of the catalog are lost.
func TestACatalogThatHasLostEntriesIsKnown(t *testing.T) {
	p := &placed{T: t, dir: t.TempDir()}
	p.start()
	s := p.open(true)
	p.commit(s, 0, 1)
	p.close(s)
	p.stop()
	if err := os.WriteFile(filepath.Join(p.dir, catalogDir, "LOST"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	r := newReader(p.dir)
	s, err := r.open(t.Context(), "q")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("looked at: got %v, want ErrDamaged", err)
	}
	p.close(s)
	if err := r.close(); err != nil {
		t.Fatal(err)
	}
	p.start()
	if s, err = p.st.open(t.Context(), "q", false, true); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Committed(t.Context()); !errors.Is(err, epochs.ErrDamaged) {
		t.Errorf("got %v, want ErrDamaged", err)
	}
	p.close(s)
	p.stop()
}
