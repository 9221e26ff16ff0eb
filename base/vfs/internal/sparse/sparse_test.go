package sparse

import (
	"bytes"
	"io"
	"testing"

	"pgregory.net/rapid"
)

// model is what Data is compared with: plain bytes, plus which pages were
// written.
type model struct {
	b     []byte
	alloc map[int]bool
}

func (m *model) write(p []byte, off int) {
	if len(p) == 0 {
		return
	}
	if end := off + len(p); end > len(m.b) {
		m.b = append(m.b, make([]byte, end-len(m.b))...)
	}
	copy(m.b[off:], p)
	for i := off / PageSize; i <= (off+len(p)-1)/PageSize; i++ {
		m.alloc[i] = true
	}
}

func (m *model) truncate(n int) {
	if n <= len(m.b) {
		m.b = m.b[:n:n]
		for i := range m.alloc {
			if i >= (n+PageSize-1)/PageSize {
				delete(m.alloc, i)
			}
		}
		return
	}
	m.b = append(m.b, make([]byte, n-len(m.b))...)
}

func (m *model) clone() *model {
	c := &model{b: bytes.Clone(m.b), alloc: map[int]bool{}}
	for i := range m.alloc {
		c.alloc[i] = true
	}
	return c
}

func (m *model) holes(off, n int) int64 {
	var holes int64
	for i := off / PageSize; n > 0 && i <= (off+n-1)/PageSize; i++ {
		if !m.alloc[i] {
			holes++
		}
	}
	return holes
}

func (m *model) check(t *rapid.T, d *Data) {
	if d.Size() != int64(len(m.b)) || d.Pages() != int64(len(m.alloc)) {
		t.Fatalf("size %d, pages %d; want %d, %d", d.Size(), d.Pages(), len(m.b), len(m.alloc))
	}
	got := make([]byte, len(m.b)+1)
	n, err := d.ReadAt(got, 0)
	if err != io.EOF || !bytes.Equal(got[:n], m.b) {
		t.Fatalf("contents differ (read %d, %v)", n, err)
	}
	// The sum depends on bytes only: rebuild them in another way.
	fresh := new(Data)
	fresh.Truncate(d.size)
	for off := 0; off < len(m.b); off += 1000 {
		fresh.WriteAt(m.b[off:min(off+1000, len(m.b))], int64(off))
	}
	if fresh.Sum() != d.Sum() {
		t.Fatal("equal contents have different sums")
	}
}

// TestModel drives a growing family of clones and compares each with plain
// bytes, which also shows that no write reaches a clone.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type pair struct {
			d *Data
			m *model
		}
		all := []pair{{new(Data), &model{alloc: map[int]bool{}}}}
		off := rapid.OneOf(rapid.IntRange(0, 5*PageSize), rapid.Map(rapid.IntRange(0, 5),
			func(i int) int { return i * PageSize }))
		for range rapid.IntRange(1, 12).Draw(t, "ops") {
			p := all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
			switch rapid.IntRange(0, 3).Draw(t, "op") {
			case 0, 1:
				b := bytes.Repeat([]byte{byte(rapid.IntRange(0, 3).Draw(t, "byte"))}, off.Draw(t, "len")/2)
				at := off.Draw(t, "off")
				holes := p.m.holes(at, len(b))
				if got := p.d.Holes(int64(at), int64(len(b))); got != holes {
					t.Fatalf("%d holes, want %d", got, holes)
				}
				if holes > 0 {
					fit := p.d.Fit(int64(at), int64(len(b)), holes-1)
					if fit >= int64(len(b)) || p.m.holes(at, int(fit)) != holes-1 || p.m.holes(at, int(fit)+1) != holes {
						t.Fatalf("a write of %d at %d over %d holes is cut to %d", len(b), at, holes, fit)
					}
				}
				p.d.WriteAt(b, int64(at))
				p.m.write(b, at)
			case 2:
				n := off.Draw(t, "size")
				p.d.Truncate(int64(n))
				p.m.truncate(n)
			case 3:
				all = append(all, pair{p.d.Clone(), p.m.clone()})
			}
		}
		for _, p := range all {
			p.m.check(t, p.d)
		}
	})
}

// TestSumTellsApart: one changed bit, size or swapped page changes the sum,
// cached page sums notwithstanding.
func TestSumTellsApart(t *testing.T) {
	d := new(Data)
	for i := range 3 {
		d.WriteAt(bytes.Repeat([]byte{byte(i + 1)}, PageSize), int64(i*PageSize))
	}
	seen := map[uint64]string{d.Sum(): "original"}
	try := func(name string, change func(*Data)) {
		c := d.Clone()
		change(c)
		if other, ok := seen[c.Sum()]; ok {
			t.Errorf("%s has the sum of %s", name, other)
		}
		seen[c.Sum()] = name
	}
	try("bit", func(c *Data) { c.WriteAt([]byte{3}, 0) })
	try("shorter", func(c *Data) { c.Truncate(3*PageSize - 1) })
	try("longer", func(c *Data) { c.Truncate(3*PageSize + 1) })
	try("page longer", func(c *Data) { c.Truncate(4 * PageSize) })
	try("swapped", func(c *Data) {
		c.WriteAt(bytes.Repeat([]byte{2}, PageSize), 0)
		c.WriteAt(bytes.Repeat([]byte{1}, PageSize), PageSize)
	})
	for i := range byte(3) { // the first write copies the page, later ones do not
		before := d.Sum()
		d.WriteAt([]byte{9 + i}, 5)
		if d.Sum() == before {
			t.Errorf("the sum is stale after write %d", i)
		}
	}
}
