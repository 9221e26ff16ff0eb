package segment

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// scanner walks frames without an index. From bytes that are no valid frame it steps on by
// eight until there is one. The checksum of a frame is right only at its own offset in its
// own file, so nothing inside a value is taken for a frame.
type scanner struct {
	r        *Reader
	pos, end int64

	at     place // of the frame found
	header frameHeader
	raw    []byte  // its decoded payload
	damage []error // one per run of bytes that are no frame
	err    error   // of the device or the context
	bad    bool    // the last bytes were damaged: the run is reported
}

// next finds the next frame that can be decoded; false at the end or on err.
func (s *scanner) next(ctx context.Context) bool {
	for s.pos < s.end {
		if s.err = ctx.Err(); s.err != nil {
			return false
		}
		size, err := s.try()
		if err == nil {
			s.pos += size
			s.bad = false
			return true
		}
		if errors.Is(err, fault.ErrVersion) {
			s.report(err)
			s.pos += size // intact: what follows it is the next frame
			continue
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			s.err = err
			return false
		}
		s.report(err)
		s.bad = true
		if !s.resync(ctx) {
			return false
		}
	}
	return false
}

func (s *scanner) report(err error) {
	if !s.bad && len(s.damage) < maxFindings {
		s.damage = append(s.damage, err)
	}
}

// try reads the frame at pos. size is valid with a nil error and with
// fault.ErrVersion.
func (s *scanner) try() (size int64, err error) {
	s.at = place{s.r.name, "segment frame", s.pos, frameHeaderSize}
	var b [frameHeaderSize]byte
	if s.end-s.pos < frameHeaderSize {
		return 0, s.at.corrupt(nil, "%d bytes are no frame", s.end-s.pos)
	}
	if err := readFull(s.r.f, s.at, b[:]); err != nil {
		return 0, err
	}
	h, magic := peekFrameHeader(b[:])
	size = alignFrame(int64(h.stored))
	if magic != frameMagic || size > s.end-s.pos {
		return 0, s.at.corrupt(ErrMagic, "no frame starts here")
	}
	s.at.n = size
	s.header, s.raw, err = s.r.frame(s.at, kindHead, kindHistory, kindDirectory, kindTombstones, kindMeta, kindFamilyIndex, kindSeal)
	return size, err
}

// resync moves pos to the next place that looks like a frame; try says whether it is one. It
// reads in pieces and skips holes, since a file may have been extended far beyond its
// bytes.
func (s *scanner) resync(ctx context.Context) bool {
	const piece = 64 << 10
	buf := make([]byte, piece+frameHeaderSize)
	s.pos += frameAlign
	for s.end-s.pos >= frameHeaderSize {
		if s.err = ctx.Err(); s.err != nil {
			return false
		}
		b := buf[:min(int64(len(buf)), s.end-s.pos)]
		if err := readFull(s.r.f, place{s.r.name, "segment frame", s.pos, int64(len(b))}, b); err != nil {
			s.err = err
			return false
		}
		for i := 0; i+frameHeaderSize <= len(b); i += frameAlign {
			h, magic := peekFrameHeader(b[i:])
			if magic == frameMagic && h.kind != 0 && alignFrame(int64(h.stored)) <= s.end-s.pos-int64(i) {
				s.pos += int64(i)
				return true
			}
		}
		s.pos += int64(len(b)-frameHeaderSize)/frameAlign*frameAlign + frameAlign
		if s.err = s.passHole(); s.err != nil {
			return false
		}
	}
	s.pos = s.end
	return false
}

// passHole moves pos over a hole, but not over as much of its end as can be the beginning of
// a frame header.
func (s *scanner) passHole() error {
	data, err := vfs.NextData(s.r.f, s.pos, s.end)
	if err != nil {
		return fmt.Errorf("look for data in %s at offset %d: %w", s.r.name, s.pos, err)
	}
	s.pos = max(s.pos, (data-frameHeaderSize)/frameAlign*frameAlign)
	return nil
}

