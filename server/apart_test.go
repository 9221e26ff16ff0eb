package server_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"
	"github.com/google/uuid"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// TestLastEventIDOfAnother: the stream of a thread shows no run of another thread, whatever Last-Event-ID
// names.
func TestLastEventIDOfAnother(t *testing.T) {
	ann, bob := users(t, nil)
	thread := ann.thread()
	run := ann.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "secret"}}).text1("run_id")
	ann.ended(thread, run)
	// The stream goes on with a later run of its own thread.
	streamed := func(h *house, thread string) string {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		res, err := h.request(ctx, "GET", "/threads/"+thread+"/stream", nil, "Last-Event-ID", run+"/0")
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		last := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "later"}}).text1("run_id")
		var got strings.Builder
		if err := frames(res.Body, func(f frame) bool {
			got.WriteString(f.event + " " + f.data + "\n")
			return !strings.Contains(f.data, "run_done") || !strings.Contains(f.data, last)
		}); err != nil {
			t.Fatal(err)
		}
		return got.String()
	}
	if got := streamed(ann, thread); !strings.Contains(got, "secret") {
		t.Errorf("the stream of the run's thread does not show it: %s", got)
	}
	for _, h := range []*house{bob, ann} {
		if got := streamed(h, h.thread()); strings.Contains(got, "secret") || !strings.Contains(got, "later") {
			t.Errorf("the stream of a thread shows a run of another: %s", got)
		}
	}
}

// TestEachRunIsAsked: Authorize sees each run that a request asks for, in whatever it comes: a batch, a
// tool, a command. What it refuses is not made.
func TestEachRunIsAsked(t *testing.T) {
	const locked = "22222222-2222-4222-8222-222222222222"
	_, bob := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Action == "create_run" && a.Value["assistant_id"] == locked {
				return server.Grant{}, &server.AuthError{Detail: "not this one"}
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	bob.ok("POST", "/assistants", object{"assistant_id": locked, "graph_id": "simple", "name": "locked"})
	thread := bob.thread()
	run := object{"assistant_id": locked, "input": object{"text": "x"}}
	command := object{"id": 1, "method": "run.start", "params": run}
	for path, body := range map[string]any{"/runs": run, "/runs/batch": []any{run}, "/runs/wait": run, "/threads/" + thread + "/runs": run} {
		bob.refused(403, "POST", path, body)
	}
	for path, body := range map[string]any{"/threads/" + thread + "/commands": command,
		"/mcp": object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{"name": "locked", "arguments": object{"text": "x"}}}} {
		if a := bob.do("POST", path, body, "Accept", "application/json, text/event-stream"); !strings.Contains(a.text, "not this one") {
			t.Errorf("%s: %d %s", path, a.status, a.text)
		}
	}
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(bob.http.URL, "http")+"/threads/"+thread+"/stream/events", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"key-bob"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	var answer object
	if err := wsjson.Write(t.Context(), conn, command); err != nil {
		t.Fatal(err)
	}
	if err := wsjson.Read(t.Context(), conn, &answer); err != nil || answer["message"] != "not this one" {
		t.Errorf("%v, %v", answer, err)
	}
	for r, err := range bob.queue.List(t.Context(), runs.Query{}) {
		t.Errorf("a run was made: %+v, %v", r, err)
	}
	bob.ok("POST", "/runs/batch", []any{object{"assistant_id": "simple", "input": object{"text": "x"}}})
}

// TestValueOfItems: Authorize sees which item a request is about, also where its address says so.
func TestValueOfItems(t *testing.T) {
	var seen []any
	_, bob := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			seen = append(seen, a.Value["namespace"], a.Value["key"])
			return server.OwnThings(ctx, u, a)
		}
	})
	bob.ok("PUT", "/store/items", object{"namespace": []string{"a", "b"}, "key": "k", "value": object{}})
	bob.ok("GET", "/store/items?namespace=a.b&key=k", nil)
	bob.ok("DELETE", "/store/items", object{"namespace": []string{"a", "b"}, "key": "k"})
	if want := []any{[]any{"a", "b"}, "k"}; !reflect.DeepEqual(seen, slices.Repeat(want, 3)) {
		t.Errorf("%v", seen)
	}
}

