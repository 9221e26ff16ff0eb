package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/fault"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/internal/files"
	"github.com/stele-go/stele/internal/metric"
	"github.com/stele-go/stele/internal/seal"
	"github.com/stele-go/stele/internal/vfs"
	"github.com/stele-go/stele/monitor"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Engine is an open store. All methods are safe for concurrent use.
type Engine struct {
	dir  string
	opts Options

	around      vfs.FS             // where the directory lies; opts.FS is the directory alone
	held        vfs.Dir            // the directory
	lock        vfs.Lock           // nil if read-only
	lockText    string             // what it says of this writer
	manifest    *snapshot.Manifest // nil if read-only
	fixed       snapshot.State     // the state of a read-only store
	guessed     bool               // fixed was put together without a manifest
	upTo        base.LSN           // replay no further; 0: to the end of the log
	log         *wal.Log           // nil if read-only
	keys        *seal.Keys         // nil without encryption
	manifestKey string             // of a read-only store's manifest
	durable     wal.Mark           // as Open found it
	files       *files.Set
	cache       *blockCache
	revisions   *revisionCache
	ix          *index.Index
	report      monitor.OpenReport
	skipped     skipped // with Options.AllowDamage

	queue   queue   // committer only
	scratch scratch // committer only

	unflushed  *unflushed
	garbage    *garbage
	sealed     sealView
	patchFloor atomic.Uint64 // the oldest record whose values may be bases; see mayBeBase

	throttle   throttle
	logBytes   atomic.Int64 // committed since the last flush
	imageBytes atomic.Int64 // committed since the last image

	directoryLimit int           // maxDirectory; smaller in tests
	yieldEvery     time.Duration // yieldEvery; nothing in tests
	giveTurn       func()        // vfs.Yield, but in tests

	compactMu sync.Mutex   // one compaction at a time
	workViews atomic.Int32 // views of flushes and compactions

	unfinished atomic.Bool // a compaction may have ended between its first output and its last

	flushMu   sync.Mutex  // one flush, image or end of a compaction at a time; guards the next two
	badImages bool        // the chain of images could not be read
	chain     chainSize   // of the images
	forgotten bool        // the manifest names no image, because of badPages
	badPages  atomic.Bool // a page of an image is damaged

	numMu    sync.Mutex // guards the next two
	nextNum  base.FileNum
	reserved base.FileNum

	life      sync.RWMutex // guards closed against new calls
	closed    bool
	calls     sync.WaitGroup
	closeOnce sync.Once

	wake        chan struct{} // the worker: flush or image
	wakeCompact chan struct{} // the compactor
	stopWork    context.CancelFunc
	workers     sync.WaitGroup

	flushes, images, compactions, loads, corruptions  atomic.Uint64
	compactedIn, compactedOut                         atomic.Int64
	patches, patchedBytes, patchBytes, segmentPatches atomic.Int64
	resolved                                          atomic.Int64           // patches applied by readers
	lastRecent                                        atomic.Pointer[recent] // of the Reader used last that was ended
	commits                                           metric.Latency
	valueBytes, flushedValues, flushedBytes           atomic.Int64
	poisonNoted                                       atomic.Bool
	lockLost                                          atomic.Pointer[error] // see ownsDir
	isOpen                                            atomic.Bool           // see stillWanted
	workErr, compactErr                               atomic.Pointer[error] // of the last turn of worker and compactor; nil if it succeeded
}

// Dir is the directory of the store.
func (e *Engine) Dir() string { return e.dir }

// Report says what Open found.
func (e *Engine) Report() monitor.OpenReport { return e.report }

// state is the manifest's, or what a read-only store found.
func (e *Engine) state() snapshot.State {
	if e.manifest == nil {
		return e.fixed
	}
	return e.manifest.State()
}

// floor is the last record that is in segments for good.
func (e *Engine) floor() base.LSN {
	f := e.fixed.FloorLSN
	if e.manifest != nil {
		f = e.manifest.FloorLSN()
	}
	return f - min(f, 1)
}

