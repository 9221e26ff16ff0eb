package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// logImage is a log as a crash left it: 100 records of 400 bytes, each synced
// and acknowledged, in one file.
func logImage(t *testing.T, mark bool) (w *world, image []byte, frameAt func(i int) int) {
	w = newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t, func(o *Options) { o.FileSize = 1 << 20 })
	for i := 1; i <= 100; i++ {
		mustCommit(t, l, i, 400)
	}
	if mark {
		// What the committer does once it is idle.
		l.control(controlNone)
		l.q.close()
		l.workers.Wait()
		l.idleMark()
	}
	image = readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)))
	halfClose(l)
	return w, image, func(i int) int { return fileHeaderSize + (i-1)*int(frameSize(400)) }
}

// One edit to a log that ended without a close. This is the table on which
// well-known logs lose acknowledged records or fail to open at all.
func TestOneEdit(t *testing.T) {
	flip := func(off int) func([]byte) []byte {
		return func(b []byte) []byte { b[off] ^= 0x10; return b }
	}
	zero := func(off, n int) func([]byte) []byte {
		return func(b []byte) []byte { clear(b[off:][:n]); return b }
	}
	w, image, at := logImage(t, false)
	_, marked, _ := logImage(t, true)
	const damaged = -1
	// move puts frame from in the place of another; all frames are of one length.
	move := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { copy(b[at(to):at(to+1)], b[at(from):at(from+1)]); return b }
	}
	// forge puts a valid frame with a wrong number in the place of the last.
	forge := func(lsn base.LSN) func([]byte) []byte {
		return func(b []byte) []byte {
			hdr, _, err := decodeFileHeader(base.LogFile.Name(1), 1, b)
			if err != nil {
				t.Fatal(err)
			}
			f, _ := appendFrame(nil, hdr.salt, int64(at(100)), frameHeader{typ: frameRecord, lsn: lsn, syncedTo: int64(at(100))}, payload(100, 400))
			copy(b[at(100):], f)
			return b
		}
	}
	// remove takes frames out, double puts one in twice.
	remove := func(from, to int) func([]byte) []byte {
		return func(b []byte) []byte { return append(b[:at(from)], b[at(to):]...) }
	}
	double := func(i int) func([]byte) []byte {
		return func(b []byte) []byte { return append(b[:at(i+1):at(i+1)], b[at(i):]...) }
	}
	for _, tc := range []struct {
		name  string
		image []byte
		edit  func([]byte) []byte
		want  int // records, or damaged: of a log without its mark
		off   int // where the damage or the torn tail is reported
	}{
		{"nothing", image, func(b []byte) []byte { return b }, 100, 0},
		{"last record cut short", image, func(b []byte) []byte { return b[:at(100)+200] }, 99, at(100)},
		{"last record cut in its header", image, func(b []byte) []byte { return b[:at(100)+20] }, 99, at(100)},
		{"last record zeroed from the middle", image, zero(at(100)+100, 332), 99, at(100)},
		{"bit in the payload of 30", image, flip(at(30) + 100), damaged, at(30)},
		{"bit in the header of 30: checksum", image, flip(at(30)), damaged, at(30)},
		{"bit in the header of 30: length", image, flip(at(30) + 10), damaged, at(30)},
		{"bit in the header of 30: type", image, flip(at(30) + 12), damaged, at(30)},
		{"bit in the header of 30: flags", image, flip(at(30) + 13), damaged, at(30)},
		{"bit in the header of 30: LSN", image, flip(at(30) + 16), damaged, at(30)},
		{"bit in the header of 30: promise", image, flip(at(30) + 24), damaged, at(30)},
		{"512 bytes zeroed at 30", image, zero(at(30), 512), damaged, at(30)},
		{"512 bytes zeroed across 30 and 31", image, zero(at(30)+300, 512), damaged, at(30)},
		{"frame header of 30 zeroed", image, zero(at(30), frameHeaderSize), damaged, at(30)},
		{"first 8 bytes of the header of 30 zeroed", image, zero(at(30), 8), damaged, at(30)},
		{"a whole page zeroed", image, zero(4096, 4096), damaged, at(10)},
		{"bit in 95, in the last 32 KiB", image, flip(at(95) + 77), damaged, at(95)},
		{"bit in 99", image, flip(at(99) + 77), damaged, at(99)},
		{"all from 99 on zeroed, promises included", image, zero(at(99), 2*432), 98, 0}, // the blind spot
		{"bit in 100, nothing written after it", image, flip(at(100) + 77), 99, at(100)},
		{"bit in 100, sync mark after it", marked, flip(at(100) + 77), damaged, at(100)},
		{"frame of 100 zeroed, sync mark after it", marked, zero(at(100), 432), damaged, at(100)},
		{"sync mark torn", marked, flip(at(101) + 3), 100, at(101)},
		{"bit in the file header", image, flip(20), damaged, 0},
		{"frame of 30 in place of 40", image, move(30, 40), damaged, at(40)},
		{"frame of 40 in place of 30", image, move(40, 30), damaged, at(30)},
		{"frame of 30 twice", image, move(30, 31), damaged, at(31)},
		{"frame of 99 in place of the last", image, move(99, 100), 99, at(100)},
		{"frame of 30 taken out", image, remove(30, 31), damaged, at(30)},
		{"frames of 30 to 69 taken out", image, remove(30, 70), damaged, at(30)},
		{"8 bytes of 30 taken out", image, func(b []byte) []byte { return append(b[:at(30)+200], b[at(30)+208:]...) }, damaged, at(30)},
		{"8 bytes put into 30", image, func(b []byte) []byte { return append(b[:at(30)+200:at(30)+200], b[at(30)+192:]...) }, damaged, at(30)},
		{"frame of 30 put in once more", image, double(30), damaged, at(31)},
		{"frame of 99 taken out", image, remove(99, 100), damaged, at(99)},
		{"frame of 100 taken out, sync mark after it", marked, remove(100, 101), damaged, at(100)},
		{"frame of 100 put in once more", image, double(100), 100, at(101)},
		{"cut within 50", image, func(b []byte) []byte { return b[:at(50)+200] }, 49, at(50)},
		{"cut behind 50", image, func(b []byte) []byte { return b[:at(51)] }, 50, 0},
		{"zero from 50 on", image, func(b []byte) []byte { clear(b[at(50):]); return b }, 49, 0},
		{"last record numbered one too low", image, forge(99), damaged, at(100)},
		{"last record numbered one too high", image, forge(101), damaged, at(100)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), tc.edit(bytes.Clone(tc.image)))
			damage := func(o RecoverOptions, off int) {
				t.Helper()
				got, _, err := readLog(o)
				var c *fault.CorruptionError
				if !errors.As(err, &c) {
					t.Fatalf("%d records, error %v; want a CorruptionError", len(got), err)
				}
				if c.File != base.LogFile.Name(1) || c.Offset != int64(off) {
					t.Fatalf("damage reported at %s:%d, it is at %d: %v", c.File, c.Offset, off, err)
				}
			}
			o := w.recoverOptions()
			if o.Mark.LSN != 100 {
				t.Fatalf("mark %+v", o.Mark)
			}
			// A killed process leaves its mark: then every lost record is missed.
			switch tc.want {
			case damaged:
				damage(o, tc.off)
			case 100:
				if got, _, err := readLog(o); err != nil || len(got) != 100 {
					t.Fatalf("%d records, %v", len(got), err)
				}
			default:
				damage(o, at(tc.want+1))
			}
			o.Mark = Mark{}
			if tc.want == damaged {
				damage(o, tc.off)
				return
			}
			got, r, err := readLog(o)
			if err != nil {
				t.Fatal(err)
			}
			checkPayloads(t, got, tc.want, 400)
			if r.Torn.Offset != int64(tc.off) || (tc.off > 0) != (r.Torn.Bytes > 0) {
				t.Fatalf("torn tail %+v, want offset %d", r.Torn, tc.off)
			}
		})
	}
}

