package server_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coder/websocket"
	"github.com/coder/websocket/wsjson"

	"github.com/stele-go/stele/server"
)

// TestWrongWordsInBodies: wherever a body takes one of some words, another one is refused, in LangGraph's words.
func TestWrongWordsInBodies(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	at := strings.NewReplacer("{thread_id}", someID, "{assistant_id}", "simple", "{run_id}", someID, "{cron_id}", someID)
	all := server.WrongWords(h.api)
	for _, w := range all {
		a := h.do(w.Method, at.Replace(w.Path), w.Body)
		if a.status != 422 || !strings.Contains(a.text, `"nobody`) && !strings.Contains(a.text, `\"nobody`) ||
			!strings.Contains(a.text, "is not one of") && !strings.Contains(a.text, "not valid under any of the schemas") && !strings.Contains(a.text, `is not \"`) {
			t.Errorf("%s %s %v: %d %s", w.Method, w.Path, w.Body, a.status, a.text)
		}
	}
	if len(all) < 60 {
		t.Errorf("%d words were looked for", len(all))
	}
}

// TestAllowedWords: the refusal of a wrong mode lists those that may be.
func TestAllowedWords(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	for field, words := range map[string][]string{"stream_mode": {"values", "updates", "messages-tuple", "tasks", "debug"}} {
		a := h.do("POST", "/threads/"+someID+"/runs", object{"assistant_id": "simple", field: "telepathy"})
		for _, word := range words {
			if a.status != 422 || !strings.Contains(a.text, `\"`+word+`\"`) {
				t.Errorf("%s: %d %s, want %s among the words", field, a.status, a.text, word)
			}
		}
	}
}

// TestUnknownFields: fields that a body has and the server does not know are no error, and the answer lists them.
func TestUnknownFields(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) { c.Workers = -1 })
	many := object{}
	for i := range 40 {
		many[fmt.Sprintf("%02d", i)] = i
	}
	for _, c := range []struct {
		body object
		want string
	}{{object{"limit": 1}, ""}, {object{"limt": 1, "limit": 1, "a\r\nb: ü": 1}, `"a\r\nb: \u00fc", "limt"`}, {many, ""}, {object{strings.Repeat("x", 1000): 1}, `"xxxxxxxxxxxxxxxx"`}} {
		got := h.ok("POST", "/threads/search", c.body).header.Get("Stele-Ignored")
		if len(c.body) > 20 {
			c.want, got = "16", strconv.Itoa(len(strings.Split(got, ", ")))
		}
		if got != c.want {
			t.Errorf("%v: %s, want %s", c.body, got, c.want)
		}
	}
	id := h.ok("POST", "/threads", object{}).object()["thread_id"].(string)
	copied := h.ok("POST", "/threads/"+id+"/copy", object{"thread_id": id})
	if got := copied.header.Get("Stele-Ignored"); got != `"thread_id"` {
		t.Errorf("a copy ignores %s", got)
	}
	for _, c := range []struct {
		path string
		body any
		want string
	}{
		{"/threads", object{"ttl": object{"tll": 5}}, `"ttl.tll"`},
		{"/threads/" + id + "/history", object{"before": object{"checkpoint": "x"}}, `"before.checkpoint"`},
		{"/threads/" + id + "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "config": object{"recursion_limt": 1, "configurable": object{"any": 1}},
			"checkpoint": object{"checkpointid": "x"}}, `"checkpoint.checkpointid", "config.recursion_limt"`},
		{"/threads/" + id + "/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "command": object{"graph": "x", "goto": []any{object{"node": "n", "input": object{"any": 1}, "inptu": 1}},
			"update": object{"any": 1}, "resume": object{"any": 1}}}, `"command.goto[0].inptu", "command.graph", "input"`},
		{"/runs/batch", []any{object{"assistant_id": "simple", "input": object{"text": "x"}}, object{"assistant_id": "simple", "inptu": 1}}, `"[1].inptu"`},
		{"/threads/" + id + "/runs", object{"assistant_id": "simple", "on_completion": "delete", "feedback_keys": []string{"x"}}, `"feedback_keys", "on_completion"`},
		{"/threads/" + someID + "/runs", object{"assistant_id": "simple", "if_not_exists": "create", "on_completion": "keep"}, `"on_completion"`},
		{"/runs", object{"assistant_id": "simple", "on_completion": "delete", "feedback_keys": []string{"x"}}, `"feedback_keys"`},
		{"/threads/" + id + "/commands", object{"id": 1, "method": "run.start", "foo": 1, "params": object{"assistant_id": "simple", "input": object{"text": "x"}, "nonsense": 1,
			"config": object{"recursion_limt": 5, "configurable": object{"any": 1}}}}, `"foo", "params.config.recursion_limt", "params.nonsense"`},
		{"/threads/" + id + "/commands", object{"id": 1, "method": "state.get", "params": object{"nonsense": 1}}, `"params.nonsense"`},
	} {
		if a := h.do("POST", c.path, c.body); a.header.Get("Stele-Ignored") != c.want {
			t.Errorf("POST %s %v: %d ignores %s, want %s", c.path, c.body, a.status, a.header.Get("Stele-Ignored"), c.want)
		}
	}
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).object()["run_id"].(string)
	if a := h.do("POST", "/threads/"+id+"/runs/"+run+"/cancel", object{"action": "rollback", "wait": true}); a.header.Get("Stele-Ignored") != `"action", "wait"` {
		t.Errorf("a cancel ignores %s", a.header.Get("Stele-Ignored"))
	}
	if got := h.ok("POST", "/threads", object{"metadata": object{"any": 1}}).header.Get("Stele-Ignored"); got != "" {
		t.Errorf("what is inside a field is the client's: %s", got)
	}
}

