// Package golden keeps examples of encoded bytes as annotated hex dumps: a
// person reads them beside the byte tables of docs/format, and a test reads the
// bytes back out of them. It is for tests only.
//
// It is for this repository, and makes no promise to others.
package golden

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// perLine is how many bytes a line of a dump shows.
const perLine = 24

// Dump annotates bytes field by field. It walks them by what the byte table
// says, without the decoder under test. It fails its test as soon as a field
// does not fit.
type Dump struct {
	t   testing.TB
	b   []byte
	off int
	out bytes.Buffer
}

// New begins a dump of b.
func New(t testing.TB, b []byte) *Dump { return &Dump{t: t, b: b} }

// Title writes a line of text.
func (d *Dump) Title(format string, args ...any) { fmt.Fprintf(&d.out, "# "+format+"\n", args...) }

// Field takes n bytes and names them.
func (d *Dump) Field(n int, format string, args ...any) []byte {
	d.t.Helper()
	note := fmt.Sprintf(format, args...)
	if n < 0 || n > len(d.b)-d.off {
		d.t.Fatalf("%s: %d bytes at %d of %d", note, n, d.off, len(d.b))
	}
	field := d.b[d.off : d.off+n]
	for rest := field; len(rest) > 0; note = "…" {
		m := min(len(rest), perLine)
		fmt.Fprintf(&d.out, "%04x  %-*x  %s\n", d.off, 2*perLine, rest[:m], note)
		d.off += m
		rest = rest[m:]
	}
	return field
}

// Byte takes one byte.
func (d *Dump) Byte(note string) byte {
	d.t.Helper()
	return d.Field(1, "%s", note)[0]
}

// Uvarint takes an unsigned varint and shows its value.
func (d *Dump) Uvarint(note string) uint64 {
	d.t.Helper()
	n, w := binary.Uvarint(d.b[d.off:])
	d.Field(w, "%s: %d", note, n)
	return n
}

// Varint takes a signed varint and shows its value.
func (d *Dump) Varint(note string) int64 {
	d.t.Helper()
	n, w := binary.Varint(d.b[d.off:])
	d.Field(w, "%s: %d", note, n)
	return n
}

// Str takes a string after its length.
func (d *Dump) Str(note string) string {
	d.t.Helper()
	n := d.Uvarint(note + ", length")
	return string(d.Field(int(n), "%s", note))
}

// Rest takes what is left.
func (d *Dump) Rest(note string) []byte {
	d.t.Helper()
	return d.Field(len(d.b)-d.off, "%s", note)
}

// Check compares the dump with the file at path, or writes the file, and returns
// the bytes the file holds.
func (d *Dump) Check(path string, update bool) []byte {
	d.t.Helper()
	if d.off != len(d.b) {
		d.t.Fatalf("%s: annotated %d of %d bytes", path, d.off, len(d.b))
	}
	b, err := parse(Text(d.t, path, d.out.String(), update))
	if err != nil {
		d.t.Fatalf("%s: %v", path, err)
	}
	return b
}

// Text compares a text with the file at path, or writes the file, and returns what
// the file holds. A difference fails the test, and goes on.
func Text(t testing.TB, path, text string, update bool) string {
	t.Helper()
	want := Stored(t, path, text, update)
	if text != want {
		t.Errorf("%s differs from what is written now. If that is meant, it needs a new format version; -update rewrites the file.\n%s", path, text)
	}
	return want
}

// Stored is Text without the comparison: for bytes that another release of a library
// may write otherwise, and that need only be read.
func Stored(t testing.TB, path, text string, update bool) string {
	t.Helper()
	if update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(want)
}

// Read returns the bytes of the dump at path: of a format that is read, but not
// written any more.
func Read(t testing.TB, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parse(string(text))
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return b
}

// parse takes the bytes out of a dump.
func parse(dump string) ([]byte, error) {
	var out []byte
	for line := range strings.Lines(dump) {
		if strings.HasPrefix(line, "#") || strings.TrimSpace(line) == "" {
			continue
		}
		off, rest, _ := strings.Cut(line, "  ")
		if off != fmt.Sprintf("%04x", len(out)) {
			return nil, fmt.Errorf("line %q does not go on at %04x", line, len(out))
		}
		digits, _, _ := strings.Cut(rest, " ")
		b, err := hex.DecodeString(digits)
		if err != nil {
			return nil, fmt.Errorf("line %q: %w", line, err)
		}
		out = append(out, b...)
	}
	return out, nil
}
