package main

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/server/client"
)

// TestAnswerCommand: it lists what a thread of a running server asks, answers one question or several by their ids,
// passes a breakpoint, and says in words what is wrong with an answer, and that nothing answers.
func TestAnswerCommand(t *testing.T) {
	d, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{})
	must(t, err)
	asks := func(question string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			said, err := pregel.AskFor[string](ctx, question)
			return map[string]any{"said": []string{said}}, err
		}
	}
	api, end, err := serveStore(t.Context(), d, func(c *server.Config) {
		c.Graphs["order"], err = graph.New(graph.Key("said", channel.Reduce(channel.Append[string]))).
			Node("first", asks("first?")).Node("left", asks("left?")).Node("right", asks("right?")).
			Sequence(graph.Start, "first", "left").Edge("first", "right").Compile(graph.Options{Name: "order", Saver: c.Saver, Store: c.Store})
		must(t, err)
	})
	must(t, err)
	at := httptest.NewServer(api)
	defer func() {
		at.Close()
		must(t, end())
	}()
	c, err := client.New(at.URL)
	must(t, err)
	says := func(want int, words string, args ...string) string {
		t.Helper()
		out, stderr, code := stele(t, append([]string{"answer", "--timeout", "9m"}, args...)...)
		if code != want || !strings.Contains(out+stderr, words) {
			t.Errorf("%q: exit code %d, %s%s, want %d and %q", args, code, out, stderr, want, words)
		}
		return out
	}
	begin := func(req client.RunRequest) string {
		th, err := c.Threads.Create(t.Context(), client.ThreadCreate{})
		must(t, err)
		req.AssistantID = "order"
		_, err = c.Runs.Wait(t.Context(), th.ThreadID, req)
		must(t, err)
		return th.ThreadID
	}
	state := func(id, want string) {
		t.Helper()
		st, err := c.Threads.State(t.Context(), id, client.At{})
		must(t, err)
		if string(st.Values) != want {
			t.Errorf("the state is %s, want %s", st.Values, want)
		}
	}

	id := begin(client.RunRequest{Input: map[string]any{"said": []string{"in"}}})
	says(exitDone, `"first?"`+"\n"+`answer it by JSON: --value '"yes"'`, at.URL, id)
	says(exitFailed, `--value yes: it is no JSON. A word is written in quotes`, at.URL, id, "--value", "yes")
	says(exitFailed, "asks no question nope; it asks ", at.URL, id, "--question", `nope="yes"`)
	says(exitFailed, "want ID=JSON", at.URL, id, "--question", "yes")
	says(exitFailed, "the only question", at.URL, id, "--value", `"yes"`, "--question", `a="yes"`)
	says(exitFailed, "int", at.URL, id, "--value", "7") // the graph refuses it, and asks again
	says(exitDone, "answered; run ", at.URL, id, "--value", `"yes"`)
	says(exitFailed, "asks 2 questions: answer them by --question ID=JSON", at.URL, id, "--value", `"yes"`)
	says(exitDone, `answer them by JSON: --question `, at.URL, id)
	var told answered
	must(t, json.Unmarshal([]byte(says(exitDone, `"asks"`, at.URL, id, "--json")), &told))
	if len(told.Asks) != 2 || told.Run != "" {
		t.Fatalf("%+v", told)
	}
	says(exitDone, `"right?"`, at.URL, id, "--question", told.Asks[0].ID+`="L"`)
	says(exitDone, "asks nothing, and has finished", at.URL, id, "--question", told.Asks[1].ID+`="R"`)
	state(id, `{"said":["in","yes","L","R"]}`)
	says(exitFailed, "asks nothing: it has finished", at.URL, id, "--value", `"yes"`)

	id = begin(client.RunRequest{Input: map[string]any{"said": []string{"in"}}, InterruptBefore: client.Nodes{"first"}})
	says(exitDone, "asks nothing; first is left to run", at.URL, id)
	says(exitFailed, "Pass a breakpoint by --value null", at.URL, id, "--value", `"yes"`)
	says(exitDone, `"first?"`, at.URL, id, "--value", "null")
	says(exitDone, `"left?"`, at.URL, id, "--value", `"yes"`)
	state(id, `{"said":["in","yes"]}`)

	says(exitFailed, "has no thread 00000000-0000-0000-0000-000000000000", at.URL, "00000000-0000-0000-0000-000000000000")
	says(exitFailed, "is not the URL of a server", "localhost:2024", id)
	gone := httptest.NewServer(nil)
	gone.Close()
	says(exitFailed, "nothing answers at "+gone.URL, gone.URL, id)
}

