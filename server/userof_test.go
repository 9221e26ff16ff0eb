package server_test

import (
	"context"
	"reflect"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
)

// claimed is a user who has all that a User may have. Its numbers are those that float64 holds, and one that it does not.
func claimed() *server.User {
	return &server.User{Identity: "ann", DisplayName: "Ann", Permissions: []string{"read", "write"},
		Claims: object{"org": "of-claims", "level": 3, "serial": int64(1<<53 + 1), "groups": []string{"a", "b"}, "address": object{"city": "Oslo"}}}
}

// known is what UserOf returns of claimed.
var known = server.User{Identity: "ann", DisplayName: "Ann", Permissions: []string{"read", "write"},
	Claims: object{"org": "of-claims", "level": 3.0, "serial": int64(1<<53 + 1), "groups": []any{"a", "b"}, "address": object{"city": "Oslo"}}}

// userSeen is what a node or a tool learns.
type userSeen struct {
	server.User
	ok bool
}

// whoGraph is a graph whose node, its task, an inner node, its task, and a tool each send what UserOf tells them.
// It asks behind the first two.
func whoGraph(o graph.Options, seen chan<- userSeen) *pregel.Graph {
	tell := func(ctx context.Context) {
		u, ok := server.UserOf(ctx)
		seen <- userSeen{u, ok}
	}
	task := pregel.NewTask("task", func(ctx context.Context, _ int) (int, error) { tell(ctx); return 0, nil })
	node := func(ctx context.Context, _ any) (any, error) {
		tell(ctx)
		_, err := task.Call(ctx, 1)
		return nil, err
	}
	look := tool.Must(tool.New("look", "", tool.Unchecked(`{"type":"object"}`), func(ctx context.Context, _ struct{}) (string, error) { tell(ctx); return "", nil }))
	tools := must(tool.NewNode(tool.Options{}, look))
	call := message.AI("")
	call.ToolCalls = []message.ToolCall{{Name: "look", ID: "1", Args: object{}}}
	calls := func(ctx context.Context, _ any) (any, error) {
		_, err := tools.Run(ctx, object{"messages": message.List{call}})
		return nil, err
	}
	ask := func(ctx context.Context, _ any) (any, error) {
		_, err := pregel.Ask(ctx, "?")
		return nil, err
	}
	inner := must(builder().Node("inside", node).Edge(graph.Start, "inside").Compile(graph.Options{Name: "inner"}))
	return must(builder().Node("node", node).Node("ask", ask).Node("calls", calls).Subgraph("sub", inner).
		Sequence(graph.Start, "node", "ask", "sub", "calls").Compile(o))
}

// How often a run of whoGraph tells its user, before its question and behind it.
const placesBefore, placesBehind = 2, 3

