package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/base/seal"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/replica"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// LockName is the file that is locked while a writer has the store.
const LockName = "LOCK"

// Open opens the store in dir, creating it if dir is empty or missing. What a
// crash left behind is recovered; Report tells what that was.
//
// Errors: LockedError if another writer has the store; ErrNotStore for a
// directory with other files; VersionError for a store of a newer format;
// CorruptionError if anything acknowledged is damaged in log or manifest; with a
// replica also those of package replica, ErrAway if the bucket does not answer for
// Replica.Deadline.
func Open(dir string, opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	start := time.Now()
	e := newEngine(newStore(dir, opts.WithDefaults()))
	e.Keys = seal.New(opts.Keys, opts.Entropy)
	err := e.open()
	e.isOpen.Store(err == nil)
	if err != nil {
		e.undoOpen()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	background := !e.Opts.ReadOnly && !e.Opts.ManualWork
	if !background {
		e.Index.ReleaseFamilies()
	}
	e.report.Took = time.Since(start)
	e.Opts.Logger.Info("opened", "threads", e.Index.Len(), "lsn", e.Index.LSN(), "replayed", e.report.Replayed,
		"dropped_bytes", e.report.DroppedBytes, "took", e.report.Took)
	if background {
		var ctx context.Context
		ctx, e.stopWork = context.WithCancel(context.Background())
		e.workers.Go(func() {
			e.Index.ReleaseFamilies() // nobody waits for it
			e.work(ctx, e.wake, &e.workErr, e.workOnce)
		})
		e.workers.Go(func() { e.work(ctx, e.wakeCompact, &e.compactErr, e.compactDue) })
	}
	return e, nil
}

// newEngine puts together the parts of an engine whose store is not yet read.
func newEngine(s *Store) *Engine {
	garbage := newGarbage(s)
	e := &Engine{Store: s, upTo: base.MaxLSN, garbage: garbage, images: newImageStack(s, garbage), unpublished: newUnpublished(), revisions: newRevisionCache(s.Opts.VersionBytes),
		wake: make(chan struct{}, 1), wakeCompact: make(chan struct{}, 1)}
	e.flusher = newFlusher(e.images, e.garbage)
	e.compactor = newCompactor(e.flusher, e.images, e.garbage)
	e.images.keep = func(st snapshot.State, finished []base.FileNum) (*snapshot.Replica, []base.FileNum) {
		return e.replica.keep(st, finished)
	}
	if s.Opts.Replica.Bucket != nil || s.Opts.follows {
		e.replica = newReplication(e)
	}
	e.images.onPublish = func() {
		e.compactor.noteSegments()
		e.replica.published()
	}
	e.flusher.onCut = e.replica.cutBehind
	if s.Opts.follows && s.Opts.Replica.Bucket != nil {
		e.follower = newFollower(e)
		s.fresh = e.follower.fresh
	} else if r := s.Opts.Replica; e.replica != nil && r.Mode == replica.Sync && r.MaxStale >= 0 {
		s.current = e.replica.current
	}
	s.onBadPage = e.wakeWorker
	return e
}

// open recovers the store in two steps. The first only reads, but for a copy of the end of the log
// under a temporary name, which may replace one that a crash left. So a store that is damaged, or of a
// newer version, is left as it was found. The second writes: it makes a new manifest file, which names
// all that the old one does; makes the copy part of the log; and removes leftovers.
func (e *Engine) open() error {
	if e.Opts.ReadOnly {
		return e.openReadOnly()
	}
	if err := e.Opts.FS.MkdirAll(e.Dir); err != nil {
		return err
	}
	if err := e.holdDir(); err != nil {
		return err
	}
	if err := e.refuseStrangers(); err != nil {
		return err
	}
	if err := e.takeLock(); err != nil {
		return err
	}
	var err error
	if e.durable, err = wal.ReadMark(e.Opts.FS, e.Dir); err != nil {
		return err
	}
	st, err := e.loadManifest()
	if err != nil {
		return err
	}
	e.Found = st
	if err := e.refuseReplicated(st); err != nil {
		return err
	}
	e.garbage.Restore(st.Segments)
	e.addFiles(st)
	if err := e.checkKeys(); err != nil {
		return err
	}
	end := &logEnd{e: e, st: st}
	ahead := e.readLogAhead(st, end.found)
	defer ahead.stop() // else it would wait for images whose reading failed
	if err := e.loadIndex(st); err != nil {
		return err
	}
	if e.report.IndexRebuilt {
		ahead.stop()
		ahead = nil
	}
	rec, err := e.recoverLog(st, ahead, end.found)
	if err == nil {
		err = e.goOn(rec, end)
	}
	if err != nil {
		end.discard()
	}
	return err
}

// goOn is the second step of open. The copy of the end of the log may still be under way.
func (e *Engine) goOn(rec wal.Recovery, end *logEnd) error {
	if e.manifest == nil {
		err := e.openManifest(rec)
		if errors.Is(err, fault.ErrDiskFull) && end.discard() { // the copy took the room; after the sweep there may be more
			err = e.openManifest(rec)
		}
		if err != nil {
			return err
		}
	}
	if err := e.reserveTaken(); err != nil {
		return err
	}
	end.copied()
	end.relocate(rec)
	e.compactor.noteSegments()
	e.sweep(end.left)
	if err := e.openLog(rec, end); err != nil {
		return err
	}
	return e.lead()
}

// openManifest continues the manifest. If the end of the log is to be copied, which
// needs a file number, the manifest reserves numbers as it goes.
func (e *Engine) openManifest(rec wal.Recovery) (err error) {
	o := e.writeManifest()
	if rec.Unpromised.Records > 0 {
		o.NextFileNum = e.numbersToReserve()
	}
	e.manifest, _, err = snapshot.Open(e.Opts.FS, e.Dir, o)
	return err
}

// undoOpen releases what a failed Open took: lock, files and goroutines.
func (e *Engine) undoOpen() {
	var err error
	e.replica.stop()
	if e.log != nil {
		err = e.log.Close()
	}
	if e.manifest != nil {
		err = errors.Join(err, e.manifest.Close())
	}
	e.Files.Close()
	if err = errors.Join(err, e.letGo()); err != nil {
		e.Opts.Logger.Warn("give up opening", "error", err)
	}
}

// refuseStrangers refuses a directory of another program: one without a manifest, but with files. A
// manifest that was being written when its process died does not count as one. Beside other files of a
// store it was left by a restore that did not finish.
func (e *Engine) refuseStrangers() error {
	names, err := e.Opts.FS.List(e.Dir)
	if err != nil {
		return err
	}
	var own, foreign string
	for _, n := range names {
		_, complete := snapshot.ParseManifestName(n)
		switch {
		case complete:
			return nil
		case n == LockName, snapshot.IsManifestName(n), Beside(n):
		case isOwnName(n), n == wal.MarkName:
			own = n
		default:
			foreign = n
		}
	}
	if own != "" {
		return &fault.CorruptionError{File: own, Kind: "store", Offset: -1,
			Detail: "the manifest is missing, but this file of a store is there: salvage the directory, or restore a backup; if a restore was interrupted here, remove the directory and restore again"}
	}
	if foreign != "" {
		return fmt.Errorf("directory holds %q and no manifest; choose an empty directory: %w", foreign, fault.ErrNotStore)
	}
	return nil
}

func isOwnName(n string) bool {
	_, own := FileNumber(n)
	return own
}

func (e *Engine) takeLock() (err error) {
	e.lock, err = e.lockFile(LockName)
	return err
}

// lockFile takes the lock of a file in the directory, which it makes if there is none.
func (e *Engine) lockFile(base string) (vfs.Lock, error) {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	e.lockText = fmt.Sprintf("pid %d of %s on %s since %s", os.Getpid(), program(), host, e.Opts.Clock().UTC().Format(time.RFC3339))
	name := filepath.Join(e.Dir, base)
	lock, err := e.Opts.FS.Lock(name, e.lockText+"\n")
	if errors.Is(err, vfs.ErrLockHeld) {
		return nil, &fault.LockedError{Dir: e.Dir, Holder: readHolder(e.Opts.FS, name), Here: errors.Is(err, vfs.ErrLockHeldHere)}
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", base, err)
	}
	return lock, nil
}

// program is the name of this program, for people who find its lock.
func program() string {
	exe, err := os.Executable()
	name := filepath.Base(exe)
	if err != nil || len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "a program"
	}
	return name
}

