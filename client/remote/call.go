package remote

import (
	"context"
	"errors"
	"maps"
	"strconv"

	"github.com/stele-go/stele/client"
	"github.com/stele-go/stele/pregel"
)

// CallOptions say how a task runs a remote graph. The zero value is a good default.
type CallOptions struct {
	// Thread names the thread of the server that a task works on, by a UUID. With nil each task
	// has a thread of its own, so that each call begins with an empty state. Tasks that share a
	// thread find what earlier ones left there; no two of them should run at a time.
	Thread func(task pregel.TaskInfo) string
	// Run are options of the remote runs, as Invoke takes them. Configurable is merged over
	// that of the task, which is passed on.
	Run pregel.RunOptions
}

// Node is Call as the body of a node: the node's input is the remote graph's, and the values
// that it ends with are the node's update.
func (g *Graph) Node(o CallOptions) pregel.Func {
	return func(ctx context.Context, input any) (any, error) { return g.Call(ctx, input, o) }
}

// Call runs the remote graph as a part of the running task, and returns the values that it ends
// with; or the pregel.Command that it gave to the graph around it. An error must be returned by
// the task: it may be a question, which is asked here as it was asked there.
//
// What a remote run came to is stored as the result of a called function (pregel.TaskFunc). So
// a task that runs again passes answers on to where they are waited for. Each remote run has
// the task's idempotency key: a task that runs again without a result finds the run that it
// made, waits for it, and resumes it if it failed or was cancelled. Without a saver here there
// is no key, nothing is found again, and questions cannot be answered.
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

	next := input
	for n := 0; ; n++ {
		mark := ""
		if key != "" {
			mark = key + "/" + strconv.Itoa(n)
		}
		round := pregel.NewTask(g.assistant, func(inner context.Context, _ int) (map[string]any, error) {
			return g.round(inner, ctx, at, next, run, mark)
		})
		out, err := round.Call(ctx, n)
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
		answers, err := askAll(ctx, waiting)
		if err != nil {
			return nil, err
		}
		next = pregel.Command{Resume: answers}
	}
}

// askAll asks the questions of a remote graph, all at once, and returns the answers by their
// ids there.
func askAll(ctx context.Context, waiting []any) (map[string]any, error) {
	asking := pregel.NewTask("question", func(ctx context.Context, q map[string]any) (any, error) {
		var o pregel.AskOptions
		o.ResponseSchema, _ = q["response_schema"].(map[string]any)
		return pregel.Ask(ctx, q["value"], o)
	})
	asked := make([]pregel.Future[any], len(waiting))
	for i, q := range waiting {
		m, _ := q.(map[string]any)
		asked[i] = asking.Start(ctx, m)
	}
	answers, open := map[string]any{}, &pregel.InterruptError{}
	for i, q := range waiting {
		m, _ := q.(map[string]any)
		id, _ := m["id"].(string)
		answer, err := asked[i].Get(ctx)
		var waits *pregel.InterruptError
		switch {
		case errors.As(err, &waits):
			open.Interrupts = append(open.Interrupts, waits.Interrupts...)
		case err != nil:
			return nil, err
		}
		answers[id] = answer
	}
	if len(open.Interrupts) > 0 {
		return nil, open
	}
	return answers, nil
}

// labelCall names the task's key in the metadata of a remote run.
const labelCall = "stele_call"

// round is one remote run of a call: its values, questions or command, as plain data that can be
// stored. caller is the context of the task that calls.
func (g *Graph) round(ctx, caller context.Context, at pregel.Address, input any, o pregel.RunOptions, mark string) (map[string]any, error) {
	if mark != "" && at.ThreadID != "" {
		done, made, err := g.made(ctx, at, mark)
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
			return pregel.Emit(caller, v)
		case pregel.ModeMessages:
			m, err := messageOf(ev.Data)
			if err != nil {
				return err
			}
			return pregel.EmitMessage(caller, m.Message)
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

// made looks for a run that an earlier attempt at a call has made, and waits for it. done is
// what it came to; made is true if there is one whose thread has something left to run.
func (g *Graph) made(ctx context.Context, at pregel.Address, mark string) (done *pregel.Result, made bool, err error) {
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
