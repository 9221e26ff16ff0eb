package pregel

import (
	"context"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
	"github.com/stele-go/stele/store/cache"
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
	store  store.Store // the nearest of this graph and those around; nil if there is none
	items  atomicStore // store, if puts are committed with checkpoints; else nil
	cache  cache.Cache // the nearest; nil if there is none
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
	run     *runConfig
	from    origin
	savedID string // the checkpoint it began with
	entry   entry
	fitting []write // the input, if the channels as they are can take it; nil if nobody has asked
	// stopped: the run before marked that it stopped.
	stopped bool
	// replayed are the reducing channels that were stored without a value, because they
	// were delta channels then.
	replayed []string

	threadState
	has       map[string]bool          // the tasks that pending may have writes of
	written   map[string]bool          // tasks of the superstep that wrote during this run
	reapplied map[string]bool          // tasks of the superstep that got their writes back
	stored    map[string]saver.Version // versions as last stored
	updated   []string                 // sorted; nobody changes it; nil: unknown
	stepped   bool                     // the first superstep has ended
	step      int
	stop      int
	status    loopStatus
	ending    ending // what the run records about its end

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
	run      *runConfig
	enc      encoder
	pipe     *pipeline
	lastPut  *saveOp            // of the newest checkpoint; nil if this run made none
	withNext []saver.TaskWrites // writes to store with the next checkpoint
	owned    ownership
	delta    deltaState
	items    []any // the puts of the supersteps since the last checkpoint that was stored
}

// view is what is shown of a run.
type view struct {
	audience
	run    *runConfig
	pos    *position
	output Keys
	held   []func() // events about interrupts that wait until they are stored
	// waiting are the interrupts the outermost graph ended with, in the order of
	// their tasks.
	waiting []Interrupt
}

// audience is who watches a run. It does not change while the run goes on.
type audience struct {
	stream   *stream
	inner    *stream     // graphs inside report to it; nil if they do not
	custom   *stream     // takes what tasks emit; nil if nobody wants it
	queue    *eventQueue // nil if nobody streams, or who does is called with each event
	messages *messageLog // nil if nobody streams messages
}

func (r *runConfig) nested() bool { return r.parent != nil }

// entered reports whether the run has begun; before that nothing is stored.
func (p *position) entered() bool { return p.status != "" }

func (r *runConfig) env() *Environment { return &r.g.env }

func (p *position) info() RunInfo {
	i := RunInfo{Graph: p.run.g.opts.Name, ThreadID: p.run.thread, Namespace: p.run.ns, RunID: p.run.opts.RunID, Step: p.step, Status: string(p.status)}
	if p.cp != nil {
		i.CheckpointID = p.cp.id
	}
	return i
}

// storedAs: the current checkpoint was given to the saver, as the child of the one before.
func (p *position) storedAs(id string) {
	if p.prev = nil; p.place.CheckpointID != "" {
		prev := p.place.At(p.place.CheckpointID)
		p.prev = &prev
	}
	p.place.CheckpointID, p.place.Namespace = id, p.run.ns
}

// here is the current checkpoint, against which its tasks write.
func (p *position) here() saver.Config { return p.place.At(p.cp.id) }

// next mints a version.
func (r *runConfig) next(current saver.Version) (saver.Version, error) {
	if r.saver != nil {
		v, err := r.saver.NextVersion(current, "")
		if err != nil {
			return v, &PersistError{Op: "mint a version", Err: err}
		}
		return v, nil
	}
	n, _ := current.Seq()
	return saver.IntVersion(n + 1), nil
}

// applier returns the applier, set to the current checkpoint.
func (p *position) applier() *applier {
	if p.apply == nil {
		p.apply = &applier{set: p.set, triggers: p.run.g.triggers, next: p.run.next, unknown: func(node, channel string) {
			p.run.env().Logger.Warn("ignored a write to an unknown channel", "graph", p.run.g.opts.Name, "node", node, "channel", channel)
		}}
	}
	p.apply.cp = p.cp
	return p.apply
}

// preparer returns the preparer, set to the current checkpoint. All supersteps share it,
// because only one runs at a time.
func (p *position) preparer() *preparer {
	r := p.run
	if p.prep == nil {
		p.prep = &preparer{g: r.g, set: p.set, ns: r.ns, stop: p.stop, cpMap: r.cpMap, metadata: r.opts.Metadata, warn: r.env().Logger.Warn}
	}
	next := p.prep
	if next.parentPad = nil; r.nested() && !p.entry.answersSpent {
		next.parentPad = r.parent.task.pad
	}
	next.cp, next.step, next.pending, next.resumeMap = p.cp, p.step, indexPending(p.pending), r.resumeMap
	next.langGraph, next.passing = r.ways.langGraph, r.nested() && (r.saver == nil || p.entry.kind == entryFork)
	return next
}
