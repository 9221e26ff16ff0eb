package wal

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

// testKeys are the keys of store 5.
func testKeys(t testing.TB, store uint64) *seal.Keyring {
	t.Helper()
	p, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{7}, seal.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	return seal.New(p, nil).Keyring(store, 0)
}

// sealedWorld is a closed, encrypted log of two files: n records of size bytes in
// the second, one in the first.
func sealedWorld(t testing.TB, n, size int) (*world, *seal.Keyring) {
	t.Helper()
	w, keys := newWorld(vfs.NewMem(vfs.MemOptions{})), testKeys(t, 5)
	l := w.open(t, func(o *Options) { o.Keys = keys })
	mustCommit(t, l, 1, size)
	if err := l.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		mustCommit(t, l, i+2, size)
	}
	mustClose(t, l)
	return w, keys
}

// sealedOptions are those of recovering an encrypted log that was closed.
func (w *world) sealedOptions(keys *seal.Keyring, last base.LSN) RecoverOptions {
	o := w.recoverOptions()
	o.Keys, o.DurableLSN = keys, last
	return o
}

func TestSealedLog(t *testing.T) {
	w, keys := newWorld(vfs.NewMem(vfs.MemOptions{})), testKeys(t, 5)
	type place struct {
		file    base.FileNum
		off     int64
		payload []byte
	}
	var places []place
	sealed := func(o *Options) {
		o.Keys = keys
		apply := o.Apply
		o.Apply = func(b []*Record) {
			for _, r := range b {
				if !r.Sealed {
					t.Error("a record is not told to be sealed")
				}
				places = append(places, place{r.File, r.Offset, r.User.([]byte)})
			}
			apply(b)
		}
	}
	l := w.open(t, sealed)
	big := payload(0, 3<<20) // larger than a batch, and than a file
	for i, parts := range [][][]byte{{[]byte("MARKER one")}, {}, {big[:10], big[10 : 2<<20], big[2<<20:]}, {payload(9, 70_000)}, {payload(4, 65_536)}} {
		r := record(parts...)
		r.User = bytes.Join(parts, nil)
		if err := l.Commit(t.Context(), r); err != nil {
			t.Fatalf("record %d: %v", i, err)
		}
	}
	halfClose(l)
	read := func() {
		t.Helper()
		for _, p := range places {
			f, err := w.fs.Open(filepath.Join(w.dir, base.LogFile.Name(p.file)))
			if err != nil {
				t.Fatal(err)
			}
			r, err := NewPayloadReader(f, base.LogFile.Name(p.file), keys)
			if err != nil || r.KeyID() != "k" {
				t.Fatalf("key %q, %v", r.KeyID(), err)
			}
			n := len(p.payload)
			for _, at := range []int{0, 1, n / 2, n - 1, 65_535, 65_536} {
				for _, k := range []int{0, 1, 9, n - at} {
					if at < 0 || k < 0 || at+k > n {
						continue
					}
					b, err := r.ReadAt(p.off, int64(at), int64(k))
					if err != nil || !bytes.Equal(b, p.payload[at:at+k]) {
						t.Fatalf("record at %d: %d bytes at %d: %v", p.off, k, at, err)
					}
				}
			}
			for _, bad := range [][3]int64{{p.off, int64(n), 1}, {p.off, -1, 1}, {p.off + 8, 0, 1}, {40, 0, 1}, {1 << 40, 0, 1}} {
				if _, err := r.ReadAt(bad[0], bad[1], bad[2]); !errors.Is(err, fault.ErrCorrupt) {
					t.Errorf("%v of a record at %d: %v", bad, p.off, err)
				}
			}
			_ = f.Close()
		}
	}
	read()
	// After the death of the process the copy made by recovery is sealed anew.
	before := directory(t, w.fs, w.dir)
	got, rec, err := readLog(RecoverOptions{FS: w.fs, Dir: w.dir, Files: w.manifest(), Keys: keys})
	if err != nil || len(got) != len(places) || rec.Unpromised.Records == 0 {
		t.Fatalf("%d records, %d unpromised, %v", len(got), rec.Unpromised.Records, err)
	}
	moved := map[base.LSN]place{}
	_, fi, err := copyEnd(CopyOptions{FS: w.fs, Dir: w.dir, NewFileNum: w.newNum, Rand: w.salt, Keys: keys, Moved: func(_ int64, e Entry) error {
		if !e.Sealed {
			t.Error("a copied record is not told to be sealed")
		}
		moved[e.LSN] = place{e.File, e.Offset, bytes.Clone(e.Payload)}
		return nil
	}}, rec)
	if err != nil || fi == nil || fi.KeyID != "k" {
		t.Fatalf("%+v, %v", fi, err)
	}
	w.files = append(w.files, fi.Num)
	for lsn, p := range moved {
		if !bytes.Equal(p.payload, places[lsn-1].payload) {
			t.Fatalf("record %d was copied wrong", lsn)
		}
		places[lsn-1] = p
	}
	read()
	again, _, err := readLog(w.sealedOptions(keys, base.LSN(len(places))))
	if err != nil || !slices.EqualFunc(again, got, bytes.Equal) {
		t.Fatalf("%d records after the copy, %v", len(again), err)
	}
	for name, b := range directory(t, w.fs, w.dir) {
		if bytes.Contains(b, []byte("MARKER")) || bytes.Contains(b, big[:64]) || bytes.Contains(b, big[2<<20:][:64]) {
			t.Errorf("%s holds plaintext", name)
		}
		if old, ok := before[name]; ok && !bytes.Equal(old, b) {
			t.Errorf("the copy changed %s", name)
		}
	}
}

