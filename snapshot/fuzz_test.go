package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// FuzzManifest: any bytes decode to a state that obeys the rules, or to a typed
// error. The checksums of the input are made to fit first, so that the fuzzer
// gets behind them; the input as it is gets its turn as well.
func FuzzManifest(f *testing.F) {
	for _, closed := range []bool{false, true} {
		m := buildManifest(f, 4, closed)
		f.Add(m.b)
		torn := bytes.Clone(m.b)
		clear(torn[m.ends[3]+9:])
		f.Add(torn)
	}
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		checkManifest(t, b)
		checkManifest(t, resumManifest(bytes.Clone(b)))
	})
}

func checkManifest(t *testing.T, b []byte) {
	st, rep, err := decodeManifest(ManifestName(7), b, readOptions{})
	if err != nil {
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("untyped error %v", err)
		}
		return
	}
	if err := st.check(); err != nil {
		t.Fatalf("a state that breaks the rules: %v", err)
	}
	again, err := decodeState("m", appendState(nil, &st))
	if err != nil || !same(st, again) {
		t.Fatalf("state %+v does not survive its own encoding: %v", st, err)
	}
	if rep.Dropped < 0 || rep.Dropped > int64(len(b)) {
		t.Fatalf("report %+v", rep)
	}
}

// resumManifest corrects the checksums and the size of what may be a manifest.
func resumManifest(b []byte) []byte {
	if len(b) < headerSize {
		return b
	}
	copy(b, manifestMagic[:])
	binary.LittleEndian.PutUint64(b[16:], 7)
	binary.LittleEndian.PutUint64(b[48:], uint64(len(b)))
	binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:headerSummed]))
	salt := binary.LittleEndian.Uint64(b[32:])
	resum := func(off, limit int) int {
		if off < 0 || off+frameHeaderSize > limit {
			return 0
		}
		n := binary.LittleEndian.Uint32(b[off+8:])
		if uint64(n) > uint64(limit-off-frameHeaderSize) {
			return 0
		}
		size := frameSize(int(n))
		if off+size > limit {
			return 0
		}
		binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(salt, int64(off)), b[off+8:off+size]))
		return size
	}
	limit := len(b) - slotsSize
	for off, n := headerSize, 1; n > 0; off += n {
		n = resum(off, limit)
	}
	resum(limit, limit+slotSize)
	resum(limit+slotSize, len(b))
	return b
}

// FuzzEdit: an edit decodes to one that encodes to the same bytes, or not at
// all.
func FuzzEdit(f *testing.F) {
	st := firstState()
	for i := range 12 {
		e := scriptEdit(i, &st)
		f.Add(appendEdit(nil, &e))
		if err := st.apply(&e); err != nil {
			f.Fatal(err)
		}
	}
	f.Add(appendState(nil, &st))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := decodeEdit("m", b)
		if err == nil {
			if got := appendEdit(nil, &e); !bytes.Equal(got, b) {
				t.Fatalf("%+v encodes as %x, was %x", e, got, b)
			}
			s := fullState()
			if s.apply(&e) == nil && s.check() == nil {
				if _, err := decodeState("m", appendState(nil, &s)); err != nil {
					t.Fatalf("a right state does not decode: %v", err)
				}
			}
		} else if !errors.Is(err, errField) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("untyped error %v", err)
		}
		if s, err := decodeState("m", b); err == nil && !bytes.Equal(appendState(nil, &s), b) {
			t.Fatalf("state %+v has two spellings", s)
		}
	})
}

// FuzzImage: any bytes open, list and read as an image, or give a typed error.
func FuzzImage(f *testing.F) {
	add := func(c content, pages ...[]byte) {
		file, _ := buildImage(f, deltaHeader(9), c, pages...)
		f.Add(file.b)
	}
	add(content{})
	small := smallContent()
	small.Partitions = small.Partitions[:3]
	add(small, []byte("page"))
	add(typicalContent(30, 1), bytes.Repeat([]byte("page"), 100))
	listed, _ := listedImage(f, nil)
	f.Add(listed.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		checkImage(t, b)
		checkImage(t, resumImage(bytes.Clone(b)))
	})
}

func checkImage(t *testing.T, b []byte) {
	typed := func(err error) bool {
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("untyped error %v", err)
		}
		return err == nil
	}
	file := &bytesFile{b: b}
	im, err := OpenImage(file, base.ImageFile.Name(9), int64(len(b)))
	if !typed(err) {
		return
	}
	rows, err := im.Rows()
	var once, later content
	if typed(err) {
		typed(addRows(&once, rows))
	}
	at, aerr := im.RowsAt(with(im))
	if typed(aerr) && typed(addRows(&later, at)) && err == nil && !equalContent(once, later) {
		t.Fatal("rows that are read later are others")
	}
	c, err := readTable(im)
	if typed(err) {
		n := im.counts
		if uint64(len(c.Partitions)) != n.Partitions || uint64(len(c.Families)) != n.Families || uint64(len(c.Tombstones)) != n.Tombstones {
			t.Fatalf("counts %+v do not fit the table", n)
		}
	}
	for off := headerSize; off+imageFrameHeader <= len(b) && off < headerSize+256; off++ {
		n := binary.LittleEndian.Uint32(b[off+8:])
		_, err := im.ReadPage(uint64(off), n+imageFrameHeader)
		typed(err)
	}
}

