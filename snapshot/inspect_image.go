package snapshot

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/index"
)

// ImageFrame is one frame of an image, or the bytes between two.
type ImageFrame struct {
	Offset int64
	Size   int64
	Type   string         // "page", "partitions", "families", "partition list", …, "footer"
	Codec  string         // "none", "zstd"
	Count  uint32         // entries of a table, or of the frames that a list leads to
	Raw    []byte         // decoded content; valid during the call
	List   []index.Stored // the frames of a list
	Err    error          // damage: Type is then a guess
}

var imageTypeNames = [...]string{imagePage: "page", imagePartitions: "threads", imageFamilies: "families",
	imageRemovedFamilies: "removed families", imageTombstones: "memos", imageRemovedTombstones: "removed memos", imageFooter: "footer",
	imageRows: "threads", imageParts: "families",
	imageRowLists: "thread list", imagePartLists: "family list"}

func (t imageFrameType) name() string {
	if int(t) < len(imageTypeNames) && t != 0 {
		return imageTypeNames[t]
	}
	return fmt.Sprintf("type %d", t)
}

// Inspect reads every frame of the image, pages included, in the order of the file, and calls
// visit for each. With header and tail, which OpenImage checked, that is every byte. Behind a
// damaged frame it continues with the next one that the footer or a list names. Damage is
// passed to visit. An error of visit ends Inspect and is returned as it is.
func (im *Image) Inspect(visit func(ImageFrame) error) error {
	size, err := im.f.Size()
	if err != nil {
		return fmt.Errorf("size of %s: %w", im.name, err)
	}
	end := uint64(size - imageTailSize)
	known := sync.OnceValue(im.tables)
	for off := im.start; off < end; {
		fr := im.frameAt(off, end)
		if fr.Err != nil && !errors.Is(fr.Err, fault.ErrCorrupt) && !errors.Is(fr.Err, fault.ErrVersion) {
			return fr.Err
		}
		if fr.Err != nil {
			next := end
			if i := sort.Search(len(known()), func(i int) bool { return known()[i] > off }); i < len(known()) {
				next = known()[i]
			}
			fr.Size = int64(next - off)
		}
		if err := visit(fr); err != nil {
			return err
		}
		off += uint64(fr.Size)
	}
	return nil
}

// frameAt reads the frame at off, whatever it is.
func (im *Image) frameAt(off, end uint64) ImageFrame {
	fr := ImageFrame{Offset: int64(off), Size: int64(end - off)}
	bad := func(detail string) ImageFrame {
		fr.Err = &fault.CorruptionError{File: im.name, Kind: "image frame", Offset: int64(off), Detail: detail}
		return fr
	}
	if end-off < imageFrameHeader {
		return bad("too few bytes for a frame")
	}
	var h [imageFrameHeader]byte
	if fr.Err = readRange(im.f, im.name, h[:], off); fr.Err != nil {
		return fr
	}
	n := uint64(binary.LittleEndian.Uint32(h[8:])) + imageFrameHeader
	typ := imageFrameType(h[16])
	fr.Type = typ.name()
	limit := MaxPage
	if typ == imageFooter {
		limit = maxFooter
	}
	if n > end-off || n > uint64(im.fr.stored(limit))+imageFrameHeader {
		return bad(fmt.Sprintf("a frame of %d bytes does not fit", n))
	}
	b := make([]byte, n)
	if fr.Err = readRange(im.f, im.name, b, off); fr.Err != nil {
		return fr
	}
	fr.Size, fr.Codec = int64(n), "none"
	if h[17] == codecZstd {
		fr.Codec = "zstd"
	}
	fr.Raw, fr.Count, fr.Err = im.fr.decodeImage(nil, b, im.name, int64(off), typ, limit)
	if fr.Err == nil && typ.isList() {
		if fr.List, fr.Err = decodeFrames(fr.Raw, typ.listed(), im.start, off); fr.Err != nil {
			fr.Err = im.damagedTable(&index.Stored{Off: off, Len: uint32(n)}, fr.Err)
		}
	}
	return fr
}

// tables are the offsets, in ascending order, at which frames of tables are known to begin,
// from the footer and from the lists that can be read.
func (im *Image) tables() []uint64 {
	var out []uint64
	for _, r := range im.dir {
		out = append(out, r.off)
	}
	for _, typ := range []imageFrameType{imageRows, imageParts} {
		for all := *im.table(typ); len(all) > 0; {
			var below []index.Stored
			for i := range all {
				out = append(out, all[i].Off)
				if all[i].List {
					list, _ := im.below(typ, all[i:i+1]) // of a damaged one nothing is known
					below = append(below, list...)
				}
			}
			// In a forged file several lists may lead to one frame.
			slices.SortFunc(below, func(a, b index.Stored) int { return cmp.Compare(a.Off, b.Off) })
			all = slices.CompactFunc(below, func(a, b index.Stored) bool { return a.Off == b.Off })
		}
	}
	slices.Sort(out)
	return out
}
