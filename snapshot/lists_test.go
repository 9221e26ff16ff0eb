package snapshot

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/race"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/index"
)

// buildListed is buildImage with few partitions and families to a frame, so that a small
// image has as many frames as a large one, and with lists of them.
func buildListed(t testing.TB, h ImageHeader, c content, each int, limits listLimits, pages ...[]byte) (*bytesFile, []Part) {
	t.Helper()
	return buildListedFor(t, h, c, each, limits, nil, pages...)
}

// buildListedFor is buildListed, encrypted if there are keys.
func buildListedFor(t testing.TB, h ImageHeader, c content, each int, limits listLimits, keys *seal.Keyring, pages ...[]byte) (*bytesFile, []Part) {
	t.Helper()
	f := &bytesFile{}
	w, err := NewImageWriter(f, h, WithKeyring(keys))
	if err != nil {
		t.Fatal(err)
	}
	w.lists = limits
	var parts []Part
	for _, p := range pages {
		off, n, err := w.AddPage(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, Part{File: h.Num, Off: off, Len: n})
	}
	threads, families := chunksOf(c, each)
	c.Partitions, c.Families = nil, nil
	if err := writeTable(w, c); err != nil {
		t.Fatal(err)
	}
	if err := w.writeChunks(imageRows, threads); err != nil {
		t.Fatal(err)
	}
	if err := w.writeChunks(imageParts, families); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	return f, parts
}

// chunksOf are partitions and families in chunks of so many rows.
func chunksOf(c content, each int) (threads, families []index.Chunk) {
	for rows := range slices.Chunk(c.Partitions, each) {
		var b index.TableBuilder
		for i := range rows {
			b.AddPartition(rowOf(&rows[i]))
		}
		chunks, _ := b.Done().Chunks()
		threads = append(threads, chunks...)
	}
	for rows := range slices.Chunk(c.Families, each) {
		var b index.TableBuilder
		for _, f := range rows {
			b.AddFamily(f.ID, f.Parts)
		}
		_, chunks := b.Done().Chunks()
		families = append(families, chunks...)
	}
	return threads, families
}

// allRefs are all table frames of an image, without lists.
func allRefs(t testing.TB, im *Image) []tableRef {
	t.Helper()
	var out []tableRef
	for _, typ := range visited {
		refs, err := im.refs(typ)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, refs...)
	}
	return out
}

// levels is how many lists lead to each of n frames.
func (l listLimits) levels(n int) int {
	levels := 0
	for ; n > l.footer; n = (n + l.list - 1) / l.list {
		levels++
	}
	return levels
}

// TestLists: an image with lists says what it was told, read at once and read later,
// whatever the number of its frames. Opening reads no list, and a look one for each level
// and one frame. In memory is what the footer says, which does not grow.
func TestLists(t *testing.T) {
	keys := testKeys(t, 1).Keyring(77, 0)
	all := typicalContent(1100, 5)
	r := rand.New(rand.NewPCG(11, 12))
	for _, n := range []int{1, 2, 7, 8, 9, 10, 63, 64, 65, 128, 129, 8 * 64, 8*64 + 1, 1000 + r.IntN(100)} {
		c := content{Partitions: all.Partitions[:n], Families: all.Families[:n], Tombstones: smallContent().Tombstones}
		for _, l := range []listLimits{imageLists, {1, 2}, {1 + r.IntN(9), 2 + r.IntN(9)}} {
			for _, keys := range []*seal.Keyring{nil, keys} {
				f, _ := buildListedFor(t, deltaHeader(9), c, 1, l, keys)
				if err := checkLists(f, c, l, keys, r); err != nil {
					t.Fatalf("%d frames, %+v, encrypted %t: %v", n, l, keys != nil, err)
				}
			}
		}
	}
}