// TestWrongWordsInAddresses: a parameter of an address that takes one of some words, a number, or true and false, refuses
// another one.
func TestWrongWordsInAddresses(t *testing.T) {
	const free = "" // any text
	paths := map[string]string{
		"namespace": free, "key": free, "before": free, "thread_id": free, "checkpoint_id": free,
		"xray": "GET /assistants/simple/graph", "recurse": "GET /assistants/simple/subgraphs", "delete_threads": "DELETE /assistants/simple",
		"wait": "POST /threads/T/runs/R/cancel", "action": "POST /threads/T/runs/R/cancel", "cancel_on_disconnect": "GET /threads/T/runs/R/join",
		"stream_mode": "GET /threads/T/runs/R/stream", "stream_modes": "GET /threads/T/stream", "status": "GET /threads/T/runs", "select": "GET /threads/T/runs",
		"limit": "GET /threads/T/runs", "offset": "GET /threads/T/runs", "subgraphs": "GET /threads/T/state", "stele_values": "GET /threads/T/state",
		"values": "GET /threads/T/history", "include": "GET /threads/T", "refresh_ttl": "GET /store/items?namespace=a&key=k", "check_db": "GET /ok", "leads": "GET /ok",
		"format": "GET /metrics", "after": "GET /stele/threads/T/runs/R/tasks",
	}
	more := []string{"GET /threads/T?stele_values=nobody", "GET /stele/runs?status=nobody", "POST /runs/cancel?action=nobody", "GET /threads/T/runs/R/stream?cancel_on_disconnect=nobody",
		"GET /threads/T/history?limit=nobody", "GET /threads/T/runs/R/stream?stream_mode=values&stream_mode=nobody", "GET /threads/T/runs/R/stream?stream_mode=[\"values\",\"nobody\"]",
		"GET /threads/T/stream?stream_modes=run_modes,nobody", "GET /threads/T?include=ttl,nobody", "GET /assistants/simple/subgraphs/n?recurse=nobody",
		"GET /threads/T/runs/R/stream?stream_mode=values,nobody"}
	names := regexp.MustCompile(`c\.(?:query|values|isTrue|words?|numeric)\("([a-z_]+)"`)
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, file := range files {
		if text := must(os.ReadFile(file)); !strings.HasSuffix(file, "_test.go") {
			for _, m := range names.FindAllSubmatch(text, -1) {
				read[string(m[1])] = true
			}
		}
	}
	for name := range read {
		if _, known := paths[name]; !known {
			t.Errorf("what does %s refuse?", name)
		}
	}
	for name, path := range paths {
		if !read[name] {
			t.Errorf("nothing reads %s", name)
		}
		if path != free {
			join := "?"
			if strings.Contains(path, "?") {
				join = "&"
			}
			more = append(more, path+join+name+"=nobody")
		}
	}
	h := open(t, t.TempDir(), nil)
	thread := h.thread()
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}}).text1("run_id")
	assistant := h.ok("POST", "/assistants", object{"graph_id": "simple"}).text1("assistant_id")
	for _, request := range more {
		method, path, _ := strings.Cut(request, " ")
		path = strings.NewReplacer("/T", "/"+thread, "/R/", "/"+run+"/", "/simple", "/"+assistant, `"`, "%22").Replace(path)
		var body any
		if path == "/runs/cancel?action=nobody" {
			body = object{"status": "all"}
		}
		if a := h.do(method, path, body); a.status != 422 || !strings.Contains(a.text, "nobody") {
			t.Errorf("%s: %d %s", request, a.status, a.text)
		}
	}
}

