package engine

import (
	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
)

// tombstonesIn returns the tombstones of segments. The output of a compaction must have those of its
// inputs, unless no segment is left that could hold the deleted data.
func (s *Store) tombstonesIn(segs []snapshot.SegmentInfo) ([]index.Tombstone, error) {
	var out []index.Tombstone
	for _, seg := range segs {
		tombs, err := s.SegmentTombstones(seg.Num)
		if err != nil {
			return nil, err
		}
		out = append(out, tombs...)
	}
	return out, nil
}

// remembered returns the tombstones that a store without older segments still needs: those with data,
// until DeletedMemory has passed.
func (s *Store) remembered(known []index.Tombstone) []index.Tombstone {
	last := lastDrops(known)
	oldest := s.oldestTombstone()
	var out []index.Tombstone
	for _, m := range known {
		if m.LSN == last[m.ID] && len(m.Data) > 0 && m.At >= oldest {
			out = append(out, m)
		}
	}
	return out
}

// oldestTombstone is the time before which deletions need not be remembered, in
// unix µs.
func (s *Store) oldestTombstone() int64 {
	return s.Opts.Clock().UnixMicro() - s.Opts.DeletedMemory.Microseconds()
}

// lastDrops returns the record of the last deletion of each partition.
func lastDrops(tombs []index.Tombstone) map[string]base.LSN {
	out := map[string]base.LSN{}
	for _, m := range tombs {
		out[m.ID] = max(out[m.ID], m.LSN)
	}
	return out
}

// SegmentTombstones are the tombstones of one segment.
func (s *Store) SegmentTombstones(num base.FileNum) ([]index.Tombstone, error) {
	h, err := s.Files.Acquire(num)
	if err != nil {
		return nil, err
	}
	defer s.Files.Release(h)
	b, err := h.Segment.Tombstones()
	if err != nil {
		return nil, err
	}
	tombs, err := DecodeTombstones(b)
	if err != nil {
		return nil, &fault.CorruptionError{File: h.Kind.Name(num), Kind: "tombstones", Offset: -1, Err: err}
	}
	return tombs, nil
}
