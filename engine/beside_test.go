package engine

import (
	"strings"

	"github.com/stele-go/stele/base/vfs"
)

// besideFS calls a function before the operations with which a flush, an image or
// a compaction writes its file, so that commits come between its steps, always
// at the same places.
type besideFS struct {
	vfs.FS
	beside func()
}

func (b *besideFS) call(name string) {
	if b.beside != nil && (strings.HasSuffix(name, ".seg") || strings.HasSuffix(name, ".img")) {
		b.beside()
	}
}

func (b *besideFS) Create(name string) (vfs.File, error) {
	b.call(name)
	f, err := b.FS.Create(name)
	if err != nil {
		return nil, err
	}
	return &besideFile{f, b, name}, nil
}

type besideFile struct {
	vfs.File
	fs   *besideFS
	name string
}

func (f *besideFile) Sync() error {
	f.fs.call(f.name)
	return f.File.Sync()
}

func (f *besideFile) Close() error {
	err := f.File.Close()
	f.fs.call(f.name)
	return err
}
