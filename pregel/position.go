package pregel

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/internal/answer"
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

// position keeps where a run stands: at which checkpoint it began and how, the checkpoint, channels and
// pending writes that it has come to, and the tasks of its superstep. Its methods move it on, and
// nothing in it is stored or shown yet.
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
	sources   map[string][]int         // the indexes at which failures that are stored name their tasks, sorted, by task
	outputs   map[string][]write       // outputsOf(pending); nil: nobody has asked since the superstep began
	scanned   int                      // pending writes that were gone over, for tests
	written   map[string]bool          // tasks of the superstep that wrote during this run
	reapplied map[string]bool          // tasks of the superstep that got their writes back
	calls     callsMade                // by tasks of the superstep
	told      travel                   // by an earlier run
	waits     waitsReached             // by tasks of the superstep
	asked     askedBelow               // of pending
	given     answer.Given             // to tasks of the superstep; of the outermost graph
	places    map[string]string        // the namespaces of the next tasks before the fork, by path; nil: no graph inside continues there
	stored    map[string]saver.Version // versions as last stored
	updated   []string                 // sorted; nobody changes it; nil: unknown
	stepped   bool                     // the first superstep has ended
	toInside  fromParent               // what graphs inside are told, in the first superstep
	step      int
	stop      int
	status    loopStatus // "" before the run has begun: nothing is stored yet
	ending    ending     // what the run records about its end

	tasks    *taskSet // of the current superstep
	prepared preparedTasks
	prep     *preparer // of tasks
	apply    *applier
}

