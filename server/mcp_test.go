package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// mcpClient is a client of the house's tools, with the house's key.
func (h *house) mcpClient(path string) *mcp.ClientSession {
	h.Helper()
	client := &http.Client{Transport: transport(func(r *http.Request) (*http.Response, error) {
		if h.key != "" {
			r.Header.Set("X-Api-Key", h.key)
		}
		return http.DefaultTransport.RoundTrip(r)
	})}
	s, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).
		Connect(h.Context(), &mcp.StreamableClientTransport{Endpoint: h.http.URL + path, HTTPClient: client, DisableStandaloneSSE: true}, nil)
	if err != nil {
		h.Fatal(err)
	}
	h.Cleanup(func() { _ = s.Close() })
	return s
}

// called is what a tool answered.
func (h *house) called(s *mcp.ClientSession, name string, arguments any) (text string, failed bool) {
	h.Helper()
	r, err := s.CallTool(h.Context(), &mcp.CallToolParams{Name: name, Arguments: arguments})
	if err != nil {
		h.Fatalf("%s: %v", name, err)
	}
	return r.Content[0].(*mcp.TextContent).Text, r.IsError
}

func (h *house) tools(s *mcp.ClientSession) map[string]*mcp.Tool {
	h.Helper()
	found := map[string]*mcp.Tool{}
	for tool, err := range s.Tools(h.Context(), nil) {
		if err != nil {
			h.Fatal(err)
		}
		found[tool.Name] = tool
	}
	return found
}

