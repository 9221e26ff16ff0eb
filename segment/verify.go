package segment

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

// maxFindings bounds what Verify remembers of a file that is damaged all over.
const maxFindings = 64

// Verify reads and checks every byte of the segment: header and footer, all frames, each
// value against its sum, the totals, and that the frames fill the file without gap or
// overlap. progress, if not nil, is called after each family and at the end, with the
// number of bytes checked so far and the size of the file.
//
// It continues behind damage and returns up to 64 findings, joined. Any error that is
// neither damage nor a format version ends it at once, and so does ctx. For a Reader of
// Salvage it checks only what that found.
func (r *Reader) Verify(ctx context.Context, progress func(done, total int64)) error {
	t, err := r.contents()
	if err != nil {
		return err
	}
	v := &verifier{r: r, progress: progress, blind: r.salvaged}
	if err := v.run(ctx, t); err != nil {
		return err
	}
	return errors.Join(v.findings...)
}

type verifier struct {
	r        *Reader
	progress func(done, total int64)
	findings []error
	seen     []extent // verified or reported
	done     int64
	// blind: a directory is damaged or lost, and its blocks are not in seen.
	blind bool
}

func (v *verifier) run(ctx context.Context, t *contents) error {
	if err := v.ends(t); err != nil {
		return err
	}
	v.done = v.r.start + v.r.props.Size - v.r.end
	for _, f := range t.families {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := v.family(f); err != nil {
			return err
		}
		v.report()
	}
	for _, s := range []struct {
		at   extent
		kind kind
	}{{t.tombs, kindTombstones}, {t.meta, kindMeta}, {t.index, kindFamilyIndex}} {
		_, err := v.r.section(s.at, s.kind)
		if err := v.note(err); err != nil {
			return err
		}
		v.mark(s.at)
	}
	if err := v.gaps(ctx); err != nil {
		return err
	}
	v.report()
	return nil
}

// ends checks header and footer.
func (v *verifier) ends(t *contents) error {
	b := make([]byte, fileHeaderSize)
	err := readFull(v.r.f, place{v.r.name, "segment header", 0, fileHeaderSize}, b)
	if err == nil {
		err = v.header(b)
	}
	if err := v.note(err); err != nil {
		return err
	}
	if v.r.salvaged {
		return nil
	}
	// Open may have been long ago: the bytes are read anew.
	ft, err := readFooter(v.r.f, v.r.name, v.r.props.Size)
	if err == nil && ft != t.footer {
		p := place{v.r.name, "segment footer", v.r.end, footerSize}
		err = p.corrupt(nil, "it changed since the segment was opened")
	}
	if err := v.note(err); err != nil {
		return err
	}
	if !t.sealed() {
		return nil
	}
	return v.note(v.sealedHead(t))
}

// sealedHead compares both headers at the beginning of an encrypted file with those at its
// end.
func (v *verifier) sealedHead(t *contents) error {
	b, p := make([]byte, sealedStart), place{v.r.name, "segment header", 0, sealedStart}
	if err := readFull(v.r.f, p, b); err != nil {
		return err
	}
	at := p
	at.off, at.n = t.Size-footerSize-sealSize+frameHeaderSize, seal.HeaderSize
	ext := make([]byte, seal.HeaderSize)
	if err := readFull(v.r.f, at, ext); err != nil {
		return err
	}
	if !bytes.Equal(b[:fileHeaderSize], t.head()) || !bytes.Equal(b[fileHeaderSize:], ext) {
		return p.corrupt(nil, "it does not agree with the end of the file")
	}
	return nil
}

// note files a finding, and returns what is none: an error of the device.
func (v *verifier) note(err error) error {
	if err == nil {
		return nil
	}
	if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
		return err
	}
	if len(v.findings) < maxFindings {
		v.findings = append(v.findings, err)
	}
	return nil
}

func (v *verifier) mark(e extent) {
	if e.n > 0 {
		v.seen = append(v.seen, e)
		v.done += int64(e.n)
	}
}

func (v *verifier) report() {
	if v.progress != nil {
		v.progress(v.done, v.r.props.Size)
	}
}