func checkLists(f *bytesFile, c content, l listLimits, keys *seal.Keyring, r *rand.Rand) error {
	im, err := OpenImage(f, base.ImageFile.Name(9), int64(len(f.b)), WithKeyring(keys))
	if err != nil {
		return err
	}
	n := len(c.Partitions)
	if have := len(im.rows[0]); have > l.footer || im.rows[0][0].List != (n > l.footer) {
		return fmt.Errorf("the footer has %d entries of threads", have)
	}
	whole, err := readTable(im)
	if err != nil || !equalContent(whole, c) {
		return fmt.Errorf("the tables are others: %w", err)
	}
	f.reads = 0
	once, err := im.Rows()
	if err != nil {
		return err
	}
	if most := 2 + 2*l.levels(n); f.reads != most {
		return fmt.Errorf("%d reads of all rows, want %d", f.reads, most)
	}
	f.reads = 0
	later, err := im.RowsAt(with(im))
	if err != nil {
		return err
	}
	if f.reads != 0 || later.Resident() > int64(2*l.footer*128) || later.Size() < once.Size() {
		return fmt.Errorf("%d reads and %d of %d bytes in memory before a look", f.reads, later.Resident(), later.Size())
	}
	ix := index.New(0)
	if err := ix.Restore([]*index.Table{later}, n, nil, 9); err != nil {
		return err
	}
	want := c.Partitions[r.IntN(n)]
	if th, err := ix.Partition(want.ID); err != nil || th == nil || partitionOf(index.RowOf(th)) != want || f.reads != 1+l.levels(n) {
		return fmt.Errorf("thread %q is %+v, %w, after %d reads", want.ID, th, err, f.reads)
	}
	if th, err := ix.Partition(want.ID + "x"); err != nil || th != nil || f.reads != 1+l.levels(n) {
		return fmt.Errorf("its neighbour is %+v, %w, after %d reads", th, err, f.reads)
	}
	for _, table := range []*index.Table{once, later} {
		rows := content{Tombstones: c.Tombstones}
		if err := errors.Join(addRows(&rows, table), table.Check()); err != nil || !equalContent(rows, c) {
			return fmt.Errorf("the rows are others: %w", err)
		}
	}
	return inspectAll(im, len(f.b))
}

// inspectAll tests that Inspect meets every byte, and that each frame is known as what it
// is.
func inspectAll(im *Image, size int) error {
	end := int64(im.start)
	rows := map[string]uint64{}
	err := im.Inspect(func(fr ImageFrame) error {
		if fr.Offset != end {
			return fmt.Errorf("a frame at %d, expected at %d", fr.Offset, end)
		}
		end += fr.Size
		rows[fr.Type] += uint64(fr.Count)
		return fr.Err
	})
	if n := im.counts; err == nil && (rows["threads"] != n.Partitions || rows["families"] != n.Families || end != int64(size-imageTailSize)) {
		err = fmt.Errorf("frames %v up to %d of %d", rows, end, size)
	}
	return err
}

// listedImage is a small image with two levels of lists of partitions, and one of families.
func listedImage(t testing.TB, keys *seal.Keyring) (*bytesFile, content) {
	c := typicalContent(7, 2)
	c.Families = c.Families[:3]
	f, _ := buildListedFor(t, deltaHeader(9), c, 1, listLimits{footer: 2, list: 3}, keys)
	return f, c
}

// TestListedRot: every byte of an image with lists, and every cut. Whatever the damage,
// each look and each scan answers right or with a typed error, and so does Open.
func TestListedRot(t *testing.T) {
	keys := testKeys(t, 1).Keyring(77, 0)
	for name, keys := range map[string]*seal.Keyring{"plain": nil, "encrypted": keys} {
		t.Run(name, func(t *testing.T) {
			f, c := listedImage(t, keys)
			good := bytes.Clone(f.b)
			harmed := 0
			for i := 0; i < len(good); i += race.Every {
				for _, mask := range []byte{1, 0x80, 0xff} {
					f.b[i] ^= mask
					if judgeListed(t, f, c, keys) {
						harmed++
					} else {
						t.Errorf("nobody notices byte %d of %d", i, len(good))
					}
					f.b[i] ^= mask
				}
			}
			for n := 0; n < len(good); n += race.Every {
				f.b = good[:n]
				if !judgeListed(t, f, c, keys) {
					t.Errorf("nobody notices that the file ends after %d bytes", n)
				}
			}
			f.b = good
			if judgeListed(t, f, c, keys) {
				t.Error("damage in what is whole")
			}
			t.Logf("%d of %d edits were noticed, and %d cuts", harmed, 3*len(good), len(good))
		})
	}
}

