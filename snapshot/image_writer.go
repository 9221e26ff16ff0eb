package snapshot

import (
	"fmt"
	"math/rand/v2"

	"github.com/klauspost/compress/zstd"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/index"
)

// ImageHeader describes an image.
type ImageHeader struct {
	Num     base.FileNum
	StoreID uint64
	LSN     base.LSN // every record up to and including it is in the image
	// PrevNum is the image that this one is a delta to; 0 for a full image.
	PrevNum base.FileNum
	Full    bool
	// Salt makes the checksums depend on this file. If it is 0, NewImageWriter chooses
	// one.
	Salt uint64
}

// ImageCounts says how much an image holds.
type ImageCounts struct {
	Partitions        uint64
	Families          uint64
	RemovedFamilies   uint64
	Tombstones        uint64
	RemovedTombstones uint64
	Pages             uint64
	PageBytes         uint64 // stored, frame headers included
}

// imageChunk is how much an ImageWriter collects before it writes.
const imageChunk = 256 << 10

// ImageWriter writes one image from front to back. Pages and entries of tables may come in any
// mixture. The entries of each table must come in strictly ascending order of their ids
// (byte order for strings), so that it has one encoding, names nothing twice, and loads
// without sorting.
//
// After an error all later calls return it, and the caller removes the file. A crash before
// the end of Finish leaves a file that no manifest names. An ImageWriter is for one
// goroutine, and does not close the file.
type ImageWriter struct {
	f       vfs.File
	h       ImageHeader
	fr      framer
	enc     *zstd.Encoder
	buf     []byte // bytes not yet written
	off     int64  // where buf will lie
	err     error
	counts  ImageCounts
	dir     []tableRef
	tabs    [tableTypes]table
	rows    index.TableBuilder // partitions and families
	table   *index.Table       // these, once written
	threads uint64             // of the store
	lists   listLimits
	// last id of each table, over all its frames
	lastName   [tableTypes]string
	lastID     [tableTypes]uint64
	lastExists [tableTypes]bool
}

// tableRef is the place of a table frame.
type tableRef struct {
	off   uint64
	len   uint32
	count uint32 // entries; of a list those of the frames it leads to
	typ   imageFrameType
	first string // key of the first row, of rows and parts from format 3 on
	size  uint64 // of a list: bytes of the frames it leads to, without their headers
}

// NewImageWriter begins an image in f, which must be new and empty. It fails with ErrInvalid
// if h has no number or no store id, or is neither full nor a delta to an earlier image, and
// with a *fault.KeyError if WithKeyring is given and there is no current key. It writes
// nothing yet.
func NewImageWriter(f vfs.File, h ImageHeader, opts ...ReadOption) (*ImageWriter, error) {
	if h.Num == 0 || h.StoreID == 0 || h.Full != (h.PrevNum == 0) || h.PrevNum >= h.Num {
		return nil, fmt.Errorf("write image %s: %w: header %+v", h.Num, ErrInvalid, h)
	}
	for h.Salt == 0 {
		h.Salt = rand.Uint64()
	}
	w := &ImageWriter{f: f, h: h, fr: framer{salt: h.Salt}, threads: unknownPartitions, lists: imageLists}
	fh := fileHeader{version: ImageVersion, num: h.Num, storeID: h.StoreID, salt: h.Salt, a: uint64(h.LSN), b: uint64(h.PrevNum)}
	if h.Full {
		fh.flags = imageFullFlag
	}
	var err error
	w.buf, w.fr.seal, err = sealedHead(make([]byte, 0, imageChunk+imageChunk/2), base.ImageFile.Name(h.Num), imageMagic, fh, optionsOf(opts).ring)
	if err != nil {
		return nil, err
	}
	w.enc = zstdEncoders.Get().(*zstd.Encoder)
	return w, nil
}

// KeyID is the id of the key that the image is encrypted with; "" if it is not.
func (w *ImageWriter) KeyID() string { return w.fr.seal.KeyID() }