// resumImage corrects the checksums of what may be an image: header, the frames
// from the first on, and the tail.
func resumImage(b []byte) []byte {
	if len(b) < headerSize+imageTailSize {
		return b
	}
	copy(b, imageMagic[:])
	binary.LittleEndian.PutUint64(b[16:], 9)
	binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:headerSummed]))
	salt := binary.LittleEndian.Uint64(b[32:])
	tail := len(b) - imageTailSize
	for off := headerSize; off+imageFrameHeader <= tail; {
		n := binary.LittleEndian.Uint32(b[off+8:])
		if uint64(n) > uint64(tail-off-imageFrameHeader) {
			break
		}
		end := off + imageFrameHeader + int(n)
		binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(salt, int64(off)), b[off+8:end]))
		if imageFrameType(b[off+16]) == imageFooter {
			copy(b[tail:], appendTail(nil, salt, int64(tail), uint64(off), uint32(end-off)))
		}
		off = end
	}
	return b
}

// FuzzFrames: a list decodes to frames that lie behind one another before it, and that
// encode to a list which says the same, or gives an error.
func FuzzFrames(f *testing.F) {
	file, _ := listedImage(f, nil)
	im := openImage(f, file, 9)
	for all := im.rows[0]; all[0].List; {
		below, err := im.below(imageRows, all)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(imageRows), uint16(all[0].Off), appendFrames(nil, imageRows, below))
		all = below
	}
	f.Add(uint8(imageParts), uint16(len(file.b)), appendFrames(nil, imageParts, im.rows[1]))
	f.Fuzz(func(t *testing.T, kind uint8, to uint16, b []byte) {
		typ := imageFrameType(kind)
		if !typ.isRows() || typ.isList() {
			typ = imageRows
		}
		list, err := decodeFrames(b, typ, headerSize, uint64(to))
		if err != nil {
			if !errors.Is(err, errTable) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		from := uint64(headerSize)
		for _, s := range list {
			if s.Off < from || s.Off+uint64(s.Len) > uint64(to) {
				t.Fatalf("a frame at %d, of %d bytes, does not lie between %d and %d", s.Off, s.Len, from, to)
			}
			from = s.Off + uint64(s.Len)
		}
		again, err := decodeFrames(appendFrames(nil, typ, list), typ, headerSize, uint64(to))
		if err != nil || !slices.Equal(again, list) {
			t.Fatalf("%+v does not survive its own encoding: %+v, %v", list, again, err)
		}
	})
}

// FuzzTable: table frames decode without their frame around them, and what
// decodes encodes to the same bytes.
func FuzzTable(f *testing.F) {
	c := smallContent()
	var threads, families oldTable
	var tombs, ids, names table
	for i := range c.Partitions {
		threads.thread(&c.Partitions[i])
	}
	for i := range c.Families {
		families.familyEntry(&c.Families[i])
	}
	for i := range c.Tombstones {
		tombs.tomb(&c.Tombstones[i])
	}
	for _, id := range c.RemovedFamilies {
		ids.removedFamily(id)
	}
	for _, name := range c.RemovedTombstones {
		names.removedTombstone(name)
	}
	for i, t := range []table{{count: threads.count, buf: threads.buf}, {count: families.count, buf: families.buf}, ids, tombs, names} {
		f.Add(uint8(i), t.count, t.buf)
	}
	f.Fuzz(func(t *testing.T, kind uint8, count uint32, b []byte) {
		var d tableDecoder
		var out oldTable
		var err error
		switch kind % tableTypes {
		case 0:
			var items []ImagePartition
			if items, err = d.decodePartitions("m", b, count); err == nil {
				for i := range items {
					out.thread(&items[i])
				}
				again, err := d.decodePartitions("m", out.buf, out.count)
				if err != nil || len(again) != int(count) {
					t.Fatalf("%d threads, %v", len(again), err)
				}
			}
		case 1:
			var items []ImageFamily
			if items, err = d.decodeFamilies(b, count); err == nil {
				for i := range items {
					out.familyEntry(&items[i])
				}
				again, err := d.decodeFamilies(out.buf, out.count)
				if err != nil || len(again) != int(count) {
					t.Fatalf("%d families, %v", len(again), err)
				}
			}
		case 2:
			_, err = d.decodeRemovedFamilies(b, count)
		case 3:
			_, err = d.decodeTombstones(b, count)
		default:
			_, err = d.decodeRemovedTombstones(b, count)
		}
		if err != nil && !errors.Is(err, errTable) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("untyped error %v", err)
		}
	})
}
