package segment

import (
	"bytes"
	"encoding/hex"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base/golden"
)

var update = flag.Bool("update", false, "rewrite testdata")

// field is one row of a byte table.
type field struct {
	n    int
	name string
}

var (
	headerFields = []field{{8, "magic"}, {4, "format version"}, {4, "flags"}, {8, "file number"}, {8, "salt"}, {24, "reserved"}, {8, "checksum"}}
	frameFields  = []field{{8, "checksum"}, {4, "stored"}, {4, "raw"}, {8, "family"}, {1, "kind"}, {1, "codec"}, {2, "flags"}, {4, "frame magic"}}
	footerFields = []field{{8, "checksum"}, {8, "file number"}, {8, "salt"}, {8, "file size"}, {8, "family index offset"}, {8, "tombstones offset"}, {8, "meta offset"},
		{4, "family index length"}, {4, "tombstones length"}, {4, "meta length"}, {4, "families"}, {8, "values"}, {8, "raw bytes"}, {8, "min LSN"}, {8, "max LSN"}, {8, "reserved"},
		{4, "format version"}, {4, "flags"}, {8, "magic"}}
)

// annotate writes b as a hexdump, one line per field.
func annotate(t *testing.T, b []byte) []byte {
	t.Helper()
	var w bytes.Buffer
	off := 0
	line := func(n int, name string) {
		for n > 0 {
			m := min(n, 24)
			fmt.Fprintf(&w, "%04x  %-48x  %s\n", off, b[off:off+m], name)
			off, n, name = off+m, n-m, "…"
		}
	}
	title := func(format string, args ...any) { fmt.Fprintf(&w, "# "+format+"\n", args...) }
	title("file header")
	for _, f := range headerFields {
		line(f.n, f.name)
	}
	for _, x := range frames(t, b) {
		h, _ := peekFrameHeader(b[x.off:])
		title("frame: %v (kind %d), codec %d", h.kind, h.kind, h.codec)
		for _, f := range frameFields {
			line(f.n, f.name)
		}
		line(int(h.stored), "payload")
		line(int(x.n)-frameHeaderSize-int(h.stored), "padding")
	}
	title("footer")
	for _, f := range footerFields {
		line(f.n, f.name)
	}
	if off != len(b) {
		t.Fatalf("annotated %d of %d bytes", off, len(b))
	}
	return w.Bytes()
}

// parse takes the bytes out of an annotated dump.
func parse(t *testing.T, dump []byte) []byte {
	t.Helper()
	var out []byte
	for _, l := range strings.Split(string(dump), "\n") {
		if l == "" || l[0] == '#' {
			continue
		}
		b, err := hex.DecodeString(strings.TrimSpace(l[6:54]))
		must(t, err)
		out = append(out, b...)
	}
	return out
}

// raw builds a segment in which nothing is worth compressing: its bytes depend
// on the format alone and not on an encoder.
func raw(t *testing.T) (*memFile, *oracle) {
	t.Helper()
	f, or := &memFile{}, newOracle()
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 0x0123456789abcdef})
	must(t, err)
	must(t, b.BeginFamily(1))
	must(t, b.AddHistory(ValueID{40, 2}, []byte("second"), []byte(" newest")))
	must(t, b.AddHistoryPatch(ValueID{30, 1}, ValueID{40, 2}, []byte("patch")))
	must(t, b.AddHot(ValueID{41, 0}, []byte("newest")))
	must(t, b.AddHot(ValueID{40, 7}, []byte("other")))
	must(t, b.EndFamily([]byte("dir")))
	must(t, b.BeginFamily(300))
	must(t, b.EndFamily([]byte("empty")))
	b.SetTombstones([]byte("tombs"))
	b.SetMeta([]byte("meta"))
	_, err = b.Finish()
	must(t, err)
	or.dirs = map[uint64][]byte{1: []byte("dir"), 300: []byte("empty")}
	or.values[1] = map[ValueID][]byte{
		{40, 2}: []byte("second newest"), {30, 1}: []byte("patch"), {41, 0}: []byte("newest"), {40, 7}: []byte("other"),
	}
	or.bases[1] = map[ValueID]ValueID{{30, 1}: {40, 2}}
	or.tombs, or.meta = []byte("tombs"), []byte("meta")
	return f, or
}

// quick builds a segment whose newest values and directory are worth compressing.
func quick(t *testing.T) (*memFile, *oracle) {
	t.Helper()
	f, or := &memFile{}, newOracle()
	b, err := NewBuilder(f, BuilderOptions{FileNum: 12, Salt: 0x0123456789abcdef})
	must(t, err)
	must(t, b.BeginFamily(1))
	or.dirs[1] = bytes.Repeat([]byte("directory "), 20)
	or.values[1] = map[ValueID][]byte{{40, 2}: bytes.Repeat([]byte("newest "), 20), {41, 0}: bytes.Repeat([]byte("other "), 20)}
	must(t, b.AddHot(ValueID{40, 2}, or.values[1][ValueID{40, 2}]))
	must(t, b.AddHot(ValueID{41, 0}, or.values[1][ValueID{41, 0}]))
	must(t, b.EndFamily(or.dirs[1]))
	_, err = b.Finish()
	must(t, err)
	if x := frames(t, f.b); f.b[x[0].off+25] != byte(codecS2) || f.b[x[1].off+25] != byte(codecS2) {
		t.Error("the frames are not those of codec s2")
	}
	return f, or
}

// TestGolden: the bytes of the format do not change, and files written with it or
// with format version 1 stay readable. A segment that is compressed is only read:
// another release of the encoder may compress it otherwise. Those of version 1 are
// what was written then.
func TestGolden(t *testing.T) {
	f, or := raw(t)
	_, tinyOracle := tiny(t, 99)
	quickFile, quickOracle := quick(t)
	for _, g := range []struct {
		name  string
		built *memFile
		or    *oracle
		exact bool
	}{
		{"raw2.golden", f, or, true}, {"s2.golden", quickFile, quickOracle, false},
		{"raw.golden", nil, or, false}, {"zstd.golden", nil, tinyOracle, false},
	} {
		path := filepath.Join("testdata", g.name)
		check, dump := golden.Stored, ""
		if g.exact {
			check = golden.Text
		}
		if g.built != nil { // else a format that is only read
			dump = string(annotate(t, g.built.b))
		}
		want := check(t, path, dump, *update && g.built != nil)
		g.or.check(t, open(t, &memFile{b: parse(t, []byte(want))}))
	}
}
