package server_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/server"
)

// TestPanic: a function of a graph that panics during a request fails that request alone, and its
// stack is for the operator. So is that of a node that panics.
func TestPanic(t *testing.T) {
	var log bytes.Buffer
	h := open(t, t.TempDir(), func(c *server.Config) {
		b := builder().Node("a", says("a")).Node("b", func(context.Context, any) (any, error) { panic("of b") })
		b.Edge(graph.Start, "a").Conditional("a", "rash", func(_ context.Context, s any) (any, error) {
			if s.(object)["text"] == "rash" {
				panic("of the route")
			}
			return "b", nil
		}, "b")
		c.Graphs["rash"] = must(b.Compile(graph.Options{Name: "rash", Saver: c.Saver}))
		c.Logger = logTo(&log)
	})
	id := h.ok("POST", "/threads", object{"metadata": object{"graph_id": "rash"}}).text1("thread_id")
	h.equal(h.refused(500, "POST", "/threads/"+id+"/state", object{"values": object{"text": "rash"}, "as_node": "a"}), `{"detail":"Internal Server Error"}`)
	if !strings.Contains(log.String(), "of the route") || !strings.Contains(log.String(), "corners_test.go") {
		t.Errorf("the log has no panic with its stack: %s", log.String())
	}
	h.ok("POST", "/threads/"+id+"/state", object{"values": object{"text": "calm"}, "as_node": "a"})
	run := object{"assistant_id": "rash", "input": object{"text": "calm"}, "stream_mode": []string{"tasks"}}
	for _, f := range h.stream("POST", "/threads/"+id+"/runs/stream", run) {
		if strings.Contains(f.data, "goroutine") {
			t.Errorf("a client sees a stack: %s %s", f.event, f.data)
		}
	}
	for _, at := range []string{"/threads/" + id, "/threads/" + id + "/state"} {
		a := h.ok("GET", at, nil)
		if !strings.Contains(a.text, "panic: of b") || strings.Contains(a.text, "goroutine") {
			t.Errorf("%s: want the panic without its stack: %s", at, a.text)
		}
	}
}

// TestTextThatIsNone: bytes that are no UTF-8, and half of a character, are refused, and not stored as something else.
func TestTextThatIsNone(t *testing.T) {
	h := newHouse(t)
	for _, text := range []string{"\xe4", `\ud83d`, `\ud83d.`, `\ude00`, `\ude00\ud83d`, `\ud83d\ud83d\ude00`, `\ud83d\n`, `\ud83d\u`, `\uD83D\u0041`} {
		for _, body := range []string{`{"metadata":{"a":"` + text + `"}}`, `{"metadata":{"` + text + `":1}}`} {
			h.equal(h.refused(422, "POST", "/threads", body), `{"detail":"Invalid JSON in request body"}`)
		}
	}
	for text, want := range map[string]string{"ä": "ä", `\u00e4`: "ä", `\ud83d\uDE00`: "😀", `\\ud83d`: `\\ud83d`, `\\\ud83d\ude00`: `\\😀`} {
		if a := h.ok("POST", "/threads", `{"metadata":{"a":"`+text+`"}}`); !strings.Contains(a.text, `"a":"`+want+`"`) {
			t.Errorf("%s: %s", text, a.text)
		}
	}
}

