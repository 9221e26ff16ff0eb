package engine

import (
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// With Options.AllowDamage a store is read past damage, wherever it is: what is
// intact is served, what is not is left out and listed. The rules:
//
//   - a manifest that is missing or damaged: the files of the directory are taken as
//     they are, because an older state would name files that are gone;
//   - an image, a page of it included: the index is rebuilt from segments and log;
//   - footer or family index of a segment: its frames are found by walking them;
//   - something that is no regular file has the name of one: as if it were not there;
//   - a directory in a segment: its entries are missing, those of other segments are
//     not;
//   - a frame of the log: its records are missing, and what they deleted is not;
//   - a value: reading it is a CorruptionError, as always.

// checkImages reads every frame of the images. A store that is open for writing finds a damaged page
// when it reads it, and has a new image made. A reader has no new image made, and the log still has
// what the page holds.
func (e *Engine) checkImages(st snapshot.State) error {
	for _, info := range st.Images {
		h, err := e.Files.Acquire(info.Num)
		if err != nil {
			return err
		}
		err = h.Image.Inspect(func(fr snapshot.ImageFrame) error { return fr.Err })
		e.Files.Release(h)
		if err != nil {
			return err
		}
	}
	return nil
}

// damagedState returns the state of a store for AllowDamage: that of the manifest, or one made from the
// files if no manifest can be relied on.
func (e *Engine) damagedState() (snapshot.State, error) {
	st, err := e.currentState()
	if err == nil {
		return st, nil
	}
	if !errors.Is(err, fault.ErrCorrupt) && !errors.Is(err, snapshot.ErrNoManifest) {
		return snapshot.State{}, err
	}
	// The newest intact, complete state still has the id of the store.
	known, _, _ := snapshot.LoadDamaged(e.Opts.FS, e.Dir, e.readManifest()...)
	st, gerr := e.stateFromFiles(known)
	if gerr != nil {
		return snapshot.State{}, gerr
	}
	if len(st.Logs)+len(st.Segments) == 0 {
		return snapshot.State{}, err
	}
	e.guessed, e.report.Guessed = true, true
	e.maybeUndeleted()
	if errors.Is(err, snapshot.ErrNoManifest) {
		err = &fault.CorruptionError{File: "MANIFEST", Kind: "manifest", Offset: -1, Detail: "missing", Err: err}
	}
	e.skip(err)
	return st, nil
}

// currentState returns the state in the manifest. An older copy of the manifest is an error.
func (e *Engine) currentState() (snapshot.State, error) {
	st, rep, err := snapshot.Load(e.Opts.FS, e.Dir, e.readManifest()...)
	for err == nil {
		e.manifestKey = rep.KeyID
		old := e.outdated(st)
		if old == nil {
			return st, nil
		}
		was := st
		// A writer may have gone on since.
		if st, rep, err = snapshot.Load(e.Opts.FS, e.Dir, e.readManifest()...); err == nil && reflect.DeepEqual(st, was) {
			return snapshot.State{}, old
		}
	}
	return snapshot.State{}, err
}

// outdated returns an error if a log file that the manifest does not name has records after the end of
// the log: a log file is named before its first record, so the manifest is an older copy.
func (e *Engine) outdated(st snapshot.State) error {
	names, err := e.Opts.FS.List(e.Dir)
	if err != nil {
		return err
	}
	var last base.LSN
	for _, n := range names {
		num, isLog := base.LogFile.Parse(n)
		if !isLog || slices.ContainsFunc(st.Logs, func(l snapshot.LogInfo) bool { return l.Num == num }) {
			continue
		}
		u, err := wal.Examine(e.Opts.FS, e.Dir, num)
		if err != nil {
			return err
		}
		if u.Copy || u.LastLSN < st.FloorLSN {
			continue
		}
		if last == 0 {
			rec, err := wal.Recover(wal.RecoverOptions{FS: e.Opts.FS, Dir: e.Dir, Files: st.LogNums(), ReadOnly: true, AllowDamage: true,
				Keys: e.Keys.Keyring(st.StoreID, st.PlainBelow())}, nil)
			if err != nil {
				return err
			}
			last = max(rec.LastLSN, st.FloorLSN-1)
		}
		if u.LastLSN > last {
			return &fault.CorruptionError{File: "MANIFEST", Kind: "manifest", Offset: -1, Detail: fmt.Sprintf(
				"it seems to be an older copy: %s, which it does not name, holds records up to %d, and the log that it names ends with %d", n, u.LastLSN, last)}
		}
	}
	return nil
}

// stateFromFiles makes a state from the log files and segments in the directory. Images are left out:
// only the manifest knows which of them are current.
func (e *Engine) stateFromFiles(known snapshot.State) (snapshot.State, error) {
	names, err := e.Opts.FS.List(e.Dir)
	if err != nil {
		return snapshot.State{}, err
	}
	st := snapshot.State{FormatVersion: snapshot.FormatVersion, StoreID: known.StoreID, Created: known.Created, FloorLSN: 1, Options: known.Options}
	for _, n := range names {
		if num, ok := base.LogFile.Parse(n); ok {
			st.Logs = append(st.Logs, snapshot.LogInfo{Num: num, BaseLSN: 1})
			st.NextFileNum = max(st.NextFileNum, num+1)
		}
		if num, ok := base.SegmentFile.Parse(n); ok {
			st.Segments = append(st.Segments, snapshot.SegmentInfo{Num: num})
			st.NextFileNum = max(st.NextFileNum, num+1)
		}
	}
	if st.StoreID == 0 && e.Keys != nil {
		st.StoreID = e.findStoreID(st)
	}
	return st, nil
}
