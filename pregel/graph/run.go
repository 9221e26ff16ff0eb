package graph

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// typedGraph is a Graph without its type parameter: the compiler makes its code once, and must not inline it
// into the methods that are made for each type of state. A pointer to a Graph converts to it, also if it is nil.
type typedGraph struct {
	g *pregel.Graph
	t *binding
}

// Graph is a typed graph that can run. It does not change, and all its methods are safe for
// concurrent use. The last of several options that a method is given counts.
type Graph[S any] typedGraph

// Untyped is the graph in the engine's terms, for all that has no typed form: several
// updates at once, drawings, names of nodes, and its use as a Subgraph.
func (g *Graph[S]) Untyped() *pregel.Graph { return (*typedGraph)(g).mustBe().g }

// mustBe is g. It panics with a sentence if g is nil, which is what is left where the error of Compile was ignored.
func (g *typedGraph) mustBe() *typedGraph {
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
	values, err := (*typedGraph)(g).values(&input)
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
	in, err := (*typedGraph)(g).input(c.Resume, edits(c.Update), edits(c.Input))
	if err != nil {
		return nil, err
	}
	return g.invoke(ctx, at, in, opts)
}

func (g *Graph[S]) invoke(ctx context.Context, at pregel.Address, input any, opts []pregel.RunOptions) (*Result[S], error) {
	out := new(Result[S])
	res, err := (*typedGraph)(g).invoke(ctx, at, input, opts, &out.State)
	if res == nil {
		return nil, err
	}
	out.Waiting, out.Waits = res.Interrupts, res.Waits
	return out, err
}

// invoke runs and fills state, a *S, from the result. The result is nil if there is none.
func (g *typedGraph) invoke(ctx context.Context, at pregel.Address, input any, opts []pregel.RunOptions, state any) (*pregel.Result, error) {
	in := g.mustBe().g
	if err := checkOptions(opts); err != nil {
		return nil, err
	}
	res, err := in.Invoke(ctx, at, input, opts...)
	if err != nil {
		return nil, g.explain(at, err)
	}
	if m, ok := res.Value.(map[string]any); ok {
		err = g.t.fill(ctx, reflect.ValueOf(state).Elem(), m)
	}
	return res, g.explain(at, err)
}

// values are the fields of state, a *S, as input: those that are not zero.
//
//go:noinline
func (g *typedGraph) values(state any) (map[string]any, error) {
	return g.mustBe().t.values(reflect.ValueOf(state).Elem(), true)
}

// checkOptions refuses options whose result is no state.
func checkOptions(opts []pregel.RunOptions) error {
	if keys := lastOf(opts).OutputKeys; keys != nil && keys.Single {
		return &pregel.ArgumentError{Field: "OutputKeys", Reason: "a typed graph shows several keys; see Untyped"}
	}
	return nil
}

// edits makes a body of a function that names writes outside of a run; nil if f is.
//
//go:noinline
func edits[S any](f func(fields *S) Update) body {
	if f == nil {
		return nil
	}
	return func(_ context.Context, _, fields any) (Update, error) { return f(fields.(*S)), nil } //nolint:errcheck // as fresh makes it
}

// input is a Command in the engine's terms.
func (g *typedGraph) input(resume any, update, input body) (any, error) {
	g.mustBe()
	if input != nil {
		if resume != nil || update != nil {
			return nil, &pregel.ArgumentError{Field: "Input", Reason: "stands alone in a Command"}
		}
		r, err := g.edit(input)
		if err == nil && len(r.to) > 0 {
			err = &pregel.ArgumentError{Field: "Input", Reason: "does not say where to go; use Update"}
		}
		if err != nil {
			return nil, err
		}
		return append(pregel.Pairs{}, r.pairs...), nil
	}
	if resume == nil && update == nil {
		return nil, nil
	}
	r, err := g.edit(update)
	if err != nil {
		return nil, err
	}
	cmd := r.command()
	cmd.Resume = resume
	return cmd, nil
}

// edit calls f.
func (g *typedGraph) edit(f body) (resolved, error) {
	g.mustBe()
	if f == nil {
		return resolved{}, nil
	}
	r, err := g.t.run(context.Background(), "", f, nil, g.t.state.fresh())
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
	values, err := (*typedGraph)(g).values(&input)
	return g.stream(ctx, at, values, err, opts)
}

// StreamDo is Stream with a Command: it answers, updates, or goes on with what is left.
func (g *Graph[S]) StreamDo(ctx context.Context, at pregel.Address, c Command[S], opts ...pregel.RunOptions) iter.Seq2[Event[S], error] {
	in, err := (*typedGraph)(g).input(c.Resume, edits(c.Update), edits(c.Input))
	return g.stream(ctx, at, in, err, opts)
}

