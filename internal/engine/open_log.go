package engine

import (
	"fmt"
	"time"

	"github.com/stele-go/stele/internal/base"
	"github.com/stele-go/stele/snapshot"
	"github.com/stele-go/stele/wal"
)

// recoverLog replays the log from the record after the image.
func (e *Engine) recoverLog(st snapshot.State) (wal.Recovery, error) {
	o := wal.RecoverOptions{FS: e.opts.FS, Dir: e.dir, Files: logNums(st), FromLSN: e.ix.LSN() + 1,
		ReadOnly: e.opts.ReadOnly, AllowDamage: e.opts.AllowDamage}
	if n := len(st.Images); n > 0 && !e.report.IndexRebuilt {
		at := st.Images[n-1].Log
		o.From = wal.Start{File: at.File, Offset: at.Offset, Chain: at.Chain, NextLSN: at.NextLSN}
		o.DurableLSN = st.Images[n-1].LSN
	}
	if st.Clean != nil {
		o.DurableLSN = st.Clean.LSN
	}
	rec, err := wal.Recover(o, e.replay)
	if err != nil {
		return rec, err
	}
	e.report.CleanClose = st.Clean != nil
	e.report.DroppedBytes, e.report.DroppedFile, e.report.DroppedAt = rec.Torn.Bytes, "", rec.Torn.Offset
	if rec.Torn.File != 0 {
		e.report.DroppedFile = wal.FileName(rec.Torn.File)
	}
	for _, d := range rec.Damage {
		e.report.Damage = append(e.report.Damage, d)
	}
	return rec, nil
}

// logNums are the log files the manifest names, oldest first; never nil, as nil
// would ask for whatever is in the directory.
func logNums(st snapshot.State) []base.FileNum {
	nums := make([]base.FileNum, 0, len(st.Logs))
	for _, l := range st.Logs {
		nums = append(nums, l.Num)
	}
	return nums
}

// openLog recovers the log and starts writing behind its end. What lies above the
// highest promise is first copied to a new file: after a crash the page cache
// may show what the disk does not have.
func (e *Engine) openLog(st snapshot.State) error {
	rec, err := e.recoverLog(st)
	if err != nil {
		return err
	}
	moved := func(en wal.Entry) error {
		e.report.Rewritten++
		return e.relocate(en)
	}
	start, info, err := wal.Rewrite(wal.RewriteOptions{FS: e.opts.FS, Dir: e.dir, NewFileNum: e.logFileNum, Rand: e.opts.Rand, Moved: moved}, rec)
	if err != nil {
		return err
	}
	if info != nil {
		if err := e.logCreated(*info); err != nil {
			return err
		}
	}
	start.NextLSN = max(start.NextLSN, e.ix.LSN()+1)
	e.log, err = wal.New(wal.Options{
		FS: e.opts.FS, Dir: e.dir, Mode: e.opts.Sync, Interval: e.opts.SyncInterval, FileSize: e.opts.LogFileSize,
		NewFileNum: e.logFileNum, Rand: e.opts.Rand, OnCreate: e.logCreated, Apply: e.applied, Abort: e.aborted,
		Inline: e.opts.Inline, Start: start,
		Events: wal.Events{
			SlowSync: func(took time.Duration) { e.opts.Logger.Warn("slow sync", "took", took) },
			Poisoned: e.noteWriteError,
			DiskFull: e.noteWriteError,
		},
	})
	return err
}

// relocate tells the families where the values of a copied record lie now.
func (e *Engine) relocate(en wal.Entry) error {
	rec, err := decodeRecord(en.Payload)
	if err != nil {
		return fmt.Errorf("record %d: %w", en.LSN, err)
	}
	for i := range rec.ops {
		o := &rec.ops[i]
		t := e.ix.Thread(o.id)
		if o.kind != opPut || t == nil {
			continue
		}
		relocateSlots(t.Family, o, en)
	}
	return nil
}
