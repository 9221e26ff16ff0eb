package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/server"
)

// users is a house of two users, who have the keys "ann" and "bob".
func users(t *testing.T, change func(*server.Config)) (h, bob *house) {
	h = open(t, t.TempDir(), func(c *server.Config) {
		c.Auth = server.APIKeys(map[string]*server.User{"key-ann": {Identity: "ann"}, "key-bob": {Identity: "bob.b"}})
		if change != nil {
			change(c)
		}
	})
	h.key = "key-ann"
	other := *h
	other.key = "key-bob"
	return h, &other
}

// TestOperators: what is of all users is seen by those alone whom Authorize grants everything.
func TestOperators(t *testing.T) {
	ann, bob := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Resource == "system" && u.Identity == "ann" {
				return server.Grant{}, nil
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	thread := bob.ok("POST", "/threads", object{}).text1("thread_id")
	run := bob.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	bob.ended(thread, run)
	for _, path := range []string{"/stele/runs", "/stele/runs?thread_id=" + thread, "/stele/nodes", "/stele/versions", "/stele/schedules", "/stele/health", "/stele/room"} {
		bob.refused(403, "GET", path, nil)
		ann.ok("GET", path, nil)
	}
	bob.refused(403, "POST", "/stele/runs/"+run+"/retry", object{})
	ann.refused(409, "POST", "/stele/runs/"+run+"/retry", object{})
	ann.refused(409, "DELETE", "/stele/runs/"+run, nil)
	ann.refused(404, "GET", "/threads/"+thread, nil)
	bob.ok("GET", "/metrics", nil)
}

// TestRoutesAreGuarded: no operation is open by oversight. Every route is asked without
// credentials and with wrong ones.
func TestRoutesAreGuarded(t *testing.T) {
	h, _ := users(t, nil)
	open := []string{"GET /{$}", "GET /ok", "GET /info"}
	routes := h.api.Routes()
	if len(routes) < 45 {
		t.Fatalf("%d routes", len(routes))
	}
	for _, key := range []string{"", "wrong"} {
		h.key = key
		for _, r := range routes {
			method, path, _ := strings.Cut(r, " ")
			path = strings.NewReplacer("{$}", "", "{namespace}", "n", "{checkpoint_id}", "c", "{thread_id}", someID, "{run_id}", someID, "{assistant_id}", someID, "{cron_id}", someID, "{name}", "s").Replace(path)
			var body any
			if method != "GET" {
				body = object{}
			}
			a := h.do(method, path, body)
			if want := slices.Contains(open, r); (a.status == 200) != want || !want && a.status != 401 {
				t.Errorf("%s with key %q: %d %s", r, key, a.status, a.text)
			}
		}
	}
}

const someID = "11111111-1111-4111-8111-111111111111"

// TestUsersApart: what one user has cannot be seen, changed, streamed or guessed by another,
// through any route.
func TestUsersApart(t *testing.T) {
	h, bob := users(t, nil)
	thread := h.ok("POST", "/threads", object{"metadata": object{"owner": "bob.b", "secret": "s"}}).text1("thread_id")
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "secret"}, "stream_resumable": true}).text1("run_id")
	h.ended(thread, run)
	open := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"text": "secret"}}).text1("run_id")
	assistant := h.ok("POST", "/assistants", object{"graph_id": "simple", "name": "secret"}).text1("assistant_id")
	h.ok("PUT", "/store/items", object{"namespace": []string{"notes"}, "key": "k", "value": object{"text": "secret"}})
	cron := ""
	if slices.Contains(h.api.Routes(), "POST /runs/crons") {
		cron = h.ok("POST", "/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *", "input": object{"text": "secret"}}).text1("cron_id")
	}
	h.until("the run begins", func() bool {
		return strings.Contains(h.ok("GET", "/threads/"+thread+"/state", nil).text, `"next":["x"]`)
	})
	before := h.ok("GET", "/threads/"+thread+"/state", nil).text
	checkpoint := h.ok("GET", "/threads/"+thread+"/state", nil).text1("checkpoint_id")

	bodies := map[string]any{
		"POST /threads":                                  object{"thread_id": thread, "if_exists": "do_nothing"},
		"POST /assistants":                               object{"assistant_id": assistant, "graph_id": "simple", "if_exists": "do_nothing"},
		"POST /threads/{thread_id}/state":                object{"values": object{"text": "mine"}},
		"POST /threads/{thread_id}/state/checkpoint":     object{"checkpoint": object{"checkpoint_id": checkpoint}},
		"POST /threads/{thread_id}/runs":                 object{"assistant_id": "simple", "input": object{}, "if_not_exists": "create"},
		"POST /threads/{thread_id}/runs/wait":            object{"assistant_id": "simple", "input": object{}, "if_not_exists": "create"},
		"POST /threads/{thread_id}/runs/stream":          object{"assistant_id": "simple", "input": object{}, "if_not_exists": "create"},
		"POST /assistants/{assistant_id}/latest":         object{"version": 1},
		"POST /threads/prune":                            object{"thread_ids": []string{thread}, "strategy": "delete"},
		"POST /runs":                                     object{"assistant_id": assistant, "input": object{}},
		"POST /runs/wait":                                object{"assistant_id": assistant, "input": object{}},
		"POST /runs/stream":                              object{"assistant_id": assistant, "input": object{}},
		"POST /runs/batch":                               []object{{"assistant_id": assistant, "input": object{}}},
		"POST /runs/cancel":                              object{"thread_id": thread, "run_ids": []string{open}},
		"POST /runs/crons":                               object{"assistant_id": assistant, "schedule": "0 0 1 1 *"},
		"POST /threads/{thread_id}/runs/crons":           object{"assistant_id": "simple", "schedule": "0 0 1 1 *"},
		"PUT /store/items":                               object{"namespace": []string{"notes"}, "key": "k", "value": object{"text": "mine"}},
		"DELETE /store/items":                            object{"namespace": []string{"notes"}, "key": "k"},
		"POST /threads/{thread_id}/commands":             object{"id": 1, "method": "agent.getTree", "params": object{}},
		"POST /threads/{thread_id}/stream/events":        object{"channels": []string{"values"}},
		"POST /threads/search":                           object{"ids": []string{thread}},
		"POST /threads/count":                            object{"ids": []string{thread}},
		"POST /threads/{thread_id}/runs/{run_id}/cancel": nil,
		"POST /threads/{thread_id}/copy":                 nil,
		"POST /stele/erase-user":                         object{"identity": "ann", "filter": object{"owner": "ann"}, "dry_run": false},
	}
	for _, r := range h.api.Routes() { // the first that is open ends it: who could go on would wait for the open run
		method, path, _ := strings.Cut(r, " ")
		path = strings.NewReplacer("{$}", "", "{namespace}", "inner", "{checkpoint_id}", checkpoint, "{thread_id}", thread, "{run_id}", run, "{assistant_id}", assistant, "{cron_id}", cron, "{name}", "s").Replace(path)
		body, ok := bodies[r]
		if !ok && method != "GET" && method != "DELETE" {
			body = object{}
		}
		if r == "GET /store/items" {
			path += "?namespace=notes&key=k"
		}
		if r == "GET /threads/{thread_id}/runs/{run_id}/stream" {
			a := bob.do(method, path, body, "Last-Event-ID", "-1")
			if a.status != 404 {
				t.Fatalf("%s: %d %s", r, a.status, a.text)
			}
			continue
		}
		a := bob.do(method, path, body)
		if strings.Contains(strings.ReplaceAll(a.text, `"secret"`, "secret"), "secret") && !strings.Contains(a.text, "mine") {
			t.Fatalf("%s shows what is another's: %s", r, a.text)
		}
		if strings.Contains(r, "_id}") && a.status/100 == 2 {
			t.Fatalf("%s: %d %s", r, a.status, a.text)
		}
		if strings.HasPrefix(path, "/stele/") && a.status != 403 && a.status != 404 { // what is another's, and what is of all
			t.Fatalf("%s: %d %s", r, a.status, a.text)
		}
		if strings.HasSuffix(r, "/count") && strings.HasPrefix(r, "POST /threads") && a.text != "0" {
			t.Errorf("%s: %s", r, a.text)
		}
	}
	if s := h.ok("GET", "/threads/"+thread+"/runs/"+open, nil).text1("status"); s != "running" && s != "pending" {
		t.Errorf("another has ended a run: %s", s)
	}
	if after := h.ok("GET", "/threads/"+thread+"/state", nil).text; after != before {
		t.Errorf("the state was changed:\n%s\n%s", before, after)
	}
	h.equal(h.ok("GET", "/store/items?namespace=notes&key=k", nil).sub("value"), `{"text":"secret"}`)
	if name := h.ok("GET", "/assistants/"+assistant, nil).text1("name"); name != "secret" {
		t.Errorf("name %q", name)
	}

	// A thread that a program beside the server has made is nobody's.
	if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(someID), object{"text": "secret"}); err != nil {
		t.Fatal(err)
	}
	bob.refused(404, "GET", "/threads/"+someID, nil)
	bob.refused(409, "POST", "/threads", object{"thread_id": someID})
	bob.refused(404, "POST", "/threads/"+someID+"/runs", object{"assistant_id": "simple", "input": object{}, "if_not_exists": "create"})

	// The server's own items, and those of the queue, are out of reach.
	for _, ns := range [][]string{{"stele.runs", "runs"}, {"..", "ann"}} {
		bob.refused(422, "POST", "/store/items/search", object{"namespace_prefix": ns})
		bob.refused(422, "PUT", "/store/items", object{"namespace": ns, "key": "k", "value": object{}})
	}
	bob.equal(bob.ok("POST", "/store/items/search", object{}).sub("items"), `[]`)
	bob.ok("PUT", "/store/items", object{"namespace": []string{"a"}, "key": "k", "value": object{}})
	bob.equal(bob.ok("POST", "/store/namespaces", object{}), `{"namespaces":[["a"]]}`)
	h.equal(h.ok("POST", "/store/namespaces", object{}), `{"namespaces":[["notes"]]}`)
}

