package runtime

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/streamd-io/streamd/epochs"
	"github.com/streamd-io/streamd/messages"
	"github.com/streamd-io/streamd/messages/fault"
)

const (
	// identityName is the file with a query's identity in its directory.
	identityName = "IDENTITY"
	// foundingPrefix marks the directory of a query that is being made.
	foundingPrefix = ".new-"
	// unknownAttempts is how many attempt numbers are skipped when the count of
	// attempts is lost: more than can have been made since the last commit record.
	unknownAttempts = 1 << 20
)

// identity is what is known of a query before its first commit record.
type identity struct {
	Attempt uint64 `json:"attempt"`
	// Incarnation is the query's random identity in hexadecimal, drawn when it
	// starts for the first time: rows carry it before the first epoch commits.
	Incarnation string `json:"incarnation"`
	// Sum is the checksum (crc32c) of the above; nil in files of older versions.
	Sum *uint32 `json:"sum,omitempty"`
}

func (id *identity) checksum() uint32 {
	return crc32.Checksum(fmt.Appendf(nil, "%d %s", id.Attempt, id.Incarnation), crc32.MakeTable(crc32.Castagnoli))
}

// found makes the directory of a query that has none, together with its identity,
// so that a missing identity is known as damage.
func (st *stores) found(query string) error {
	dir := st.path(query)
	if there, err := isThere(dir); err != nil || there {
		return err
	}
	id := identity{}
	if err := id.draw(); err != nil {
		return err
	}
	tmp := filepath.Join(st.dir, "queries", foundingPrefix+queryDir(query))
	if err := os.RemoveAll(tmp); err != nil {
		return err
	}
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	if err := id.write(filepath.Join(tmp, identityName)); err != nil {
		return err
	}
	if err := os.Rename(tmp, dir); err != nil {
		return err
	}
	return syncDir(filepath.Dir(dir))
}

// draw makes a random identity.
func (id *identity) draw() error {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return err
	}
	id.Incarnation = hex.EncodeToString(b)
	return nil
}

// encode returns the content of the file.
func (id *identity) encode() ([]byte, error) {
	sum := id.checksum()
	id.Sum = &sum
	text, err := json.Marshal(id)
	return append(text, '\n'), err
}

func (id *identity) write(path string) error {
	text, err := id.encode()
	if err != nil {
		return err
	}
	return writeDurably(path, text)
}

// nextAttempt counts attempts durably: each gets a number that no earlier one
// had, even if none of them committed anything. A lost identity is taken from the
// record that the attempt goes on from; without one it cannot be replaced, since
// rows may have been published under it.
func (st *stores) nextAttempt(query string, from *epochs.Record) (uint64, messages.ID128, error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	id := st.identities[query]
	path := filepath.Join(st.path(query), identityName)
	if st.dir != "" {
		err := readIdentity(path, &id)
		if err != nil && from == nil {
			return 0, messages.ID128{}, fault.Wrap(fault.Config, err, "the query has no commit record, and may have published rows under its identity; start anew with --fresh %s", query)
		}
		if err != nil {
			st.cfg.Log.Warn("the identity of the query is taken from its newest commit record", "query", query, "error", err)
			id = identity{Attempt: from.Attempt + unknownAttempts, Incarnation: fmt.Sprintf("%016x%016x", from.Incarnation.Hi, from.Incarnation.Lo)}
		}
	}
	if id.Incarnation == "" {
		if err := id.draw(); err != nil {
			return 0, messages.ID128{}, err
		}
	}
	if from != nil {
		id.Attempt = max(id.Attempt, from.Attempt)
	}
	id.Attempt++
	b, err := hex.DecodeString(id.Incarnation)
	if err != nil {
		return 0, messages.ID128{}, err
	}
	st.identities[query] = id
	if st.dir != "" {
		if err := id.write(path); err != nil {
			return 0, messages.ID128{}, fault.Wrap(fault.Restart, fullDisk(err), "write the query's identity")
		}
	}
	return id.Attempt, messages.ID128{Hi: binary.BigEndian.Uint64(b[:8]), Lo: binary.BigEndian.Uint64(b[8:])}, nil
}

// readIdentity reads the identity of a query. The error wraps epochs.ErrDamaged
// if the file is missing or is not what was written.
func readIdentity(path string, id *identity) error {
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("%s is missing: %w", path, epochs.ErrDamaged)
	}
	if err != nil {
		return fault.Wrap(fault.Config, err, "read the query's identity")
	}
	got, err := parseIdentity(data)
	if err != nil {
		return fmt.Errorf("%s cannot be read, it holds the number of the last attempt and the query's identity: %w: %w", path, err, epochs.ErrDamaged)
	}
	*id = got
	return nil
}

func parseIdentity(data []byte) (identity, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var id identity
	if err := d.Decode(&id); err != nil {
		return identity{}, err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return identity{}, errors.New("something follows it")
	}
	if b, err := hex.DecodeString(id.Incarnation); err != nil || len(b) != 16 {
		return identity{}, fmt.Errorf("incarnation %q", id.Incarnation)
	}
	if id.Sum != nil && *id.Sum != id.checksum() {
		return identity{}, errors.New("its checksum does not fit")
	}
	return id, nil
}

// fullDisk makes a full disk known as that: the query waits for space.
func fullDisk(err error) error {
	if errors.Is(err, syscall.ENOSPC) && !errors.Is(err, epochs.ErrNoSpace) {
		return fmt.Errorf("%w: %w", epochs.ErrNoSpace, err)
	}
	return err
}
