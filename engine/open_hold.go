package engine

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/wal"
)

// holdDir opens the directory of the store. From here on every file is reached through
// it, and none by path: Opts.FS is that one directory, wherever it is moved.
func (e *Engine) holdDir() error {
	d, err := vfs.Hold(e.Opts.FS, e.Dir)
	if err != nil {
		return err
	}
	e.around, e.Held = e.Opts.FS, d
	e.Opts.FS = e.pastSpecials(e.endsOpening(vfs.Guarded(e.pastUnreadable(d), e.ownsDir)))
	e.Files.fs = e.Opts.FS
	return nil
}

// pastUnreadable is d, of which a block that the device cannot read is damage to what can be made
// anew: images of the index, and the mark that says how far the log was durable. For AllowDamage
// it is damage everywhere. Elsewhere it is the error of the device, which may pass.
func (e *Engine) pastUnreadable(d vfs.Dir) vfs.Dir {
	pass := func(name string) bool {
		_, image := base.ImageFile.Parse(name)
		return image || name == wal.MarkName || e.Opts.AllowDamage
	}
	return vfs.PastUnreadable(d, pass, func(err error) {
		if e.Opts.AllowDamage {
			e.skip(err)
		}
		e.Opts.Logger.Error("unreadable", "error", err)
	})
}

// letGo ends what holdDir and takeLock began. Nothing is written any more.
func (e *Engine) letGo() error {
	var err error
	if e.lock != nil {
		err = e.lock.Close()
	}
	if e.Held != nil {
		err = errors.Join(err, e.Held.Close())
	}
	return err
}

// ownsDir returns nil while the lock file that this writer holds is the one in the
// directory. The log asks after every write and before anybody is told of it, and the
// file system before a file is made, renamed or removed. Once it is lost it stays lost:
// what another writer did meanwhile is not known. Without a lock there is nothing to
// lose.
func (e *Engine) ownsDir() error {
	if e.lock == nil {
		return nil
	}
	if lost := e.lockLost.Load(); lost != nil {
		return *lost
	}
	err := e.lock.Attached()
	switch {
	case err == nil:
		return nil
	case errors.Is(err, vfs.ErrDetached):
		holder := readHolder(e.Held, filepath.Join(e.Dir, LockName))
		err = &fault.LockLostError{Dir: e.Dir, Holder: holder, Copied: holder == e.lockText}
	default:
		err = fmt.Errorf("look for %s: %w", LockName, err)
	}
	e.lockLost.CompareAndSwap(nil, &err)
	return *e.lockLost.Load()
}

// Around is the file system that the store's directory lies in.
func (e *Engine) Around() vfs.FS { return e.around }