// sub is a part of an answer.
func (a answer) sub(name string) answer { return answer{json: a.object()[name], text: a.text} }

// TestAuthorize: handlers ask about what they do, and the grant counts.
func TestAuthorize(t *testing.T) {
	var asked []string
	auth := server.Bearer(func(_ context.Context, token string) (*server.User, error) {
		if token != "t" {
			return nil, fmt.Errorf("token: %w", &server.AuthError{Detail: "who are you?"})
		}
		return &server.User{Identity: "ann", Permissions: []string{"read"}}, nil
	})
	auth.Authorize = func(_ context.Context, u *server.User, a server.Access) (server.Grant, error) {
		asked = append(asked, a.Resource+"."+a.Action)
		switch {
		case a.Resource == "assistants" && a.Action == "create":
			return server.Grant{}, &server.AuthError{Detail: "no assistants"}
		case a.Resource == "store":
			return server.Grant{}, errors.New("internal reason")
		}
		return server.Grant{Filter: map[string]any{"team": map[string]any{"$eq": "blue"}, "tags": map[string]any{"$contains": "x"}}}, nil
	}
	h := open(t, t.TempDir(), func(c *server.Config) { c.Auth = auth })
	h.equal(h.refused(401, "POST", "/threads", object{}), `{"detail":"Authorization header missing"}`)
	h.equal(h.refused(401, "POST", "/threads", object{}, "Authorization", "Bearer no"), `{"detail":"who are you?"}`)
	token := []string{"Authorization", "bearer t"}
	h.equal(h.refused(403, "POST", "/assistants", object{"graph_id": "simple"}, token...), `{"detail":"no assistants"}`)
	h.equal(h.refused(403, "POST", "/store/items/search", object{}, token...), `{"detail":"Forbidden"}`)
	a := h.ok("POST", "/threads", object{"metadata": object{"team": "red"}}, token...)
	h.equal(a.sub("metadata"), `{"tags":["x"],"team":"blue"}`)
	h.equal(h.ok("PATCH", "/threads/"+a.text1("thread_id"), object{"metadata": object{"team": "red", "n": 1}}, token...).sub("metadata"), `{"n":1,"tags":["x"],"team":"blue"}`)
	h.ok("POST", "/threads/"+a.text1("thread_id")+"/runs/wait", object{"assistant_id": "simple", "input": object{}}, token...)
	for _, want := range []string{"assistants.create", "store.search", "threads.create", "threads.update", "threads.create_run", "assistants.read"} {
		if !slices.Contains(asked, want) {
			t.Errorf("nobody asked about %s: %v", want, asked)
		}
	}
	bare := must(graph.New(graph.Key("n", channel.LastValue[int]())).Node("n", func(context.Context, any) (any, error) { return nil, nil }).Edge(graph.Start, "n").Compile(graph.Options{}))
	if _, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"bare": bare}, Saver: h.disk, Store: h.items, Queue: h.queue, Auth: server.NoAuth()}); err == nil || !strings.Contains(err.Error(), `"bare" stores nothing`) {
		t.Errorf("a graph without a saver: %v", err)
	}
	if _, err := server.New(server.Config{Saver: h.disk, Store: h.items, Queue: h.queue}); err == nil {
		t.Error("a server without Auth was made")
	}
}

