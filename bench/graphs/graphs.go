// Package graphs holds the graphs by which the engine's cost is measured, for
// the benchmarks and for the comparison with LangGraph, whose program has the
// same graphs under the same names. Nodes do next to nothing, so that what is
// measured is the engine and the saver.
package graphs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// State is what nodes get and what they return changes of.
type State = map[string]any

// Workload is a graph and what is done with it.
type Workload struct {
	Name string
	// Steps and Tasks are the supersteps and tasks of one thread's runs, those
	// that turn the input into state included.
	Steps, Tasks int
	// Turns is how many runs one thread has, whose state grows with them.
	Turns int
	// Input is what every run is given.
	Input State
	// Result reads from the last state what shows that the work was done.
	Result func(State) int
	// Build makes the graph. Each node counts its runs in ran.
	Build func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error)
}

// All are the workloads that are compared with LangGraph.
func All() []Workload {
	return []Workload{Loop(1000), Send(1000), Diamond(18), Chat(100), Line(20, 0)}
}

// Find is the workload of All with this name.
func Find(name string) (Workload, bool) {
	for _, w := range All() {
		if w.Name == name {
			return w, true
		}
	}
	if name == "line1ms" {
		return Line(20, time.Millisecond), true
	}
	return Workload{}, false
}

// Run does the workload once on a thread of its own and returns the last state.
func (w Workload) Run(ctx context.Context, g *pregel.Graph, thread string, d pregel.Durability) (State, error) {
	at, opts := pregel.Thread(thread), pregel.RunOptions{Durability: d, RecursionLimit: w.Steps + 10}
	var last *pregel.Result
	for range w.Turns {
		var err error
		if last, err = g.Invoke(ctx, at, w.Input, opts); err != nil {
			return nil, fmt.Errorf("graph %s: %w", w.Name, err)
		}
	}
	return last.Map(), nil
}

func sum(s State) int { return s["sum"].(int) }

// Loop counts to n, one superstep each.
func Loop(n int) Workload {
	return Workload{Name: "loop", Steps: n + 1, Tasks: n + 1, Turns: 1, Input: State{"n": 0},
		Result: func(s State) int { return s["n"].(int) },
		Build: func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error) {
			return graph.New(graph.Key("n", channel.LastValue[int]())).
				Node("count", func(_ context.Context, in any) (any, error) {
					ran.Add(1)
					next := in.(State)["n"].(int) + 1
					if next == n {
						return State{"n": next}, nil
					}
					return pregel.Command{Update: State{"n": next}, Goto: "count"}, nil
				}).Edge(graph.Start, "count").Compile(graph.Options{Saver: s})
		}}
}

// Send sends n packets that run in one superstep.
func Send(n int) Workload {
	sends := make([]pregel.Send, n)
	for i := range sends {
		sends[i] = pregel.Send{Node: "work", Arg: i}
	}
	return Workload{Name: "send", Steps: 3, Tasks: n + 2, Turns: 1, Input: State{"sum": 0}, Result: sum,
		Build: func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error) {
			return graph.New(graph.Key("sum", channel.Reduce(channel.Add[int]))).
				Node("plan", func(context.Context, any) (any, error) {
					ran.Add(1)
					return pregel.Command{Goto: sends}, nil
				}).
				Node("work", func(_ context.Context, in any) (any, error) {
					ran.Add(1)
					return State{"sum": in}, nil
				}).
				Edge(graph.Start, "plan").Compile(graph.Options{Saver: s})
		}}
}

// Diamond runs one node, then wide side by side, then one that waits for all of
// them.
func Diamond(wide int) Workload {
	return Workload{Name: "diamond", Steps: 4, Tasks: wide + 3, Turns: 1, Input: State{"sum": 0}, Result: sum,
		Build: func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error) {
			one := func(context.Context, any) (any, error) {
				ran.Add(1)
				return State{"sum": 1}, nil
			}
			g := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int]))).Node("first", one).Node("last", one).Edge(graph.Start, "first")
			var side []string
			for i := range wide {
				name := fmt.Sprintf("side%02d", i)
				side = append(side, name)
				g.Node(name, one).Edge("first", name)
			}
			return g.Join(side, "last").Compile(graph.Options{Saver: s})
		}}
}

// Chat is a conversation of so many turns on one thread: the list of messages
// grows by two, 400 bytes each, with every turn.
func Chat(turns int) Workload {
	text := strings.Repeat("words and ", 40)
	return Workload{Name: "chat", Steps: 2 * turns, Tasks: 2 * turns, Turns: turns, Input: State{"messages": []string{text}},
		Result: func(s State) int { return len(s["messages"].([]string)) },
		Build: func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error) {
			return graph.New(graph.Key("messages", channel.Reduce(channel.Append[string]))).
				Node("model", func(context.Context, any) (any, error) {
					ran.Add(1)
					return State{"messages": []string{text}}, nil
				}).
				Edge(graph.Start, "model").Compile(graph.Options{Saver: s})
		}}
}

// Line is n nodes one after another, each of which takes a while: with a while
// of a millisecond it shows what storing costs where there is work to hide it
// behind.
func Line(n int, while time.Duration) Workload {
	return Workload{Name: "line", Steps: n + 1, Tasks: n + 1, Turns: 1, Input: State{"sum": 0}, Result: sum,
		Build: func(s saver.Saver, ran *atomic.Int64) (*pregel.Graph, error) {
			g := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int])))
			names := []string{graph.Start}
			for i := range n {
				name := fmt.Sprintf("node%02d", i)
				names = append(names, name)
				g.Node(name, func(context.Context, any) (any, error) {
					ran.Add(1)
					if while > 0 {
						time.Sleep(while)
					}
					return State{"sum": 1}, nil
				})
			}
			return g.Sequence(names...).Compile(graph.Options{Saver: s})
		}}
}