// judgeListed looks at all of an image, in each way there is, and reports whether anything
// was damaged. A wrong answer fails the test.
func judgeListed(t *testing.T, f *bytesFile, c content, keys *seal.Keyring) (damaged bool) {
	t.Helper()
	typed := func(err error) bool {
		if err != nil && !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, fault.ErrVersion) && !errors.Is(err, fault.ErrKey) {
			t.Fatalf("untyped error %v", err)
		}
		damaged = damaged || err != nil
		return err == nil
	}
	im, err := OpenImage(f, base.ImageFile.Name(9), int64(len(f.b)), WithKeyring(keys))
	if !typed(err) {
		return damaged
	}
	if whole, err := readTable(im); typed(err) && !equalContent(whole, c) {
		t.Fatal("Table answers wrong")
	}
	later, err := im.RowsAt(with(im))
	if !typed(err) {
		return damaged
	}
	ix := index.New(0)
	typed(ix.Restore([]*index.Table{later}, len(c.Partitions), nil, 9))
	for _, want := range c.Partitions {
		if th, err := ix.Partition(want.ID); typed(err) && (th == nil || partitionOf(index.RowOf(th)) != want) {
			t.Fatalf("thread %q is %+v", want.ID, th)
		}
		if th, err := ix.Partition(want.ID + "x"); typed(err) && th != nil {
			t.Fatalf("thread %q is %+v", want.ID+"x", th)
		}
	}
	for _, want := range c.Families {
		if parts, err := ix.Parts(want.ID); typed(err) && !slices.Equal(parts, want.Parts) {
			t.Fatalf("family %d has %v", want.ID, parts)
		}
	}
	for _, read := range []func() (*index.Table, error){im.Rows, func() (*index.Table, error) { return later, nil }} {
		var rows content
		if table, err := read(); typed(err) && typed(addRows(&rows, table)) && !equalContent(rows, c) {
			t.Fatal("a scan answers wrong")
		}
	}
	typed(im.Inspect(func(fr ImageFrame) error { return fr.Err }))
	return damaged
}

// TestListForgery: a list with a checksum that fits, in which something is not as it was
// announced, is damage for who looks, and for who reads all.
func TestListForgery(t *testing.T) {
	f, c := listedImage(t, nil)
	im := openImage(t, f, 9)
	top := im.rows[0]
	if len(top) != 1 || !top[0].List {
		t.Fatalf("the test needs lists: %+v", top)
	}
	upper, err := im.below(imageRows, top)
	if err != nil || len(upper) != 3 || !upper[0].List {
		t.Fatal(upper, err)
	}
	at := upper[1] // a list of three frames, between two others
	list, err := im.below(imageRows, upper[1:2])
	if err != nil || len(list) != 3 {
		t.Fatal(list, err)
	}
	good := bytes.Clone(f.b)
	for name, edit := range map[string]func(l []index.Stored) []index.Stored{
		"a first key":       func(l []index.Stored) []index.Stored { l[0].First = "!" + l[0].First[1:]; return l },
		"keys out of order": func(l []index.Stored) []index.Stored { l[1].First = l[0].First; return l },
		"a key beyond":      func(l []index.Stored) []index.Stored { l[2].First = "~" + l[2].First[1:]; return l },
		"another key":       func(l []index.Stored) []index.Stored { l[1].First = l[1].First[:len(l[1].First)-1] + "\x00"; return l },
		"rows":              func(l []index.Stored) []index.Stored { l[1].N++; return l },
		"rows moved":        func(l []index.Stored) []index.Stored { l[0].N++; l[1].N--; return l },
		"bytes":             func(l []index.Stored) []index.Stored { l[1].Len--; return l },
		"bytes moved":       func(l []index.Stored) []index.Stored { l[0].Len--; l[1].Len++; return l },
		"an overlap":        func(l []index.Stored) []index.Stored { l[1].Off--; return l },
		"a place behind":    func(l []index.Stored) []index.Stored { l[2].Off = at.Off; return l },
	} {
		forged := appendFrames(nil, imageRows, edit(slices.Clone(list)))
		if len(forged)+imageFrameHeader != int(at.Len) {
			t.Fatalf("%s: a list of %d bytes in the place of %d", name, len(forged)+imageFrameHeader, at.Len)
		}
		copy(f.b[at.Off:], im.fr.appendImage(nil, int64(at.Off), imageRowLists, uint32(at.N), forged, nil))
		if bytes.Equal(f.b, good) {
			t.Fatalf("%s: nothing changed", name)
		}
		if !judgeListed(t, f, c, nil) {
			t.Errorf("%s: nobody notices", name)
		}
		later, err := im.RowsAt(with(im))
		if err != nil {
			t.Fatal(err)
		}
		ix := index.New(0)
		if err := ix.Restore([]*index.Table{later}, len(c.Partitions), nil, 9); err != nil {
			t.Fatal(err)
		}
		var damage *fault.CorruptionError
		if _, err := ix.Partition(list[1].First); !errors.As(err, &damage) || damage.File != base.ImageFile.Name(9) {
			t.Errorf("%s: a look says %v", name, err)
		}
		if _, err := im.Rows(); !errors.As(err, &damage) {
			t.Errorf("%s: reading all says %v", name, err)
		}
		copy(f.b, good)
	}
}

