package engine

import (
	"errors"
	"io/fs"
	"reflect"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// readerRetries is how often a reader beside a live writer starts again when a file that the manifest
// names is gone.
const readerRetries = 16

// openReadOnly reads a store without a lock, unless it is Away: the manifest, then the files it
// names. A writer in another process may remove some of them meanwhile; then the
// manifest has moved on, and the reader does too. An image that is missing while the
// manifest stands still is lost, and the index is rebuilt.
func (e *Engine) openReadOnly() error {
	err := e.holdDir()
	if errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fault.ErrNotStore, err)
	}
	if err != nil {
		return err
	}
	if e.Away() {
		if err := e.takeLock(); err != nil {
			return err
		}
	}
	for range readerRetries {
		before := e.Found
		if err = e.tryReadOnly(); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		stuck := before.StoreID != 0 && reflect.DeepEqual(before, e.Found)
		lost, lostImages := e.Files.lost, e.Files.lostImages
		e.Files.Close()
		e.Files = newFiles(e.Opts.FS, e.Dir, e.Files.onErr)
		// The manifest has not changed: the file is lost for good.
		e.Files.lost = lost || stuck && e.Opts.AllowDamage
		e.Files.lostImages = lostImages || stuck
		e.Index = index.New(e.Opts.loadedBytes())
		e.flusher.reset()
		e.report = metrics.OpenReport{}
		e.guessed = false
		e.forgetSkipped()
		if errors.Is(err, snapshot.ErrNoManifest) {
			return errors.Join(fault.ErrNotStore, err)
		}
	}
	return err
}

func (e *Engine) tryReadOnly() error {
	e.Files.readOnly = true
	var err error
	// Before anything else: what is read later cannot be older than the mark.
	if e.durable, err = wal.ReadMark(e.Opts.FS, e.Dir); err != nil {
		return err
	}
	st, err := e.readState()
	if err != nil {
		return err
	}
	e.Found = st
	if e.Away() {
		if e.upTo, err = e.shownAway(st); err != nil {
			return err
		}
	}
	e.useKeys(st, false)
	e.addFiles(st)
	// Every file that the state names is opened before any is read, so that they stay readable when the
	// writer removes them.
	if err := e.Files.openAll(); err != nil {
		return err
	}
	if err := e.checkKeys(); err != nil {
		return err
	}
	if err := e.loadIndex(st); err != nil {
		return err
	}
	if _, err = e.recoverLog(st, nil, nil); err == nil {
		e.report.Damage, _ = e.Skipped()
	}
	return err
}

// readState returns the state of the manifest or, with AllowDamage, one made without it.
func (e *Engine) readState() (snapshot.State, error) {
	if e.Opts.AllowDamage {
		e.Files.pastDamage = e.skip
		return e.damagedState()
	}
	st, rep, err := snapshot.Load(e.Opts.FS, e.Dir, e.readManifest()...)
	e.manifestKey = rep.KeyID
	return st, err
}
