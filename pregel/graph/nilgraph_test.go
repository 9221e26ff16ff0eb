package graph_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestNilGraph: what is called on the graph of a Compile whose error was ignored says so.
func TestNilGraph(t *testing.T) {
	type state struct{ N int }
	for _, g := range []reflect.Value{reflect.ValueOf((*pregel.Graph)(nil)), reflect.ValueOf((*graph.Graph[state])(nil))} {
		for i := range g.NumMethod() {
			name := fmt.Sprintf("%v.%s", g.Type(), g.Type().Method(i).Name)
			said := func() (said any) {
				defer func() {
					if p := recover(); p != nil {
						said = p
					}
				}()
				m := g.Method(i)
				n := m.Type().NumIn()
				if m.Type().IsVariadic() {
					n--
				}
				in := make([]reflect.Value, n)
				for i := range in {
					if in[i] = reflect.Zero(m.Type().In(i)); m.Type().In(i) == reflect.TypeFor[pregel.Address]() {
						in[i] = reflect.ValueOf(pregel.Address{ThreadID: "t", CheckpointID: "c"})
					}
				}
				out := m.Call(in)
				if out[0].Kind() == reflect.Func { // an iterator
					stop := reflect.MakeFunc(out[0].Type().In(0), func([]reflect.Value) []reflect.Value { return []reflect.Value{reflect.ValueOf(false)} })
					out[0].Call([]reflect.Value{stop})
				}
				return nil
			}()
			if text, ok := said.(string); !ok || !strings.Contains(text, "the graph is nil: look at the error of Compile") {
				t.Errorf("%s: %v", name, said)
			}
		}
	}
}
