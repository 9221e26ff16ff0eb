package snapshot

import (
	"fmt"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
)

// Rows are the threads and families of an image in the form the index keeps them
// in, so that opening a store reads them and does not decode them: image format 2.

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
	if err == nil && (uint64(t.Len()) != im.counts.Threads || uint64(t.LenFamilies()) != im.counts.Families) {
		err = errTable // of format 1, which this is not
	}
	if err != nil {
		return nil, &base.CorruptionError{File: im.name, Kind: "image table", Offset: -1, Err: err}
	}
	return t, nil
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

// chunks reads all frames of one type; those that follow each other in the file with
// one read. They share memory, which is no more than the file has.
func (im *Image) chunks(typ imageFrameType) ([]index.Chunk, error) {
	var run []tableRef
	var out []index.Chunk
	for _, r := range im.dir {
		if r.typ != typ {
			continue
		}
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
	t.Threads(func(r index.Row) bool { out = append(out, threadOf(r)); return true })
	return out, nil
}

// decodeParts decodes one frame of families in the form of the index.
func decodeParts(raw []byte, count uint32) ([]ImageFamily, error) {
	t, err := checkedTable(nil, []index.Chunk{{Data: raw, N: int(count)}})
	if err != nil {
		return nil, err
	}
	var out []ImageFamily
	t.Families(func(id uint64, parts []index.Part) bool {
		out = append(out, ImageFamily{ID: id, Parts: parts})
		return true
	})
	return out, nil
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
		w.dir = append(w.dir, tableRef{off: off, len: n, count: uint32(c.N), typ: typ})
		*w.counts.of(typ) += uint64(c.N)
	}
	return nil
}

// Table is what the image says of threads and families, once it is finished.
func (w *ImageWriter) Table() *index.Table { return w.table }

// SetThreads says how many threads the store has as of this image, those that only
// earlier images tell of included.
func (w *ImageWriter) SetThreads(n int) { w.threads = uint64(n) }
