package graph

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// Graph is a typed graph that can run. It does not change, and all its methods are safe for
// concurrent use. The last of several options that a method is given counts.
type Graph[S any] struct {
	g *pregel.Graph
	t *binding[S]
}

// Untyped is the graph in the engine's terms, for all that has no typed form: several
// updates at once, drawings, names of nodes, and its use as a Subgraph.
func (g *Graph[S]) Untyped() *pregel.Graph { return g.mustBe().g }

// mustBe is g. It panics with a sentence if g is nil, which is what is left where the error of Compile was ignored.
func (g *Graph[S]) mustBe() *Graph[S] {
	if g == nil {
		panic("graph: the graph is nil: look at the error of Compile")
	}
	return g
}

// Result is the outcome of a run.
type Result[S any] struct {
	// State is the state at the end of the run.
	State S
	// Waiting are the questions that the run waits for, in the order of the tasks. They are
	// stored. There are none if the run came to its end or stopped at a breakpoint.
	// QuestionOf reads their values.
	Waiting []pregel.Interrupt
	// Waits are what the thread waits for beside answers, the earliest first; see pregel.Sleep.
	Waits []pregel.Wait
}

// Command is what a run may be given instead of a new state.
type Command[S any] struct {
	// Resume answers the question that waits. Several are answered by a map[string]any from
	// the ids of the questions to their answers.
	Resume any
	// Update writes to the state before the run goes on, and says where to go besides. It
	// gets an S without values, whose addresses count alone.
	Update func(fields *S) Update
	// Input is new input. Unlike the state that Run takes, it can write zero values. It has
	// no Goto, and nothing else is set beside it.
	Input func(fields *S) Update
}

// Run takes new input: the fields of input that are not zero. It runs until the graph ends,
// asks a question or stops at a breakpoint. If an earlier run was left unfinished by a
// crash, that is finished first. If another run has the thread, the error is
// pregel.ErrConflict. Everything that ended is stored when Run returns.
func (g *Graph[S]) Run(ctx context.Context, at pregel.Address, input S, opts ...pregel.RunOptions) (*Result[S], error) {
	values, err := g.mustBe().t.values(&input, true)
	if err != nil {
		return nil, err
	}
	return g.invoke(ctx, at, values, opts)
}

// Resume answers the question that waits and goes on. The answer is what pregel.AskFor is
// told to return, or converts to it; several questions are answered by a map[string]any from
// their ids to the answers. If none waits, the error is pregel.ErrNoInterrupt, and nothing
// is run or stored.
func (g *Graph[S]) Resume(ctx context.Context, at pregel.Address, answer any, opts ...pregel.RunOptions) (*Result[S], error) {
	return g.invoke(ctx, at, pregel.Command{Resume: answer}, opts)
}

// Continue goes on with what is left to run: after a failure, a crash or a breakpoint. At
// the address of an earlier checkpoint it runs again from there.
func (g *Graph[S]) Continue(ctx context.Context, at pregel.Address, opts ...pregel.RunOptions) (*Result[S], error) {
	return g.invoke(ctx, at, nil, opts)
}

// Do runs with a Command. An empty one is Continue.
func (g *Graph[S]) Do(ctx context.Context, at pregel.Address, c Command[S], opts ...pregel.RunOptions) (*Result[S], error) {
	in, err := g.input(c)
	if err != nil {
		return nil, err
	}
	return g.invoke(ctx, at, in, opts)
}

func (g *Graph[S]) invoke(ctx context.Context, at pregel.Address, input any, opts []pregel.RunOptions) (*Result[S], error) {
	g.mustBe()
	if err := checkOptions(opts); err != nil {
		return nil, err
	}
	res, err := g.Untyped().Invoke(ctx, at, input, opts...)
	if err != nil {
		return nil, g.explain(at, err)
	}
	out := &Result[S]{Waiting: res.Interrupts, Waits: res.Waits}
	if m, ok := res.Value.(map[string]any); ok {
		err = g.t.fill(ctx, &out.State, m)
	}
	return out, g.explain(at, err)
}

// checkOptions refuses options whose result is no state.
func checkOptions(opts []pregel.RunOptions) error {
	if n := len(opts); n > 0 && opts[n-1].OutputKeys != nil && opts[n-1].OutputKeys.Single {
		return &pregel.ArgumentError{Field: "OutputKeys", Reason: "a typed graph shows several keys; see Untyped"}
	}
	return nil
}

// input is a Command in the engine's terms.
func (g *Graph[S]) input(c Command[S]) (any, error) {
	g.mustBe()
	if c.Input != nil {
		if c.Resume != nil || c.Update != nil {
			return nil, &pregel.ArgumentError{Field: "Input", Reason: "stands alone in a Command"}
		}
		r, err := g.edit(c.Input)
		if err == nil && len(r.to) > 0 {
			err = &pregel.ArgumentError{Field: "Input", Reason: "does not say where to go; use Update"}
		}
		if err != nil {
			return nil, err
		}
		return append(pregel.Pairs{}, r.pairs...), nil
	}
	if c.Resume == nil && c.Update == nil {
		return nil, nil
	}
	r, err := g.edit(c.Update)
	if err != nil {
		return nil, err
	}
	cmd := r.command()
	cmd.Resume = c.Resume
	return cmd, nil
}