// TestGuard: a page of another origin, a name that leads here, and what is not JSON get
// nothing.
func TestGuard(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Origins = []string{"https://chat.example"}
		c.MaxBody = 1000
	})
	h.refused(403, "GET", "/ok", nil, "Host", "evil.example")
	h.refused(403, "GET", "/ok", nil, "Host", "evil.example:2024")
	h.refused(403, "GET", "/ok", nil, "Host", "192.168.0.1")
	h.ok("GET", "/ok", nil, "Host", "localhost:2024")
	h.ok("GET", "/ok", nil, "Host", "LocalHost:2024") // names have no case
	h.ok("GET", "/ok", nil, "Host", "[::1]:2024")
	h.refused(403, "POST", "/threads", object{}, "Origin", "https://evil.example")
	h.refused(403, "POST", "/threads", object{}, "Origin", "null")
	if a := h.ok("POST", "/threads", object{}, "Origin", "https://chat.example"); a.header.Get("Access-Control-Allow-Origin") != "https://chat.example" {
		t.Errorf("%v", a.header)
	}
	h.ok("POST", "/threads", object{}, "Origin", h.http.URL)
	pre := []string{"Access-Control-Request-Method", "POST", "Access-Control-Request-Headers", "content-type", "Access-Control-Request-Private-Network", "true", "Origin"}
	a := h.ok("OPTIONS", "/threads", nil, append(pre, "https://chat.example")...)
	if a.header.Get("Access-Control-Allow-Private-Network") != "true" || a.header.Get("Access-Control-Allow-Headers") != "content-type" {
		t.Errorf("%v", a.header)
	}
	if a := h.refused(403, "OPTIONS", "/threads", nil, append(pre, "https://evil.example")...); a.header.Get("Access-Control-Allow-Private-Network") != "" || a.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%v", a.header)
	}
	for _, kind := range []string{"text/plain", "application/x-www-form-urlencoded", "multipart/form-data; boundary=x", ""} {
		h.refused(415, "POST", "/threads", "{}", "Content-Type", kind)
	}
	if a := h.refused(413, "POST", "/threads", object{"metadata": object{"a": strings.Repeat("x", 1000)}}); !strings.Contains(a.text, "1000 bytes") || !strings.Contains(a.text, "Config.MaxBody") {
		t.Errorf("%s", a.text)
	}
	h.ok("POST", "/threads", `{"metadata":`+strings.Repeat(`{"a":`, 126)+"1"+strings.Repeat("}", 127))
	h.refused(422, "POST", "/threads", `{"metadata":`+strings.Repeat(`{"a":`, 128)+"1"+strings.Repeat("}", 129))
	h.refused(422, "POST", "/threads", "{")
	h.refused(422, "POST", "/threads", "{} {}")
	h.refused(422, "POST", "/threads", "")
	h.refused(404, "GET", "/nothing", nil)
	if a := h.refused(405, "PUT", "/threads", object{}); a.header.Get("Allow") != "POST" {
		t.Errorf("%v", a.header)
	}

	// A connection that came to another address is refused, whatever name it has.
	r := httptest.NewRequest("GET", "http://localhost/ok", nil)
	r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, addr("192.0.2.1:80")))
	w := httptest.NewRecorder()
	h.api.ServeHTTP(w, r)
	if w.Code != 403 {
		t.Errorf("a request to 192.0.2.1: %d", w.Code)
	}
}

