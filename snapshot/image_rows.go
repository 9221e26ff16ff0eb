package snapshot

import (
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
)

// Rows are the threads and families of an image in the form the index keeps them
// in, so that opening a store does not decode them: image format 2. From format 3 on it
// need not read them either.

// unknownThreads stands for a number of threads that nobody counted.
const unknownThreads = ^uint64(0)

// rowOf is a thread as the index has it.
func rowOf(t *ImageThread) index.Row {
	return index.Row{ID: t.ID, Family: t.Family, Birth: t.Birth, LSN: t.LSN, Head: t.Head, Updated: t.Updated, Flags: t.Flags, Deleted: t.Deleted}
}

// threadOf is the inverse of rowOf.
func threadOf(r index.Row) ImageThread {
	return ImageThread{ID: r.ID, Family: r.Family, Birth: r.Birth, LSN: r.LSN, Head: r.Head, Updated: r.Updated, Flags: r.Flags, Deleted: r.Deleted}
}

// Rows returns the threads and families of the image as a table. It reads them at
// once and tests the frames, not each row in them: Table does. The threads of format
// 1 are decoded one by one. Errors are those of Table.
func (im *Image) Rows() (*index.Table, error) {
	if im.version == 1 {
		return im.decodedRows()
	}
	threads, err := im.chunks(imageRows)
	if err != nil {
		return nil, err
	}
	families, err := im.chunks(imageParts)
	if err != nil {
		return nil, err
	}
	t, err := index.TableOf(threads, families)
	if err == nil {
		err = errors.Join(im.begin(imageRows, threads), im.begin(imageParts, families))
	}
	return im.counted(t, err)
}

// counted is the table, if it has what the image says it has.
func (im *Image) counted(t *index.Table, err error) (*index.Table, error) {
	if err == nil && (uint64(t.Len()) != im.counts.Threads || uint64(t.LenFamilies()) != im.counts.Families) {
		err = errTable // of format 1, which this is not
	}
	if err != nil {
		return nil, &base.CorruptionError{File: im.name, Kind: "image table", Offset: -1, Err: err}
	}
	return t, nil
}

// begin tests that chunks begin with the keys that the footer says.
func (im *Image) begin(typ imageFrameType, chunks []index.Chunk) error {
	for i, r := range im.refs(typ) {
		if im.version >= firstsVersion && chunks[i].First() != r.first {
			return fmt.Errorf("%w: the frame at %d does not begin as the footer says", errTable, r.off)
		}
	}
	return nil
}

// RowsAt is Rows, but reads a frame when somebody first looks into it: with the image,
// or another of the same file, that open gives. Damage of a frame is then a
// *base.CorruptionError for who looks into it, as is a frame that the footer does not
// fit; errors of open are passed on. Of images of formats 1 and 2 everything is read
// at once.
func (im *Image) RowsAt(open func(read func(*Image) error) error) (*index.Table, error) {
	if im.version < firstsVersion {
		return im.Rows()
	}
	h := im.h
	refs := [2][]tableRef{im.refs(imageRows), im.refs(imageParts)}
	var at [2][]index.Stored
	for k := range refs {
		at[k] = make([]index.Stored, len(refs[k]))
		for i, r := range refs[k] {
			at[k][i] = index.Stored{First: r.first, Size: int(r.len) - imageFrameHeader, N: int(r.count)}
		}
	}
	return im.counted(index.TableAt(at[0], at[1], func(families bool, i int) (c index.Chunk, err error) {
		k := 0
		if families {
			k = 1
		}
		err = open(func(im *Image) error {
			if im.h != h {
				return &base.CorruptionError{File: im.name, Kind: "image header", Offset: 0, Len: headerSize, Detail: "not the image that was opened"}
			}
			c, err = im.readRef(refs[k][i])
			return err
		})
		return c, err
	}))
}

// readRef reads the chunk that is one frame.
func (im *Image) readRef(r tableRef) (index.Chunk, error) {
	out, err := im.readRun(nil, []tableRef{r})
	if err != nil {
		return index.Chunk{}, err
	}
	t, err := index.TableOf(out, nil)
	if err == nil && (t.Len() != int(r.count) || out[0].First() != r.first) {
		err = errTable
	}
	if err != nil {
		return index.Chunk{}, &base.CorruptionError{File: im.name, Kind: "image table", Offset: int64(r.off), Len: int64(r.len), Err: err}
	}
	return out[0], nil
}

// Threads is the number of threads of the store as of this image, and false if the
// image does not say.
func (im *Image) Threads() (int, bool) {
	return int(im.threads), im.threads != unknownThreads
}

func (im *Image) decodedRows() (*index.Table, error) {
	var b index.TableBuilder
	err := im.Table(Visitor{
		Thread: func(t ImageThread) error { b.AddThread(rowOf(&t)); return nil },
		Family: func(f ImageFamily) error { b.AddFamily(f.ID, f.Parts); return nil },
	})
	return b.Done(), err
}

