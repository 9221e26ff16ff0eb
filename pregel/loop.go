package pregel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
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
// tasks of the current superstep. Everything in it is touched by the goroutine
// that runs it alone; tasks reach it through messages.
type loop struct {
	g      *Graph
	thread string
	opts   RunOptions // with what it inherits filled in
	input  any
	saver  saver.Saver // nil: nothing is stored
	codec  serde.Serializer
	output Keys
	stream *stream
	// inner is the stream that graphs inside report to; nil if they do not.
	inner *stream
	// custom takes what tasks emit; nil if nobody wants it.
	custom *stream
	queue  *eventQueue // nil if nobody streams

	// Where the run stands in the tree of graphs.
	parent    *taskRun // the task that runs this graph; nil at the root
	ns        string
	cpMap     map[string]string // checkpoints of the graphs around
	told      told
	replay    *replayState
	ways      ways
	resumeMap map[string]any

	cp      *liveCheckpoint
	md      saver.Metadata
	place   saver.Config // of cp as stored; the parent of the next one
	prev    *saver.Config
	noted   *saver.Note // of cp as loaded; nil if it has none
	pending []pendingWrite
	// has are the tasks that pending may have writes of.
	has map[string]bool
	// taskCtx is what the contexts of tasks are made of. It is cancelled when a
	// superstep fails, and then there is no other; each attempt has its own end.
	taskCtx context.Context
	cancel  context.CancelCauseFunc
	workers *workers // of the tasks, from the first superstep on
	// Room that one superstep leaves to the next: for the tasks to run, and for how
	// they ended.
	ready   []*task
	results chan result
	set     *channelSet
	stored  map[string]saver.Version // versions as last stored
	// replayed are the reducing channels that the run found as a delta channel leaves
	// them, without a value of their own.
	replayed []string
	lists    map[string]encodedList // of channels, as last stored
	savedID  string                 // the checkpoint the run began with
	step     int
	stop     int
	tasks    *taskSet
	coming   coming
	prep     *preparer // of tasks
	apply    *applier
	updated  []string // sorted; nobody changes it; nil: unknown
	status   loopStatus
	pipe     *pipeline
	lastPut  *saveOp // of the newest checkpoint; nil if this run made none
	// withNext are writes that are stored together with the next checkpoint.
	withNext []saver.TaskWrites
	// Of the task whose writes are put: succeeding says that it ended well, last
	// that it was the last of its superstep.
	succeeding, last bool
	owned            ownership

	from    origin
	entry   entry
	stepped bool // the first superstep has ended
	// recovery is what Recover, or new input that finishes a run first, runs; nil else.
	recovery *recovery
	// stopped: the run before marked that it stopped; mark is what this one has to tell.
	stopped bool
	mark    mark

	delta    deltaState
	messages *messageLog // nil if nobody streams messages
	// held are events about interrupts that wait until they are stored.
	held []func()
	// items are the puts of the supersteps since the last checkpoint that was
	// stored.
	items []any
	// waiting are the interrupts the outermost graph ended with, in the order of
	// their tasks.
	waiting []Interrupt
}

// deltaState is the bookkeeping for delta channels, which are rebuilt from
// stored writes: where no write can be relied on, the channel is stored whole.
type deltaState struct {
	forced       map[string]bool // stored whole in the next checkpoint
	loaded       []pendingWrite  // writes a resume found; nil once checked
	reapplied    map[string]bool // tasks of the superstep that got theirs back
	written      map[string]bool // tasks of the superstep that wrote during this run
	storedWrites map[[2]string]bool
	exit         []exitWrite // exit durability: writes to store at the end
	commandExit  []write
	firstStep    *int
	initial      saver.Config // the checkpoint the run began with
}

// exitWrite is a write to a delta channel that exit durability stores at the
// end.
type exitWrite struct {
	step         int
	taskID, path string
	channel      string
	value        any
}

// replayState bounds what graphs inside load while the outermost one replays:
// each at its first call the newest checkpoint before the bound, later its
// newest.
type replayState struct {
	before string

	// mu guards visited, the namespaces loaded so far, without task ids.
	mu      sync.Mutex
	visited map[string]bool
}

