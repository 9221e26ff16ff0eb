package pregel

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
)

// StateUpdate is one change of UpdateState.
type StateUpdate struct {
	// Values are written as if AsNode had returned them. Nil only follows its edges.
	Values any
	// AsNode is the node; "" is the one that ran last, if that is clear. With Input the
	// values are an input. With End and nil Values all pending tasks are cleared. With Copy
	// the checkpoint is copied, and Values may be []StateUpdate to apply to the copy.
	AsNode string
	// TaskID is stored with the writes. If it is "", the id of the node's pending task is
	// used, or a new one.
	TaskID string
}

// UpdateOptions are options of UpdateState and BulkUpdateState.
type UpdateOptions struct {
	// Metadata and Configurable are stored with the checkpoints, as those of RunOptions.
	Metadata     map[string]any
	Configurable map[string]any
	// Lease, if set, is one that the caller has of the thread: what is stored is refused once it is lost.
	Lease *saver.Lease
}

// UpdateState changes the state of a thread and returns the address of the new checkpoint.
// The tasks that the node's edges trigger replace those that were pending.
func (g *Graph) UpdateState(ctx context.Context, at Address, u StateUpdate, opts ...UpdateOptions) (Address, error) {
	g.mustBe()
	return g.BulkUpdateState(ctx, at, [][]StateUpdate{{u}}, opts...)
}

// BulkUpdateState applies supersteps of updates one after another, each to the checkpoint
// that the one before made. A superstep that is refused stores nothing; those before it
// remain.
func (g *Graph) BulkUpdateState(ctx context.Context, a Address, supersteps [][]StateUpdate, opts ...UpdateOptions) (Address, error) {
	g.mustBe()
	target, s, at, err := g.stateTarget(a)
	if err != nil {
		return Address{}, err
	}
	o := lastOf(opts)
	at.Metadata, at.Configurable = merged(g.opts.Metadata, o.Metadata), o.Configurable
	if o.Lease != nil {
		at.Epoch = o.Lease.Epoch()
	}
	if _, err := commonMetadata(at, s); err != nil {
		return Address{}, err
	}
	if len(supersteps) == 0 {
		return Address{}, &InvalidUpdateError{Reason: "No supersteps provided"}
	}
	for _, updates := range supersteps {
		if len(updates) == 0 {
			return Address{}, &InvalidUpdateError{Reason: "No updates provided"}
		}
	}
	for _, updates := range supersteps {
		if err := target.refuseUpdates(updates); err != nil {
			return Address{}, err
		}
	}
	var out Address
	for i, updates := range supersteps {
		u := &updater{encoder: encoder{g: target, codec: codecOf(s)}, s: s, at: at, first: i == 0, langGraph: g.opts.LangGraph, forced: map[string]bool{}}
		if out, err = u.superstep(ctx, updates); err != nil {
			return Address{}, err
		}
		at.CheckpointID = out.CheckpointID
	}
	return out, nil
}

