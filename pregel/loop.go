package pregel

import (
	"context"

	"github.com/stele-go/stele/saver"
)

// loopStatus says why a loop stopped.
type loopStatus string

const (
	statusPending  loopStatus = "pending"
	statusDone     loopStatus = "done"
	statusDraining loopStatus = "draining"
	statusBefore   loopStatus = "interrupt_before"
	statusAfter    loopStatus = "interrupt_after"
	statusOutOf    loopStatus = "out_of_steps"
)

// loop is one run of one graph: it owns the checkpoint, the channels and the
// tasks of the current superstep. The goroutine that runs it alone changes
// anything in it; tasks reach it through messages, and read of it only what does
// not change while they run.
type loop struct {
	encoder
	saver  saver.Saver // nil: nothing is stored
	thread string
	opts   RunOptions // with what it inherits filled in
	input  any

	tree
	start
	position
	work
	saves
	view
}

// tree is where a run stands in the tree of graphs.
type tree struct {
	parent     *taskRun // the task that runs this graph; nil at the root
	ns         string
	cpMap      map[string]string // checkpoints of the graphs around
	fromParent fromParent
	replay     *replayState
	// ways and resumeMap, the answers by id, are those of the root.
	ways      ways
	resumeMap map[string]any
}

// start is how a run began.
type start struct {
	from    origin
	savedID string // the checkpoint it began with
	entry   entry
	stepped bool    // the first superstep has ended
	fitting []write // the input, if the channels as they are can take it; nil if nobody has asked
	// recovery is what Recover, or new input that finishes a run first, runs; nil else.
	recovery *recovery
	// stopped: the run before marked that it stopped.
	stopped bool
	// common is what the config of the run adds to the metadata of each checkpoint; nil is nothing.
	common saver.Metadata
	// replayed are the reducing channels that were stored without a value, because they
	// were delta channels then.
	replayed []string
}

// threadState is a checkpoint and what was written against it.
type threadState struct {
	place   saver.Config // of cp as stored; the parent of the next one
	prev    *saver.Config
	md      saver.Metadata
	noted   *saver.Note // of cp as loaded; nil if it has none
	cp      *liveCheckpoint
	set     *channelSet
	pending []pendingWrite
	// renamed are the channels that the checkpoint has under a former name. Under the new
	// one they are not stored yet.
	renamed map[string]string
}

// position is how far a run has come.
type position struct {
	threadState
	has     map[string]bool          // the tasks that pending may have writes of
	stored  map[string]saver.Version // versions as last stored
	updated []string                 // sorted; nobody changes it; nil: unknown
	step    int
	stop    int
	status  loopStatus
	ending  ending // what the run records about its end
}

// work is the tasks of the current superstep, and what a superstep reuses of the previous one.
type work struct {
	tasks  *taskSet
	coming coming
	prep   *preparer // of tasks
	apply  *applier
	// taskCtx is the parent of the contexts of all tasks. It is cancelled when a
	// superstep fails, which is then the last one.
	taskCtx context.Context
	cancel  context.CancelCauseFunc
	workers *workers // from the first superstep on
	// Memory that supersteps reuse, for the tasks to run and for their results.
	ready   []*task
	results chan result
}

// saves is what is on its way to the saver.
type saves struct {
	pipe     *pipeline
	lastPut  *saveOp            // of the newest checkpoint; nil if this run made none
	withNext []saver.TaskWrites // writes to store with the next checkpoint
	owned    ownership
	delta    deltaState
	items    []any // the puts of the supersteps since the last checkpoint that was stored
}

// view is who watches the run.
type view struct {
	output   Keys
	stream   *stream
	inner    *stream     // graphs inside report to it; nil if they do not
	custom   *stream     // takes what tasks emit; nil if nobody wants it
	queue    *eventQueue // nil if nobody streams, or who does is called with each event
	messages *messageLog // nil if nobody streams messages
	held     []func()    // events about interrupts that wait until they are stored
	// waiting are the interrupts the outermost graph ended with, in the order of
	// their tasks.
	waiting []Interrupt
}

func (l *loop) nested() bool { return l.parent != nil }

// outer is the run of the graph around; nil at the root.
func (l *loop) outer() *loop {
	if l.parent == nil {
		return nil
	}
	return l.parent.step.l
}

// entered reports whether the run has begun; before that nothing is stored.
func (l *loop) entered() bool { return l.status != "" }

func (l *loop) env() *Environment { return &l.g.env }

func (l *loop) info() RunInfo {
	i := RunInfo{Graph: l.g.opts.Name, ThreadID: l.thread, Namespace: l.ns, RunID: l.opts.RunID, Step: l.step, Status: string(l.status)}
	if l.cp != nil {
		i.CheckpointID = l.cp.id
	}
	return i
}

// next mints a version.
func (l *loop) next(current saver.Version) (saver.Version, error) {
	if l.saver != nil {
		v, err := l.saver.NextVersion(current, "")
		if err != nil {
			return v, &PersistError{Op: "mint a version", Err: err}
		}
		return v, nil
	}
	n, _ := current.Seq()
	return saver.IntVersion(n + 1), nil
}

// applier returns the applier, set to the current checkpoint.
func (l *loop) applier() *applier {
	if l.apply == nil {
		l.apply = &applier{set: l.set, triggers: l.g.triggers, next: l.next, unknown: func(node, channel string) {
			l.env().Logger.Warn("ignored a write to an unknown channel", "graph", l.g.opts.Name, "node", node, "channel", channel)
		}}
	}
	l.apply.cp = l.cp
	return l.apply
}

// preparer returns the preparer, set to the current checkpoint. All supersteps share it,
// because only one runs at a time.
func (l *loop) preparer() *preparer {
	if l.prep == nil {
		l.prep = &preparer{g: l.g, set: l.set, ns: l.ns, stop: l.stop, cpMap: l.cpMap, metadata: l.opts.Metadata, warn: l.env().Logger.Warn}
	}
	p := l.prep
	if p.parentPad = nil; l.parent != nil && !l.entry.answersSpent {
		p.parentPad = l.parent.task.pad
	}
	p.cp, p.step, p.pending, p.resumeMap = l.cp, l.step, indexPending(l.pending), l.resumeMap
	p.langGraph, p.passing = l.ways.langGraph, l.nested() && (l.saver == nil || l.entry.kind == entryFork)
	return p
}
