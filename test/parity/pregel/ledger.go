package traces

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stele-go/stele/base/vfs/crashfs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/savertest"
)

// ledger is a disk saver that notes what it stored, in order, and makes one save
// after another: between two of them nothing is half stored.
type ledger struct {
	*disk.Saver
	fs     *crashfs.FS     // nil: not simulated
	stored func(k saveKey) // told of each save before its caller is; may be nil

	// mu is held while a save is made; it guards acks and times.
	mu    sync.Mutex
	acks  []ack
	times map[saveKey]int
}

// saveKey names one save of a scenario, whatever order saves are made in.
type saveKey struct {
	What string // the checkpoint, or the task and its checkpoint
	Nth  int    // a task may store more than once
}

// ack is one save that was acknowledged.
type ack struct {
	key    saveKey
	seq    int
	put    bool // of a checkpoint
	thread string
	ns     string
	// checkpoint is the id of the checkpoint, or of the one the writes belong to.
	checkpoint string
	task       string
	source     string
	step       int
	ended      bool // the writes are the output of a task
	handled    bool // the writes are the failure of a task that has a handler
	failed     bool // the writes are the failure of a task that nobody handles
	minted     int  // of a checkpoint: how many ids were made up to its own
	at         int  // length of the disk's log of operations
}

func (l *ledger) len() int {
	if l == nil {
		return 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acks)
}

func (l *ledger) noteLocked(a ack) {
	what := fmt.Sprint(a.put, " ", a.thread, " ", a.ns, " ", a.checkpoint, " ", a.task)
	if l.times == nil {
		l.times = map[saveKey]int{}
	}
	first := saveKey{What: what}
	a.key, a.seq = saveKey{what, l.times[first]}, len(l.acks)
	l.times[first]++
	if l.fs != nil {
		a.at = l.fs.Len()
	}
	l.acks = append(l.acks, a)
	if l.stored != nil {
		l.stored(a.key)
	}
}

// Put notes the checkpoint when it is acknowledged.
func (l *ledger) Put(c context.Context, cfg saver.Config, cp saver.Checkpoint, md saver.Metadata, v map[string]saver.Version) (saver.Config, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, err := l.Saver.Put(c, cfg, cp, md, v)
	if err == nil {
		step, _ := md.Step()
		l.noteLocked(ack{put: true, thread: cfg.ThreadID, ns: cfg.Namespace, checkpoint: cp.ID, source: md.Source(), step: step, minted: mintedUpTo(cp.ID)})
	}
	return at, err
}

// PutRequest stores checkpoint and writes one after the other, so that a cut may come between.
func (l *ledger) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	return savertest.Apart(c, req, l.PutWrites, l.putRequest)
}

func (l *ledger) putRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	at, err := l.Saver.PutRequest(c, req)
	if err == nil && saver.SyncDeferred(c) {
		err = l.Saver.Sync(c) // between two saves none is deferred
	}
	if err == nil {
		step, _ := req.Metadata.Step()
		l.noteLocked(ack{put: true, thread: req.Config.ThreadID, ns: req.Config.Namespace, checkpoint: req.Checkpoint.ID,
			source: req.Metadata.Source(), step: step, minted: mintedUpTo(req.Checkpoint.ID)})
	}
	return at, err
}

// PutWrites makes writes durable and notes them.
func (l *ledger) PutWrites(c context.Context, cfg saver.Config, ws []saver.Write, id, path string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.Saver.PutWrites(c, cfg, ws, id, path)
	if err == nil {
		err = l.Saver.Sync(c) // it may have been deferred: between two saves nothing is
	}
	if err == nil {
		l.noteLocked(ack{thread: cfg.ThreadID, ns: cfg.Namespace, checkpoint: cfg.CheckpointID, task: id,
			ended: id != nullTask && slices.ContainsFunc(ws, isOutput), failed: wrote(ws, "__error__") && !wrote(ws, "__error_source_node__"),
			handled: wrote(ws, "__error_source_node__")})
	}
	return err
}

// DeleteThread notes that the thread is gone.
func (l *ledger) DeleteThread(c context.Context, thread string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.Saver.DeleteThread(c, thread)
	if err == nil {
		l.noteLocked(ack{thread: thread})
	}
	return err
}

// isOutput tells what a task produced from what happened to it.
func isOutput(w saver.Write) bool {
	switch w.Channel {
	case "__interrupt__", "__resume__", "__error__", "__error_source_node__":
		return false
	}
	return true
}

func wrote(ws []saver.Write, channel string) bool {
	return slices.ContainsFunc(ws, func(w saver.Write) bool { return w.Channel == channel })
}
