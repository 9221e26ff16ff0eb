package snapshot

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/golden"
	"github.com/stele-go/stele/index"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// annotator prints bytes with the meaning of each field beside them.
type annotator struct {
	b   []byte
	off int
	out strings.Builder
}

func (a *annotator) title(format string, args ...any) {
	fmt.Fprintf(&a.out, "\n# "+format+"\n", args...)
}

// field prints the next n bytes, sixteen to a line.
func (a *annotator) field(n int, label string) []byte {
	v := a.b[a.off : a.off+n]
	for i := 0; i < n; i += 16 {
		line := v[i:min(i+16, n)]
		fmt.Fprintf(&a.out, "%06x  % -48x %s\n", a.off+i, line, label)
		label = "\""
	}
	a.off += n
	return v
}

// zeros prints a run of zeros in one line.
func (a *annotator) zeros(n int, label string) {
	if len(bytes.TrimRight(a.b[a.off:a.off+n], "\x00")) > 0 {
		panic("not zero")
	}
	if n > 0 {
		fmt.Fprintf(&a.out, "%06x  00 x %-43d %s\n", a.off, n, label)
	}
	a.off += n
}

func (a *annotator) header(words ...string) {
	a.title("file header")
	a.field(8, "magic")
	a.field(4, "format version")
	a.field(4, "flags")
	for _, w := range append([]string{"file number", "store id", "salt"}, words...) {
		a.field(8, w)
	}
	a.field(8, "xxh64 of the 56 bytes before")
}

// frame prints a manifest frame and returns its payload length.
func (a *annotator) frame() {
	a.field(8, "xxh64, seeded with salt and offset")
	n := int(u32(a.field(4, "payload length")))
	a.field(1, "type (1 state, 2 edit, 3 mark, 4 close)")
	a.field(1, "flags")
	a.field(2, "reserved")
	a.field(8, "sequence")
	a.field(8, "promise")
	end := a.off + n
	for a.off < end {
		tag := a.field(1, "tag")[0]
		a.field(3, "reserved")
		size := int(u32(a.field(4, "length of the field")))
		a.value(tag, size)
	}
	if pad := -a.off & 7; pad > 0 {
		a.field(pad, "padding")
	}
}

func (a *annotator) value(tag byte, size int) {
	words := map[byte][]string{
		tagNextFileNum:    {"next file number"},
		tagFloor:          {"floor LSN"},
		tagLogs:           {"log: number", "base LSN"},
		tagRemoveLogs:     {"removed log"},
		tagSegments:       {"segment: number", "size", "raw", "lowest LSN", "highest LSN", "families", "values"},
		tagRemoveSegments: {"removed segment"},
		tagImages:         {"image: number", "LSN", "size", "flags (1 full)"},
		tagClean:          {"clean close: log", "end offset", "last LSN"},
		tagLogSalts:       {"salt of log: number", "salt"},
	}[tag]
	switch tag {
	case tagIdentity:
		a.field(8, "store id")
		a.field(8, "created, unix us")
		a.field(4, "format version")
		a.field(4, "reserved")
	case tagOptions:
		for end := a.off + size; a.off < end; {
			k, v := a.field(4, "option: key length"), a.field(4, "value length")
			a.field(int(u32(k)), "key")
			a.field(int(u32(v)), "value")
		}
	default:
		for end := a.off + size; a.off < end; {
			for _, w := range words {
				a.field(8, w)
			}
		}
	}
}

func u32(b []byte) uint32 {
	return uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24
}

func annotateManifest(b []byte) string {
	a := &annotator{b: b}
	a.header("previous manifest", "file size")
	for n := 0; a.b[a.off+12] != 0; n++ {
		a.title("frame %d", n+1)
		a.frame()
	}
	a.zeros(len(b)-slotsSize-a.off, "room for edits")
	for _, name := range []string{"mark slot", "close slot"} {
		a.title(name)
		end := a.off + slotSize
		a.frame()
		a.zeros(end-a.off, "rest of the slot")
	}
	return a.out.String()
}

// first prints what a footer or a list says of a frame behind its place.
func (a *annotator) first(typ imageFrameType) {
	if typ.isList() {
		a.uvarint("bytes of the frames it leads to")
	}
	a.field(int(a.uvarint("first key of a frame: length")), "key")
}

func (a *annotator) uvarint(label string) uint64 {
	v, n := binary.Uvarint(a.b[a.off:])
	a.field(n, label)
	return v
}

// list prints a list of n bytes.
func (a *annotator) list(n int) {
	for end := a.off + n; a.off < end; {
		typ := a.field(1, "frame: type")[0]
		a.uvarint("offset")
		a.uvarint("length")
		a.uvarint("entries")
		a.first(imageFrameType(typ))
	}
}

