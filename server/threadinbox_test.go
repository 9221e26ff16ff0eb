package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/server"
)

// TestInbox: the signals that nobody has taken are listed for who sees the thread, one with a mistyped name too, up to
// a thousand of them.
func TestInbox(t *testing.T) {
	letters := pregel.NewSignal[string]("letter")
	var g *pregel.Graph
	ann, bob := users(t, func(c *server.Config) {
		g = must(pregel.Entrypoint("letters", func(ctx context.Context, _ string) (string, error) { return letters.Receive(ctx) },
			pregel.EntrypointOptions{Options: pregel.Options{Saver: c.Saver, Store: c.Store}}))
		c.Graphs["letters"] = g
	})
	id := ann.thread()
	path := "/stele/threads/" + id + "/signals"
	ann.refused(409, "GET", path, nil) // it has no graph yet
	run := ann.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "letters", "input": "x"}).text1("run_id")
	ann.until("the run sleeps", func() bool { return ann.ok("GET", "/threads/"+id, nil).text1("status") == "interrupted" })
	ann.equal(ann.ok("GET", path, nil), `{"more":false,"signals":[]}`)
	ann.ok("POST", path+"/lettre", object{"value": object{"n": 1}, "key": "one"})
	listed := func() (list []object) {
		for _, s := range ann.ok("GET", path, nil).object()["signals"].([]any) {
			list = append(list, s.(object))
		}
		return list
	}
	list := listed()
	if len(list) != 1 || list[0]["name"] != "lettre" || fmt.Sprint(list[0]["value"]) != "map[n:1]" || list[0]["keyed"] != true || list[0]["id"] == "" ||
		!strings.HasPrefix(fmt.Sprint(list[0]["sent_at"]), "20") {
		t.Fatalf("%v", list)
	}
	bob.refused(404, "GET", path, nil)
	ann.ok("POST", path+"/letter", object{"value": "dear"})
	ann.ended(id, run)
	if list := listed(); len(list) != 1 || list[0]["name"] != "lettre" {
		t.Errorf("when one was taken: %v", list)
	}
	for range 1000 {
		if err := g.Signal(t.Context(), id, "lettre", nil); err != nil {
			t.Fatal(err)
		}
	}
	if got := ann.ok("GET", path, nil).object(); len(got["signals"].([]any)) != 1000 || got["more"] != true {
		t.Errorf("of 1001 signals %d are listed, more: %v", len(got["signals"].([]any)), got["more"])
	}
}
