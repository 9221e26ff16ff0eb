package pregel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Child starts runs of another graph, on threads of their own, and waits for their ends. The run of the
// node that starts one is its parent. The queue that executes the parent executes the children, so they need a
// runs.Worker. A parent that waits costs nothing, also for weeks; its worker may be killed and deployed anew.
//
//	var ship = pregel.NewChild[Parcel, Receipt]("ship")
//
//	receipt, err := ship.Call(ctx, parcel) // in a node
//
// # The place
//
// The thread of a child comes from the place where it is started: the thread of the parent, the checkpoint and
// the task, and the ordinal among the children that the body starts. A body that runs again finds the child of
// that place, and starts none, whatever made it run again. A fork, and a copy of the thread, have other places,
// hence other children. Children are told apart by their order, as calls are: a body that was changed, so
// that at a place it starts another graph, or with another input, fails with a CallMismatchError. The input
// must be the same in every run: what depends on the time belongs in a TaskFunc.
//
// # The end
//
// A child ends with the first run of its thread that ends for good: with its output, with an error behind its
// last attempt, or cancelled. One that comes to a question has not ended; the run that brings the answer
// goes on with it. A child that is removed has ended too. The commit that ends a child makes its parent due. The
// parent reads the end there, and binds it to the place where it waits, durably, in every durability mode. So
// nothing that becomes of the child later changes what the parent got.
//
// # The parent's end
//
// When the parent ends, is cancelled, or is removed, the children that have not ended are cancelled, and
// theirs. A parent that failed keeps its children, as it may be tried again. ChildOptions.Detached lets a child
// go on. The commit that ends the parent marks its children, and workers end them, so a crash
// loses no cancellation.
type Child[I, O any] struct {
	graph string
	opts  ChildOptions
}

// ChildOptions are options of a Child.
type ChildOptions struct {
	// Detached children go on when their parent has ended.
	Detached bool
}

// NewChild makes a Child of the graph with this name among those of the workers. The last of opts counts.
func NewChild[I, O any](graph string, opts ...ChildOptions) Child[I, O] {
	return Child[I, O]{graph: graph, opts: lastOf(opts)}
}

// Start starts a child, or finds the one of this place, and returns at once. When it returns nil, the child is
// stored, and is executed whatever becomes of this process.
//
// Errors: ErrOutsideTask; ErrNoSaver; ErrNoQueue if no worker executes the run; a *CallMismatchError; the
// failure of a save or of the queue. Then nothing was started, or the node that runs again finds it.
func (c Child[I, O]) Start(ctx context.Context, input I) (StartedChild[O], error) {
	id, err := startChild(ctx, ChildSpec{Graph: c.graph, Input: input, Detached: c.opts.Detached})
	if err != nil {
		return StartedChild[O]{}, fmt.Errorf("start a child of graph %q: %w", c.graph, err)
	}
	return StartedChild[O]{ThreadID: id, Graph: c.graph}, nil
}

// Call starts a child and waits for its end: Start, and StartedChild.Get.
func (c Child[I, O]) Call(ctx context.Context, input I) (O, error) {
	started, err := c.Start(ctx, input)
	if err != nil {
		var zero O
		return zero, err
	}
	return started.Get(ctx)
}

// StartedChild is a child that was started.
type StartedChild[O any] struct {
	// ThreadID is the child's thread, and Graph its graph.
	ThreadID, Graph string
}

// Get returns the output of the child: what its entrypoint returned, or the output of its graph. If it
// has not ended, the run ends, and the thread waits: like Receive, Get returns an *InterruptError then, which
// the node must return, and the node runs again from its start when the child has ended. A *ChildError says
// that it ended without an output. An output that is no O is a *ChildError too.
//
// Other errors: ErrOutsideTask; ErrNoSaver; ErrNoQueue; those of the queue.
func (s StartedChild[O]) Get(ctx context.Context) (O, error) {
	v, _, err := s.get(ctx, func(time.Time) time.Time { return time.Time{} })
	return v, err
}

// GetFor is Get with a time-out. ok is false if d has passed, since the wait was first reached, and the child
// had not ended. What came first is stored: a node that runs again gets the same answer. The child goes on.
func (s StartedChild[O]) GetFor(ctx context.Context, d time.Duration) (value O, ok bool, err error) {
	return s.get(ctx, func(now time.Time) time.Time { return now.Add(d) })
}

