package segment

import (
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// Reader reads one segment. All methods but Close may be called concurrently. If a Reader
// is shared, its users have to be counted, and the last one closes it.
type Reader struct {
	f     vfs.File
	name  string
	props Props
	foot  footer // of Open and OpenFooter
	start int64  // frames begin here
	end   int64  // frames lie before it: the footer's offset, if there is one
	keys  *seal.Keyring
	key   *seal.File // nil: not encrypted
	// salvaged: made by Salvage, so the families may not be all there were.
	salvaged bool

	load sync.Mutex // held while the contents are being read
	// toc is nil until read; never changed after it was set.
	toc atomic.Pointer[contents]
}

// contents is what is in footer and family index.
type contents struct {
	footer
	families []FamilyInfo // ascending ids
}

// Open opens a segment of the given size. It reads and checks the footer and the family
// index. name is for errors; if it is one that base.SegmentFile.Name makes, the file must have that
// number.
//
// Damage is a *fault.CorruptionError, and Salvage may still read the rest. A newer format
// version is a *fault.VersionError. For the *fault.KeyError of an encrypted segment see
// WithKeys. Close closes f; if Open fails, the caller does.
func Open(f vfs.File, name string, size int64, opts ...OpenOption) (*Reader, error) {
	r, err := OpenFooter(f, name, size, opts...)
	if err != nil {
		return nil, err
	}
	if err := r.loadContents(r.foot); err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	return r, nil
}

// OpenFooter is Open, but only reads and checks the footer. The family index, which takes
// memory for each family, is read by the first call that needs it. None does if the caller
// knows the places of blocks and directories.
func OpenFooter(f vfs.File, name string, size int64, opts ...OpenOption) (*Reader, error) {
	ft, err := readFooter(f, name, size)
	if err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	r := &Reader{f: f, name: name, props: ft.Props, foot: ft, start: frameStart(ft.sealed()), end: frameEnd(size, ft.sealed())}
	for _, o := range opts {
		o(r)
	}
	if r.key, err = ft.unlock(f, name, r.keys); err != nil {
		return nil, fmt.Errorf("open segment: %w", err)
	}
	return r, nil
}

func checkName(p place, have base.FileNum) error {
	if want, ok := base.SegmentFile.Parse(p.file); ok && want != have {
		return p.corrupt(nil, "this is segment %s under another name", have)
	}
	return nil
}

// readFooter reads the last 128 bytes. If they are no footer, it looks at the header, to see
// whether the file is a segment, and of which format version.
func readFooter(f io.ReaderAt, name string, size int64) (footer, error) {
	p := place{name, "segment footer", 0, size}
	if size < fileHeaderSize+footerSize {
		return footer{}, p.corrupt(io.ErrUnexpectedEOF, "%d bytes are too few for a segment", size)
	}
	p.off, p.n = size-footerSize, footerSize
	b := make([]byte, footerSize)
	if err := readFull(f, p, b); err != nil {
		return footer{}, err
	}
	ft, err := decodeFooter(name, size, b)
	if err == nil {
		err = checkName(p, ft.FileNum)
	}
	if errors.Is(err, fault.ErrCorrupt) {
		b = b[:fileHeaderSize]
		if herr := readFull(f, place{name, "segment header", 0, fileHeaderSize}, b); herr != nil {
			return footer{}, herr
		}
		if _, herr := decodeFileHeader(name, b); errors.Is(herr, fault.ErrVersion) || errors.Is(err, ErrMagic) && errors.Is(herr, ErrMagic) {
			return footer{}, herr
		}
	}
	return ft, err
}

// readFull reads len(b) bytes at p.off. If the file ends before that, it is damaged; errors
// of the device are no damage.
func readFull(f io.ReaderAt, p place, b []byte) error {
	n, err := f.ReadAt(b, p.off)
	switch {
	case n == len(b):
		return nil // io.EOF may come along with the last bytes
	case err == nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
		return p.corrupt(io.ErrUnexpectedEOF, "only %d bytes are there", n)
	}
	return fmt.Errorf("read %s of %s at offset %d: %w", p.kind, p.file, p.off, err)
}

// loadContents reads the family index that ft names.
func (r *Reader) loadContents(ft footer) error {
	p := place{r.name, "segment footer", ft.Size - footerSize, footerSize}
	start, end := uint64(frameStart(ft.sealed())), uint64(frameEnd(ft.Size, ft.sealed()))
	for _, e := range []extent{ft.tombs, ft.meta, ft.index} {
		if (e == extent{}) {
			continue
		}
		if e.off < start || e.off > end || uint64(e.n) > end-e.off {
			return p.corrupt(nil, "a section lies outside of the file")
		}
	}
	at := place{r.name, kindFamilyIndex.String(), int64(ft.index.off), int64(ft.index.n)}
	_, raw, err := r.frame(at, kindFamilyIndex)
	if err != nil {
		return err
	}
	fams, err := decodeFamilyIndex(at, raw, start, ft.index.off)
	if err != nil {
		return err
	}
	var sum Props
	for _, f := range fams {
		sum.addFamily(f)
	}
	if sum.Families != ft.Families || sum.Values != ft.Values || sum.RawBytes != ft.RawBytes ||
		sum.MinLSN != ft.MinLSN || sum.MaxLSN != ft.MaxLSN {
		return at.corrupt(nil, "totals do not agree with the footer")
	}
	r.toc.Store(&contents{footer: ft, families: fams})
	return nil
}

// contents returns footer and family index, and reads the index on first use. After a failure
// the next call tries again.
func (r *Reader) contents() (*contents, error) {
	if t := r.toc.Load(); t != nil {
		return t, nil
	}
	r.load.Lock()
	defer r.load.Unlock()
	if t := r.toc.Load(); t != nil {
		return t, nil
	}
	if err := r.loadContents(r.foot); err != nil {
		return nil, err
	}
	return r.toc.Load(), nil
}

// Props returns the properties of the segment.
func (r *Reader) Props() Props { return r.props }

// Name is the name given to Open.
func (r *Reader) Name() string { return r.name }

// Families returns the families by ascending id. The slice is shared and must not be
// changed. It fails only for a Reader of OpenFooter.
func (r *Reader) Families() ([]FamilyInfo, error) {
	t, err := r.contents()
	if err != nil {
		return nil, err
	}
	return t.families, nil
}

// Find returns the entry of family id, and false if the segment does not have it.
func (r *Reader) Find(id uint64) (FamilyInfo, bool, error) {
	t, err := r.contents()
	if err != nil {
		return FamilyInfo{}, false, err
	}
	f, ok := findFamily(t.families, id)
	return f, ok, nil
}

// DirectoryAt returns the directory of family id, which lies where FamilyInfo.DirOff and
// DirStored say, and its value table, by ascending ValueID. It reads nothing else. The caller
// may keep and change both.
func (r *Reader) DirectoryAt(id, off uint64, stored uint32) (dir []byte, values []ValueLoc, err error) {
	dir, _, values, err = r.directory(id, off, stored)
	return dir, values, err
}

func (r *Reader) directory(id, off uint64, stored uint32) ([]byte, []extent, []ValueLoc, error) {
	p := r.at(kindDirectory.String(), off, stored)
	h, raw, err := r.frame(p, kindDirectory)
	if err != nil {
		return nil, nil, nil, err
	}
	if h.family != id {
		return nil, nil, nil, p.corrupt(nil, "it belongs to family %d, not %d", h.family, id)
	}
	return decodeDirectory(p, raw)
}

// at is the place of a frame that the caller refers to. An offset that no file can have is
// replaced by one that is refused.
func (r *Reader) at(what string, off uint64, stored uint32) place {
	return place{r.name, what, int64(min(off, math.MaxInt64)), int64(stored)}
}

// ReadBlock reads, checks and decodes the block that loc lies in, with one read of exactly
// loc.Stored bytes. The block has all values whose Loc has the same Off. The caller may
// keep it.
func (r *Reader) ReadBlock(loc Loc) (raw []byte, err error) {
	_, raw, err = r.frame(r.at(kindHead.String(), loc.Off, loc.Stored), kindHead, kindHistory)
	return raw, err
}

// LookIntoBlock is ReadBlock for a caller that does not keep the block, which saves
// allocating it. It calls look with the block, which is valid until look returns. After an
// error look is not called.
func (r *Reader) LookIntoBlock(loc Loc, look func(block []byte)) error {
	stored, room := scratch.Get().(*[]byte), scratch.Get().(*[]byte)
	defer scratch.Put(stored)
	defer scratch.Put(room)
	p := r.at(kindHead.String(), loc.Off, loc.Stored)
	h, payload, _, err := r.payload(p, stored, []kind{kindHead, kindHistory})
	if err != nil {
		return err
	}
	if h.codec != codecRaw && h.raw <= keepScratch {
		*room = slices.Grow((*room)[:0], int(h.raw))
	}
	block, err := unpack(p, h, payload, *room)
	if err == nil {
		look(block)
	}
	return err
}

// Value returns the value at loc, a slice of block, which is the result of ReadBlock(loc).
// It checks the value against loc.Sum, and does no I/O.
func (r *Reader) Value(loc Loc, block []byte) ([]byte, error) {
	p := r.at("segment value", loc.Off, loc.Stored)
	end := uint64(loc.Inner) + uint64(loc.Len)
	if end > uint64(len(block)) {
		return nil, p.corrupt(nil, "value at %d+%d in a block of %d bytes", loc.Inner, loc.Len, len(block))
	}
	v := block[loc.Inner:end:end]
	if base.Checksum(0, v) != loc.Sum {
		return nil, p.corrupt(ErrChecksum, "value at %d+%d is not the one referred to", loc.Inner, loc.Len)
	}
	return v, nil
}

// Tombstones returns the bytes that Builder.SetTombstones was given; nil if there are none.
func (r *Reader) Tombstones() ([]byte, error) {
	t, err := r.contents()
	if err != nil {
		return nil, err
	}
	return r.section(t.tombs, kindTombstones)
}

// Meta returns the bytes that Builder.SetMeta was given; nil if there are none.
func (r *Reader) Meta() ([]byte, error) {
	t, err := r.contents()
	if err != nil {
		return nil, err
	}
	return r.section(t.meta, kindMeta)
}

func (r *Reader) section(e extent, k kind) ([]byte, error) {
	if (e == extent{}) {
		return nil, nil
	}
	_, raw, err := r.frame(r.at(k.String(), e.off, e.n), k)
	return raw, err
}

// Close closes the file. No other method may be running, or be called later.
func (r *Reader) Close() error {
	if err := r.f.Close(); err != nil {
		return fmt.Errorf("close segment %s: %w", r.name, err)
	}
	return nil
}

// keepScratch is the largest buffer kept for reuse: a frame of a default block.
const keepScratch = 1<<20 + 4<<10

// scratch holds buffers for frames that are decompressed out of them.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// frame reads the frame at p, checks it and that it is of one of the wanted kinds, and
// decodes its payload into new memory.
func (r *Reader) frame(p place, want ...kind) (frameHeader, []byte, error) {
	s := scratch.Get().(*[]byte)
	defer scratch.Put(s)
	h, payload, sealed, err := r.payload(p, s, want)
	if err != nil {
		return h, nil, err
	}
	raw, err := unpack(p, h, payload, nil)
	if h.codec == codecRaw && !sealed && p.n <= keepScratch {
		raw = slices.Clone(raw)
	}
	return h, raw, err
}

// payload reads and verifies the frame at p, and returns its payload as it is stored. It
// lies in s, unless it was encrypted or is too large to be kept there.
func (r *Reader) payload(p place, s *[]byte, want []kind) (h frameHeader, b []byte, sealed bool, err error) {
	// The size of the file bounds the buffer, whatever the reference says.
	if p.off < fileHeaderSize || p.n < frameHeaderSize || p.off > r.end-p.n {
		return h, nil, false, p.corrupt(nil, "reference to outside of the file's frames")
	}
	if p.n <= keepScratch {
		*s = slices.Grow((*s)[:0], int(p.n))[:p.n]
		b = *s
	} else {
		b = make([]byte, p.n)
	}
	if err := readFull(r.f, p, b); err != nil {
		return h, nil, false, err
	}
	h, b, err = decodeFrame(p, r.props.Salt, r.key, b)
	if err == nil && !slices.Contains(want, h.kind) {
		err = p.corrupt(nil, "the frame there is a %s", h.kind)
	}
	return h, b, r.key != nil, err
}
