package snapshot

import (
	"cmp"
	"fmt"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// Rows are the partitions and families of an image in the form in which the index keeps them.
// Since image format 2 opening a store need not decode them, since format 3 it need not read
// them, and since format 4 it need not read where each of their frames is.

// unknownPartitions stands for a number of partitions that nobody counted.
const unknownPartitions = ^uint64(0)

// rowOf returns a partition as a row of the index.
func rowOf(t *ImagePartition) index.Row {
	return index.Row{ID: t.ID, Family: t.Family, Birth: t.Birth, LSN: t.LSN, Head: t.Head, Updated: t.Updated, Flags: t.Flags, Deleted: t.Deleted}
}

// partitionOf is the inverse of rowOf.
func partitionOf(r index.Row) ImagePartition {
	return ImagePartition{ID: r.ID, Family: r.Family, Birth: r.Birth, LSN: r.LSN, Head: r.Head, Updated: r.Updated, Flags: r.Flags, Deleted: r.Deleted}
}

// table returns the frames of the table that a type of frame belongs to.
func (im *Image) table(typ imageFrameType) *[]index.Stored { return &im.rows[typ.listed()-imageRows] }

// Rows returns the partitions and families of the image as a table. It reads all of them, and
// checks the frames but not each row in them, as Table does. Those of format 1 are decoded
// one by one. Errors are those of Table.
func (im *Image) Rows() (*index.Table, error) {
	if im.version == 1 {
		return im.decodedRows()
	}
	threads, threadsAt, err := im.chunks(imageRows)
	if err != nil {
		return nil, err
	}
	families, familiesAt, err := im.chunks(imageParts)
	if err != nil {
		return nil, err
	}
	t, err := index.TableOf(threads, families)
	if err == nil && im.version >= firstsVersion {
		err = cmp.Or(begin(threads, threadsAt), begin(families, familiesAt))
	}
	return im.counted(t, err)
}

// begin tests that chunks begin with the keys that were announced.
func begin(chunks []index.Chunk, at []index.Stored) error {
	for i := range at {
		if chunks[i].First() != at[i].First {
			return fmt.Errorf("%w: that at %d", errFirst, at[i].Off)
		}
	}
	return nil
}

// counted returns the table if it has as many rows as the image says; otherwise an error.
func (im *Image) counted(t *index.Table, err error) (*index.Table, error) {
	if err == nil && (uint64(t.Len()) != im.counts.Partitions || uint64(t.LenFamilies()) != im.counts.Families) {
		err = errTable // of format 1, which this is not
	}
	if err != nil {
		return nil, &fault.CorruptionError{File: im.name, Kind: "image table", Offset: -1, Err: err}
	}
	return t, nil
}

// RowsAt is Rows, but a frame and the lists that lead to it are read when the frame is first needed,
// through open, which gives this image or another one of the same file. If the frame is damaged then,
// or is not the one announced, that look-up fails with a *fault.CorruptionError; errors of open are
// passed on. Images of formats 1 and 2 are read immediately.
func (im *Image) RowsAt(open func(read func(*Image) error) error) (*index.Table, error) {
	if im.version < firstsVersion {
		return im.Rows()
	}
	return im.counted(index.TableAt(im.rows[0], im.rows[1], &rowsAt{h: im.h, open: open}))
}

// rowsAt reads chunks and lists of an image for an index.Table.
type rowsAt struct {
	h    ImageHeader
	open func(read func(*Image) error) error
}

// Chunk reads one frame of rows.
func (d *rowsAt) Chunk(families bool, at *index.Stored) (c index.Chunk, err error) {
	err = d.frame(at, func(im *Image, b []byte) error {
		c, err = im.chunkAt(tableOf(families), at, b)
		return err
	})
	return c, err
}

// List reads one list.
func (d *rowsAt) List(families bool, at *index.Stored, end string) (list []index.Stored, err error) {
	err = d.frame(at, func(im *Image, b []byte) error {
		list, err = im.listAt(tableOf(families), at, end, b)
		return err
	})
	return list, err
}

// frame reads a frame and gives it to decode.
func (d *rowsAt) frame(at *index.Stored, decode func(*Image, []byte) error) error {
	return d.open(func(im *Image) error {
		if im.h != d.h {
			return &fault.CorruptionError{File: im.name, Kind: "image header", Offset: 0, Len: headerSize, Detail: "not the image that was opened"}
		}
		b := make([]byte, at.Len) // within the file
		if err := readRange(im.f, im.name, b, at.Off); err != nil {
			return err
		}
		return decode(im, b)
	})
}

// tableOf is the type of the frames of families, or of partitions.
func tableOf(families bool) imageFrameType {
	if families {
		return imageParts
	}
	return imageRows
}

// chunkAt decodes and tests the frame of rows that at announces; b is all of it.
func (im *Image) chunkAt(typ imageFrameType, at *index.Stored, b []byte) (index.Chunk, error) {
	c, err := im.decodeChunk(typ, at, b)
	if err != nil {
		return c, err
	}
	chunks := []index.Chunk{c}
	if _, err = index.TableOf(chunks, nil); err == nil {
		err = begin(chunks, []index.Stored{*at})
	}
	if err != nil {
		return index.Chunk{}, im.damagedTable(at, err)
	}
	return c, nil
}

// decodeChunk decodes the frame of rows that at announces. It checks all that an index.Table
// does not check itself.
func (im *Image) decodeChunk(typ imageFrameType, at *index.Stored, b []byte) (index.Chunk, error) {
	raw, count, err := im.fr.decodeImage(nil, b, im.name, int64(at.Off), typ, MaxPage)
	if err != nil {
		return index.Chunk{}, err
	}
	if uint64(count) != uint64(at.N) {
		return index.Chunk{}, im.damagedTable(at, fmt.Errorf("%w: %d entries, expected %d", errTable, count, at.N))
	}
	return index.Chunk{Data: raw, N: int(count)}, nil
}

// Partitions is the number of partitions that the store had when the image was made, and
// false if the image does not say.
func (im *Image) Partitions() (int, bool) {
	return int(im.threads), im.threads != unknownPartitions
}

func (im *Image) decodedRows() (*index.Table, error) {
	var b index.TableBuilder
	err := im.Table(Visitor{
		Partition: func(t ImagePartition) error { b.AddPartition(rowOf(&t)); return nil },
		Family:    func(f ImageFamily) error { b.AddFamily(f.ID, f.Parts); return nil },
	})
	return b.Done(), err
}

// chunks reads all frames of one type, and also returns their descriptions. Frames that follow each
// other in the file are read with one call. They share memory, which is no more than the file's size.
func (im *Image) chunks(typ imageFrameType) ([]index.Chunk, []index.Stored, error) {
	all, err := im.frames(typ)
	if err != nil {
		return nil, nil, err
	}
	out := make([]index.Chunk, 0, len(all))
	for run := all; len(run) > 0; run = all[len(out):] {
		n := runOf(run)
		b, err := im.readRun(run[:n])
		if err != nil {
			return nil, nil, err
		}
		for i := range n {
			c, err := im.decodeChunk(typ, &run[i], frameOf(b, run, i))
			if err != nil {
				return nil, nil, err
			}
			out = append(out, c)
		}
	}
	return out, all, nil
}

// decodeRows decodes one frame of partitions in the form of the index.
func decodeRows(raw []byte, count uint32) ([]ImagePartition, error) {
	t, err := checkedTable([]index.Chunk{{Data: raw, N: int(count)}}, nil)
	if err != nil {
		return nil, err
	}
	var out []ImagePartition
	return out, t.Partitions(func(r index.Row) bool { out = append(out, partitionOf(r)); return true })
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

// writeRows ends the tables of partitions and families and writes them.
func (w *ImageWriter) writeRows() error {
	w.table = w.rows.Done()
	threads, families := w.table.Chunks()
	if err := w.writeChunks(imageRows, threads); err != nil {
		return err
	}
	return w.writeChunks(imageParts, families)
}

// writeChunks writes one table: its frames, then the lists of them.
func (w *ImageWriter) writeChunks(typ imageFrameType, chunks []index.Chunk) error {
	all := make([]index.Stored, 0, len(chunks))
	for _, c := range chunks {
		if len(c.Data) > MaxPage {
			return w.fail(fmt.Errorf("table entry of %d bytes: %w", len(c.Data), fault.ErrTooLarge))
		}
		off, n, err := w.frame(typ, uint32(c.N), c.Data, nil)
		if err != nil {
			return err
		}
		all = append(all, index.Stored{First: c.First(), Off: off, Len: n, N: c.N, Size: int64(n) - imageFrameHeader})
		*w.counts.of(typ) += uint64(c.N)
	}
	top, err := w.writeLists(typ, all)
	for i := range top {
		w.dir = append(w.dir, refOf(typ, &top[i]))
	}
	return err
}

// Table returns the partitions and families of the image, once it is finished.
func (w *ImageWriter) Table() *index.Table { return w.table }

// SetPartitions sets how many partitions the store has, with those that are only in earlier
// images.
func (w *ImageWriter) SetPartitions(n int) { w.threads = uint64(n) }
