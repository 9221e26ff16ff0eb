package server_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
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