// edit calls a function that names writes outside of a run.
func (g *Graph[S]) edit(f func(fields *S) Update) (resolved, error) {
	g.mustBe()
	if f == nil {
		return resolved{}, nil
	}
	fields := new(given[S])
	r, err := g.t.resolve("", f(&fields.now), &fields.now)
	if err == nil {
		err = g.t.checkUnchanged("", r.pairs, fields)
	}
	if err == nil && len(r.outer) > 0 {
		err = &pregel.InvalidUpdateError{Reason: "there is no graph around"}
	}
	return r, err
}

// Event is one event of a stream.
type Event[S any] struct {
	pregel.Event
	// State is the state that an event of mode values shows, of the outermost graph. It is
	// nil in any other.
	State *S
}

// Stream is Run that yields events as they come. An error is yielded last. To stop early
// cancels the run; everything that ended is stored when Stream returns. RunOptions.Modes
// choose what is shown.
func (g *Graph[S]) Stream(ctx context.Context, at pregel.Address, input S, opts ...pregel.RunOptions) iter.Seq2[Event[S], error] {
	values, err := g.mustBe().t.values(&input, true)
	return g.stream(ctx, at, values, err, opts)
}

// StreamDo is Stream with a Command: it answers, updates, or goes on with what is left.
func (g *Graph[S]) StreamDo(ctx context.Context, at pregel.Address, c Command[S], opts ...pregel.RunOptions) iter.Seq2[Event[S], error] {
	in, err := g.input(c)
	return g.stream(ctx, at, in, err, opts)
}

func (g *Graph[S]) stream(ctx context.Context, at pregel.Address, input any, err error, opts []pregel.RunOptions) iter.Seq2[Event[S], error] {
	return func(yield func(Event[S], error) bool) {
		if err == nil {
			err = checkOptions(opts)
		}
		if err != nil {
			yield(Event[S]{}, err)
			return
		}
		for e, err := range g.Untyped().Stream(ctx, at, input, opts...) {
			out := Event[S]{Event: e}
			if m, ok := e.Data.(map[string]any); ok && err == nil && e.Mode == pregel.ModeValues && len(e.NS) == 0 {
				out.State = new(S)
				err = g.t.fill(ctx, out.State, m)
			}
			if !yield(out, g.explain(at, err)) || err != nil {
				return
			}
		}
	}
}

// Snapshot is the state of a thread at one checkpoint.
type Snapshot[S any] struct {
	// State is the state. If the thread has no checkpoint, it is zero.
	State S
	pregel.StateSnapshot
}

func (g *Graph[S]) snapshot(ctx context.Context, at pregel.Address, snap *pregel.StateSnapshot, err error) (*Snapshot[S], error) {
	if err != nil {
		return nil, g.explain(at, err)
	}
	out := &Snapshot[S]{StateSnapshot: *snap}
	if err := g.t.fill(ctx, &out.State, snap.Map()); err != nil {
		return nil, g.explain(at, err)
	}
	return out, nil
}

// State returns the state at an address; see pregel.Graph.GetState. Namespace addresses
// only graphs with the same state.
func (g *Graph[S]) State(ctx context.Context, at pregel.Address, opts ...pregel.StateOptions) (*Snapshot[S], error) {
	snap, err := g.Untyped().GetState(ctx, at, opts...)
	return g.snapshot(ctx, at, snap, err)
}

// History yields the states of a thread, newest first; see pregel.Graph.GetStateHistory.
func (g *Graph[S]) History(ctx context.Context, at pregel.Address, q pregel.HistoryQuery) iter.Seq2[*Snapshot[S], error] {
	return func(yield func(*Snapshot[S], error) bool) {
		for snap, err := range g.Untyped().GetStateHistory(ctx, at, q) {
			out, err := g.snapshot(ctx, at, snap, err)
			if !yield(out, err) || err != nil {
				return
			}
		}
	}
}

// UpdateOptions are options of Graph.Update.
type UpdateOptions struct {
	// AsNode is the node that the update counts as. "" is the one that ran last, if that is
	// clear; see pregel.StateUpdate for the others.
	AsNode string
	pregel.UpdateOptions
}

// Update changes the state of a thread as if a node had returned what change returns, and
// gives the address of the new checkpoint. change gets an S without values, whose addresses
// count alone. A nil change only follows the node's edges. See pregel.Graph.UpdateState.
func (g *Graph[S]) Update(ctx context.Context, at pregel.Address, change func(fields *S) Update, opts ...UpdateOptions) (pregel.Address, error) {
	r, err := g.edit(change)
	if err != nil {
		return pregel.Address{}, err
	}
	var o UpdateOptions
	if n := len(opts); n > 0 {
		o = opts[n-1]
	}
	out, err := g.Untyped().UpdateState(ctx, at, pregel.StateUpdate{Values: r.output(), AsNode: o.AsNode}, o.UpdateOptions)
	return out, g.explain(at, err)
}

