package vfs_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/base/vfs/faultfs"
)

// Of a file with one bad sector everything is read but the block around it, which is told with its
// place and the error of the device. A file that is not opened is damaged as a whole, and not missing; one
// that is opened at the second try is intact. Other files, and other errors, are as they were.
func TestPastUnreadable(t *testing.T) {
	mem := vfs.NewMem(vfs.MemOptions{})
	data := make([]byte, 3*4096+100)
	for i := range data {
		data[i] = byte(i * 7)
	}
	for _, name := range []string{"d/a", "d/b"} {
		if err := errors.Join(mem.MkdirAll("d"), write(mem, name, data)); err != nil {
			t.Fatal(err)
		}
	}
	inj := faultfs.NewInjector(faultfs.Rule{Op: faultfs.OpReadAt, From: 5000, To: 5001, Sticky: true})
	held, err := vfs.Hold(faultfs.New(mem, inj), "d")
	if err != nil {
		t.Fatal(err)
	}
	var told []error
	d := vfs.PastUnreadable(held, func(name string) bool { return name == "a" }, func(err error) { told = append(told, err) })
	for _, open := range []func(string) (vfs.File, error){d.Open, d.OpenReadWrite} {
		told = nil
		f, err := open(filepath.Join("d", "a"))
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(data)+10)
		n, err := f.ReadAt(got, 0)
		if n != len(data) || !errors.Is(err, io.EOF) {
			t.Fatalf("%d bytes, %v", n, err)
		}
		if !bytes.Equal(got[:4096], data[:4096]) || !bytes.Equal(got[8192:n], data[8192:]) || bytes.Equal(got[4096:8192], data[4096:8192]) {
			t.Error("other bytes than those of the bad block are not as they were")
		}
		var c *fault.CorruptionError
		if len(told) != 1 || !errors.As(told[0], &c) || c.File != "a" || c.Offset != 4096 || c.Len != 4096 || !errors.Is(told[0], syscall.EIO) || !errors.Is(told[0], fault.ErrCorrupt) {
			t.Errorf("told %v", told)
		}
		if n, err := f.ReadAt(got[:200], 4990); n != 200 || err != nil || slices.Equal(got[:200], data[4990:5190]) {
			t.Errorf("%d bytes of the block, %v", n, err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := f.ReadAt(got, 0); err == nil {
			t.Error("a closed file is read")
		}
	}
	f, err := d.Open(filepath.Join("d", "b"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.ReadAt(make([]byte, 6000), 0); !errors.Is(err, syscall.EIO) {
		t.Errorf("a file that nobody can do without: %v", err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, op := range []faultfs.Op{faultfs.OpOpen, faultfs.OpOpenReadWrite} {
		open := map[faultfs.Op]func(string) (vfs.File, error){faultfs.OpOpen: d.Open, faultfs.OpOpenReadWrite: d.OpenReadWrite}[op]
		told = nil
		inj.Set(faultfs.Rule{Op: op, N: 1})
		f, err := open(filepath.Join("d", "a"))
		if err != nil || told != nil || f.Close() != nil {
			t.Errorf("%v failed once: %v, told %v", op, err, told)
		}
		inj.Set(faultfs.Rule{Op: op, Sticky: true})
		var c *fault.CorruptionError
		_, err = open(filepath.Join("d", "a"))
		if !errors.As(err, &c) || c.File != "a" || c.Offset != -1 || !errors.Is(err, syscall.EIO) || errors.Is(err, fs.ErrNotExist) || len(told) != 1 || told[0] != err {
			t.Errorf("%v fails: %v, told %v", op, err, told)
		}
		if _, err = open(filepath.Join("d", "b")); !errors.Is(err, syscall.EIO) || errors.Is(err, fault.ErrCorrupt) || len(told) != 1 {
			t.Errorf("%v of a file that nobody can do without: %v, told %v", op, err, told)
		}
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

func write(fsys vfs.FS, name string, data []byte) error {
	f, err := fsys.Create(name)
	if err != nil {
		return err
	}
	_, err = f.WriteAt(data, 0)
	return errors.Join(err, f.Close())
}
