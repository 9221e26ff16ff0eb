package server_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server"
)

// cancelQueue does something before and after a run is cancelled.
type cancelQueue struct {
	runs.Queue
	before, after func(id string)
}

func (q *cancelQueue) Cancel(ctx context.Context, id string, how runs.Strategy) (runs.Run, error) {
	q.before(id)
	defer q.after(id)
	return q.Queue.Cancel(ctx, id, how)
}

// restless serves a graph whose run starts a child when gate says so, and another one when that has failed. It returns the
// house, the thread, its run, and where it tells its children.
func restless(t *testing.T, gate <-chan struct{}) (root *house, thread, run string, begun chan string) {
	begun = make(chan string, 100)
	works := pregel.NewChild[object, object]("works")
	_, _, root = operated(t, func(c *server.Config) {
		node := func(name string, do func(ctx context.Context) error) {
			c.Graphs[name] = must(builder().Node("a", func(ctx context.Context, _ any) (any, error) { return nil, do(ctx) }).
				Sequence(graph.Start, "a").Compile(graph.Options{Name: name, Saver: c.Saver}))
		}
		node("works", func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
		node("starts", func(ctx context.Context) error {
			select {
			case <-gate:
			case <-ctx.Done():
				return ctx.Err()
			}
			for {
				child, err := works.Start(ctx, object{"text": "x"})
				if err != nil {
					return err
				}
				begun <- child.ThreadID
				var failed *pregel.ChildError
				if _, err := child.Get(ctx); !errors.As(err, &failed) {
					return err
				}
			}
		})
	})
	thread = root.ok("POST", "/threads", object{"thread_id": "ffffffff-ffff-4fff-bfff-ffffffffffff"}).text1("thread_id") // behind its children, by its id
	run = root.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "starts", "input": object{"text": "x"}}).text1("run_id")
	return root, thread, run, begun
}

// isIn waits until a thread has a run with a status, and returns it.
func (h *house) isIn(thread string, status runs.Status) (run string) {
	h.Helper()
	h.until("the run on "+thread+" is "+string(status), func() bool {
		for r := range h.queue.List(h.Context(), runs.Query{ThreadID: thread}) {
			if r.Status == status {
				run = r.ID
			}
		}
		return run != ""
	})
	return run
}

// TestRemoveBesideALiveServer: a run whose child goes is ended before it, so that it starts no other.
func TestRemoveBesideALiveServer(t *testing.T) {
	gate := make(chan struct{})
	close(gate)
	root, thread, run, begun := restless(t, gate)
	child := <-begun
	of := root.isIn(child, runs.Running)
	other := func() bool {
		for range len(begun) { // a body that runs again finds its child
			if id := <-begun; id != child {
				return true
			}
		}
		return false
	}
	started := false
	queue := &cancelQueue{root.queue, func(string) {}, func(id string) {
		if id == of {
			root.until("its parent has ended, or goes on", func() bool {
				started = started || other()
				r, err := root.queue.Get(t.Context(), run)
				return started || err == nil && r.Status.Ended()
			})
		}
	}}
	rep, err := server.RemoveBeside(t.Context(), server.BesideOptions{Saver: root.disk, Store: root.items, Queue: queue, Threads: []string{thread}})
	if err != nil || !slices.Equal(rep.Children, []string{child}) || rep.Runs != 2 {
		t.Errorf("%+v, %v", rep, err)
	}
	if started || other() {
		t.Error("it has started another child")
	}
	if list := must(collected(root.queue.List(t.Context(), runs.Query{}))); len(list) > 0 {
		t.Errorf("runs: %v", list)
	}
}

// TestRemoveBesideALateChild: a child goes that is started when its parent's run is about to be ended.
func TestRemoveBesideALateChild(t *testing.T) {
	gate := make(chan struct{})
	root, thread, run, begun := restless(t, gate)
	root.isIn(thread, runs.Running)
	child := ""
	queue := &cancelQueue{root.queue, func(id string) {
		if id == run && child == "" {
			close(gate)
			child = <-begun
			root.isIn(child, runs.Running)
		}
	}, func(string) {}}
	rep, err := server.RemoveBeside(t.Context(), server.BesideOptions{Saver: root.disk, Store: root.items, Queue: queue, Threads: []string{thread}})
	if err != nil || child == "" || !slices.Equal(rep.Children, []string{child}) || rep.Runs != 2 || len(rep.Notes) != 1 {
		t.Errorf("%+v, %v; its child is %s", rep, err, child)
	}
	if list := must(collected(root.queue.List(t.Context(), runs.Query{}))); len(list) > 0 {
		t.Errorf("runs: %v", list)
	}
}

// parentQueue counts who looks for the parent of a thread.
type parentQueue struct {
	runs.Queue
	asked int
}

func (q *parentQueue) List(ctx context.Context, query runs.Query) iter.Seq2[runs.Run, error] {
	if query.Limit == 1 {
		q.asked++
	}
	return q.Queue.List(ctx, query)
}

// TestEraseUserOfAChain: a chain of children goes with its first thread, and what that takes grows as the chain does. Threads
// that are each other's parents are nobody's.
func TestEraseUserOfAChain(t *testing.T) {
	const n = 100
	ann, _, _ := operated(t, nil)
	put := func(thread string) {
		t.Helper()
		if _, err := ann.disk.Put(t.Context(), saver.Config{ThreadID: thread}, saver.Checkpoint{V: 4, ID: "1"}, nil, nil); err != nil {
			t.Fatal(err)
		}
	}
	submit := func(thread string, parent *runs.Claim) *runs.Claim {
		t.Helper()
		_ = must(ann.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "elsewhere"}, Parent: parent}))
		c, _, err := ann.queue.Claim(t.Context(), "w", []string{"elsewhere"})
		if err != nil || c == nil || c.ThreadID != thread {
			t.Fatal(c, err)
		}
		return c
	}
	finish := func(c *runs.Claim, o runs.Outcome) {
		t.Helper()
		if err := ann.queue.Finish(t.Context(), *c, o); err != nil {
			t.Fatal(err)
		}
	}
	chain := []*runs.Claim{submit(ann.thread(), nil)}
	for i := range n {
		thread := fmt.Sprintf("child %03d", n-i) // the last of the chain is looked at first
		chain = append(chain, submit(thread, chain[i]))
		put(thread)
	}
	for _, c := range slices.Backward(chain) {
		finish(c, runs.Outcome{Status: runs.Success})
	}
	first := submit("circle a", nil)
	second := submit("circle b", first)
	finish(first, runs.Outcome{Status: runs.Pending, Waiting: true, After: time.Now().Add(time.Hour)})
	_ = must(ann.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "circle a", Graph: "elsewhere"}, Parent: second}))
	must(ann.queue.Cancel(t.Context(), first.ID, runs.Interrupt))
	if err := ann.queue.Delete(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	put("circle a")
	put("circle b")

	o, counted := ann.embedded(), &parentQueue{Queue: ann.queue}
	o.Queue = counted
	rep, err := server.EraseUser(t.Context(), o)
	if err != nil || rep.Threads != n+1 || rep.Runs != n+1 || rep.Checkpoints != n {
		t.Errorf("%+v, %v", rep, err)
	}
	if counted.asked > 10*n {
		t.Errorf("%d looks for the parents of %d threads", counted.asked, n)
	}
	for _, id := range []string{"circle a", "circle b"} {
		if _, there, err := saver.ThreadOf(t.Context(), ann.disk, id); err != nil || !there {
			t.Errorf("%s is there: %t, %v", id, there, err)
		}
	}
}
