package wire

import (
	"errors"

	"google.golang.org/protobuf/proto"
)

// AppendCommit appends the encoding of m to dst and returns the result. It
// fails if a text of m is not valid UTF-8. Equal records have equal encodings.
func AppendCommit(dst []byte, m *CommitRecord) ([]byte, error) {
	return proto.MarshalOptions{Deterministic: true}.MarshalAppend(dst, m)
}

// ParseCommit reads a record that AppendCommit has written. The result shares
// no memory with data.
func ParseCommit(data []byte) (*CommitRecord, error) {
	m := &CommitRecord{}
	if err := proto.Unmarshal(data, m); err != nil {
		return nil, err
	}
	for _, c := range m.GetChains() {
		if !c.complete() {
			return nil, errors.New("chains: the lists of an operator differ in length")
		}
	}
	return m, nil
}

// complete reports whether all lists have as many entries as there are chains.
func (x *CommitChains) complete() bool {
	n := len(x.GetGroupStep())
	return len(x.GetBaseAgo()) == n && len(x.GetLastAgo()) == n && len(x.GetSegments()) == n &&
		len(x.GetSum()) == n && len(x.GetBaseBytes()) == n && len(x.GetDeltaBytes()) == n
}
