package crashfs

import (
	"fmt"
	"math/rand/v2"

	"github.com/stele-go/stele/base/vfs/internal/sparse"
)

// sectorSize is what a device writes whole or not at all.
const sectorSize = 512

// fate says whether, and how much of, an operation that no sync covered survives.
type fate struct {
	how  how
	n    int64  // torn: sectors that reached the disk
	seed uint64 // scattered, trashed: which sectors, and the garbage
}

type how uint8

const (
	dropped   how = iota // nothing reached the disk
	applied              // everything did
	both                 // rename: the new name did, the old one stayed
	torn                 // write: the first n sectors; the file ends there
	tornSized            // write: the first n sectors, but the whole size
	headless             // write: all sectors but the first, and the whole size
	scattered            // write: some sectors, and the whole size
	trashed              // write: as applied, but some sectors hold garbage
	allTrash             // write: as trashed, all sectors
	sizeOnly             // write: the size without the data
	dataOnly             // write: the data without the size
)

// String is the fate in words.
func (f fate) String() string {
	switch f.how {
	case dropped:
		return "dropped"
	case applied:
		return "applied"
	case both:
		return "both names"
	case torn:
		return fmt.Sprintf("torn after %d sectors", f.n)
	case tornSized:
		return fmt.Sprintf("torn after %d sectors, full size", f.n)
	case headless:
		return "all but the first sector"
	case scattered:
		return fmt.Sprintf("scattered (seed %#x)", f.seed)
	case trashed:
		return fmt.Sprintf("trashed (seed %#x)", f.seed)
	case allTrash:
		return "all trashed"
	case sizeOnly:
		return "size only"
	default:
		return "data only"
	}
}

// content is a file being put together from fates. Data may for a while be
// longer than the size, because data can arrive without the size.
type content struct {
	*sparse.Data
	size int64
}

func (c *content) apply(o *op, f fate) {
	if o.kind == opTruncate {
		// A truncation is nothing but a change of size.
		if f.how != dropped && f.how != dataOnly {
			if o.off < c.Size() {
				c.Truncate(o.off)
			}
			c.size = o.off
		}
		return
	}
	end := o.off + int64(len(o.data))
	switch f.how {
	case dropped:
		return
	case dataOnly:
		c.WriteAt(o.data, o.off)
		return
	case sizeOnly:
	case torn:
		end = min(end, (o.off/sectorSize+f.n)*sectorSize)
		c.WriteAt(o.data[:end-o.off], o.off)
	case tornSized:
		n := min(end, (o.off/sectorSize+f.n)*sectorSize)
		c.WriteAt(o.data[:n-o.off], o.off)
	case headless:
		n := min(int64(len(o.data)), (o.off/sectorSize+1)*sectorSize-o.off)
		c.WriteAt(o.data[n:], o.off+n)
	case scattered, trashed, allTrash:
		c.applySectors(o, f)
	default:
		c.WriteAt(o.data, o.off)
	}
	c.size = max(c.size, end)
}

// applySectors decides for each sector of a write.
func (c *content) applySectors(o *op, f fate) {
	rng := rand.New(rand.NewPCG(f.seed, uint64(o.off)))
	for pos := int64(0); pos < int64(len(o.data)); {
		end := min(int64(len(o.data)), ((o.off+pos)/sectorSize+1)*sectorSize-o.off)
		part := o.data[pos:end]
		hit := rng.IntN(2) == 0
		switch {
		case f.how == scattered && hit: // this sector never made it
		case f.how == scattered, f.how == trashed && !hit:
			c.WriteAt(part, o.off+pos)
		default:
			garbage := make([]byte, len(part))
			for i := range garbage {
				garbage[i] = byte(rng.Uint32())
			}
			c.WriteAt(garbage, o.off+pos)
		}
		pos = end
	}
}

// finish settles the size and returns the contents, ready to be shared.
func (c *content) finish() *sparse.Data {
	c.Truncate(c.size)
	c.Freeze()
	return c.Data
}

// tears is the number of sector boundaries inside a write.
func tears(o *op) int64 {
	if o.kind != opWrite {
		return 0
	}
	return (o.off+int64(len(o.data))-1)/sectorSize - o.off/sectorSize
}
