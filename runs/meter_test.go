package runs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// TestNotesOfGraphsInside: a run notes the tasks of graphs inside as well, and of each task the tokens of its calls of models,
// those in the graph that its node runs among them. A client that does not stream graphs inside sees nothing of them.
func TestNotesOfGraphsInside(t *testing.T) {
	h := newHouse(t)
	spend := func(ctx context.Context, model string, input, output, total int64) {
		answer := message.AI("yes")
		answer.ID = "of " + model
		answer.Usage = &message.Usage{InputTokens: input, OutputTokens: output, TotalTokens: total}
		answer.ResponseMetadata = map[string]any{"model_name": model}
		message.Metered(ctx, answer)
	}
	h.add("inner", func(ctx context.Context, _ []string) (string, error) {
		spend(ctx, "small", 1, 2, 0)
		spend(ctx, "small", 10, 20, 30)
		message.Metered(ctx, message.AI("no usage"))
		return "inside", pregel.Emit(ctx, "inside")
	})
	inner := h.graphs["inner"]
	h.add("g", func(ctx context.Context, _ []string) (string, error) {
		spend(ctx, "large", 100, 200, 300)
		_, err := inner.Invoke(ctx, pregel.Inside(), in("x"))
		return "outside", err
	}, says("last"))
	h.start(h.worker())
	for _, subgraphs := range []bool{false, true} {
		r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: fmt.Sprint(subgraphs), Modes: []pregel.Mode{pregel.ModeTasks, pregel.ModeCustom}, Subgraphs: subgraphs, Tasks: true}, Input: in("go")})
		h.wait(r, runs.Success)
		var notes, streamed []string
		for _, ev := range must(h.queue.Events(t.Context(), r.ID, 0, 100)) {
			var path strings.Builder
			for _, part := range ev.Namespace {
				name, _, _ := strings.Cut(part, ":")
				path.WriteString(name + " ")
			}
			if ev.Kind == runs.Kind(pregel.ModeTasks) || ev.Kind == runs.Kind(pregel.ModeCustom) {
				streamed = append(streamed, path.String()+string(ev.Kind))
			}
			if ev.Kind != runs.KindTask {
				continue
			}
			var n runs.TaskNote
			if err := json.Unmarshal(must(ev.JSON(h.queue.Serializer())), &n); err != nil {
				t.Fatal(err)
			}
			note := path.String() + n.Name
			if n.Ended {
				note += fmt.Sprint(" ", n.Uses)
			}
			notes = append(notes, note)
		}
		if want := []string{"n0", "n0 n0", "n0 n0 [{of small small 1 2 3} {of small small 10 20 30} {  0 0 0}]", "n0 [{of large large 100 200 300}]", "n1", "n1 []"}; !slices.Equal(notes, want) {
			t.Errorf("subgraphs %t: noted %q, want %q", subgraphs, notes, want)
		}
		want := []string{"tasks", "tasks", "tasks", "tasks"}
		if subgraphs {
			want = []string{"tasks", "n0 tasks", "n0 custom", "n0 tasks", "tasks", "tasks", "tasks"}
		}
		if !slices.Equal(streamed, want) {
			t.Errorf("subgraphs %t: streamed %q, want %q", subgraphs, streamed, want)
		}
	}
	// A run that notes nothing asks for nothing.
	r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: "none", Modes: []pregel.Mode{pregel.ModeUpdates}}, Input: in("go")})
	h.wait(r, runs.Success)
	for _, ev := range must(h.queue.Events(t.Context(), r.ID, 0, 100)) {
		if ev.Kind == runs.KindTask {
			t.Errorf("noted %v", ev)
		}
	}
}