// smallLog makes three small files of three records each.
func smallLog(t *testing.T, clean bool) (*world, map[string][]byte) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	l := w.open(t)
	for i := 1; i <= 9; i++ {
		mustCommit(t, l, i, 20+i)
		if i%3 == 0 && i < 9 {
			if err := l.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if clean {
		mustClose(t, l)
		return w, directory(t, w.fs, w.dir)
	}
	all := directory(t, w.fs, w.dir)
	halfClose(l)
	// Preallocated zeros would only repeat one case a hundred thousand times.
	last := all[base.LogFile.Name(3)]
	all[base.LogFile.Name(3)] = last[:lastUsed(last)+16]
	return w, all
}

// outcomes counts what readers of edited logs got.
type outcomes struct{ whole, damaged, cut int }

// readEdited recovers an edited log. Anything but the right records, a prefix
// or a CorruptionError fails the test. It returns how many records came.
func (o *outcomes) readEdited(t *testing.T, ro RecoverOptions, edit string) (int, Recovery) {
	t.Helper()
	got, r, err := readLog(ro)
	for i, b := range got {
		if !bytes.Equal(b, payload(i+1, 21+i)) {
			t.Fatalf("%s: record %d has wrong bytes", edit, i+1)
		}
	}
	switch {
	case err == nil && len(got) == 9:
		o.whole++
	case err == nil:
		o.cut++
		return len(got), r
	case errors.Is(err, fault.ErrCorrupt):
		o.damaged++
	default:
		t.Fatalf("%s: %v", edit, err)
	}
	return 9, r
}

// editable opens a file, and returns how to replace its contents.
func editable(t *testing.T, fsys vfs.FS, path string) (vfs.File, func([]byte)) {
	t.Helper()
	f, err := fsys.OpenReadWrite(path)
	if err != nil {
		t.Fatal(err)
	}
	return f, func(b []byte) {
		if err := f.Truncate(int64(len(b))); err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, 0); err != nil {
			t.Fatal(err)
		}
	}
}

