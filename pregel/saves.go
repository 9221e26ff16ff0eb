package pregel

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
)

// saves hands the saves of a run to the saver. It decides their order and time, and under which lease.
// The loop decides what is saved.
type saves struct {
	run      *runConfig
	enc      encoder
	pipe     *pipeline          // nil if nothing is stored, and behind the end of the run
	lastPut  *saveOp            // of the newest checkpoint, or of an ending behind it: graphs inside store nothing before it; nil if there is none
	withNext []saver.TaskWrites // writes to store with the next checkpoint
	owned    ownership
	delta    deltaState
	items    []any // the puts of the supersteps since the last checkpoint that was stored
}

// startOver says that the run lost the thread before, if it did: own waits for it then.
func (s *saves) startOver(again bool) { s.owned.again = again }

// keepItems keeps the puts of a superstep for the next checkpoint that is stored.
func (s *saves) keepItems(puts []any) { s.items = append(s.items, puts...) }

// keepForNext keeps writes to be stored with the next checkpoint.
func (s *saves) keepForNext(w saver.TaskWrites) { s.withNext = append(s.withNext, w) }

// open starts the pipeline, if anything is stored.
func (s *saves) open(ctx context.Context) {
	r := s.run
	if r.saver == nil {
		return
	}
	var observe func(string, time.Duration, error)
	if hook := r.hooks.Save; hook != nil {
		info := RunInfo{Graph: r.g.opts.Name, Version: r.g.version, ThreadID: r.thread, Namespace: r.ns, RunID: r.opts.RunID}
		observe = func(op string, took time.Duration, err error) {
			r.hooks.guard("Save", true, func() { hook(info, op, took, err) })
		}
	}
	s.pipe = newPipeline(ctx, r.env().DrainTimeout, r.storedAround(), observe)
	s.pipe.sync, s.enc.codec = r.saver.Sync, r.saver.Serializer()
	s.pipe.defers = r.opts.DeferSync && r.opts.Durability != Sync
	s.pipe.group = group.Of(r.saver)
}

// ownership is a run's claim to be the only one on its thread. Three things guard it. First, the
// saver's Own decides before the thread is loaded, so the loser has done nothing yet. Second, every
// save has the epoch of the lease (runConfig.lease): a run that lost the thread to another, because its
// process was stopped for longer than its lease lasts, stores nothing any more. Third, every checkpoint
// is stored on condition that the head is the one this run knows. That detects writers that own
// nothing: UpdateState, forks, runs with Options.LangGraph and programs in other languages.
type ownership struct {
	// again: the run lost the thread before and starts over. It waits for the thread.
	again bool
	lease *saver.Lease // nil: nothing to release
	// taken is the error of Own if the run does not own the thread; only a fork continues with it.
	taken error
	// head is the newest checkpoint that this run knows. checked: checkpoints are stored on
	// condition that it is still the newest.
	head    string
	checked bool
}

// own acquires the thread for this run. A run that is addressed to a checkpoint may be a fork, which
// only loading it can tell. Then ownHead decides whether a thread that is taken matters.
func (s *saves) own(ctx context.Context, addressed bool) (err error) {
	o := &s.owned
	switch lease := s.run.opts.Lease; {
	case s.run.nested() || s.run.saver == nil:
		return nil
	case lease != nil:
		s.run.holds(lease)
		o.checked = !s.run.policy.langGraph
		return nil
	case s.run.policy.langGraph:
		return nil
	}
	o.checked = true
	// A node that waits for the thread of its own run would wait for ever.
	_, outside := attemptFrom(ctx)
	wait := o.again && outside != nil
	switch o.lease, err = s.run.saver.Own(ctx, s.run.thread, wait); {
	case err == nil:
		s.run.holds(o.lease)
	case errors.Is(err, ErrConflict):
		o.taken = err
		if addressed {
			return nil
		}
		return err
	case err != nil && ctx.Err() == nil:
		return &PersistError{Op: "own thread " + s.run.thread, Err: err}
	}
	return err
}

// ownHead decides, once the thread is loaded, whether the run may go on: because it owns
// the thread, or because it is a fork. A fork deliberately leaves a checkpoint that is not
// the newest. It goes on beside other runs, which notice when they store their next
// checkpoint.
func (s *saves) ownHead(saved *saver.Tuple, from origin) error {
	o := &s.owned
	if saved != nil {
		o.head = saved.Config.CheckpointID
	}
	if from == originOld || from == originMissing {
		o.checked = false
		return nil
	}
	return o.taken
}

// expected is the head on which the next checkpoint is conditional; nil for no condition.
func (s *saves) expected() *string {
	if !s.owned.checked {
		return nil
	}
	return saver.Head(s.owned.head)
}

