package pregel

import (
	"context"
	"errors"
	"slices"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Marks are what is stored of how a run ended where nothing else that is stored tells a
// saver, which knows no graph and no reducer. They hang on the newest checkpoint as
// writes of tasks that do not exist, so that nobody takes them for a task's, LangGraph
// included.

// mark is what the run has to tell of its end.
type mark int

const (
	noMark mark = iota
	// markStopped: it waits at a breakpoint inside another graph, or for an answer to a
	// question that the one it got was not for.
	markStopped
	// markRefused: the writes of its tasks, which all ended, do not go together.
	markRefused
	// markWentOn: what markStopped said is over.
	markWentOn
)

// putMark stores a mark. It is a barrier: what was written last counts.
func (l *loop) putMark(m mark, text string) error {
	task, w := chStopped, write{chStopped, nil}
	switch m {
	case noMark:
		return nil
	case markRefused:
		task, w = chError, write{chError, text}
	case markWentOn:
		w.channel = chNoWrites
	case markStopped:
	}
	id, err := uuid5(l.cp.id, task)
	if err != nil {
		return err
	}
	encoded, err := l.encodeWrites("", []write{w})
	if err != nil {
		return err
	}
	at := l.place.At(l.cp.id)
	at.Namespace = l.ns
	put := &putWritesOp{s: l.saver, at: at, writes: encoded, taskID: id}
	op := &put.saveOp
	op.run, op.what, op.barrier = put, "writes", true
	// Graphs inside store nothing before it.
	l.lastPut = op
	l.pipe.submit(op)
	return nil
}

// markEnd stores what the end of the run, with err, leaves to be told.
func (l *loop) markEnd(ctx context.Context, err error) error {
	if l.pipe == nil || !l.entered() || l.ways.plain || errors.Is(err, ErrPersist) {
		return nil
	}
	in, stopped := err.(*InterruptError) //nolint:errorlint // the loop's own
	stopped = stopped && ctx.Err() == nil && (l.mark == markStopped || l.status == statusPending && len(in.Interrupts) == 0)
	var refused *channel.UpdateError
	switch {
	case l.mark == markRefused && errors.As(err, &refused):
		return l.putMark(markRefused, errorText(refused))
	case l.nested():
	case stopped:
		return l.putMark(markStopped, "")
	case l.exits() && l.stopped && l.cp.id == l.savedID:
		return l.putMark(markWentOn, "")
	}
	return nil
}

// goOnFromStop takes back what an earlier run said of its end. Until the graph inside
// has stored something the snapshot still shows it at its breakpoint: whoever lists
// threads sees that the run was begun, and Recover leaves it alone.
func (l *loop) goOnFromStop() error {
	if !l.stopped || l.nested() || l.entry.kind == entryFork || l.exits() || l.saver == nil {
		return nil
	}
	return l.putMark(markWentOn, "")
}

// withoutStops are writes without those of markStopped, which are for savers: whether
// the thread still stands there is told by the graphs inside.
func withoutStops(stored []saver.PendingWrite) (kept []saver.PendingWrite, stopped bool) {
	isStop := func(w saver.PendingWrite) bool { return w.Channel == chStopped }
	if !slices.ContainsFunc(stored, isStop) {
		return stored, false
	}
	return slices.DeleteFunc(slices.Clone(stored), isStop), true
}

// refusedBefore reports whether pending has markRefused for a checkpoint.
func refusedBefore(cpID string, pending []pendingWrite) bool {
	id, err := uuid5(cpID, chError)
	return err == nil && slices.ContainsFunc(pending, func(w pendingWrite) bool { return w.taskID == id && w.channel == chError })
}