// TestRepeatedParameters: of a parameter with one value that comes several times the first does not count silently. Lists may be
// repeated, as LangGraph's clients do.
func TestRepeatedParameters(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	thread := h.thread()
	run := h.ok("POST", "/threads/"+thread+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}}).text1("run_id")
	h.ended(thread, run)
	for request, name := range map[string]string{
		"GET /store/items?namespace=a&namespace=b&key=k": "namespace", "GET /store/items?namespace=a&key=k&key=": "key",
		"GET /threads/T/runs?limit=1&limit=zzz": "limit", "GET /threads/T/history?before=x&before=x": "before", "GET /ok?check_db=0&check_db=0": "check_db",
		"POST /threads/T/runs/R/cancel?action=interrupt&action=rollback": "action",
		"GET /threads/T/runs?select=run_id&select=status":                "", "GET /threads/T?include=ttl&include=stele_status": "",
		"GET /threads/T/runs/R/stream?stream_mode=values&stream_mode=updates": "", "GET /threads/T?nobodys=1&nobodys=2": "",
	} {
		method, path, _ := strings.Cut(request, " ")
		a := h.do(method, strings.NewReplacer("/T", "/"+thread, "/R/", "/"+run+"/").Replace(path), nil)
		if want := "Invalid " + name + ": it comes 2 times, and has one value"; (name == "") != (a.status == 200) || name != "" && (a.status != 422 || !strings.Contains(a.text, want)) {
			t.Errorf("%s: %d %s", request, a.status, a.text)
		}
	}
}