// smallPage is the size below which a page is not compressed. The pages of a delta image are soon
// replaced, and compressing them takes more time than the rest of saving a partition.
const smallPage = 64 << 10

// AddPage stores one page of a directory and returns its place, for a Part. A page larger than
// MaxPage is refused with fault.ErrTooLarge.
func (w *ImageWriter) AddPage(data []byte) (off uint64, n uint32, err error) {
	if w.err != nil {
		return 0, 0, w.err
	}
	if len(data) > MaxPage {
		return 0, 0, w.fail(fmt.Errorf("page of %d bytes: %w", len(data), fault.ErrTooLarge))
	}
	enc := w.enc
	if len(data) < smallPage {
		enc = nil
	}
	off, n, err = w.frame(imagePage, 0, data, enc)
	w.counts.Pages++
	w.counts.PageBytes += uint64(n)
	return off, n, err
}

// AddPartition adds a partition to the table.
func (w *ImageWriter) AddPartition(t ImagePartition) error {
	if err := w.orderNames(imagePartitions, t.ID, len(t.Head)); err != nil {
		return err
	}
	w.rows.AddPartition(rowOf(&t))
	return nil
}

// AddFamily adds a family to the table. Parts may lie in this image, in others
// and in segments.
func (w *ImageWriter) AddFamily(f ImageFamily) error {
	if err := w.orderIDs(imageFamilies, f.ID); err != nil {
		return err
	}
	w.rows.AddFamily(f.ID, f.Parts)
	return nil
}

// AddTombstone adds the tombstone of a deleted partition to the table.
func (w *ImageWriter) AddTombstone(m Tombstone) error {
	if err := w.orderNames(imageTombstones, m.ID, 0); err != nil {
		return err
	}
	return w.add(imageTombstones, len(m.ID), func(b *table) { b.tomb(&m) })
}

// RemoveTombstone removes a tombstone that is in an earlier image of the chain. In a full
// image it fails with ErrInvalid.
func (w *ImageWriter) RemoveTombstone(id string) error {
	if err := w.orderNames(imageRemovedTombstones, id, 0); err != nil {
		return err
	}
	return w.add(imageRemovedTombstones, len(id), func(b *table) { b.removedTombstone(id) })
}

// Finish writes the rest of the tables and the footer, syncs the file, and returns its size for
// ImageInfo. The caller syncs the directory before a manifest edit names the image.
func (w *ImageWriter) Finish() (size int64, err error) {
	if w.err != nil {
		return 0, w.err
	}
	if err := w.writeRows(); err != nil {
		return 0, err
	}
	for i := range w.tabs {
		if err := w.flushTable(imagePartitions + imageFrameType(i)); err != nil {
			return 0, err
		}
	}
	footer := appendU64(appendFirsts(appendFooter(nil, w.counts, w.dir), w.dir), w.threads)
	off, n, err := w.frame(imageFooter, 0, footer, nil)
	if err != nil {
		return 0, err
	}
	w.buf = appendTail(w.buf, w.h.Salt, int64(off)+int64(n), off, n)
	if err := w.flush(); err != nil {
		return 0, err
	}
	if err := w.f.Sync(); err != nil {
		return 0, w.fail(fmt.Errorf("sync: %w", err))
	}
	size = w.off
	w.err = fmt.Errorf("image %s: finished: %w", w.h.Num, fault.ErrClosed)
	zstdEncoders.Put(w.enc) // that of a writer which fails goes with it
	w.enc = nil
	return size, nil
}

// orderNames refuses an id that does not follow the one before it, and strings
// over base.MaxKey.
func (w *ImageWriter) orderNames(typ imageFrameType, id string, other int) error {
	if w.err != nil {
		return w.err
	}
	if len(id) > base.MaxKey || other > base.MaxKey {
		return w.fail(fmt.Errorf("id of %d bytes, head of %d: %w", len(id), other, fault.ErrTooLarge))
	}
	i := typ - imagePartitions
	if w.lastExists[i] && id <= w.lastName[i] {
		return w.fail(fmt.Errorf("%w: %.64q does not follow %.64q", ErrInvalid, id, w.lastName[i]))
	}
	w.lastExists[i], w.lastName[i] = true, id
	return nil
}

