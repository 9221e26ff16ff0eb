package pregel_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

func benchmark(b *testing.B, tasks int, build func(s saver.Saver) (*pregel.Graph, error), input any) {
	for name, d := range map[string]pregel.Durability{"none": "", "async": pregel.Async, "exit": pregel.Exit} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				var s saver.Saver
				if d != "" {
					s = memory.New(memory.Options{})
				}
				g, err := build(s)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := g.Invoke(context.Background(), pregel.Thread("t"), input, pregel.RunOptions{Durability: d}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*tasks), "µs/task")
		})
	}
}

// BenchmarkLoop is a node that follows itself for 1,000 supersteps.
func BenchmarkLoop(b *testing.B) {
	benchmark(b, 1000, func(s saver.Saver) (*pregel.Graph, error) {
		g := graph.New(graph.Key("n", channel.LastValue[int]()))
		g.Node("inc", func(_ context.Context, s any) (any, error) {
			return map[string]any{"n": s.(map[string]any)["n"].(int) + 1}, nil
		})
		g.Edge(graph.Start, "inc")
		g.Conditional("inc", "again", func(_ context.Context, s any) (any, error) {
			if s.(map[string]any)["n"].(int) < 1000 {
				return "inc", nil
			}
			return graph.End, nil
		}, "inc", graph.End)
		return g.Compile(graph.Options{Saver: s})
	}, map[string]any{"n": 0})
}

// BenchmarkFanOut is one superstep of 1,000 packets.
func BenchmarkFanOut(b *testing.B) {
	benchmark(b, 1000, func(s saver.Saver) (*pregel.Graph, error) {
		g := graph.New(graph.Key("out", channel.Reduce(channel.Append[int])))
		g.Node("work", func(_ context.Context, n any) (any, error) { return map[string]any{"out": []int{n.(int)}}, nil })
		g.Conditional(graph.Start, "fan", func(context.Context, any) (any, error) {
			out := make([]pregel.Send, 1000)
			for i := range out {
				out[i] = pregel.Send{Node: "work", Arg: i}
			}
			return out, nil
		}, "work")
		return g.Compile(graph.Options{Saver: s})
	}, map[string]any{"out": []int{}})
}

// BenchmarkChat is a list of messages that grows for 200 supersteps.
func BenchmarkChat(b *testing.B) {
	benchmark(b, 200, func(s saver.Saver) (*pregel.Graph, error) {
		g := graph.New(graph.Key("messages", channel.Messages(nil)))
		g.Node("bot", func(_ context.Context, s any) (any, error) {
			return map[string]any{"messages": channel.Message{Role: "ai", Content: "a reply of some forty bytes, or a little more"}}, nil
		})
		g.Edge(graph.Start, "bot")
		g.Conditional("bot", "again", func(_ context.Context, s any) (any, error) {
			if len(s.(map[string]any)["messages"].([]channel.Message)) < 201 {
				return "bot", nil
			}
			return graph.End, nil
		}, "bot", graph.End)
		return g.Compile(graph.Options{Saver: s})
	}, map[string]any{"messages": channel.Message{Role: "human", Content: "hello"}})
}

// BenchmarkBranch is BenchmarkLoop with a state of 16 keys, which its conditional edge reads.
func BenchmarkBranch(b *testing.B) {
	benchmark(b, 1000, func(s saver.Saver) (*pregel.Graph, error) {
		fields := []graph.Field{graph.Key("n", channel.LastValue[int]())}
		for i := range 15 {
			fields = append(fields, graph.Key(fmt.Sprint("k", i), channel.Reduce(channel.Append[int])))
		}
		g := graph.New(fields...)
		g.Node("inc", func(_ context.Context, s any) (any, error) {
			return map[string]any{"n": s.(map[string]any)["n"].(int) + 1}, nil
		})
		g.Edge(graph.Start, "inc")
		g.Conditional("inc", "again", func(_ context.Context, s any) (any, error) {
			if s.(map[string]any)["n"].(int) < 1000 {
				return "inc", nil
			}
			return graph.End, nil
		}, "inc", graph.End)
		return g.Compile(graph.Options{Saver: s})
	}, map[string]any{"n": 0})
}