// Every bit flipped and every length cut, of every file.
func TestEveryBitEveryLength(t *testing.T) {
	for _, end := range []string{"clean close", "kill", "loss of power"} {
		clean := end == "clean close"
		w, all := smallLog(t, clean)
		if end == "loss of power" { // the mark was not written out yet
			delete(all, MarkName)
			if err := w.fs.Remove(filepath.Join(w.dir, MarkName)); err != nil {
				t.Fatal(err)
			}
		}
		var flips, cuts, blind outcomes
		o := w.recoverOptions()
		if clean {
			// A store notes the last LSN when it has closed its log.
			o.DurableLSN = 9
		}
		// A prefix is allowed where the mark is lost alone, and only down to the
		// highest promise that is left: all but the last whole record.
		check := func(kind *outcomes, edit string, whole int) {
			o.Mark = w.recoverOptions().Mark
			if n, _ := kind.readEdited(t, o, edit); n < 9 && (end != "loss of power" || n < whole) {
				t.Fatalf("%s: %d records and no error", edit, n)
			}
		}
		for name, b := range all {
			path := filepath.Join(w.dir, name)
			f, set := editable(t, w.fs, path)
			set(b)
			edited := bytes.Clone(b)
			for i := 0; i < len(b); i += stride() {
				for bit := range 8 {
					edited[i] = b[i] ^ 1<<bit
					if _, err := f.WriteAt(edited[i:][:1], int64(i)); err != nil {
						t.Fatal(err)
					}
					check(&flips, fmt.Sprintf("%s: bit %d of byte %d", name, bit, i), 8)
				}
				edited[i] = b[i]
				if _, err := f.WriteAt(edited[i:][:1], int64(i)); err != nil {
					t.Fatal(err)
				}
			}
			for n := 0; n < len(b); n += stride() {
				set(b[:n])
				whole := 6
				for end := int64(fileHeaderSize); whole < 9 && end+frameSize(int64(21+whole)) <= int64(n); whole++ {
					end += frameSize(int64(21 + whole))
				}
				check(&cuts, fmt.Sprintf("%s cut to %d bytes", name, n), whole)
				if clean {
					o := o
					o.DurableLSN, o.Mark = 0, Mark{}
					blind.readEdited(t, o, name)
				}
			}
			set(b)
			_ = f.Close()
		}
		t.Logf("%s: bit flips: %d damage found, %d harmless, %d cut records above the highest promise left", end, flips.damaged, flips.whole, flips.cut)
		t.Logf("%s: truncations: %d damage found, %d harmless, %d cut records above the highest promise left", end, cuts.damaged, cuts.whole, cuts.cut)
		if clean {
			t.Logf("%s: truncations, had the store not noted the last LSN: %d would go unnoticed", end, blind.cut)
			if flips.cut+cuts.cut > 0 {
				t.Fatal("a clean log lost records without an error")
			}
		}
		if flips.damaged == 0 || cuts.damaged == 0 || flips.whole == 0 {
			t.Fatal("the edits did not reach the log")
		}
	}
}

