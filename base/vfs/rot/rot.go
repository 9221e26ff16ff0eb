// Package rot damages files the way disks and people do: bits flip, sectors are
// zeroed, duplicated or swapped, ends are cut off. Only tests import it.
//
// Every function works on a closed file of any file system. Those that may change
// nothing report whether a byte changed: such damage proves nothing, and a test
// must not count it.
//
// It is for this repository, and makes no promise to others.
package rot

import (
	"bytes"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"

	"github.com/stele-go/stele/base/vfs"
)

// SectorSize is the unit that a device loses or misplaces, in bytes.
const SectorSize = 512

// FlipBit inverts one bit; bit 0 is the lowest. Doing it twice undoes it.
func FlipBit(fsys vfs.FS, name string, off int64, bit int) error {
	if bit < 0 || bit > 7 {
		return fmt.Errorf("flip bit of %s: bit %d of a byte", name, bit)
	}
	_, err := edit(fsys, name, func(f vfs.File, size int64) (bool, error) {
		if off < 0 || off >= size {
			return false, fmt.Errorf("flip bit of %s: offset %d of %d bytes", name, off, size)
		}
		b, err := readRange(f, off, 1)
		if err != nil {
			return false, err
		}
		return overwrite(f, off, []byte{b[0] ^ 1<<bit})
	})
	return err
}

// ZeroSector fills a sector with zeros. The last sector of a file may be short.
func ZeroSector(fsys vfs.FS, name string, sector int64) (changed bool, err error) {
	return edit(fsys, name, func(f vfs.File, size int64) (bool, error) {
		b, err := readSector(f, name, sector, size)
		if err != nil {
			return false, err
		}
		return overwrite(f, sector*SectorSize, make([]byte, len(b)))
	})
}

// CopySector overwrites one sector with another: a misdirected write. Where one
// of them is the short last sector, as many bytes are copied as it has.
func CopySector(fsys vfs.FS, name string, from, to int64) (changed bool, err error) {
	return edit(fsys, name, func(f vfs.File, size int64) (bool, error) {
		src, dst, err := readTwo(f, name, from, to, size)
		if err != nil {
			return false, err
		}
		n := min(len(src), len(dst))
		return overwrite(f, to*SectorSize, src[:n])
	})
}

// SwapSectors exchanges two sectors, as far as both reach. Doing it twice
// undoes it.
func SwapSectors(fsys vfs.FS, name string, a, b int64) (changed bool, err error) {
	return edit(fsys, name, func(f vfs.File, size int64) (bool, error) {
		x, y, err := readTwo(f, name, a, b, size)
		if err != nil {
			return false, err
		}
		n := min(len(x), len(y))
		if bytes.Equal(x[:n], y[:n]) {
			return false, nil
		}
		if _, err := overwrite(f, a*SectorSize, y[:n]); err != nil {
			return false, err
		}
		return overwrite(f, b*SectorSize, x[:n])
	})
}

// Truncate cuts the file to size bytes, which must not be more than it has.
func Truncate(fsys vfs.FS, name string, size int64) (changed bool, err error) {
	return edit(fsys, name, func(f vfs.File, have int64) (bool, error) {
		if size < 0 || size > have {
			return false, fmt.Errorf("truncate %s: %d of %d bytes", name, size, have)
		}
		return size < have, f.Truncate(size)
	})
}

// Save reads a file and returns a function that gives it back these contents,
// creating it anew if it is gone. The function may be called many times.
func Save(fsys vfs.FS, name string) (restore func() error, err error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	size, err := f.Size()
	var data []byte
	if err == nil {
		data, err = readRange(f, 0, size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		return nil, fmt.Errorf("save %s: %w", name, err)
	}
	return func() error { return rewrite(fsys, name, data) }, nil
}

func rewrite(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		if f, err = fsys.Create(name); err != nil {
			return err
		}
	}
	if err = f.Truncate(int64(len(data))); err == nil {
		_, err = f.WriteAt(data, 0)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// Sample says which bits of a file Bits yields.
type Sample struct {
	// Size is the length of the file in bytes.
	Size int64
	// Stride takes every Stride-th bit, counting over all bits of the file in
	// order; 0 and 1 take all. An odd stride meets every bit position.
	Stride int64
	// Seed chooses where in the first stride to begin.
	Seed uint64
	// Max bounds the number of bits: the stride is made as large as that
	// needs. 0 is no bound.
	Max int64
}

// Bits yields offset and bit of a sample, in order. Equal samples are equal.
func Bits(s Sample) iter.Seq2[int64, int] {
	return func(yield func(int64, int) bool) {
		total := s.Size * 8
		stride := max(1, s.Stride)
		if s.Max > 0 && (total+stride-1)/stride > s.Max {
			stride = (total + s.Max - 1) / s.Max
			stride |= 1 // an even one would leave bit positions out
		}
		first := rand.New(rand.NewPCG(s.Seed, 0)).Int64N(stride)
		if total > 0 {
			first = min(first, total-1)
		}
		for i := first; i < total; i += stride {
			if !yield(i/8, int(i%8)) {
				return
			}
		}
	}
}

// Sectors is the number of sectors of a file of size bytes, a short last one
// included.
func Sectors(size int64) int64 { return (size + SectorSize - 1) / SectorSize }

// edit opens a file, lets do change it, and closes it.
func edit(fsys vfs.FS, name string, do func(f vfs.File, size int64) (bool, error)) (bool, error) {
	f, err := fsys.OpenReadWrite(name)
	if err != nil {
		return false, err
	}
	size, err := f.Size()
	changed := false
	if err == nil {
		changed, err = do(f, size)
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return changed, err
}

func readRange(f vfs.File, off, n int64) ([]byte, error) {
	b := make([]byte, n)
	got, err := f.ReadAt(b, off)
	if err == io.EOF && int64(got) == n {
		err = nil
	}
	return b[:got], err
}

func readSector(f vfs.File, name string, sector, size int64) ([]byte, error) {
	if sector < 0 || sector >= Sectors(size) {
		return nil, fmt.Errorf("sector %d of %s, which has %d", sector, name, Sectors(size))
	}
	off := sector * SectorSize
	return readRange(f, off, min(SectorSize, size-off))
}

func readTwo(f vfs.File, name string, a, b, size int64) (x, y []byte, err error) {
	if x, err = readSector(f, name, a, size); err != nil {
		return nil, nil, err
	}
	y, err = readSector(f, name, b, size)
	return x, y, err
}

// overwrite writes b and reports whether that made a difference.
func overwrite(f vfs.File, off int64, b []byte) (bool, error) {
	old, err := readRange(f, off, int64(len(b)))
	if err != nil {
		return false, err
	}
	_, err = f.WriteAt(b, off)
	return !bytes.Equal(old, b), err
}
