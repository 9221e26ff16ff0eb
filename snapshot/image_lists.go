package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// A list is a frame that says of other frames what a footer says. A table of partitions or
// families with many frames is found through lists, so that the memory of an open image
// does not grow with its tables. Lists, like the frames they lead to, are read when they are
// needed.

// listLimits bound how many entries there are in one place.
type listLimits struct {
	footer int // of one table in a footer; where there would be more, they go to lists
	list   int // of a list
}

var imageLists = listLimits{footer: 8, list: 64}

// isRows reports whether a footer has the first key of frames of the type.
func (t imageFrameType) isRows() bool { return t == imageRows || t == imageParts || t.isList() }

// isList reports whether frames of the type list other frames.
func (t imageFrameType) isList() bool { return t == imageRowLists || t == imagePartLists }

// listed is the type of the frames of the table that a frame of the type belongs to.
func (t imageFrameType) listed() imageFrameType {
	if t.isList() {
		return t - imageRowLists + imageRows
	}
	return t
}

// list is the type of the lists of frames of the type.
func (t imageFrameType) list() imageFrameType { return t.listed() - imageRows + imageRowLists }

// refOf is a frame of rows, parts or lists of them, in the form of a footer.
func refOf(typ imageFrameType, s *index.Stored) tableRef {
	r := tableRef{off: s.Off, len: s.Len, count: uint32(s.N), typ: typ.listed(), first: s.First, size: uint64(s.Size)}
	if s.List {
		r.typ = typ.list()
	}
	return r
}

// stored is the inverse of refOf.
func (r *tableRef) stored() index.Stored {
	s := index.Stored{First: r.first, Off: r.off, Len: r.len, N: int(r.count), Size: int64(r.len) - imageFrameHeader}
	if s.List = r.typ.isList(); s.List {
		s.Size = int64(r.size)
	}
	return s
}

// appendFirst encodes the fields of a tableRef other than its place.
func (r *tableRef) appendFirst(b []byte) []byte {
	if r.typ.isList() {
		b = binary.AppendUvarint(b, r.size)
	}
	b = binary.AppendUvarint(b, uint64(len(r.first)))
	return append(b, r.first...)
}

// decodeFirst is the inverse of appendFirst. It returns how many bytes of b it decoded; 0 if they are
// not valid. text is b as a string, of which the key becomes a part. The frames of a list lie before it
// in the file, and cannot be larger.
func (r *tableRef) decodeFirst(b []byte, text string) int {
	at := 0
	if r.typ.isList() {
		var w int
		if r.size, w = binary.Uvarint(b); w <= 0 || r.size > r.off {
			return 0
		}
		at = w
	}
	n, w := binary.Uvarint(b[at:])
	if w <= 0 || n > uint64(len(b)-at-w) {
		return 0
	}
	at += w
	r.first = text[at : at+int(n)]
	return at + int(n)
}

// appendFrames encodes a list.
func appendFrames(b []byte, typ imageFrameType, list []index.Stored) []byte {
	for i := range list {
		r := refOf(typ, &list[i])
		b = append(b, byte(r.typ))
		b = binary.AppendUvarint(b, r.off)
		b = binary.AppendUvarint(b, uint64(r.len))
		b = binary.AppendUvarint(b, uint64(r.count))
		b = r.appendFirst(b)
	}
	return b
}

// decodeFrames is the inverse of appendFrames, for a list of frames of typ, or of lists of
// those. It checks that the frames lie between from and to, one behind the other.
func decodeFrames(b []byte, typ imageFrameType, from, to uint64) ([]index.Stored, error) {
	text := string(b) // which all keys share
	var list []index.Stored
	for len(b) > 0 {
		r := tableRef{typ: imageFrameType(b[0])}
		if r.typ != typ && r.typ != typ.list() {
			return nil, fmt.Errorf("%w: a list of %s has a frame of type %d", errTable, typ.name(), r.typ)
		}
		b = b[1:]
		var n [3]uint64
		for i := range n {
			var w int
			if n[i], w = binary.Uvarint(b); w <= 0 {
				return nil, errTable
			}
			b = b[w:]
		}
		r.off, r.len, r.count = n[0], uint32(n[1]), uint32(n[2])
		if r.off < from || r.off > to || n[1] > to-r.off || uint64(r.len) != n[1] || uint64(r.count) != n[2] {
			return nil, errTable
		}
		from = r.off + n[1]
		w := r.decodeFirst(b, text[len(text)-len(b):])
		if w == 0 {
			return nil, errTable
		}
		b = b[w:]
		list = append(list, r.stored())
	}
	return slices.Clip(list), nil
}

