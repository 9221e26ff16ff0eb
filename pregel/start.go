package pregel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/group"
)

// enter loads the checkpoint with which the run begins.
func (l *loop) enter(ctx context.Context) error {
	l.pos.has, l.pos.written, l.pos.reapplied = map[string]bool{}, map[string]bool{}, map[string]bool{}
	if err := l.saves.own(ctx, l.pos.addressed()); err != nil {
		return err
	}
	saved, err := l.pos.find(ctx)
	if err != nil {
		return err
	}
	if err := l.saves.ownHead(saved, l.pos.from); err != nil {
		return err
	}
	base := l.pos.place
	if l.pos.threadState, err = l.run.g.load(ctx, l.run.saver, saved); err != nil {
		return err
	}
	if saved == nil {
		l.pos.md, l.pos.place.ThreadID, l.pos.place.Namespace = saver.Metadata{"step": -2}, base.ThreadID, base.Namespace
	} else {
		_, l.pos.stopped = withoutStops(saved.PendingWrites)
		l.pos.replayed = l.run.g.replayed(&saved.Checkpoint) // what is renamed is stored whole
	}
	for _, w := range l.pos.pending {
		l.pos.has[w.taskID] = true
	}
	l.pos.place.Metadata, l.pos.place.Configurable = base.Metadata, base.Configurable
	l.pos.savedID = l.pos.cp.id
	l.run.env().IDs.Observe(l.pos.cp.id)
	l.saves.open(ctx)
	l.pos.step = stepOf(l.pos.md) + 1
	l.pos.stop = l.pos.step + l.run.opts.RecursionLimit + 1
	l.pos.stored = l.pos.storedVersions()
	if len(l.pos.cp.updated) > 0 {
		l.pos.updated = union(l.pos.cp.updated, nil)
	}
	return nil
}

// open starts the pipeline, if anything is stored.
func (s *saves) open(ctx context.Context) {
	r := s.run
	if r.saver == nil {
		return
	}
	var observe func(string, time.Duration, error)
	if r.g.opts.Hooks.Save != nil {
		observe = r.observeSave
	}
	s.pipe = newPipeline(ctx, r.env().DrainTimeout, r.storedAround(), observe)
	s.pipe.sync, s.enc.codec = r.saver.Sync, r.saver.Serializer()
	s.pipe.defers = r.opts.DeferSync && r.opts.Durability != Sync
	s.pipe.group = group.Of(r.saver)
}

// load is the state that a stored checkpoint holds, or that of an empty thread if saved is
// nil.
func (g *Graph) load(ctx context.Context, s saver.Saver, saved *saver.Tuple) (t threadState, err error) {
	if saved == nil {
		t.cp = emptyCheckpoint(&g.env)
		t.set, err = g.hydrate(ctx, nil, saver.Config{}, &saver.Checkpoint{}, nil)
		return t, err
	}
	if err := g.migrate(&saved.Checkpoint); err != nil {
		return t, err
	}
	cp, renamed := g.withNewNames(saved.Checkpoint)
	t = threadState{place: saved.Config, prev: saved.Parent, md: saved.Metadata, noted: saved.Note, cp: liveOf(&cp), renamed: renamed}
	if t.pending, err = loadPending(saved.PendingWrites); err != nil {
		return t, err
	}
	for i := range t.pending {
		t.pending[i].channel = g.newName(t.pending[i].channel)
	}
	if t.set, err = g.hydrate(ctx, s, saved.Config, &cp, renamed); err != nil {
		return t, unreadable(saved, err)
	}
	return t, nil
}

// stepOf is the step that metadata names.
func stepOf(md saver.Metadata) int {
	if step, ok := md.Step(); ok {
		return step
	}
	return -1
}

// storedAround returns a function that waits until the checkpoint of the graph around is
// stored: that of the nearest graph that made one in this run. It is nil if there is none.
func (r *runConfig) storedAround() func() error {
	for parent := r.parent; parent != nil; {
		step := parent.step.Get()
		if step.last != nil {
			pipe, last := step.pipe, step.last
			return func() error { return pipe.await(last) }
		}
		parent = step.run.parent
	}
	return nil
}

func (r *runConfig) observeSave(op string, took time.Duration, err error) {
	r.g.guardHook("Save", func() {
		r.g.opts.Hooks.Save(RunInfo{Graph: r.g.opts.Name, ThreadID: r.thread, Namespace: r.ns, RunID: r.opts.RunID}, op, took, err)
	})
}

// addressed reports whether the run was told at which checkpoint to begin.
func (p *position) addressed() bool { return p.place.CheckpointID != "" || p.run.replay != nil }