type addr string

func (a addr) Network() string { return "tcp" }
func (a addr) String() string  { return string(a) }

func TestLimits(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.MaxStreams = 1 })
	id := h.thread()
	res, err := h.request(t.Context(), "POST", "/threads/"+id+"/runs/stream", object{"assistant_id": "slow", "input": object{"text": "x"}})
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	for _, path := range []string{"/runs/wait", "/runs/stream"} {
		if a := h.refused(429, "POST", path, object{"assistant_id": "simple", "input": object{}}); a.header.Get("Retry-After") != "1" {
			t.Errorf("%s: %v", path, a.header)
		}
	}
	n := 0
	for _, err := range h.queue.List(t.Context(), runs.Query{}) {
		if n++; err != nil {
			t.Fatal(err)
		}
	}
	if n != 1 {
		t.Errorf("%d runs: one that was refused was made", n)
	}
	h.gate <- struct{}{}
	h.gate <- struct{}{}
	if err := frames(res.Body, func(frame) bool { return true }); err != nil {
		t.Fatal(err)
	}
	h.until("a stream is free", func() bool {
		return h.do("POST", "/runs/wait", object{"assistant_id": "simple", "input": object{}}).status == 200
	})
}

// TestRate: each user has so many requests, whatever they are for, and commands on a socket
// are requests.
func TestRate(t *testing.T) {
	h, bob := users(t, func(c *server.Config) { c.Rate, c.Burst = 1e-6, 3 })
	id := h.thread()
	h.refused(404, "GET", "/threads/"+someID, nil)
	h.refused(422, "POST", "/threads", object{"thread_id": 1})
	a := h.refused(429, "GET", "/threads/"+id, nil)
	if s, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || s < 1 || s > 1e6 {
		t.Errorf("%v", a.header)
	}
	h.refused(429, "POST", "/threads", object{})
	h.ok("GET", "/ok", nil)
	h.ok("GET", "/info", nil)

	thread := bob.thread()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.http.URL, "http")+"/threads/"+thread+"/stream/events", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {"key-bob"}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	for n, want := range []string{"success", "error"} {
		var answer object
		if err := errors.Join(wsjson.Write(t.Context(), conn, object{"id": n, "method": "subscription.subscribe", "params": object{"channels": []string{"values"}}}), wsjson.Read(t.Context(), conn, &answer)); err != nil {
			t.Fatal(err)
		}
		if answer["type"] != want || answer["id"] != float64(n) || n == 1 && !strings.HasPrefix(answer["message"].(string), "429: ") {
			t.Errorf("%v", answer)
		}
	}

	h, _ = users(t, func(c *server.Config) { c.Rate, c.Burst = -1, 1 })
	for range 5 {
		h.thread()
	}
	h = open(t, t.TempDir(), func(c *server.Config) { c.Rate, c.Burst = 1e-6, 1 }) // nobody is told from others
	for range 5 {
		h.thread()
	}
}

