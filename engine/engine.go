package engine

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// Engine is an open store. All methods are safe for concurrent use.
type Engine struct {
	*Store
	garbage   *garbageEstimate
	images    *imageStack
	flusher   *flusher
	compactor *compactor

	around      vfs.FS   // where the directory lies; Options.FS is the directory alone
	lock        vfs.Lock // nil if read-only
	lockText    string   // what the lock file says of this writer
	guessed     bool     // the state was made without a manifest
	upTo        base.LSN // replay no further
	manifestKey string   // of a read-only store's manifest
	durable     wal.Mark // as Open found it
	revisions   *revisionCache
	replica     *replication // nil without one
	follower    *follower    // nil unless the store follows a leader
	role        role
	report      metrics.OpenReport

	unpublished unpublished // committer only
	scratch     scratch     // committer only

	watchesMu sync.Mutex
	watches   []*Watch

	closeOnce sync.Once

	wake        chan struct{} // the worker: flush or image
	wakeCompact chan struct{} // the compactor
	reclaim     atomic.Bool   // the worker's next turn flushes, whatever is due
	refusing    atomic.Bool   // a commit was refused for want of space, and none was made since that is not urgent
	stopWork    context.CancelFunc
	workers     sync.WaitGroup

	patches, patchedBytes, patchBytes atomic.Int64
	commits                           Latency
	valueBytes                        atomic.Int64
	poisonNoted                       atomic.Bool
	refusal                           atomic.Pointer[refusal] // the last one of a commit, by the system
	lockLost                          atomic.Pointer[error]   // see ownsDir
	isOpen                            atomic.Bool             // see stillWanted
	workErr, compactErr               atomic.Pointer[error]   // of the last turn of worker and compactor; nil if it succeeded
}

// Report says what Open found.
func (e *Engine) Report() metrics.OpenReport { return e.report }

// Sync returns nil when every commit that returned before is settled: visible and on
// stable storage, or never to be either. See saver.Saver.Sync.
func (e *Engine) Sync(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := e.Enter(); err != nil {
		return err
	}
	defer e.Leave()
	if e.MayWrite() != nil {
		return nil
	}
	if err := e.log.Sync(ctx); err != nil {
		e.noteWriteError(err)
		return err
	}
	return nil
}

// Flush moves the log into segments. The store does it by itself every Options.FlushBytes.
func (e *Engine) Flush(ctx context.Context) error { return e.flusher.flush(ctx) }

// Compact flushes and merges all segments: see compactor.compact.
func (e *Engine) Compact(ctx context.Context) error { return e.compactor.compact(ctx) }

// CompactStep merges what is due once, and reports whether anything was. The store does it
// by itself until nothing is due.
func (e *Engine) CompactStep(ctx context.Context) (bool, error) { return e.compactor.compactStep(ctx) }

// WriteImage writes what changed since the last image, so that the next Open
// replays less. The worker does it every Options.ImageBytes.
func (e *Engine) WriteImage(ctx context.Context) error {
	if err := e.enterToWrite(); err != nil {
		return err
	}
	defer e.Leave()
	e.images.mu.Lock()
	defer e.images.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return e.images.Write(false)
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
	e.follower.stop()
	e.replica.closing()
	e.refuseCalls()
	if e.stopWork != nil {
		e.stopWork()
		e.workers.Wait()
	}
	e.awaitCalls()
	err := e.closeWriter()
	e.Files.Close()
	if err = errors.Join(err, e.letGo()); err != nil {
		return fmt.Errorf("close store %s: %w", e.Dir, err)
	}
	return nil
}

// closeWriter closes the store so that it opens without replay. It writes an image, the end of the log
// and the manifest, in this order, so that each names only what is durable.
func (e *Engine) closeWriter() error {
	if e.log == nil {
		return nil
	}
	var errs []error
	if e.log.Metrics().Records > 0 || e.report.Replayed > 0 || e.report.IndexRebuilt || e.badPages.Load() {
		errs = append(errs, e.flusher.saveAtClose())
	}
	errs = append(errs, e.log.Close())
	mark := e.replica.close(errs[len(errs)-1])
	unchanged := e.manifest.Untouched() && e.manifest.State().Clean != nil && mark == nil
	if errors.Join(errs...) == nil && !unchanged {
		_, err := e.manifest.Apply(snapshot.Edit{Clean: e.cleanClose(), Replica: mark})
		errs = append(errs, err)
	}
	errs = append(errs, e.manifest.Close())
	return errors.Join(errs...)
}

// cleanClose returns the place where the log ends, for the manifest. A flush may have removed its last
// file.
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

// logCreated makes a new log file part of the store before its first record.
func (e *Engine) logCreated(info wal.FileInfo) error {
	if e.flusher.logBegun(e.unpublished.patches) {
		e.replica.cutBehind(e.Index.LSN())
	}
	e.Files.addKeyed(base.LogFile, info.Num, info.KeyID)
	_, err := e.manifest.Apply(snapshot.Edit{AddLogs: []snapshot.LogInfo{{Num: info.Num, BaseLSN: info.BaseLSN, Salt: info.Salt}}})
	return err
}
