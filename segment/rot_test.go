package segment

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// tiny builds a segment of about 1.5 KB that has every kind of frame, raw and
// compressed ones, and blocks with several values.
func tiny(t testing.TB, salt uint64) (*memFile, *oracle) {
	t.Helper()
	f, or := &memFile{}, newOracle()
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: salt, BlockSize: 200, HotBlockSize: 100})
	must(t, err)
	add := func(fam uint64, head bool, lsn base.LSN, v string) {
		id := ValueID{lsn, uint16(lsn % 3)}
		or.values[fam][id] = []byte(v)
		if head {
			must(t, b.AddHot(id, []byte(v)))
		} else {
			must(t, b.AddHistory(id, []byte(v)))
		}
	}
	for _, fam := range []uint64{7, 9, 1 << 40} {
		or.values[fam] = map[ValueID][]byte{}
		must(t, b.BeginFamily(fam))
		if fam != 9 {
			at := base.LSN(fam % 1000)
			add(fam, false, at+20, string(bytes.Repeat([]byte("older "), 30)))
			add(fam, false, at+10, "oldest")
			add(fam, true, at+31, fmt.Sprintf("newest of %d", fam))
			add(fam, true, at+30, "other channel")
		}
		or.dirs[fam] = fmt.Appendf(nil, "directory of family %d", fam)
		must(t, b.EndFamily(or.dirs[fam]))
	}
	or.tombs, or.meta = []byte("tombstones"), bytes.Repeat([]byte("meta "), 20)
	b.SetTombstones(or.tombs)
	b.SetMeta(or.meta)
	_, err = b.Finish()
	must(t, err)
	return f, or
}

// tally counts what became of damaged files.
type tally struct {
	files, openFails, readFails, verifyOnly int
	served, lost                            int // values
}

func (n *tally) String() string {
	return fmt.Sprintf("%d files: %d refused by Open, %d by a read, %d by Verify alone; Open or Salvage served %d values, right, and refused or missed %d",
		n.files, n.openFails, n.readFails, n.verifyOnly, n.served, n.lost)
}

// damaged asks everything of a damaged segment. Each answer is right, or a
// CorruptionError; Verify, or Open, finds the damage; and of Open's and
// Salvage's readers none serves a value that is not the oracle's.
func (or *oracle) damaged(t *testing.T, n *tally, what string, b []byte) {
	t.Helper()
	n.files++
	f := &memFile{b: b}
	mustDamage := func(err error) {
		t.Helper()
		var ce *fault.CorruptionError
		if err == nil || !errors.As(err, &ce) || errors.Is(err, fault.ErrVersion) {
			t.Fatalf("%s: %v is no CorruptionError", what, err)
		}
		if ce.File == "" || ce.Kind == "" || ce.Offset < 0 || ce.Offset > int64(len(b)) {
			t.Fatalf("%s: %#v does not say where", what, ce)
		}
	}
	r, err := Open(f, "000012.seg", int64(len(b)))
	if err == nil {
		before := n.lost
		or.read(t, n, what, r, true, mustDamage)
		if before == n.lost {
			n.verifyOnly++
		} else {
			n.readFails++
		}
		mustDamage(r.Verify(context.Background(), nil))
		return
	}
	mustDamage(err)
	n.openFails++
	r, damage, err := Salvage(context.Background(), f, "000012.seg", int64(len(b)))
	if err != nil {
		mustDamage(err)
		return
	}
	if len(damage) == 0 {
		t.Fatalf("%s: Open says %v, Salvage found nothing", what, err)
	}
	for _, d := range damage {
		mustDamage(d)
	}
	or.read(t, n, what, r, false, mustDamage)
}

