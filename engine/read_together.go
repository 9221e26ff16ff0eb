package engine

import (
	"context"

	"github.com/stele-go/stele/index"
)

// togetherLen is the most bytes of values that ReadTogether returns. They lie in one piece of memory,
// so whoever keeps one of them keeps all.
const togetherLen = 16 << 10

// togetherStored is the largest block, as it is stored, that ReadTogether reads.
const togetherStored = 64 << 10

// PartitionFirst is Partition. first reports whether the partition was cold: nobody had read it for as
// long as it takes to be evicted.
func (s *Store) PartitionFirst(id string) (t *index.Partition, first bool, err error) {
	if err := s.EnterToRead(); err != nil {
		return nil, false, err
	}
	defer s.Leave()
	return s.loadFirst(id)
}

// Together reports whether ReadTogether is worth a call for values that begin with this
// one: it lies in the log, or in a block that is not in memory.
func (s *Store) Together(fam *index.Family, first index.Ref) bool {
	loc, ok := fam.Loc(first)
	switch {
	case !ok || loc.Patched():
		return false
	case loc.InLog():
		return loc.Inner == 0 && loc.Len <= togetherLen
	default:
		return loc.Stored <= togetherStored && !s.cache.has(keyOf(loc))
	}
}

// ReadTogether returns values that lie together, with one read or one block lookup instead of one for
// each value. The values lie in one fresh piece of memory. A value is nil if it is not complete in the
// block of the first one, or within togetherLen bytes of the log from the first one on. Without keep
// the block is decompressed into reused memory and does not enter the cache, for values that nobody is
// expected to read again soon. The result is nil if Together returns false, if the values are more than
// 16 KiB, if only one of them is in the log, or if the block or the log cannot be read: ReadValue then
// returns the error.
func (s *Store) ReadTogether(ctx context.Context, fam *index.Family, refs []index.Ref, keep bool) [][]byte {
	if len(refs) == 0 || ctx.Err() != nil || !s.Together(fam, refs[0]) || s.Enter() != nil {
		return nil
	}
	defer s.Leave()
	locs := fam.Locs(refs, make([]index.Loc, 0, len(refs)))
	first := locs[0]
	if first.Patched() {
		return nil // it moved
	}
	h, err := s.Files.Acquire(first.File)
	if err != nil {
		return nil
	}
	defer s.Files.Release(h)
	t := together{h: h, locs: locs, out: make([][]byte, len(refs))}
	if first.InLog() {
		return t.readLog()
	}
	if h.Segment == nil {
		return nil
	}
	if t.measure(); t.room > togetherLen {
		return nil
	}
	if keep {
		block, _, err := s.readBlock(nil, h, first)
		if err != nil {
			return nil
		}
		t.cut(block)
		return t.out
	}
	s.cache.misses.Add(1)
	if h.Segment.LookIntoBlock(segmentLoc(first), t.cut) != nil {
		return nil
	}
	return t.out
}

// together copies values out of a block, or cuts a piece of the log into values.
type together struct {
	h    *FileHandle
	locs []index.Loc // the first says which block, or where the piece begins
	out  [][]byte    // as locs; nil for what is not there
	room int         // bytes of the values
}

// here reports whether value i lies in the block of the first.
func (t *together) here(i int) bool {
	l := &t.locs[i]
	return l.File == t.locs[0].File && l.Off == t.locs[0].Off && !l.Patched()
}

// measure adds up the values that lie in the block.
func (t *together) measure() {
	for i := range t.locs {
		if t.here(i) {
			t.room += int(t.locs[i].Len)
		}
	}
}

// cut takes the values out of the block, into one allocation.
func (t *together) cut(block []byte) {
	all := make([]byte, 0, t.room)
	for i := range t.locs {
		if !t.here(i) {
			continue
		}
		v, err := t.h.Segment.Value(segmentLoc(t.locs[i]), block)
		if err != nil {
			continue
		}
		n := len(all)
		all = append(all, v...)
		t.out[i] = all[n:len(all):len(all)]
	}
}

// inPiece returns where value i ends in the piece of the log that begins with the first; 0 if it does
// not lie there.
func (t *together) inPiece(i int) uint64 {
	l, from := &t.locs[i], t.locs[0].Off
	if l.File != t.locs[0].File || !l.InLog() || l.Inner != 0 || l.Patched() || l.Off < from || l.Off-from+uint64(l.Len) > togetherLen {
		return 0
	}
	return l.Off - from + uint64(l.Len)
}

// readLog reads the piece of the log with one call, and returns the values in it. The values of a
// commit lie one behind the other; before a value of a later commit, the bytes in between are read too.
func (t *together) readLog() [][]byte {
	end, n := uint64(0), 0
	for i := range t.locs {
		if to := t.inPiece(i); to > 0 {
			end, n = max(end, to), n+1
		}
	}
	if n < 2 {
		return nil
	}
	piece, from := make([]byte, end), t.locs[0].Off
	if got, _ := t.h.file.ReadAt(piece, int64(from)); got < len(piece) {
		return nil
	}
	for i := range t.locs {
		to := t.inPiece(i)
		if to == 0 {
			continue
		}
		if v := piece[t.locs[i].Off-from : to : to]; valueSum(v) == t.locs[i].Sum {
			t.out[i] = v
		}
	}
	return t.out
}
