package pregel

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// verdict is what Preflight finds out about a thread, with its graphs inside.
type verdict struct {
	other   string // the name of the graph that it belongs to, if that is another
	done    bool   // nothing is left
	begun   bool
	begunAt map[string]bool // the nodes whose code had begun and runs again
	version string
	adapted map[string]bool
	ignored map[string]bool
	broken  []BrokenThread // at most one
}

// judge judges one thread. It takes the steps of a run that resumes, in their order, with the
// run's own functions: load, the preparer, the applier.
type judge struct {
	g      *Graph
	s      saver.Saver
	status saver.Status
	saved  *saver.Tuple
	v      *verdict
}

// breakError is the error with which a judge ends: the thread breaks.
type breakError struct {
	stage         Stage
	node, channel string
	err           error
}

// Error is why the thread breaks.
func (e *breakError) Error() string { return e.err.Error() }

func breaks(stage Stage, node, channel string, err error) error {
	return &breakError{stage, node, channel, err}
}

func breaksf(stage Stage, node, channel, format string, args ...any) error {
	return breaks(stage, node, channel, fmt.Errorf(format, args...))
}

// judgeThread judges a thread. An error is one of the saver's, which says nothing about the thread.
func (g *Graph) judgeThread(ctx context.Context, s saver.Saver, t saver.ThreadInfo) (*verdict, error) {
	v := &verdict{begunAt: map[string]bool{}, adapted: map[string]bool{}, ignored: map[string]bool{}}
	saved, err := getTuple(ctx, s, saver.Config{ThreadID: t.ThreadID})
	if err != nil && !errors.Is(err, saver.ErrCorrupt) || err == nil && saved == nil {
		v.done = true // deleted meanwhile
		return v, err
	}
	if err != nil {
		v.broken = []BrokenThread{{ThreadID: t.ThreadID, Status: t.Status, Stage: StageLoad, Err: err}}
		return v, nil
	}
	if n := saved.Note; n != nil {
		v.version = n.Version
		if n.Graph != "" && g.name != "" && n.Graph != g.name {
			v.other = n.Graph
			return v, nil
		}
	}
	j := &judge{g: g, s: s, status: t.Status, saved: saved, v: v}
	return v, j.run(ctx)
}

// run judges one checkpoint, and the graphs inside.
func (j *judge) run(ctx context.Context) error {
	err := guard(func() error { return j.steps(ctx) })
	var persist *PersistError
	var broken *breakError
	switch {
	case err == nil:
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &persist) && !errors.Is(err, saver.ErrCorrupt):
		return err
	case !errors.As(err, &broken):
		broken = &breakError{stage: StageLoad, err: err}
	}
	if len(j.v.broken) == 0 {
		at := j.saved.Config
		j.v.broken = append(j.v.broken, BrokenThread{ThreadID: at.ThreadID, Namespace: at.Namespace, CheckpointID: j.saved.Checkpoint.ID,
			Status: j.status, Version: j.v.version, Stage: broken.stage, Node: broken.node, Channel: broken.channel, Err: broken.err})
	}
	return nil
}

// steps takes the steps of a run up to its first node.
func (j *judge) steps(ctx context.Context) error {
	t, err := j.load(ctx)
	if err != nil {
		return err
	}
	if !j.g.opts.LangGraph {
		if gone := j.gone(&t); len(gone) > 0 {
			return breaks(StagePlan, gone[0], "", &UnknownNodeError{ThreadID: t.place.ThreadID, Nodes: gone})
		}
	}
	if join, err := j.lostJoin(); err != nil || join != "" {
		if err == nil {
			err = fmt.Errorf("some nodes have reached %q, which the graph does not have any more: the node behind it would never run", join)
		}
		return breaks(StagePlan, "", join, err)
	}
	at := &threadStatus{threadState: t, g: j.g, s: j.s}
	prep, err := at.preparer()
	if err != nil {
		return j.refused(err)
	}
	tasks, err := j.plan(prep)
	if err != nil {
		return err
	}
	if len(tasks.order) == 0 && len(t.pending) == 0 {
		j.v.done = j.status == saver.StatusUnknown && t.place.Namespace == ""
		return nil
	}
	if err := j.place(prep, tasks, t.pending); err != nil {
		return err
	}
	_, made := takeCalls(slices.Clone(t.pending))
	for _, task := range tasks.order {
		if len(task.writes) > 0 {
			continue
		}
		if n := task.node; n != nil && n.IsGraph {
			if before := made.firstOf(task); before != "" {
				return breaks(StagePlace, task.name, "", &CallMismatchError{Node: task.name, Position: 1, Call: n.Subgraphs[0].opts.Name, Before: before})
			}
		}
		if err := j.takes(task); err != nil {
			return err
		}
		if err := j.inside(ctx, task); err != nil || len(j.v.broken) > 0 {
			return err
		}
	}
	return j.afterwards(prep, tasks)
}