// read asks for everything. With complete, all families must be listed.
func (or *oracle) read(t *testing.T, n *tally, what string, r *Reader, complete bool, mustDamage func(error)) {
	t.Helper()
	fams, err := r.Families()
	must(t, err)
	if complete && len(fams) != len(or.dirs) {
		t.Fatalf("%s: %d families, no error", what, len(fams))
	}
	for _, fam := range fams {
		dir, values, err := r.directoryOf(fam.ID)
		if err != nil {
			mustDamage(err)
			n.lost += len(or.values[fam.ID]) + 1
			continue
		}
		if !bytes.Equal(dir, or.dirs[fam.ID]) || len(values) != len(or.values[fam.ID]) {
			t.Fatalf("%s: directory of %d is wrong", what, fam.ID)
		}
		for _, v := range values {
			block, err := readBlock(r, v.Loc)
			var got []byte
			if err == nil {
				got, err = r.Value(v.Loc, block)
			}
			if err != nil {
				mustDamage(err)
				n.lost++
				continue
			}
			if !bytes.Equal(got, or.values[fam.ID][v.ValueID]) {
				t.Fatalf("%s: value %v is wrong", what, v.ValueID)
			}
			n.served++
		}
	}
	for _, s := range []struct {
		read func() ([]byte, error)
		want []byte
	}{{r.Tombstones, or.tombs}, {r.Meta, or.meta}} {
		switch got, err := s.read(); {
		case err != nil:
			mustDamage(err)
			n.lost++
		case !bytes.Equal(got, s.want) && (complete || got != nil):
			t.Fatalf("%s: section is %q, want %q", what, got, s.want)
		}
	}
}

func TestEveryBitFlip(t *testing.T) {
	f, or := tiny(t, 99)
	var n tally
	for i := range f.b {
		for bit := range 8 {
			b := bytes.Clone(f.b)
			b[i] ^= 1 << bit
			or.damaged(t, &n, fmt.Sprintf("byte %d bit %d", i, bit), b)
		}
	}
	t.Logf("segment of %d bytes, every bit flipped: %v", len(f.b), &n)
}

func TestEverySectorAndTruncation(t *testing.T) {
	f, or := tiny(t, 99)
	var zero, cut, grown tally
	for at := 0; at < len(f.b); at += 64 {
		for _, size := range []int{64, 512} {
			b := bytes.Clone(f.b)
			clear(b[at:min(len(b), at+size)])
			or.damaged(t, &zero, fmt.Sprintf("%d bytes at %d zeroed", size, at), b)
		}
	}
	for n := range f.b {
		or.damaged(t, &cut, fmt.Sprintf("cut to %d bytes", n), bytes.Clone(f.b[:n]))
	}
	for _, more := range []int{1, 7, 8, 64, 128, 4096} {
		or.damaged(t, &grown, fmt.Sprintf("%d bytes appended", more), append(bytes.Clone(f.b), make([]byte, more)...))
	}
	t.Logf("zeroed runs: %v", &zero)
	t.Logf("truncations: %v", &cut)
	t.Logf("appended:    %v", &grown)
}

// TestMisplacedFrames puts intact frames where they do not belong: to another
// offset of the same file, and to the same offset of another file.
func TestMisplacedFrames(t *testing.T) {
	f, or := tiny(t, 99)
	other, _ := tiny(t, 100)
	if len(f.b) != len(other.b) {
		t.Fatal("the two segments are to have the same layout")
	}
	var n tally
	at := frames(t, f.b)
	for i, x := range at {
		b := bytes.Clone(f.b)
		copy(b[x.off:], other.b[x.off:x.off+uint64(x.n)])
		or.damaged(t, &n, fmt.Sprintf("frame %d of another segment", i), b)
		for j, y := range at {
			if i == j || x.n != y.n || bytes.Equal(f.b[x.off+8:x.off+uint64(x.n)], f.b[y.off+8:y.off+uint64(y.n)]) {
				continue
			}
			b := bytes.Clone(f.b)
			copy(b[x.off:], f.b[y.off:y.off+uint64(y.n)])
			or.damaged(t, &n, fmt.Sprintf("frame %d over frame %d", j, i), b)
		}
	}
	b := bytes.Clone(f.b)
	copy(b[len(b)-footerSize:], other.b[len(b)-footerSize:])
	or.damaged(t, &n, "footer of another segment", b)
	t.Logf("%v", &n)

	if _, err := Open(f, "000013.seg", int64(len(f.b))); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("segment 12 opened as 13: %v", err)
	}
	if _, _, err := Salvage(context.Background(), f, "000013.seg", int64(len(f.b))); !errors.Is(err, fault.ErrCorrupt) {
		t.Fatalf("segment 12 salvaged as 13: %v", err)
	}
}