// TestMCP: each assistant is a tool, for a client that knows nothing of LangGraph.
func TestMCP(t *testing.T) {
	h := newHouse(t)
	h.ok("POST", "/assistants", object{"graph_id": "simple", "name": "my tool", "description": "the older one"})
	h.ok("POST", "/assistants", object{"graph_id": "simple", "name": "my tool", "description": "says a and b"})
	for _, path := range []string{"/mcp", "/mcp/"} {
		s := h.mcpClient(path)
		tools := h.tools(s)
		for _, name := range []string{"simple", "asker", "typed", "nested", "error", "slow", "chat", "my_tool"} {
			if tools[name] == nil {
				t.Fatalf("no tool %s: %v", name, tools)
			}
		}
		if len(tools) != 8 || tools["my_tool"].Description != "says a and b" || tools["my_tool"].Title != "my tool" {
			t.Errorf("%+v", tools["my_tool"])
		}
		schema, _ := tools["simple"].InputSchema.(object)
		if properties, _ := schema["properties"].(object); schema["type"] != "object" || properties["text"].(object)["type"] != "string" {
			t.Errorf("%v", schema)
		}
		for _, name := range []string{"simple", "my_tool"} {
			if text, failed := h.called(s, name, object{"text": "x"}); failed || text != `{"log":["a","b"],"text":"x"}` {
				t.Errorf("%s: %s", name, text)
			}
		}
		if text, failed := h.called(s, "chat", object{"messages": []object{{"role": "user", "content": "hi"}}}); failed || !strings.Contains(text, `"hello"`) {
			t.Error(text)
		}
		if text, failed := h.called(s, "simple", nil); failed || text != `{"log":["a","b"]}` {
			t.Error(text)
		}
		if text, failed := h.called(s, "asker", object{"text": "x"}); failed || !strings.Contains(text, `"__interrupt__":[{`) {
			t.Error(text)
		}
		if text, failed := h.called(s, "error", object{"text": "x"}); !failed || !strings.Contains(text, "boom") {
			t.Error(text)
		}
		if text, failed := h.called(s, "simple", object{"text": 1}); !failed || text == "" {
			t.Error(text)
		}
		_, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "nothing"})
		var wrong *jsonrpc.Error
		if !errors.As(err, &wrong) || wrong.Code != jsonrpc.CodeInvalidParams {
			t.Error(err)
		}
		r, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "simple", Arguments: object{"text": "x"}})
		if err != nil || r.StructuredContent.(object)["text"] != "x" {
			t.Errorf("%v, %v", r, err)
		}
	}
	// What is wrong is refused, by HTTP or by JSON-RPC.
	accept := []string{"Accept", "application/json, text/event-stream"}
	for body, status := range map[string]int{`{`: 422, `[]`: 422, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"simple","arguments":[]}}`: 200,
		`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"simple","arguments":` + strings.Repeat(`{"a":`, 130) + `1` + strings.Repeat(`}`, 130) + `}}`: 422} {
		if a := h.refused(status, "POST", "/mcp", body, accept...); status == 200 && !strings.Contains(a.text, `"code":-32602`) {
			t.Error(a.text)
		}
	}
	for _, method := range []string{"GET", "DELETE"} {
		if a := h.refused(405, method, "/mcp", nil); a.header.Get("Allow") != "POST" {
			t.Errorf("%v", a.header)
		}
	}
}

// TestMCPOffersInput: a tool's schema, and the refusal of a mistyped key, have the keys that its input may have, not those that an
// agent keeps for itself.
func TestMCPOffersInput(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		gated := agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{}})
		c.Graphs["clerk"] = must(agent.New(model.NewScripted(model.Text("hello")), agent.Options{Middleware: []agent.Middleware{gated}, Graph: graph.Options{Saver: c.Saver}}))
	})
	s := h.mcpClient("/mcp")
	schema, _ := h.tools(s)["clerk"].InputSchema.(object)
	if properties, _ := schema["properties"].(object); len(properties) != 1 || properties["messages"] == nil {
		t.Errorf("%v", properties)
	}
	if text, failed := h.called(s, "clerk", object{"mesages": []object{{"role": "user", "content": "hi"}}}); !failed || !strings.Contains(text, `which takes ["messages"]`) {
		t.Error(text)
	}
}

// TestMCPUsers: a user has the tools, and makes the runs, that are the user's.
func TestMCPUsers(t *testing.T) {
	h, bob := users(t, nil)
	h.ok("POST", "/assistants", object{"graph_id": "simple", "name": "anns"})
	s := bob.mcpClient("/mcp")
	if tools := bob.tools(s); tools["anns"] != nil || tools["simple"] == nil {
		t.Errorf("%v", tools)
	}
	if _, err := s.CallTool(t.Context(), &mcp.CallToolParams{Name: "anns", Arguments: object{}}); err == nil {
		t.Error("another's assistant was called")
	}
	ann := h.mcpClient("/mcp")
	if text, failed := h.called(ann, "anns", object{"text": "x"}); failed {
		t.Error(text)
	}
	var mine []string
	for r, err := range h.queue.List(t.Context(), runs.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		configurable := r.Configurable["langgraph_auth_user_id"]
		mine = append(mine, configurable.(string))
		bob.refused(404, "GET", "/threads/"+r.ThreadID+"/runs/"+r.ID, nil)
	}
	if !slices.Equal(mine, []string{"ann"}) {
		t.Errorf("%v", mine)
	}
	h.equal(bob.ok("POST", "/threads/count", object{}), "0")

	// Who may not make runs gets no tools, and one who may has so many streams.
	h, _ = users(t, func(c *server.Config) { c.MaxStreams = -1 })
	h.refused(429, "POST", "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "ping"})
}

// TestMCPHeartbeats: a call that takes its time keeps its connection, and its answer is JSON all
// the same. The run of a client that has left goes on.
func TestMCPHeartbeats(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Heartbeat = 10 * time.Millisecond })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second) // a server that sends nothing fails the test
	defer cancel()
	call := func(ctx context.Context, name string) *http.Response {
		res, err := h.request(ctx, "POST", "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "tools/call",
			"params": object{"name": name, "arguments": object{"text": "x"}}}, "Accept", "application/json, text/event-stream")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = res.Body.Close() })
		return res
	}
	beats := func(res *http.Response) {
		b := make([]byte, 1)
		for range 3 {
			if n, err := res.Body.Read(b); n != 1 || b[0] != '\n' {
				t.Fatalf("%q, %v before the answer", b[:n], err)
			}
		}
		if res.Header.Get("X-Accel-Buffering") != "no" {
			t.Errorf("%v", res.Header)
		}
	}
	end := func() {
		for range 2 {
			select {
			case h.gate <- struct{}{}:
			case <-ctx.Done():
				t.Fatal("the run does not go on")
			}
		}
	}
	for name, want := range map[string]string{"slow": `"structuredContent":{"log":["slow","slow","z"],"text":"x"}`, "error": "boom", "nothing": `"code":-32602`} {
		res := call(ctx, name)
		if name == "slow" {
			beats(res)
			end()
		}
		text, err := io.ReadAll(res.Body)
		var said object
		if err != nil || json.Unmarshal(text, &said) != nil || said["id"] != 1.0 || res.StatusCode != 200 || res.Header.Get("Content-Type") != "application/json" {
			t.Errorf("%s: %d %q, %v", name, res.StatusCode, text, err)
		}
		if !strings.Contains(string(text), want) {
			t.Errorf("%s: %q", name, text)
		}
	}
	leaving, leave := context.WithCancel(ctx)
	beats(call(leaving, "slow"))
	leave()
	end()
}
