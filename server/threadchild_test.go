package server_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server"
)

// TestChildren: the thread of a child is shown to who sees its parent, and to nobody else. Who answers the child on it
// carries the parent on; who deletes the parent's thread ends the child.
func TestChildren(t *testing.T) {
	kin := pregel.NewChild[object, object]("asks")
	ann, bob, root := operated(t, func(c *server.Config) {
		asks := func(ctx context.Context, _ any) (any, error) {
			v, err := pregel.AskFor[string](ctx, "?")
			return object{"log": []string{v}}, err
		}
		c.Graphs["asks"] = must(builder().Node("ask", asks).Sequence(graph.Start, "ask").Compile(graph.Options{Name: "asks", Saver: c.Saver}))
		starts := func(ctx context.Context, _ any) (any, error) {
			out, err := kin.Call(ctx, object{"text": "x"})
			return object{"log": out["log"]}, err
		}
		c.Graphs["starts"] = must(builder().Node("start", starts).Sequence(graph.Start, "start").Compile(graph.Options{Name: "starts", Saver: c.Saver}))
	})
	begin := func() (thread, run, child string) {
		thread = ann.thread()
		run = ann.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "starts", "input": object{"text": "x"}}).text1("run_id")
		ann.until("the parent waits", func() bool {
			_, after, waits := strings.Cut(ann.ok("GET", "/threads/"+thread, nil).text, `"child":"`)
			child, _, _ = strings.Cut(after, `"`)
			return waits
		})
		ann.until("the child asks", func() bool {
			a := ann.do("GET", "/threads/"+child, nil)
			return a.status == 200 && a.text1("status") == "interrupted"
		})
		return thread, run, child
	}
	thread, run, child := begin()
	bob.refused(404, "GET", "/threads/"+child, nil)
	bob.refused(404, "GET", "/threads/"+child+"/state", nil)
	bob.refused(404, "GET", "/threads/"+child+"/runs", nil)
	bob.refused(404, "POST", "/threads/"+child+"/runs", object{"assistant_id": "asks", "command": object{"resume": "no"}})
	bob.refused(404, "POST", "/threads/"+child+"/runs", object{"assistant_id": "asks", "command": object{"resume": "no"}, "if_not_exists": "create"})
	if list := root.ok("GET", "/stele/runs?thread_id="+child, nil); !strings.Contains(list.text, `"parent_thread_id":"`+thread+`"`) {
		t.Errorf("%s", list.text)
	}
	answer := ann.ok("POST", "/threads/"+child+"/runs", object{"assistant_id": "asks", "command": object{"resume": "yes"}}).text1("run_id")
	ann.ended(child, answer)
	ann.ended(thread, run)
	if st := ann.ok("GET", "/threads/"+thread, nil); !strings.Contains(st.text, `["yes"]`) {
		t.Errorf("%s", st.text)
	}
	ann.ok("GET", "/threads/"+child, nil) // which has a record now, of the same user
	bob.refused(404, "GET", "/threads/"+child, nil)

	thread, _, child = begin()
	ann.ok("DELETE", "/threads/"+thread, nil)
	ann.refused(404, "GET", "/threads/"+child, nil)
	late := root.ok("POST", "/threads/"+child+"/runs", object{"assistant_id": "asks", "command": object{"resume": "late"}}).text1("run_id")
	root.until("the child is cancelled", func() bool {
		return root.ok("GET", "/threads/"+child+"/runs/"+late, nil).text1("status") == "interrupted"
	})
}

