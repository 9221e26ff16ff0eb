package pregel

import (
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store/cache"
)

// putWrites records what a task wrote, and stores it at once unless durability is Exit. t
// is nil for writes of no task.
func (l *loop) putWrites(t *task, taskID string, writes []write) error {
	encoded, err := l.pos.record(&l.saves.enc, t, taskID, writes)
	if err != nil || len(encoded) == 0 {
		return err
	}
	path, node := t.placed()
	l.saves.submitWrites(node, l.pos.here(), encoded, taskID, path)
	return nil
}

// putCheckpoint makes the checkpoint that ends a superstep, or the input, and
// stores it as durability asks.
func (l *loop) putCheckpoint(ctx context.Context, source string) error {
	if err := l.storeCheckpoint(ctx, l.pos.describe(source), false); err != nil {
		return err
	}
	if err := l.saves.enc.channelsAgain(l.pos.set); err != nil {
		return err
	}
	l.pos.countStep()
	return nil
}

// storeCheckpoint makes the next checkpoint. At the end of an Exit run, exiting, it keeps
// the id of the current one. Without a saver, or earlier under Exit, it stores nothing.
func (l *loop) storeCheckpoint(ctx context.Context, counts counters, exiting bool) error {
	stores := l.run.saver != nil && (exiting || !l.run.exits())
	captured, whole, err := l.pos.checkpoint(counts, l.saves.delta.forced, stores, exiting)
	if err != nil || !stores {
		return err
	}
	l.saves.delta.storedWhole(whole)
	p := &l.pos
	put := &putOp{s: l.run.saver, at: p.place, md: p.md, changed: newVersions(p.stored, p.cp.versions)}
	if put.cp, err = l.saves.enc.encodeCheckpoint(p.cp, captured, put.changed); err != nil {
		return err
	}
	if put.changes, err = l.saves.takeItems(ctx); err != nil {
		return err
	}
	put.note = p.note(exiting)
	p.storedAs(put.cp.ID, put.cp.Versions)
	return l.saves.submitCheckpoint(put)
}

// storeAtExit stores what an Exit run kept back: writes to delta channels, the
// last checkpoint, and what the unfinished superstep's tasks wrote.
func (l *loop) storeAtExit(ctx context.Context) error {
	if err := l.storeExitDeltas(); err != nil {
		return err
	}
	if l.pos.cp.id != l.pos.savedID {
		if err := l.storeCheckpoint(ctx, countersOf(l.pos.md), true); err != nil {
			return err
		}
	}
	var kept []string // of tasks, in the order of their first writes
	pending := map[string][]answer.Write{}
	for _, w := range l.pos.scan() {
		if !l.pos.written[w.TaskID] {
			continue
		}
		if pending[w.TaskID] == nil {
			kept = append(kept, w.TaskID)
		}
		pending[w.TaskID] = append(pending[w.TaskID], w)
	}
	for _, id := range kept {
		if err := l.submitKept(l.pos.tasks.get(id), id, pending[id]); err != nil {
			return err
		}
	}
	return nil
}

// submitKept stores writes of a task that were kept back. t is nil if the loop does not know it.
func (l *loop) submitKept(t *task, taskID string, kept []answer.Write) error {
	path, node := t.placed()
	var writes []write
	for _, w := range kept {
		if !w.IsSpent() {
			writes, path = append(writes, write{w.Channel, w.Value}), w.Path
		}
	}
	encoded, err := l.saves.enc.encodeWrites(node, writes)
	if err == nil && len(encoded) > 0 {
		op := l.saves.writesOp(node, l.pos.here(), encoded, taskID, path)
		op.barrier = op.barrier || writes[0].channel == chWaits || writes[0].channel == chAnswers || writes[0].channel == chAnswersOver // as where they are recorded
		l.saves.submit(op, false)
	}
	return err
}

// storeNow stores the checkpoint of an Exit run that the superstep starts from, as at the
// end of the run. The run goes on as if it had begun with it. Delta channels are stored
// whole, so that they can be read without the writes that were kept back.
func (l *loop) storeNow(ctx context.Context) error {
	if l.pos.cp.id == l.pos.savedID {
		return nil
	}
	l.saves.delta.forceKeptBack()
	if err := l.storeCheckpoint(ctx, countersOf(l.pos.md), true); err != nil {
		return err
	}
	l.pos.beginHere()
	l.saves.delta.restart(l.pos.place)
	for _, w := range l.pos.scan() {
		if w.Channel == chWaits && l.pos.written[w.TaskID] { // an effect behind a wait may rest on this checkpoint
			if err := l.submitKept(nil, w.TaskID, []answer.Write{w}); err != nil {
				return err
			}
		}
	}
	return nil
}

