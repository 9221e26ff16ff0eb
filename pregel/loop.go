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

// loop is one run of one graph. It only coordinates: what is known of the run is with the objects
// below, each of which owns its fields. Its goroutine alone uses them. Tasks have a stepView.
type loop struct {
	run      runConfig
	input    any
	fitting  []write   // the input, if the channels as they are can take it; nil if nobody has asked
	recovery *recovery // what Recover, or new input that finishes a run first, runs; nil else

	pos   position
	saves saves
	view  view
	pool  pool
}

// runConfig says which run this is: of which graph, where in the tree of graphs, and how it runs.
// It is complete when the first superstep begins, and does not change after that.
type runConfig struct {
	g      *Graph
	saver  saver.Saver // nil: nothing is stored
	thread string
	ns     string
	opts   RunOptions // with what it inherits filled in
	// common is what the config of the run adds to the metadata of each checkpoint; nil is nothing.
	common saver.Metadata
	// lease is that of this run, of its caller, or of the graph around, and epoch that of it: every
	// save has it. nil and 0 are for forks and for runs with Options.LangGraph.
	lease *saver.Lease
	epoch int64

	parent     *taskRun          // the task that runs this graph; nil at the root
	cpMap      map[string]string // checkpoints of the graphs around
	fromParent fromParent
	replay     *replayState
	// ways and resumeMap, the answers by id, are those of the root.
	ways      ways
	resumeMap map[string]any
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

// position is where a run stands: at which checkpoint it began, and how far it has come.
type position struct {
	from    origin
	savedID string // the checkpoint it began with
	entry   entry
	// stopped: the run before marked that it stopped.
	stopped bool
	// replayed are the reducing channels that were stored without a value, because they
	// were delta channels then.
	replayed []string

	threadState
	has     map[string]bool          // the tasks that pending may have writes of
	stored  map[string]saver.Version // versions as last stored
	updated []string                 // sorted; nobody changes it; nil: unknown
	stepped bool                     // the first superstep has ended
	step    int
	stop    int
	status  loopStatus
	ending  ending // what the run records about its end

	tasks  *taskSet // of the current superstep
	coming coming
	prep   *preparer // of tasks
	apply  *applier
}

// pool is what the supersteps of a run share.
type pool struct {
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
	enc      encoder
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

func (l *loop) nested() bool { return l.run.parent != nil }

// outer is the run of the graph around; nil at the root.
func (l *loop) outer() *loop {
	if l.run.parent == nil {
		return nil
	}
	return l.run.parent.step.l
}

// entered reports whether the run has begun; before that nothing is stored.
func (l *loop) entered() bool { return l.pos.status != "" }

func (l *loop) env() *Environment { return &l.run.g.env }

func (l *loop) info() RunInfo {
	i := RunInfo{Graph: l.run.g.opts.Name, ThreadID: l.run.thread, Namespace: l.run.ns, RunID: l.run.opts.RunID, Step: l.pos.step, Status: string(l.pos.status)}
	if l.pos.cp != nil {
		i.CheckpointID = l.pos.cp.id
	}
	return i
}

// next mints a version.
func (l *loop) next(current saver.Version) (saver.Version, error) {
	if l.run.saver != nil {
		v, err := l.run.saver.NextVersion(current, "")
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
	if l.pos.apply == nil {
		l.pos.apply = &applier{set: l.pos.set, triggers: l.run.g.triggers, next: l.next, unknown: func(node, channel string) {
			l.env().Logger.Warn("ignored a write to an unknown channel", "graph", l.run.g.opts.Name, "node", node, "channel", channel)
		}}
	}
	l.pos.apply.cp = l.pos.cp
	return l.pos.apply
}

// preparer returns the preparer, set to the current checkpoint. All supersteps share it,
// because only one runs at a time.
func (l *loop) preparer() *preparer {
	if l.pos.prep == nil {
		l.pos.prep = &preparer{g: l.run.g, set: l.pos.set, ns: l.run.ns, stop: l.pos.stop, cpMap: l.run.cpMap, metadata: l.run.opts.Metadata, warn: l.env().Logger.Warn}
	}
	p := l.pos.prep
	if p.parentPad = nil; l.run.parent != nil && !l.pos.entry.answersSpent {
		p.parentPad = l.run.parent.task.pad
	}
	p.cp, p.step, p.pending, p.resumeMap = l.pos.cp, l.pos.step, indexPending(l.pos.pending), l.run.resumeMap
	p.langGraph, p.passing = l.run.ways.langGraph, l.nested() && (l.run.saver == nil || l.pos.entry.kind == entryFork)
	return p
}