// TestParentsInACircle: a program can give the thread of a parent a run that the child's has started. Whose such threads are
// nobody says.
func TestParentsInACircle(t *testing.T) {
	var queue runs.Queue
	ann, _, root := operated(t, func(c *server.Config) { queue = c.Queue })
	submit := func(thread string, parent *runs.Claim) (runs.Run, *runs.Claim) {
		r := must(queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "elsewhere"}, Parent: parent}))
		c, _, err := queue.Claim(t.Context(), "w", []string{"elsewhere"})
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		return r, c
	}
	a, b := uuid.NewString(), uuid.NewString()
	first, c := submit(a, nil)
	_, ofB := submit(b, c)
	if err := queue.Finish(t.Context(), *c, runs.Outcome{Status: runs.Pending, Waiting: true, After: time.Now().Add(time.Hour)}); err != nil {
		t.Fatal(err)
	}
	_ = must(queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: a, Graph: "elsewhere"}, Parent: ofB}))
	if _, err := queue.Cancel(t.Context(), first.ID, runs.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := queue.Delete(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{a, b} {
		ann.refused(404, "GET", "/threads/"+id, nil)
		if list := root.ok("GET", "/stele/runs?thread_id="+id, nil); !strings.Contains(list.text, "parent_thread_id") {
			t.Errorf("the parents are no circle: %s", list.text)
		}
	}
}

// watchedQueue does something when a run was deleted.
type watchedQueue struct {
	runs.Queue
	deleted func(id string)
}

func (w *watchedQueue) Delete(ctx context.Context, id string) error {
	err := w.Queue.Delete(ctx, id)
	w.deleted(id)
	return err
}

// TestEraseUserReachesChildren: the children of a user's thread go with it, though an operator's run has started them and nothing
// else says whose they are, and theirs; a run whose child goes is ended before, so that it starts no other. The children of another
// user's stay.
func TestEraseUserReachesChildren(t *testing.T) {
	begun := make(chan string, 100)
	asks, again := pregel.NewChild[object, object]("asks"), pregel.NewChild[object, object]("starts")
	ann, _, root := operated(t, func(c *server.Config) {
		node := func(name string, do func(ctx context.Context, text string) (any, error)) {
			c.Graphs[name] = must(builder().Node("a", func(ctx context.Context, in any) (any, error) {
				text, _ := in.(object)["text"].(string)
				return do(ctx, text)
			}).Sequence(graph.Start, "a").Compile(graph.Options{Name: name, Saver: c.Saver}))
		}
		node("asks", func(ctx context.Context, text string) (any, error) {
			v, err := pregel.AskFor[string](ctx, "?")
			return object{"log": []string{v}}, err
		})
		node("starts", func(ctx context.Context, text string) (any, error) {
			for {
				child, err := asks.Start(ctx, object{"text": text})
				if err != nil {
					return nil, err
				}
				begun <- child.ThreadID
				var failed *pregel.ChildError
				if _, err := child.Get(ctx); !errors.As(err, &failed) {
					return nil, err
				}
			}
		})
		node("grand", func(ctx context.Context, text string) (any, error) {
			_, err := again.Call(ctx, object{"text": text})
			return nil, err
		})
	})
	begin := func(owner string) string {
		thread := root.ok("POST", "/threads", object{"metadata": object{"owner": owner}}).text1("thread_id")
		root.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "grand", "input": object{"text": owner}})
		child := <-begun
		root.until("the child asks", func() bool {
			a := root.do("GET", "/threads/"+child, nil)
			return a.status == 200 && a.text1("status") == "interrupted"
		})
		return child
	}
	theirs, hers := begin("bob.b"), begin("ann")
	parents, run := map[string]string{}, ""
	for r := range root.queue.List(t.Context(), runs.Query{}) {
		if parents[r.ThreadID] = r.Parent; r.ThreadID == hers {
			run = r.ID
		}
	}
	for range len(begun) { // bodies that ran again have found them
		if id := <-begun; id != hers && id != theirs {
			t.Fatalf("another child: %s", id)
		}
	}
	o := ann.embedded()
	o.Queue = &watchedQueue{ann.queue, func(id string) {
		if id != run {
			return
		}
		root.until("its parent has ended, or goes on", func() bool {
			for r := range root.queue.List(t.Context(), runs.Query{ThreadID: parents[hers]}) {
				if !r.Status.Ended() {
					return len(begun) > 1
				}
			}
			return true
		})
	}}
	rep, err := server.EraseUser(t.Context(), o)
	if err != nil || rep.Threads != 3 || rep.Runs != 3 || len(rep.Shared) != 0 {
		t.Fatalf("%+v, %v", rep, err)
	}
	for range len(begun) {
		if id := <-begun; id != hers && id != theirs {
			t.Errorf("a run that was to go has started another child: %s", id)
		}
	}
	for id := range parents {
		_, there, err := saver.ThreadOf(t.Context(), ann.disk, id)
		if want := id == theirs || id == parents[theirs] || id == parents[parents[theirs]]; err != nil || there != want {
			t.Errorf("thread %s is there: %v, want %v; %v", id, there, want, err)
		}
	}
	if list := must(collected(root.queue.List(t.Context(), runs.Query{}))); len(list) != 3 {
		t.Errorf("runs: %v", list)
	}
}