// TestSealedKeys: keys that do not fit, and files that are not sealed.
func TestSealedKeys(t *testing.T) {
	w, keys := sealedWorld(t, 2, 50)
	other, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{8}, seal.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	problem := func(what string, k *seal.Keyring, want fault.KeyProblem) {
		t.Helper()
		got, _, err := readLog(w.sealedOptions(k, 3))
		var ke *fault.KeyError
		if !errors.As(err, &ke) || ke.Problem != want || len(got) > 0 {
			t.Errorf("%s: %d records, %v", what, len(got), err)
		}
	}
	problem("no keys", nil, fault.KeyRequired)
	problem("another key", seal.New(other, nil).Keyring(5, 0), fault.KeyWrong)
	if _, _, err := readLog(w.sealedOptions(testKeys(t, 6), 3)); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another store: %v", err)
	}
	// A file without encryption, with the records and all, in place of the second.
	name := filepath.Join(w.dir, base.LogFile.Name(2))
	b := readFile(t, w.fs, name)
	hdr, _, err := decodeFileHeader(base.LogFile.Name(2), 2, b)
	if err != nil {
		t.Fatal(err)
	}
	hdr.flags = 0
	head, _ := hdr.encode()
	plain := head[:]
	for lsn := range base.LSN(3) {
		plain, _ = appendFrame(plain, hdr.salt, int64(len(plain)), frameHeader{typ: frameRecord, lsn: lsn + 2, syncedTo: fileHeaderSize}, []byte("planted"))
	}
	writeFile(t, w.fs, name, plain)
	problem("a plain file", keys, fault.NotEncrypted)
}

// frameAt decodes the n-th frame of a sealed file.
func frameAt(t testing.TB, b []byte, salt uint64, n int) (int64, frameHeader) {
	t.Helper()
	for off := int64(maxHeadSize); ; n-- {
		h, ok := decodeFrameHeader(b[off:], salt, off)
		if !ok {
			t.Fatalf("no frame at %d", off)
		}
		if n == 0 {
			return off, h
		}
		off += h.size()
	}
}

// forge writes frame bytes at off and makes every checksum fit, as somebody can
// who knows the format and not the key.
func forge(b []byte, salt uint64, off int64, frame []byte) {
	copy(b[off:], frame)
	n := int64(len(frame))
	seed := frameSeed(salt, off)
	binary.LittleEndian.PutUint16(b[off+14:], headerCheck(seed, b[off:]))
	binary.LittleEndian.PutUint64(b[off:], base.Checksum(seed, b[off+8:off+n]))
}

// TestSealedForgery: frames that were moved, swapped, doubled, changed or made up,
// with checksums that fit, are damage.
func TestSealedForgery(t *testing.T) {
	w, keys := sealedWorld(t, 5, 50)
	foreign, _ := sealedWorld(t, 5, 50)
	name := filepath.Join(w.dir, base.LogFile.Name(2))
	good := readFile(t, w.fs, name)
	other := readFile(t, foreign.fs, name)
	hdr, _, err := decodeFileHeader(base.LogFile.Name(2), 2, good)
	if err != nil {
		t.Fatal(err)
	}
	salt := hdr.salt
	at, h := frameAt(t, good, salt, 2)
	next, _ := frameAt(t, good, salt, 3)
	cut := func(b []byte, off int64) []byte { return bytes.Clone(b[off : off+h.size()]) }
	for what, frame := range map[string][]byte{
		"the next record moved here":            cut(good, next),
		"the record of another store":           cut(other, at),
		"the record before, once more":          cut(good, at-h.size()),
		"a plain record":                        append(make([]byte, frameHeaderSize), []byte("planted, and as long as the sealed record was, so that all fits.....................")...)[:h.size()],
		"an earlier promise":                    func() []byte { f := cut(good, at); binary.LittleEndian.PutUint64(f[24:], fileHeaderSize); return f }(),
		"a sync mark with what was sealed here": func() []byte { f := cut(good, at); f[12] = byte(frameSync); return f }(),
	} {
		b := bytes.Clone(good)
		if what == "a plain record" || what == "the next record moved here" || what == "the record before, once more" {
			copy(frame[8:frameHeaderSize], good[at+8:at+frameHeaderSize])
		}
		if what == "a plain record" {
			frame[13] = 0
		}
		forge(b, salt, at, frame)
		writeFile(t, w.fs, name, b)
		got, _, err := readLog(w.sealedOptions(keys, 6))
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %d records, %v", what, len(got), err)
		}
		o := w.sealedOptions(keys, 6)
		o.ReadOnly, o.AllowDamage = true, true
		got, rec, err := readLog(o)
		if err != nil || rec.Damages == 0 || slices.ContainsFunc(got, func(p []byte) bool { return bytes.Contains(p, []byte("planted")) }) {
			t.Errorf("%s, past damage: %d records, %d damages, %v", what, len(got), rec.Damages, err)
		}
	}
	t.Run("a close mark of no key", func(t *testing.T) {
		b := bytes.Clone(good[:at])
		mark := frameHeader{typ: frameClose, flags: frameSealed, lsn: 3, syncedTo: at, length: seal.Overhead}
		frame := make([]byte, frameSize(seal.Overhead))
		putFrameHeader(frame, frameSeed(salt, at), mark)
		b = append(b, frame...)
		forge(b, salt, at, frame)
		writeFile(t, w.fs, name, b)
		if got, _, err := readLog(w.sealedOptions(keys, 0)); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%d records, %v", len(got), err)
		}
	})
}