//go:noinline
func (g *Graph[S]) stream(ctx context.Context, at pregel.Address, input any, err error, opts []pregel.RunOptions) iter.Seq2[Event[S], error] {
	return func(yield func(Event[S], error) bool) {
		(*typedGraph)(g).stream(ctx, at, input, err, opts, func(e pregel.Event, state any, err error) bool {
			s, _ := state.(*S)
			return yield(Event[S]{e, s}, err)
		})
	}
}

// stream yields events with the state that they show, a *S or nil.
func (g *typedGraph) stream(ctx context.Context, at pregel.Address, input any, err error, opts []pregel.RunOptions,
	yield func(e pregel.Event, state any, err error) bool) {
	if err == nil {
		err = checkOptions(opts)
	}
	if err != nil {
		yield(pregel.Event{}, nil, err)
		return
	}
	for e, err := range g.mustBe().g.Stream(ctx, at, input, opts...) {
		var state any
		if m, ok := e.Data.(map[string]any); ok && err == nil && e.Mode == pregel.ModeValues && len(e.NS) == 0 {
			v := reflect.New(g.t.state.typ)
			state, err = v.Interface(), g.t.fill(ctx, v.Elem(), m)
		}
		if !yield(e, state, g.explain(at, err)) || err != nil {
			return
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
	out := new(Snapshot[S])
	if err := (*typedGraph)(g).show(ctx, at, snap, err, &out.State); err != nil {
		return nil, err
	}
	out.StateSnapshot = *snap
	return out, nil
}

// show fills state, a *S, from snap, unless err says that there is none.
func (g *typedGraph) show(ctx context.Context, at pregel.Address, snap *pregel.StateSnapshot, err error, state any) error {
	if err == nil {
		err = g.t.fill(ctx, reflect.ValueOf(state).Elem(), snap.Map())
	}
	return g.explain(at, err)
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
		g.Untyped().GetStateHistory(ctx, at, q)(func(snap *pregel.StateSnapshot, err error) bool {
			out, err := g.snapshot(ctx, at, snap, err)
			return yield(out, err) && err == nil
		})
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
	return (*typedGraph)(g).update(ctx, at, edits(change), opts)
}

func (g *typedGraph) update(ctx context.Context, at pregel.Address, change body, opts []UpdateOptions) (pregel.Address, error) {
	r, err := g.edit(change)
	if err != nil {
		return pregel.Address{}, err
	}
	o := lastOf(opts)
	out, err := g.mustBe().g.UpdateState(ctx, at, pregel.StateUpdate{Values: r.output(), AsNode: o.AsNode}, o.UpdateOptions)
	return out, g.explain(at, err)
}

// Fork goes back to the checkpoint that at names, applies change there, and runs on. What
// the thread did since stays in its history. A nil change runs again from there.
func (g *Graph[S]) Fork(ctx context.Context, at pregel.Address, change func(fields *S) Update, opts ...pregel.RunOptions) (*Result[S], error) {
	at, err := (*typedGraph)(g).fork(ctx, at, edits(change), opts)
	if err != nil {
		return nil, err
	}
	return g.Continue(ctx, at, opts...)
}

// fork is the address from which a fork goes on.
func (g *typedGraph) fork(ctx context.Context, at pregel.Address, change body, opts []pregel.RunOptions) (pregel.Address, error) {
	if at.CheckpointID == "" {
		return at, &pregel.ArgumentError{Field: "CheckpointID", Reason: "is missing: a fork begins at a checkpoint"}
	}
	if change == nil {
		return at, nil
	}
	o := lastOf(opts)
	return g.update(ctx, at, change, []UpdateOptions{{UpdateOptions: pregel.UpdateOptions{Metadata: o.Metadata, Configurable: o.Configurable}}})
}

// Recover goes on with every thread of the graph that a crash left unfinished; see
// pregel.Graph.Recover.
func (g *Graph[S]) Recover(ctx context.Context, o pregel.RecoverOptions) (pregel.RecoverReport, error) {
	return g.Untyped().Recover(ctx, o)
}

// Preflight says what the graph makes of the threads that other versions of it left; see
// pregel.Graph.Preflight. It names fields of S.
func (g *Graph[S]) Preflight(ctx context.Context, s saver.Saver, q saver.ThreadQuery) (*pregel.PreflightReport, error) {
	return (*typedGraph)(g).preflight(ctx, s, q)
}

func (g *typedGraph) preflight(ctx context.Context, s saver.Saver, q saver.ThreadQuery) (*pregel.PreflightReport, error) {
	r, err := g.mustBe().g.Preflight(ctx, s, q)
	for i := range r.Broken {
		b := &r.Broken[i]
		if at, ok := g.t.state.byKey[b.Channel]; ok && b.Namespace == "" {
			b.Field = g.t.state.fields[at].name
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
func (g *typedGraph) explain(at pregel.Address, err error) error {
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
