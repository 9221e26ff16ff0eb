package snapshot

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// maxFooter bounds the footer of an image: about eleven million table frames.
const maxFooter = 256 << 20

// Image is an open image. It is immutable and may be used concurrently. The caller closes the
// file after the last use.
type Image struct {
	f       vfs.File
	name    string
	version uint32
	h       ImageHeader
	fr      framer
	start   uint64 // where frames begin
	counts  ImageCounts
	threads uint64            // of the store
	dir     []tableRef        // of all tables but the next
	rows    [2][]index.Stored // partitions and families, from the footer
}

// OpenImage reads header and footer of an image, and nothing else. size is that of the
// manifest; another size is damage. Errors are *fault.CorruptionError, *fault.VersionError,
// *fault.KeyError (see WithKeyring), and those of the file. After any of them but a
// KeyError the image can be rebuilt.
func OpenImage(f vfs.File, name string, size int64, opts ...ReadOption) (*Image, error) {
	have, err := f.Size()
	if err != nil {
		return nil, fmt.Errorf("size of %s: %w", name, err)
	}
	if have != size || size < headerSize+imageFrameHeader+footerFixed+imageTailSize {
		return nil, &fault.CorruptionError{File: name, Kind: "image", Offset: -1, Detail: fmt.Sprintf("the file has %d bytes, expected %d", have, size)}
	}
	head := make([]byte, min(size, sealedStart))
	if err := readRange(f, name, head, 0); err != nil {
		return nil, err
	}
	fh, err := decodeHeader(name, "image header", imageMagic, imageFullFlag|sealedFlag, head)
	if err != nil {
		return nil, err
	}
	h := ImageHeader{
		Num: fh.num, StoreID: fh.storeID, LSN: base.LSN(fh.a), PrevNum: base.FileNum(fh.b),
		Full: fh.flags&imageFullFlag != 0, Salt: fh.salt,
	}
	if num, ok := base.ImageFile.Parse(name); ok && num != h.Num || h.Full != (h.PrevNum == 0) {
		return nil, &fault.CorruptionError{File: name, Kind: "image header", Offset: 0, Len: headerSize,
			Detail: fmt.Sprintf("the file is image %s by its content", h.Num)}
	}
	im := &Image{f: f, name: name, version: fh.version, h: h, start: uint64(fh.frameStart()), fr: framer{salt: h.Salt}}
	if im.fr.seal, err = fh.openSeal(name, head, h.Num, optionsOf(opts).ring); err != nil {
		return nil, err
	}
	if err := im.readFooter(size); err != nil {
		return nil, err
	}
	return im, nil
}

// readFooter finds the footer through the tail of the file.
func (im *Image) readFooter(size int64) error {
	tailAt := size - imageTailSize
	var tail [imageTailSize]byte
	if err := readRange(im.f, im.name, tail[:], uint64(tailAt)); err != nil {
		return err
	}
	off, n, ok := decodeTail(tail[:], im.h.Salt, tailAt)
	if !ok || n > maxFooter || off < im.start || off+uint64(n) != uint64(tailAt) {
		return &fault.CorruptionError{File: im.name, Kind: "image tail", Offset: tailAt, Len: imageTailSize}
	}
	b := make([]byte, n) // n is within the file
	if err := readRange(im.f, im.name, b, off); err != nil {
		return err
	}
	raw, _, err := im.fr.decodeImage(nil, b, im.name, int64(off), imageFooter, int(n))
	if err != nil {
		return err
	}
	err = im.decodeFooter(raw, off)
	if err != nil && !errors.Is(err, fault.ErrVersion) {
		return &fault.CorruptionError{File: im.name, Kind: "image footer", Offset: int64(off), Len: int64(n), Err: err}
	}
	return err
}

// KeyID is the id of the key that the image is encrypted with; "" if it is not.
func (im *Image) KeyID() string { return im.fr.seal.KeyID() }

// Header returns the header of the image.
func (im *Image) Header() ImageHeader { return im.h }

// Check compares the image with the manifest: with the entry that names it, the store, and
// the image before it in the chain (0 for the first). A difference, such as files that were
// swapped or restored leave, is a *fault.CorruptionError.
func (im *Image) Check(info ImageInfo, storeID uint64, prev base.FileNum) error {
	want := ImageHeader{Num: info.Num, StoreID: storeID, LSN: info.LSN, PrevNum: prev, Full: info.Full, Salt: im.h.Salt}
	if im.h != want {
		return &fault.CorruptionError{File: im.name, Kind: "image header", Offset: 0, Len: headerSize, Detail: "not the image that the manifest names"}
	}
	return nil
}