func (s StartedChild[O]) get(ctx context.Context, until func(now time.Time) time.Time) (value O, ok bool, err error) {
	end, err := awaitChild(ctx, s.ThreadID, s.Graph, until)
	if err != nil || end == nil {
		return value, false, err
	}
	failed := &ChildError{ThreadID: s.ThreadID, RunID: end.RunID, Graph: s.Graph, How: end.How, Text: end.Error}
	if end.How != ChildDone {
		return value, false, failed
	}
	if value, err = channel.Convert[O](end.Output); err != nil {
		failed.Text = err.Error()
		return value, false, failed
	}
	return value, true, nil
}

// ChildOutcome says how a child has ended.
type ChildOutcome string

const (
	// ChildDone: it came to its end, and has an output.
	ChildDone ChildOutcome = "done"
	// ChildFailed: its last attempt failed.
	ChildFailed ChildOutcome = "failed"
	// ChildCancelled: it was cancelled, by whoever or because its own parent ended.
	ChildCancelled ChildOutcome = "cancelled"
	// ChildDeleted: its runs were removed before the parent had seen an end.
	ChildDeleted ChildOutcome = "deleted"
)

// ChildError: a child has ended without an output, or with one that is not of the type that is awaited
// (How is ChildDone). It is bound to its place: a node that runs again gets it again.
type ChildError struct {
	ThreadID, RunID string // RunID is "" if it was deleted
	Graph           string
	How             ChildOutcome
	Text            string // why; "" if nobody said
}

// Error names graph, thread and run of the child.
func (e *ChildError) Error() string {
	s := fmt.Sprintf("the child of graph %q on thread %s", e.Graph, e.ThreadID)
	switch e.How {
	case ChildDeleted:
		return s + " was deleted"
	case ChildCancelled:
		return s + " was cancelled: run " + e.RunID
	case ChildDone:
		return s + " has an output of another type: run " + e.RunID + ": " + e.Text
	case ChildFailed:
	}
	return s + " failed: run " + e.RunID + ": " + e.Text
}

// ErrNoQueue: nobody executes children. Submit the run to a queue, for a runs.Worker.
var ErrNoQueue = errors.New("children need a queue: submit the run to one, for a runs.Worker")

// ChildSpec is a child to start.
type ChildSpec struct {
	// ThreadID is the child's thread. It is the same whenever the place is.
	ThreadID string
	Graph    string
	Input    any
	// InputHash tells inputs apart; "" if this one does not count.
	InputHash string
	Detached  bool
}

// ChildEnd is how a child has ended.
type ChildEnd struct {
	RunID  string
	How    ChildOutcome
	Error  string
	Output any
}

// Children is who starts children of a run, for RunOptions.Children: a runs.Worker.
type Children interface {
	// StartChild starts a child, or finds the one that has its thread. The error matches ErrCallMismatch if
	// that one is of another graph or has another input.
	StartChild(ctx context.Context, c ChildSpec) error
	// ChildEnd returns how the child on a thread has ended, nil if it has not. When it has, the thread of the
	// run is due.
	ChildEnd(ctx context.Context, threadID string) (*ChildEnd, error)
}

// The start of a child has a record, as waits have: of its graph and input, by its thread. It is stored when the
// child is: a crash in between leaves a child that the node, when it runs again, finds by its thread. Behind it
// the queue is not asked again, so a child that was removed is not started anew.

// childStart is a child that a body starts.
type childStart struct {
	spec  ChildSpec
	at    *taskAttempt // the body
	n     int          // its ordinal in the body
	known bool         // it has a record
}

// childRecord is a stored start.
type childRecord struct{ graph, hash string }