func (r *replayState) firstVisit(ns string) bool {
	if i := strings.LastIndex(ns, nsEnd); i >= 0 {
		ns = ns[:i]
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.visited[ns] {
		return false
	}
	r.visited[ns] = true
	return true
}

func (l *loop) nested() bool { return l.parent != nil }

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

// enter loads the checkpoint and gets everything ready for the first superstep.
func (l *loop) enter(ctx context.Context) error {
	l.has = map[string]bool{}
	if err := l.own(ctx); err != nil {
		return err
	}
	saved, err := l.load(ctx)
	if err != nil {
		return err
	}
	base := l.place
	if saved == nil {
		l.cp, l.md, l.place.CheckpointID = emptyCheckpoint(l.env()), saver.Metadata{"step": -2}, ""
	} else {
		if err := l.g.migrate(&saved.Checkpoint, l.saver); err != nil {
			return err
		}
		l.cp, l.md, l.place, l.prev, l.noted = liveOf(&saved.Checkpoint), saved.Metadata, saved.Config, saved.Parent, saved.Note
		_, l.stopped = withoutStops(saved.PendingWrites)
		if l.pending, err = loadPending(saved.PendingWrites); err != nil {
			return err
		}
		for _, w := range l.pending {
			l.has[w.taskID] = true
		}
	}
	l.place.Metadata, l.place.Configurable = base.Metadata, base.Configurable
	l.delta.initial = l.place
	l.savedID = l.cp.id
	if err := l.ownHead(); err != nil {
		return err
	}
	l.env().IDs.Observe(l.cp.id)
	if saved != nil {
		l.replayed = l.g.replayed(&saved.Checkpoint)
		l.set, err = l.g.hydrate(ctx, l.saver, saved.Config, &saved.Checkpoint)
	} else {
		l.set, err = l.g.hydrate(ctx, nil, saver.Config{}, &saver.Checkpoint{})
	}
	if err != nil {
		return err
	}
	if l.saver != nil {
		var observe func(string, time.Duration, error)
		if l.g.opts.Hooks.Save != nil {
			observe = l.observeSave
		}
		l.pipe = newPipeline(ctx, l.env().DrainTimeout, l.storedAround(), observe)
		if s, ok := l.saver.(saver.Coordinator); ok {
			l.pipe.sync = s.Sync
		}
		if s, ok := l.saver.(saver.Coordinator); ok {
			l.codec = s.Serializer()
		}
	}
	step, ok := l.md.Step()
	if !ok {
		step = -1
	}
	l.step = step + 1
	l.stop = l.step + l.opts.RecursionLimit + 1
	l.stored = maps.Clone(l.cp.versions)
	if len(l.cp.updated) > 0 {
		l.updated = union(l.cp.updated, nil)
	}
	return l.begin(ctx)
}

// storedAround waits for the save of the checkpoint that the graph around is at,
// or the nearest around it that made one in this run; nil if there is none.
func (l *loop) storedAround() func() error {
	for x := l; x.parent != nil; x = x.parent.step.l {
		if step := x.parent.step; step.last != nil {
			return func() error { return step.pipe.await(step.last) }
		}
	}
	return nil
}

func (l *loop) observeSave(op string, took time.Duration, err error) {
	l.g.guardHook("Save", func() {
		l.g.opts.Hooks.Save(RunInfo{Graph: l.g.opts.Name, ThreadID: l.thread, Namespace: l.ns, RunID: l.opts.RunID}, op, took, err)
	})
}

// addressed reports whether the run was pointed at a checkpoint.
func (l *loop) addressed() bool { return l.place.CheckpointID != "" || l.replay != nil }

// load finds the checkpoint to begin with; nil if there is none. A failed load
// is an error, never a new thread.
func (l *loop) load(ctx context.Context) (saved *saver.Tuple, err error) {
	if l.from = originNone; l.addressed() {
		l.from = originMissing
	}
	if l.saver == nil {
		return nil, nil
	}
	at := saver.Config{ThreadID: l.place.ThreadID, Namespace: l.ns, CheckpointID: l.place.CheckpointID}
	switch {
	case at.CheckpointID != "":
		saved, err = getTuple(ctx, l.saver, at)
		if err == nil && saved == nil && !l.nested() && !l.ways.anyCheckpoint {
			err = noCheckpoint(at)
		}
		if err != nil || saved == nil {
			return nil, err
		}
		l.from = originNamed
		old, err := supersededBy(ctx, l.saver, at, saved)
		if old {
			l.from = originOld
		}
		return saved, err
	case l.replay != nil && l.replay.firstVisit(l.ns):
		// The graph around replays: this one begins from where it stood then.
		q := saver.Query{ThreadID: at.ThreadID, Namespace: saver.InNamespace(l.ns), Before: l.replay.before, Limit: 1}
		for saved, err = range l.saver.List(ctx, q) {
			if err != nil {
				return nil, &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
			}
			break
		}
	default:
		saved, err = getTuple(ctx, l.saver, at)
	}
	if saved != nil {
		l.from = originNewest
		if l.replay != nil {
			l.from = originNamed
		}
	}
	return saved, err
}

// getTuple is GetTuple with nil for a checkpoint that does not exist.
func getTuple(ctx context.Context, s saver.Saver, at saver.Config) (*saver.Tuple, error) {
	saved, err := s.GetTuple(ctx, at)
	if errors.Is(err, saver.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, &PersistError{Op: fmt.Sprintf("load checkpoint %q of thread %q", at.CheckpointID, at.ThreadID), Err: err}
	}
	return saved, nil
}

// noCheckpoint says that an Address names a checkpoint that does not exist.
func noCheckpoint(at saver.Config) error {
	return fmt.Errorf("checkpoint %q of thread %q is not there: %w", at.CheckpointID, at.ThreadID, saver.ErrNotFound)
}

// supersededBy reports whether the thread has moved past saved, so that it may
// have children.
func supersededBy(ctx context.Context, s saver.Saver, at saver.Config, saved *saver.Tuple) (bool, error) {
	if at.CheckpointID == "" {
		return false, nil
	}
	latest, err := getTuple(ctx, s, at.At(""))
	return latest != nil && latest.Checkpoint.ID != saved.Checkpoint.ID, err
}

func loadPending(stored []saver.PendingWrite) ([]pendingWrite, error) {
	stored, _ = withoutStops(stored)
	out := make([]pendingWrite, 0, len(stored))
	for _, w := range stored {
		v, err := w.Value.Any()
		if err != nil {
			return nil, fmt.Errorf("read a pending write of task %s to channel %q: %w", w.TaskID, w.Channel, err)
		}
		out = append(out, newPending(w.TaskID, w.TaskPath, w.Channel, v))
	}
	return out, nil
}

func newPending(taskID, path, channel string, v any) pendingWrite {
	w := pendingWrite{taskID: taskID, path: path, channel: channel, value: v}
	if taskID == nullTaskID && channel == chResume {
		w.token = &resumeToken{value: v}
	}
	return w
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

// applier is for one apply to the current checkpoint.
func (l *loop) applier() *applier {
	if l.apply == nil {
		l.apply = &applier{set: l.set, triggers: l.g.triggers, next: l.next, unknown: func(node, channel string) {
			l.env().Logger.Warn("ignored a write to an unknown channel", "graph", l.g.opts.Name, "node", node, "channel", channel)
		}}
	}
	l.apply.cp = l.cp
	return l.apply
}

// preparer is for the tasks of the current checkpoint. It is one and the same for
// all supersteps: those before are over.
func (l *loop) preparer() *preparer {
	if l.prep == nil {
		l.prep = &preparer{g: l.g, set: l.set, ns: l.ns, stop: l.stop, cpMap: l.cpMap, metadata: l.opts.Metadata, warn: l.env().Logger.Warn}
	}
	p := l.prep
	if p.parentPad = nil; l.parent != nil && !l.entry.deaf {
		p.parentPad = l.parent.task.pad
	}
	p.cp, p.step, p.pending, p.resumeMap = l.cp, l.step, indexPending(l.pending), l.resumeMap
	p.anyAnswer, p.passing = l.ways.anyAnswer, l.nested() && (l.saver == nil || l.entry.kind == entryFork)
	return p
}

// numbered is the namespace of the n-th graph a task runs, counted from zero.
func numbered(ns string, n int64) string {
	if n == 0 {
		return ns
	}
	return ns + nsSep + strconv.FormatInt(n, 10)
}