// find loads the checkpoint to begin with; nil if there is none. A failed load is an error
// and never means a new thread.
func (p *position) find(ctx context.Context) (saved *saver.Tuple, err error) {
	if p.from = originNone; p.addressed() {
		p.from = originMissing
	}
	if p.run.saver == nil {
		return nil, nil
	}
	at := saver.Config{ThreadID: p.place.ThreadID, Namespace: p.run.ns, CheckpointID: p.place.CheckpointID}
	switch {
	case at.CheckpointID != "":
		saved, err = getTuple(ctx, p.run.saver, at)
		if err == nil && saved == nil && !p.run.nested() && !p.run.ways.langGraph {
			err = noCheckpoint(at)
		}
		if err == nil && saved == nil {
			_, err = p.run.g.newest(ctx, p.run.saver, at)
		}
		if err != nil || saved == nil {
			return nil, err
		}
		p.from = originNamed
		old, err := p.run.g.supersededBy(ctx, p.run.saver, at, saved)
		if old {
			p.from = originOld
		}
		return saved, err
	case p.run.replay != nil && p.run.replay.firstVisit(p.run.ns):
		// The graph around replays: this one begins from where it stood then.
		q := saver.Query{ThreadID: at.ThreadID, Namespace: saver.InNamespace(p.run.ns), Before: p.run.replay.before, Limit: 1}
		for saved, err = range p.run.saver.List(ctx, q) {
			if err != nil {
				return nil, &PersistError{Op: fmt.Sprintf("list checkpoints of thread %q", at.ThreadID), Err: err}
			}
			break
		}
		if _, err := p.run.g.newest(ctx, p.run.saver, at); err != nil {
			return nil, err
		}
	default:
		saved, err = getTuple(ctx, p.run.saver, at)
	}
	if saved != nil {
		p.from = originNewest
		if p.run.replay != nil {
			p.from = originNamed
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

// newest is the newest checkpoint there; nil if there is none. What is made next has an id
// behind it, also if the clock was set back, and so is the newest then.
func (g *Graph) newest(ctx context.Context, s saver.Saver, at saver.Config) (*saver.Tuple, error) {
	latest, err := getTuple(ctx, s, at.At(""))
	if latest != nil {
		g.env.IDs.Observe(latest.Checkpoint.ID)
	}
	return latest, err
}

// supersededBy reports whether the thread has moved past saved, so that it may
// have children.
func (g *Graph) supersededBy(ctx context.Context, s saver.Saver, at saver.Config, saved *saver.Tuple) (bool, error) {
	if at.CheckpointID == "" {
		return false, nil
	}
	latest, err := g.newest(ctx, s, at)
	return latest != nil && latest.Checkpoint.ID != saved.Checkpoint.ID, err
}

// begin decides how the run begins, and makes the state from which the first superstep starts.
func (l *loop) begin(ctx context.Context) error {
	l.saves.delta.init(l.run.g, &l.pos.place, l.pos.pending)
	for name := range l.pos.renamed {
		l.run.g.addDelta(l.saves.delta.forced, name)
	}
	if err := l.decide(ctx); err != nil {
		return err
	}
	if err := l.countRecovery(ctx); err != nil {
		return err
	}
	if err := l.settlePending(ctx); err != nil {
		return err
	}
	e := &l.pos.entry
	var bound *saver.Config
	if e.kind == entryFork && e.branch {
		bound = l.pos.prev
	}
	var err error
	if e.kind.resumes() {
		err = l.resume(ctx)
	} else {
		err = l.takeInput(ctx)
	}
	if err != nil {
		return err
	}
	if !l.run.nested() && e.kind.travels() {
		l.run.replay = l.pos.replayFrom(bound)
	}
	l.pos.status = statusPending
	if h := l.run.g.opts.Hooks.Resume; e.kind.resumes() && h != nil {
		l.run.g.guardHook("Resume", func() { h(l.pos.info()) })
	}
	return nil
}

// settlePending decides what counts of what is pending, and adds what a Command writes.
func (l *loop) settlePending(ctx context.Context) error {
	e := &l.pos.entry
	if e.answer == answerNone || e.answer == answerSpent {
		l.pos.pending = dropSpentAnswer(l.pos.pending)
		l.guardAnswers(ctx)
	}
	if e.kind == entryResume {
		for _, w := range l.pos.pending {
			if w.taskID != nullTaskID {
				l.saves.delta.loaded = append(l.saves.delta.loaded, w)
			}
		}
	} else {
		l.saves.delta.force(l.pos.pending)
	}
	carried, given, err := l.takeCommand()
	if err != nil {
		return err
	}
	if err := l.pos.applyNull(carried); err != nil {
		return err
	}
	if len(given) > 0 {
		l.saves.submitWrites("", l.pos.here(), given, nullTaskID, "")
	}
	return nil
}

// resume goes on from where the thread stands.
func (l *loop) resume(ctx context.Context) error {
	passed := map[string]saver.Version{}
	maps.Copy(passed, l.pos.cp.seen[chInterrupt])
	for _, name := range l.pos.set.names {
		if v, ok := l.pos.cp.versions[name]; ok {
			passed[name] = v
		}
	}
	l.pos.cp.seen[chInterrupt] = passed
	if l.pos.entry.kind == entryFork {
		// The fork gives all tasks new ids, so what the old ones asked is not
		// pending here.
		l.pos.pending = slices.DeleteFunc(l.pos.pending, func(w pendingWrite) bool { return w.channel == chInterrupt })
		// A fork is no superstep, so its checkpoint names no updated channels.
		updated := l.pos.updated
		l.pos.updated = nil
		if err := l.putCheckpoint(ctx, "fork"); err != nil {
			return err
		}
		l.pos.updated = updated
		l.pos.coming = coming{} // made without knowing what was updated
	}
	if err := l.goOnFromStop(); err != nil {
		return err
	}
	l.view.emitValues(nil)
	return nil
}

// replayFrom is the bound for graphs inside.
func (p *position) replayFrom(bound *saver.Config) *replayState {
	before := p.cp.id
	source := p.md.Source()
	switch {
	case bound != nil:
		before = bound.CheckpointID
	case (source == "update" || source == "fork") && p.prev != nil:
		before = p.prev.CheckpointID
	}
	return &replayState{before: before, visited: map[string]bool{}}
}

// replayState bounds what graphs inside load while the outermost one goes back in time. At
// its first call each loads its newest checkpoint before the bound, and after that its
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
