package wal

import (
	"errors"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
)

// countedFS counts the bytes that are read, refuses more than mostRead, and passes on
// what files know of their holes.
type countedFS struct {
	vfs.FS
	read atomic.Int64
}

type countedFile struct {
	vfs.File
	fs *countedFS
}

func (c *countedFS) Open(name string) (vfs.File, error) {
	f, err := c.FS.Open(name)
	return countedFile{f, c}, err
}

// mostRead is far less than a hole, so that a test that reads one fails at once.
const mostRead = 64 << 20

func (f countedFile) ReadAt(b []byte, off int64) (int, error) {
	if f.fs.read.Load() > mostRead {
		return 0, errors.New("a hole is read")
	}
	n, err := f.File.ReadAt(b, off)
	f.fs.read.Add(int64(n))
	return n, err
}

func (f countedFile) NextData(off int64) (int64, error) {
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	return vfs.NextData(f.File, off, size)
}

const hole int64 = 2 << 30

// extended is a killed log whose last file somebody made hole bytes longer, and how many
// of those bytes are read by do beyond what it reads of the log as it was.
func extended(t *testing.T, torn bool, do func(w *world, fsys vfs.FS)) int64 {
	t.Helper()
	var read [2]int64
	for i := range read {
		w, image, at := logImage(t, false)
		if torn {
			clear(image[at(99):])
			image[at(99)+40] = 1 // so that evidence is looked for everywhere
		}
		name := filepath.Join(w.dir, base.LogFile.Name(1))
		writeFile(t, w.fs, name, image)
		if i == 1 {
			f, err := w.fs.OpenReadWrite(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Truncate(hole), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		c := &countedFS{FS: w.fs}
		do(w, c)
		read[i] = c.read.Load()
	}
	return read[1] - read[0]
}

// TestHolesAreNotRead: whoever reads a log that was extended by a hole reads no more of
// it than a few windows.
func TestHolesAreNotRead(t *testing.T) {
	for name, do := range map[string]func(w *world, fsys vfs.FS) error{
		"recover": func(w *world, fsys vfs.FS) error {
			o := w.recoverOptions()
			o.FS, o.Mark = fsys, Mark{}
			got, _, err := readLog(o)
			if len(got) < 98 {
				t.Errorf("%d records", len(got))
			}
			return err
		},
		"recover without a list": func(w *world, fsys vfs.FS) error {
			o := w.recoverOptions()
			o.FS, o.Files, o.Mark = fsys, nil, Mark{}
			_, _, err := readLog(o)
			return err
		},
		"salvage": func(w *world, fsys vfs.FS) error {
			o := w.recoverOptions()
			o.FS, o.ReadOnly, o.AllowDamage, o.Mark = fsys, true, true, Mark{}
			_, _, err := readLog(o)
			return err
		},
		"inspect": func(w *world, fsys vfs.FS) error {
			f, err := fsys.Open(filepath.Join(w.dir, base.LogFile.Name(1)))
			if err != nil {
				return err
			}
			_, err = Inspect(f, base.LogFile.Name(1), func(Piece) error { return nil })
			return errors.Join(err, f.Close())
		},
		"examine": func(w *world, fsys vfs.FS) error {
			_, err := Examine(fsys, w.dir, 1)
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, torn := range []bool{false, true} {
				more := extended(t, torn, func(w *world, fsys vfs.FS) {
					if err := do(w, fsys); err != nil {
						t.Error(err)
					}
				})
				if most := int64(32 * windowSize); more > most {
					t.Errorf("torn %t: a hole of %d bytes cost %d bytes read, at most %d are expected", torn, hole, more, most)
				}
			}
		})
	}
}

// TestBlankFileWithHole: a file that was never finished is known as such however long it
// is.
func TestBlankFileWithHole(t *testing.T) {
	w, _, _ := logImage(t, false)
	f, err := w.fs.Create(filepath.Join(w.dir, base.LogFile.Name(2)))
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(hole), f.Close()); err != nil {
		t.Fatal(err)
	}
	c := &countedFS{FS: w.fs}
	o := w.recoverOptions()
	o.FS, o.Files = c, nil
	_, r, err := readLog(o)
	if err != nil || len(r.Strays) != 1 {
		t.Fatalf("strays %v, %v", r.Strays, err)
	}
	if n := c.read.Load(); n > 32*windowSize {
		t.Errorf("%d bytes were read", n)
	}
}

// TestFrameBehindHole: a hole changes nothing about what counts. A valid frame behind it
// that promises what lies before is damage, wherever in its block it begins.
func TestFrameBehindHole(t *testing.T) {
	for _, at := range []int64{hole, hole + 8, hole - 8, hole - 24, hole + 4096 - frameHeaderSize} {
		w, image, _ := logImage(t, false)
		name := filepath.Join(w.dir, base.LogFile.Name(1))
		writeFile(t, w.fs, name, image)
		r, err := openFrames(w.fs, w.dir, 1, base.MaxRecord, access{})
		if err != nil {
			t.Fatal(err)
		}
		r.close()
		fr := framer{salt: r.hdr.salt}
		b, _ := fr.append(nil, at, frameHeader{typ: frameRecord, lsn: 102, syncedTo: at}, []byte("behind"))
		f, err := w.fs.OpenReadWrite(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		o := w.recoverOptions()
		o.Mark = Mark{}
		if _, _, err := readLog(o); !errors.Is(err, fault.ErrCorrupt) {
			t.Errorf("a frame at %d behind a hole: %v", at, err)
		}
	}
}