// TestIdentities: whatever users are called, none sees what another has.
func TestIdentities(t *testing.T) {
	names := hostile
	keys := map[string]*server.User{}
	for i, n := range names {
		keys[fmt.Sprint(i)] = &server.User{Identity: n}
	}
	h, _ := users(t, func(c *server.Config) { c.Auth, c.Rate = server.APIKeys(keys), -1 })
	for i, n := range names {
		h.key = fmt.Sprint(i)
		h.ok("PUT", "/store/items", object{"namespace": []string{"n", "m"}, "key": "k", "value": object{"of": n}})
		h.ok("POST", "/threads", object{"metadata": object{"of": n}})
		h.ok("POST", "/assistants", object{"graph_id": "simple", "metadata": object{"of": n}})
		h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "metadata": object{"of": n}})
	}
	for i, n := range names {
		h.key = fmt.Sprint(i)
		one := func(path string, in object, field string) {
			t.Helper()
			found := h.ok("POST", path, in)
			list, _ := found.json.([]any)
			if items, ok := found.object()["items"].([]any); ok {
				list = items
			}
			if len(list) != 1 || list[0].(object)[field].(object)["of"] != n {
				t.Errorf("%q sees %s", n, found.text)
			}
		}
		one("/threads/search", object{"limit": 100}, "metadata")
		one("/assistants/search", object{"limit": 100, "metadata": object{"owner": n}}, "metadata")
		one("/runs/crons/search", object{"limit": 100}, "metadata")
		one("/store/items/search", object{"limit": 100}, "value")
		one("/store/items/search", object{"limit": 100, "namespace_prefix": []string{"n"}}, "value")
		h.equal(h.ok("GET", "/store/items?namespace=n.m&key=k", nil).sub("value"), string(must(json.Marshal(object{"of": n}))))
		for _, in := range []object{{}, {"prefix": []string{"*"}}, {"suffix": []string{"m"}}, {"prefix": []string{"n", "*"}}, {"suffix": []string{"*", "*"}}} {
			h.equal(h.ok("POST", "/store/namespaces", in), `{"namespaces":[["n","m"]]}`)
		}
	}
}

// TestForgedIdentity: a run knows its user by what the server says, and by nothing that a client sends.
func TestForgedIdentity(t *testing.T) {
	var seen, told object
	var user server.User
	_, bob := users(t, func(c *server.Config) {
		node := func(ctx context.Context, _ any) (any, error) {
			r, _ := pregel.Task(ctx)
			seen = r.Configurable
			told, _ = r.Context.(object)
			user, _ = server.UserOf(ctx)
			return nil, nil
		}
		c.Graphs["who"] = must(builder().Node("who", node).Edge(graph.Start, "who").Compile(graph.Options{Name: "who", Saver: c.Saver}))
	})
	forged := object(claimed().Configurable())
	forged["mine"] = 1
	a := bob.ok("POST", "/assistants", object{"graph_id": "who", "config": object{"configurable": forged}}).text1("assistant_id")
	for _, in := range []object{{"assistant_id": "who", "config": object{"configurable": forged}}, {"assistant_id": "who", "context": forged}, {"assistant_id": a}} {
		in["input"] = object{"text": "x"}
		seen = nil
		bob.ok("POST", "/runs/wait", in)
		if seen["mine"] == nil || seen["langgraph_auth_user_id"] != "bob.b" || seen["langgraph_auth_user"] != nil || fmt.Sprint(seen["langgraph_auth_permissions"]) != "[]" {
			t.Errorf("%v", seen)
		}
		if user.Identity != "bob.b" || user.DisplayName != "" || len(user.Permissions) > 0 || user.Claims != nil {
			t.Errorf("%+v", user)
		}
		if told["mine"] == nil || len(told) != 1 {
			t.Errorf("the context is %v", told)
		}
	}
}

// TestCronThreadTaken: a cron makes its threads itself. One of the same id that another has made gets no run.
func TestCronThreadTaken(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) { c.Rate = -1 })
	cron := ann.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "@every 2s", "input": object{"text": "secret"}, "on_run_completed": "keep"})
	id := cron.text1("cron_id")
	next := must(time.Parse(time.RFC3339, cron.text1("next_run_date")))
	thread := uuid.NewSHA1(uuid.MustParse("6ba7b821-9dad-11d1-80b4-00c04fd430c8"), []byte(id+"/"+next.UTC().Format(time.RFC3339))).String()
	bob.ok("POST", "/threads", object{"thread_id": thread})
	ann.until("the cron is disabled", func() bool {
		if list := bob.ok("GET", "/threads/"+thread+"/runs", nil); list.text != "[]" {
			t.Fatalf("another sees the run of a cron: %s", list.text)
		}
		return ann.ok("GET", "/runs/crons/"+id, nil).object()["enabled"] == false
	})
}