// load loads the checkpoint, and notes what was renamed and what is not known.
func (j *judge) load(ctx context.Context) (threadState, error) {
	if err := j.g.migrate(&j.saved.Checkpoint); err != nil {
		return threadState{}, breaks(StageMigrate, "", "", err)
	}
	now, err := j.g.migrated(ctx, j.s, j.saved)
	if err != nil {
		return threadState{}, breaks(StageMigrate, "", "", err)
	}
	for _, m := range now.through {
		j.v.adapted[m.label()] = true
	}
	t, err := j.g.loadMigrated(ctx, j.s, versionOf(j.saved.Note), &now)
	j.saved = now.tuple
	var restore *channel.RestoreError
	var persist *PersistError
	switch {
	case errors.As(err, &persist):
		return t, err
	case errors.As(err, &restore):
		return t, breaks(StageDecode, "", restore.Key, err)
	case err != nil:
		return t, breaks(StageLoad, "", "", err)
	}
	var other *OtherVersionError
	if errors.As(t.drops, &other) {
		return t, breaks(StageLoad, "", other.Keys[0], other)
	}
	for to, from := range t.renamed {
		j.v.adapted[alias(from, to)] = true
	}
	for name := range unknownKeys(j.g, j.saved) {
		j.v.ignored[name] = true
	}
	for _, w := range j.saved.PendingWrites {
		if to := j.g.newName(w.Channel); to != w.Channel {
			j.v.adapted[alias(w.Channel, to)] = true
		}
	}
	return t, nil
}

func alias(from, to string) string { return fmt.Sprintf("alias %s → %s", from, to) }

// gone are the nodes that are left to run and that the graph does not have. A checkpoint without a note
// has them as triggers with a value.
func (j *judge) gone(t *threadState) []string {
	gone := t.missing(j.g)
	if t.noted == nil {
		for name := range j.saved.Checkpoint.Values {
			if node, ok := strings.CutPrefix(name, branchPrefix); ok && j.g.nodes[node] == nil && !slices.Contains(gone, node) {
				gone = append(gone, node)
			}
		}
		slices.Sort(gone)
	}
	return gone
}

// lostJoin is a join that the graph does not have, and that some of its nodes have reached; "" if there
// is none.
func (j *judge) lostJoin() (string, error) {
	for name, v := range j.saved.Checkpoint.Values {
		if !strings.HasPrefix(name, joinPrefix) || j.g.specs.has(name) {
			continue
		}
		reached, err := v.Any()
		if err != nil {
			return name, err
		}
		if set, ok := reached.(serde.Set); ok && len(set) == 0 {
			continue
		}
		if reached != nil {
			return name, nil
		}
	}
	return "", nil
}

// plan makes the next tasks. What a run would only warn of is an error here.
func (j *judge) plan(prep *preparer) (*taskSet, error) {
	var lost string
	prep.warn = func(msg string, args ...any) { lost = msg + ": " + fmt.Sprint(args...) }
	tasks, err := prep.next(nil)
	if err != nil {
		return nil, breaks(StagePlan, "", "", err)
	}
	if lost != "" && !j.g.opts.LangGraph {
		return nil, breaksf(StagePlan, "", "", "%s", lost)
	}
	return tasks, nil
}

