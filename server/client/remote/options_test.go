package remote

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"testing"

	"github.com/stele-go/stele/base/methods"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server/client"
)

// nobody starts no children.
type nobody struct{ pregel.Children }

// TestOptions: each option of a run changes what the server is asked, or is refused by its name before anything
// is sent. None is taken and then ignored.
func TestOptions(t *testing.T) {
	s := &scripted{frames: frameOf("values", "{}")}
	g := serve(t, s)
	asked := func(o pregel.RunOptions) (string, error) {
		s.runs = nil
		for _, err := range g.Stream(t.Context(), pregel.Thread("t"), nil, o) {
			if err != nil {
				return "", err
			}
		}
		text, err := json.Marshal(s.runs)
		return string(text), err
	}
	plain, err := asked(pregel.RunOptions{})
	if err != nil {
		t.Fatal(err)
	}
	a := map[string]any{"a": 1}
	all := reflect.ValueOf(pregel.RunOptions{RunID: "x", Metadata: a, Configurable: a, Tags: []string{"a"}, RecursionLimit: 7, MaxConcurrency: 1, Durability: pregel.Sync,
		InterruptBefore: []string{"a"}, InterruptAfter: []string{"a"}, OutputKeys: &pregel.Keys{}, Modes: []pregel.Mode{pregel.ModeTasks}, Subgraphs: true,
		ConflictRetries: 1, Unfinished: pregel.RefuseUnfinished, RefuseWaiting: true, SubgraphTasks: true, Lease: &saver.Lease{}, DeferSync: true, Children: nobody{},
		Control: &pregel.Control{}, Context: a})
	for i := range all.NumField() {
		name := all.Type().Field(i).Name
		if all.Field(i).IsZero() {
			t.Errorf("this test does not set %s", name)
			continue
		}
		one := reflect.New(all.Type()).Elem()
		one.Field(i).Set(all.Field(i))
		got, err := asked(one.Interface().(pregel.RunOptions))
		var refused *pregel.ArgumentError
		switch {
		case errors.As(err, &refused):
			if refused.Field != name || len(s.runs) > 0 {
				t.Errorf("%s: %v, and %d runs were asked for", name, err, len(s.runs))
			}
		case err != nil:
			t.Errorf("%s: %v", name, err)
		case got == plain:
			t.Errorf("%s is ignored", name)
		}
	}
	for name, o := range map[string]pregel.UpdateOptions{"Metadata": {Metadata: a}, "Configurable": {Configurable: a}, "Lease": {Lease: &saver.Lease{}}} {
		if _, err := g.UpdateState(t.Context(), pregel.Thread("t"), pregel.StateUpdate{}, o); !errors.Is(err, pregel.ErrInvalidArgument) {
			t.Errorf("an update with %s: %v", name, err)
		}
	}
}

// TestServerIsGone: every method of a graph whose server is gone fails, and so does each whose context has ended,
// alone and as the node of a graph here; none panics or waits, with arguments that make sense and with none.
func TestServerIsGone(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	t.Cleanup(web.Close)
	c, err := client.New(web.URL, client.WithRetries(0))
	if err != nil {
		t.Fatal(err)
	}
	g := New(c, "there")
	plausible := []any{pregel.Thread("t"), pregel.StateUpdate{Values: map[string]any{"a": 1}}}
	methods.Ended(t, g, nil, plausible)
	for _, args := range [][]any{plausible, nil} {
		methods.Each(t, g, t.Context(), nil, args, func(t *testing.T, a methods.Answer) {
			if a.Says && a.Err == nil {
				t.Error("there is no error")
			}
		})
	}
	for _, o := range []CallOptions{{}, {Thread: func(pregel.TaskInfo) string { return "t" }}, {Thread: func(pregel.TaskInfo) string { return "" }}} {
		for _, withSaver := range []bool{false, true} {
			var opts graph.Options
			if withSaver {
				opts.Saver = memory.New(memory.Options{})
			}
			around, err := graph.New(graph.Key("a", nil)).Node("n", g.Node(o)).Edge(graph.Start, "n").Compile(opts)
			if err != nil {
				t.Fatal(err)
			}
			ended, end := context.WithCancel(t.Context())
			end()
			for _, ctx := range []context.Context{t.Context(), ended} {
				if res, err := around.Invoke(ctx, pregel.Thread("t"), map[string]any{"a": 1}); err == nil {
					t.Errorf("a node, with a saver %v: %v", withSaver, res)
				}
			}
			if _, err := g.Node(o)(t.Context(), nil); !errors.Is(err, pregel.ErrOutsideTask) {
				t.Errorf("outside a task: %v", err)
			}
		}
	}
}