// TestSlashTooMuch: a path with slashes too much leads to the one without, also below another path. One
// with dots is of nothing.
func TestSlashTooMuch(t *testing.T) {
	h := newHouse(t)
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	for asked, to := range map[string]string{
		"POST /threads/":          "../threads",
		"POST /threads/search/?x": "../../threads/search?x",
		"GET /threads/a%2Fb/":     "../../threads/a%2Fb",
		"POST //threads///search": "../../../../threads/search",
		"GET /%2Fok/":             "",
		"GET /threads/../ok":      "",
		"GET /./ok/":              "",
		"GET /nothing/":           "",
		"GET //evil.com/":         "",
	} {
		method, from, _ := strings.Cut(asked, " ")
		res, err := client.Do(must(http.NewRequestWithContext(t.Context(), method, h.base+from, nil)))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		got := res.Header.Get("Location")
		if got != to || (res.StatusCode == 307) != (to != "") {
			t.Errorf("%s: %d to %q, want %q", asked, res.StatusCode, got, to)
		}
	}
	below := httptest.NewServer(http.StripPrefix("/api", h.api))
	defer below.Close()
	for _, path := range []string{"/threads/count/", "//threads//count"} {
		res, err := http.Post(below.URL+"/api"+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if res.StatusCode != 200 {
			t.Errorf("%s: %s", path, res.Status)
		}
	}
}

// TestCapitals: an id in capitals is that of the same thread, unless another program has made one with
// just these letters.
func TestCapitals(t *testing.T) {
	h := newHouse(t)
	const id = "0A0B0C0D-0000-4000-8000-00000000ABCD"
	if a := h.ok("POST", "/threads", object{"thread_id": id}); a.text1("thread_id") != strings.ToLower(id) {
		t.Error(a.text)
	}
	run := h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}})
	h.ended(id, strings.ToUpper(run.text1("run_id")))
	if a := h.ok("GET", "/threads/"+strings.ToLower(id), nil); a.text1("thread_id") != strings.ToLower(id) || a.text1("status") != "idle" {
		t.Error(a.text)
	}
	h.refused(409, "POST", "/threads", object{"thread_id": id})
	const own = "0A0B0C0D-0000-4000-8000-00000000EEEE"
	if _, err := h.graphs(h.disk)["simple"].Invoke(t.Context(), pregel.Thread(own), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	if a := h.ok("GET", "/threads/"+own, nil); a.text1("thread_id") != own {
		t.Error(a.text)
	}
	h.refused(404, "GET", "/threads/"+strings.ToLower(own), nil)
	// Bodies name them too.
	found := func(path string, body object, want int) {
		t.Helper()
		if a := h.ok("POST", path, body); a.text != fmt.Sprint(want) {
			t.Errorf("%s %v: %s, want %d", path, body, a.text, want)
		}
	}
	found("/threads/count", object{"ids": []string{id, strings.ToLower(id), own}}, 2)
	cron := h.ok("POST", "/threads/"+id+"/runs/crons", object{"assistant_id": "simple", "schedule": "0 0 1 1 *"})
	found("/runs/crons/count", object{"thread_id": id}, 1)
	found("/runs/crons/count", object{"assistant_id": strings.ToUpper(cron.text1("assistant_id"))}, 1)
	found("/runs/crons/count", object{"thread_id": own}, 0)
	run = h.ok("POST", "/threads/"+id+"/runs", object{"assistant_id": "slow", "input": object{"text": "x"}})
	h.ok("POST", "/runs/cancel", object{"thread_id": id, "run_ids": []string{strings.ToUpper(run.text1("run_id"))}})
	if a := h.ok("POST", "/threads/prune", object{"thread_ids": []string{id, own}}); a.text != `{"pruned_count":2}` {
		t.Error(a.text)
	}
	h.refused(404, "GET", "/threads/"+id, nil)
	h.refused(404, "GET", "/threads/"+own, nil)
}

// TestQuestionsOfARun: who waits for a run is told all of its questions, and its values.
func TestQuestionsOfARun(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		ask := func(q string) pregel.Func {
			return func(ctx context.Context, _ any) (any, error) {
				_, err := pregel.Ask(ctx, q)
				return nil, err
			}
		}
		b := builder().Node("one", ask("one?")).Node("two", ask("two?")).Node("three", ask("three?"))
		for _, n := range []string{"one", "two", "three"} {
			b.Edge(graph.Start, n)
		}
		c.Graphs["asks"] = must(b.Compile(graph.Options{Name: "asks", Saver: c.Saver}))
	})
	a := h.ok("POST", "/runs/wait", object{"assistant_id": "asks", "input": object{"text": "x"}})
	var asked []string
	list, _ := a.object()["__interrupt__"].([]any)
	for _, q := range list {
		asked = append(asked, q.(object)["value"].(string))
	}
	if got := strings.Join(asked, " "); len(asked) != 3 || !strings.Contains(got, "one?") || !strings.Contains(got, "two?") || !strings.Contains(got, "three?") || a.text1("text") != "x" {
		t.Error(a.text)
	}
}

// TestAbortedAnswer: an answer that has begun when its handler panics is cut off.
func TestAbortedAnswer(t *testing.T) {
	h := newHouse(t)
	w := &breaking{ResponseRecorder: httptest.NewRecorder()}
	defer func() {
		if p := recover(); p == nil || w.Code != 200 || strings.Contains(w.Body.String(), "Internal") {
			t.Errorf("%v, %d %s", p, w.Code, w.Body)
		}
	}()
	h.api.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost/ok", nil))
}

// breaking panics when the body of an answer is written.
type breaking struct{ *httptest.ResponseRecorder }

func (breaking) Write([]byte) (int, error) { panic(errors.New("of the writer")) }