// Sync returns nil when every commit that returned before is settled: visible and on
// stable storage, or never to be either. See saver.Coordinator.
func (e *Engine) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	if e.opts.ReadOnly {
		return nil
	}
	if err := e.log.Sync(ctx); err != nil {
		e.noteWriteError(err)
		return err
	}
	return nil
}

// WriteImage writes what changed since the last image, so that the next Open
// replays less. The worker does it every Options.ImageBytes.
func (e *Engine) WriteImage(ctx context.Context) error {
	if e.opts.ReadOnly {
		return fault.ErrReadOnly
	}
	if err := e.enter(); err != nil {
		return err
	}
	defer e.leave()
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.writeImage(false)
}

// Close waits for calls in progress, makes everything durable, and releases the
// directory. Views must be released before. A second Close waits for the first
// and returns nil. After an error the store is closed all the same, and the next
// Open recovers it.
func (e *Engine) Close() (err error) {
	e.closeOnce.Do(func() { err = e.close() })
	return err
}

func (e *Engine) close() error {
	e.life.Lock()
	e.closed = true
	e.life.Unlock()
	if e.stopWork != nil {
		e.stopWork()
		e.workers.Wait()
	}
	e.calls.Wait()
	err := e.closeWriter()
	e.files.Close()
	if err = errors.Join(err, e.letGo()); err != nil {
		return fmt.Errorf("close store %s: %w", e.dir, err)
	}
	return nil
}

// maxIdleLogs is how many log files a closed store may leave: each life writes
// its own, and many short lives should not make Open slow.
const maxIdleLogs = 8

// closeWriter leaves a store that opens without replay: image, end of log,
// manifest, in this order, so that each names only what is durable.
func (e *Engine) closeWriter() error {
	if e.log == nil {
		return nil
	}
	var errs []error
	if e.log.Metrics().Records > 0 || e.report.Replayed > 0 || e.report.IndexRebuilt || e.badPages.Load() {
		errs = append(errs, e.closeImage())
	}
	errs = append(errs, e.log.Close())
	unchanged := e.manifest.Untouched() && e.manifest.State().Clean != nil
	if errors.Join(errs...) == nil && !unchanged {
		_, err := e.manifest.Apply(snapshot.Edit{Clean: e.cleanClose()})
		errs = append(errs, err)
	}
	errs = append(errs, e.manifest.Close())
	return errors.Join(errs...)
}

// cleanClose is where the log ended. A flush may have removed its last file.
func (e *Engine) cleanClose() *snapshot.CleanClose {
	clean := &snapshot.CleanClose{LSN: e.log.LastLSN()}
	end := e.log.Position()
	for _, l := range e.manifest.State().Logs {
		if l.Num == end.File {
			clean.LogNum, clean.LogEnd = end.File, end.Offset
		}
	}
	return clean
}

func (e *Engine) closeImage() error {
	e.flushMu.Lock()
	defer e.flushMu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if e.badPages.Load() {
		return e.forgetImages()
	}
	write := func() error { return errors.Join(e.writeImage(false), e.recordDropped()) }
	if len(e.manifest.State().Logs) > maxIdleLogs {
		write = func() error { return e.flush(ctx) }
	}
	err := write()
	if e.badPages.Load() { // found just now
		return e.forgetImages()
	}
	return err
}

// closeTimeout bounds the flush of a Close.
const closeTimeout = time.Minute

// reserve makes file numbers below next known to the manifest.
func (e *Engine) reserve(next base.FileNum) error {
	_, err := e.manifest.Apply(snapshot.Edit{NextFileNum: next})
	return err
}

// logCreated makes a new log file part of the store before its first record.
func (e *Engine) logCreated(info wal.FileInfo) error {
	e.sealed.begun(e.ix, e.queue.patches)
	e.files.AddKeyed(files.Log, info.Num, info.KeyID)
	_, err := e.manifest.Apply(snapshot.Edit{AddLogs: []snapshot.LogInfo{{Num: info.Num, BaseLSN: info.BaseLSN, Salt: info.Salt}}})
	return err
}
