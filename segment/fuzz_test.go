package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// reseal makes the checksums of a mangled segment right again, so that a fuzzer
// gets past them to the code behind.
func reseal(b []byte) []byte {
	b = bytes.Clone(b)
	if len(b) < fileHeaderSize+footerSize {
		return b
	}
	le := binary.LittleEndian
	le.PutUint64(b[56:], base.Checksum(0, b[:56]))
	foot := int64(len(b) - footerSize)
	salt := le.Uint64(b[foot+16:])
	for off := int64(fileHeaderSize); off+frameHeaderSize <= foot; {
		h, _ := peekFrameHeader(b[off:])
		n := alignFrame(int64(h.stored))
		if n > foot-off {
			break
		}
		le.PutUint64(b[off:], base.Checksum(seedAt(salt, off), b[off+8:off+n]))
		off += n
	}
	le.PutUint64(b[foot:], base.Checksum(seedAt(salt, foot), b[foot+8:]))
	return b
}

// known reports whether err is one that bytes may cause.
func known(err error) bool {
	return err == nil || errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrKey)
}

// exercise calls everything on b and fails on an error that is neither damage
// nor a version, and on memory out of proportion to the file.
func exercise(t *testing.T, b []byte) {
	t.Helper()
	limit := uint64(len(b))*zstdMaxRatio + 4<<20
	call := func(name string, f func() error) {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := f()
		runtime.ReadMemStats(&after)
		if !known(err) {
			t.Fatalf("%s: %v", name, err)
		}
		if got := after.TotalAlloc - before.TotalAlloc; got > limit {
			t.Fatalf("%s of %d bytes allocated %d", name, len(b), got)
		}
	}
	f := &memFile{b: b}
	var readers []*Reader
	call("Open", func() error {
		r, err := Open(f, "s", int64(len(b)))
		if err == nil {
			readers = append(readers, r)
		}
		return err
	})
	call("Salvage", func() error {
		r, damage, err := Salvage(context.Background(), f, "s", int64(len(b)))
		for _, d := range damage {
			if d == nil || !known(d) {
				t.Fatalf("damage: %v", d)
			}
		}
		if err == nil {
			readers = append(readers, r)
		}
		return err
	})
	for _, r := range readers {
		call("Tombstones", func() error { _, err := r.Tombstones(); return err })
		call("Meta", func() error { _, err := r.Meta(); return err })
		fams, err := r.Families()
		if err != nil {
			t.Fatal(err)
		}
		for _, fam := range fams[:min(len(fams), 20)] {
			var values []ValueLoc
			call("Directory", func() (err error) { _, values, err = r.directoryOf(fam.ID); return err })
			for _, v := range values[:min(len(values), 20)] {
				call("ReadBlock", func() error {
					block, err := readBlock(r, v.Loc)
					if err == nil {
						_, err = r.Value(v.Loc, block)
					}
					return err
				})
			}
		}
		if err := r.Verify(context.Background(), nil); !known(err) {
			t.Fatalf("Verify: %v", err)
		}
	}
}

// FuzzSegment: Open, Salvage and everything after them on arbitrary bytes, as
// they are and with the checksums put right.
func FuzzSegment(f *testing.F) {
	a, _ := tiny(f, 99)
	b, _, _ := small(f, BuilderOptions{})
	empty := &memFile{}
	bd, err := NewBuilder(empty, BuilderOptions{})
	must(f, err)
	_, err = bd.Finish()
	must(f, err)
	for _, s := range [][]byte{a.b, b.b, empty.b, {}, bytes.Repeat([]byte{0}, 4096), a.b[:500]} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 64<<10 {
			return
		}
		exercise(t, b)
		exercise(t, reseal(b))
	})
}