// Files missing, swapped, shortened, replaced by an older copy.
func TestFilesTamperedWith(t *testing.T) {
	edits := map[string]func(w *world, all map[string][]byte){
		"middle file missing":   func(w *world, all map[string][]byte) { delete(all, base.LogFile.Name(2)) },
		"first file missing":    func(w *world, all map[string][]byte) { delete(all, base.LogFile.Name(1)) },
		"newest file missing":   func(w *world, all map[string][]byte) { delete(all, base.LogFile.Name(3)) },
		"middle file empty":     func(w *world, all map[string][]byte) { all[base.LogFile.Name(2)] = nil },
		"middle file all zeros": func(w *world, all map[string][]byte) { clear(all[base.LogFile.Name(2)]) },
		"two files swapped": func(w *world, all map[string][]byte) {
			all[base.LogFile.Name(2)], all[base.LogFile.Name(3)] = all[base.LogFile.Name(3)], all[base.LogFile.Name(2)]
		},
		"middle file shortened at a frame boundary": func(w *world, all map[string][]byte) {
			all[base.LogFile.Name(2)] = all[base.LogFile.Name(2)][:fileHeaderSize+2*frameSize(25)]
		},
		"middle file from another life of the store": func(w *world, all map[string][]byte) {
			// The same numbers, LSNs, lengths and links; other salt and bytes.
			b := bytes.Clone(all[base.LogFile.Name(2)])
			hdr, _, err := decodeFileHeader(base.LogFile.Name(2), 2, b)
			if err != nil {
				t.Fatal(err)
			}
			hdr.salt++
			head, _ := hdr.encode()
			out := append([]byte{}, head[:]...)
			for i := 4; i <= 6; i++ {
				h := frameHeader{typ: frameRecord, lsn: base.LSN(i), syncedTo: int64(len(out))}
				out, _ = appendFrame(out, hdr.salt, int64(len(out)), h, payload(50, 20+i))
			}
			all[base.LogFile.Name(2)] = out
		},
	}
	for name, edit := range edits {
		t.Run(name, func(t *testing.T) {
			w, all := smallLog(t, true)
			was := w.manifest()
			edit(w, all)
			for _, num := range was {
				_ = w.fs.Remove(filepath.Join(w.dir, base.LogFile.Name(num)))
			}
			for n, b := range all {
				writeFile(t, w.fs, filepath.Join(w.dir, n), b)
			}
			o := w.recoverOptions()
			o.FromLSN = 1
			_, _, err := readLog(o)
			var c *fault.CorruptionError
			if !errors.As(err, &c) {
				t.Fatalf("got %v", err)
			}
			t.Log(err)
			o.Files = nil // without a manifest, all but the newest is still missed
			if _, _, err = readLog(o); !errors.Is(err, fault.ErrCorrupt) && name != "newest file missing" {
				t.Fatalf("without a manifest: %v", err)
			}
			// Damage allowed: what is left comes, and what is not is named.
			o = w.recoverOptions()
			o.ReadOnly, o.AllowDamage = true, true
			got, r, err := readLog(o)
			if err != nil || r.Damages == 0 || len(got) < 3 {
				t.Fatalf("past the damage: %d records, %d damages, %v", len(got), r.Damages, err)
			}
		})
	}
}

func TestAllowDamage(t *testing.T) {
	w, image, at := logImage(t, false)
	image[at(30)+50] ^= 1
	clear(image[at(60):at(62)])
	writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1)), image)
	o := w.recoverOptions()
	o.AllowDamage = true
	if _, err := Recover(o, nil); err == nil {
		t.Fatal("AllowDamage without ReadOnly was accepted")
	}
	o.ReadOnly = true
	got, r, err := readLog(o)
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 97 {
		t.Fatalf("%d records", len(got))
	}
	if r.Damages < 2 || r.Damage[0].Offset != int64(at(30)) || r.Damage[0].Len != frameSize(400) {
		t.Fatalf("%d damages, first %v", r.Damages, r.Damage[0])
	}
	if _, _, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum}, r); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("a log read past damage can be rewritten: %v", err)
	}
}