// orderIDs refuses an id that does not follow the one before it.
func (w *ImageWriter) orderIDs(typ imageFrameType, id uint64) error {
	if w.err != nil {
		return w.err
	}
	i := typ - imagePartitions
	if w.lastExists[i] && id <= w.lastID[i] {
		return w.fail(fmt.Errorf("%w: family %d does not follow %d", ErrInvalid, id, w.lastID[i]))
	}
	w.lastExists[i], w.lastID[i] = true, id
	return nil
}

// add encodes one entry into its table. If it does not fit into the current frame, it is taken
// back and begins the next, where it is not encoded relative to another.
func (w *ImageWriter) add(typ imageFrameType, stringBytes int, encode func(*table)) error {
	if w.h.Full && (typ == imageRemovedFamilies || typ == imageRemovedTombstones) {
		return w.fail(fmt.Errorf("%w: a full image removes nothing", ErrInvalid))
	}
	t := &w.tabs[typ-imagePartitions]
	if t.strings+stringBytes > tableStrings {
		if err := w.flushTable(typ); err != nil {
			return err
		}
	}
	before := *t
	encode(t)
	if len(t.buf) <= tableTarget {
		return nil
	}
	if before.count > 0 {
		before.buf = t.buf[:len(before.buf)]
		*t = before
		if err := w.flushTable(typ); err != nil {
			return err
		}
		encode(t)
	}
	if len(t.buf) > MaxPage {
		return w.fail(fmt.Errorf("table entry of %d bytes: %w", len(t.buf), fault.ErrTooLarge))
	}
	return nil
}

// flushTable ends the frame begun for one table.
func (w *ImageWriter) flushTable(typ imageFrameType) error {
	t := &w.tabs[typ-imagePartitions]
	if t.count == 0 {
		return nil
	}
	off, n, err := w.frame(typ, t.count, t.buf, w.enc)
	if err != nil {
		return err
	}
	w.dir = append(w.dir, tableRef{off: off, len: n, count: t.count, typ: typ})
	*w.counts.of(typ) += uint64(t.count)
	*t = table{buf: t.buf[:0]}
	return nil
}

// frame appends one frame to the file.
func (w *ImageWriter) frame(typ imageFrameType, count uint32, raw []byte, enc *zstd.Encoder) (off uint64, n uint32, err error) {
	at := w.off + int64(len(w.buf))
	start := len(w.buf)
	w.buf = w.fr.appendImage(w.buf, at, typ, count, raw, enc)
	n = uint32(len(w.buf) - start)
	if len(w.buf) >= imageChunk {
		// In slices: a commit that is synced meanwhile waits for one slice only, not for the whole
		// image.
		if err = w.flush(); err == nil {
			if err = w.f.SyncData(); err != nil {
				err = w.fail(fmt.Errorf("sync: %w", err))
			}
		}
	}
	return uint64(at), n, err
}

// flush writes what is buffered.
func (w *ImageWriter) flush() error {
	if err := writeAt(w.f, w.buf, w.off); err != nil {
		return w.fail(fmt.Errorf("write: %w", markDiskFull(err)))
	}
	w.off += int64(len(w.buf))
	w.buf = w.buf[:0]
	return nil
}

func (w *ImageWriter) fail(err error) error {
	w.err = fmt.Errorf("image %s: %w", w.h.Num, err)
	return w.err
}

// of is the count that belongs to a table.
func (c *ImageCounts) of(typ imageFrameType) *uint64 {
	switch typ.listed() {
	case imagePartitions, imageRows:
		return &c.Partitions
	case imageFamilies, imageParts:
		return &c.Families
	case imageRemovedFamilies:
		return &c.RemovedFamilies
	case imageTombstones:
		return &c.Tombstones
	default:
		return &c.RemovedTombstones
	}
}
