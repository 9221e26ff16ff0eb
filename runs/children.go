package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/serde"
)

// Children: runs that nodes of other runs have started; see pregel.Child. docs/adr/0030-children.md has what a
// crash at each place leaves.

// ChildEnd is how a child has ended.
type ChildEnd struct {
	// Run is the one with which it has ended; its ID is "" if the child was deleted.
	Run Run
	// Output is the data of its event of KindOutput; zero if it has none.
	Output serde.Typed
}

// EndOf finds the run with which a child has ended among all runs of its thread, oldest first, for implementers
// of Queue.ChildEnd. A run that ended at a question has not ended the child, and neither has a later one that was
// cancelled before it was begun. ok is false if the child has not ended; without runs it was deleted.
func EndOf(all []Run) (end Run, ok bool) {
	for i, r := range all {
		if r.Status.Ended() && !r.Waiting && (r.Epoch > 0 || i == 0) {
			return r, true
		}
	}
	return Run{}, len(all) == 0
}

// endsChildren reports whether the children of a run's thread are to be cancelled when it is as it is: it ended,
// and not with an error, which leaves them to Retry.
func endsChildren(r Run) bool {
	return r.Epoch > 0 && !r.Waiting && (r.Status == Success || r.Status == Interrupted)
}

// children starts the children of a run that a worker executes.
type children struct {
	w *Worker
	c Claim
}

// childInput is the label of a child with the hash of its input.
const childInput = "child_input"

// StartChild implements pregel.Children. The child has the user of its parent, its context, its
// priority, its attempts and its trace.
func (k children) StartChild(ctx context.Context, s pregel.ChildSpec) error {
	key := "child/" + s.ThreadID
	configurable := maps.Clone(k.c.Configurable)
	for _, of := range []string{"graph_id", "assistant_id"} { // with which a server names the parent's: the child's checkpoints would keep it
		delete(configurable, of)
	}
	r, err := k.w.Queue.Submit(ctx, Request{
		Spec: Spec{ThreadID: s.ThreadID, Graph: s.Graph, Configurable: configurable, Context: k.c.Context, Trace: k.c.Trace,
			Priority: k.c.Priority, Attempts: k.c.Attempts, Labels: map[string]any{childInput: s.InputHash}},
		Input: s.Input, Key: key, Parent: &k.c, Detached: s.Detached,
	})
	if errors.Is(err, ErrKey) {
		return fmt.Errorf("%w: %w", pregel.ErrCallMismatch, err)
	}
	if err != nil {
		return persistError("start a child", err)
	}
	if before, _ := r.Labels[childInput].(string); before != s.InputHash && before != "" && s.InputHash != "" {
		return fmt.Errorf("%w: run %s has another input", pregel.ErrCallMismatch, r.ID)
	}
	return nil
}

// ChildEnd implements pregel.Children.
func (k children) ChildEnd(ctx context.Context, threadID string) (*pregel.ChildEnd, error) {
	end, ok, err := k.w.Queue.ChildEnd(ctx, threadID)
	if err != nil || !ok {
		return nil, err
	}
	out := &pregel.ChildEnd{RunID: end.Run.ID, How: pregel.ChildFailed, Error: end.Run.Error}
	switch {
	case end.Run.ID == "":
		out.How = pregel.ChildDeleted
	case end.Run.Status == Interrupted:
		out.How = pregel.ChildCancelled
	case end.Run.Status == Success && end.Output.Kind == "":
		out.Error = "its worker has stored no output: it is of an earlier release"
	case end.Run.Status == Success:
		out.How = pregel.ChildDone
		out.Output, err = k.w.output(end.Output)
	}
	return out, err
}

// stillAsks reports whether a child that failed waits at a question all the same: the answer was refused. So it has not
// ended, and another answer goes on with it.
func (w *Worker) stillAsks(ctx context.Context, c Claim, failed error) bool {
	var answer *pregel.AnswerError
	if c.Parent == "" || errors.As(failed, &answer) {
		return c.Parent != ""
	}
	g := w.Graphs[c.Graph]
	if g == nil {
		return false
	}
	st, err := g.GetState(ctx, pregel.Thread(c.ThreadID))
	if err != nil {
		w.logger().Error("look whether a child waits", "run", c.ID, "error", err)
		return false
	}
	return len(st.Interrupts) > 0
}

// outputEvent is the event with the output of a child, which is where its thread is. The worker owns that.
func (w *Worker) outputEvent(ctx context.Context, j *job, g *pregel.Graph) error {
	if j.claim.Parent == "" {
		return nil
	}
	v, err := g.Output(ctx, j.claim.ThreadID)
	if err != nil {
		return err
	}
	typed, err := w.Queue.Serializer().Encode(v)
	if err != nil {
		return fmt.Errorf("output: %w", err)
	}
	data, err := json.Marshal(typed)
	if err != nil {
		return err
	}
	j.output = []Event{{Kind: KindOutput, Data: text(w.Queue.Serializer(), string(data))}}
	return nil
}

// output reads the data of an event of KindOutput.
func (w *Worker) output(data serde.Typed) (any, error) {
	codec := w.Queue.Serializer()
	v, err := codec.Decode(data)
	if err != nil {
		return nil, err
	}
	var typed serde.Typed
	s, _ := v.(string)
	if err := json.Unmarshal([]byte(s), &typed); err != nil {
		return nil, fmt.Errorf("output: %w: %w", serde.ErrMalformed, err)
	}
	return codec.Decode(typed)
}
