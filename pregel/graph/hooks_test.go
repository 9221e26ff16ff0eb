package graph_test

import (
	"context"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// calls counts calls of hooks, by the owner of the hooks, the kind, and the graph that they are about.
type calls struct {
	mu sync.Mutex
	of map[string]int
}

// hooks are a hook of each kind.
func (c *calls) hooks(owner string) pregel.Hooks {
	var h pregel.Hooks
	v := reflect.ValueOf(&h).Elem()
	for i := range v.NumField() {
		kind, f := v.Type().Field(i).Name, v.Field(i)
		f.Set(reflect.MakeFunc(f.Type(), func(args []reflect.Value) []reflect.Value {
			name := ""
			for _, a := range args {
				switch x := a.Interface().(type) {
				case pregel.RunInfo:
					name = x.Graph
				case pregel.TaskInfo:
					name = map[string]string{"call": "outer", "inmost": "middle", "ask": "inmost"}[x.Node]
				case pregel.Span:
					name = x.Run.Graph
				}
			}
			c.mu.Lock()
			defer c.mu.Unlock()
			c.of[fmt.Sprintf("%s's %s of %s", owner, kind, name)]++
			out := make([]reflect.Value, f.Type().NumOut())
			for i := range out {
				out[i] = reflect.Zero(f.Type().Out(i))
			}
			return out
		}))
	}
	return h
}

// TestHooksInside: each hook of a graph is called for graphs inside, at any depth and however they are made, unless
// they have a hook of that kind.
func TestHooksInside(t *testing.T) {
	kinds := reflect.TypeFor[pregel.Hooks]()
	for _, own := range []string{"", "inmost"} {
		for _, c := range []pregel.Checkpointing{pregel.Inherit, pregel.Stable, pregel.Off} {
			log := calls{of: map[string]int{}}
			state := func() *graph.Builder { return graph.New(graph.Key("n", channel.LastValue[int]())) }
			inmost := graph.Options{Name: "inmost", Checkpointing: c}
			if own != "" {
				inmost.Hooks = log.hooks(own)
				inmost.Hooks.StepEnd = nil
			}
			asks := must(state().Node("ask", func(ctx context.Context, _ any) (any, error) {
				var err error
				if c != pregel.Off { // such a graph cannot wait
					_, err = pregel.Ask(ctx, "more?")
				}
				return map[string]any{"n": 1}, err
			}).Sequence(graph.Start, "ask", graph.End).Compile(inmost))
			// One graph is a node, the other is called by a node.
			middle := must(state().Subgraph("inmost", asks).Sequence(graph.Start, "inmost", graph.End).Compile(graph.Options{Name: "middle", Checkpointing: c}))
			outer := must(state().Node("call", func(ctx context.Context, s any) (any, error) {
				r, err := middle.Invoke(ctx, pregel.Inside(), s)
				if err != nil {
					return nil, err
				}
				return r.Value, nil
			}).Sequence(graph.Start, "call", graph.End).Compile(graph.Options{Name: "outer", Saver: memory.New(memory.Options{}), Hooks: log.hooks("outer")}))
			r, err := outer.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 0})
			if err == nil && len(r.Interrupts) == 1 {
				_, err = outer.Invoke(t.Context(), pregel.Thread("t"), pregel.Command{Resume: "yes"})
			}
			if err != nil {
				t.Fatal(err)
			}
			for i := range kinds.NumField() {
				kind := kinds.Field(i).Name
				for _, name := range []string{"outer", "middle", "inmost"} {
					caller := "outer"
					if name == own && kind != "StepEnd" {
						caller = own
					}
					happens, stored := true, c != pregel.Off
					switch kind {
					case "Interrupt":
						happens = stored && name == "outer"
					case "Resume":
						happens = stored
					case "Save":
						happens = stored || name == "outer"
					}
					for _, owner := range []string{"outer", "inmost"} {
						n := log.of[fmt.Sprintf("%s's %s of %s", owner, kind, name)]
						if called := n > 0; called != (owner == caller && happens) {
							t.Errorf("%v, own hooks %q: %s's %s of %s was called %d times", c, own, owner, kind, name, n)
						}
					}
				}
			}
		}
	}
}