// disown releases the thread. It is called when the run's saves have ended.
func (s *saves) disown() {
	if s.owned.lease != nil {
		s.owned.lease.Release()
	}
}

func (s *saves) submitWrites(node string, at saver.Config, writes []saver.Write, taskID, path string) {
	s.submit(s.writesOp(node, at, writes, taskID, path), false)
}

// writesOp is the save of writes against a checkpoint of this graph.
func (s *saves) writesOp(node string, at saver.Config, writes []saver.Write, taskID, path string) *saveOp {
	at.Namespace, at.Epoch = s.run.ns, s.run.epoch
	put := &putWritesOp{s: s.run.saver, at: at, writes: writes, taskID: taskID, path: path}
	op := &put.saveOp
	op.run, op.what, op.barrier = put, "writes", taskID == nullTaskID
	if node != "" {
		op.what, op.of = writesOfNode, node
	}
	return op
}

// submit submits a save of writes. last: they are those of the last task of the superstep, so its
// checkpoint follows immediately.
func (s *saves) submit(op *saveOp, last bool) {
	// Without a codec the saver encodes the values, which must not change meanwhile.
	switch {
	case s.enc.codec == nil:
		_ = s.pipe.store(op) // the pipeline keeps the error
	case last:
		s.pipe.delay(op)
	default:
		s.pipe.submit(op)
	}
}

// putWritesOp stores the writes of a task.
type putWritesOp struct {
	saveOp

	s            saver.Saver
	at           saver.Config
	writes       []saver.Write
	taskID, path string
}

func (o *putWritesOp) save(ctx context.Context) error {
	return o.s.PutWrites(ctx, o.at, o.writes, o.taskID, o.path)
}

// submitCheckpoint stores a checkpoint, as durability requires, with the writes and items that wait for
// it.
func (s *saves) submitCheckpoint(put *putOp) error {
	if s.run.common != nil { // merged once for all checkpoints of the run
		put.md, put.at.Metadata, put.at.Configurable = merged(s.run.common, put.md), nil, nil
	}
	put.at.Namespace, put.at.Epoch, put.at.ExpectHead = s.run.ns, s.run.epoch, s.expected()
	put.writes, s.withNext = s.withNext, nil
	if delayed := s.pipe.takeDelayed(); delayed != nil {
		put.last, _ = delayed.run.(*putWritesOp)
	}
	op := &put.saveOp
	op.run, op.what, op.of, op.barrier = put, "checkpoint", put.cp.ID, true
	s.lastPut, s.owned.head = op, put.cp.ID
	// Sync waits here, before the next superstep. So does a run without a codec, because the
	// saver must encode the values before they change. Items are waited for, so that the next
	// superstep finds them, but not for their sync, unless it is Sync.
	sync := s.run.opts.Durability == Sync
	op.deferred = len(put.changes) > 0 && !sync
	if sync || s.enc.codec == nil || len(put.changes) > 0 {
		return s.pipe.store(op)
	}
	s.pipe.submit(op)
	return nil
}

// putOp stores a checkpoint, and items with it.
type putOp struct {
	saveOp

	s       saver.Saver
	at      saver.Config
	cp      saver.Checkpoint
	md      saver.Metadata
	changed map[string]saver.Version
	changes []saver.Change
	writes  []saver.TaskWrites
	note    *saver.Note
	// last are the writes of the task that ended last, which go with the checkpoint that they
	// made: one commit for both. If it is refused they are stored by themselves, so that the
	// task does not run again; and if it was too large, the checkpoint then as well. May be nil.
	last *putWritesOp
}

func (o *putOp) save(ctx context.Context) error {
	return o.afterPut(ctx, o.put(ctx, o.withLast()))
}

// withLast returns all writes that are stored with the checkpoint.
func (o *putOp) withLast() []saver.TaskWrites {
	w := o.last
	if w == nil {
		return o.writes
	}
	return append(slices.Clip(o.writes), saver.TaskWrites{CheckpointID: w.at.CheckpointID, TaskID: w.taskID, TaskPath: w.path, Writes: w.writes})
}

// afterPut is the outcome of a save whose checkpoint was put with all writes and err.
func (o *putOp) afterPut(ctx context.Context, err error) error {
	switch {
	case o.last == nil || err == nil || errors.Is(err, saver.ErrOutcomeUnknown):
		return err
	case errors.Is(err, saver.ErrTooLarge): // together; by itself each may be within the limits
		if err = o.last.save(ctx); err == nil {
			err = o.put(ctx, o.writes)
		}
		return err
	}
	return alsoFailed(err, o.last.save(ctx))
}

func (o *putOp) put(ctx context.Context, writes []saver.TaskWrites) error {
	_, err := o.s.PutRequest(ctx, o.request(writes))
	return err
}