// storeExitDeltas stores the run's writes to delta channels on the checkpoint that it began
// with, except for channels that are stored whole.
func (l *loop) storeExitDeltas() error {
	if len(l.saves.delta.exit) == 0 {
		return nil
	}
	if l.pos.from.found() && l.pos.from != originNewest {
		l.saves.delta.forceKeptBack()
	}
	order, writes := l.saves.delta.exitWrites(l.run.g.dueSnapshots(l.pos.set, countersOf(l.pos.md), l.pos.cp.versions, l.saves.delta.forced))
	if len(order) == 0 {
		return nil
	}
	anchor := l.saves.delta.initial
	if !l.pos.from.found() {
		anchor = l.saves.storeAnchor(l.pos.savedID)
		l.pos.moveTo(anchor.CheckpointID)
	}
	for _, t := range order {
		encoded, err := l.saves.enc.encodeWrites("", writes[t])
		if err != nil {
			return err
		}
		l.saves.submitWrites("", anchor.At(anchor.CheckpointID), encoded, t.id, t.path)
	}
	return nil
}

// keepDeltaInput makes sure that the input of a delta channel can be read back. If the run
// starts from the newest stored checkpoint, the input is stored as writes of that;
// otherwise the channel is stored whole. The writes go into one call with the input
// checkpoint, because on their own they would make a thread that waits at a breakpoint look
// as if it had been resumed.
func (l *loop) keepDeltaInput(writes []write) error {
	mine := l.saves.delta.among(writes)
	if len(mine) == 0 {
		return nil
	}
	if l.run.exits() {
		l.saves.delta.keepBackNull(l.pos.step, mine)
		return nil
	}
	if l.pos.from == originNewest {
		id, err := uuid5(l.pos.cp.id, Input)
		if err != nil {
			return err
		}
		encoded, err := l.pos.record(&l.saves.enc, nil, id, mine)
		l.saves.keepForNext(saver.TaskWrites{CheckpointID: l.pos.cp.id, TaskID: id, Writes: encoded})
		return err
	}
	l.saves.delta.forceWritten(mine)
	return nil
}

// storeEnding stores the ending of a run that ended with err, if it has one.
func (l *loop) storeEnding(ctx context.Context, err error) error {
	if l.saves.pipe == nil || l.pos.status == "" || l.run.policy.langGraph || errors.Is(err, ErrPersist) {
		return nil
	}
	in, stopped := err.(*InterruptError) //nolint:errorlint // the loop's own
	stopped = stopped && (l.pos.ending == endStopped || l.pos.status == statusPending && len(in.Interrupts) == 0)
	var unfit *AnswerError // a refused answer leaves its question, and an error behind it
	stopped = ctx.Err() == nil && (stopped || errors.As(err, &unfit) && unfit.thread == l.run.thread || err != nil && in == nil && l.leavesQuestions())
	var refused *channel.UpdateError
	switch {
	case l.pos.ending == endRefused && errors.As(err, &refused):
		return l.saves.putEnding(l.pos.here(), endRefused, errorText(refused))
	case l.run.nested():
	case stopped:
		return l.saves.putEnding(l.pos.here(), endStopped, "")
	case l.run.exits() && l.pos.stopped && l.pos.cp.id == l.pos.savedID:
		return l.saves.putEnding(l.pos.here(), endWentOn, "")
	}
	return nil
}

// matchCache gives tasks that have not run the writes that are cached for them.
func (l *loop) matchCache(ctx context.Context, tasks ...*task) error {
	c := l.run.cache
	if c == nil {
		return nil
	}
	var keys []cache.Key
	for _, t := range tasks {
		if len(t.writes) > 0 {
			continue
		}
		if err := l.run.setCacheKey(t); err != nil {
			return fmt.Errorf("node %q: %w", t.name, err)
		}
		if t.cacheKey != nil {
			keys = append(keys, t.cacheKey.Key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	found, err := c.Get(ctx, keys...)
	if err != nil {
		l.run.env().Logger.Warn("cache lookup failed", "graph", l.run.g.opts.Name, "err", err)
		return nil
	}
	for _, t := range tasks {
		if t.cacheKey == nil || len(t.writes) > 0 {
			continue
		}
		if kept, ok := found[t.cacheKey.Key]; ok {
			writes, err := l.saves.enc.decodeKept(kept)
			if err != nil {
				l.run.env().Logger.Warn("cache entry cannot be read", "graph", l.run.g.opts.Name, "node", t.name, "err", err)
				continue
			}
			if l.view.stream.wantsWrites() {
				for i, w := range writes {
					writes[i].value = named(w.value, l.run.env().MessageID)
				}
			}
			t.writes = writes
			if err := l.putWrites(t, t.id, t.writes); err != nil {
				return err
			}
			l.view.emitWrites(t, t.writes, true)
		}
	}
	return nil
}

// voidAnswer takes back an answer that nobody took, once all tasks wait. The question it
// was meant for was not asked again, and what is asked instead waits for an answer of its
// own.
func (l *loop) voidAnswer() error {
	if l.run.nested() || l.run.saver == nil || l.run.policy.langGraph {
		return nil
	}
	i := answer.Untaken(l.pos.pending)
	if i < 0 {
		return nil
	}
	if l.run.exits() && l.pos.written[nullTaskID] { // it is not stored
		l.pos.dropPending(i)
		return nil
	}
	l.pos.endAs(endStopped)
	return l.putWrites(nil, nullTaskID, []write{{chResume, nil}})
}
