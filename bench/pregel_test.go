package bench_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

type state = map[string]any

// keeper is a saver and a durability to run with.
type keeper struct {
	name       string
	open       func(b *testing.B) saver.Saver
	durability pregel.Durability
}

func keepers() []keeper {
	inMemory := func(*testing.B) saver.Saver { return memory.New(memory.Options{}) }
	onDisk := func(b *testing.B) saver.Saver {
		s, err := saver.Open(b.TempDir(), saver.Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			if err := s.Close(); err != nil {
				b.Error(err)
			}
		})
		return s
	}
	out := []keeper{{"none", func(*testing.B) saver.Saver { return nil }, pregel.Async}}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		out = append(out, keeper{"memory/" + string(d), inMemory, d}, keeper{"disk/" + string(d), onDisk, d})
	}
	return out
}

// workload is a graph and what one run of it does.
type workload struct {
	build func(s saver.Saver) (*pregel.Graph, error)
	input func(run int) any
	steps int // supersteps of a run
	tasks int // tasks of a run
	turns int // runs that share a thread, whose state grows; 0: each has its own
}

// run measures runs of w with every keeper. It reports supersteps per second and
// the time per task; nodes do nothing, so that is what the engine and the saver
// cost.
func (w workload) run(b *testing.B) {
	for _, k := range keepers() {
		if w.turns > 0 && k.name == "none" {
			continue // nothing would grow
		}
		b.Run(k.name, func(b *testing.B) {
			s := k.open(b)
			g, err := w.build(s)
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			run := 0
			for b.Loop() {
				cfg := pregel.Config{ThreadID: fmt.Sprint("thread-", run/max(w.turns, 1)), Durability: k.durability}
				if w.turns > 0 && run > 0 && run%w.turns == 0 {
					// A whole history is quadratic in its turns: in memory keep one.
					if err := s.DeleteThread(context.Background(), fmt.Sprint("thread-", run/w.turns-1)); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := g.Invoke(context.Background(), w.input(run), cfg); err != nil {
					b.Fatal(err)
				}
				run++
			}
			took := b.Elapsed() / time.Duration(run)
			b.ReportMetric(float64(w.steps)/took.Seconds(), "supersteps/s")
			b.ReportMetric(float64(took.Nanoseconds())/1000/float64(w.tasks), "µs/task")
		})
	}
}

// BenchmarkPregelLoop counts to 1,000, one superstep each.
func BenchmarkPregelLoop(b *testing.B) {
	const n = 1000
	workload{steps: n, tasks: n, input: func(int) any { return state{"n": 0} }, build: func(s saver.Saver) (*pregel.Graph, error) {
		return graph.New(graph.Key("n", channel.LastValue[int]())).
			Node("count", func(_ context.Context, in any) (any, error) {
				next := in.(state)["n"].(int) + 1
				if next == n {
					return state{"n": next}, nil
				}
				return pregel.Command{Update: state{"n": next}, Goto: "count"}, nil
			}).Edge(graph.Start, "count").Compile(graph.Options{Saver: s})
	}}.run(b)
}

// BenchmarkPregelSend sends 1,000 packets that run in one superstep.
func BenchmarkPregelSend(b *testing.B) {
	const n = 1000
	sends := make([]pregel.Send, n)
	for i := range sends {
		sends[i] = pregel.Send{Node: "work", Arg: i}
	}
	workload{steps: 3, tasks: n + 2, input: func(int) any { return state{"sum": 0} }, build: func(s saver.Saver) (*pregel.Graph, error) {
		return graph.New(graph.Key("sum", channel.Reduce(channel.Add[int]))).
			Node("plan", func(context.Context, any) (any, error) { return pregel.Command{Goto: sends}, nil }).
			Node("work", func(_ context.Context, in any) (any, error) { return state{"sum": in}, nil }).
			Edge(graph.Start, "plan").Compile(graph.Options{Saver: s})
	}}.run(b)
}

// BenchmarkPregelDiamond runs one node, then eighteen side by side, then one
// that waits for all of them.
func BenchmarkPregelDiamond(b *testing.B) {
	const wide = 18
	workload{steps: 4, tasks: wide + 3, input: func(int) any { return state{"sum": 0} }, build: func(s saver.Saver) (*pregel.Graph, error) {
		one := func(context.Context, any) (any, error) { return state{"sum": 1}, nil }
		g := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int]))).Node("first", one).Node("last", one).Edge(graph.Start, "first")
		var side []string
		for i := range wide {
			name := fmt.Sprintf("side%02d", i)
			side = append(side, name)
			g.Node(name, one).Edge("first", name)
		}
		return g.Join(side, "last").Compile(graph.Options{Saver: s})
	}}.run(b)
}

// BenchmarkPregelChat is one turn of a conversation on one thread: the list of
// messages grows by two, 400 bytes each, with every turn; each hundred turns
// begin anew.
func BenchmarkPregelChat(b *testing.B) {
	text := strings.Repeat("words and ", 40)
	workload{steps: 2, tasks: 2, turns: 100,
		input: func(int) any { return state{"messages": []string{text}} }, build: func(s saver.Saver) (*pregel.Graph, error) {
			return graph.New(graph.Key("messages", channel.Reduce(channel.Append[string]))).
				Node("model", func(context.Context, any) (any, error) { return state{"messages": []string{text}}, nil }).
				Edge(graph.Start, "model").Compile(graph.Options{Saver: s})
		}}.run(b)
}

// BenchmarkPregelNodesOf1ms is a line of 20 nodes that take a millisecond each:
// what storing costs where there is work to hide it behind.
func BenchmarkPregelNodesOf1ms(b *testing.B) {
	const n = 20
	workload{steps: n + 1, tasks: n + 1, input: func(int) any { return state{"sum": 0} }, build: func(s saver.Saver) (*pregel.Graph, error) {
		g := graph.New(graph.Key("sum", channel.Reduce(channel.Add[int])))
		names := []string{graph.Start}
		for i := range n {
			name := fmt.Sprintf("node%02d", i)
			names = append(names, name)
			g.Node(name, func(context.Context, any) (any, error) {
				time.Sleep(time.Millisecond)
				return state{"sum": 1}, nil
			})
		}
		return g.Sequence(names...).Compile(graph.Options{Saver: s})
	}}.run(b)
}