func (v *verifier) header(b []byte) error {
	h, err := decodeFileHeader(v.r.name, b)
	if err == nil && (h.num != v.r.props.FileNum || h.salt != v.r.props.Salt) {
		p := place{v.r.name, "segment header", 0, fileHeaderSize}
		err = p.corrupt(nil, "it does not agree with the footer")
	}
	return err
}

func (v *verifier) family(f FamilyInfo) error {
	at := extent{f.DirOff, f.DirStored}
	_, blocks, values, err := v.r.directory(f.ID, f.DirOff, f.DirStored)
	v.mark(at)
	if err != nil {
		v.blind = true
		return v.note(err)
	}
	p := v.r.at(kindDirectory.String(), f.DirOff, f.DirStored)
	if err := checkFamily(p, f, blocks, values); err != nil {
		if err := v.note(err); err != nil {
			return err
		}
	}
	slices.SortFunc(values, func(a, b ValueLoc) int { return cmp.Compare(a.Off, b.Off) })
	for _, b := range blocks {
		v.mark(b)
		n := 0
		for n < len(values) && values[n].Off == b.off {
			n++
		}
		if err := v.block(f.ID, b, values[:n]); err != nil {
			return err
		}
		values = values[n:]
	}
	return nil
}

// checkFamily compares a family's entry in the index with its directory.
func checkFamily(p place, f FamilyInfo, blocks []extent, values []ValueLoc) error {
	have := describe(f.ID, extent{f.DirOff, f.DirStored}, blocks, values)
	if have != f {
		return p.corrupt(nil, "the value table does not agree with the family index")
	}
	return nil
}

// describe makes the index entry of a family from its directory.
func describe(id uint64, dir extent, blocks []extent, values []ValueLoc) FamilyInfo {
	f := FamilyInfo{
		ID: id, DirOff: dir.off, DirStored: dir.n,
		Values: uint32(len(values)), Stored: int64(dir.n),
	}
	for _, b := range blocks {
		f.Stored += int64(b.n)
	}
	for _, v := range values {
		f.RawBytes += int64(v.Len)
		f.MinLSN, f.MaxLSN = lsnRange(f.MinLSN, f.MaxLSN, v.LSN)
	}
	return f
}

// block checks one block and the values in it. A damaged block is one finding, no matter how
// many values it has.
func (v *verifier) block(family uint64, at extent, values []ValueLoc) error {
	p := v.r.at(kindHead.String(), at.off, at.n)
	h, raw, err := v.r.frame(p, kindHead, kindHistory)
	if err != nil {
		return v.note(err)
	}
	if h.family != family {
		return v.note(p.corrupt(nil, "it belongs to family %d, not %d", h.family, family))
	}
	for _, l := range values {
		if _, err := v.r.Value(l.Loc, raw); err != nil {
			return v.note(err)
		}
	}
	return nil
}

// gaps checks the bytes that no table refers to. An undamaged segment has none. Otherwise
// they are the blocks of a damaged directory, which are checked as far as they can be
// found.
func (v *verifier) gaps(ctx context.Context) error {
	slices.SortFunc(v.seen, byOffset)
	v.seen = append(v.seen, extent{uint64(v.r.end), 0}) // the end of the last gap
	pos := uint64(v.r.start)
	for _, e := range v.seen {
		p := v.r.at("segment frame", pos, 0)
		switch {
		case e.off < pos:
			p.off = int64(e.off)
			if err := v.note(p.corrupt(nil, "two frames overlap")); err != nil {
				return err
			}
		case e.off > pos && !v.blind:
			p.n = int64(e.off - pos)
			if err := v.note(p.corrupt(nil, "nothing refers to these bytes")); err != nil {
				return err
			}
		case e.off > pos:
			if err := v.walk(ctx, pos, e.off); err != nil {
				return err
			}
		}
		pos = max(pos, e.off+uint64(e.n))
	}
	return nil
}

// walk checks the frames from pos to end, blocks of families whose directories
// are damaged.
func (v *verifier) walk(ctx context.Context, pos, end uint64) error {
	s := &scanner{r: v.r, pos: int64(pos), end: int64(end)}
	for s.next(ctx) {
		v.done += s.at.n
	}
	for _, d := range s.damage {
		if err := v.note(d); err != nil {
			return err
		}
	}
	return s.err
}
