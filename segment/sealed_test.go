package segment

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
)

func testKeys(t testing.TB, store uint64, fill byte) *seal.Keyring {
	t.Helper()
	p, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{fill}, seal.KeySize)})
	must(t, err)
	return seal.New(p, nil).Keyring(store, 0)
}

// sealedValue is a value that compresses, and is large enough to.
func sealedValue(fam uint64, i int) []byte {
	return bytes.Repeat(fmt.Appendf(nil, "MARKER %d of %d; ", i, fam), 5+40*i)
}

// buildSealed builds a segment of two families; without keys it is not encrypted.
func buildSealed(t testing.TB, keys *seal.Keyring) *memFile {
	t.Helper()
	f := &memFile{}
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 99, BlockSize: 400, HotBlockSize: 300, Keys: keys})
	must(t, err)
	for _, fam := range []uint64{3, 8} {
		must(t, b.BeginFamily(fam))
		for i := range 5 {
			add := b.AddHistory
			if i%2 == 0 {
				add = b.AddHot
			}
			v := sealedValue(fam, i)
			must(t, add(ValueID{base.LSN(10*fam) + base.LSN(i), 1}, v[:3], v[3:]))
		}
		must(t, b.EndFamily(fmt.Appendf(nil, "MARKER directory of %d", fam)))
	}
	b.SetTombstones([]byte("MARKER tombstones"))
	b.SetMeta(bytes.Repeat([]byte("MARKER meta "), 30))
	p, err := b.Finish()
	must(t, err)
	if int(p.Size) != len(f.b) {
		t.Fatalf("%d bytes, Finish says %d", len(f.b), p.Size)
	}
	return f
}

// readSealed reads everything of a segment, and compares what it can read. It
// returns the first error that is not nil.
func readSealed(t testing.TB, r *Reader) error {
	t.Helper()
	errs := readFamilies(t, r)
	for want, get := range map[string]func() ([]byte, error){"MARKER tombstones": r.Tombstones, string(bytes.Repeat([]byte("MARKER meta "), 30)): r.Meta} {
		got, err := get()
		errs = append(errs, err)
		if err == nil && string(got) != want {
			t.Fatalf("%q, want %q", got, want)
		}
	}
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// readFamilies reads directories and values.
func readFamilies(t testing.TB, r *Reader) (errs []error) {
	t.Helper()
	fams, err := r.Families()
	errs = append(errs, err)
	for _, f := range fams {
		dir, values, err := r.directoryOf(f.ID)
		errs = append(errs, err)
		if err == nil && (string(dir) != fmt.Sprintf("MARKER directory of %d", f.ID) || len(values) != 5) {
			t.Fatalf("directory %q with %d values", dir, len(values))
		}
		for i, v := range values {
			block, err := readBlock(r, v.Loc)
			errs = append(errs, err)
			if err != nil {
				continue
			}
			if got, err := r.Value(v.Loc, block); err != nil || !bytes.Equal(got, sealedValue(f.ID, i)) {
				t.Fatalf("value %d of %d: %v", i, f.ID, err)
			}
		}
	}
	return errs
}

func TestSealedSegment(t *testing.T) {
	keys := testKeys(t, 5, 1)
	f, plain := buildSealed(t, keys), buildSealed(t, nil)
	if bytes.Contains(f.b, []byte("MARKER")) || !bytes.Contains(plain.b, []byte("MARKER")) {
		t.Fatal("markers where none belong, or none where they do")
	}
	r, err := Open(f, "000012.seg", int64(len(f.b)), WithKeys(keys))
	must(t, err)
	must(t, readSealed(t, r))
	must(t, r.Verify(context.Background(), nil))
	if r.KeyID() != "k" {
		t.Errorf("key %q", r.KeyID())
	}
	lazy, err := OpenFooter(f, "000012.seg", int64(len(f.b)), WithKeys(keys))
	must(t, err)
	must(t, readSealed(t, lazy))
	// Sealing comes after compression: the files differ by what a frame and the
	// file cost, never in proportion to what they hold.
	frames := 0
	_, _, err = Inspect(t.Context(), f, "000012.seg", int64(len(f.b)), func(fi FrameInfo) error { frames++; return fi.Err }, WithKeys(keys))
	must(t, err)
	most := len(plain.b) + seal.HeaderSize + sealSize + frames*(seal.Overhead+frameAlign)
	if len(f.b) <= len(plain.b) || len(f.b) > most {
		t.Errorf("%d bytes encrypted, %d plain, want at most %d", len(f.b), len(plain.b), most)
	}
	t.Logf("%d bytes plain, %d encrypted, %d frames", len(plain.b), len(f.b), frames)
}

func TestSealedSegmentKeys(t *testing.T) {
	keys := testKeys(t, 5, 1)
	f, plain := buildSealed(t, keys), buildSealed(t, nil)
	for _, c := range []struct {
		what string
		f    *memFile
		keys *seal.Keyring
		want fault.KeyProblem
	}{
		{"no keys", f, nil, fault.KeyRequired},
		{"another key", f, testKeys(t, 5, 2), fault.KeyWrong},
		{"a plain file", plain, keys, fault.NotEncrypted},
	} {
		_, err := Open(c.f, "000012.seg", int64(len(c.f.b)), WithKeys(c.keys))
		var k *fault.KeyError
		if !errors.As(err, &k) || k.Problem != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
		if _, _, err := Salvage(t.Context(), c.f, "000012.seg", int64(len(c.f.b)), WithKeys(c.keys)); !errors.Is(err, fault.ErrKey) {
			t.Errorf("%s, salvaged: %v", c.what, err)
		}
	}
	if _, err := Open(f, "000012.seg", int64(len(f.b)), WithKeys(testKeys(t, 6, 1))); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("another store: %v", err)
	}
}

