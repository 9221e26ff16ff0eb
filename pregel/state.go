package pregel

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// StateSnapshot is the state of a thread at one checkpoint.
type StateSnapshot struct {
	// Values are the channels shown: the value of a single one, or a map[string]any.
	Values any
	// Next are the nodes whose tasks have not ended. In the newest state they include nodes
	// that the graph no longer has.
	Next []string
	// Status says how far the thread has come: it is done, waits for an answer or at a
	// breakpoint, sleeps until an instant or a signal, failed, or is unfinished. An unfinished thread still has tasks to run, or
	// lacks only the checkpoint that ends their superstep, because the process died or the
	// run was cancelled or drained, or because a run is under way. Recover resumes it, and
	// so does a run with nil; RunOptions.Unfinished says what new input does. A thread that
	// UpdateState gave tasks to waits for somebody to run them.
	//
	// Only the newest state has a Status. It is "" in history, for a named checkpoint, and
	// for a thread without a checkpoint.
	Status saver.Status
	// Address is that of this checkpoint; give it to Invoke to go back there.
	Address  Address
	Metadata saver.Metadata
	// Version is that of the graph that stored this checkpoint; "" is unknown.
	Version string
	// CreatedAt is when the checkpoint was made, in ISO 8601; "" if there is
	// none.
	CreatedAt string
	// Parent is the address of the checkpoint before; nil if there is none.
	Parent *Address
	Tasks  []TaskState
	// Interrupts are those of all tasks. Of the newest state they are the ones
	// that wait.
	Interrupts []Interrupt
	// Waits are what the newest state waits for beside answers, the earliest first: see Sleep. In
	// TaskState.Interrupts they are among the questions, as LangGraph sees them.
	Waits []Wait
	// Exposed are what bodies have exposed since the checkpoint, by name: see Expose. Nil: nothing.
	Exposed map[string]any
	due     bool // one of the waits is over
	// copied: the waits are those of a thread of which this one is a copy
	copied bool
	// working: a question has an answer in force.
	working bool
	absent  bool // there is no checkpoint
}

// Map is Values as a map; nil if it is none.
func (s *StateSnapshot) Map() map[string]any {
	m, _ := s.Values.(map[string]any)
	return m
}

// TaskState is one task of a snapshot.
type TaskState struct {
	ID         string
	Name       string
	Path       Path
	Input      any // the input of the node
	Err        any // nil, or the error of its last failure: an error or a text
	Interrupts []Interrupt
	// Finished reports whether the task has ended. Result has its writes to the channels shown.
	Finished bool
	Result   any
	// StateAddress is the address of the state of the graph inside, if the node names one. State is
	// that state, if it was requested.
	StateAddress *Address
	State        *StateSnapshot
}

// Subgraph is a graph inside another and the path of node names that leads
// there.
type Subgraph struct {
	Namespace string
	Graph     *Graph
}

// GetSubgraphs lists the graphs that nodes name. Each is followed by the graphs inside it,
// whose namespaces contain a '|'.
func (g *Graph) GetSubgraphs() []Subgraph {
	g.mustBe()
	var out []Subgraph
	for _, name := range g.order {
		if sub := g.subgraphOf(name); sub != nil {
			out = append(out, Subgraph{name, sub})
			for _, s := range sub.GetSubgraphs() {
				out = append(out, Subgraph{name + nsSep + s.Namespace, s.Graph})
			}
		}
	}
	return out
}

func (g *Graph) subgraphOf(node string) *Graph {
	n := g.nodes[node]
	if n == nil || len(n.Subgraphs) == 0 || n.Subgraphs[0].opts.Checkpointing == Off {
		return nil
	}
	return n.Subgraphs[0]
}

// inside finds the graph that a namespace addresses.
func (g *Graph) inside(ns string) (*Graph, error) {
	path := recastNS(ns)
	at := g
	for _, name := range strings.Split(path, nsSep) {
		if at = at.subgraphOf(name); at == nil {
			return nil, &SubgraphError{Namespace: path}
		}
	}
	return at, nil
}

// stateTarget finds out which graph and which place a state call is about.
func (g *Graph) stateTarget(a Address) (*Graph, saver.Saver, saver.Config, error) {
	s := g.opts.Saver
	at := a.place()
	if s == nil {
		return nil, nil, at, fmt.Errorf("state of graph %q: %w", g.opts.Name, ErrNoSaver)
	}
	if a.ThreadID == "" {
		return nil, nil, at, &ArgumentError{Field: "ThreadID", Reason: "is missing"}
	}
	target := g
	if a.Namespace != "" {
		var err error
		if target, err = g.inside(a.Namespace); err != nil {
			return nil, nil, at, err
		}
	}
	at.Namespace = target.ownNamespace(at.Namespace)
	return target, s, at, nil
}

// ownNamespace returns the namespace of the graph's checkpoints.
func (g *Graph) ownNamespace(ns string) string {
	if g.opts.Checkpointing == Stable {
		return stableNS(ns)
	}
	return ns
}