// listAt decodes b, the whole frame of a list, and checks that it is as at announces it. Its
// keys must be below end, unless that is "".
func (im *Image) listAt(typ imageFrameType, at *index.Stored, end string, b []byte) ([]index.Stored, error) {
	raw, count, err := im.fr.decodeImage(nil, b, im.name, int64(at.Off), typ.list(), MaxPage)
	if err != nil {
		return nil, err
	}
	list, err := decodeFrames(raw, typ, im.start, at.Off)
	if err == nil && uint64(count) != uint64(at.N) {
		err = fmt.Errorf("%w: %d entries, expected %d", errTable, count, at.N)
	}
	if err == nil {
		err = at.Holds(list, end)
	}
	if err != nil {
		return nil, im.damagedTable(at, err)
	}
	return list, nil
}

// damagedTable returns the error for a frame that does not match its description.
func (im *Image) damagedTable(at *index.Stored, err error) error {
	return &fault.CorruptionError{File: im.name, Kind: "image table", Offset: int64(at.Off), Len: int64(at.Len), Err: err}
}

// frames returns all frames of a table, after following the lists.
func (im *Image) frames(typ imageFrameType) ([]index.Stored, error) {
	all := *im.table(typ)
	for range index.MaxDepth {
		if !slices.ContainsFunc(all, func(s index.Stored) bool { return s.List }) {
			return all, nil
		}
		var err error
		if all, err = im.below(typ, all); err != nil {
			return nil, err
		}
	}
	return nil, &fault.CorruptionError{File: im.name, Kind: "image table", Offset: -1, Err: errLevels}
}

// errLevels is the cause for lists that lead to no frame in index.MaxDepth steps.
var errLevels = errors.New("lists lead to lists without end")

// below replaces lists by the frames in them. Lists that follow each other in the file are read with
// one call.
func (im *Image) below(typ imageFrameType, all []index.Stored) ([]index.Stored, error) {
	var out []index.Stored
	for len(all) > 0 {
		if !all[0].List {
			out, all = append(out, all[0]), all[1:]
			continue
		}
		n := runOf(all)
		b, err := im.readRun(all[:n])
		if err != nil {
			return nil, err
		}
		for i := range n {
			at, end := &all[i], ""
			if i+1 < len(all) {
				end = all[i+1].First
			}
			list, err := im.listAt(typ, at, end, frameOf(b, all, i))
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
		all = all[n:]
	}
	// Else several could lead to one frame, which would be read for each of them.
	end := uint64(0)
	for i := range out {
		if at := &out[i]; !at.List {
			if at.Off < end {
				return nil, im.damagedTable(at, fmt.Errorf("%w: it does not lie behind the frame before", errTable))
			}
			end = at.Off + uint64(at.Len)
		}
	}
	return out, nil
}

// runOf returns how many frames from the first on follow each other in the file and are all lists, or
// all not.
func runOf(all []index.Stored) int {
	n := 1
	for n < len(all) && all[n].List == all[0].List && all[n-1].Off+uint64(all[n-1].Len) == all[n].Off {
		n++
	}
	return n
}

// readRun reads frames that lie behind one another.
func (im *Image) readRun(run []index.Stored) ([]byte, error) {
	first, last := run[0], run[len(run)-1]
	b := make([]byte, last.Off+uint64(last.Len)-first.Off) // within the file
	return b, readRange(im.f, im.name, b, first.Off)
}

// frameOf is frame i of a run that was read.
func frameOf(b []byte, run []index.Stored, i int) []byte {
	return b[run[i].Off-run[0].Off:][:run[i].Len:run[i].Len]
}

// writeLists writes lists, and lists of lists, until few enough frames of a table are left for
// the footer. It returns these.
func (w *ImageWriter) writeLists(typ imageFrameType, all []index.Stored) ([]index.Stored, error) {
	for len(all) > w.lists.footer {
		var above []index.Stored
		for list := range slices.Chunk(all, w.lists.list) {
			s := index.Stored{First: list[0].First, List: true}
			for i := range list {
				s.N += list[i].N
				s.Size += list[i].Size
			}
			if uint64(s.N) > math.MaxUint32 {
				return nil, w.fail(fmt.Errorf("table of %d rows: %w", s.N, fault.ErrTooLarge))
			}
			var err error
			if s.Off, s.Len, err = w.frame(typ.list(), uint32(s.N), appendFrames(nil, typ, list), nil); err != nil {
				return nil, err
			}
			above = append(above, s)
		}
		all = above
	}
	return all, nil
}