// TestDeepLists: a frame that lists lead to in index.MaxDepth steps is found, one that lies
// deeper is damage.
func TestDeepLists(t *testing.T) {
	c := typicalContent(1, 1)
	c.Families = nil
	threads, _ := chunksOf(c, 1)
	for levels, deep := range map[int]bool{index.MaxDepth - 1: false, index.MaxDepth: true, 3 * index.MaxDepth: true} {
		f := &bytesFile{}
		w, err := NewImageWriter(f, deltaHeader(9))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.writeChunks(imageRows, threads); err != nil {
			t.Fatal(err)
		}
		top := w.dir[0].stored()
		for range levels {
			list := []index.Stored{top}
			top.List = true
			if top.Off, top.Len, err = w.frame(imageRowLists, 1, appendFrames(nil, imageRows, list), nil); err != nil {
				t.Fatal(err)
			}
		}
		w.dir[0] = refOf(imageRows, &top)
		if _, err := w.Finish(); err != nil {
			t.Fatal(err)
		}
		im := openImage(t, f, 9)
		if _, err := im.Rows(); errors.Is(err, fault.ErrCorrupt) != deep || !deep && err != nil {
			t.Errorf("%d lists: %v", levels, err)
		}
		later, err := im.RowsAt(with(im))
		if err != nil {
			t.Fatal(err)
		}
		if err := later.Check(); errors.Is(err, fault.ErrCorrupt) != deep || !deep && err != nil {
			t.Errorf("%d lists, read later: %v", levels, err)
		}
		if err := inspectAll(im, len(f.b)); err != nil {
			t.Errorf("%d lists, inspected: %v", levels, err)
		}
	}
}

// TestDamagedListInspected: behind a damaged frame Inspect goes on with the next, whether
// the footer names that or a list does; without the list, with what comes behind.
func TestDamagedListInspected(t *testing.T) {
	f, _ := listedImage(t, nil)
	im := openImage(t, f, 9)
	all, err := im.frames(imageRows)
	if err != nil {
		t.Fatal(err)
	}
	bad := func() (out []ImageFrame) {
		if err := im.Inspect(func(fr ImageFrame) error {
			if fr.Err != nil {
				out = append(out, fr)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		return out
	}
	clear(f.b[all[2].Off:][:imageFrameHeader])
	clear(f.b[all[4].Off:][:imageFrameHeader])
	got := bad()
	if len(got) != 2 || got[0].Offset != int64(all[2].Off) || got[0].Size != int64(all[2].Len) || got[1].Offset != int64(all[4].Off) {
		t.Errorf("two damaged frames are %+v", got)
	}
	list := im.rows[0][0]
	clear(f.b[list.Off:][:imageFrameHeader])
	if got = bad(); len(got) != 2 || got[0].Offset != int64(all[2].Off) || got[0].Size != int64(list.Off-all[2].Off) || got[1].Offset != int64(list.Off) || got[1].Size != int64(list.Len) {
		t.Errorf("without the list they are %+v", got)
	}
}

// TestListsShareNoFrame: lists that lead to one frame, under other keys each, are damage
// before the frame is read as often as there are lists.
func TestListsShareNoFrame(t *testing.T) {
	f := &bytesFile{}
	w, err := NewImageWriter(f, deltaHeader(9))
	if err != nil {
		t.Fatal(err)
	}
	const size, lists = 1 << 20, 500
	off, n, err := w.frame(imageRows, 1, make([]byte, size), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range lists {
		leaf := index.Stored{First: fmt.Sprintf("%06d", i), Off: off, Len: n, N: 1, Size: int64(n) - imageFrameHeader}
		list := leaf
		list.List = true
		if list.Off, list.Len, err = w.frame(imageRowLists, 1, appendFrames(nil, imageRows, []index.Stored{leaf}), nil); err != nil {
			t.Fatal(err)
		}
		w.dir = append(w.dir, refOf(imageRows, &list))
		w.counts.Partitions++
	}
	if _, err := w.Finish(); err != nil {
		t.Fatal(err)
	}
	im := openImage(t, f, 9)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err = im.Rows()
	runtime.ReadMemStats(&after)
	if !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("%d lists of one frame: %v", lists, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 4*size {
		t.Errorf("%d bytes for a file of %d", took, len(f.b))
	}
}
