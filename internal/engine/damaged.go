package engine

import (
	"errors"
	"sync"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// With Options.AllowDamage a store is read past damage, wherever it is: what is
// intact is served, what is not is left out and listed. The rules:
//
//   - a manifest that is missing or damaged: the files of the directory are taken as
//     they are, because an older state would name files that are gone;
//   - an image: the index is rebuilt from segments and log, as always;
//   - footer or family index of a segment: its frames are found by walking them;
//   - a directory in a segment: its items are missing, those of other segments are
//     not;
//   - a frame of the log: its records are missing, and what they deleted is not;
//   - a value: reading it is a CorruptionError, as always.

// skipped is what AllowDamage went past.
type skipped struct {
	mu        sync.Mutex
	damage    []error
	seen      map[string]bool // by text: a damaged page is met again and again
	deletions bool            // what was skipped may have held deletions
}

// maxSkipped bounds the list of what was skipped.
const maxSkipped = 10000

// skip notes damage that AllowDamage goes past.
func (e *Engine) skip(err error) {
	e.skipped.mu.Lock()
	defer e.skipped.mu.Unlock()
	if e.skipped.seen == nil {
		e.skipped.seen = map[string]bool{}
	}
	if text := err.Error(); !e.skipped.seen[text] && len(e.skipped.damage) < maxSkipped {
		e.skipped.seen[text] = true
		e.skipped.damage = append(e.skipped.damage, err)
	}
}

// pastDamage is nil for damage that may be gone past, which it notes; any other
// error stays one.
func (e *Engine) pastDamage(err error) error {
	if err == nil || !e.opts.AllowDamage || !errors.Is(err, base.ErrCorrupt) {
		return err
	}
	e.skip(err)
	return nil
}

// Skipped returns what was gone past so far, at Open and since, each damage once,
// and whether it may have held deletions, so that something deleted is back. Both
// are zero without Options.AllowDamage.
func (e *Engine) Skipped() (damage []error, deletions bool) {
	e.skipped.mu.Lock()
	defer e.skipped.mu.Unlock()
	deletions = e.skipped.deletions || e.guessed
	for _, err := range e.skipped.damage {
		var c *base.CorruptionError
		if errors.As(err, &c) {
			_, inLog := wal.ParseFileName(c.File)
			deletions = deletions || inLog
		}
	}
	return append([]error(nil), e.skipped.damage...), deletions
}

// skippedSince is what was gone past after the first n; the slice is not changed
// later.
func (e *Engine) skippedSince(n int) []error {
	e.skipped.mu.Lock()
	defer e.skipped.mu.Unlock()
	return e.skipped.damage[n:]
}

// damagedState is the state of a store for AllowDamage: that of the manifest, or
// one made from the files if there is no manifest to rely on.
func (e *Engine) damagedState() (snapshot.State, error) {
	st, rep, err := snapshot.Load(e.opts.FS, e.dir, e.readManifest()...)
	e.manifestKey = rep.KeyID
	if err == nil {
		return st, nil
	}
	if !errors.Is(err, base.ErrCorrupt) && !errors.Is(err, snapshot.ErrNoManifest) {
		return snapshot.State{}, err
	}
	// The newest intact complete state still tells which store this is.
	known, _, _ := snapshot.LoadDamaged(e.opts.FS, e.dir, e.readManifest()...)
	st, gerr := e.stateFromFiles(known)
	if gerr != nil {
		return snapshot.State{}, gerr
	}
	if len(st.Logs)+len(st.Segments) == 0 {
		return snapshot.State{}, err
	}
	e.guessed, e.report.Guessed = true, true
	if errors.Is(err, snapshot.ErrNoManifest) {
		err = &base.CorruptionError{File: "MANIFEST", Kind: "manifest", Offset: -1, Detail: "missing", Err: err}
	}
	e.skip(err)
	return st, nil
}

// stateFromFiles makes a state of the log files and segments in the directory.
// Images are left out: which of them count only the manifest knows.
func (e *Engine) stateFromFiles(known snapshot.State) (snapshot.State, error) {
	names, err := e.opts.FS.List(e.dir)
	if err != nil {
		return snapshot.State{}, err
	}
	st := snapshot.State{FormatVersion: storeFormat, StoreID: known.StoreID, Created: known.Created, FloorLSN: 1, Options: known.Options}
	for _, n := range names {
		if num, ok := wal.ParseFileName(n); ok {
			st.Logs = append(st.Logs, snapshot.LogInfo{Num: num, BaseLSN: 1})
			st.NextFileNum = max(st.NextFileNum, num+1)
		}
		if num, ok := segment.ParseFileName(n); ok {
			st.Segments = append(st.Segments, snapshot.SegmentInfo{Num: num})
			st.NextFileNum = max(st.NextFileNum, num+1)
		}
	}
	if st.StoreID == 0 && e.keys != nil {
		st.StoreID = e.findStoreID(st)
	}
	return st, nil
}

// newest is the last record that the pages and tombstones of all segments know of:
// the log counts from there on, as the floor is not known.
func (r *rebuild) newest(dropped map[string]index.Memo) base.LSN {
	var lsn base.LSN
	for _, t := range r.threads {
		lsn = max(lsn, t.LSN)
	}
	for _, m := range dropped {
		lsn = max(lsn, m.LSN)
	}
	return lsn
}