// find loads the checkpoint to begin with; nil if there is none. A failed load is an error
// and never means a new thread.
func (p *position) find(ctx context.Context) (saved *saver.Tuple, err error) {
	if p.from = originNone; p.addressed() {
		p.from = originMissing
	}
	if p.run.saver == nil {
		return nil, nil
	}
	if saved, err = p.begun(ctx); err != nil || saved != nil {
		return saved, err
	}
	at := saver.Config{ThreadID: p.place.ThreadID, Namespace: cmp.Or(p.run.was, p.run.ns), CheckpointID: p.place.CheckpointID}
	switch {
	case at.CheckpointID != "":
		saved, err = getTuple(ctx, p.run.saver, at)
		if err == nil && saved == nil && (!p.run.nested() || p.run.toldAt != "") && !p.run.policy.langGraph {
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

// load begins at a stored checkpoint, or with an empty thread if saved is nil.
func (p *position) load(ctx context.Context, saved *saver.Tuple) (err error) {
	p.has, p.written, p.reapplied, p.sources = map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string][]int{}
	base := p.place
	if err := p.run.mayRun(saved); err != nil {
		return err
	}
	if p.threadState, err = p.run.g.load(ctx, p.run.saver, saved); err != nil || p.drops != nil {
		return cmp.Or(err, p.drops)
	}
	if saved == nil {
		p.md, p.place = saver.Metadata{"step": -2}, saver.Config{ThreadID: base.ThreadID, Namespace: base.Namespace}
	} else {
		_, p.stopped = withoutStops(saved.PendingWrites)
		for _, w := range saved.PendingWrites {
			if w.Channel == chErrorSource {
				p.hasSource(w.TaskID, w.Index)
			}
		}
		p.replayed = p.run.g.replayed(&saved.Checkpoint) // what is renamed is stored whole
	}
	p.pending, p.calls, p.told, p.waits, p.given = takeRecords(p.pending)
	for _, w := range p.pending {
		p.has[w.TaskID] = true
	}
	p.asked = askedBelow{}
	p.asked.add(p.pending)
	p.place.Metadata, p.place.Configurable = base.Metadata, base.Configurable
	p.run.env().IDs.Observe(p.cp.id)
	p.run.env().IDs.Observe(p.told.since) // so that graphs inside that begin now are seen to have begun
	p.savedID, p.stored, p.step = p.cp.id, p.storedVersions(), stepOf(p.md)+1
	p.stop = p.step + p.run.opts.RecursionLimit + 1
	if len(p.cp.updated) > 0 {
		p.updated = union(p.cp.updated, nil)
	}
	return nil
}

// takeRecords separates the records of stele's own from what tasks wrote.
func takeRecords(pending []answer.Write) (rest []answer.Write, calls callsMade, told travel, waits waitsReached, given answer.Given) {
	rest, calls = takeCalls(pending)
	rest, told = takeTravels(rest)
	rest, waits = takeWaits(rest)
	rest, given = answer.TakeGiven(rest)
	return rest, calls, told, waits, given
}

// passBreakpoint: the run goes on from where it stopped, so the breakpoint there counts as passed.
func (p *position) passBreakpoint() {
	passed := map[string]saver.Version{}
	maps.Copy(passed, p.cp.seen[chInterrupt])
	for _, name := range p.set.names {
		if v, ok := p.cp.versions[name]; ok {
			passed[name] = v
		}
	}
	p.cp.seen[chInterrupt] = passed
}

func (p *position) info() RunInfo {
	i := RunInfo{Graph: p.run.g.opts.Name, Version: p.run.g.version, ThreadID: p.run.thread, Namespace: p.run.ns, RunID: p.run.opts.RunID,
		Step: p.step, Status: string(p.status)}
	if p.cp != nil {
		i.CheckpointID = p.cp.id
	}
	return i
}

// enterAs takes the decision how the run begins.
func (p *position) enterAs(e entry) { p.entry, p.toInside = e, e.toInside }

// stopAs notes why the run stops; statusPending that it has begun.
func (p *position) stopAs(s loopStatus) { p.status = s }

// endAs notes what the run records about its end.
func (p *position) endAs(e ending) { p.ending = e }

// applied notes which channels were updated by the writes that the channels have taken: sorted; nil if
// that is not known.
func (p *position) applied(updated []string) { p.updated = updated }

// addTask adds a task that came up during the superstep.
func (p *position) addTask(t *task) { p.tasks.add(t) }

// countStep goes on to the next superstep.
func (p *position) countStep() { p.step++ }

// beginHere makes the checkpoint that the run has come to the one that it began with.
func (p *position) beginHere() { p.savedID, p.from = p.cp.id, originNewest }

// moveTo makes a checkpoint in the run's namespace the one that the next is stored behind.
func (p *position) moveTo(checkpoint string) {
	p.place.CheckpointID, p.place.Namespace = checkpoint, p.run.ns
}

// keepFitting keeps the writes of the input until takeFitting.
func (p *position) keepFitting(writes []write) { p.fitting = writes }

// takeFitting returns what keepFitting has kept; nil if nothing.
func (p *position) takeFitting() (writes []write) {
	writes, p.fitting = p.fitting, nil
	return writes
}

// dropSpent drops the answers of no task that a task has taken.
func (p *position) dropSpent() { p.pending = answer.Unspent(p.pending) }

// dropPending drops one pending write.
func (p *position) dropPending(i int) { p.pending = slices.Delete(p.pending, i, i+1) }

// forgetPrepared makes the next tasks be made anew.
func (p *position) forgetPrepared() { p.prepared = preparedTasks{} }

// describe begins the metadata of the next checkpoint. It returns the counters that go into it.
func (p *position) describe(source string) counters {
	counts := countersOf(p.md).advance(p.run.g.deltas, func(ch string) bool { return slices.Contains(p.updated, ch) })
	parents := map[string]any{}
	for ns, id := range p.run.cpMap {
		parents[ns] = id
	}
	p.md = saver.Metadata{"source": source, "step": p.step, "parents": parents}
	return counts
}

// checkpoint makes the next checkpoint, with a new id unless the run is exiting. If it is to be
// stored, captured has the values of its channels, and whole names the delta channels that are stored
// whole: those that are forced, and those whose turn it is.
func (p *position) checkpoint(counts counters, forced map[string]bool, stores, exiting bool) (captured capture, whole map[string]bool, err error) {
	mint := func() string { return p.run.env().IDs.Next(p.step) }
	if exiting {
		mint = func() string { return p.cp.id }
	}
	var set *channelSet
	var next func(saver.Version) (saver.Version, error)
	if stores {
		set, next = p.set, p.run.next
		whole = p.run.g.dueSnapshots(p.set, counts, p.cp.versions, forced)
	}
	cp, captured, err := p.run.g.create(p.cp, set, mint, p.updated, whole, p.stored, next)
	if err == nil {
		p.cp = cp
		p.countInMetadata(counts.metadata(whole))
	}
	return captured, whole, err
}

// storedAs: the current checkpoint was given to the saver under this id, as the child of the one
// before. versions are those of its channels, a copy that nobody changes.
func (p *position) storedAs(id string, versions map[string]saver.Version) {
	if p.prev = nil; p.place.CheckpointID != "" {
		prev := p.place.At(p.place.CheckpointID)
		p.prev = &prev
	}
	p.place.CheckpointID, p.place.Namespace, p.stored = id, p.run.ns, versions
}

// here is the current checkpoint, against which its tasks write.
func (p *position) here() saver.Config { return p.place.At(p.cp.id) }

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
	next.cp, next.step, next.answers = p.cp, p.step, answer.Of(p.pending)
	a := &next.answers
	a.ByID, a.LangGraph, a.Passing = r.resumeMap, r.policy.langGraph, r.nested() && (r.saver == nil || p.entry.kind == entryFork)
	if r.nested() && !p.entry.answersSpent {
		a.Around = &r.parent.task.pad
	}
	return next
}

// reruns reports whether tasks of the current superstep run although they ended before.
func (p *position) reruns() bool { return !p.stepped && p.entry.kind.reruns() }

// drop drops what is pending for a channel.
func (p *position) drop(channel string) {
	p.pending = slices.DeleteFunc(p.pending, func(w answer.Write) bool { return w.Channel == channel })
	p.outputs = nil
	if channel == chInterrupt {
		p.asked = askedBelow{}
	}
}

// addressed reports whether the run was told at which checkpoint to begin.
func (p *position) addressed() bool { return p.place.CheckpointID != "" || p.run.replay != nil }

// applyNull applies the writes that belong to no task.
func (p *position) applyNull(carried []answer.Write) error {
	null := nullTask(slices.Concat(p.pending, carried))
	if null == nil {
		return nil
	}
	p.fitting = nil
	p.calls.updated = outputs(null[0].writes)
	updated, err := p.applier().apply(null)
	if err == nil && p.updated != nil {
		p.updated = union(p.updated, updated)
	}
	return err
}

// scan is what is pending, to be gone over. Nothing may do so for each task.
func (p *position) scan() []answer.Write {
	p.scanned += len(p.pending)
	return p.pending
}

// reapply gives finished tasks what they wrote before, so that they do not run
// again. A task that waits or failed gets nothing.
func (p *position) reapply(tasks ...*task) {
	if p.outputs == nil {
		p.outputs = outputsOf(p.scan())
	}
	for _, t := range tasks {
		if out := p.outputs[t.id]; len(out) > 0 {
			t.writes = append(t.writes, out...)
			p.reapplied[t.id] = true
		}
	}
}

// resumeHandlers replaces tasks that failed in an earlier run by their error handlers.
func (p *position) resumeHandlers() {
	statuses, _ := answer.Statuses(p.pending)
	for _, w := range slices.Clone(p.pending) {
		t := p.tasks.get(w.TaskID)
		if w.Channel != chErrorSource || t == nil || t.node == nil || t.node.ErrorHandler == "" || len(t.writes) > 0 {
			continue
		}
		s := statuses[w.TaskID]
		if s == nil || !s.Failed {
			continue
		}
		t.writes = append(t.writes, write{chError, s.Err})
		p.tasks.add(p.prep.handling(t, storedError(s.Err)))
		p.reapply(p.tasks.order[len(p.tasks.order)-1])
	}
}

// record notes as pending what a task wrote, and returns what of it is to be stored.
func (p *position) record(enc *encoder, t *task, taskID string, writes []write) ([]saver.Write, error) {
	if len(writes) == 0 {
		return nil, nil
	}
	p.written[taskID] = true
	p.run.g.nameWrites(writes)
	path, node := t.placed()
	if err := enc.writesAgain(node, writes); err != nil {
		return nil, err
	}
	writes = lastSpecials(writes)
	if t != nil && t.call != nil && t.id == taskID && p.run.recordsCalls() && outputs(writes) {
		t.recorded = true
		record := p.recordOf(t)
		if t.tries > 0 { // else its result comes from a cache
			record.value = append(record.value.([]any), p.timesOf(t.number, t.tries, t.took))
		}
		writes = append(slices.Clip(writes), record)
	}
	toStore := writes
	if taskID == nullTaskID {
		// Savers identify a write by its index in the list. So the list only grows: old
		// writes come first and special ones last, because others would change their index.
		writes = slices.Clone(writes)
		slices.SortStableFunc(writes, func(a, b write) int { return cmp.Compare(b2i(isSpecial(a.channel)), b2i(isSpecial(b.channel))) })
		p.pending = slices.DeleteFunc(p.pending, func(w answer.Write) bool { return w.TaskID == nullTaskID && isSpecial(w.Channel) })
		toStore = nil
		for _, w := range p.pending {
			if w.TaskID == nullTaskID {
				toStore = append(toStore, write{w.Channel, w.Value})
			}
		}
		toStore = append(toStore, writes...)
	} else if p.has[taskID] {
		writes = p.besideSources(taskID, node, writes)
		toStore = writes
		p.pending = slices.DeleteFunc(p.scan(), func(w answer.Write) bool { return w.TaskID == taskID })
		p.asked.drop(taskID)
	}
	if n := slices.IndexFunc(writes, func(w write) bool { return w.channel == chErrorSource }); n >= 0 {
		p.hasSource(taskID, n)
	}
	p.has[taskID] = true
	var encoded []saver.Write
	if p.run.saver != nil && !p.run.exits() {
		var err error
		if encoded, err = enc.encodeWrites(node, toStore); err != nil {
			return nil, err
		}
	}
	delete(p.outputs, taskID)
	added := len(p.pending)
	for _, w := range writes {
		p.pending = append(p.pending, answer.New(taskID, path, w.channel, w.value))
		if p.outputs != nil && taskID != nullTaskID && !answer.IsControl(w.channel) {
			p.outputs[taskID] = append(p.outputs[taskID], w)
		}
	}
	p.asked.add(p.pending[added:])
	return encoded, nil
}

// hasSource notes that a failure of a task names it at an index of its writes.
func (p *position) hasSource(taskID string, index int) {
	if at, found := slices.BinarySearch(p.sources[taskID], index); !found {
		p.sources[taskID] = slices.Insert(p.sources[taskID], at, index)
	}
}

// besideSources are writes of a task that ended with what its failures before have stored among them. Of two writes with
// one index savers keep the first, so the task's others must have other indexes.
func (p *position) besideSources(taskID, node string, writes []write) []write {
	if !outputs(writes) {
		return writes
	}
	for _, n := range p.sources[taskID] {
		if n < len(writes) {
			writes = slices.Insert(slices.Clone(writes), n, write{chErrorSource, node})
		}
	}
	return writes
}

// lastSpecials keeps the last write of each channel if all are special. Otherwise it
// returns writes itself.
func lastSpecials(writes []write) []write {
	if slices.ContainsFunc(writes, func(w write) bool { return !isSpecial(w.channel) }) {
		return writes
	}
	var out []write
	for i, w := range writes {
		if !slices.ContainsFunc(writes[i+1:], func(x write) bool { return x.channel == w.channel }) {
			out = append(out, w)
		}
	}
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// begunHere reports whether the graph's checkpoint was made inside the superstep
// that the graph around is in: it names the checkpoint that superstep starts from.
func (p *position) begunHere() bool {
	outer := p.run.parent.step.Get().run.Get().ns
	id, known := p.run.cpMap[outer]
	return known && parentsOf(p.md)[outer] == id
}

// spentState reports whether a graph inside found the final state of an earlier call. That
// happens when the graph around is resumed but had not called this one yet. The graph then
// takes its input. Only a Stable graph finds such a state. LangGraph goes on from it: it
// runs nothing, and returns the earlier result for the new input.
func (p *position) spentState() bool {
	if p.from != originNewest || !p.run.stableNamespace() || p.begunHere() {
		return false
	}
	// Writes of tasks stored on the head are of work that did not end.
	if slices.ContainsFunc(p.pending, func(w answer.Write) bool { return w.TaskID != nullTaskID }) {
		return false
	}
	tasks, err := p.preparer().next(p.updated)
	return err == nil && len(tasks.order) == 0
}

// countInMetadata puts the counters of delta channels into the metadata. It copies the
// metadata, because events may hold it.
func (p *position) countInMetadata(counts map[string]any) {
	if _, has := p.md[keyDeltaCounters]; !has && counts == nil {
		return
	}
	p.md = maps.Clone(p.md)
	if delete(p.md, keyDeltaCounters); counts != nil {
		p.md[keyDeltaCounters] = counts
	}
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

// itemPuts are the puts of the superstep that ends, in the order of its tasks.
func (p *position) itemPuts() (values []any) {
	if p.run.items == nil {
		return nil
	}
	var puts []answer.Write
	for _, w := range p.pending {
		if w.Channel == chItems && (!p.reruns() || p.written[w.TaskID]) {
			puts = append(puts, w)
		}
	}
	slices.SortStableFunc(puts, func(a, b answer.Write) int { return strings.Compare(a.Path, b.Path) })
	for _, w := range puts {
		values = append(values, w.Value)
	}
	return values
}

// breaksAt reports whether one of tasks is at a breakpoint and a channel has moved since
// the last breakpoint was passed.
func (cp *liveCheckpoint) breaksAt(names []string, tasks *taskSet) bool {
	if len(names) == 0 {
		return false
	}
	passed := cp.seen[chInterrupt]
	moved := false
	for ch, v := range cp.versions {
		moved = moved || v.Compare(passed[ch]) > 0
	}
	if !moved {
		return false
	}
	all := slices.Contains(names, AllNodes)
	return slices.ContainsFunc(tasks.order, func(t *task) bool {
		return all && !t.hidden() || slices.Contains(names, t.name)
	})
}

// hasWork reports whether there is something left to run.
func (p *position) hasWork() (bool, error) {
	if slices.ContainsFunc(p.pending, func(w answer.Write) bool { return w.TaskID == nullTaskID }) {
		return true, nil // an earlier Command may start something
	}
	tasks, err := p.preparer().next(p.updated)
	return err == nil && len(tasks.order) > 0, err
}

// answeredSince reports whether this graph got answers to all the questions that its parent
// task has stored. Then a crash came before the graph around could store the outcome of that
// task. An answer without an id is meant for those questions and must not go to the next
// one. LangGraph gives it to the next one. An update of this graph answers nothing.
func (p *position) answeredSince() bool {
	shown := slices.DeleteFunc(slices.Clone(p.run.parent.task.pad.Shown()), func(id string) bool { return answer.IsWait(Interrupt{ID: id}) })
	return len(shown) > 0 && p.md.Source() != "update" &&
		!slices.ContainsFunc(answer.Unended(p.pending), func(id string) bool { return slices.Contains(shown, id) })
}

// ending marks how a run ended, and is recorded if nothing else that is stored shows it. It is
// for savers, which know neither graphs nor reducers. An ending is stored on the newest
// checkpoint, as the write of a task that does not exist. So neither this package nor
// LangGraph mistakes it for the write of a task.
type ending int

const (
	endPlain ending = iota
	// endStopped: the run waits at a breakpoint of a graph inside, or for an answer after
	// it got one that was not for its question, that the question refused, or with which another task failed.
	endStopped
	// endRefused: all tasks ended, and their writes conflict.
	endRefused
	// endWentOn cancels endStopped.
	endWentOn
)

// taskNamespaces are the namespaces of the tasks that are next, by their ids.
func (p *position) taskNamespaces() (map[string]string, error) {
	tasks, err := p.preparer().next(p.updated)
	if err != nil {
		return nil, err
	}
	spaces := make(map[string]string, len(tasks.order))
	for _, t := range tasks.order {
		spaces[t.id] = t.ns
	}
	return spaces, nil
}

// preparedTasks are the tasks that follow a checkpoint of this run. They are made when the checkpoint
// is stored, for its note, and used when the next superstep begins.
type preparedTasks struct {
	cp    *liveCheckpoint // nil: none are made
	tasks *taskSet
	err   error
}

// nextTasks are the tasks that follow the current checkpoint, at the given step.
func (p *position) nextTasks(step int) (tasks *taskSet, err error) {
	prep := p.preparer()
	prep.step = step
	return prep.next(p.updated)
}

// takeNext makes the tasks of the superstep that begins.
func (p *position) takeNext() (err error) {
	made := p.prepared
	if p.prepared = (preparedTasks{}); made.cp == nil || made.cp != p.cp {
		made.tasks, made.err = p.nextTasks(p.step)
	}
	if made.err == nil {
		p.tasks = made.tasks
		for _, t := range p.tasks.order {
			t.was = p.places[t.pathStr]
		}
		p.places = nil
	}
	return made.err
}

// leave prepares for a fork, which gives the next tasks new ids and namespaces. Graphs inside at checkpoints that
// the run was told continue from the old namespaces. LangGraph runs them from their beginning. If
// this graph is itself such a one, its copy is the first checkpoint of its new namespace.
func (p *position) leave() error {
	if !p.run.policy.langGraph && slices.ContainsFunc(slices.Collect(maps.Keys(p.run.cpMap)), p.inside) {
		old := *p.preparer()
		old.ns = cmp.Or(p.run.was, p.run.ns)
		tasks, err := old.next(p.updated)
		if err != nil {
			return err
		}
		p.places = make(map[string]string, len(tasks.order))
		for _, t := range tasks.order {
			p.places[t.pathStr] = t.ns
		}
	}
	if p.run.was != "" {
		p.place.CheckpointID, p.place.Namespace, p.stored = "", p.run.ns, map[string]saver.Version{}
	}
	return nil
}

// note makes the note of the current checkpoint: it tells the saver which nodes run next, and whether
// the run goes on to run them. It must be known when the checkpoint is stored, because after a crash
// nobody can add it. If the tasks cannot be made, because a node's
// input cannot be read, the checkpoint is still stored, and the run fails after that. The
// note then names the nodes that were to run.
func (p *position) note(exiting bool) *saver.Note {
	n := &saver.Note{Graph: p.run.g.name, Version: p.run.g.version, Deltas: p.run.g.deltasOf(p.replayed)}
	step := p.step + 1
	if exiting { // the superstep has begun, or cannot
		step = p.step
	}
	made := preparedTasks{cp: p.cp}
	made.err = guard(func() (err error) {
		made.tasks, err = p.nextTasks(step)
		return err
	})
	if p.prepared = made; made.err != nil {
		n.Next = p.preparer().triggeredNodes(p.updated)
		return n
	}
	n.Next = made.tasks.names()
	switch {
	case len(n.Next) == 0:
	case p.stopsAt(made.tasks, exiting):
		n.Stop = saver.StopBreakpoint
	case step > p.stop:
		n.Stop = saver.StopSteps
	}
	return n
}

// stopsAt reports whether the run stops at a breakpoint before it runs tasks.
func (p *position) stopsAt(tasks *taskSet, exiting bool) bool {
	switch {
	case exiting:
		return p.status == statusBefore || p.status == statusAfter
	case p.tasks != nil && p.cp.breaksAt(p.run.opts.InterruptAfter, p.tasks):
		return true
	}
	return p.step < p.stop && p.cp.breaksAt(p.run.opts.InterruptBefore, tasks)
}

// forgetStep forgets the superstep whose writes were applied.
func (p *position) forgetStep() {
	clear(p.pending) // nobody keeps the list
	p.pending, p.outputs = p.pending[:0], nil
	clear(p.has)
	clear(p.sources)
	clear(p.written) // its keys are tasks of the superstep that ended
	clear(p.reapplied)
	p.calls.forget()
	p.waits, p.asked, p.given = waitsReached{}, askedBelow{}, answer.Given{}
	p.stepped, p.toInside = true, fromParentNothing
}