// ReadPage reads, verifies and decompresses the page at off, of length n, with a single read.
// off and n are those of the Part. The caller may keep the result. Damage is a
// *fault.CorruptionError. At most MaxPage bytes are allocated, whatever the file says.
func (im *Image) ReadPage(off uint64, n uint32) ([]byte, error) {
	if n < imageFrameHeader || int64(n) > int64(im.fr.stored(MaxPage))+imageFrameHeader || off < im.start {
		return nil, &fault.CorruptionError{File: im.name, Kind: "image frame", Offset: int64(off), Len: int64(n), Detail: "no page can lie there"}
	}
	b := make([]byte, n)
	if err := readRange(im.f, im.name, b, off); err != nil {
		return nil, err
	}
	raw, _, err := im.fr.decodeImage(nil, b, im.name, int64(off), imagePage, MaxPage)
	return raw, err
}

// Visitor receives the tables of an image, each in strictly ascending order of its ids. A
// table whose function is nil is not read. An error ends the visit and is returned as it is.
type Visitor struct {
	Partition        func(ImagePartition) error
	Family           func(ImageFamily) error
	RemovedFamily    func(id uint64) error
	Tombstone        func(Tombstone) error
	RemovedTombstone func(id string) error
}

// Table reads the tables, and no pages, and passes them to v, which may keep strings, parts
// and data. Those of one frame share memory, so that whoever keeps one keeps about as much
// as all strings of the frame.
func (im *Image) Table(v Visitor) error {
	s := &tableScan{im: im, v: v}
	for _, typ := range visited {
		if !v.wants(typ) {
			continue
		}
		s.order = order{}
		refs, err := im.refs(typ)
		if err != nil {
			return err
		}
		for _, r := range refs {
			if err := s.frame(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// refs are the frames of one type.
func (im *Image) refs(typ imageFrameType) ([]tableRef, error) {
	if !typ.isRows() {
		return slices.DeleteFunc(slices.Clone(im.dir), func(r tableRef) bool { return r.typ != typ }), nil
	}
	all, err := im.frames(typ)
	if err != nil {
		return nil, err
	}
	out := make([]tableRef, len(all))
	for i := range all {
		out[i] = refOf(typ, &all[i])
	}
	return out, nil
}

// wants reports whether the Visitor has a function for a table.
func (v *Visitor) wants(typ imageFrameType) bool {
	switch typ {
	case imagePartitions, imageRows:
		return v.Partition != nil
	case imageFamilies, imageParts:
		return v.Family != nil
	case imageRemovedFamilies:
		return v.RemovedFamily != nil
	case imageTombstones:
		return v.Tombstone != nil
	default:
		return v.RemovedTombstone != nil
	}
}

// tableScan holds the buffers of one pass over the tables.
type tableScan struct {
	im     *Image
	v      Visitor
	dec    tableDecoder
	stored []byte // a frame as it is on disk
	raw    []byte // room to decompress it into
	order
}

// order tests that ids ascend strictly, over all frames of a table.
type order struct {
	any  bool
	id   uint64
	name string
}

func (o *order) number(id uint64) bool {
	ok := !o.any || id > o.id
	o.any, o.id = true, id
	return ok
}

func (o *order) string(name string) bool {
	ok := !o.any || name > o.name
	o.any, o.name = true, name
	return ok
}

// read returns the content of one table frame, valid until the next call.
func (s *tableScan) read(r tableRef) ([]byte, error) {
	if r.len > uint32(s.im.fr.stored(MaxPage))+imageFrameHeader {
		return nil, s.damaged(r, errTable)
	}
	if cap(s.stored) < int(r.len) {
		s.stored = make([]byte, max(int(r.len), tableTarget+imageFrameHeader))
	}
	if s.raw == nil {
		s.raw = make([]byte, 0, tableTarget)
	}
	b := s.stored[:r.len]
	if err := readRange(s.im.f, s.im.name, b, r.off); err != nil {
		return nil, err
	}
	raw, count, err := s.im.fr.decodeImage(s.raw, b, s.im.name, int64(r.off), r.typ, MaxPage)
	if err != nil {
		return nil, err
	}
	if count != r.count {
		return nil, s.damaged(r, fmt.Errorf("%w: %d entries, expected %d", errTable, count, r.count))
	}
	return raw, nil
}

// frame reads one table frame and hands its entries to the visitor.
func (s *tableScan) frame(r tableRef) error {
	raw, err := s.read(r)
	if err != nil {
		return err
	}
	switch r.typ {
	case imagePartitions:
		items, err := s.dec.decodePartitions(s.im.name, raw, r.count)
		return visitAll(s, r, items, err, func(t ImagePartition) bool { return s.string(t.ID) }, s.v.Partition)
	case imageRows:
		items, err := decodeRows(raw, r.count)
		if err == nil && s.im.version >= firstsVersion && items[0].ID != r.first {
			err = errFirst
		}
		return visitAll(s, r, items, err, func(t ImagePartition) bool { return s.string(t.ID) }, s.v.Partition)
	case imageFamilies:
		items, err := s.dec.decodeFamilies(raw, r.count)
		return visitAll(s, r, items, err, func(f ImageFamily) bool { return s.number(f.ID) }, s.v.Family)
	case imageParts:
		items, err := decodeParts(raw, r.count)
		if err == nil && s.im.version >= firstsVersion && string(binary.BigEndian.AppendUint64(nil, items[0].ID)) != r.first {
			err = errFirst
		}
		return visitAll(s, r, items, err, func(f ImageFamily) bool { return s.number(f.ID) }, s.v.Family)
	case imageRemovedFamilies:
		items, err := s.dec.decodeRemovedFamilies(raw, r.count)
		return visitAll(s, r, items, err, s.number, s.v.RemovedFamily)
	case imageTombstones:
		items, err := s.dec.decodeTombstones(raw, r.count)
		return visitAll(s, r, items, err, func(m Tombstone) bool { return s.string(m.ID) }, s.v.Tombstone)
	default:
		items, err := s.dec.decodeRemovedTombstones(raw, r.count)
		return visitAll(s, r, items, err, s.string, s.v.RemovedTombstone)
	}
}

// visitAll hands the decoded entries of frame r to visit, in order.
func visitAll[T any](s *tableScan, r tableRef, items []T, err error, follows func(T) bool, visit func(T) error) error {
	if err != nil {
		return s.damaged(r, err)
	}
	for _, it := range items {
		if !follows(it) {
			return s.damaged(r, errOrder)
		}
		if err := visit(it); err != nil {
			return err
		}
	}
	return nil
}

var (
	// errOrder is the cause for ids that do not ascend.
	errOrder = fmt.Errorf("%w: ids do not ascend", errTable)
	// errFirst: the frame has another first key than the footer, or the list that refers
	// to the frame, says.
	errFirst = fmt.Errorf("%w: the frame does not begin as announced", errTable)
)

// damaged names the frame, unless err says that a newer build wrote it.
func (s *tableScan) damaged(r tableRef, err error) error {
	if errors.Is(err, fault.ErrVersion) {
		return err
	}
	return &fault.CorruptionError{File: s.im.name, Kind: "image table", Offset: int64(r.off), Len: int64(r.len), Err: err}
}

// appendTail appends the last bytes of the file, which lie at at. They have the place of the
// footer frame, and a checksum with the salt of the file.
func appendTail(b []byte, salt uint64, at int64, off uint64, n uint32) []byte {
	start := len(b)
	b = appendU64(b, off)
	b = binary.LittleEndian.AppendUint32(b, n)
	b = binary.LittleEndian.AppendUint32(b, 0)
	b = append(b, imageMagic[:]...)
	return appendU64(b, base.Checksum(seedAt(salt, at), b[start:]))
}

// decodeTail is the inverse of appendTail.
func decodeTail(b []byte, salt uint64, at int64) (off uint64, n uint32, ok bool) {
	const summed = imageTailSize - 8
	if base.Checksum(seedAt(salt, at), b[:summed]) != binary.LittleEndian.Uint64(b[summed:]) || [8]byte(b[16:]) != imageMagic {
		return 0, 0, false
	}
	return binary.LittleEndian.Uint64(b), binary.LittleEndian.Uint32(b[8:]), true
}
