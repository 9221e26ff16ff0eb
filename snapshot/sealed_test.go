package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
)

func testKeys(t testing.TB, fill byte) *seal.Keys {
	t.Helper()
	p, err := seal.StaticKeys("k", map[string][]byte{"k": bytes.Repeat([]byte{fill}, seal.KeySize)})
	if err != nil {
		t.Fatal(err)
	}
	return seal.New(p, nil)
}

// edits makes a manifest in dir of mem with some edits, and closes it.
func edits(t testing.TB, mem vfs.FS, keys *seal.Keys) State {
	t.Helper()
	if err := mem.MkdirAll("store"); err != nil {
		t.Fatal(err)
	}
	m, err := Create(mem, "store", State{StoreID: 5, FloorLSN: 1, Options: map[string]string{"MARKER": "MARKER"}}, Options{Keys: keys})
	if err != nil {
		t.Fatal(err)
	}
	for n := range base.FileNum(4) {
		if _, err := m.Apply(Edit{AddLogs: []LogInfo{{Num: n + 1, BaseLSN: base.LSN(n + 1)}}}); err != nil {
			t.Fatal(err)
		}
	}
	st := m.State()
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	return st
}

func read(t testing.TB, mem vfs.FS, name string) []byte {
	t.Helper()
	f, err := mem.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	b, err := readAll(f, name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSealedManifest(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), testKeys(t, 1)
	want := edits(t, mem, keys)
	b := read(t, mem, "store/MANIFEST-000001")
	if bytes.Contains(b, []byte("MARKER")) {
		t.Error("a marker is there in clear")
	}
	st, rep, err := Load(mem, "store", WithKeys(keys))
	if err != nil || fmt.Sprint(st) != fmt.Sprint(want) || rep.KeyID != "k" || !rep.Closed {
		t.Fatalf("%+v, %+v, %v", st, rep, err)
	}
	for what, c := range map[string]struct {
		keys *seal.Keys
		want fault.KeyProblem
	}{"no keys": {nil, fault.KeyRequired}, "another key": {testKeys(t, 2), fault.KeyWrong}} {
		var k *fault.KeyError
		if _, _, err := Load(mem, "store", WithKeys(c.keys)); !errors.As(err, &k) || k.Problem != c.want {
			t.Errorf("%s: %v", what, err)
		}
		if _, _, err := LoadDamaged(mem, "store", WithKeys(c.keys)); !errors.Is(err, fault.ErrKey) {
			t.Errorf("%s, past damage: %v", what, err)
		}
		if _, _, err := Open(mem, "store", Options{Keys: c.keys}); !errors.Is(err, fault.ErrKey) {
			t.Errorf("%s, to write: %v", what, err)
		}
	}
	if names, err := mem.List("store"); err != nil || len(names) != 1 {
		t.Errorf("refused, and left %v, %v", names, err)
	}
	if damage, notes := CheckManifest("MANIFEST-000001", b, WithKeys(keys)); len(damage)+len(notes) > 0 {
		t.Errorf("CheckManifest: %v, %v", damage, notes)
	}
	kinds := map[string]int{}
	h, err := InspectManifest("MANIFEST-000001", b, func(fr ManifestFrame) error {
		kinds[fr.Type]++
		if fr.Type != "" && (!fr.Sealed || fr.State != nil || fr.Edit != nil) {
			t.Errorf("without keys: %+v", fr)
		}
		return nil
	})
	if err != nil || h.KeyID != "k" || kinds["state"] != 1 || kinds["edit"] != 4 || kinds["mark"] != 1 || kinds["close"] != 1 {
		t.Errorf("%+v, %v, %v", h, kinds, err)
	}
}

// TestAdoptManifest: a manifest without encryption is refused with keys, until it is
// to be adopted.
func TestAdoptManifest(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), testKeys(t, 1)
	edits(t, mem, nil)
	var k *fault.KeyError
	if _, _, err := Open(mem, "store", Options{Keys: keys}); !errors.As(err, &k) || k.Problem != fault.NotEncrypted {
		t.Fatalf("not refused: %v", err)
	}
	m, _, err := Open(mem, "store", Options{Keys: keys, Adopt: true})
	if err != nil {
		t.Fatal(err)
	}
	st := m.State()
	if st.PlainBelow() != 5 || m.KeyID() != "k" {
		t.Errorf("plain below %d, key %q", st.PlainBelow(), m.KeyID())
	}
	if err := m.Renew(); err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	// A second time it changes nothing: what is there now is encrypted.
	if m, _, err = Open(mem, "store", Options{Keys: keys, Adopt: true}); err != nil {
		t.Fatal(err)
	}
	st = m.State()
	if st.PlainBelow() != 5 {
		t.Errorf("plain below %d", st.PlainBelow())
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestSealedManifestForgery: every frame of another file, called plain, or changed,
// with a checksum that fits.
func TestSealedManifestForgery(t *testing.T) {
	mem, twin, keys := vfs.NewMem(vfs.MemOptions{}), vfs.NewMem(vfs.MemOptions{}), testKeys(t, 1)
	edits(t, mem, keys)
	edits(t, twin, keys)
	good, other := read(t, mem, "store/MANIFEST-000001"), read(t, twin, "store/MANIFEST-000001")
	salt := binary.LittleEndian.Uint64(good[32:])
	n := 0
	_, err := InspectManifest("MANIFEST-000001", good, func(fr ManifestFrame) error {
		if fr.Type == "" {
			return nil
		}
		n++
		off := int(fr.Offset)
		size := frameSize(int(binary.LittleEndian.Uint32(good[off+8:])))
		for what, edit := range map[string]func(b []byte){
			"of a twin": func(b []byte) { copy(b[off:], other[off:off+size]) },
			"plain":     func(b []byte) { b[off+13] = 0 },
			"promise":   func(b []byte) { clear(b[off+24 : off+32]) },
			"changed":   func(b []byte) { b[off+40]++ },
		} {
			b := bytes.Clone(good)
			edit(b)
			binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(salt, fr.Offset), b[off+8:off+size]))
			if bytes.Equal(b, good) {
				continue // the promise of the state is zero already
			}
			if _, _, err := decodeManifest("MANIFEST-000001", b, readOptions{keys: keys}); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s at %d, %s: %v", fr.Type, off, what, err)
			}
			if damage, _ := CheckManifest("MANIFEST-000001", b, WithKeys(keys)); len(damage) == 0 {
				t.Errorf("%s at %d, %s: CheckManifest finds nothing", fr.Type, off, what)
			}
		}
		return nil
	})
	if err != nil || n != 7 {
		t.Errorf("%d frames, %v", n, err)
	}
}

