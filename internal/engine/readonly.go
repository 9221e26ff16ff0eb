package engine

import (
	"errors"
	"io/fs"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
)

// readerRetries is how often a reader beside a live writer looks again when a
// file it was told of is gone.
const readerRetries = 16

// openReadOnly reads a store without a lock: the manifest, then the files it
// names. A writer in another process may remove some of them meanwhile; then the
// manifest has moved on, and the reader does too. An image that stays away is lost,
// and the last try does without it.
func (e *Engine) openReadOnly() error {
	var err error
	for try := range readerRetries {
		if err = e.tryReadOnly(try == readerRetries-1); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		e.files.close()
		e.files = newFileSet(e.opts.FS, e.dir, e.files.onErr)
		e.files.readOnly = true
		e.ix = index.New()
		e.unflushed = newUnflushed()
		e.report = OpenReport{}
		if errors.Is(err, snapshot.ErrNoManifest) {
			return errors.Join(base.ErrNotStore, err)
		}
	}
	return err
}

func (e *Engine) tryReadOnly(withoutImages bool) error {
	e.files.readOnly = true
	load := snapshot.Load
	if e.opts.AllowDamage {
		load = snapshot.LoadDamaged
	}
	st, _, err := load(e.opts.FS, e.dir)
	if err != nil {
		return err
	}
	e.fixed = st
	e.addFiles(st)
	// Everything the state names is opened before anything is read, so that the
	// writer can remove nothing from under the reader.
	if err := e.files.openAll(withoutImages); err != nil {
		return err
	}
	if err := e.loadIndex(st); err != nil {
		return err
	}
	_, err = e.recoverLog(st)
	return err
}
