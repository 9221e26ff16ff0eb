package bench

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	builder "github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

// typedState has the fields of a small agent.
type typedState struct {
	N     int            `json:"n"`
	To    string         `json:"to"`
	Tags  []string       `json:"tags"`
	Sums  map[string]int `json:"sums"`
	Steps []string       `json:"steps" state:"append"`
}

const typedRounds = 300

type mapState = map[string]any

// untypedLoop is a node that follows itself, with package graph's untyped face.
func untypedLoop(s saver.Saver) (func(thread string) error, error) {
	g, err := builder.New(builder.Key("n", channel.LastValue[int]()), builder.Key("to", channel.LastValue[string]()), builder.Key("tags", channel.LastValue[[]string]()),
		builder.Key("sums", channel.LastValue[map[string]int]()), builder.Key("steps", channel.Reduce(channel.Append[string]))).
		Node("work", func(_ context.Context, in any) (any, error) {
			s := in.(mapState)
			return mapState{"n": s["n"].(int) + 1, "steps": []string{s["to"].(string)}}, nil
		}).
		Edge(builder.Start, "work").
		Conditional("work", "again", func(_ context.Context, in any) (any, error) {
			if in.(mapState)["n"].(int) < typedRounds {
				return "work", nil
			}
			return builder.End, nil
		}, "work", builder.End).
		Compile(builder.Options{Saver: s})
	return func(thread string) error {
		_, err := g.Invoke(context.Background(), pregel.Thread(thread), mapState{"n": 0, "to": "ada", "tags": []string{"a", "b"}, "sums": map[string]int{"a": 1}})
		return err
	}, err
}

// typedLoop is the same graph with the typed face.
func typedLoop(s saver.Saver) (func(thread string) error, error) {
	g, err := builder.For[typedState]().
		Node("work", func(_ context.Context, s *typedState) (builder.Update, error) {
			return builder.Write(&s.N, s.N+1).And(builder.Write(&s.Steps, []string{s.To})), nil
		}).
		Edge(builder.Start, "work").
		Conditional("work", func(_ context.Context, s *typedState) (string, error) {
			if s.N < typedRounds {
				return "work", nil
			}
			return builder.End, nil
		}, "work", builder.End).
		Compile(builder.Options{Saver: s})
	return func(thread string) error {
		_, err := g.Run(context.Background(), pregel.Thread(thread), typedState{To: "ada", Tags: []string{"a", "b"}, Sums: map[string]int{"a": 1}})
		return err
	}, err
}

// BenchmarkTyped runs one graph with both faces in turn and reports the CPU time of each,
// and the share that the typed face adds. It takes the lower quartile of the rounds, as what
// else runs on the machine only adds. GOMAXPROCS=1 leaves out the cost of waking threads.
func BenchmarkTyped(b *testing.B) {
	for name, open := range map[string]func() (saver.Saver, func() error, error){
		"none": func() (saver.Saver, func() error, error) { return nil, func() error { return nil }, nil },
		"memory": func() (saver.Saver, func() error, error) {
			return memory.New(memory.Options{}), func() error { return nil }, nil
		},
		"disk": func() (saver.Saver, func() error, error) {
			dir, err := os.MkdirTemp(b.TempDir(), "")
			if err != nil {
				return nil, nil, err
			}
			s, err := disk.Open(dir, disk.Options{Sync: disk.SyncNever})
			if err != nil {
				return nil, nil, err
			}
			return s, s.Close, nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			var spent [2][]float64 // µs of each round
			for i := range b.N {
				for turn := range 2 {
					face := (i + turn) % 2
					build := []func(saver.Saver) (func(string) error, error){untypedLoop, typedLoop}[face]
					s, end, err := open()
					if err != nil {
						b.Fatal(err)
					}
					run, err := build(s)
					if err != nil {
						b.Fatal(err)
					}
					runtime.GC() // each round pays for its own garbage
					before := cpuTime()
					if err := run(fmt.Sprint("t", i)); err != nil {
						b.Fatal(err)
					}
					spent[face] = append(spent[face], float64((cpuTime()-before).Nanoseconds())/1000)
					if err := end(); err != nil {
						b.Fatal(err)
					}
				}
			}
			var quartile [2]float64
			for face, label := range []string{"untyped-cpu-µs/task", "typed-cpu-µs/task"} {
				slices.Sort(spent[face])
				quartile[face] = spent[face][len(spent[face])/4]
				b.ReportMetric(quartile[face]/typedRounds, label)
			}
			b.ReportMetric(100*(quartile[1]/quartile[0]-1), "%added")
		})
	}
}