// TestParamsOfCommands: each param that langchain-protocol gives to a command, and each that LangGraph's server reads, is one that the
// command names: test/arch says that it is read.
func TestParamsOfCommands(t *testing.T) {
	start := []string{"config", "metadata", "langsmith_tracer", "multitaskStrategy"}
	named := server.CommandParams()
	for method, params := range map[string][]string{
		"run.start":                append([]string{"assistant_id", "input"}, start...),
		"subscription.subscribe":   {"channels", "namespaces", "depth"},
		"subscription.reconnect":   {"run_id", "last_event_id", "subscriptions", "channels", "namespaces", "depth", "since", "subscription_id"},
		"subscription.unsubscribe": {"subscription_id"},
		"agent.getTree":            {"run_id"},
		"input.respond":            {"namespace", "interrupt_id", "response", "responses", "update", "goto", "config", "metadata"},
		"input.inject":             nil, // it is refused
		"state.get":                {"namespace", "keys"},
		"state.listCheckpoints":    {"namespace", "limit", "before"},
		"state.fork":               {"checkpoint_id", "input", "config"},
	} {
		names, known := named[method]
		if !known {
			t.Errorf("there is no %s", method)
		}
		for _, p := range params {
			if !slices.Contains(names, p) {
				t.Errorf("%s does not name %s", method, p)
			}
		}
	}
	h := open(t, t.TempDir(), nil)
	id := h.thread()
	h.start(id, "simple")
	run := object{"assistant_id": "simple", "input": object{"text": "x"}}
	for _, wrong := range []struct {
		method, code string
		params       object
	}{
		{"run.start", "unknown_error", merge(run, object{"langsmith_tracer": object{"project_name": "x"}})},
		{"run.start", "invalid_argument", merge(run, object{"multitaskStrategy": "nobody"})},
		{"run.start", "invalid_argument", merge(run, object{"multitask_strategy": "nobody"})},
		{"run.start", "invalid_argument", merge(run, object{"config": "x"})},
		{"run.start", "invalid_argument", merge(run, object{"metadata": []any{}})},
		{"run.start", "invalid_argument", merge(run, object{"assistant_id": 1})},
		{"subscription.subscribe", "invalid_argument", object{"channels": []any{"values"}, "depth": -1}},
		{"subscription.subscribe", "invalid_argument", object{"channels": []any{"values"}, "namespaces": []any{"x"}}},
		{"input.respond", "invalid_argument", object{"interrupt_id": "x", "namespace": "x"}},
		{"input.respond", "invalid_argument", object{"responses": []any{object{"interrupt_id": "x", "namespace": []any{1}}}}},
		{"state.get", "invalid_argument", object{"namespace": "x"}},
		{"state.get", "invalid_argument", object{"keys": "x"}},
		{"state.listCheckpoints", "invalid_argument", object{"limit": "x"}},
		{"state.fork", "invalid_argument", object{"checkpoint_id": 1}},
		{"input.inject", "not_supported", object{"message": object{}}},
	} {
		a := h.command(id, wrong.method, wrong.params)
		if a.text1("error") != wrong.code {
			t.Errorf("%s %v: %s", wrong.method, wrong.params, a.text)
		}
	}
	for _, null := range []string{"config", "metadata", "multitaskStrategy", "langsmith_tracer"} {
		if a := h.command(id, "run.start", merge(run, object{null: nil})); a.text1("type") != "success" {
			t.Errorf("%s: %s", null, a.text)
		}
	}
	made := h.command(id, "run.start", merge(run, object{"multitaskStrategy": "interrupt"})).object()["result"].(object)["run_id"].(string)
	if how := h.ok("GET", "/threads/"+id+"/runs/"+made, nil).text1("multitask_strategy"); how != "interrupt" {
		t.Errorf("the strategy is %s", how)
	}
}

