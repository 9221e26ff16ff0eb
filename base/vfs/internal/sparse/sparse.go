// Package sparse holds the contents of one in-memory file as copy-on-write
// pages. Copies share pages until either side writes, so that a crash explorer
// can fork a store thousands of times a second and pay only for what differs.
package sparse

import (
	"bytes"
	"io"
	"math/bits"
	"sync/atomic"

	"github.com/stele-go/stele/base"
)

const (
	// PageSize is the unit of allocation and of sharing, in bytes.
	PageSize = 4 << 10
	// MaxSize is the largest file: 16 GiB. The page table is a flat slice, so
	// a stray offset must not ask for all of memory.
	MaxSize = 16 << 30
)

// token is the identity of a writer. It has a size so that two of them never
// share an address.
type token struct{ _ byte }

// page may be written only by the Data whose token it carries; anybody else
// holds it as an immutable value.
type page struct {
	owner *token
	sum   atomic.Uint64 // checksum of b, 0 if not known; reset by each write
	b     [PageSize]byte
}

// zeros is the page of everybody who wrote zeros: allocated (it counts towards
// Pages) but without memory of its own. Nobody owns it, so nobody writes it.
var (
	zeros   = &page{}
	zeroSum = base.Checksum(0, zeros.b[:])
)

// Data is the contents of a file. The zero value is an empty file.
//
// Methods that change it, and Clone, need the exclusion of the caller; reading
// methods may run together. A Data that is never written after a Clone may be
// cloned and read by many goroutines concurrently.
type Data struct {
	size  int64
	alloc int64 // pages that are not nil
	own   *token
	pages []*page // nil: a hole. Bytes at and above size are zero.
}

// Size is the length in bytes.
func (d *Data) Size() int64 { return d.size }

// Pages is the number of pages that hold written bytes; holes do not count.
func (d *Data) Pages() int64 { return d.alloc }

// Freeze makes every page shared, so that d may from now on be cloned and read by many goroutines
// concurrently, as long as nobody writes it.
func (d *Data) Freeze() {
	if d.own != nil { // keeps Freeze, and so Clone, read-only on a frozen source
		d.own = nil
	}
}

// Clone returns an independent copy that shares pages with d until one of
// them writes.
func (d *Data) Clone() *Data {
	d.Freeze()
	c := &Data{size: d.size, alloc: d.alloc}
	c.pages = append(c.pages, d.pages...)
	return c
}

// ReadAt follows io.ReaderAt; off must not be negative.
func (d *Data) ReadAt(p []byte, off int64) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	if off >= d.size {
		return 0, io.EOF
	}
	var err error
	if rest := d.size - off; int64(len(p)) > rest {
		p, err = p[:rest], io.EOF
	}
	n := 0
	for n < len(p) {
		i, at := split(off + int64(n))
		m := min(len(p)-n, PageSize-at)
		if pg := d.page(i); pg != nil {
			copy(p[n:n+m], pg.b[at:])
		} else {
			clear(p[n : n+m])
		}
		n += m
	}
	return n, err
}

// WriteAt stores p at off, growing the file as needed; off must not be
// negative nor the end above MaxSize. Whole pages of zeros take no memory.
func (d *Data) WriteAt(p []byte, off int64) {
	if len(p) == 0 {
		return
	}
	end := off + int64(len(p))
	d.reach(end)
	for n := 0; n < len(p); {
		i, at := split(off + int64(n))
		m := min(len(p)-n, PageSize-at)
		if m == PageSize && bytes.Equal(p[n:n+m], zeros.b[:]) {
			d.set(i, zeros)
		} else {
			copy(d.writable(i).b[at:], p[n:n+m])
		}
		n += m
	}
	d.size = max(d.size, end)
}

// Truncate sets the size, at most MaxSize. Bytes that come into being are zero.
func (d *Data) Truncate(size int64) {
	if size < d.size {
		keep := pagesFor(size)
		for i := keep; i < len(d.pages); i++ {
			d.set(i, nil)
		}
		if keep < len(d.pages) {
			d.pages = d.pages[:keep]
		}
		if i, at := split(size); at > 0 && d.page(i) != nil {
			clear(d.writable(i).b[at:])
		}
	}
	d.size = size
}

// Holes counts the pages that a write of n bytes at off would allocate.
func (d *Data) Holes(off, n int64) int64 {
	if n <= 0 {
		return 0
	}
	var holes int64
	last, _ := split(off + n - 1)
	for i, _ := split(off); i <= last; i++ {
		if d.page(i) == nil {
			holes++
		}
	}
	return holes
}

// NextData is where, at off or behind, the first page lies that was written; the size
// if there is none.
func (d *Data) NextData(off int64) int64 {
	first, _ := split(off)
	for i := first; i < len(d.pages); i++ {
		if d.pages[i] != nil {
			return min(max(off, int64(i)*PageSize), d.size)
		}
	}
	return d.size
}

// Fit is the longest prefix of a write of n bytes at off that allocates at
// most grant pages.
func (d *Data) Fit(off, n, grant int64) int64 {
	pos, end := off, off+n
	for pos < end {
		i, at := split(pos)
		if d.page(i) == nil {
			if grant == 0 {
				break
			}
			grant--
		}
		pos += int64(PageSize - at)
	}
	return min(pos, end) - off
}

// Sum is a checksum over size and bytes: equal contents have equal sums,
// however they came about. It may be called concurrently with itself.
func (d *Data) Sum() uint64 {
	h := uint64(d.size) * 0x9e3779b97f4a7c15
	for i := range pagesFor(d.size) {
		s := zeroSum
		if pg := d.page(i); pg != nil && pg != zeros {
			s = pg.checksum()
		}
		// A rotate and multiply per page: the page sums are strong already,
		// this only has to depend on their order.
		h = bits.RotateLeft64(h^s, 29) * 0x94d049bb133111eb
	}
	return h
}

func (pg *page) checksum() uint64 {
	s := pg.sum.Load()
	if s == 0 {
		s = base.Checksum(0, pg.b[:])
		pg.sum.Store(s)
	}
	return s
}

func (d *Data) page(i int) *page {
	if i < len(d.pages) {
		return d.pages[i]
	}
	return nil
}

// reach extends the page table to cover [0, end).
func (d *Data) reach(end int64) {
	if n := pagesFor(end); n > len(d.pages) {
		d.pages = append(d.pages, make([]*page, n-len(d.pages))...)
	}
}

func (d *Data) set(i int, pg *page) {
	if d.pages[i] != nil {
		d.alloc--
	}
	if pg != nil {
		d.alloc++
	}
	d.pages[i] = pg
}

// writable returns page i, copied first unless d alone has it.
func (d *Data) writable(i int) *page {
	if d.own == nil {
		d.own = new(token)
	}
	pg := d.pages[i]
	if pg == nil || pg.owner != d.own {
		mine := &page{owner: d.own}
		if pg != nil {
			mine.b = pg.b
		}
		d.set(i, mine)
		pg = mine
	}
	pg.sum.Store(0)
	return pg
}

func split(off int64) (page, at int) { return int(off / PageSize), int(off % PageSize) }

func pagesFor(size int64) int {
	if size <= 0 {
		return 0
	}
	return int((size-1)/PageSize) + 1
}