// TestFormsOfUUIDs: ids without dashes, in braces and as URNs are those in their usual form, in paths and
// bodies, and for Authorize.
func TestFormsOfUUIDs(t *testing.T) {
	var asked []any
	h, _ := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(ctx context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if a.Action == "create_run" {
				asked = append(asked, a.Value["thread_id"], a.Value["assistant_id"])
			}
			return server.OwnThings(ctx, u, a)
		}
	})
	const id = "0a0b0c0d-0000-4000-8000-00000000abcd"
	plain := func(id string) string { return strings.ReplaceAll(id, "-", "") }
	if a := h.ok("POST", "/threads", object{"thread_id": plain(id)}); a.text1("thread_id") != id {
		t.Error(a.text)
	}
	for _, form := range []string{plain(id), "{" + id + "}", "urn:uuid:" + id, strings.ToUpper(plain(id))} {
		if a := h.ok("GET", "/threads/"+form, nil); a.text1("thread_id") != id {
			t.Errorf("%s: %s", form, a.text)
		}
		h.refused(409, "POST", "/threads", object{"thread_id": form})
	}
	for _, form := range []string{id[1:], "(" + id + ")", plain(id) + "0", "x"} {
		h.refused(422, "GET", "/threads/"+form, nil)
	}
	assistant := h.ok("POST", "/assistants/search", object{"graph_id": "simple"}).json.([]any)[0].(object)["assistant_id"].(string)
	run := h.ok("POST", "/threads/"+plain(id)+"/runs", object{"assistant_id": plain(assistant), "input": object{"text": "x"}}).text1("run_id")
	if !slices.Equal(asked, []any{id, assistant}) {
		t.Errorf("Authorize was asked about %v", asked)
	}
	h.ended(id, plain(run))
	if a := h.ok("POST", "/threads/prune", object{"thread_ids": []string{plain(id), id}}); a.text != `{"pruned_count":1}` {
		t.Error(a.text)
	}
}

// TestAuthorizeIsAskedAboutTheThread: where a program has made a thread whose id is that of another in an unusual
// form, Authorize is asked about the one that the request reaches, also if its body names it.
func TestAuthorizeIsAskedAboutTheThread(t *testing.T) {
	const id = "0a0b0c0d-0000-4000-8000-00000000abcd"
	plain := strings.ReplaceAll(id, "-", "")
	ann, bob := users(t, func(c *server.Config) {
		c.Auth.Authorize = func(_ context.Context, u *server.User, a server.Access) (server.Grant, error) {
			if u.Identity == "ann" && a.Value["thread_id"] != id {
				return server.Grant{}, &server.AuthError{Detail: "not this one"}
			}
			return server.Grant{}, nil
		}
	})
	if _, err := ann.graphs(ann.disk)["simple"].Invoke(t.Context(), pregel.Thread(plain), object{"text": "x"}); err != nil {
		t.Fatal(err)
	}
	run := bob.ok("POST", "/threads/"+plain+"/runs", object{"assistant_id": "simple", "input": object{"text": "x"}, "after_seconds": 3600})
	if run.text1("thread_id") != plain {
		t.Fatal(run.text)
	}
	ann.refused(403, "GET", "/threads/"+plain, nil)
	ann.refused(403, "POST", "/runs/crons/search", object{"thread_id": plain})
	ann.refused(403, "POST", "/runs/cancel", object{"thread_id": plain, "run_ids": []string{run.text1("run_id")}})
	ann.ok("POST", "/threads", object{"thread_id": id})
	ann.refused(404, "POST", "/runs/cancel", object{"thread_id": "{" + id + "}", "run_ids": []string{run.text1("run_id")}})
	if a := bob.ok("GET", "/threads/"+plain+"/runs/"+run.text1("run_id"), nil); a.text1("status") != "pending" {
		t.Error(a.text)
	}
}

// TestSelectOfRuns: a list of runs has the fields that are asked for, and says which there are.
func TestSelectOfRuns(t *testing.T) {
	h := newHouse(t)
	id := h.thread()
	h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "simple", "input": object{"text": "x"}})
	h.equal(h.ok("GET", "/threads/"+id+"/runs?select=status&select=thread_id", nil), `[{"status":"success","thread_id":"`+id+`"}]`)
	for _, q := range []string{"x", "", "status&select=x"} {
		if a := h.refused(422, "GET", "/threads/"+id+"/runs?select="+q, nil); !strings.Contains(a.text, "Invalid select columns") {
			t.Errorf("%s: %s", q, a.text)
		}
	}
}

// TestNodeReachesNothing: what a node cannot reach is an error of its run, with the node's own words.
func TestNodeReachesNothing(t *testing.T) {
	h := open(t, t.TempDir(), func(c *server.Config) {
		c.Graphs["calls"] = must(builder().Node("a", func(context.Context, any) (any, error) {
			_, err := http.Get("http://127.0.0.1:1/model")
			return nil, err
		}).Edge(graph.Start, "a").Compile(graph.Options{Name: "calls", Saver: c.Saver}))
	})
	id := h.thread()
	if a := h.ok("POST", "/threads/"+id+"/runs/wait", object{"assistant_id": "calls", "input": object{"text": "x"}}); !strings.Contains(a.text, "127.0.0.1:1/model") {
		t.Error(a.text)
	}
	if a := h.ok("GET", "/threads/"+id, nil); a.text1("status") != "error" || !strings.Contains(a.text, "127.0.0.1:1/model") {
		t.Error(a.text)
	}
}