// refit makes the checksum of the frame at off, or of the footer, fit.
func refit(b []byte, off, n int) {
	binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(99, int64(off)), b[off+8:off+n]))
}

// TestSealedSegmentForgery: frames that were moved or made up and a footer that
// was changed, with checksums that fit, are damage.
func TestSealedSegmentForgery(t *testing.T) {
	keys := testKeys(t, 5, 1)
	f, twin := buildSealed(t, keys), buildSealed(t, keys)
	type span struct{ off, n int }
	var frames []span
	_, _, err := Inspect(t.Context(), f, "000012.seg", int64(len(f.b)), func(fi FrameInfo) error {
		frames = append(frames, span{int(fi.Offset), int(fi.Size)})
		return fi.Err
	}, WithKeys(keys))
	must(t, err)
	refused := func(what string, b []byte) {
		t.Helper()
		g := &memFile{b: b}
		r, err := Open(g, "000012.seg", int64(len(b)), WithKeys(keys))
		if err == nil {
			err = readSealed(t, r)
		}
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", what, err)
		}
	}
	footer := len(f.b) - footerSize
	for i, fr := range frames {
		b := bytes.Clone(f.b)
		copy(b[fr.off:], twin.b[fr.off:fr.off+fr.n]) // the same frame of another file
		refit(b, fr.off, fr.n)
		refused(fmt.Sprintf("frame %d of a twin", i), b)
		b = bytes.Clone(f.b)
		binary.LittleEndian.PutUint16(b[fr.off+26:], 0)
		refit(b, fr.off, fr.n)
		refused(fmt.Sprintf("frame %d called plain", i), b)
		for j, other := range frames {
			if i == j || other.n != fr.n {
				continue
			}
			b = bytes.Clone(f.b)
			copy(b[fr.off:], f.b[other.off:other.off+other.n])
			refit(b, fr.off, fr.n)
			refused(fmt.Sprintf("frame %d in place of %d", j, i), b)
		}
	}
	for what, edit := range map[string]func(b []byte){
		"no tombstones":   func(b []byte) { clear(b[footer+40 : footer+48]); clear(b[footer+60 : footer+64]) },
		"no meta":         func(b []byte) { clear(b[footer+48 : footer+56]); clear(b[footer+64 : footer+68]) },
		"one value fewer": func(b []byte) { b[footer+72]-- },
		"another number":  func(b []byte) { b[footer+8]++ },
		"not encrypted":   func(b []byte) { clear(b[footer+116 : footer+120]) },
	} {
		b := bytes.Clone(f.b)
		edit(b)
		refit(b, footer, footerSize)
		g := &memFile{b: b}
		if _, err := Open(g, "segment", int64(len(b)), WithKeys(keys)); !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrKey) {
			t.Errorf("footer, %s: %v", what, err)
		}
	}
	seals := bytes.Clone(f.b)
	copy(seals[footer-sealSize:], twin.b[footer-sealSize:footer])
	refused("the seal of a twin", seals)
}