// StateOptions are options of GetState.
type StateOptions struct {
	// Subgraphs asks for the states of graphs inside; see TaskState.State.
	Subgraphs bool
}

// GetState returns the state at an address. The newest state of a thread includes what
// finished tasks of an unfinished superstep wrote, unless those writes conflict. A named
// checkpoint is shown as it was; if it does not exist, the error matches saver.ErrNotFound. If the thread
// has no checkpoint, and none is named, the state is empty, the error nil, and Address what was asked for. With
// Options.LangGraph the state of a checkpoint that does not exist is empty, too.
func (g *Graph) GetState(ctx context.Context, at Address, opts ...StateOptions) (*StateSnapshot, error) {
	g.mustBe()
	target, s, place, err := g.stateTarget(at)
	if err != nil {
		return nil, err
	}
	var given answer.Given
	if place.CheckpointID == "" && place.Namespace != "" {
		if given, err = g.givenTo(ctx, s, place.ThreadID); err != nil {
			return nil, err
		}
	}
	st, err := target.stateAt(ctx, s, place, given, lastOf(opts).Subgraphs)
	if err == nil && st.absent && place.CheckpointID != "" && !g.opts.LangGraph {
		return nil, noCheckpoint(place)
	}
	return st, err
}

// Output returns what a run of the graph returns that ends where the thread is: its output keys, of an entrypoint
// what its function returned. It is nil if the thread has no checkpoint.
func (g *Graph) Output(ctx context.Context, threadID string) (any, error) {
	target, s, place, err := g.mustBe().stateTarget(Thread(threadID))
	if err != nil {
		return nil, err
	}
	saved, err := getTuple(ctx, s, place)
	if err != nil || saved == nil {
		return nil, err
	}
	t, err := target.load(ctx, s, saved)
	if err != nil {
		return nil, err
	}
	return t.set.read(target.output), nil
}

// stateAt returns the state at a place. given are the answers in force on the thread, if the place is in a
// graph inside.
func (g *Graph) stateAt(ctx context.Context, s saver.Saver, at saver.Config, given answer.Given, subgraphs bool) (*StateSnapshot, error) {
	saved, err := getTuple(ctx, s, at)
	if err != nil {
		return nil, err
	}
	if saved == nil {
		return &StateSnapshot{Values: map[string]any{}, Address: addressOf(at, nil), absent: true}, nil
	}
	return g.snapshot(ctx, s, saved, given, subgraphs, at.CheckpointID == "")
}

// HistoryQuery narrows GetStateHistory. The zero value is everything.
type HistoryQuery struct {
	Filter map[string]any // of metadata
	Before string         // checkpoint ids before this one
	Limit  int            // 0: no limit
}

// GetStateHistory yields the states of a thread, newest first, each as it was when its
// superstep began. The listing reads the store at one moment.
func (g *Graph) GetStateHistory(ctx context.Context, a Address, q HistoryQuery) iter.Seq2[*StateSnapshot, error] {
	g.mustBe()
	return func(yield func(*StateSnapshot, error) bool) {
		target, s, at, err := g.stateTarget(a)
		if err != nil {
			yield(nil, err)
			return
		}
		query := saver.Query{ThreadID: at.ThreadID, Namespace: saver.InNamespace(at.Namespace), CheckpointID: at.CheckpointID,
			Before: q.Before, Filter: q.Filter, Limit: q.Limit}
		if len(target.migrations) > 0 {
			s = &listedOnce{Saver: s}
		}
		for saved, err := range s.List(ctx, query) {
			if err != nil {
				yield(nil, err)
				return
			}
			snap, err := target.snapshot(ctx, s, saved, answer.Given{}, false, false)
			if !yield(snap, err) || err != nil {
				return
			}
		}
	}
}

// snapshotPreparer makes the tasks of a stored checkpoint.
func (g *Graph) snapshotPreparer(cp *liveCheckpoint, set *channelSet, ns string, pending []answer.Write, step int) *preparer {
	return &preparer{g: g, cp: cp, set: set, ns: ns, step: step, stop: step + 2, answers: answer.Of(pending)}
}

