package runs_test

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// TestNodesOwnTheirMaps: what a node changes in the maps that it gets does not change its run for others.
func TestNodesOwnTheirMaps(t *testing.T) {
	deep := func() map[string]any {
		return map[string]any{"list": []any{map[string]any{"a": "given"}}, "names": []string{"given"}}
	}
	change := func(m any) {
		m.(map[string]any)["list"].([]any)[0].(map[string]any)["a"] = "changed"
		m.(map[string]any)["names"].([]string)[0] = "changed"
	}
	changed, goOn := make(chan struct{}), make(chan struct{})
	h := newHouse(t)
	h.add("g", func(ctx context.Context, _ []string) (string, error) {
		r, _ := pregel.Task(ctx)
		for _, m := range []any{r.Configurable, r.Context} {
			change(m)
		}
		close(changed)
		<-goOn
		return "done", nil
	})
	h.start(h.worker())
	r := h.submit(runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g", Metadata: deep(), Configurable: deep(), Context: deep()}, Input: in("x")})
	select {
	case <-changed:
	case <-time.After(time.Minute):
		t.Fatal("no node was executed")
	}
	got := must(h.queue.Get(t.Context(), r.ID))
	for name, m := range map[string]map[string]any{"metadata": got.Metadata, "configurable": got.Configurable, "context": got.Context} {
		if !reflect.DeepEqual(m, deep()) {
			t.Errorf("the %s of the run is %v", name, m)
		}
	}
	close(goOn)
	h.wait(r, runs.Success)
}
