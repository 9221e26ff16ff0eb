package remote

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/server/client"
)

// CallOptions say how a task runs a remote graph. The zero value is a good default.
type CallOptions struct {
	// Thread names the thread of the server that a task works on, by a UUID. With nil each task
	// has a thread of its own, so that each call begins with an empty state. Tasks that share a
	// thread find what earlier ones left there; no two of them should run at a time. Threads stay
	// on the server until somebody deletes them, or its retention does. Python's RemoteGraph
	// leaves one for each thread here, with the same id: that is TaskInfo.ThreadID.
	Thread func(task pregel.TaskInfo) string
	// Run are options of the remote runs, as Invoke takes them. Configurable is merged over
	// that of the task, which is passed on.
	Run pregel.RunOptions
}

// Node is Call as the body of a node: the node's input is the remote graph's, and the values
// that it ends with are the node's update. Those are all values of its state, also what it was
// given. So a list that is appended to, here and there, comes twice, as with Python's
// RemoteGraph. The function Call is for a node that says what it sends and what it writes.
func (g *Graph) Node(o CallOptions) pregel.Func {
	return func(ctx context.Context, input any) (any, error) { return g.Call(ctx, input, o) }
}

// Call runs a remote graph as a part of the running task, and returns its values as an Out:
// a struct, or what else channel.Convert makes of a map. It is the method Graph.Call for a node
// that is a function of its own.
//
//	b.Node("research", func(ctx context.Context, s *State) (graph.Update, error) {
//		found, err := remote.Call[State](ctx, g, State{Notes: s.Notes}, remote.CallOptions{})
//		if err != nil {
//			return nil, err
//		}
//		return graph.Write(&s.Notes, found.Notes[len(s.Notes):]), nil // what is new
//	})
//
// If the remote graph gives a command to the graph around it, the error is a *CommandError.
func Call[Out, In any](ctx context.Context, g *Graph, input In, o CallOptions) (out Out, err error) {
	v, err := g.Call(ctx, input, o)
	if err != nil {
		return out, err
	}
	if cmd, ok := v.(pregel.Command); ok {
		return out, &CommandError{Command: cmd}
	}
	out, err = channel.Convert[Out](v)
	if err != nil {
		return out, fmt.Errorf("remote: the values of %q: %w", g.assistant, err)
	}
	return out, nil
}

// CommandError: a remote graph ended with a Command for the graph around it instead of values. A
// node of an untyped graph may return the Command.
type CommandError struct{ Command pregel.Command }

// Error says what came instead of values.
func (e *CommandError) Error() string {
	return "remote: the graph gave a command to the graph around it"
}

// Call runs the remote graph as a part of the running task, and returns the values that it ends
// with; or the pregel.Command that it gave to the graph around it. An error must be returned by
// the task: it may be a question, which is asked here as it was asked there.
//
// What a remote run came to is stored as the result of a called function (pregel.TaskFunc). So
// a task that runs again passes answers on to where they are waited for, each by a run of its
// own. An answer that the remote graph refuses is a *pregel.AnswerError here too, and the
// question waits for another. Each remote run has the task's idempotency key: a task that runs
// again without a result finds the run that it made, waits for it, and resumes it if it failed or
// was cancelled. Without a saver here there is no key, nothing is found again, and questions
// cannot be answered.
//
// What the remote graph emits in modes custom and messages is emitted by the task.
func (g *Graph) Call(ctx context.Context, input any, o CallOptions) (any, error) {
	task, ok := pregel.Task(ctx)
	if !ok {
		return nil, pregel.ErrOutsideTask
	}
	key, err := pregel.IdempotencyKey(ctx, "remote/"+g.assistant)
	if err != nil && !errors.Is(err, pregel.ErrNoSaver) {
		return nil, err
	}
	at := pregel.Thread(key)
	if o.Thread != nil {
		at = pregel.Thread(o.Thread(task))
	}
	run := o.Run
	run.Configurable = maps.Clone(task.Configurable)
	if run.Configurable == nil {
		run.Configurable = map[string]any{}
	}
	maps.Copy(run.Configurable, o.Run.Configurable)
	run.Modes, run.Subgraphs = []pregel.Mode{pregel.ModeValues, pregel.ModeCustom, pregel.ModeMessages}, false

	c := &activeCall{g: g, at: at, run: run, key: key, caller: ctx}
	first := pregel.NewTask(g.assistant, func(inner context.Context, _ int) (map[string]any, error) {
		return c.round(inner, input, "0")
	})
	out, err := first.Call(ctx, 0)
	for n := 1; ; n++ {
		if err != nil {
			return nil, err
		}
		if cmd, ok := out["command"].(map[string]any); ok {
			return pregel.Command{Update: cmd["update"], Goto: sendsOf(cmd["goto"])}, nil
		}
		waiting, _ := out["interrupts"].([]any)
		if len(waiting) == 0 {
			return out["values"], nil
		}
		out, err = c.askAll(n, waiting)
	}
}