func startChild(ctx context.Context, spec ChildSpec) (string, error) {
	if spec.Graph == "" {
		return "", &ArgumentError{Field: "Child", Reason: "has no graph"}
	}
	r, err := attemptFrom(ctx)
	if err != nil {
		return "", err
	}
	if err := inTurn(ctx); err != nil {
		return "", err
	}
	r.out.touch()
	c := &childStart{spec: spec, at: r, n: int(r.task.children.Add(1) - 1)}
	anchor, key, err := r.effectKey("__stele_child__ " + strconv.Itoa(c.n))
	if err != nil {
		return "", err
	}
	c.spec.ThreadID = key
	step := r.step.Get()
	if run := step.run.Get(); run.recordsCalls() && !step.g.untracked && len(step.g.spec.Managed) == 0 {
		c.spec.InputHash = inputHash(spec.Input)
	}
	if err := anchor.askChild(reqFindChild, c); err != nil || c.known {
		return key, err
	}
	children := step.run.Get().children
	if children == nil {
		return "", ErrNoQueue
	}
	if err := r.settle(ctx, saver.Saver.Sync); err != nil {
		return "", err
	}
	if err := children.StartChild(ctx, c.spec); err != nil {
		return "", err
	}
	return key, anchor.askChild(reqKeepChild, c)
}

// askChild asks the loop of the task at r for something about a child.
func (r *taskAttempt) askChild(kind requestKind, c *childStart) error {
	step := r.step.Get()
	return step.ask(request{kind: kind, task: r.task, child: c, stored: make(chan error, 1)})
}

// findChild finds the record of a child that a body starts.
func (l *loop) findChild(c *childStart) error {
	before, known := l.pos.waits.children[c.spec.ThreadID]
	c.known = known
	sameInput := l.pos.calls.updated || before.hash == c.spec.InputHash || before.hash == "" || c.spec.InputHash == ""
	if !known || before.graph == c.spec.Graph && sameInput {
		return nil
	}
	return &CallMismatchError{Node: c.at.task.name, Position: c.n + 1, Call: c.spec.Graph, Before: before.graph, Child: true}
}

// keepChild stores the record of a child that was started.
func (l *loop) keepChild(t *task, c *childStart) error {
	record := map[string]any{"started": c.spec.ThreadID, "graph": c.spec.Graph, "input": c.spec.InputHash,
		"n": int64(c.n), "when": l.run.now().UnixMicro()} // the last two are for Steps
	l.pos.waits.keepChild(c.spec.ThreadID, childRecord{c.spec.Graph, c.spec.InputHash})
	return l.recordForGood(t, "started "+c.spec.ThreadID, record)
}

func (w *waitsReached) keepChild(thread string, r childRecord) {
	if w.children == nil {
		w.children = map[string]childRecord{}
	}
	w.children[thread] = r
}

// awaitChild waits for the end of a child; nil if the time-out passed first.
func awaitChild(ctx context.Context, thread, graph string, until func(now time.Time) time.Time) (*ChildEnd, error) {
	fail := func(err error) (*ChildEnd, error) {
		return nil, fmt.Errorf("wait for the child of graph %q on thread %s: %w", graph, thread, err)
	}
	if thread == "" {
		return nil, &ArgumentError{Field: "StartedChild", Reason: "was not started"}
	}
	w, err := reachWait(ctx, Wait{Child: thread, ChildGraph: graph}, until)
	if err != nil {
		return fail(err)
	}
	if w.bound == nil {
		step := w.at.step.Get()
		run := step.run.Get()
		end, err := run.childEnd(ctx, thread)
		switch {
		case errors.Is(err, ErrNoQueue) && w.over: // its time has passed, and nobody knows better
		case err != nil:
			return fail(err)
		case end == nil && !w.over:
			return nil, w.open()
		}
		if err := w.bind(ctx, &bound{end: end}); err != nil {
			return fail(err)
		}
	}
	return w.bound.end, nil
}

// childEnd asks the queue how a child has ended.
func (r *runConfig) childEnd(ctx context.Context, thread string) (*ChildEnd, error) {
	if r.children == nil {
		return nil, ErrNoQueue
	}
	end, err := r.children.ChildEnd(ctx, thread)
	if err != nil {
		return nil, &PersistError{Op: "look at child thread " + thread, Err: err}
	}
	return end, nil
}

// record is the end as a binding has it.
func (e *ChildEnd) record() map[string]any {
	return map[string]any{"run": e.RunID, "how": string(e.How), "error": e.Error, "output": e.Output}
}

// childEndOf reads a record; nil for what another program has stored in its place.
func childEndOf(v any) *ChildEnd {
	record, ok := v.(map[string]any)
	if !ok {
		return nil
	}
	e := &ChildEnd{Output: record["output"]}
	e.RunID, _ = record["run"].(string)
	how, _ := record["how"].(string)
	e.How = ChildOutcome(how)
	e.Error, _ = record["error"].(string)
	return e
}
