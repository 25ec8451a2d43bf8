package state

import "github.com/streamd-io/streamd/epochs"

// blobState is state that is not keyed.
type blobState struct {
	data    []byte
	dirty   bool
	frozen  []byte
	pending bool
}

func (b *blobState) freeze() {
	if b.dirty {
		b.dirty = false
		b.pending = true
		b.frozen = b.data
	}
}

// SetBlob sets the operator's state that is not keyed; the store copies it. It
// is stored once per operator, not per subtask, so that only subtask 0 may set
// it, and every subtask may be given it when restored.
func (s *Store) SetBlob(data []byte) {
	// A new slice each time: the old one may belong to the running snapshot.
	s.blob.data = append(make([]byte, 0, len(data)), data...)
	s.blob.dirty = true
}

// Blob returns what SetBlob set last. The caller must not change it.
func (s *Store) Blob() []byte { return s.blob.data }

func (s *Store) encodeBlob() epochs.Segment {
	var w segmentWriter
	w.begin(takeBuffer(segmentHeader + len(s.blob.frozen)))
	w.room(len(s.blob.frozen))
	w.buf = append(w.buf, s.blob.frozen...)
	s.blob.pending, s.blob.frozen = false, nil
	return epochs.Segment{
		SegmentID: epochs.SegmentID{Operator: s.cfg.UID, Group: epochs.OperatorGroup, Epoch: s.snap.epoch},
		Base:      true,
		Data:      w.finish(&s.shape, kindBlob, epochs.OperatorGroup, s.snap.epoch),
	}
}
