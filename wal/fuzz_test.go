package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// FuzzFrame decodes arbitrary bytes as a frame. Whatever is accepted must
// encode to the same bytes.
func FuzzFrame(f *testing.F) {
	for _, h := range []frameHeader{
		{typ: frameRecord, lsn: 1, syncedTo: 64},
		{typ: frameClose, lsn: 9, syncedTo: 4096},
		{typ: frameSync, lsn: 9, syncedTo: 640},
		{typ: frameRecord, flags: 1, lsn: 1, syncedTo: 64},
	} {
		var parts [][]byte
		if h.typ == frameRecord {
			parts = [][]byte{[]byte("some"), []byte("thing")}
		}
		b, _ := appendFrame(nil, 5, 4096, h, parts...)
		f.Add(b, uint64(5), int64(4096))
		f.Add(b, uint64(6), int64(4096))
		f.Add(b[:frameHeaderSize], uint64(5), int64(4096))
	}
	f.Add(make([]byte, 64), uint64(0), int64(64))
	f.Fuzz(func(t *testing.T, b []byte, salt uint64, off int64) {
		if len(b) < frameHeaderSize {
			return
		}
		h, ok := decodeFrameHeader(b, salt, off)
		if !ok || h.size() > int64(len(b)) || !frameValid(b, &h, salt, off) {
			return
		}
		if h.typ == 0 || h.syncedTo > off {
			t.Fatalf("accepted %+v at %d", h, off)
		}
		again, sum := appendFrame(nil, salt, off, h, b[frameHeaderSize:][:h.length])
		if sum != h.sum || !bytes.Equal(again[:frameHeaderSize], b[:frameHeaderSize]) {
			t.Fatalf("%x decodes and encodes to %x", b, again)
		}
	})
}

// FuzzLogFile recovers arbitrary bytes as the newest file of a log, and as a
// sealed one. It checks what holds for any bytes: no panic, only typed errors,
// dense LSNs, and that a recovered log can be written on and read again with
// the same records in front.
func FuzzLogFile(f *testing.F) {
	for _, clean := range []bool{true, false} {
		all := fuzzSeed(f, clean)
		f.Add(all[base.LogFile.Name(1)], uint8(0))
		f.Add(all[base.LogFile.Name(1)], uint8(1))
		for _, i := range []int{3, 5, 9, 60, 70, 74, 76, 80, 90, 130} {
			b := bytes.Clone(all[base.LogFile.Name(1)])
			b[i] ^= 4
			f.Add(b, uint8(0))
			f.Add(b[:i], uint8(0))
		}
	}
	f.Add([]byte{1, 1, 8, 9, 1, 2, 13, 0, 0x80, 0, 0, 3, 1, 3, 13, 5, 2, 3, 20, 0}, uint8(4))
	f.Add([]byte{1, 1, 8, 9, 0x80, 0, 0, 3, 1, 3, 18, 5}, uint8(6))
	f.Fuzz(func(t *testing.T, b []byte, how uint8) {
		if how&4 != 0 {
			b = scripted(b)
		}
		w := newWorld(vfs.NewMem(vfs.MemOptions{}))
		w.num, w.files = 1, []base.FileNum{1}
		writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), b)
		o := w.recoverOptions()
		if how&1 != 0 {
			o.Files = nil
		}
		if how&2 != 0 {
			o.ReadOnly, o.AllowDamage = true, true
			if _, _, err := readLog(o); err != nil && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("with damage allowed: %v", err)
			}
			return
		}
		l, r, got, err := w.reopen()
		if err != nil {
			if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("%v", err)
			}
			return
		}
		first := r.LastLSN + 1
		if first == 0 || r.LastLSN > 1<<62 {
			halfClose(l)
			return // LSNs at the end of their range: no store gets there
		}
		mustCommit(t, l, 1, 30)
		mustClose(t, l)
		again, _, err := readLog(w.recoverOptions())
		if err != nil {
			t.Fatalf("after writing on: %v", err)
		}
		if len(again) != len(got)+1 {
			t.Fatalf("%d records before, %d after one more", len(got), len(again))
		}
		for i := range got {
			if !bytes.Equal(got[i], again[i]) {
				t.Fatalf("record %d changed", i)
			}
		}
	})
}

// scripted builds a file of frames whose checksums fit and whose fields are
// anything: mutation alone does not get past the checksums. Each four bytes of
// the script are type, LSN, promise / 8 and payload length; with the top bit of
// the type set they leave a gap instead.
func scripted(script []byte) []byte {
	hdr := fileHeader{num: 1, baseLSN: 1, salt: 3}
	b, _ := hdr.encode()
	out := b[:]
	for ; len(script) >= 4 && len(out) < 4096; script = script[4:] {
		if script[0]&0x80 != 0 {
			out = append(out, bytes.Repeat([]byte{script[1]}, 8*int(script[3]%32+1))...)
			continue
		}
		h := frameHeader{typ: frameType(script[0] % 4), lsn: base.LSN(script[1]), syncedTo: int64(script[2]) * 8}
		var parts [][]byte
		if h.typ == frameRecord || script[0]&0x40 != 0 {
			parts = [][]byte{bytes.Repeat([]byte{script[1]}, int(script[3]))}
		}
		out, _ = appendFrame(out, hdr.salt, int64(len(out)), h, parts...)
	}
	return out
}

func fuzzSeed(f *testing.F, clean bool) map[string][]byte {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(f)
	for i := 1; i <= 3; i++ {
		mustCommit(f, l, i, 10*i)
	}
	all := directory(f, w.fs, w.dir)
	if clean {
		mustClose(f, l)
		return directory(f, w.fs, w.dir)
	}
	halfClose(l)
	all[base.LogFile.Name(1)] = all[base.LogFile.Name(1)][:400]
	return all
}

// FuzzMark decodes arbitrary bytes as the file of the durable mark. Whatever counts
// encodes to the same bytes, and nothing that is read of it makes damage of a log but
// one that ends before it.
func FuzzMark(f *testing.F) {
	var both []byte
	for i := range 2 {
		s := MarkSlot{Mark: Mark{Origin: 7, File: 3, Salt: 9, End: 4096, LSN: 40}, Seq: uint64(8 + 1 - i)}
		b := s.encode()
		f.Add(b[:])
		both = append(append(both, b[:]...), make([]byte, MarkSlotSize-markSize)...)
	}
	f.Add(both)
	f.Add(both[:600])
	for _, i := range []int{0, 4, 6, 8, 24, 40, 48, 56, 64, 516, 568} {
		b := bytes.Clone(both)
		b[i] ^= 2
		f.Add(b)
		binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:56]))
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		slots, err := DecodeMark(b)
		if err != nil {
			if !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("untyped error %v", err)
			}
			return
		}
		for i, s := range slots {
			at := i * MarkSlotSize
			if s.Valid && !s.Used {
				t.Fatalf("slot %+v counts and is empty", s)
			}
			if e := s.encode(); s.Valid && !bytes.Equal(b[at:at+markSize], e[:]) {
				t.Fatalf("%x decodes and encodes to %x", b[at:at+markSize], e)
			}
		}
		if i := newestSlot(slots); i >= 0 && (!slots[i].Valid || slots[1-i].Valid && slots[1-i].Seq > slots[i].Seq) {
			t.Fatalf("slot %d of %+v is not the one that counts", i, slots)
		}
	})
}