// TestReconnect: a client that was cut off gets the events behind the last one that it has, under the name that its
// subscription had.
func TestReconnect(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	thread := h.thread()
	run := h.start(thread, "simple")
	all := h.heard(thread, 0, 1)
	half := len(all) / 2
	last, _, _ := strings.Cut(all[half-1], " ")
	since := must(strconv.Atoi(last))
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(h.http.URL, "http")+"/threads/"+thread+"/stream/events", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {h.key}}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ask := func(method string, params object) (events []string, answer object) {
		t.Helper()
		if err := wsjson.Write(ctx, conn, object{"id": 1, "method": method, "params": params}); err != nil {
			t.Fatal(err)
		}
		for {
			var m object
			if err := wsjson.Read(ctx, conn, &m); err != nil {
				t.Fatal(err)
			}
			if m["type"] != "event" {
				return events, m
			}
			events = append(events, fmt.Sprint(m["seq"]))
		}
	}
	channels := object{"channels": []string{"values", "lifecycle", "input"}}
	for _, wrong := range []struct {
		code   string
		params object
	}{
		{"invalid_argument", channels},
		{"invalid_argument", merge(channels, object{"since": -1})},
		{"invalid_argument", merge(channels, object{"since": true})},
		{"not_supported", merge(channels, object{"since": 0, "last_event_id": "x"})},
		{"not_supported", merge(channels, object{"since": 0, "subscriptions": []string{"x"}})},
		{"no_such_run", merge(channels, object{"since": 0, "run_id": someID})},
	} {
		if _, a := ask("subscription.reconnect", wrong.params); a["error"] != wrong.code {
			t.Errorf("%v: %v", wrong.params, a)
		}
	}
	if _, a := ask("agent.getTree", object{"run_id": someID}); a["error"] != "no_such_run" {
		t.Errorf("the tree of another run: %v", a)
	}
	events, a := ask("subscription.reconnect", merge(channels, object{"since": since, "subscription_id": "mine", "run_id": run}))
	var want []string
	for _, line := range all[half:] {
		seq, _, _ := strings.Cut(line, " ")
		want = append(want, seq)
	}
	if !slices.Equal(events, want) || a["result"].(object)["subscription_id"] != "mine" || a["result"].(object)["replayed_events"] != float64(len(want)) {
		t.Errorf("%v, want %v: %v", events, want, a)
	}
	if _, a := ask("subscription.unsubscribe", object{"subscription_id": "mine"}); a["type"] != "success" {
		t.Errorf("%v", a)
	}
}

// TestUndeclaredParameter: a handler that reads a parameter which its route does not declare panics, and does not find it missing.
func TestUndeclaredParameter(t *testing.T) {
	defer func() {
		if said := fmt.Sprint(recover()); !strings.Contains(said, `"limit"`) {
			t.Error(said)
		}
	}()
	t.Errorf("it is %q", server.ReadUndeclared(httptest.NewRequest("GET", "/threads?limit=1", nil), "limit"))
}

// TestIgnoredParameters: every operation lists the parameters of its address that it does not know, beside the fields of its body, and
// none that it reads.
func TestIgnoredParameters(t *testing.T) {
	h := open(t, t.TempDir(), nil)
	const some = "00000000-0000-4000-8000-000000000001"
	ids := strings.NewReplacer("{$}", "", "{assistant_id}", some, "{namespace}", "x", "{schedule_id...}", "x", "{thread_id}", some, "{run_id}", some, "{cron_id}", some,
		"{checkpoint_id}", some, "{name}", "x", "{id}", "x")
	for _, route := range h.api.Routes() {
		method, path, _ := strings.Cut(route, " ")
		var body any
		if method != "GET" {
			body = object{}
		}
		if got := h.do(method, ids.Replace(path)+"?nobodys=1&nobodys=2&a%0Ab=1", body).header.Get("Stele-Ignored"); got != `"a\nb", "nobodys"` {
			t.Errorf("%s ignores %s", route, got)
		}
	}
	for request, want := range map[string]string{
		"GET /ok?check_db=1&leads=0": "", "GET /ok?checkdb=1&leads=0": `"checkdb"`, "GET /store/items?namespace=a&key=k&refresh_ttl=true": "",
		"GET /threads/" + some + "/history?limit=2&before=x&values=false&metadata=x": `"metadata"`,
	} {
		method, path, _ := strings.Cut(request, " ")
		if got := h.do(method, path, nil).header.Get("Stele-Ignored"); got != want {
			t.Errorf("%s ignores %s, want %s", request, got, want)
		}
	}
	if got := h.do("POST", "/threads/search?limit=1", object{"limt": 1}).header.Get("Stele-Ignored"); got != `"limit", "limt"` {
		t.Errorf("a search ignores %s", got)
	}
}
