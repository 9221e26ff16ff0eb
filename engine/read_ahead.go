package engine

import (
	"cmp"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
)

const (
	// aheadGap is how many bytes between two values of the log are read along with them: enough for the
	// head of a record, and a small record of others. That costs less than another system call.
	aheadGap = 1 << 10
	// aheadPiece bounds what is read with one call, and readAheadBytes all that is read ahead.
	aheadPiece     = 64 << 10
	readAheadBytes = 1 << 20
)

// ahead has the pieces of the log that were read ahead, with several values each, in the order of files
// and offsets.
type ahead struct {
	pieces []piece
	room   []byte      // that the pieces lie in
	locs   []index.Loc // scratch
}

type piece struct {
	file  base.FileNum
	off   uint64
	bytes []byte
}

// compare orders pieces and values by where they begin.
func (p piece) compare(loc index.Loc) int {
	return cmp.Or(cmp.Compare(p.file, loc.File), cmp.Compare(p.off, loc.Off))
}

// Ahead tells a onceReader which values it will read next. It reads values that lie close to each other
// in the log together, as those of one commit do, up to 1 MiB. It may overwrite values returned before,
// and forgets those it kept. It checks nothing: a value that is not complete in the bytes read ahead is
// read by itself.
func (r *Reader) Ahead(values []index.ValueLoc) {
	a := &r.ahead
	if len(a.pieces) > 0 {
		a.pieces = a.pieces[:0]
		r.keeping().forget() // it may refer to a.room
	}
	a.locs = a.locs[:0]
	for i := range values {
		if l := &values[i].Loc; l.InLog() && l.Inner == 0 && l.Len > 0 {
			a.locs = append(a.locs, *l)
		}
	}
	slices.SortFunc(a.locs, func(x, y index.Loc) int { return cmp.Or(cmp.Compare(x.File, y.File), cmp.Compare(x.Off, y.Off)) })
	room := a.room[:0]
	for i := 0; i < len(a.locs); {
		first, n := a.locs[i], 1
		end := first.Off + uint64(first.Len)
		for ; i+n < len(a.locs); n++ {
			next := a.locs[i+n]
			to := max(end, next.Off+uint64(next.Len))
			if next.File != first.File || next.Off > end+aheadGap || to-first.Off > aheadPiece {
				break
			}
			end = to
		}
		i += n
		if n == 1 {
			continue
		}
		size := int(end - first.Off)
		if len(room)+size > readAheadBytes {
			break
		}
		room = r.readAhead(first, size, room)
	}
	a.room = room
}

// readAhead reads size bytes of the log, from the first value on, and appends them to room. If room has
// to grow, earlier pieces keep the memory they lie in.
func (r *Reader) readAhead(first index.Loc, size int, room []byte) []byte {
	h, err := r.s.Files.Acquire(first.File)
	if err != nil {
		return room
	}
	defer r.s.Files.Release(h)
	at := len(room)
	room = slices.Grow(room, size)
	got := room[at : at+size : at+size]
	if n, _ := h.file.ReadAt(got, int64(first.Off)); n < size {
		return room
	}
	r.ahead.pieces = append(r.ahead.pieces, piece{first.File, first.Off, got})
	return room[:at+size]
}

// inLog returns the value at loc of the log if it was read ahead and is complete. r may be nil.
func (r *Reader) inLog(loc index.Loc) ([]byte, bool) {
	if r == nil || len(r.ahead.pieces) == 0 || !loc.InLog() || loc.Inner != 0 {
		return nil, false
	}
	i, ok := slices.BinarySearchFunc(r.ahead.pieces, loc, piece.compare)
	if !ok {
		if i--; i < 0 {
			return nil, false
		}
	}
	p := r.ahead.pieces[i]
	if p.file != loc.File || loc.Off-p.off+uint64(loc.Len) > uint64(len(p.bytes)) {
		return nil, false
	}
	from := loc.Off - p.off
	b := p.bytes[from : from+uint64(loc.Len) : from+uint64(loc.Len)]
	return b, valueSum(b) == loc.Sum
}