// snapshot builds the state at a checkpoint. live shows the present: values include what
// finished tasks wrote, and only interrupts that still wait are listed.
func (g *Graph) snapshot(ctx context.Context, s saver.Saver, saved *saver.Tuple, given answer.Given, recurse, live bool) (*StateSnapshot, error) {
	t, err := g.load(ctx, s, saved)
	if err != nil {
		return nil, err
	}
	tasks, err := g.snapshotPreparer(t.cp, t.set, t.place.Namespace, t.pending, stepOf(t.md)+1).next(nil)
	if err != nil {
		return nil, err
	}
	var how progress
	if live && saved.Config.Namespace == "" && !g.opts.LangGraph {
		_, given = answer.TakeGiven(slices.Clone(t.pending))
	}
	if live {
		at := &threadStatus{threadState: t, g: g, s: s, given: given, before: g.opts.InterruptBefore, after: g.opts.InterruptAfter}
		if how, err = at.progress(ctx); err != nil {
			return nil, err
		}
	}
	states, err := g.insideStates(ctx, s, saved.Config, tasks, given, recurse)
	if err != nil {
		return nil, err
	}
	if err := g.showPending(&t, tasks, live); err != nil {
		return nil, err
	}
	snap := &StateSnapshot{Status: how.status, Waits: how.waits, due: how.due, copied: how.copied, working: how.working, Values: t.set.read(g.stream), Address: addressOf(saved.Config, saved.Metadata),
		Metadata: saved.Metadata, CreatedAt: saved.Checkpoint.TS, Tasks: g.taskStates(tasks, t.pending, states, given, live)}
	for _, x := range tasks.order {
		if len(x.writes) == 0 {
			snap.Next = append(snap.Next, x.name)
		}
	}
	snap.Exposed = exposedIn(t.pending)
	if saved.Note != nil {
		snap.Version = saved.Note.Version
	}
	snap.Next = append(snap.Next, how.missing...)
	for _, t := range snap.Tasks {
		snap.Interrupts = append(snap.Interrupts, answer.WithoutWaits(t.Interrupts)...)
	}
	if snap.Status == saver.StatusWaiting && len(snap.Waits) > 0 && len(snap.Interrupts) == 0 {
		snap.Status = saver.StatusSleeping
	}
	if saved.Parent != nil {
		p := addressOf(*saved.Parent, saved.Metadata)
		snap.Parent = &p
	}
	return snap, nil
}

// showPending applies pending writes to the channels of a snapshot.
func (g *Graph) showPending(s *threadState, tasks *taskSet, live bool) error {
	look := &applier{cp: s.cp, set: s.set, triggers: g.triggers}
	if null := nullTask(s.pending); null != nil {
		if _, err := look.apply(null); err != nil {
			return err
		}
	}
	if !live {
		return nil
	}
	outputs := outputsOf(s.pending)
	var ended []taskWrites
	for _, t := range tasks.order {
		if t.writes = outputs[t.id]; len(t.writes) > 0 {
			ended = append(ended, t.asWrites())
		}
	}
	if len(ended) == 0 {
		return nil
	}
	_, err := look.apply(ended)
	var refused *channel.UpdateError
	if errors.As(err, &refused) && !g.opts.LangGraph { // the state stays as it is: the thread failed
		return nil
	}
	return err
}

// insideState is the part of a snapshot about a graph inside.
type insideState struct {
	at    Address
	state *StateSnapshot
}

func (g *Graph) insideStates(ctx context.Context, s saver.Saver, at saver.Config, tasks *taskSet, given answer.Given, recurse bool) (map[string]insideState, error) {
	out := map[string]insideState{}
	for _, t := range tasks.order {
		sub := g.subgraphOf(t.name)
		if sub == nil {
			continue
		}
		in := insideState{at: Address{ThreadID: at.ThreadID, Namespace: t.ns}}
		if recurse {
			place := in.at.place()
			place.Namespace = sub.ownNamespace(place.Namespace)
			var err error
			if in.state, err = sub.stateAt(ctx, s, place, given, true); err != nil {
				return nil, err
			}
		}
		out[t.id] = in
	}
	return out, nil
}

// taskStates describes tasks by the writes recorded for them.
func (g *Graph) taskStates(tasks *taskSet, pending []answer.Write, states map[string]insideState, given answer.Given, live bool) []TaskState {
	statuses, _ := answer.Statuses(pending)
	answers, outputs := answer.Of(pending), outputsOf(pending)
	out := make([]TaskState, len(tasks.order))
	for i, t := range tasks.order {
		ts := TaskState{ID: t.id, Name: t.name, Path: t.where(), Input: t.input}
		if s := statuses[t.id]; s != nil {
			ts.Err, ts.Interrupts, ts.Finished = s.Err, s.Interrupts, s.Finished
			switch {
			case live && g.opts.LangGraph:
				ts.Interrupts = s.Pending()
			case live:
				ts.Interrupts = given.Unanswered(s.Waiting(t.ns, answers.Taken(t.id)))
			}
			if ts.Finished {
				ts.Result = g.resultOf(outputs[t.id])
			}
		}
		if in, ok := states[t.id]; ok {
			ts.StateAddress, ts.State = &in.at, in.state
		}
		out[i] = ts
	}
	return out
}

func (g *Graph) resultOf(output []write) any {
	var shown []write
	for _, w := range output {
		if w.channel == chReturn {
			return w.value
		}
		if g.stream.has(w.channel) {
			shown = append(shown, w)
		}
	}
	m := foldWrites(shown)
	if g.stream.Single {
		return m[g.stream.Names[0]]
	}
	return m
}