// TestSealedManifestRot flips every bit that is not zero of a closed manifest.
func TestSealedManifestRot(t *testing.T) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), testKeys(t, 1)
	want := edits(t, mem, keys)
	good := read(t, mem, "store/MANIFEST-000001")
	flips, same := 0, 0
	for i := range len(good) * 8 {
		if good[i/8] == 0 && i%64 != 0 {
			continue
		}
		good[i/8] ^= 1 << (i % 8)
		st, _, err := decodeManifest("MANIFEST-000001", good, readOptions{keys: keys})
		damage, _ := CheckManifest("MANIFEST-000001", good, WithKeys(keys))
		good[i/8] ^= 1 << (i % 8)
		flips++
		switch {
		case errors.Is(err, fault.ErrCorrupt) || errors.Is(err, fault.ErrVersion):
		case err == nil && fmt.Sprint(st) == fmt.Sprint(want) && i/8 >= len(good)-slotSize:
			same++ // the close slot says nothing then
		case err == nil && fmt.Sprint(st) == fmt.Sprint(want) && len(damage) > 0:
			same++
		default:
			t.Fatalf("bit %d: %v, damage %v", i, err, damage)
		}
	}
	t.Logf("%d flips, 0 wrong; %d harmless and reported", flips, same)
}

// sealedImage is an encrypted image with a page and tables.
func sealedImage(t testing.TB, keys *seal.Keyring) (*bytesFile, Part) {
	t.Helper()
	f := &bytesFile{}
	w, err := NewImageWriter(f, ImageHeader{Num: 9, StoreID: 5, LSN: 40, Full: true, Salt: 7}, WithKeyring(keys))
	if err != nil {
		t.Fatal(err)
	}
	var p Part
	p.Off, p.Len, err = w.AddPage(bytes.Repeat([]byte("MARKER page "), 50))
	for i := range 3 {
		err = errors.Join(err, w.AddPartition(ImagePartition{ID: fmt.Sprint("MARKER thread ", i), Family: 1, Birth: 1, LSN: 2, Head: "MARKER head"}))
	}
	err = errors.Join(err, w.AddFamily(ImageFamily{ID: 1, Parts: []Part{p}}), w.AddTombstone(Tombstone{ID: "MARKER memo", LSN: 3, Data: []byte("MARKER")}))
	_, ferr := w.Finish()
	if err = errors.Join(err, ferr); err != nil {
		t.Fatal(err)
	}
	return f, p
}

// readImage reads everything of an image, and what is right about it.
func readImage(t testing.TB, b []byte, p Part, keys *seal.Keyring) error {
	t.Helper()
	im, err := OpenImage(&bytesFile{b: b}, "000009.img", int64(len(b)), WithKeyring(keys))
	if err != nil {
		return err
	}
	page, err := im.ReadPage(p.Off, p.Len)
	if err == nil && !bytes.Equal(page, bytes.Repeat([]byte("MARKER page "), 50)) {
		t.Fatal("another page")
	}
	n := 0
	seen := func(id string, want string) error {
		if n++; id[:6] != "MARKER" || want != "MARKER"[:len(want)] {
			t.Fatalf("entry %q", id)
		}
		return nil
	}
	terr := im.Table(Visitor{
		Partition: func(th ImagePartition) error { return seen(th.ID, th.Head[:6]) },
		Family:    func(f ImageFamily) error { return seen("MARKER", "") },
		Tombstone: func(m Tombstone) error { return seen(m.ID, string(m.Data)) },
	})
	if err = errors.Join(err, terr); err == nil && n != 5 {
		t.Fatalf("%d entries", n)
	}
	return err
}