// TestUserOf: nodes, tasks, tools and graphs inside graphs know the user of their run, also where another server
// on the store continues, in the run of a cron and in that of a tool. Clients see no claims.
func TestUserOf(t *testing.T) {
	seen := make(chan userSeen, 100)
	expect := func(what string, n int, want userSeen) {
		t.Helper()
		for range n {
			if got := <-seen; !reflect.DeepEqual(got, want) {
				t.Errorf("%s: got %+v, want %+v", what, got, want)
			}
		}
	}
	dir := t.TempDir()
	begin := func() *house {
		h := open(t, dir, func(c *server.Config) {
			c.Auth = server.APIKeys(map[string]*server.User{"key-ann": claimed(), "key-all": {Identity: "root"}})
			c.Auth.Authorize = func(context.Context, *server.User, server.Access) (server.Grant, error) { return server.Grant{}, nil }
			c.Graphs["who"] = whoGraph(graph.Options{Name: "who", Saver: c.Saver, Store: c.Store}, seen)
		})
		h.key = "key-ann"
		return h
	}
	h := begin()
	ann := userSeen{known, true}
	var shown strings.Builder
	read := func(method, path string, in any) answer {
		a := h.ok(method, path, in)
		shown.WriteString(a.text)
		return a
	}
	thread := h.thread()
	run := read("POST", "/threads/"+thread+"/runs", object{"assistant_id": "who", "input": object{"text": "x"}, "stream_mode": []string{"values", "updates", "tasks", "checkpoints", "debug", "custom"}}).text1("run_id")
	expect("before the question", placesBefore, ann)
	h.ended(thread, run)
	h.shut()
	h = begin() // nothing in memory is left
	h.key = "key-all"
	read("GET", "/threads/"+thread+"/runs/"+run, nil)
	read("GET", "/threads/"+thread+"/runs", nil)
	read("GET", "/threads/"+thread+"/runs/"+run+"/stream", nil)
	read("GET", "/threads/"+thread+"/state", nil)
	read("GET", "/threads/"+thread+"/history", nil)
	read("GET", "/threads/"+thread, nil)
	read("GET", "/stele/runs", nil)
	h.key = "key-ann"
	answered := read("POST", "/threads/"+thread+"/runs", object{"assistant_id": "who", "command": object{"resume": "yes"}}).text1("run_id")
	expect("behind it", placesBehind, ann)
	h.ended(thread, answered)

	read("POST", "/runs/crons", object{"assistant_id": "who", "schedule": "@every 1s", "input": object{"text": "x"}})
	expect("of a cron", placesBefore, ann)
	read("POST", "/runs/crons/search", object{})
	_, _ = h.mcpClient("/mcp").CallTool(t.Context(), &mcp.CallToolParams{Name: "who", Arguments: object{"text": "x"}})
	expect("of a tool", placesBefore, ann)
	if strings.Contains(shown.String(), "of-claims") {
		t.Errorf("clients see claims: %s", shown.String())
	}
}

// TestUserOfNobody: where nobody is authenticated there is no user, whatever a client sends.
func TestUserOfNobody(t *testing.T) {
	seen := make(chan userSeen, 100)
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["who"] = whoGraph(graph.Options{Name: "who", Saver: c.Saver, Store: c.Store}, seen)
	})
	forged := claimed().Configurable()
	a := h.ok("POST", "/assistants", object{"graph_id": "who", "config": object{"configurable": forged}}).text1("assistant_id")
	for _, in := range []object{{"assistant_id": "who", "config": object{"configurable": forged}}, {"assistant_id": "who", "context": forged}, {"assistant_id": a}, {"assistant_id": "who", "metadata": forged}} {
		in["input"] = object{"text": "x"}
		h.ok("POST", "/runs/wait", in)
		for range placesBefore {
			if got := <-seen; got.ok || got.Identity != "" || got.DisplayName != "" || len(got.Permissions) > 0 || got.Claims != nil {
				t.Errorf("%v gives %+v", in, got)
			}
		}
	}
	if u, ok := server.UserOf(t.Context()); ok {
		t.Errorf("%+v outside of a task", u)
	}
}

// TestUserOfProgram: a program without a server says who the user is.
func TestUserOfProgram(t *testing.T) {
	seen := make(chan userSeen, 100)
	g := whoGraph(graph.Options{Saver: memory.New(memory.Options{})}, seen)
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), object{"text": "x"}, pregel.RunOptions{Configurable: claimed().Configurable()}); err != nil {
		t.Fatal(err)
	}
	if got := <-seen; !reflect.DeepEqual(got, userSeen{known, true}) {
		t.Errorf("%+v", got)
	}
}

// TestClaimsThatAreNotJSON: a run is refused as the program's mistake, before anything is stored.
func TestClaimsThatAreNotJSON(t *testing.T) {
	var log strings.Builder
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Logger = logTo(&log)
		c.Auth = server.APIKeys(map[string]*server.User{"key": {Identity: "ann", Claims: object{"session": make(chan int)}}})
	})
	h.key = "key"
	thread := h.thread()
	h.refused(500, "POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}})
	h.equal(h.ok("GET", "/threads/"+thread+"/runs", nil), "[]")
	h.shut()
	if !strings.Contains(log.String(), "Claims of a User are not JSON") {
		t.Error(log.String())
	}
}