// frames lists the frames of an undamaged file.
func frames(t testing.TB, b []byte) (at []extent) {
	t.Helper()
	for off := fileHeaderSize; off < len(b)-footerSize; {
		h, _ := peekFrameHeader(b[off:])
		n := alignFrame(int64(h.stored))
		at = append(at, extent{uint64(off), uint32(n)})
		off += int(n)
	}
	return at
}

// TestDamageStaysLocal damages the frames one at a time: everything outside of
// the damaged one keeps working, and Salvage finds all the rest even without
// footer and family index.
func TestDamageStaysLocal(t *testing.T) {
	f, or, _ := small(t, BuilderOptions{})
	for _, x := range frames(t, f.b) {
		h, _ := peekFrameHeader(f.b[x.off:])
		b := bytes.Clone(f.b)
		b[x.off+uint64(x.n)-1] ^= 0x80
		df := &memFile{b: b}
		r, err := Open(df, "000012.seg", int64(len(b)))
		if (h.kind == kindFamilyIndex) != (err != nil) {
			t.Fatalf("%v damaged: Open: %v", h.kind, err)
		}
		if err != nil {
			var damage []error
			r, damage, err = Salvage(context.Background(), df, "000012.seg", int64(len(b)))
			must(t, err)
			if len(damage) != 1 || len(r.toc.Load().families) != len(or.dirs) {
				t.Fatalf("salvaged %d families, damage %v", len(r.toc.Load().families), damage)
			}
		}
		fams, err := r.Families()
		must(t, err)
		for _, fam := range fams {
			_, values, err := r.directoryOf(fam.ID)
			if hit := x.off == fam.DirOff; hit != (err != nil) {
				t.Fatalf("frame at %d damaged, directory of %d: %v", x.off, fam.ID, err)
			}
			for _, v := range values {
				_, err := r.ReadBlock(v.Loc)
				if hit := x.off == v.Off; hit != (err != nil) {
					t.Fatalf("frame at %d damaged, value %v: %v", x.off, v, err)
				}
				var ce *fault.CorruptionError
				if err != nil && (!errors.As(err, &ce) || ce.Offset != int64(x.off) || ce.File != "000012.seg" || !errors.Is(err, ErrChecksum)) {
					t.Fatalf("wrong coordinates: %#v", ce)
				}
			}
		}
	}

	b := f.b[:len(f.b)-footerSize] // never finished, or cut
	r, damage, err := Salvage(context.Background(), &memFile{b: b}, "000012.seg", int64(len(b)))
	must(t, err)
	if len(damage) != 1 || r.Props().Families != len(or.dirs) || r.Props().Values == 0 {
		t.Fatalf("salvage without footer: %+v, %v", r.Props(), damage)
	}
	or.salvagedEquals(t, r)
}

func (or *oracle) salvagedEquals(t *testing.T, r *Reader) {
	t.Helper()
	var n tally
	or.read(t, &n, "salvaged", r, true, func(err error) { t.Fatal(err) })
	if n.lost != 0 || n.served == 0 {
		t.Fatal(&n)
	}
	must(t, r.Verify(context.Background(), nil))
}

// TestDeviceErrorIsNotDamage: an error of the device is passed on.
func TestDeviceErrorIsNotDamage(t *testing.T) {
	f, _ := tiny(t, 99)
	r := open(t, f)
	_, values, err := r.directoryOf(7)
	must(t, err)
	f.readErr = errors.New("device says no")
	calls := map[string]func() error{
		"Open":       func() error { _, err := Open(f, "x", int64(len(f.b))); return err },
		"Salvage":    func() error { _, _, err := Salvage(context.Background(), f, "x", int64(len(f.b))); return err },
		"ReadBlock":  func() error { _, err := readBlock(r, values[0].Loc); return err },
		"Directory":  func() error { _, _, err := r.directoryOf(7); return err },
		"Tombstones": func() error { _, err := r.Tombstones(); return err },
		"Meta":       func() error { _, err := r.Meta(); return err },
		"Verify":     func() error { return r.Verify(context.Background(), nil) },
	}
	for name, call := range calls {
		if err := call(); !errors.Is(err, f.readErr) || errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: %v", name, err)
		}
	}
	f.readErr = io.ErrUnexpectedEOF
	if _, err := r.ReadBlock(values[0].Loc); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("short file: %v", err)
	}
}
