package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

var errDead = errors.New("the process is dead")

// mortal is a saver of a process that dies after a number of saves: from then on
// nothing is stored.
type mortal struct {
	*memory.Saver
	mu     sync.Mutex
	left   int // saves until death; negative is never
	saves  int
	stored map[string]bool // tasks whose writes were stored with a result
}

// dies has the process die after so many saves more; negative is never.
func (m *mortal) dies(left int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left = left
}

func (m *mortal) alive() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.saves++
	if m.left == 0 {
		return false
	}
	m.left--
	return true
}

func (m *mortal) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	if !m.alive() {
		return saver.Config{}, errDead
	}
	at, err := m.Saver.PutRequest(c, req)
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, w := range req.Writes {
		m.stored[w.TaskID] = m.stored[w.TaskID] || err == nil
	}
	return at, err
}

func (m *mortal) PutWrites(c context.Context, cfg saver.Config, w []saver.Write, id, path string) error {
	if !m.alive() {
		return errDead
	}
	err := m.Saver.PutWrites(c, cfg, w, id, path)
	if err == nil {
		m.mu.Lock()
		m.stored[id] = true
		m.mu.Unlock()
	}
	return err
}

// workflow has what a run can die in the middle of: a fan-out with packets, a
// join, a loop and a graph inside. ran records every task that ran to its end.
func workflow(s saver.Saver, ran func(task string)) (*pregel.Graph, error) {
	does := func(word string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			info, _ := pregel.Task(ctx)
			ran(info.TaskID)
			return map[string]any{"steps": []string{word}}, nil
		}
	}
	steps := graph.Key("steps", channel.Reduce(channel.Append[string]))
	inner, err := graph.New(steps).Node("i1", does("i1")).Node("i2", does("i2")).Sequence(graph.Start, "i1", "i2").Compile(graph.Options{})
	if err != nil {
		return nil, err
	}
	b := graph.New(steps).Node("plan", does("plan")).Node("a", does("a")).Node("b", does("b")).Node("join", does("join"))
	b.Subgraph("sub", inner)
	b.Node("work", func(ctx context.Context, n any) (any, error) {
		info, _ := pregel.Task(ctx)
		ran(info.TaskID)
		return map[string]any{"steps": []string{fmt.Sprint("w", n)}}, nil
	})
	b.Edge(graph.Start, "plan").Edge("plan", "a").Edge("plan", "b").Join([]string{"a", "b"}, "join")
	b.Conditional("join", "again", func(_ context.Context, s any) (any, error) {
		if len(s.(map[string]any)["steps"].([]string)) < 8 {
			return "plan", nil
		}
		return []any{pregel.Send{Node: "work", Arg: 1}, pregel.Send{Node: "work", Arg: 2}, "sub"}, nil
	}, "plan", "work", "sub")
	return b.Compile(graph.Options{Saver: s})
}

// A run may die at any of its saves. Going on from what was stored ends in the
// same state, and a task whose writes were stored does not run again.
func TestDeathAtEverySave(t *testing.T) {
	run := func(d pregel.Durability, deathAt int) (saves int) {
		m := &mortal{Saver: memory.New(memory.Options{}), left: deathAt, stored: map[string]bool{}}
		dead := false
		ran := func(id string) {
			m.mu.Lock()
			defer m.mu.Unlock()
			if dead && m.stored[id] {
				t.Errorf("%s, death at save %d: task %s ran again although its writes were stored", d, deathAt, id)
			}
		}
		g, err := workflow(m, ran)
		if err != nil {
			t.Fatal(err)
		}
		at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
		input := map[string]any{"steps": []string{"in"}}
		res, err := g.Invoke(ctx, at, input, cfg)
		if deathAt >= 0 {
			if !errors.Is(err, errDead) || !errors.Is(err, pregel.ErrPersist) {
				t.Fatalf("%s, death at save %d: error %v", d, deathAt, err)
			}
			dead, m.left = true, -1
			res, err = g.Invoke(ctx, at, nil, cfg)
			if errors.Is(err, pregel.ErrEmptyInput) { // nothing had been stored
				res, err = g.Invoke(ctx, at, input, cfg)
			}
		}
		if err != nil {
			t.Fatalf("%s, death at save %d: going on: %v", d, deathAt, err)
		}
		got, _ := res.Map()["steps"].([]string)
		inner := []string{"in", "plan", "a", "b", "join", "plan", "a", "b", "join"}
		want := append(append(append(slices.Clone(inner), inner...), "i1", "i2"), "w1", "w2")
		if !slices.Equal(got, want) {
			t.Errorf("%s, death at save %d: steps %q, want %q", d, deathAt, got, want)
		}
		return m.saves
	}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for death := range run(d, -1) {
			run(d, death)
		}
	}
}
