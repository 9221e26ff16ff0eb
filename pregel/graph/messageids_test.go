package graph_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// TestMessageIDsInStreams: messages that a node writes without ids have, in whatever mode they are shown, those of
// the state; also those that a Command and a graph inside write.
func TestMessageIDsInStreams(t *testing.T) {
	write := func(out any) pregel.Func { return func(context.Context, any) (any, error) { return out, nil } }
	said := func(text string) map[string]any {
		return map[string]any{"messages": message.List{message.AI(text), message.Human("a person")}}
	}
	key := graph.Key("messages", message.Channel(nil))
	inside := compile(t, graph.New(key).Node("x", write(said("inside"))).Edge(graph.Start, "x"), graph.Options{Name: "inside"})
	b := graph.New(key).Node("plain", write(said("plain"))).Node("command", write(pregel.Command{Update: said("command")})).Subgraph("inside", inside)
	b.Sequence(graph.Start, "plain", "command", "inside")
	g := compile(t, b, graph.Options{Saver: memory.New(memory.Options{})})
	for _, modes := range [][]pregel.Mode{{pregel.ModeUpdates}, {pregel.ModeTasks}, {pregel.ModeDebug}, {pregel.ModeMessages, pregel.ModeUpdates, pregel.ModeTasks}} {
		for _, subgraphs := range []bool{false, true} {
			at := pregel.Thread(string(modes[0]) + map[bool]string{true: " inside"}[subgraphs])
			shown := map[string]bool{}
			var look func(v reflect.Value)
			look = func(v reflect.Value) {
				if v.IsValid() && v.CanInterface() {
					if m, ok := v.Interface().(message.Message); ok {
						shown[m.ID] = true
						return
					}
				}
				switch v.Kind() {
				case reflect.Interface, reflect.Pointer:
					look(v.Elem())
				case reflect.Slice:
					for i := range v.Len() {
						look(v.Index(i))
					}
				case reflect.Map:
					for _, k := range v.MapKeys() {
						look(v.MapIndex(k))
					}
				case reflect.Struct:
					for i := range v.NumField() {
						if v.Type().Field(i).IsExported() {
							look(v.Field(i))
						}
					}
				}
			}
			for ev, err := range g.Stream(ctx, at, map[string]any{"messages": message.List{{Type: message.TypeHuman, ID: "in-1", Content: "in"}}}, pregel.RunOptions{Modes: modes, Subgraphs: subgraphs}) {
				if err != nil {
					t.Fatal(err)
				}
				look(reflect.ValueOf(ev.Data))
			}
			st, err := g.GetState(ctx, at)
			if err != nil {
				t.Fatal(err)
			}
			list, err := message.FromList(st.Values.(map[string]any)["messages"])
			if err != nil || len(list) != 7 {
				t.Fatalf("%v, %v", list, err)
			}
			kept := map[string]bool{}
			for _, m := range list {
				kept[m.ID] = true
			}
			for id := range shown {
				if !kept[id] {
					t.Errorf("%v: a message is shown with the id %q, and the state has %v", modes, id, kept)
				}
			}
			if len(shown) < 6 {
				t.Errorf("%v: %d messages are shown", modes, len(shown))
			}
		}
	}
}