// activeCall is a call of the remote graph by a task here. It makes one run there for the input, and
// another for each answer to a question.
//
// The remote graph must take an answer before it is recorded here. So the task passes it on while it is
// checked (pregel.AskOptions.Check). If the remote run fails and still asks, the answer is refused here as
// well, and the question waits for another.
type activeCall struct {
	g      *Graph
	at     pregel.Address
	run    pregel.RunOptions
	key    string
	caller context.Context // of the task that calls
	last   map[string]any  // the result of the last round; nil if none was made since the task began
}

// askAll asks the n-th questions of a remote graph, all of them concurrently, and passes each answer
// on. It returns the remote graph's result when it has all answers.
func (c *activeCall) askAll(n int, waiting []any) (out map[string]any, err error) {
	open := &pregel.InterruptError{}
	var refused error
	for i, q := range waiting {
		m, _ := q.(map[string]any)
		mark := strconv.Itoa(n) + "." + strconv.Itoa(i)
		// One after the other: two runs on a thread would be in each other's way.
		said, err := pregel.NewTask("question", func(ctx context.Context, q map[string]any) (map[string]any, error) {
			return c.ask(ctx, q, mark)
		}).Call(c.caller, m)
		var waits *pregel.InterruptError
		var wrong *pregel.AnswerError
		switch {
		case errors.As(err, &waits):
			open.Interrupts = append(open.Interrupts, waits.Interrupts...)
		case errors.As(err, &wrong): // the other answers are passed on all the same
			refused = cmp.Or(refused, err)
		case err != nil:
			return nil, err
		case said["command"] != nil || len(waiting) == 1:
			out = said
		}
	}
	switch {
	case refused != nil:
		return nil, refused
	case len(open.Interrupts) > 0:
		return nil, open
	case out != nil:
		return out, nil
	}
	// The last answer may not be that of the last question. When the task runs again, that is not
	// known, so it is stored.
	return pregel.NewTask(c.g.assistant, func(ctx context.Context, _ int) (map[string]any, error) {
		if c.last != nil {
			return c.last, nil
		}
		s, err := c.g.GetState(ctx, c.at)
		if err != nil {
			return nil, err
		}
		return outcome(&pregel.Result{Value: s.Values, Interrupts: s.Interrupts}), nil
	}).Call(c.caller, n)
}

// ask asks a question of a remote graph, and returns the result of the remote run with the answer.
func (c *activeCall) ask(ctx context.Context, q map[string]any, mark string) (out map[string]any, failed error) {
	var o pregel.AskOptions
	o.ResponseSchema, _ = q["response_schema"].(map[string]any)
	id, _ := q["id"].(string)
	o.Check = func(answer any) error {
		out, failed = c.round(ctx, pregel.Command{Resume: map[string]any{id: answer}}, mark)
		c.last = out
		if failed != nil && c.at.ThreadID != "" && errors.Is(failed, client.ErrRunFailed) {
			if s, err := c.g.GetState(ctx, c.at); err == nil && asks(s, id) {
				return failed
			}
		}
		return nil
	}
	if _, err := pregel.Ask(ctx, q["value"], o); err != nil {
		return nil, err
	}
	return out, failed
}

// asks reports whether a question waits at a state.
func asks(s *pregel.StateSnapshot, id string) bool {
	return slices.ContainsFunc(s.Interrupts, func(in pregel.Interrupt) bool { return in.ID == id })
}

// labelCall names the task's key in the metadata of a remote run.
const labelCall = "stele_call"