// TestSealedBitFlips flips every bit of a closed, encrypted log. With keys every
// flip of a frame or header is damage; without any, Inspect sees it as well.
func TestSealedBitFlips(t *testing.T) {
	w, keys := sealedWorld(t, 3, 30)
	want, _, err := readLog(w.sealedOptions(keys, 4))
	if err != nil || len(want) != 4 {
		t.Fatalf("%d records, %v", len(want), err)
	}
	flips, blind, unneeded := 0, 0, 0
	for _, num := range w.manifest() {
		name := filepath.Join(w.dir, base.LogFile.Name(num))
		good := readFile(t, w.fs, name)
		for i := 0; i < len(good)*8; i += stride() {
			b := bytes.Clone(good)
			b[i/8] ^= 1 << (i % 8)
			writeFile(t, w.fs, name, b)
			got, _, err := readLog(w.sealedOptions(keys, 4))
			if err == nil && !slices.EqualFunc(got, want, bytes.Equal) || err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
				t.Fatalf("bit %d of %s: %d records, %v", i, name, len(got), err)
			}
			flips++
			if err == nil {
				unneeded++
				continue // behind the end that the next header names
			}
			if i%7 == 0 && i/8 >= maxHeadSize {
				blind++
				if intact(t, w.fs, name) {
					t.Fatalf("bit %d of %s: not seen without keys", i, name)
				}
			}
		}
		writeFile(t, w.fs, name, good)
		if !intact(t, w.fs, name) {
			t.Fatalf("%s is called damaged", name)
		}
	}
	t.Logf("%d flips: 0 undetected, %d of bytes that do not count; %d looked at without keys", flips, unneeded, blind)
	if unneeded > flips/4 {
		t.Errorf("%d of %d flips are of bytes that do not count", unneeded, flips)
	}
}

// intact reports whether Inspect, without keys, finds valid frames alone.
func intact(t *testing.T, fsys vfs.FS, name string) bool {
	t.Helper()
	f, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	ok := true
	info, err := Inspect(f, filepath.Base(name), func(p Piece) error {
		ok = ok && (p.Valid() && p.Sealed || p.Used == 0)
		return nil
	})
	return ok && err == nil && info.Encrypted
}

// FuzzSealedFrame edits a sealed log and puts all checksums right: what is read is
// what was written, or nothing.
func FuzzSealedFrame(f *testing.F) {
	w, keys := sealedWorld(f, 4, 60)
	name := filepath.Join(w.dir, base.LogFile.Name(2))
	good := readFile(f, w.fs, name)
	hdr, _, err := decodeFileHeader(base.LogFile.Name(2), 2, good)
	if err != nil {
		f.Fatal(err)
	}
	want, _, err := readLog(w.sealedOptions(keys, 5))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(uint8(1), uint16(40), []byte{1, 2, 3})
	f.Add(uint8(0), uint16(12), []byte{3})
	f.Add(uint8(3), uint16(13), []byte{0})
	f.Add(uint8(2), uint16(8), []byte{28, 0, 0, 0, 3, 1})
	f.Fuzz(func(t *testing.T, n uint8, at uint16, edit []byte) {
		b := bytes.Clone(good)
		off, h := frameAt(t, b, hdr.salt, int(n)%5)
		frame := bytes.Clone(b[off : off+h.size()])
		if copy(frame[min(int(at), len(frame)):], edit) == 0 {
			return
		}
		forge(b, hdr.salt, off, frame)
		mem := newWorld(vfs.NewMem(vfs.MemOptions{}))
		mem.files = w.files
		writeFile(t, mem.fs, filepath.Join(mem.dir, base.LogFile.Name(1)), readFile(t, w.fs, filepath.Join(w.dir, base.LogFile.Name(1))))
		writeFile(t, mem.fs, name, b)
		o := mem.sealedOptions(keys, 5)
		o.ReadOnly, o.AllowDamage = true, n < 128
		got, _, err := readLog(o)
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatal(err)
		}
		for _, p := range got {
			if !slices.ContainsFunc(want, func(q []byte) bool { return bytes.Equal(p, q) }) {
				t.Fatal(fmt.Errorf("a record of %d bytes that nobody wrote", len(p)))
			}
		}
	})
}
