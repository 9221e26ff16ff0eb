package engine

import (
	"errors"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// logOptions returns the options to recover the log from record from on. imaged says that the index
// begins with the content of the images.
func (e *Engine) logOptions(st snapshot.State, from base.LSN, imaged bool) wal.RecoverOptions {
	o := wal.RecoverOptions{FS: e.Opts.FS, Dir: e.Dir, Files: st.LogNums(), FromLSN: from,
		Origin: st.StoreID, Mark: e.durable, Salts: st.LogSalts(), ReadOnly: e.Opts.ReadOnly, AllowDamage: e.Opts.AllowDamage, Keys: e.Files.Keys}
	if e.guessed {
		o.Files = nil // the log is found by its own links
	}
	if st.Clean != nil {
		o.DurableLSN = st.Clean.LSN
	}
	if n := len(st.Images); n > 0 {
		at := st.Images[n-1].Log
		if imaged {
			o.From = wal.Position{File: at.File, Offset: at.Offset, Chain: at.Chain, NextLSN: at.NextLSN}
		}
		o.DurableLSN = max(o.DurableLSN, st.Images[n-1].LSN) // the log was synced before the image was named
	}
	return o
}

// readLogAhead begins to read the log while the images are still loaded. The manifest says which record
// comes after them; the records read are used only if the images can be loaded. It returns nil if that
// record is not known, or if nothing may run concurrently. ended is as in recoverLog.
func (e *Engine) readLogAhead(st snapshot.State, ended func(wal.Recovery) error) *logAhead {
	if e.Opts.Inline || e.Opts.AllowDamage || len(st.Images) == 0 && len(st.Segments) > 0 {
		return nil
	}
	from := base.LSN(1)
	if n := len(st.Images); n > 0 {
		from = st.Images[n-1].LSN + 1
	}
	return readLog(e.logReader(e.logOptions(st, from, true)), ended)
}

// logReader returns a function that reads a log, as readLog wants it.
func (e *Engine) logReader(o wal.RecoverOptions) func(func(wal.Entry) error, func(wal.Recovery) error) (wal.Recovery, error) {
	return func(add func(wal.Entry) error, ended func(wal.Recovery) error) (wal.Recovery, error) {
		o.Ended = ended
		return wal.Recover(o, add)
	}
}

// recoverLog replays the log from the record after the image. If ahead is not nil, it has the records.
// ended, if not nil, is called when the end of the log is known, perhaps while the last records are
// replayed.
func (e *Engine) recoverLog(st snapshot.State, ahead *logAhead, ended func(wal.Recovery) error) (wal.Recovery, error) {
	rec, err := e.replayLog(st, ahead, ended)
	if err != nil {
		return rec, err
	}
	e.report.CleanClose = st.Clean != nil
	// After a clean close a torn tail is that of an earlier life: its file is not
	// written to again, and the Open that cut it has reported it.
	if rec.Torn.File != 0 && st.Clean == nil {
		e.report.DroppedBytes, e.report.DroppedFile, e.report.DroppedAt = rec.Torn.Bytes, base.LogFile.Name(rec.Torn.File), rec.Torn.Offset
	}
	for _, d := range rec.Damage {
		e.skip(d)
	}
	return rec, nil
}

func (e *Engine) replayLog(st snapshot.State, ahead *logAhead, ended func(wal.Recovery) error) (wal.Recovery, error) {
	r := &replayer{e: e}
	o := e.logOptions(st, e.Index.LSN()+1, !e.report.IndexRebuilt)
	if e.Opts.Inline {
		e.keepFamilies(st)
		o.Ended = ended
		var b recordBatch
		var dec recordDecoder
		return wal.Recover(o, func(en wal.Entry) error {
			b.reset().add(&dec, &en)
			return r.batch(&b)
		})
	}
	if ahead == nil {
		ahead = readLog(e.logReader(o), ended)
	}
	e.keepFamilies(st)
	return ahead.replayAll(r.batch)
}

// keepFamilies keeps the families in memory during a replay, which may change many partitions after a
// kill. Open releases them.
func (e *Engine) keepFamilies(st snapshot.State) {
	n := min(e.Index.Len(), 2<<10)
	if st.Clean != nil {
		n = 0
	}
	e.Index.KeepFamilies(n)
	e.flusher.expect(n)
}

// openLog makes the copy part of the recovered log and starts writing behind its end.
func (e *Engine) openLog(rec wal.Recovery, end *logEnd) error {
	if end.copy == nil {
		if err := end.copyEnd(rec, 0, e.newFileNum); err != nil {
			return err
		}
		end.relocate(rec)
	}
	start, info, err := end.copy.Publish()
	end.relocated.Wait()
	if err != nil {
		return err
	}
	e.report.Rewritten = len(end.moves.from)
	if info != nil {
		if err := e.logCreated(*info); err != nil {
			return err
		}
	}
	start.NextLSN = max(start.NextLSN, e.Index.LSN()+1)
	if start.File == 0 { // the log begins: tie it to this store
		start.Chain = e.Found.StoreID
	}
	opts := wal.Options{
		FS: e.Opts.FS, Dir: e.Dir, Mode: e.Opts.Sync, Interval: e.Opts.SyncInterval, FileSize: e.Opts.LogFileSize,
		Guard: e.ownsDir, NewFileNum: e.newFileNum, Rand: e.Opts.Rand, OnCreate: e.logCreated, Apply: e.applied, Abort: e.aborted,
		Inline: e.Opts.Inline, Keys: e.Files.Keys, Start: start, Origin: e.Found.StoreID, Reserve: max(e.Opts.Reserve, 0), LowSpace: max(e.Opts.LowSpace, 0),
		Events: wal.Events{
			SlowSync:   e.noteSlowSync,
			LowSpace:   e.noteLowSpace,
			Poisoned:   e.noteWriteError,
			DiskFull:   e.noteWriteError,
			MarkFailed: func(err error) { e.Opts.Logger.Warn("durable mark", "error", err) },
		},
	}
	if e.Opts.Replica.Bucket != nil {
		opts.Replicate = e.replica.give
		if opts.Mode == wal.SyncNever { // the bucket gets what is durable
			opts.Mode = wal.SyncInterval
		}
	}
	e.log, err = wal.New(opts)
	return err
}

// errMoved is the error for copied records that are out of order. The log never copies them so.
var errMoved = errors.New("records out of order")