// refuseUpdates is refuseUnknown for updates, and for those of a copy.
func (g *Graph) refuseUpdates(updates []StateUpdate) error {
	for _, u := range updates {
		var err error
		if u.AsNode == Copy {
			further, _ := u.Values.([]StateUpdate) // of another type: refused by copyUpdates
			err = g.refuseUpdates(further)
		} else {
			err = g.refuseUnknown(u.Values)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// updater applies one superstep of updates.
type updater struct {
	encoder
	threadState
	s     saver.Saver
	at    saver.Config
	first bool
	// langGraph takes a checkpoint that does not exist for an empty thread.
	langGraph bool

	saved *saver.Tuple // nil on a fresh thread
	// superseded: the thread has moved past saved, which the caller named.
	superseded bool
	stored     map[string]saver.Version
	forced     map[string]bool // delta channels to store whole
	writes     []saver.TaskWrites
}

func (u *updater) next(v saver.Version) (saver.Version, error) { return u.s.NextVersion(v, "") }

func (u *updater) applier() *applier {
	return &applier{cp: u.cp, set: u.set, triggers: u.g.triggers, next: u.next}
}

func (u *updater) load(ctx context.Context) error {
	var err error
	if u.saved, err = getTuple(ctx, u.s, u.at); err != nil {
		return err
	}
	if u.saved == nil && u.at.CheckpointID != "" {
		if !u.langGraph {
			return noCheckpoint(u.at)
		}
		if _, err := u.g.newest(ctx, u.s, u.at); err != nil {
			return err
		}
	}
	if u.threadState, err = u.g.load(ctx, u.s, u.saved); err != nil || u.drops != nil || u.saved == nil {
		return cmp.Or(err, u.drops)
	}
	u.g.env.IDs.Observe(u.cp.id)
	u.stored = u.storedVersions()
	for name := range u.renamed {
		u.g.addDelta(u.forced, name)
	}
	if u.first {
		for _, w := range u.pending {
			u.g.addDelta(u.forced, w.Channel)
		}
		u.superseded, err = u.g.supersededBy(ctx, u.s, u.at, u.saved)
	}
	return err
}

func (u *updater) superstep(ctx context.Context, updates []StateUpdate) (Address, error) {
	if err := u.load(ctx); err != nil {
		return Address{}, err
	}
	one := updates[0]
	switch clears := one.AsNode == End && one.Values == nil; {
	case !clears && one.AsNode != Input && one.AsNode != Copy:
		return u.nodes(ctx, updates)
	case len(updates) > 1:
		return Address{}, &InvalidUpdateError{Node: one.AsNode, Reason: "Cannot apply multiple updates together with it"}
	case clears:
		return u.clear(ctx)
	case one.AsNode == Input:
		return u.input(ctx, one.Values)
	}
	return u.copy(ctx, one.Values)
}

// tasks are the tasks pending on the loaded checkpoint.
func (u *updater) tasks() (*taskSet, error) {
	return u.g.snapshotPreparer(u.cp, u.set, u.at.Namespace, u.pending, stepOf(u.md)+1).next(nil)
}

// clear drops all pending tasks; writes of finished ones are kept.
func (u *updater) clear(ctx context.Context) (Address, error) {
	var updated []string
	if u.saved != nil {
		tasks, err := u.tasks()
		if err != nil {
			return Address{}, err
		}
		if null := nullTask(u.pending); null != nil {
			if updated, err = u.applier().apply(null); err != nil {
				return Address{}, err
			}
		}
		outputs := outputsOf(u.pending)
		for _, t := range tasks.order {
			t.writes = outputs[t.id]
		}
		more, err := u.applier().apply(tasks.asWrites())
		if err != nil {
			return Address{}, err
		}
		updated = union(updated, more)
	}
	return u.put(ctx, "update", stepOf(u.md)+1, stepOf(u.md), updated)
}

// input stores values as an input, without running anything.
func (u *updater) input(ctx context.Context, values any) (Address, error) {
	writes, err := u.g.inputWrites(u.set, values)
	if err != nil {
		return Address{}, err
	}
	if len(writes) == 0 {
		return Address{}, &InvalidUpdateError{Node: Input, Reason: fmt.Sprintf("Received no input writes for %v", u.g.input)}
	}
	u.g.nameWrites(writes)
	id, err := uuid5(u.cp.id, Input)
	if err != nil {
		return Address{}, err
	}
	if err := u.keepWrites([]updateTask{{id: id, writes: writes}}); err != nil {
		return Address{}, err
	}
	updated, err := u.applier().apply([]taskWrites{inputTask(writes)})
	if err != nil {
		return Address{}, err
	}
	u.g.addOverwritten(u.forced, writes)
	step := -1
	if u.saved != nil {
		if _, ok := u.md.Step(); ok {
			step = stepOf(u.md) + 1
		}
	}
	return u.put(ctx, "input", step, step, updated)
}

// updateTask is one update as a task: its writes and how they are stored.
type updateTask struct {
	id     string
	node   string
	path   string
	writes []write
}

// nodes passes the values of updates through the writers of their nodes.
func (u *updater) nodes(ctx context.Context, updates []StateUpdate) (Address, error) {
	ids, err := u.taskIDs()
	if err != nil {
		return Address{}, err
	}
	tasks := make([]updateTask, len(updates))
	for i, up := range updates {
		node, err := u.nodeOf(up, len(updates) == 1)
		if err != nil {
			return Address{}, err
		}
		t := updateTask{id: up.TaskID, node: node, path: updatePath(i).String()}
		if prepared := ids[node]; t.id == "" && len(prepared) > 0 {
			t.id, ids[node] = prepared[0], prepared[1:]
		}
		if t.id == "" {
			name := chInterrupt
			if i > 0 {
				name = fmt.Sprintf("%s:%d", chInterrupt, i)
			}
			if t.id, err = uuid5(u.cp.id, name); err != nil {
				return Address{}, err
			}
		}
		if t.writes, err = u.runWriters(ctx, node, up.Values); err != nil {
			return Address{}, err
		}
		tasks[i] = t
	}
	var updated []string
	applied := make([]taskWrites, len(tasks))
	for i, t := range tasks {
		for _, w := range t.writes {
			updated = append(updated, w.channel)
		}
		u.g.addOverwritten(u.forced, t.writes)
		applied[i] = taskWrites{path: t.path, node: t.node, triggers: []string{chInterrupt}, writes: t.writes}
	}
	if err := u.keepWrites(tasks); err != nil {
		return Address{}, err
	}
	if _, err := u.applier().apply(applied); err != nil {
		return Address{}, err
	}
	return u.put(ctx, "update", stepOf(u.md)+1, stepOf(u.md)+1, updated)
}

// taskIDs are the ids of pending tasks by node, so that history shows the
// updates as their results.
func (u *updater) taskIDs() (map[string][]string, error) {
	if u.saved == nil {
		return map[string][]string{}, nil
	}
	tasks, err := u.tasks()
	if err != nil {
		return nil, err
	}
	return tasks.idsByNode(), nil
}

func (u *updater) nodeOf(up StateUpdate, alone bool) (string, error) {
	node := up.AsNode
	if node == "" && !alone {
		return "", &InvalidUpdateError{Reason: "as_node is required when applying multiple updates"}
	}
	if node == "" {
		if node = u.infer(); node == "" {
			return "", &InvalidUpdateError{Reason: "Ambiguous update, specify as_node"}
		}
	}
	n := u.g.nodes[node]
	switch {
	case n == nil:
		return "", &InvalidUpdateError{Node: node, Reason: fmt.Sprintf("Node %s does not exist", node)}
	case len(n.Writers) == 0:
		return "", &InvalidUpdateError{Node: node, Reason: fmt.Sprintf("Node %s has no writers", node)}
	}
	return node, nil
}

// infer finds the node that ran last; "" if that is not clear.
func (u *updater) infer() string {
	if len(u.g.order) == 1 {
		return u.g.order[0]
	}
	var last saver.Version
	node, tie, ran := "", false, false
	for n, seen := range seenWithoutBumps(u.cp.seen) {
		for _, v := range seen {
			ran = true
			if _, ok := u.g.nodes[n]; !ok {
				continue
			}
			switch c := v.Compare(last); {
			case node == "" || c > 0:
				last, node, tie = v, n, false
			case c == 0:
				tie = true
			}
		}
	}
	if !ran && u.g.input.Single {
		if in := u.g.input.Names[0]; u.g.nodes[in] != nil {
			return in
		}
	}
	if tie {
		return ""
	}
	return node
}

func (u *updater) runWriters(ctx context.Context, node string, values any) ([]write, error) {
	own := &updateWrites{u: u}
	w := &Writing{ctx: ctx, node: node, to: own}
	for _, f := range u.g.nodes[node].Writers {
		if err := f(w, values); err != nil {
			return nil, err
		}
	}
	u.g.nameWrites(own.writes)
	return own.writes, nil
}

// updateWrites collects the writes of a node's writers for an update.
type updateWrites struct {
	u      *updater
	writes []write
}

func (o *updateWrites) writeTo(ch string, v any) { o.writes = append(o.writes, write{ch, v}) }

func (o *updateWrites) readWithOwn(sel Keys) (Pairs, error) {
	return readLocal(o.u.g, o.u.set, stepOf(o.u.md), stepOf(o.u.md)+2, sel, o.writes)
}

// keepWrites prepares the updates for being stored on the checkpoint they build on, where
// history and delta channels find them. If the thread has moved past that checkpoint, its
// other children would find them too; delta channels are then stored whole instead.
func (u *updater) keepWrites(tasks []updateTask) error {
	if u.saved == nil {
		return nil
	}
	if u.superseded {
		for _, t := range tasks {
			for _, w := range t.writes {
				u.g.addDelta(u.forced, w.channel)
			}
		}
		return nil
	}
	for _, t := range tasks {
		encoded, err := u.encodeWrites(t.node, t.writes)
		if err != nil {
			return err
		}
		if len(encoded) == 0 {
			continue
		}
		u.writes = append(u.writes, saver.TaskWrites{CheckpointID: u.saved.Checkpoint.ID, TaskID: t.id, TaskPath: t.path, Writes: encoded})
	}
	return nil
}

// put makes and stores the new checkpoint, in one call with the updates. On their own these
// would make a thread that waits at a breakpoint look as if it had been resumed. The id of
// the checkpoint shows the superstep idStep.
func (u *updater) put(ctx context.Context, source string, step, idStep int, updated []string) (Address, error) {
	md := saver.Metadata{"source": source, "step": step, "parents": u.parents()}
	snapshots := map[string]bool{}
	if u.saved == nil {
		for _, name := range u.g.deltas {
			if _, written := u.cp.versions[name]; written && u.set.at(name).Available() {
				snapshots[name] = true
			}
		}
	} else {
		counts := countersOf(u.saved.Metadata).advance(u.g.deltas, func(ch string) bool { return slices.Contains(updated, ch) })
		snapshots = u.g.dueSnapshots(u.set, counts, u.cp.versions, u.forced)
		if c := counts.metadata(snapshots); c != nil {
			md[keyDeltaCounters] = c
		}
	}
	cp, captured, err := u.g.create(u.cp, u.set, func() string { return u.g.env.IDs.Next(idStep) }, nil, snapshots, u.stored, u.next)
	if err != nil {
		return Address{}, err
	}
	changed := newVersions(u.stored, cp.versions)
	stored, err := u.encodeCheckpoint(cp, captured, changed)
	if err != nil {
		return Address{}, err
	}
	at := u.at
	at.CheckpointID = ""
	if u.saved != nil {
		at.CheckpointID = u.saved.Checkpoint.ID
	}
	out, err := u.s.PutRequest(ctx, saver.PutRequest{Config: at, Checkpoint: stored, Metadata: md, NewVersions: changed, Writes: u.writes, Note: u.note(cp, step)})
	return u.answer(out, err)
}

func (u *updater) parents() any {
	if u.saved != nil && u.saved.Metadata["parents"] != nil {
		return u.saved.Metadata["parents"]
	}
	return map[string]any{}
}

func (u *updater) answer(out saver.Config, err error) (Address, error) {
	if err != nil {
		return Address{}, &PersistError{Op: "store state update", Err: err}
	}
	if u.saved == nil {
		return addressOf(out, nil), nil
	}
	return addressOf(out, u.saved.Metadata), nil
}

// copy makes a sibling of the loaded checkpoint with the same state, and applies
// further updates to it.
func (u *updater) copy(ctx context.Context, values any) (Address, error) {
	if u.saved == nil {
		return Address{}, &InvalidUpdateError{Node: Copy, Reason: "Cannot copy a non-existent checkpoint"}
	}
	further, err := copyUpdates(values)
	if err != nil && !u.langGraph { // LangGraph ignores a map
		return Address{}, err
	}
	cp, _, err := u.g.create(u.cp, nil, func() string { return u.g.env.IDs.Next(stepOf(u.md)) }, nil, nil, nil, nil)
	if err != nil {
		return Address{}, err
	}
	own := cp.clone()
	if len(u.renamed)+len(u.migrated) > 0 { // a copy shares the values of the original, and so has its names
		own.versions, own.seen = u.saved.Checkpoint.Versions, u.saved.Checkpoint.Seen
	}
	stored := saver.Checkpoint{V: own.v, ID: own.id, TS: own.ts, Versions: own.versions, Seen: own.seen}
	md := saver.Metadata{"source": "fork", "step": stepOf(u.md) + 1, "parents": u.parents()}
	if c, ok := u.saved.Metadata[keyDeltaCounters]; ok {
		md[keyDeltaCounters] = c
	}
	at := u.at
	at.CheckpointID = ""
	if u.saved.Parent != nil {
		at.CheckpointID = u.saved.Parent.CheckpointID
	}
	note := u.note(cp, stepOf(u.md)+1)
	note.Version = versionOf(u.saved.Note) // and its version
	switch {
	case u.saved.Note != nil: // and what is left to run, by the names of that, also nodes that the graph does not have
		note.Next = slices.Clone(u.saved.Note.Next)
	case u.g.MigratesFrom(""):
		note = nil
	}
	out, err := u.putCopy(ctx, at, stored, md, note)
	made, err := u.answer(out, err)
	if err != nil || len(further) == 0 {
		return made, err
	}
	tasks, err := u.g.snapshotPreparer(cp, u.set, u.at.Namespace, u.pending, stepOf(u.md)+2).next(nil)
	if err != nil {
		return Address{}, err
	}
	nextAt := u.at
	nextAt.CheckpointID = made.CheckpointID
	again := &updater{encoder: encoder{g: u.g, codec: u.codec}, s: u.s, at: nextAt, forced: map[string]bool{}}
	return again.superstep(ctx, assignTasks(further, tasks))
}

// putCopy stores a copy that shares the values of the original.
func (u *updater) putCopy(ctx context.Context, at saver.Config, cp saver.Checkpoint, md saver.Metadata, note *saver.Note) (saver.Config, error) {
	from := u.saved.Config
	return u.s.PutRequest(ctx, saver.PutRequest{Config: at, Checkpoint: cp, Metadata: md, ValuesFrom: &from, Note: note})
}

func copyUpdates(values any) ([]StateUpdate, error) {
	switch x := values.(type) {
	case nil:
		return nil, nil
	case []StateUpdate:
		return x, nil
	}
	return nil, &InvalidUpdateError{Node: Copy, Reason: fmt.Sprintf("the values of a copy are []StateUpdate, not %T", values)}
}

// assignTasks groups updates by node in the order of first mention, and gives
// the i-th update of a node the id of its i-th task.
func assignTasks(updates []StateUpdate, tasks *taskSet) []StateUpdate {
	ids := tasks.idsByNode()
	var order []string
	groups := map[string][]StateUpdate{}
	for _, up := range updates {
		if !slices.Contains(order, up.AsNode) {
			order = append(order, up.AsNode)
		}
		if i := len(groups[up.AsNode]); i < len(ids[up.AsNode]) {
			up.TaskID = ids[up.AsNode][i]
		}
		groups[up.AsNode] = append(groups[up.AsNode], up)
	}
	var out []StateUpdate
	for _, n := range order {
		out = append(out, groups[n]...)
	}
	return out
}

// note makes the note of a checkpoint that a state update made. Its next nodes run only when the thread
// is resumed, so it counts as stopped at a breakpoint.
func (u *updater) note(cp *liveCheckpoint, step int) *saver.Note {
	n := &saver.Note{Graph: u.g.name, Version: u.g.version, Stop: saver.StopBreakpoint}
	if u.saved != nil {
		replayed := u.g.replayed(&u.saved.Checkpoint)
		for _, former := range u.renamed { // a copy has the former names
			replayed = append(replayed, former)
		}
		n.Deltas = u.g.deltasOf(replayed)
	} else {
		n.Deltas = u.g.deltasOf(nil)
	}
	p := u.g.snapshotPreparer(cp, u.set, u.at.Namespace, nil, step+1)
	if tasks, err := p.next(nil); err == nil {
		n.Next = tasks.names()
	} else {
		n.Next = p.triggeredNodes(nil)
	}
	return n
}