// FuzzBlock: a block frame of arbitrary header fields and payload, checksum
// right, must decode to exactly raw bytes or be refused.
func FuzzBlock(f *testing.F) {
	c, err := newCompressor(2, 1<<20)
	must(f, err)
	want := bytes.Repeat([]byte("abcdefgh"), 64)
	_, z, err := c.pack(kindHistory, [][]byte{want}, len(want))
	must(f, err)
	f.Add(bytes.Clone(z[0]), uint32(len(want)), byte(kindHead), byte(codecZstd), uint16(0))
	f.Add(bytes.Clone(z[0]), uint32(1<<30), byte(kindHistory), byte(codecZstd), uint16(0))
	_, z, err = c.pack(kindHead, [][]byte{want}, len(want))
	must(f, err)
	f.Add(bytes.Clone(z[0]), uint32(len(want)), byte(kindHead), byte(codecS2), uint16(0))
	f.Add(bytes.Clone(z[0]), uint32(maxQuickRaw+1), byte(kindHead), byte(codecS2), uint16(0))
	f.Add([]byte("raw"), uint32(3), byte(kindHistory), byte(codecRaw), uint16(0))
	f.Add([]byte("raw"), uint32(4), byte(kindHead), byte(codecRaw), uint16(0))
	f.Add([]byte("x"), uint32(1), byte(kindHead), byte(codecPatch), uint16(0))
	f.Add([]byte("x"), uint32(1), byte(kindHead), byte(codecRaw), flagSealed)
	f.Add([]byte{}, uint32(0), byte(200), byte(codecRaw), uint16(0))
	f.Fuzz(func(t *testing.T, payload []byte, raw uint32, k, cd byte, flags uint16) {
		h := frameHeader{stored: uint32(len(payload)), raw: raw, family: 5, kind: kind(k), codec: codec(cd), flags: flags}
		const salt, off = 17, 4096
		b := sealFrame(h, payload, salt, off)
		p := place{"000001.seg", "segment block", off, int64(len(b))}
		got, stored, err := decodeFrame(p, salt, nil, b)
		if !known(err) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if got != h || !bytes.Equal(stored, payload) {
			t.Fatalf("header %+v, want %+v", got, h)
		}
		out, err := unpack(p, got, stored, nil)
		if !known(err) || err == nil && len(out) != int(raw) {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	})
}

// sealFrame is a whole frame with the right checksum, whatever its fields.
func sealFrame(h frameHeader, payload []byte, salt uint64, off int64) []byte {
	hb := h.encode()
	b := append(hb[:], payload...)
	b = append(b, make([]byte, alignFrame(int64(len(payload)))-int64(len(b)))...)
	binary.LittleEndian.PutUint64(b, base.Checksum(seedAt(salt, off), b[8:]))
	return b
}

// FuzzDirectory: what decodes encodes to bytes that decode to the same.
func FuzzDirectory(f *testing.F) {
	blocks := []extent{{64, 64}, {128, 4096}, {8192, 32}}
	values := []ValueLoc{
		{ValueID: ValueID{1, 0}, Loc: Loc{64, 64, 0, 12, 1}},
		{ValueID: ValueID{1, 9}, Loc: Loc{128, 4096, 7, 0, 2}, Encoding: ReversePatch, Base: ValueID{5, 3}},
		{ValueID: ValueID{base.MaxLSN, 65535}, Loc: Loc{64, 64, 12, 1 << 20, 3}, Encoding: ReversePatch, Base: ValueID{1, 9}},
	}
	f.Add(appendDirectory(nil, []byte("dir"), blocks, values))
	f.Add(appendDirectory(nil, nil, nil, nil))
	f.Add(append(binary.AppendUvarint([]byte{0, 0}, 1<<60), 1, 2, 3))
	p := place{"000001.seg", "segment directory", 1 << 20, 0}
	f.Fuzz(func(t *testing.T, b []byte) {
		dir, blocks, values, err := decodeDirectory(p, b)
		if !known(err) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		if cap(values) > len(b)/minValueBytes+1 || cap(blocks) > len(b)/minBlockBytes+1 {
			t.Fatalf("%d rows and %d blocks from %d bytes", cap(values), cap(blocks), len(b))
		}
		dir2, blocks2, values2, err := decodeDirectory(p, appendDirectory(nil, dir, blocks, values))
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(dir, dir2) || !cmp.Equal(blocks, blocks2, cmp.AllowUnexported(extent{})) || !cmp.Equal(values, values2) {
			t.Fatal("decode and encode disagree")
		}
	})
}

// FuzzFamilyIndex: as FuzzDirectory.
func FuzzFamilyIndex(f *testing.F) {
	f.Add(appendFamilyIndex(nil, nil))
	f.Add(appendFamilyIndex(nil, []FamilyInfo{
		{ID: 0, DirOff: 96, DirStored: 32, Values: 3, RawBytes: 7, Stored: 64, MinLSN: 1, MaxLSN: 9},
		{ID: 1 << 63, DirOff: 128, DirStored: 40, Stored: 40},
	}))
	p := place{"000001.seg", "segment family index", 1 << 20, 0}
	f.Fuzz(func(t *testing.T, b []byte) {
		fams, err := decodeFamilyIndex(p, b, fileHeaderSize, 1<<20)
		if !known(err) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		again, err := decodeFamilyIndex(p, appendFamilyIndex(nil, fams), fileHeaderSize, 1<<20)
		if err != nil || !cmp.Equal(fams, again) {
			t.Fatalf("decode and encode disagree: %v", err)
		}
	})
}
