package rot

import (
	"bytes"
	"testing"

	"github.com/stele-go/stele/base/vfs"
)

func disk(t *testing.T, data []byte) vfs.FS {
	t.Helper()
	m := vfs.NewMem(vfs.MemOptions{})
	if err := rewrite(m, "f", data); err != nil {
		t.Fatal(err)
	}
	return m
}

func contents(t *testing.T, fsys vfs.FS) []byte {
	t.Helper()
	f, err := fsys.Open("f")
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Size()
	if err != nil {
		t.Fatal(err)
	}
	b, err := readRange(f, 0, size)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func sectors(s string) []byte {
	var b []byte
	for _, c := range []byte(s) {
		b = append(b, bytes.Repeat([]byte{c}, SectorSize)...)
	}
	return b
}

func TestDamage(t *testing.T) {
	before := append(sectors("aab"), "tail"...)
	tail := func(s string) []byte { return append([]byte(s), sectors("a")[len(s):]...) }
	for _, c := range []struct {
		name    string
		do      func(vfs.FS) (bool, error)
		changed bool
		want    []byte
		fails   bool
	}{
		{"flip", func(f vfs.FS) (bool, error) { return true, FlipBit(f, "f", 0, 1) }, true,
			append([]byte("c"), before[1:]...), false},
		{"flip last", func(f vfs.FS) (bool, error) { return true, FlipBit(f, "f", 3*SectorSize+3, 0) }, true,
			append(sectors("aab"), "taim"...), false},
		{"flip beyond", func(f vfs.FS) (bool, error) { return false, FlipBit(f, "f", 3*SectorSize+4, 0) }, false, before, true},
		{"flip bit 8", func(f vfs.FS) (bool, error) { return false, FlipBit(f, "f", 0, 8) }, false, before, true},
		{"zero", func(f vfs.FS) (bool, error) { return ZeroSector(f, "f", 1) }, true,
			append(sectors("a\x00b"), "tail"...), false},
		{"zero tail", func(f vfs.FS) (bool, error) { return ZeroSector(f, "f", 3) }, true,
			append(sectors("aab"), 0, 0, 0, 0), false},
		{"zero beyond", func(f vfs.FS) (bool, error) { return ZeroSector(f, "f", 4) }, false, before, true},
		{"copy", func(f vfs.FS) (bool, error) { return CopySector(f, "f", 2, 0) }, true,
			append(sectors("bab"), "tail"...), false},
		{"copy of equals", func(f vfs.FS) (bool, error) { return CopySector(f, "f", 1, 0) }, false, before, false},
		{"copy of tail", func(f vfs.FS) (bool, error) { return CopySector(f, "f", 3, 0) }, true,
			append(append(tail("tail"), sectors("ab")...), "tail"...), false},
		{"copy to tail", func(f vfs.FS) (bool, error) { return CopySector(f, "f", 2, 3) }, true,
			append(sectors("aab"), "bbbb"...), false},
		{"swap", func(f vfs.FS) (bool, error) { return SwapSectors(f, "f", 1, 2) }, true,
			append(sectors("aba"), "tail"...), false},
		{"swap of equals", func(f vfs.FS) (bool, error) { return SwapSectors(f, "f", 0, 1) }, false, before, false},
		{"swap with tail", func(f vfs.FS) (bool, error) { return SwapSectors(f, "f", 3, 0) }, true,
			append(append(tail("tail"), sectors("ab")...), "aaaa"...), false},
		{"truncate", func(f vfs.FS) (bool, error) { return Truncate(f, "f", 3) }, true, []byte("aaa"), false},
		{"truncate to size", func(f vfs.FS) (bool, error) { return Truncate(f, "f", int64(len(before))) }, false, before, false},
		{"grow", func(f vfs.FS) (bool, error) { return Truncate(f, "f", int64(len(before))+1) }, false, before, true},
		{"remove", func(f vfs.FS) (bool, error) { return true, rewrite(f, "f", nil) }, true, nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			fsys := disk(t, before)
			restore, err := Save(fsys, "f")
			if err != nil {
				t.Fatal(err)
			}
			changed, err := c.do(fsys)
			if (err != nil) != c.fails {
				t.Fatalf("error is %v", err)
			}
			got := contents(t, fsys)
			if !bytes.Equal(got, c.want) || changed != c.changed {
				t.Errorf("changed: %t, wrong contents: %t", changed, !bytes.Equal(got, c.want))
			}
			if changed == bytes.Equal(got, before) {
				t.Errorf("changed is %t", changed)
			}
			if err := restore(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(contents(t, fsys), before) {
				t.Error("not restored")
			}
		})
	}
}

func TestRestoreRemoved(t *testing.T) {
	fsys := disk(t, []byte("abc"))
	restore, err := Save(fsys, "f")
	if err != nil {
		t.Fatal(err)
	}
	if err := fsys.Remove("f"); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	if got := contents(t, fsys); string(got) != "abc" {
		t.Errorf("restored %q", got)
	}
}

func TestBits(t *testing.T) {
	type pos struct {
		off int64
		bit int
	}
	collect := func(s Sample) (all []pos) {
		for off, bit := range Bits(s) {
			if off < 0 || off >= s.Size || bit < 0 || bit > 7 {
				t.Fatalf("%+v yields offset %d, bit %d", s, off, bit)
			}
			all = append(all, pos{off, bit})
		}
		return all
	}
	every := collect(Sample{Size: 5})
	if len(every) != 40 || every[0] != (pos{0, 0}) || every[39] != (pos{4, 7}) {
		t.Errorf("all bits of 5 bytes: %v", every)
	}
	if got := collect(Sample{}); len(got) != 0 {
		t.Errorf("bits of an empty file: %v", got)
	}
	if got := collect(Sample{Size: 1, Stride: 1000, Seed: 3}); len(got) != 1 {
		t.Errorf("a stride beyond the file yields %d bits", len(got))
	}
	if got := len(collect(Sample{Size: 1000, Stride: 7, Seed: 9})); got != 8000/7 && got != 8000/7+1 {
		t.Errorf("stride 7 yields %d of 8000 bits", got)
	}
	few := collect(Sample{Size: 1000, Max: 100, Seed: 1})
	if len(few) > 100 || len(few) < 90 {
		t.Errorf("at most 100 bits wanted, got %d", len(few))
	}
	seen := map[int]bool{}
	for _, p := range few {
		seen[p.bit] = true
	}
	if len(seen) != 8 {
		t.Errorf("only %d bit positions occur", len(seen))
	}
	// Different seeds fill the gaps of each other.
	covered := map[pos]bool{}
	for seed := range uint64(100) {
		for _, p := range collect(Sample{Size: 10, Stride: 5, Seed: seed}) {
			covered[p] = true
		}
	}
	if len(covered) != 80 {
		t.Errorf("100 seeds meet %d of 80 bits", len(covered))
	}
	for range Bits(Sample{Size: 10}) {
		break
	}
}