// readHolder returns what the holder of the lock wrote about itself, for messages. It is best effort.
func readHolder(fsys vfs.FS, name string) string {
	f, err := fsys.Open(name)
	if err != nil {
		return ""
	}
	b := make([]byte, 256)
	n, _ := f.ReadAt(b, 0)
	if f.Close() != nil {
		return ""
	}
	// Only text that a store wrote is shown: anybody may have put another file there.
	text, _, _ := strings.Cut(strings.TrimRight(string(b[:n]), "\x00"), "\n")
	if !strings.HasPrefix(text, "pid ") || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return text
}

// loadManifest reads the state of the store, or creates the store.
func (e *Engine) loadManifest() (snapshot.State, error) {
	st, rep, err := snapshot.Load(e.Opts.FS, e.Dir, e.readManifest()...)
	if !errors.Is(err, snapshot.ErrNoManifest) {
		e.useKeys(st, rep.KeyID == "")
		return st, err
	}
	if err := vfs.SyncParents(e.around, e.Dir); err != nil {
		return st, err
	}
	id := e.Opts.Rand()
	for id == 0 {
		id = e.Opts.Rand()
	}
	st = snapshot.State{FormatVersion: snapshot.FormatVersion, StoreID: id, NextFileNum: 1, Created: e.Opts.Clock().UnixMicro(), FloorLSN: 1}
	if e.manifest, err = snapshot.Create(e.Opts.FS, e.Dir, st, e.writeManifest()); err != nil {
		return st, err
	}
	e.useKeys(st, false)
	e.report.Created = true
	return e.manifest.State(), nil
}

func (e *Engine) addFiles(st snapshot.State) {
	for _, l := range st.Logs {
		e.Files.add(base.LogFile, l.Num)
	}
	for _, s := range st.Segments {
		e.Files.add(base.SegmentFile, s.Num)
	}
	for _, im := range st.Images {
		e.Files.add(base.ImageFile, im.Num)
	}
}