// round is one remote run of a call: its values, questions or command, as plain data that can be
// stored. name tells it from the others of the call.
func (c *activeCall) round(ctx context.Context, input any, name string) (map[string]any, error) {
	g, at, o, mark := c.g, c.at, c.run, ""
	if c.key != "" {
		mark = c.key + "/" + name
	}
	if mark != "" && at.ThreadID != "" {
		done, made, err := g.made(ctx, at, mark, input)
		if err != nil {
			return nil, err
		}
		if done != nil {
			return outcome(done), nil
		}
		if made {
			input = nil // it was taken: what is left is resumed
		}
	}
	req, err := g.request(at, input, o)
	if err != nil {
		return nil, err
	}
	if mark != "" {
		req.Metadata[labelCall] = mark
	}
	res, err := g.follow(ctx, at.ThreadID, req, func(ev client.Event) error {
		switch pregel.Mode(ev.Mode) {
		case pregel.ModeCustom:
			var v any
			if err := decode(ev.Data, &v); err != nil {
				return err
			}
			return pregel.Emit(c.caller, v)
		case pregel.ModeMessages:
			m, err := messageOf(ev.Data)
			if err != nil {
				return err
			}
			return pregel.EmitMessage(c.caller, m.Message)
		}
		return nil
	})
	var parent *pregel.ParentCommandError
	if errors.As(err, &parent) {
		return map[string]any{"command": map[string]any{"update": parent.Command.Update, "goto": plainSends(parent.Command.Goto)}}, nil
	}
	if err != nil {
		return nil, err
	}
	return outcome(res), nil
}

func outcome(res *pregel.Result) map[string]any {
	waiting := []any{}
	for _, q := range res.Interrupts {
		waiting = append(waiting, map[string]any{"id": q.ID, "value": q.Value, "response_schema": q.ResponseSchema})
	}
	return map[string]any{"values": res.Value, "interrupts": waiting}
}

// made looks for a run that an earlier attempt at a call has made, and waits for it. made is true if
// there is such a run. done is its result; nil if it failed, or if its thread has something left to
// run. A run that failed without taking the answer in its input, or took no input, counts as not made.
func (g *Graph) made(ctx context.Context, at pregel.Address, mark string, input any) (done *pregel.Result, made bool, err error) {
	if err := g.reach(); err != nil {
		return nil, false, err
	}
	var found *client.Run
	for r, err := range g.c.Runs.All(ctx, at.ThreadID, client.RunQuery{}) { // newest first
		if errors.Is(err, client.ErrNotFound) {
			return nil, false, nil // the thread is not there
		}
		if err != nil {
			return nil, false, err
		}
		if r.Metadata[labelCall] == mark {
			found = &r
			break
		}
	}
	if found == nil {
		return nil, false, nil
	}
	if !found.Ended() {
		var failed *client.RunError
		if _, err := g.c.Runs.Join(ctx, at.ThreadID, found.RunID); err != nil && !errors.As(err, &failed) {
			return nil, true, err
		}
		if found, err = g.c.Runs.Get(ctx, at.ThreadID, found.RunID); err != nil {
			return nil, true, err
		}
	}
	s, err := g.GetState(ctx, at)
	if err != nil {
		return nil, true, err
	}
	failed := found.Status == client.Failed || found.Status == client.TimedOut
	if cmd, ok := input.(pregel.Command); ok && failed {
		answers, _ := cmd.Resume.(map[string]any)
		for id := range answers {
			if asks(s, id) {
				return nil, false, nil
			}
		}
	}
	if s.Address.CheckpointID == "" { // it took nothing
		return nil, false, nil
	}
	if failed || len(s.Next) > 0 && len(s.Interrupts) == 0 && found.Status != client.Success {
		return nil, true, nil
	}
	return &pregel.Result{Value: s.Values, Interrupts: s.Interrupts}, true, nil
}

// plainSends are the targets of a command as plain data.
func plainSends(to any) []any {
	list, _ := to.([]any)
	out := []any{}
	for _, e := range list {
		if s, ok := e.(pregel.Send); ok {
			e = map[string]any{"node": s.Node, "input": s.Arg}
		}
		out = append(out, e)
	}
	return out
}

// sendsOf reads what plainSends makes.
func sendsOf(to any) any {
	list, _ := to.([]any)
	if len(list) == 0 {
		return nil
	}
	out := make([]any, len(list))
	for i, e := range list {
		if m, ok := e.(map[string]any); ok {
			node, _ := m["node"].(string)
			e = pregel.Send{Node: node, Arg: m["input"]}
		}
		out[i] = e
	}
	return out
}
