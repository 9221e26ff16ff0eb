package pregel

import (
	"context"
	"fmt"

	"github.com/stele-go/stele/pregel/channel"
)

// EntrypointOptions are the options of Entrypoint, beside the name of the graph, which is an argument.
type EntrypointOptions struct {
	Options
	Retry       []RetryPolicy
	Timeout     *TimeoutPolicy
	CachePolicy *CachePolicy
	// Subgraphs are the graphs the function runs, so that their state can be
	// looked at.
	Subgraphs []*Graph
}

// Final is returned by an entrypoint that gives its caller Value but saves Save for the
// next run on the thread.
type Final[V, S any] struct {
	Value V
	Save  S
}

func (f Final[V, S]) final() (value, save any) { return f.Value, f.Save }

// Entrypoint makes a graph of one function: LangGraph's functional API. name is the
// graph's. The results of TaskFuncs that the function calls are stored. So a run that
// resumes after an interrupt or a crash repeats the function, but not the calls that ended.
// The function's result is that of the run, and what Previous returns in the next run on
// the thread.
func Entrypoint[I, O any](name string, f func(ctx context.Context, input I) (O, error), opts EntrypointOptions) (*Graph, error) {
	check := takes[I](name)
	node := &Node{Name: name, CheckInput: func(input any) error { _, err := check(input); return err }, Triggers: []string{Start},
		Reads: One(Start), Run: NodeOf(f), Retry: opts.Retry,
		Timeout: opts.Timeout, Cache: opts.CachePolicy, Writers: []Writer{writeFinal}, Subgraphs: opts.Subgraphs}
	o := opts.Options
	o.Name = name
	if len(o.Modes) == 0 {
		o.Modes = []Mode{ModeUpdates}
	}
	return New(Spec{Nodes: []*Node{node}, Input: One(Start), CheckInput: check, Output: One(End), Stream: One(End),
		Channels: map[string]channel.Channel{Start: channel.Ephemeral[any](channel.Guarded),
			End: channel.LastValue[any](), chPrevious: channel.LastValue[any]()},
		ChannelOrder: []string{Start, End, chPrevious}}, o)
}

// takes returns a function, as Spec.CheckInput wants it, that checks whether an input can be converted
// to I; it adds no pairs.
func takes[I any](name string) func(input any) (Pairs, error) {
	return func(input any) (Pairs, error) {
		if _, err := channel.Convert[I](input); err != nil {
			return nil, &InvalidUpdateError{Node: name, Reason: "the input has the wrong type", Err: err}
		}
		return nil, nil
	}
}

// writeFinal writes the result, and the value that is saved for the next run.
func writeFinal(w *Writing, output any) error {
	value, save := output, output
	if f, ok := output.(interface{ final() (value, save any) }); ok {
		value, save = f.final()
	}
	if err := w.Write(End, value); err != nil {
		return err
	}
	return w.Write(chPrevious, save)
}

// Previous returns what the entrypoint saved in the last run on this thread. ok is false in
// the first run, and without a saver.
func Previous[S any](ctx context.Context) (value S, ok bool, err error) {
	info, inside := Task(ctx)
	if !inside {
		return value, false, fmt.Errorf("previous: %w", ErrOutsideTask)
	}
	if info.Previous == nil {
		return value, false, nil
	}
	value, err = channel.Convert[S](info.Previous)
	return value, err == nil, err
}
