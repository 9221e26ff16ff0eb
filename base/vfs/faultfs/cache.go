package faultfs

import (
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"sync"

	"github.com/stele-go/stele/base/vfs"
)

// pageSize is the unit in which a kernel tells clean from dirty: writing one
// byte of a page makes all of it dirty, and writes all of it back.
const pageSize = 4 << 10

// cache knows, of one file, the pages whose contents in memory and on the disk
// differ. The file system inside holds what is in memory.
type cache struct {
	mu    sync.Mutex
	pages map[int64]*page
}

type page struct {
	disk [pageSize]byte // its contents after a loss of power
	lost bool           // marked clean by a failed sync; no later sync writes it
}

func (f *FS) cacheOf(name string, created bool) *cache {
	path := filepath.Clean(name)
	f.mu.Lock()
	defer f.mu.Unlock()
	c := f.files[path]
	if c == nil || created {
		c = &cache{pages: map[int64]*page{}}
		f.files[path] = c
	}
	return c
}

// writeAt writes through h and remembers what the disk holds instead.
func (c *cache) writeAt(h vfs.File, p []byte, off int64) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if off < 0 || len(p) == 0 {
		return h.WriteAt(p, off)
	}
	before := map[int64]*page{}
	for i := off / pageSize; i <= (off+int64(len(p))-1)/pageSize; i++ {
		if c.pages[i] == nil {
			pg := new(page)
			if _, err := h.ReadAt(pg.disk[:], i*pageSize); err != nil && err != io.EOF {
				return 0, err
			}
			before[i] = pg
		}
	}
	n, err := h.WriteAt(p, off)
	if n > 0 {
		for i := off / pageSize; i <= (off+int64(n)-1)/pageSize; i++ {
			if c.pages[i] == nil {
				c.pages[i] = before[i]
			}
			c.pages[i].lost = false
		}
	}
	return n, err
}

// truncate forgets the part that is cut off. The new size itself is never lost: it goes through the
// metadata journal.
func (c *cache) truncate(h vfs.File, size int64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := h.Truncate(size); err != nil {
		return err
	}
	for i, pg := range c.pages {
		if keep := size - i*pageSize; keep <= 0 {
			delete(c.pages, i)
		} else if keep < pageSize {
			clear(pg.disk[keep:])
		}
	}
	return nil
}

// sync makes the dirty pages clean; the lost ones are clean already.
func (c *cache) sync(call func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := call(); err != nil {
		return err
	}
	maps.DeleteFunc(c.pages, func(_ int64, pg *page) bool { return !pg.lost })
	return nil
}

// lose is a sync that fails after it marked the pages clean.
func (c *cache) lose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pg := range c.pages {
		pg.lost = true
	}
}

// DropLost throws away what failed syncs with LoseData left in memory only:
// the bytes on the disk show through, zeros where the file was shorter. It is
// what memory pressure may do at any time, and a power failure will. Data
// written again since then, and sizes, are not affected. The number of pages
// that changed back is returned.
func (f *FS) DropLost() (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	total := 0
	for _, path := range slices.Sorted(maps.Keys(f.files)) {
		n, err := f.files[path].drop(f.inner, path)
		total += n
		if err != nil {
			return total, fmt.Errorf("drop lost pages of %s: %w", path, err)
		}
	}
	return total, nil
}

func (c *cache) drop(fsys vfs.FS, path string) (n int, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var lost []int64
	for i, pg := range c.pages {
		if pg.lost {
			lost = append(lost, i)
		}
	}
	if len(lost) == 0 {
		return 0, nil
	}
	slices.Sort(lost)
	h, err := fsys.OpenReadWrite(path)
	if err != nil {
		return 0, err
	}
	defer func() {
		if cerr := h.Close(); err == nil {
			err = cerr
		}
	}()
	size, err := h.Size()
	if err != nil {
		return 0, err
	}
	for _, i := range lost {
		keep := min(pageSize, size-i*pageSize)
		if keep > 0 {
			if _, err := h.WriteAt(c.pages[i].disk[:keep], i*pageSize); err != nil {
				return n, err
			}
			n++
		}
		delete(c.pages, i)
	}
	return n, nil
}
