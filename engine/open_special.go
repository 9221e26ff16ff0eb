package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/snapshot"
)

// pastSpecials wraps d for Options.AllowDamage: a file with the name of a store's file that is not a
// regular file counts as missing, and is noted. It may have been put there long after the store was
// written, so intact data does not depend on it.
func (e *Engine) pastSpecials(d vfs.Dir) vfs.Dir {
	if !e.Opts.AllowDamage {
		return d
	}
	return regularDir{d, e}
}

type regularDir struct {
	vfs.Dir
	e *Engine
}

// Open implements vfs.FS.
func (d regularDir) Open(name string) (vfs.File, error) {
	f, err := d.Dir.Open(name)
	if errors.Is(err, fault.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", fs.ErrNotExist, err)
		d.e.skip(&fault.CorruptionError{File: filepath.Base(name), Kind: "file", Offset: -1, Detail: "missing", Err: err})
	}
	return f, err
}

// List implements vfs.FS. It leaves out files that are not regular: they would otherwise be taken for a
// newer manifest, or for a part of the log.
func (d regularDir) List(dir string) ([]string, error) {
	names, err := d.Dir.List(dir)
	return slices.DeleteFunc(names, func(n string) bool {
		_, temp := base.LogTempFile.Parse(n)
		_, manifest := snapshot.ParseManifestName(n)
		if temp || !manifest && !isOwnName(n) {
			return false
		}
		f, err := d.Open(filepath.Join(dir, n))
		if err == nil {
			_ = f.Close() // nothing was read
		}
		return errors.Is(err, fault.ErrNotRegular)
	}), err
}