func TestSealedImage(t *testing.T) {
	keys := testKeys(t, 1).Keyring(5, 0)
	f, p := sealedImage(t, keys)
	plain, pp := sealedImage(t, nil)
	if bytes.Contains(f.b, []byte("MARKER")) || !bytes.Contains(plain.b, []byte("MARKER")) {
		t.Error("markers where none belong, or none where they do")
	}
	if err := readImage(t, f.b, p, keys); err != nil {
		t.Fatal(err)
	}
	if err := readImage(t, plain.b, pp, testKeys(t, 1).Keyring(5, 10)); err != nil {
		t.Errorf("a plain image older than the encryption: %v", err)
	}
	for what, c := range map[string]struct {
		b    []byte
		keys *seal.Keyring
		want error
	}{
		"no keys":       {f.b, nil, fault.ErrKey},
		"another key":   {f.b, testKeys(t, 2).Keyring(5, 0), fault.ErrKey},
		"plain":         {plain.b, keys, fault.ErrKey},
		"another store": {f.b, testKeys(t, 1).Keyring(6, 0), fault.ErrCorrupt},
	} {
		if err := readImage(t, c.b, p, c.keys); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", what, err)
		}
	}
	for i := range len(f.b) * 8 {
		b := bytes.Clone(f.b)
		b[i/8] ^= 1 << (i % 8)
		if err := readImage(t, b, p, keys); !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatalf("bit %d: %v", i, err)
		}
	}
}

// TestSealedImageForgery: frames of a twin or called plain, with checksums that fit.
func TestSealedImageForgery(t *testing.T) {
	keys := testKeys(t, 1).Keyring(5, 0)
	f, p := sealedImage(t, keys)
	twin, _ := sealedImage(t, keys)
	im, err := OpenImage(f, "000009.img", int64(len(f.b)), WithKeyring(keys))
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	err = im.Inspect(func(fr ImageFrame) error {
		n++
		off, size := int(fr.Offset), int(fr.Size)
		for what, edit := range map[string]func(b []byte){
			"of a twin": func(b []byte) { copy(b[off:], twin.b[off:off+size]) },
			"plain":     func(b []byte) { b[off+18] = 0 },
			"count":     func(b []byte) { b[off+20]++ },
		} {
			b := bytes.Clone(f.b)
			edit(b)
			binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(7, fr.Offset), b[off+8:off+size]))
			if err := readImage(t, b, p, keys); !errors.Is(err, fault.ErrCorrupt) {
				t.Errorf("%s at %d, %s: %v", fr.Type, off, what, err)
			}
		}
		return fr.Err
	})
	if err != nil || n != 5 {
		t.Errorf("%d frames, %v", n, err)
	}
}

// FuzzSealedManifest edits an encrypted manifest and puts one checksum right.
func FuzzSealedManifest(f *testing.F) {
	mem, keys := vfs.NewMem(vfs.MemOptions{}), testKeys(f, 1)
	want := edits(f, mem, keys)
	good := read(f, mem, "store/MANIFEST-000001")
	salt := binary.LittleEndian.Uint64(good[32:])
	f.Add(uint16(sealedStart), uint16(40), []byte{1})
	f.Add(uint16(sealedStart), uint16(13), []byte{0})
	f.Add(uint16(len(good)-slotSize), uint16(8), []byte{0, 0, 0, 0, 4, 1})
	f.Fuzz(func(t *testing.T, at, from uint16, edit []byte) {
		b := bytes.Clone(good)
		off := int(at) &^ 7
		if off+frameHeaderSize > len(b) {
			return
		}
		copy(b[min(off+int(from), len(b)):], edit)
		if n := int(binary.LittleEndian.Uint32(b[off+8:])); n < len(b) && off+frameSize(n) <= len(b) {
			binary.LittleEndian.PutUint64(b[off:], base.Checksum(seedAt(salt, int64(off)), b[off+8:off+frameSize(n)]))
		}
		st, _, err := decodeManifest("MANIFEST-000001", b, readOptions{keys: keys})
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) {
			t.Fatal(err)
		}
		if err != nil {
			return
		}
		// An edit that takes the end of the log with the slots leaves an earlier state.
		if len(st.Logs) > len(want.Logs) || !slices.Equal(st.Logs, want.Logs[:len(st.Logs)]) || st.StoreID != want.StoreID {
			t.Fatalf("a state nobody wrote: %+v", st)
		}
	})
}
