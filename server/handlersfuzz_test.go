package server_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// FuzzHandlers: whatever body a client sends to whichever operation, commands of protocol v2 and
// MCP among them, it is answered with JSON, and never with an error of the server.
func FuzzHandlers(f *testing.F) {
	const thread = "00000000-0000-4000-8000-000000000001"
	s := memory.New(memory.Options{})
	items := must(store.NewMemory(store.Options{}))
	g := must(builder().Node("a", says("a")).Edge(graph.Start, "a").Compile(graph.Options{Name: "g", Saver: s}))
	api := must(server.New(server.Config{Graphs: map[string]*pregel.Graph{"g": g}, Saver: s, Store: items, Queue: must(runs.NewLocal(f.Context(), items, runs.LocalOptions{})),
		Auth: server.NoAuth(), Workers: -1, Logger: logTo(io.Discard)}))
	f.Cleanup(func() { _ = api.Close() })
	send := func(method, path, text string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, "http://localhost"+path, strings.NewReader(text))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Accept", "application/json, text/event-stream")
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	var ops [][2]string
	for _, op := range api.Routes() {
		method, path, _ := strings.Cut(op, " ")
		if method == "GET" || strings.HasSuffix(path, "/stream") || strings.HasSuffix(path, "/wait") || strings.HasSuffix(path, "/events") { // they have no body, or no end
			continue
		}
		path = strings.NewReplacer("{thread_id}", thread, "{assistant_id}", "g", "{run_id}", thread, "{cron_id}", thread, "{$}", "").Replace(path)
		ops = append(ops, [2]string{method, path})
	}
	command := -1
	for i, op := range ops {
		if strings.HasSuffix(op[1], "/commands") {
			command = i
		}
		f.Add(uint8(i), `{"assistant_id":"g","graph_id":"g","input":{"text":"x"},"config":{"configurable":{"a":1}},"metadata":{},"schedule":"@daily","namespace":["a"],"key":"k","value":{},"thread_ids":[],"version":1}`)
		f.Add(uint8(i), `[{"assistant_id":"g","stream_mode":"updates"}]`)
	}
	for _, text := range []string{
		`{"id":1,"method":"run.start","params":{"assistant_id":"g","input":null,"config":1,"multitask_strategy":"interrupt"}}`,
		`{"id":1,"method":"input.respond","params":{"responses":[{"interrupt_id":"x","response":1}],"goto":{"node":1}}}`,
		`{"id":1,"method":"subscription.subscribe","params":{"channels":["values",1],"namespaces":[["a"],1],"depth":-1}}`,
		`{"id":1,"method":"state.fork","params":{"checkpoint_id":1,"input":{}}}`, `{"id":1,"method":"state.listCheckpoints","params":{"limit":-1,"before":{}}}`,
		`{"id":1e3,"method":"agent.getTree"}`, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`,
	} {
		f.Add(uint8(command), text)
	}
	f.Fuzz(func(t *testing.T, n uint8, text string) {
		op := ops[int(n)%len(ops)]
		send("POST", "/threads", `{"thread_id":"`+thread+`","graph_id":"g","if_exists":"do_nothing"}`)
		w := send(op[0], op[1], text)
		if w.Code >= 500 && w.Code != http.StatusNotImplemented {
			t.Fatalf("%s %s %q: %d %s", op[0], op[1], text, w.Code, w.Body)
		}
		if strings.HasPrefix(w.Header().Get("Content-Type"), "application/json") && w.Body.Len() > 0 && !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%s %s %q: %d %q is no JSON", op[0], op[1], text, w.Code, w.Body)
		}
	})
}
