package snapshot

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
)

// bytesFile is a file in memory. It counts reads and syncs.
type bytesFile struct {
	b     []byte
	reads int
	syncs int
	err   error // returned by writes and syncs
}

func (f *bytesFile) ReadAt(p []byte, off int64) (int, error) {
	f.reads++
	if off >= int64(len(f.b)) {
		return 0, io.EOF
	}
	n := copy(p, f.b[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

func (f *bytesFile) WriteAt(p []byte, off int64) (int, error) {
	if f.err != nil {
		return 0, f.err
	}
	if need := off + int64(len(p)); need > int64(len(f.b)) {
		f.b = append(f.b, make([]byte, need-int64(len(f.b)))...)
	}
	return copy(f.b[off:], p), nil
}

func (f *bytesFile) Sync() error              { f.syncs++; return f.err }
func (f *bytesFile) SyncData() error          { return f.Sync() }
func (f *bytesFile) Attached() (int64, error) { return f.Size() }
func (f *bytesFile) Size() (int64, error)     { return int64(len(f.b)), nil }
func (f *bytesFile) Close() error             { return nil }
func (f *bytesFile) Truncate(n int64) error {
	f.b = f.b[:n]
	return nil
}

// content is everything an image says.
type content struct {
	Partitions        []ImagePartition
	Families          []ImageFamily
	RemovedFamilies   []uint64
	Tombstones        []Tombstone
	RemovedTombstones []string
}

func readTable(im *Image) (content, error) {
	var c content
	err := im.Table(Visitor{
		Partition:        func(t ImagePartition) error { c.Partitions = append(c.Partitions, t); return nil },
		Family:           func(f ImageFamily) error { c.Families = append(c.Families, f); return nil },
		RemovedFamily:    func(id uint64) error { c.RemovedFamilies = append(c.RemovedFamilies, id); return nil },
		Tombstone:        func(m Tombstone) error { c.Tombstones = append(c.Tombstones, m); return nil },
		RemovedTombstone: func(id string) error { c.RemovedTombstones = append(c.RemovedTombstones, id); return nil },
	})
	return c, err
}

func writeTable(w *ImageWriter, c content) error {
	var errs []error
	for _, t := range c.Partitions {
		errs = append(errs, w.AddPartition(t))
	}
	for _, f := range c.Families {
		errs = append(errs, w.AddFamily(f))
	}
	for _, id := range c.RemovedFamilies {
		errs = append(errs, w.removeFamily(id))
	}
	for _, m := range c.Tombstones {
		errs = append(errs, w.AddTombstone(m))
	}
	for _, id := range c.RemovedTombstones {
		errs = append(errs, w.RemoveTombstone(id))
	}
	return errors.Join(errs...)
}

func deltaHeader(num base.FileNum) ImageHeader {
	return ImageHeader{Num: num, StoreID: 77, LSN: 1000, PrevNum: 3, Salt: 0x1122334455667788}
}

// uuid is a random id in the spelling of LangGraph's checkpoint ids.
func uuid(r *rand.Rand) string {
	a, b := r.Uint64(), r.Uint64()
	return fmt.Sprintf("1f0%05x-%04x-6%03x-8%03x-%012x", a&0xfffff, a>>20&0xffff, a>>36&0xfff, b&0xfff, b>>16&0xffffffffffff)
}

// typicalContent is what a store of n partitions of its own family would write.
func typicalContent(n int, seed uint64) content {
	r := rand.New(rand.NewPCG(seed, 1))
	ids := make([]string, n)
	for i := range ids {
		a, b := r.Uint64(), r.Uint64()
		ids[i] = fmt.Sprintf("%08x-%04x-4%03x-9%03x-%012x", a&0xffffffff, a>>32&0xffff, a>>48&0xfff, b&0xfff, b>>16&0xffffffffffff)
	}
	sort.Strings(ids)
	ids = slices.Compact(ids)
	var c content
	off := uint64(headerSize)
	for i, id := range ids {
		birth := base.LSN(1 + r.Uint64N(uint64(10*n)))
		c.Partitions = append(c.Partitions, ImagePartition{
			ID: id, Family: r.Uint64N(1 << 20), Birth: birth, LSN: birth + base.LSN(r.Uint64N(1000)),
			Head: uuid(r), Updated: 1_700_000_000_000_000 + r.Int64N(1e12), Flags: uint8(r.Uint64N(2)),
		})
		size := uint32(200 + r.Uint64N(800))
		c.Families = append(c.Families, ImageFamily{ID: uint64(i + 1), Parts: []Part{
			{File: 9, Off: off, Len: size, MinLSN: birth, MaxLSN: birth + base.LSN(r.Uint64N(1000))},
		}})
		off += uint64(size)
	}
	return c
}

func buildImage(t testing.TB, h ImageHeader, c content, pages ...[]byte) (*bytesFile, []Part) {
	t.Helper()
	f := &bytesFile{}
	w, err := NewImageWriter(f, h)
	if err != nil {
		t.Fatal(err)
	}
	var parts []Part
	for _, p := range pages {
		off, n, err := w.AddPage(p)
		if err != nil {
			t.Fatal(err)
		}
		parts = append(parts, Part{File: h.Num, Off: off, Len: n})
	}
	if err := writeTable(w, c); err != nil {
		t.Fatal(err)
	}
	size, err := w.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if size != int64(len(f.b)) || f.syncs < 1 || f.syncs > 1+len(f.b)/(256<<10) {
		t.Fatalf("Finish says %d bytes, the file has %d; %d syncs", size, len(f.b), f.syncs)
	}
	return f, parts
}

func openImage(t testing.TB, f *bytesFile, num base.FileNum) *Image {
	t.Helper()
	im, err := OpenImage(f, base.ImageFile.Name(num), int64(len(f.b)))
	if err != nil {
		t.Fatal(err)
	}
	return im
}

// smallContent has every kind of entry and every sign of every difference.
func smallContent() content {
	return content{
		Partitions: []ImagePartition{
			{ID: "", Family: 5, Birth: 9, LSN: 9, Updated: -4},
			{ID: "alpha", Family: 1, Birth: 3, LSN: 12, Head: "1f0a", Updated: 1_700_000_000_000_000, Flags: 255},
			{ID: "alpha-1", Family: 1 << 63, Birth: base.MaxLSN, LSN: 1, Head: "1f0b", Updated: 5},
			{ID: "alpha-2", Deleted: true},
			{ID: "beta", Family: 0, Birth: 0, LSN: base.MaxLSN, Head: strings.Repeat("h", base.MaxKey), Updated: -1 << 63},
		},
		Families: []ImageFamily{
			{ID: 0},
			{ID: 1, Parts: []Part{{File: 9, Off: 64, Len: 10, MinLSN: 1, MaxLSN: 5}, {File: 4, Off: 1 << 40, Len: 1<<32 - 1, MinLSN: 7, MaxLSN: 6}}},
			{ID: 1<<64 - 1, Parts: []Part{{File: 9, Off: 74, Len: 0, MinLSN: base.MaxLSN, MaxLSN: 0}}},
		},
		RemovedFamilies: []uint64{0, 7, 1<<64 - 1},
		Tombstones: []Tombstone{
			{ID: "gone", LSN: 44, At: 99, Data: []byte("why")},
			{ID: "gone too", LSN: 3, At: -99, Data: []byte{}},
		},
		RemovedTombstones: []string{"", "x", "xy"},
	}
}

func TestImageRoundTrip(t *testing.T) {
	pages := [][]byte{{}, []byte("short"), bytes.Repeat([]byte("directory page "), 5000), randomBytes(300 << 10)}
	for _, tc := range []struct {
		name string
		c    content
	}{
		{"empty", content{}},
		{"every kind", smallContent()},
		{"many frames", typicalContent(5000, 1)},
		{"long shared ids", longIDs()},
		{"large entries", largeEntries()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := deltaHeader(9)
			f, parts := buildImage(t, h, tc.c, pages...)
			f.reads = 0
			im := openImage(t, f, 9)
			if f.reads > 3 {
				t.Errorf("OpenImage took %d reads, want header, tail and footer", f.reads)
			}
			if im.Header() != h {
				t.Errorf("header %+v, want %+v", im.Header(), h)
			}
			got, err := readTable(im)
			if err != nil {
				t.Fatal(err)
			}
			if !equalContent(tc.c, got) {
				t.Errorf("table (-wrote +read):\n%.2000s", cmp.Diff(tc.c, got))
			}
			if rows, err := im.Rows(); err != nil || rows.Len() != len(got.Partitions) || rows.Check() != nil {
				t.Errorf("rows: %v", err)
			}
			n := im.counts
			if n.Partitions != uint64(len(tc.c.Partitions)) || n.Tombstones != uint64(len(tc.c.Tombstones)) || n.Pages != uint64(len(pages)) {
				t.Errorf("counts %+v", n)
			}
			for i, p := range parts {
				b, err := im.ReadPage(p.Off, p.Len)
				if err != nil || !bytes.Equal(b, pages[i]) {
					t.Errorf("page %d: %d bytes, error %v", i, len(b), err)
				}
			}
			if parts[2].Len > uint32(len(pages[2])/10) || int(parts[3].Len) != len(pages[3])+imageFrameHeader {
				t.Errorf("stored %d and %d bytes: repetition must be compressed, noise must not", parts[2].Len, parts[3].Len)
			}
			for _, r := range allRefs(t, im) {
				if r.count > 1 && r.len > tableTarget+imageFrameHeader {
					t.Errorf("table frame of %d bytes with %d entries", r.len, r.count)
				}
			}
		})
	}
}

func equalContent(a, b content) bool {
	return slices.Equal(a.Partitions, b.Partitions) &&
		slices.EqualFunc(a.Families, b.Families, func(a, b ImageFamily) bool { return a.ID == b.ID && slices.Equal(a.Parts, b.Parts) }) &&
		slices.Equal(a.RemovedFamilies, b.RemovedFamilies) &&
		slices.EqualFunc(a.Tombstones, b.Tombstones, func(a, b Tombstone) bool {
			return a.ID == b.ID && a.LSN == b.LSN && a.At == b.At && bytes.Equal(a.Data, b.Data)
		}) &&
		slices.Equal(a.RemovedTombstones, b.RemovedTombstones)
}

func randomBytes(n int) []byte {
	r := rand.New(rand.NewPCG(4, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// longIDs has ids that cost few bytes on disk and many in memory.
func longIDs() content {
	var c content
	stem := strings.Repeat("p", base.MaxKey-8)
	for i := range 1000 {
		c.Partitions = append(c.Partitions, ImagePartition{ID: fmt.Sprintf("%s%08d", stem, i), Head: stem})
		c.RemovedTombstones = append(c.RemovedTombstones, fmt.Sprintf("%s%08d", stem, i))
	}
	return c
}

// largeEntries has entries that do not fit the usual frame.
func largeEntries() content {
	c := content{Tombstones: []Tombstone{{ID: "a", Data: randomBytes(200 << 10)}, {ID: "b", Data: []byte("x")}}}
	fam := ImageFamily{ID: 6}
	for i := range 20_000 {
		fam.Parts = append(fam.Parts, Part{File: base.FileNum(i%7 + 1), Off: uint64(i) << 20, Len: 100, MinLSN: base.LSN(i), MaxLSN: base.LSN(i + 9)})
	}
	c.Families = []ImageFamily{{ID: 2}, fam, {ID: 7}}
	return c
}

func TestImageWriterRefuses(t *testing.T) {
	long := strings.Repeat("x", base.MaxKey+1)
	for _, tc := range []struct {
		name string
		do   func(w *ImageWriter) error
		want error
	}{
		{"thread twice", func(w *ImageWriter) error {
			return errors.Join(w.AddPartition(ImagePartition{ID: "a"}), w.AddPartition(ImagePartition{ID: "a"}))
		}, ErrInvalid},
		{"thread out of order", func(w *ImageWriter) error {
			return errors.Join(w.AddPartition(ImagePartition{ID: "b"}), w.AddPartition(ImagePartition{ID: "a"}))
		}, ErrInvalid},
		{"family out of order", func(w *ImageWriter) error {
			return errors.Join(w.AddFamily(ImageFamily{ID: 2}), w.AddFamily(ImageFamily{ID: 1}))
		}, ErrInvalid},
		{"memo twice", func(w *ImageWriter) error {
			return errors.Join(w.AddTombstone(Tombstone{ID: "m"}), w.AddTombstone(Tombstone{ID: "m"}))
		}, ErrInvalid},
		{"long id", func(w *ImageWriter) error { return w.AddPartition(ImagePartition{ID: long}) }, fault.ErrTooLarge},
		{"long head", func(w *ImageWriter) error { return w.AddPartition(ImagePartition{ID: "a", Head: long}) }, fault.ErrTooLarge},
		{"large page", func(w *ImageWriter) error { _, _, err := w.AddPage(make([]byte, MaxPage+1)); return err }, fault.ErrTooLarge},
		{"large memo", func(w *ImageWriter) error { return w.AddTombstone(Tombstone{ID: "m", Data: make([]byte, MaxPage)}) }, fault.ErrTooLarge},
		{"removal from nothing", func(w *ImageWriter) error { return w.removeFamily(1) }, ErrInvalid},
		{"removed memo from nothing", func(w *ImageWriter) error { return w.RemoveTombstone("m") }, ErrInvalid},
	} {
		t.Run(tc.name, func(t *testing.T) {
			w, err := NewImageWriter(&bytesFile{}, ImageHeader{Num: 3, StoreID: 1, Full: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := tc.do(w); !errors.Is(err, tc.want) {
				t.Fatalf("error %v, want %v", err, tc.want)
			}
			if _, err := w.Finish(); !errors.Is(err, tc.want) {
				t.Errorf("Finish after the error: %v, want the same cause", err)
			}
		})
	}
	for _, h := range []ImageHeader{
		{StoreID: 1, Full: true},
		{Num: 3, Full: true},
		{Num: 3, StoreID: 1},
		{Num: 3, StoreID: 1, PrevNum: 2, Full: true},
		{Num: 3, StoreID: 1, PrevNum: 3},
	} {
		if _, err := NewImageWriter(&bytesFile{}, h); !errors.Is(err, ErrInvalid) {
			t.Errorf("header %+v: error %v, want ErrInvalid", h, err)
		}
	}
}

func TestImageWriterReportsIO(t *testing.T) {
	boom := errors.New("boom")
	f := &bytesFile{err: boom}
	w, err := NewImageWriter(f, deltaHeader(9))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Finish(); !errors.Is(err, boom) {
		t.Fatalf("Finish: %v, want the error of the file", err)
	}
	if err := w.AddPartition(ImagePartition{ID: "a"}); !errors.Is(err, boom) {
		t.Fatalf("AddPartition after a failed write: %v, want the first cause", err)
	}
}

func TestImageCheck(t *testing.T) {
	f, _ := buildImage(t, deltaHeader(9), smallContent())
	im := openImage(t, f, 9)
	info := ImageInfo{Num: 9, LSN: 1000, Size: int64(len(f.b))}
	if err := im.Check(info, 77, 3); err != nil {
		t.Fatal(err)
	}
	other := info
	other.LSN++
	for _, err := range []error{im.Check(other, 77, 3), im.Check(info, 78, 3), im.Check(info, 77, 4)} {
		if !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("error %v, want corruption", err)
		}
	}
	if _, err := OpenImage(f, base.ImageFile.Name(10), int64(len(f.b))); !errors.Is(err, fault.ErrCorrupt) {
		t.Errorf("image under another number: %v, want corruption", err)
	}
}

// A page is only valid where it was written, in the file it was written to, and
// as a page.
func TestReadPageBindsToPlace(t *testing.T) {
	page := []byte("a page that stands twice in the file")
	f, parts := buildImage(t, deltaHeader(9), smallContent(), page, page)
	im := openImage(t, f, 9)
	a, b := parts[0], parts[1]
	copy(f.b[b.Off:b.Off+uint64(b.Len)], f.b[a.Off:a.Off+uint64(a.Len)])
	if _, err := im.ReadPage(a.Off, a.Len); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		name string
		off  uint64
		n    uint32
		salt uint64
	}{
		{"copied within the file", b.Off, b.Len, im.h.Salt},
		{"salt of another file", a.Off, a.Len, im.h.Salt + 1},
		{"a table frame", im.rows[0][0].Off, im.rows[0][0].Len, im.h.Salt},
		{"shorter", a.Off, a.Len - 1, im.h.Salt},
		{"beyond the end", uint64(len(f.b)), a.Len, im.h.Salt},
		{"absurd offset", 1<<64 - 8, a.Len, im.h.Salt},
		{"absurd length", a.Off, 1<<32 - 1, im.h.Salt},
		{"the header", 0, 64, im.h.Salt},
	} {
		if _, err := readPage(f, tc.off, tc.n, tc.salt); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("%s: error %v, want corruption", tc.name, err)
		}
	}
}

func BenchmarkImageTable(b *testing.B) {
	for _, n := range []int{2_000, 100_000} {
		b.Run(fmt.Sprintf("threads=%d", n), func(b *testing.B) {
			f, _ := buildImage(b, ImageHeader{Num: 9, StoreID: 1, Full: true}, typicalContent(n, 3))
			b.ReportAllocs()
			for b.Loop() {
				im := openImage(b, f, 9)
				threads, families := 0, 0
				err := im.Table(Visitor{
					Partition: func(ImagePartition) error { threads++; return nil },
					Family:    func(ImageFamily) error { families++; return nil },
				})
				if err != nil || threads != n || families != n {
					b.Fatal(threads, families, err)
				}
			}
			b.ReportMetric(float64(len(f.b))/float64(n), "file-B/thread")
		})
	}
}

func BenchmarkImageWrite(b *testing.B) {
	const n = 100_000
	c := typicalContent(n, 3)
	b.ReportAllocs()
	for b.Loop() {
		buildImage(b, ImageHeader{Num: 9, StoreID: 1, Full: true}, c)
	}
}

// removeFamily removes a family that is in an earlier image of the stack. In a full image it
// fails with ErrInvalid.
func (w *ImageWriter) removeFamily(id uint64) error {
	if err := w.orderIDs(imageRemovedFamilies, id); err != nil {
		return err
	}
	return w.add(imageRemovedFamilies, 0, func(b *table) { b.removedFamily(id) })
}

func (t *table) removedFamily(id uint64) {
	t.buf = binary.AppendUvarint(t.buf, id-t.family)
	t.family = id
	t.count++
}
