package server

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/url"
	"slices"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server/internal/streamv2"
)

// runView shows runs, and their results, as clients see them.
type runView struct {
	queue   runs.Queue
	graphs  *graphSet
	workers *workerless
	log     *slog.Logger
}

// Labels of runs: the fields that clients see beside the Spec.
const (
	labelAssistant = "assistant_id"
	labelKwargs    = "kwargs"
)

// kwargsGiven are the kwargs of a run that are as the client gave them, or null.
var kwargsGiven = []string{"command", "interrupt_before", "interrupt_after", "webhook", "feedback_keys"}

// shown is a run as clients see it.
func (s *runView) shown(r runs.Run) map[string]any {
	stored, _ := r.Labels[labelKwargs].(map[string]any)
	config, _ := stored["config"].(map[string]any)
	kwargs := map[string]any{"input": nil, "subgraphs": r.Subgraphs, "checkpoint_during": r.Durability != pregel.Exit, "durability": r.Durability}
	for _, name := range kwargsGiven {
		kwargs[name] = nil
	}
	kwargs = merged(kwargs, stored)
	kwargs["config"] = merged(config, map[string]any{"configurable": merged(withoutClaims(r.Configurable), map[string]any{"run_id": r.ID}),
		"metadata": r.Metadata})
	input, err := s.queue.Serializer().Decode(r.Input)
	if _, ok := input.(pregel.Command); err == nil && !ok {
		kwargs["input"], err = pregeljson.Value(input)
	}
	updated := r.Created
	for _, at := range []time.Time{r.Started, r.Ended} {
		if at.After(updated) {
			updated = at
		}
	}
	shown := map[string]any{"run_id": r.ID, "thread_id": r.ThreadID, "assistant_id": r.Labels[labelAssistant], "metadata": merged(r.Metadata),
		"status": r.Status, "kwargs": kwargs, "multitask_strategy": r.Multitask, "created_at": stamped(r.Created), "updated_at": stamped(updated),
		"langsmith_session_name": nil}
	if err != nil {
		shown["error"] = s.unreadable(r.ID, err)
	}
	return shown
}

// unreadable logs that a run, or its input, cannot be decoded, and returns the failure that clients
// see. Lists show the run with it, and the others as they are.
func (s *runView) unreadable(id string, err error) pregeljson.Failure {
	s.log.Error("a run cannot be read", "run", id, "error", err)
	return pregeljson.Failure{Error: "UnreadableRun", Message: "The run cannot be read: the log of the server says why"}
}

// isGone reports whether a run was rolled back: to clients it was never there. It is removed
// with its thread.
func isGone(r runs.Run) bool { return r.Status == runs.Interrupted && r.Cancel == runs.Rollback }

// kwarg returns a field of the request that made a run.
func kwarg(r runs.Run, name string) any {
	kwargs, _ := r.Labels[labelKwargs].(map[string]any)
	return kwargs[name]
}

// modesOfRun are the stream modes that a run was made with.
func modesOfRun(r runs.Run) []string {
	switch x := kwarg(r, "stream_mode").(type) {
	case []string:
		return x
	case []any:
		return body{"m": x}.texts("m")
	}
	return []string{"values"}
}

// place returns the address of a run, for headers. It escapes the thread's id, as a program may have
// chosen one that no header can hold.
func place(r runs.Run, stateless bool) string {
	if stateless {
		return "/runs/" + r.ID
	}
	return "/threads/" + url.PathEscape(r.ThreadID) + "/runs/" + r.ID
}

// pregelError is where an answer has the error of a run.
const pregelError = "__error__"

// outcome returns the result of a run that has ended: its error, or the values that it streamed last
// (with its questions if it waits), or else those of its thread.
func (s *runView) outcome(ctx context.Context, r runs.Run) (any, error) {
	if r.Status == runs.Error {
		f, err := s.failure(ctx, r)
		return map[string]any{pregelError: f}, err
	}
	if r.Status == runs.Success && slices.Contains(r.Modes, pregel.ModeValues) {
		last, err := s.lastValues(ctx, r)
		if err != nil || last != nil {
			return last, err
		}
	}
	g, err := s.graphs.named(r.Graph)
	if err != nil {
		return map[string]any{}, nil
	}
	st, err := g.GetState(ctx, pregel.Thread(r.ThreadID))
	if err != nil {
		return nil, err
	}
	shown, err := pregeljson.State(st)
	if err != nil {
		return nil, err
	}
	values, ok := shown.Values.(map[string]any)
	if !ok || st.Address.CheckpointID == "" {
		return shown.Values, nil
	}
	if r.Waiting && len(shown.Interrupts) > 0 {
		values[pregel.KeyInterrupt] = shown.Interrupts
	}
	return values, nil
}

// lastValues are the values that a run has streamed last, of one that waits those with all its
// questions; nil if there are none. Each question was streamed with the values for itself.
func (s *runView) lastValues(ctx context.Context, r runs.Run) (last json.RawMessage, err error) {
	var values []runs.Event
	err = streamv2.Each(ctx, s.queue, r.ID, func(ev runs.Event) error {
		if ev.Kind == runs.Kind(pregel.ModeValues) && len(ev.Namespace) == 0 {
			if !r.Waiting {
				values = values[:0]
			}
			values = append(values, ev)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	var asking map[string]json.RawMessage // the last values with a question
	var asked []json.RawMessage
	for _, ev := range slices.Backward(values) {
		data, err := ev.JSON(s.queue.Serializer())
		if err != nil {
			return nil, err
		}
		if last == nil {
			last = data
		}
		var shown map[string]json.RawMessage
		var some []json.RawMessage
		asks := r.Waiting && json.Unmarshal(data, &shown) == nil && json.Unmarshal(shown[pregel.KeyInterrupt], &some) == nil
		if asks {
			if asking == nil {
				asking = shown
			}
			some = slices.DeleteFunc(some, func(q json.RawMessage) bool { // an attempt after a crash asks again
				return slices.ContainsFunc(asked, func(other json.RawMessage) bool { return bytes.Equal(q, other) })
			})
			asked = slices.Concat(some, asked)
		}
		if !r.Waiting || asking != nil && !asks {
			break
		}
	}
	if asking == nil {
		return last, nil
	}
	all, err := encode(asked)
	if err != nil {
		return nil, err
	}
	asking[pregel.KeyInterrupt] = all
	return encode(asking)
}

// failure is the error of a run that ended with one.
func (s *runView) failure(ctx context.Context, r runs.Run) (pregeljson.Failure, error) {
	f := pregeljson.Failure{Error: "RunFailed", Message: r.Error}
	err := streamv2.Each(ctx, s.queue, r.ID, func(ev runs.Event) error {
		if ev.Kind != runs.KindError {
			return nil
		}
		data, err := ev.JSON(s.queue.Serializer())
		if err == nil {
			err = json.Unmarshal(data, &f)
		}
		if err != nil { // the run itself says why it failed
			s.log.Error("the error of a run cannot be read", "run", r.ID, "error", err)
			f = pregeljson.Failure{Error: "RunFailed", Message: r.Error}
		}
		return nil
	})
	return f, err
}