func annotateImage(b []byte) string {
	a := &annotator{b: b}
	a.header("LSN", "previous image")
	kinds := []string{"", "page", "threads", "families", "removed families", "memos", "removed memos", "footer", "threads", "families", "thread list", "family list"}
	for a.off < len(b)-imageTailSize {
		a.title("frame: %s", kinds[b[a.off+16]])
		a.field(8, "xxh64, seeded with salt and offset")
		n := int(u32(a.field(4, "stored length")))
		a.field(4, "raw length")
		typ := a.field(1, "type")[0]
		a.field(1, "codec (0 none, 1 zstd)")
		a.field(1, "flags")
		a.field(1, "reserved")
		a.field(4, "entries")
		if imageFrameType(typ).isList() {
			a.list(n)
			continue
		}
		if imageFrameType(typ) != imageFooter {
			a.field(n, "content")
			continue
		}
		for _, w := range []string{"threads", "families", "removed families", "memos", "removed memos", "pages", "bytes of pages", "table frames"} {
			a.field(8, w)
		}
		var types []imageFrameType
		for range u32(a.b[a.off-8:]) {
			a.field(8, "table frame: offset")
			a.field(4, "length")
			a.field(4, "entries")
			types = append(types, imageFrameType(a.field(8, "type")[0]))
		}
		for _, typ := range types {
			if typ.isRows() {
				a.first(typ)
			}
		}
		a.field(8, "threads of the store")
	}
	a.title("tail")
	a.field(8, "offset of the footer frame")
	a.field(4, "its length")
	a.field(4, "reserved")
	a.field(8, "magic")
	a.field(8, "xxh64, seeded with salt and offset")
	return a.out.String()
}

// parseGolden turns an annotated dump back into bytes.
func parseGolden(t *testing.T, text string) []byte {
	t.Helper()
	var b []byte
	for line := range strings.Lines(text) {
		if len(line) < 8+48 || line[0] == '#' {
			continue
		}
		digits := strings.TrimSpace(line[8 : 8+48])
		var n int
		if _, err := fmt.Sscanf(digits, "00 x %d", &n); err == nil {
			b = append(b, make([]byte, n)...)
			continue
		}
		v, err := hex.DecodeString(strings.ReplaceAll(digits, " ", ""))
		if err != nil {
			t.Fatalf("golden line %q: %v", line, err)
		}
		b = append(b, v...)
	}
	return b
}

// checkGolden compares with the stored dump, or stores it, and returns the bytes
// that the stored one stands for.
func checkGolden(t *testing.T, name, intro, text string) []byte {
	t.Helper()
	return parseGolden(t, golden.Text(t, filepath.Join("testdata", name), intro+text, *update))
}

func TestManifestGolden(t *testing.T) {
	m := buildManifest(t, 6, true)
	b := checkGolden(t, "manifest.golden", "# A closed manifest: complete state, six edits, both slots set.\n", annotateManifest(m.b))
	st, rep, err := decodeManifest(m.name, b, readOptions{})
	if err != nil || !rep.Closed || !same(st, m.last()) {
		t.Errorf("the stored manifest reads as %+v, %+v, %v", st, rep, err)
	}
}

// goldenImage is what the goldens of images hold; in format 1 a partition that is gone
// had a family.
func goldenImage() content {
	return content{
		Partitions: []ImagePartition{
			{ID: "thread-1", Family: 1, Birth: 3, LSN: 12, Head: "1f0a", Updated: 1_700_000_000_000_000, Flags: 1},
			{ID: "thread-2", Deleted: true},
		},
		Families:          []ImageFamily{{ID: 1, Parts: []Part{{File: 9, Off: 64, Len: 39, MinLSN: 3, MaxLSN: 12}}}},
		RemovedFamilies:   []uint64{2},
		Tombstones:        []Tombstone{{ID: "thread-2", LSN: 11, At: 1_700_000_000_000_000, Data: []byte("memo")}},
		RemovedTombstones: []string{"thread-0"},
	}
}

func TestImageGolden(t *testing.T) {
	f, _ := buildListed(t, deltaHeader(9), goldenImage(), 1, listLimits{1, 2}, []byte("directory page!"))
	b := checkGolden(t, "image4.golden", "# A delta image: one page, one entry or two of every kind, and a list of two frames of a thread each.\n", annotateImage(f.b))
	checkGoldenImage(t, b, goldenImage())
}

// TestOldImages reads images of the formats before.
func TestOldImages(t *testing.T) {
	for _, name := range []string{"image1.golden", "image2.golden", "image3.golden"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		c := goldenImage()
		if name == "image1.golden" {
			c.Partitions[1].Family, c.Partitions[1].Birth, c.Partitions[1].LSN = 2, 5, 5
		}
		checkGoldenImage(t, parseGolden(t, string(text)), c)
	}
}

func checkGoldenImage(t *testing.T, b []byte, c content) {
	t.Helper()
	stored := openImage(t, &bytesFile{b: b}, 9)
	got, err := readTable(stored)
	if err != nil || !equalContent(got, c) || stored.Header() != deltaHeader(9) {
		t.Errorf("the stored image reads as %+v, %v", got, err)
	}
	page, err := stored.ReadPage(64, 39)
	if err != nil || string(page) != "directory page!" {
		t.Errorf("its page reads as %q, %v", page, err)
	}
	for _, read := range []func() (*index.Table, error){stored.Rows, func() (*index.Table, error) { return stored.RowsAt(with(stored)) }} {
		table, err := read()
		if err != nil {
			t.Fatal(err)
		}
		var rows content
		if err := addRows(&rows, table); err != nil {
			t.Fatal(err)
		}
		want := goldenImage() // whatever the format
		if !equalContent(rows, content{Partitions: want.Partitions, Families: want.Families}) {
			t.Errorf("its rows are %+v", rows)
		}
	}
}

// with gives an image to who reads it later.
func with(im *Image) func(func(*Image) error) error {
	return func(read func(*Image) error) error { return read(im) }
}

// addRows adds the rows of a table to what was read.
func addRows(c *content, table *index.Table) error {
	return errors.Join(
		table.Partitions(func(r index.Row) bool { c.Partitions = append(c.Partitions, partitionOf(r)); return true }),
		table.Families(func(id uint64, parts []index.Part) bool {
			c.Families = append(c.Families, ImageFamily{ID: id, Parts: parts})
			return true
		}))
}