// takes reports whether the node of a task takes the input that the task has.
func (j *judge) takes(t *task) error {
	n := t.node
	if n == nil {
		return nil
	}
	if n.Name == Start && j.g.spec.CheckInput != nil && n.Run == nil {
		return j.startTakes(t)
	}
	if n.CheckInput == nil {
		return nil
	}
	if err := guard(func() error { return n.CheckInput(t.input) }); err != nil {
		return breaks(StageDecode, n.Name, "", fmt.Errorf("node %q does not take what it would be given: %w", n.Name, err))
	}
	return nil
}

// startTakes reports whether the first node, which passes the input of a run on, can do so. It runs no
// function of the program.
func (j *judge) startTakes(t *task) error {
	pairs, err := j.g.spec.CheckInput(t.input)
	if err != nil {
		return breaks(StagePlace, Start, "", err)
	}
	kept := map[string]bool{}
	for _, p := range pairs {
		kept[p.Key] = true
		spec, ok := j.g.specs.get(p.Key)
		if !ok {
			continue
		}
		if err := channel.Check(spec, []any{p.Value}); err != nil {
			return breaks(StagePlace, Start, p.Key, err)
		}
	}
	given, _ := PairsOf(t.input)
	for _, p := range given {
		if to := j.g.newName(p.Key); to != p.Key && kept[to] {
			j.v.adapted[alias(p.Key, to)] = true
		} else if !kept[p.Key] {
			j.v.ignored[p.Key] = true
		}
	}
	return nil
}

// place finds the task of each pending write and question, and gives ended tasks what they wrote. A
// write of a task that is not next any more is lost, and a question of one cannot be answered.
func (j *judge) place(prep *preparer, tasks *taskSet, pending []answer.Write) error {
	statuses, _ := answer.Statuses(pending)
	byPath := map[string]*task{}
	for _, t := range tasks.order {
		byPath[t.pathStr] = t
	}
	rest, made, _, _, _ := takeRecords(slices.Clone(pending))
	j.v.begun = j.v.begun || len(made.at) > 0
	for path := range made.at {
		root, _ := rootOf(path)
		if t := byPath[root]; t != nil && (statuses[t.id] == nil || !statuses[t.id].Finished) {
			j.v.begunAt[j.label(t)] = true
		}
	}
	for _, w := range rest {
		s := statuses[w.TaskID]
		if w.TaskID == nullTaskID || s == nil || !s.Finished && len(s.Interrupts) == 0 {
			continue // what failed, or was answered, and runs again
		}
		root, call := rootOf(w.Path)
		t := tasks.get(w.TaskID)
		if t == nil && root != w.Path {
			t = byPath[root]
		}
		if t == nil || call != "" && !isCallOf(prep, t, w, call, made.at[w.Path]) {
			node := nodeOf(root)
			if s.Finished {
				return breaksf(StagePlace, node, "", "task %s of node %q has ended, and the graph does not have that task any more: what it wrote has no place, and the node would run again", w.TaskID, node)
			}
			return breaksf(StagePlace, node, "", "task %s of node %q asked, and the graph does not have that task any more: an answer has no place", w.TaskID, node)
		}
		if len(s.Interrupts) > 0 {
			j.v.begun = true
			j.v.begunAt[j.label(t)] = true
		}
	}
	outputs := outputsOf(rest)
	for _, t := range tasks.order {
		t.writes = outputs[t.id]
		for _, w := range t.writes {
			if err := j.writeFits(t, w); err != nil {
				return err
			}
		}
	}
	return nil
}

// label names the node of a task, behind the namespace of a graph inside and a colon.
func (j *judge) label(t *task) string {
	if ns := recastNS(j.saved.Config.Namespace); ns != "" {
		return ns + ":" + t.name
	}
	return t.name
}

