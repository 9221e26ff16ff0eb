package wal

import (
	"encoding/binary"
	"flag"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/golden"
	"github.com/stele-go/stele/base/vfs"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// The bytes on disk, annotated. A change here is a change of format: it needs
// a new format version, not -update.
func TestGolden(t *testing.T) {
	w := newWorld(vfs.NewMem(vfs.MemOptions{}))
	salts := uint64(0x0102030405060700)
	l := w.open(t, func(o *Options) {
		o.Rand = func() uint64 { salts++; return salts }
	})
	commitString := func(s string) {
		if err := commit(l, []byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	commitString("first record")
	commitString("")
	if err := l.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	commitString("in the second file")
	mustClose(t, l)
	for _, num := range w.manifest() {
		name := base.LogFile.Name(num)
		golden.Text(t, filepath.Join("testdata", name+".golden"), annotate(readFile(t, w.fs, filepath.Join(w.dir, name))), *update)
	}
}

// annotate prints a log file field by field, from its bytes alone.
func annotate(b []byte) string {
	var out strings.Builder
	line := func(from, n int, format string, args ...any) {
		fmt.Fprintf(&out, "%04x-%04x: x %-34x # %s\n", from, from+n, b[from:from+n], fmt.Sprintf(format, args...))
	}
	u16 := func(at int) uint16 { return binary.LittleEndian.Uint16(b[at:]) }
	u32 := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	u64 := func(at int) uint64 { return binary.LittleEndian.Uint64(b[at:]) }
	out.WriteString("# file header\n")
	line(0, 4, "magic %q", b[:4])
	line(4, 2, "format version %d", u16(4))
	line(6, 2, "flags")
	line(8, 8, "file number %d", u64(8))
	line(16, 8, "base LSN %d", u64(16))
	line(24, 8, "salt")
	line(32, 8, "previous file %d", u64(32))
	line(40, 8, "previous end %d", u64(40))
	line(48, 8, "previous chain")
	line(56, 8, "XXH64 of 0000-0038")
	for off := 64; off < len(b); {
		n := int(u32(off + 8))
		h, ok := decodeFrameHeader(b[off:], u64(24), int64(off))
		if !ok || !frameValid(b[off:], &h, u64(24), int64(off)) {
			fmt.Fprintf(&out, "# invalid frame at %04x\n", off)
			break
		}
		fmt.Fprintf(&out, "# %s\n", frameType(b[off+12]))
		line(off, 8, "XXH64 of %04x-%04x, seed mix(salt, %d)", off+8, off+int(h.size()), off)
		line(off+8, 4, "payload length %d", n)
		line(off+12, 1, "type %d", b[off+12])
		line(off+13, 1, "flags")
		line(off+14, 2, "header check")
		line(off+16, 8, "LSN %d", u64(off+16))
		line(off+24, 8, "synced to %d", u64(off+24))
		for at, end := off+32, off+32+n; at < end; at += 16 {
			k := min(16, end-at)
			line(at, k, "payload %q", b[at:at+k])
		}
		if pad := int(h.size()) - 32 - n; pad > 0 {
			line(off+32+n, pad, "padding")
		}
		off += int(h.size())
	}
	return out.String()
}