func (o *putOp) request(writes []saver.TaskWrites) saver.PutRequest {
	return saver.PutRequest{Config: o.at, Checkpoint: o.cp, Metadata: o.md, NewVersions: o.changed, Writes: writes, Changes: o.changes, Note: o.note}
}

// takeItems makes the puts that were collected ready to be committed with a checkpoint.
func (s *saves) takeItems(ctx context.Context) ([]saver.Change, error) {
	ops, err := s.itemOps()
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	change, err := s.run.items.Prepare(ctx, ops...)
	if err != nil {
		return nil, &PersistError{Op: "prepare the items of a superstep", Err: err}
	}
	s.items = nil
	return []saver.Change{change}, nil
}

func (s *saves) itemOps() ([]store.PutOp, error) {
	var all []store.PutOp
	for _, v := range s.items {
		ops, err := opsOf(v)
		if err != nil {
			return nil, &PersistError{Op: "read the items of a superstep", Err: err}
		}
		all = append(all, ops...)
	}
	return all, nil
}

// passItems handles the items of a graph that stores no checkpoints. It passes them to the task around,
// or stores them immediately if there is none.
func (s *saves) passItems(ctx context.Context) error {
	if len(s.items) == 0 {
		return nil
	}
	if s.run.parent != nil {
		for _, v := range s.items {
			s.run.parent.out.write(chItems, v)
		}
		s.items = nil
		return nil
	}
	ops, err := s.itemOps()
	if err != nil {
		return err
	}
	s.items = nil
	// Without a saver there is no commit that could hold all of them.
	for some := range slices.Chunk(ops, itemsAtOnce) {
		batch := make([]store.Op, len(some))
		for i, op := range some {
			batch[i] = op
		}
		if _, err := s.run.items.Batch(ctx, batch...); err != nil {
			return &PersistError{Op: "store the items of a superstep", Err: err}
		}
	}
	return nil
}

// storeAnchor stores an empty checkpoint for the writes of the first run on a thread.
func (s *saves) storeAnchor(id string) saver.Config {
	at := s.delta.initial
	at.Namespace = s.run.ns
	anchor := saver.Checkpoint{V: formatVersion, ID: id, TS: timestamp(s.run.env().Now()),
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{}}
	put := at
	put.CheckpointID, put.ExpectHead, put.Epoch = "", s.expected(), s.run.epoch
	to, note := s.run.saver, &saver.Note{Graph: s.run.g.name, Version: s.run.g.version, Deltas: s.run.g.deltasOf(nil)}
	s.pipe.submit(&saveOp{what: "checkpoint", of: anchor.ID, barrier: true, run: saveFunc(func(ctx context.Context) error {
		_, err := to.PutRequest(ctx, saver.PutRequest{Config: put, Checkpoint: anchor, Metadata: saver.Metadata{"step": -2}, Note: note})
		return err
	})})
	s.owned.head = anchor.ID
	at.CheckpointID = anchor.ID
	return at
}

// keepInCache caches writes, those of t, even if the run was cancelled.
func (s *saves) keepInCache(ctx context.Context, t *task, writes []write) {
	c := s.run.cache
	if c == nil || t.cacheKey == nil {
		return
	}
	ctx = context.WithoutCancel(ctx)
	typed, err := s.enc.encodeKept(writes)
	if err == nil {
		err = c.Set(ctx, cache.Entry{Key: t.cacheKey.Key, Value: typed, TTL: t.cacheKey.ttl})
	}
	if err != nil {
		s.run.env().Logger.Warn("cache store failed", "graph", s.run.g.opts.Name, "node", t.name, "err", err)
	}
}

// settle waits until all saves are durable; a cancelled run does not wait for ever.
func (s *saves) settle(ctx context.Context) error {
	if s.pipe == nil || ctx.Err() != nil {
		return nil // closePipe waits with a bound
	}
	return s.pipe.settle()
}

func (s *saves) closePipe(err error) error {
	if s.pipe == nil {
		return err
	}
	pipe := s.pipe
	s.pipe = nil
	return alsoFailed(err, pipe.close())
}

// putEnding stores an ending of a run that stands at the checkpoint at. It is a barrier, because
// the last ending counts.
func (s *saves) putEnding(at saver.Config, e ending, text string) error {
	task, w := chStopped, write{chStopped, nil}
	switch e {
	case endPlain:
		return nil
	case endRefused:
		task, w = chError, write{chError, text}
	case endWentOn:
		w.channel = chNoWrites
	case endStopped:
	}
	id, err := uuid5(at.CheckpointID, task)
	if err != nil {
		return err
	}
	encoded, err := s.enc.encodeWrites("", []write{w})
	if err != nil {
		return err
	}
	op := s.writesOp("", at, encoded, id, "")
	op.barrier = true
	// Graphs inside store nothing before it.
	s.lastPut = op
	s.pipe.submit(op)
	return nil
}
