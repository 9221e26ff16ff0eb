package pregel_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
)

func openDisk(t *testing.T) *disk.Saver {
	t.Helper()
	s, err := disk.Open(t.TempDir(), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The writes of a superstep are made durable by the flush of its checkpoint: a
// run flushes once for each checkpoint, however many tasks wrote.
func TestWritesShareTheFlushOfTheirCheckpoint(t *testing.T) {
	// Inline, so that no idle moment of the log adds a flush.
	s, err := disk.Open("store", disk.Options{ManualWork: true, Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	const steps = 20
	g := loopGraph(t, pregel.Options{Saver: s}, steps, func() {})
	before := s.Metrics().Log.Syncs
	if _, err := g.Invoke(ctx, pregel.Thread("t"), 0, pregel.RunOptions{Durability: pregel.Sync}); err != nil {
		t.Fatal(err)
	}
	if n := s.Metrics().Log.Syncs - before; n > steps+2 { // also for the input, and when the log made its file
		t.Errorf("%d flushes for %d supersteps", n, steps)
	}
}

// Where no checkpoint follows, what tasks wrote is durable when the run returns.
func TestWritesAreDurableWithoutACheckpoint(t *testing.T) {
	errFails := errors.New("fails")
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
		for name, second := range map[string]pregel.Func{
			"failure":   func(context.Context, any) (any, error) { return nil, errFails },
			"interrupt": func(ctx context.Context, _ any) (any, error) { return pregel.Ask(ctx, "?") },
		} {
			s := openDisk(t)
			done := make(chan struct{})
			g, err := graph.New(graph.Key("n", channel.Reduce(channel.Add[int]))).
				Node("good", func(context.Context, any) (any, error) {
					defer close(done)
					return map[string]any{"n": 1}, nil
				}).
				Node("other", func(ctx context.Context, in any) (any, error) {
					<-done
					return second(ctx, in)
				}).
				Edge(graph.Start, "good").Edge(graph.Start, "other").Compile(graph.Options{Saver: s})
			if err != nil {
				t.Fatal(err)
			}
			_, err = g.Invoke(ctx, pregel.Thread("t"), map[string]any{"n": 0}, pregel.RunOptions{Durability: d})
			if err != nil && !errors.Is(err, errFails) {
				t.Fatalf("%s, %s: %v", d, name, err)
			}
			if st := s.Stats(); st.DurableLSN != st.LastLSN || st.LastLSN == 0 {
				t.Errorf("%s, %s: durable up to %d of %d", d, name, st.DurableLSN, st.LastLSN)
			}
		}
	}
}