// A server that is read-only shows everything and changes nothing; without graphs it shows
// what is stored.
func TestReadOnly(t *testing.T) {
	dir := t.TempDir()
	h := open(t, dir, nil)
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "asker", "input": object{"text": "x"}})
	if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread("beside"), object{"text": "y"}); err != nil {
		t.Fatal(err)
	}
	h.shut()
	for _, graphs := range []bool{true, false} {
		h = open(t, dir, func(c *server.Config) {
			c.ReadOnly = true
			if !graphs {
				c.Graphs = nil
			}
		})
		if info := h.ok("GET", "/info", nil).sub("stele"); !info.object()["readonly"].(bool) {
			t.Errorf("%s", info.text)
		}
		if n := len(h.ok("POST", "/threads/search", object{}).json.([]any)); n != 2 {
			t.Errorf("graphs %v: %d threads", graphs, n)
		}
		h.equal(h.ok("GET", "/threads/beside/state", nil).sub("values"), `{"log":["a","b"],"text":"y"}`)
		th := h.ok("GET", "/threads/"+id, nil)
		if th.text1("status") != "interrupted" {
			t.Errorf("graphs %v: %s", graphs, th.text)
		}
		if st := h.ok("GET", "/threads/"+id+"/state", nil); !strings.Contains(st.text, `"next":["ask"]`) || !strings.Contains(st.text, `"ok?"`) {
			t.Errorf("graphs %v: %s", graphs, st.text)
		}
		history := h.ok("POST", "/threads/"+id+"/history", object{"limit": 100, "values": false}).json.([]any)
		if len(history) != 3 || history[0].(object)["values"] != nil {
			t.Errorf("graphs %v: %v", graphs, history)
		}
		if history := h.ok("GET", "/threads/"+id+"/history?limit=10", nil).json.([]any); len(history) != 3 || history[0].(object)["values"] == nil {
			t.Errorf("graphs %v: %v", graphs, history)
		}
		for _, r := range h.api.Routes() {
			method, path, _ := strings.Cut(r, " ")
			switch path {
			case "/threads/search", "/threads/count", "/assistants/search", "/assistants/count", "/store/items/search", "/store/namespaces",
				"/threads/{thread_id}/history", "/threads/{thread_id}/state/checkpoint", "/assistants/{assistant_id}/versions", "/runs/crons/search", "/runs/crons/count", "/threads/{thread_id}/stream/events":
				continue
			}
			if method != "GET" {
				path = strings.NewReplacer("{$}", "", "{thread_id}", id, "{run_id}", someID, "{assistant_id}", someID, "{cron_id}", someID, "{name}", "s").Replace(path)
				h.refused(403, method, path, object{})
			}
		}
		h.shut()
	}
}

