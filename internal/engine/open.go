package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/segment"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// lockName is the file that is locked while a writer has the store.
const lockName = "LOCK"

// Open opens the store in dir, creating it if dir is empty or missing. What a
// crash left behind is recovered; Report tells what that was.
//
// Errors: LockedError if another writer has the store; ErrNotStore for a
// directory with other files; VersionError for a store of a newer format;
// CorruptionError if anything acknowledged is damaged in log or manifest.
func Open(dir string, opts Options) (*Engine, error) {
	if err := opts.Validate(); err != nil {
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	start := time.Now()
	e := &Engine{dir: dir, opts: opts.withDefaults(), ix: index.New(), queue: newQueue(),
		unflushed: unflushed{fams: map[uint64]*index.Family{}}, wake: make(chan struct{}, 1)}
	e.cache = newBlockCache(e.opts.CacheBytes)
	e.files = newFileSet(e.opts.FS, dir, func(err error) { e.opts.Logger.Warn("files", "error", err) })
	err := e.open()
	if err != nil {
		e.undoOpen()
		return nil, fmt.Errorf("open store %s: %w", dir, err)
	}
	e.report.Took = time.Since(start)
	e.opts.Logger.Info("opened", "threads", e.ix.Len(), "lsn", e.ix.LSN(), "replayed", e.report.Replayed,
		"dropped_bytes", e.report.DroppedBytes, "took", e.report.Took)
	if !e.opts.ReadOnly && !e.opts.ManualWork {
		var ctx context.Context
		ctx, e.stopWork = context.WithCancel(context.Background())
		e.workDone = make(chan struct{})
		go e.work(ctx)
	}
	return e, nil
}

func (e *Engine) open() error {
	if e.opts.ReadOnly {
		return e.openReadOnly()
	}
	if err := e.opts.FS.MkdirAll(e.dir); err != nil {
		return err
	}
	if err := e.refuseStrangers(); err != nil {
		return err
	}
	if err := e.takeLock(); err != nil {
		return err
	}
	created, err := e.openManifest()
	if err != nil {
		return err
	}
	e.report.Created = created
	st := e.manifest.State()
	e.nextNum, e.reserved = st.NextFileNum, st.NextFileNum
	if err := e.sweep(st); err != nil {
		return err
	}
	e.addFiles(st)
	if err := e.loadIndex(st); err != nil {
		return err
	}
	return e.openLog(st)
}

// undoOpen gives back what a failed Open took.
func (e *Engine) undoOpen() {
	var err error
	if e.log != nil {
		err = e.log.Close()
	}
	if e.manifest != nil {
		err = errors.Join(err, e.manifest.Close())
	}
	e.files.close()
	if e.lock != nil {
		err = errors.Join(err, e.lock.Close())
	}
	if err != nil {
		e.opts.Logger.Warn("give up opening", "error", err)
	}
}

// refuseStrangers keeps stele from settling in a directory of somebody else: one
// without a manifest, but with files.
func (e *Engine) refuseStrangers() error {
	names, err := e.opts.FS.List(e.dir)
	if err != nil {
		return err
	}
	var own, foreign string
	for _, n := range names {
		switch {
		case snapshot.IsManifestName(n):
			return nil
		case n == lockName:
		case isOwnName(n):
			own = n
		default:
			foreign = n
		}
	}
	if own != "" {
		return &base.CorruptionError{File: own, Kind: "store", Offset: -1, Detail: "the manifest is missing, but this file of a store is there; salvage the directory, or restore a backup"}
	}
	if foreign != "" {
		return fmt.Errorf("directory holds %q and no manifest; choose an empty directory: %w", foreign, base.ErrNotStore)
	}
	return nil
}

func isOwnName(n string) bool {
	_, isLog := wal.ParseFileName(n)
	_, isSeg := segment.ParseFileName(n)
	_, isImg := snapshot.ParseImageName(n)
	return isLog || isSeg || isImg
}

func (e *Engine) takeLock() error {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("pid %d on %s since %s\n", os.Getpid(), host, e.opts.Clock().UTC().Format(time.RFC3339))
	name := filepath.Join(e.dir, lockName)
	lock, err := e.opts.FS.Lock(name, text)
	if errors.Is(err, vfs.ErrLockHeld) {
		return &base.LockedError{Dir: e.dir, Holder: readHolder(e.opts.FS, name)}
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", lockName, err)
	}
	e.lock = lock
	return nil
}

// readHolder is what the holder wrote about itself; best effort, for people.
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
	return strings.TrimSpace(strings.TrimRight(string(b[:n]), "\x00"))
}

func (e *Engine) openManifest() (created bool, err error) {
	o := snapshot.Options{Rand: e.opts.Rand}
	e.manifest, _, err = snapshot.Open(e.opts.FS, e.dir, o)
	if !errors.Is(err, snapshot.ErrNoManifest) {
		return false, err
	}
	id := e.opts.Rand()
	for id == 0 {
		id = e.opts.Rand()
	}
	st := snapshot.State{FormatVersion: storeFormat, StoreID: id, NextFileNum: 1, Created: e.opts.Clock().UnixMicro(), FloorLSN: 1}
	e.manifest, err = snapshot.Create(e.opts.FS, e.dir, st, o)
	return true, err
}

// storeFormat is the format version of stores this build writes. It changes when
// an older build would misread what is written; docs/format has its history.
const storeFormat = 1

func (e *Engine) addFiles(st snapshot.State) {
	for _, l := range st.Logs {
		e.files.add(kindLog, l.Num)
	}
	for _, s := range st.Segments {
		e.files.add(kindSegment, s.Num)
	}
	for _, im := range st.Images {
		e.files.add(kindImage, im.Num)
	}
}

// sweep removes leftovers of a crash: files with numbers the manifest handed out
// and does not name. All others stay, and are reported.
func (e *Engine) sweep(st snapshot.State) error {
	named := map[string]bool{lockName: true}
	for _, l := range st.Logs {
		named[wal.FileName(l.Num)] = true
	}
	for _, s := range st.Segments {
		named[segment.FileName(s.Num)] = true
	}
	for _, im := range st.Images {
		named[snapshot.ImageName(im.Num)] = true
	}
	names, err := e.opts.FS.List(e.dir)
	if err != nil {
		return err
	}
	for _, n := range names {
		if named[n] || snapshot.IsManifestName(n) {
			continue
		}
		num, own := ownNumber(n)
		if !own || num >= st.NextFileNum {
			e.report.UnknownFiles = append(e.report.UnknownFiles, n)
			if own {
				e.nextNum = max(e.nextNum, num+1)
			}
			continue
		}
		if err := e.opts.FS.Remove(filepath.Join(e.dir, n)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove leftover %s: %w", n, err)
		}
		e.report.RemovedFiles = append(e.report.RemovedFiles, n)
	}
	return nil
}

func ownNumber(name string) (base.FileNum, bool) {
	for _, parse := range []func(string) (base.FileNum, bool){wal.ParseFileName, segment.ParseFileName, snapshot.ParseImageName} {
		if n, ok := parse(name); ok {
			return n, true
		}
	}
	return math.MaxUint64, false
}