func TestHeaderErrors(t *testing.T) {
	h := fileHeader{num: 7, baseLSN: 3, salt: 99, prev: Position{File: 6, Offset: 640, Chain: 5}}
	good, _ := h.encode()
	reseal := func(b []byte) {
		binary.LittleEndian.PutUint64(b[56:], base.Checksum(0, b[:56]))
	}
	for _, tc := range []struct {
		name string
		edit func(b []byte) []byte
		want error
	}{
		{"short", func(b []byte) []byte { return b[:63] }, fault.ErrCorrupt},
		{"wrong magic", func(b []byte) []byte { b[0] = 'X'; return b }, fault.ErrCorrupt},
		{"newer version, another layout", func(b []byte) []byte { b[4] = 2; b[20] ^= 5; return b }, fault.ErrVersion},
		{"newer version, this layout", func(b []byte) []byte { b[4] = 2; reseal(b); return b }, fault.ErrVersion},
		{"damaged version", func(b []byte) []byte { b[4] ^= 2; return b }, fault.ErrCorrupt},
		{"version zero", func(b []byte) []byte { b[4] = 0; reseal(b); return b }, fault.ErrCorrupt},
		{"checksum", func(b []byte) []byte { b[30] ^= 1; return b }, fault.ErrCorrupt},
		{"unknown flag", func(b []byte) []byte { b[6] = 4; reseal(b); return b }, fault.ErrVersion},
		{"another number", func(b []byte) []byte { b[8] = 8; reseal(b); return b }, fault.ErrCorrupt},
		{"no base LSN", func(b []byte) []byte { b[16] = 0; reseal(b); return b }, fault.ErrCorrupt},
		{"impossible end", func(b []byte) []byte { b[40], b[41] = 1, 0; reseal(b); return b }, fault.ErrCorrupt},
	} {
		_, _, err := decodeFileHeader("000007.log", 7, tc.edit(bytes.Clone(good[:])))
		if !errors.Is(err, tc.want) {
			t.Errorf("%s: %v", tc.name, err)
		}
		if tc.want == fault.ErrVersion && errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: a newer file is called damaged: %v", tc.name, err)
		}
	}
	got, _, err := decodeFileHeader("000007.log", 7, good[:])
	h.prev.NextLSN = h.baseLSN
	if err != nil || got != h {
		t.Fatalf("%+v, %v", got, err)
	}
}

// A valid frame with a flag bit this build does not know is a newer format.
func TestUnknownFrameFlag(t *testing.T) {
	w, all := smallLog(t, true)
	b := all[base.LogFile.Name(3)]
	hdr, _, err := decodeFileHeader(base.LogFile.Name(3), 3, b)
	if err != nil {
		t.Fatal(err)
	}
	h := frameHeader{typ: frameRecord, flags: 1, lsn: 7, syncedTo: fileHeaderSize}
	fr, _ := appendFrame(nil, hdr.salt, fileHeaderSize, h, payload(7, 27))
	copy(b[fileHeaderSize:], fr)
	writeFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(3)), b)
	if _, _, err := readLog(w.recoverOptions()); !errors.Is(err, fault.ErrVersion) || errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("got %v", err)
	}
}

// The header check finds a damaged header field before the payload is read.
func TestHeaderCheck(t *testing.T) {
	const salt, off = 11, 8192
	b, _ := appendFrame(nil, salt, off, frameHeader{typ: frameRecord, lsn: 1 << 20, syncedTo: 4096}, make([]byte, 1000))
	if _, ok := decodeFrameHeader(b, salt, off); !ok {
		t.Fatal("a good header is refused")
	}
	missed := 0
	for i := 8; i < frameHeaderSize; i++ {
		for bit := range 8 {
			b[i] ^= 1 << bit
			if _, ok := decodeFrameHeader(b, salt, off); ok {
				missed++
			}
			b[i] ^= 1 << bit
		}
	}
	if missed > 0 {
		t.Fatalf("%d of 192 flipped bits missed", missed)
	}
	for _, other := range []int64{off - 8, off + 8, off + 4096} {
		if _, ok := decodeFrameHeader(b, salt, other); ok {
			t.Fatalf("accepted at %d", other)
		}
	}
	if _, ok := decodeFrameHeader(b, salt+1, off); ok {
		t.Fatal("accepted with another salt")
	}
}