// Salvage opens a segment by walking its frames. Footer and family index may be damaged or
// missing. It finds all families whose directories are intact, and tombstones and meta
// section if these are. damage has one error for each run of damaged bytes, up to 64.
//
// Damaged bytes may have been a directory, or the tombstones. Without these, what was
// deleted may come back, and the caller has to say so.
//
// For the salt, header or footer must be intact. err is set only if nothing could be read
// at all. Salvage writes nothing. As with Open, the Reader closes f. Its Props say what was
// found.
func Salvage(ctx context.Context, f vfs.File, name string, size int64, opts ...OpenOption) (r *Reader, damage []error, err error) {
	r = &Reader{f: f, name: name, salvaged: true}
	for _, o := range opts {
		o(r)
	}
	damage, err = r.identify(size)
	if err != nil {
		return nil, nil, fmt.Errorf("salvage segment: %w", err)
	}
	t := &contents{}
	s := &scanner{r: r, pos: r.start, end: r.end}
	for s.next(ctx) {
		at := extent{uint64(s.at.off), uint32(s.at.n)}
		switch s.header.kind {
		case kindDirectory:
			p := r.at(kindDirectory.String(), at.off, at.n)
			_, blocks, values, err := decodeDirectory(p, s.raw)
			if err != nil {
				s.damage = append(s.damage, err)
				continue
			}
			t.families = append(t.families, describe(s.header.family, at, blocks, values))
		case kindTombstones:
			t.tombs = at
		case kindMeta:
			t.meta = at
		case kindFamilyIndex:
			t.index = at
		}
	}
	if s.err != nil {
		return nil, nil, fmt.Errorf("salvage segment: %w", s.err)
	}
	slices.SortFunc(t.families, func(a, b FamilyInfo) int { return cmp.Compare(a.ID, b.ID) })
	for _, fam := range t.families {
		r.props.addFamily(fam)
	}
	t.Props = r.props
	r.toc.Store(t)
	return r, append(damage, s.damage...), nil
}

// identify sets file number, salt and size from header or footer, whichever is intact, and
// where the frames end.
func (r *Reader) identify(size int64) (damage []error, err error) {
	r.props = Props{FormatVersion: FormatVersion, Size: size}
	b := make([]byte, fileHeaderSize)
	herr := readFull(r.f, place{r.name, "segment header", 0, fileHeaderSize}, b)
	var h fileHeader
	if herr == nil {
		h, herr = decodeFileHeader(r.name, b)
	}
	ft, ferr := readFooter(r.f, r.name, size)
	for _, e := range []error{herr, ferr} {
		if e != nil && !errors.Is(e, fault.ErrCorrupt) {
			return nil, e // a device error, or a newer format version
		}
		if e != nil {
			damage = append(damage, e)
		}
	}
	switch {
	case ferr == nil:
		r.props.FileNum, r.props.Salt = ft.FileNum, ft.Salt
		r.start, r.end = frameStart(ft.sealed()), frameEnd(size, ft.sealed())
		r.key, err = ft.unlock(r.f, r.name, r.keys)
		if !errors.Is(err, fault.ErrCorrupt) || herr != nil {
			return damage, err
		}
		// The seal is damaged; the beginning of the file has the same headers.
		damage = append(damage, err)
		return damage, r.unlockStart(h)
	case herr == nil:
		r.props.FileNum, r.props.Salt = h.num, h.salt
		p := place{r.name, "segment header", 0, fileHeaderSize}
		if err := checkName(p, h.num); err != nil {
			return nil, err
		}
		// Without a footer the file may end anywhere, in a frame too.
		r.start, r.end = frameStart(h.flags&fileSealed != 0), size
		return damage, r.unlockStart(h)
	}
	return nil, errors.Join(herr, ferr)
}

// unlockStart sets the key from the headers at the beginning of the file.
func (r *Reader) unlockStart(h fileHeader) (err error) {
	r.key, err = unlockHead(r.f, r.name, h, r.keys)
	return err
}