// TestSealedSegmentRot flips every bit: Verify finds it, nothing wrong is read, and
// neither end of the file alone costs more than itself.
//
// SEGMENT_SEALED_STRIDE: 1 for every bit, else every fifth.
func TestSealedSegmentRot(t *testing.T) {
	keys := testKeys(t, 5, 1)
	f := buildSealed(t, keys)
	opened, flips, stride := 0, 0, 5
	if os.Getenv("SEGMENT_SEALED_STRIDE") == "1" {
		stride = 1
	}
	for i := 0; i < len(f.b)*8; i += stride {
		flips++
		b := bytes.Clone(f.b)
		b[i/8] ^= 1 << (i % 8)
		g := &memFile{b: b}
		r, err := Open(g, "000012.seg", int64(len(b)), WithKeys(keys))
		if err == nil {
			opened++
			_ = readSealed(t, r)
			err = r.Verify(context.Background(), nil)
		}
		if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("bit %d: %v", i, err)
		}
		if i%16 != 0 {
			continue
		}
		if err := salvageSealed(t, g, keys); err != nil {
			t.Fatalf("bit %d: salvage: %v", i, err)
		}
	}
	for what, span := range map[string][2]int{"header": {0, sealedStart}, "footer": {len(f.b) - footerSize, len(f.b)}, "seal": {len(f.b) - footerSize - sealSize, len(f.b) - footerSize},
		"end": {len(f.b) - footerSize - sealSize, len(f.b)}} {
		g := &memFile{b: slices.Clone(f.b)}
		clear(g.b[span[0]:span[1]])
		if err := salvageSealed(t, g, keys); err != nil {
			t.Errorf("without its %s: %v", what, err)
		}
	}
	t.Logf("%d flips, 0 undetected; %d opened", flips, opened)
}

func salvageSealed(t *testing.T, f *memFile, keys *seal.Keyring) error {
	r, damage, err := Salvage(t.Context(), f, "000012.seg", int64(len(f.b)), WithKeys(keys))
	if err != nil {
		return err
	}
	fams, err := r.Families()
	if err != nil || len(fams) == 0 {
		return fmt.Errorf("%d families, %w, %v", len(fams), err, damage)
	}
	_ = readFamilies(t, r) // right, or an error
	return nil
}

// FuzzSealedBlock edits an encrypted segment and puts the checksum of the frame
// right: what is read is what was written, or nothing.
func FuzzSealedBlock(f *testing.F) {
	keys := testKeys(f, 5, 1)
	good := buildSealed(f, keys)
	f.Add(uint16(sealedStart), uint16(40), []byte{1, 2})
	f.Add(uint16(sealedStart), uint16(24), []byte{2})
	f.Add(uint16(sealedStart), uint16(8), []byte{28, 0, 0, 0, 0, 0})
	f.Add(uint16(len(good.b)-footerSize), uint16(40), []byte{0, 0, 0})
	f.Fuzz(func(t *testing.T, off, at uint16, edit []byte) {
		b := bytes.Clone(good.b)
		start := int(off) &^ (frameAlign - 1)
		if start+frameHeaderSize > len(b) {
			return
		}
		copy(b[min(start+int(at), len(b)):], edit)
		n := int(alignFrame(int64(binary.LittleEndian.Uint32(b[start+8:]))))
		if start == len(b)-footerSize {
			n = footerSize
		}
		if n > len(b)-start {
			return
		}
		refit(b, start, n)
		g := &memFile{b: b}
		r, err := Open(g, "000012.seg", int64(len(b)), WithKeys(keys))
		if err != nil {
			if !known(err) {
				t.Fatal(err)
			}
			return
		}
		if err := readSealed(t, r); !known(err) {
			t.Fatal(err)
		}
	})
}