// TestAnswerCredentials: a server that asks for a token, or for a key, is answered with it; without, the refusal says how to name both.
func TestAnswerCredentials(t *testing.T) {
	bearer := server.Bearer(func(_ context.Context, token string) (*server.User, error) {
		if token != "secret" {
			return nil, &server.AuthError{Detail: "who are you?"}
		}
		return &server.User{Identity: "ann"}, nil
	})
	for name, c := range map[string]struct {
		auth     *server.Auth
		token    string // of the environment
		args     []string
		accepted bool
	}{
		"no token":       {auth: bearer},
		"another token":  {auth: bearer, args: []string{"--token", "guess"}},
		"a token":        {auth: bearer, args: []string{"--token", "secret"}, accepted: true},
		"a variable":     {auth: bearer, token: "secret", accepted: true},
		"the flag first": {auth: bearer, token: "secret", args: []string{"--token", "guess"}},
		"no key":         {auth: server.APIKeys(map[string]*server.User{"k": {Identity: "ann"}})},
		"a key":          {auth: server.APIKeys(map[string]*server.User{"k": {Identity: "ann"}}), args: []string{"--api-key", "k"}, accepted: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv(serverTokenVariable, c.token)
			d, err := disk.Open(filepath.Join(t.TempDir(), "store"), disk.Options{})
			must(t, err)
			api, end, err := serveStore(t.Context(), d, func(conf *server.Config) { conf.Auth = c.auth })
			must(t, err)
			at := httptest.NewServer(api)
			defer func() {
				at.Close()
				must(t, end())
			}()
			words := "name a token by --token or the variable " + serverTokenVariable + ", a key by --api-key"
			if c.accepted {
				words = "has no thread"
			}
			out, stderr, code := stele(t, append([]string{"answer", "--timeout", "9m", at.URL, "00000000-0000-0000-0000-000000000000"}, c.args...)...)
			if code != exitFailed || !strings.Contains(stderr, words) {
				t.Errorf("exit code %d, %s%s, want %q", code, out, stderr, words)
			}
		})
	}
}

// TestExampleAnswers: a question of agent.AskPerson is shown with an answer that it takes.
func TestExampleAnswers(t *testing.T) {
	for question, want := range map[string]string{
		`"ok?"`: `"yes"`, `7`: `"yes"`, `{"action_requests": []}`: `"yes"`, `{"action_requests": 1, "type": 2}`: `"yes"`,
		`{"action_requests": [{"name": "a"}], "review_configs": []}`:                                                                       `{"decisions": [{"type": "approve"}]}`,
		`{"action_requests": [{"name": "a"}, {"name": "b", "args": {}}]}`:                                                                  `{"decisions": [{"type": "approve"}, {"type": "approve"}]}`,
		`{"type": "tool_approval", "name": "a"}`:                                                                                           `{"type": "approve"}`,
		`{"action_requests": [{}, {}], "review_configs": [{"allowed_decisions": ["reject"]}, {"allowed_decisions": ["edit", "approve"]}]}`: `{"decisions": [{"type": "reject"}, {"type": "approve"}]}`,
	} {
		if got := exampleFor(client.Interrupt{ID: "q", Value: json.RawMessage(question)}); got != want {
			t.Errorf("%s: %s, want %s", question, got, want)
		}
	}
}

// TestAnswerThatWasTaken: if the server goes away when it has the answer, who answered is told the run, and how to look.
func TestAnswerThatWasTaken(t *testing.T) {
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/state"):
			_, _ = w.Write([]byte(`{"values": {}, "next": ["a"], "tasks": [], "interrupts": [{"id": "q", "value": "ok?"}]}`))
		case strings.HasSuffix(r.URL.Path, "/runs"):
			_, _ = w.Write([]byte(`{"run_id": "r1", "thread_id": "t 1", "status": "pending"}`))
		default:
			panic(http.ErrAbortHandler)
		}
	}))
	defer at.Close()
	out, stderr, code := stele(t, "answer", "--timeout", "9m", at.URL, "t 1", "--assistant", "x", "--value", "1")
	if want := "Look by: stele answer " + at.URL + " 't 1'"; code != exitFailed || !strings.Contains(stderr, "taken as run r1") || !strings.Contains(stderr, want) {
		t.Errorf("exit code %d, %s%s, want %q", code, out, stderr, want)
	}
}