// writeFits reports whether a write of a task that ended has a place.
func (j *judge) writeFits(t *task, w write) error {
	if s, ok := sendOf(w.value); ok && w.channel == chTasks {
		n := j.g.nodes[s.Node]
		if n == nil {
			return breaksf(StagePlace, s.Node, "", "node %q, which has ended, sent to node %q, which the graph does not have", t.name, s.Node)
		}
		if n.CheckInput != nil {
			if err := guard(func() error { return n.CheckInput(s.Arg) }); err != nil {
				return breaks(StagePlace, s.Node, "", fmt.Errorf("node %q does not take what node %q has sent to it: %w", s.Node, t.name, err))
			}
		}
	}
	if strings.HasPrefix(w.channel, joinPrefix) && !j.g.specs.has(w.channel) {
		return breaksf(StagePlace, t.name, w.channel, "node %q, which has ended, leads to %q, which the graph does not have: the node behind it would never run", t.name, w.channel)
	}
	if node, ok := strings.CutPrefix(w.channel, branchPrefix); ok && j.g.nodes[node] == nil {
		return breaksf(StagePlace, node, w.channel, "node %q, which has ended, leads to node %q, which the graph does not have", t.name, node)
	}
	return nil
}

// inside judges the graph inside a task.
func (j *judge) inside(ctx context.Context, t *task) error {
	sub := j.g.subgraphOf(t.name)
	if sub == nil {
		return nil
	}
	saved, err := getTuple(ctx, j.s, saver.Config{ThreadID: j.saved.Config.ThreadID, Namespace: sub.ownNamespace(t.ns)})
	if err != nil || saved == nil {
		return err
	}
	return (&judge{g: sub, s: j.s, status: j.status, saved: saved, v: j.v}).run(ctx)
}

// afterwards applies what ended tasks wrote. If all have ended, the next superstep begins before any node
// has run, so its tasks are planned too.
func (j *judge) afterwards(prep *preparer, tasks *taskSet) error {
	var ended []taskWrites
	for _, t := range tasks.order {
		if len(t.writes) > 0 {
			ended = append(ended, t.asWrites())
		}
	}
	if len(ended) == 0 {
		return nil
	}
	cp, set := prep.cp.clone(), prep.set.copy()
	next := func(v saver.Version) (saver.Version, error) { return j.s.NextVersion(v, "") }
	a := &applier{cp: cp, set: set, triggers: j.g.triggers, next: next}
	if _, err := a.apply(ended); err != nil {
		return j.refused(err)
	}
	if len(ended) < len(tasks.order) {
		return nil
	}
	after, err := j.plan(j.g.snapshotPreparer(cp, set, prep.ns, nil, prep.step+1))
	if err != nil {
		return err
	}
	for _, t := range after.order {
		if err := j.takes(t); err != nil {
			return err
		}
	}
	return nil
}

// refused is the break of writes that a channel refuses.
func (j *judge) refused(err error) error {
	name := ""
	var update *channel.UpdateError
	if errors.As(err, &update) {
		name = update.Channel
	}
	return breaks(StagePlace, "", name, err)
}

// rootOf returns the stored path of the task of a node that a task belongs to, and the name-less path of the
// outermost call if it belongs to a call of that node's body.
func rootOf(path string) (root, call string) {
	for {
		body, _, ok := pathOfBody(path)
		if !ok {
			break
		}
		path, call = strings.TrimPrefix(body, "~"+push+", "), path
	}
	if at := strings.Index(path, ", "+handlerMark); at >= 0 {
		path = path[:at]
	}
	return path, call
}

// nodeOf is the node that a stored path names; "" if it names none.
func nodeOf(path string) string {
	node, _ := strings.CutPrefix(path, "~"+pull+", ")
	if node == path {
		return ""
	}
	return node
}

// isCallOf reports whether a write of a call directly in the body of t has the id that the call has now.
// What is not known counts as one.
func isCallOf(prep *preparer, t *task, w answer.Write, call string, made []madeCall) bool {
	if call != w.Path || len(made) == 0 {
		return true
	}
	return slices.ContainsFunc(made, func(c madeCall) bool {
		return prep.called(t, c.number, &callSpec{name: c.name}).id == w.TaskID
	})
}
