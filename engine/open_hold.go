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

// holdDir opens the directory of the store. From here on every file is opened through that directory,
// and none by path: Opts.FS is that one directory, wherever it is moved.
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

// pastUnreadable wraps d so that a block that the device cannot read is damage in files that can be
// made anew: images of the index, and the mark that says how far the log was durable. For AllowDamage
// it is damage in every file. Otherwise it is the error of the device, which may pass.
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

// letGo releases the lock and the directory. Nothing may be written afterwards.
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

// ownsDir returns nil while the lock file that this writer holds is the one in the directory. The log
// calls it after every write, before it acknowledges the write, and the file system before a file is
// made, renamed or removed. Once the lock is lost it stays lost: another writer may have written
// meanwhile. A look that fails has not seen that, and the next one may see that all is well. Without a
// lock ownsDir always returns nil.
func (e *Engine) ownsDir() error {
	if e.lock == nil {
		return nil
	}
	if lost := e.lockLost.Load(); lost != nil {
		return *lost
	}
	err := vfs.Again(e.lock.Attached)
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, vfs.ErrDetached):
		return fmt.Errorf("look for %s: %w", LockName, err)
	}
	holder := readHolder(e.Held, filepath.Join(e.Dir, LockName))
	err = &fault.LockLostError{Dir: e.Dir, Holder: holder, Copied: holder == e.lockText}
	e.lockLost.CompareAndSwap(nil, &err)
	return *e.lockLost.Load()
}

// Around is the file system that the store's directory lies in.
func (e *Engine) Around() vfs.FS { return e.around }