// Items of clients are apart from those of the server and the queue, also where nobody is
// kept from anything.
func TestItems(t *testing.T) {
	h := newHouse(t)
	h.ok("POST", "/runs/wait", object{"assistant_id": "simple", "input": object{}})
	h.equal(h.ok("POST", "/store/items/search", object{}), `{"items":[]}`)
	h.equal(h.ok("POST", "/store/namespaces", object{}), `{"namespaces":[]}`)
	for _, ns := range [][]string{{"a", "b"}, {"a", "c"}, {"d"}} {
		h.ok("PUT", "/store/items", object{"namespace": ns, "key": "k", "value": object{"n": len(ns)}})
	}
	h.equal(h.ok("GET", "/store/items?namespace=a.b&key=k", nil).sub("value"), `{"n":2}`)
	h.equal(h.ok("GET", "/store/items?namespace=a.b&key=z", nil), `null`)
	if items := h.ok("POST", "/store/items/search", object{"limit": 2}).object()["items"].([]any); len(items) != 2 || items[0].(object)["namespace"].([]any)[0] != "d" {
		t.Errorf("%v", items)
	}
	if items := h.ok("POST", "/store/items/search", object{"namespace_prefix": []string{"a"}, "filter": object{"n": 2}, "offset": 1}).object()["items"].([]any); len(items) != 1 {
		t.Errorf("%v", items)
	}
	h.equal(h.ok("POST", "/store/namespaces", object{"max_depth": 1}), `{"namespaces":[["a"],["d"]]}`)
	h.equal(h.ok("POST", "/store/namespaces", object{"suffix": []string{"c"}}), `{"namespaces":[["a","c"]]}`)
	h.ok("DELETE", "/store/items", object{"namespace": []string{"d"}, "key": "k"})
	h.equal(h.ok("GET", "/store/items?namespace=d&key=k", nil), `null`)
	h.refused(400, "PUT", "/store/items", object{"namespace": []string{}, "key": "k", "value": object{}})
	h.refused(400, "GET", "/store/items?namespace=d", nil)
	for _, ns := range [][]string{{"__stele_server__"}, {"__stele_server__", "threads"}, {"stele.runs"}} {
		h.refused(422, "POST", "/store/items/search", object{"namespace_prefix": ns})
		h.refused(422, "PUT", "/store/items", object{"namespace": ns, "key": "k", "value": object{}})
		h.refused(422, "DELETE", "/store/items", object{"namespace": ns, "key": "k"})
		h.refused(422, "POST", "/store/namespaces", object{"prefix": ns})
	}
	h.refused(422, "GET", "/store/items?namespace=__stele_server__.assistants&key=k", nil)
}