// refs are the frames of one type. A writer puts them behind one another.
func (im *Image) refs(typ imageFrameType) []tableRef {
	is := func(r tableRef) bool { return r.typ == typ }
	from := slices.IndexFunc(im.dir, is)
	if from < 0 {
		return nil
	}
	n := slices.IndexFunc(im.dir[from:], func(r tableRef) bool { return !is(r) })
	if n < 0 {
		return im.dir[from:]
	}
	if !slices.ContainsFunc(im.dir[from+n:], is) {
		return im.dir[from : from+n : from+n]
	}
	return slices.DeleteFunc(slices.Clone(im.dir), func(r tableRef) bool { return !is(r) })
}

// chunks reads all frames of one type; those that follow each other in the file with
// one read. They share memory, which is no more than the file has.
func (im *Image) chunks(typ imageFrameType) ([]index.Chunk, error) {
	var run []tableRef
	var out []index.Chunk
	for _, r := range im.refs(typ) {
		if n := len(run); n > 0 && run[n-1].off+uint64(run[n-1].len) != r.off {
			var err error
			if out, err = im.readRun(out, run); err != nil {
				return nil, err
			}
			run = run[:0]
		}
		run = append(run, r)
	}
	return im.readRun(out, run)
}

// readRun appends the chunks of frames that lie behind one another.
func (im *Image) readRun(out []index.Chunk, run []tableRef) ([]index.Chunk, error) {
	if len(run) == 0 {
		return out, nil
	}
	first, last := run[0], run[len(run)-1]
	b := make([]byte, last.off+uint64(last.len)-first.off) // within the file
	if err := readRange(im.f, im.name, b, first.off); err != nil {
		return nil, err
	}
	for _, r := range run {
		fr := b[r.off-first.off:][:r.len:r.len]
		raw, count, err := im.fr.decodeImage(nil, fr, im.name, int64(r.off), r.typ, MaxPage)
		if err != nil {
			return nil, err
		}
		if count != r.count {
			return nil, &base.CorruptionError{File: im.name, Kind: "image table", Offset: int64(r.off), Len: int64(r.len),
				Detail: fmt.Sprintf("%d entries, the footer says %d", count, r.count)}
		}
		out = append(out, index.Chunk{Data: raw, N: int(count)})
	}
	return out, nil
}

// decodeRows decodes one frame of threads in the form of the index.
func decodeRows(raw []byte, count uint32) ([]ImageThread, error) {
	t, err := checkedTable([]index.Chunk{{Data: raw, N: int(count)}}, nil)
	if err != nil {
		return nil, err
	}
	var out []ImageThread
	return out, t.Threads(func(r index.Row) bool { out = append(out, threadOf(r)); return true })
}

// decodeParts decodes one frame of families in the form of the index.
func decodeParts(raw []byte, count uint32) ([]ImageFamily, error) {
	t, err := checkedTable(nil, []index.Chunk{{Data: raw, N: int(count)}})
	if err != nil {
		return nil, err
	}
	var out []ImageFamily
	return out, t.Families(func(id uint64, parts []index.Part) bool {
		out = append(out, ImageFamily{ID: id, Parts: parts})
		return true
	})
}

func checkedTable(threads, families []index.Chunk) (*index.Table, error) {
	t, err := index.TableOf(threads, families)
	if err == nil {
		err = t.Check()
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errTable, err)
	}
	return t, nil
}

// writeRows ends the tables of threads and families and writes them.
func (w *ImageWriter) writeRows() error {
	w.table = w.rows.Done()
	threads, families := w.table.Chunks()
	if err := w.writeChunks(imageRows, threads); err != nil {
		return err
	}
	return w.writeChunks(imageParts, families)
}

func (w *ImageWriter) writeChunks(typ imageFrameType, chunks []index.Chunk) error {
	for _, c := range chunks {
		if len(c.Data) > MaxPage {
			return w.fail(fmt.Errorf("table entry of %d bytes: %w", len(c.Data), base.ErrTooLarge))
		}
		off, n, err := w.frame(typ, uint32(c.N), c.Data, nil)
		if err != nil {
			return err
		}
		w.dir = append(w.dir, tableRef{off: off, len: n, count: uint32(c.N), typ: typ, first: c.First()})
		*w.counts.of(typ) += uint64(c.N)
	}
	return nil
}

// Table is what the image says of threads and families, once it is finished.
func (w *ImageWriter) Table() *index.Table { return w.table }

// SetThreads says how many threads the store has as of this image, those that only
// earlier images tell of included.
func (w *ImageWriter) SetThreads(n int) { w.threads = uint64(n) }