// Fork goes back to the checkpoint that at names, applies change there, and runs on. What
// the thread did since stays in its history. A nil change runs again from there.
func (g *Graph[S]) Fork(ctx context.Context, at pregel.Address, change func(fields *S) Update, opts ...pregel.RunOptions) (*Result[S], error) {
	if at.CheckpointID == "" {
		return nil, &pregel.ArgumentError{Field: "CheckpointID", Reason: "is missing: a fork begins at a checkpoint"}
	}
	if change != nil {
		var o UpdateOptions
		if n := len(opts); n > 0 {
			o.Metadata, o.Configurable = opts[n-1].Metadata, opts[n-1].Configurable
		}
		var err error
		if at, err = g.Update(ctx, at, change, o); err != nil {
			return nil, err
		}
	}
	return g.Continue(ctx, at, opts...)
}

// Recover goes on with every thread of the graph that a crash left unfinished; see
// pregel.Graph.Recover.
func (g *Graph[S]) Recover(ctx context.Context, o pregel.RecoverOptions) (pregel.RecoverReport, error) {
	return g.Untyped().Recover(ctx, o)
}

// Preflight says what the graph makes of the threads that other versions of it left; see
// pregel.Graph.Preflight. It names fields of S.
func (g *Graph[S]) Preflight(ctx context.Context, s saver.Saver, q saver.ThreadQuery) (*pregel.PreflightReport, error) {
	r, err := g.Untyped().Preflight(ctx, s, q)
	for i := range r.Broken {
		if b := &r.Broken[i]; b.Namespace == "" {
			if at, ok := g.t.state.byKey[b.Channel]; ok {
				b.Field = g.t.state.fields[at].name
			}
		}
	}
	return r, err
}

// QuestionOf reads the value of a question that waits.
func QuestionOf[Q any](waiting pregel.Interrupt) (Q, error) { return channel.Convert[Q](waiting.Value) }

// ContextOf returns, within a node, the RunOptions.Context of its run as a C. A map, as a run of a
// server has, is converted to a C. If the Context is no C, the error matches
// pregel.ErrInvalidArgument.
func ContextOf[C any](ctx context.Context) (C, error) {
	info, ok := pregel.Task(ctx)
	c, is := info.Context.(C)
	plain, isMap := info.Context.(map[string]any)
	switch {
	case !ok:
		return c, pregel.ErrOutsideTask
	case !is && isMap:
		c, err := channel.Convert[C](plain)
		if err != nil {
			err = &pregel.ArgumentError{Field: "Context", Reason: fmt.Sprintf("does not fit node %q: %v", info.Node, err)}
		}
		return c, err
	case !is:
		return c, &pregel.ArgumentError{Field: "Context", Reason: fmt.Sprintf("has type %T, and node %q needs %T", info.Context, info.Node, c)}
	}
	return c, nil
}

// StateError: a value that is stored for a thread does not fit the field of the state that
// it is for. Usually the type of the field was changed; see docs/guide/state.md. If a thread
// was to be loaded, nothing was run or stored, and a graph with the old type can go on.
type StateError struct {
	ThreadID string
	// Field is the field in Go, and Key what it is stored as. Both are "" for the input of a
	// packet, and Field is "" for the state of a graph inside.
	Field, Key string
	Err        error
}

// Error names the thread and the field.
func (e *StateError) Error() string {
	what := "the input of a packet"
	if e.Key != "" {
		what = fmt.Sprintf("field %s (%q)", e.Field, e.Key)
	}
	return fmt.Sprintf("thread %q: %s: %v", e.ThreadID, what, e.Err)
}

// Unwrap returns the cause.
func (e *StateError) Unwrap() error { return e.Err }

// of names the field in Go.
func (e *StateError) of(t *stateType) *StateError {
	if i, ok := t.byKey[e.Key]; ok {
		e.Field = t.fields[i].name
	}
	return e
}

// stateError is the StateError of the running task, if there is one.
func stateError(ctx context.Context, key string, err error) *StateError {
	info, _ := pregel.Task(ctx)
	return &StateError{ThreadID: info.ThreadID, Key: key, Err: err}
}

// explain makes a StateError of an error about a stored value.
func (g *Graph[S]) explain(at pregel.Address, err error) error {
	var known *StateError
	var stored *pregel.StoredTypeError
	var refused *channel.UpdateError
	var mistyped *channel.TypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &known):
		if known.ThreadID == "" {
			known.ThreadID = at.ThreadID
		}
	case errors.As(err, &stored):
		e := &StateError{ThreadID: stored.ThreadID, Key: stored.Channel, Err: err}
		if stored.Namespace != at.Namespace { // of a graph inside, which has another state
			return e
		}
		return e.of(g.t.state)
	case errors.As(err, &refused) && errors.As(refused.Err, &mistyped):
		return (&StateError{ThreadID: at.ThreadID, Key: refused.Channel, Err: err}).of(g.t.state)
	}
	return err
}
