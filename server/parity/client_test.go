package parity

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/base/port"
	"github.com/stele-go/stele/server/client"
)

// langgraphDev starts LangGraph's own server with the graphs of reference, from the Python
// environment that STELE_LANGGRAPH_VENV names, once for all tests.
var langgraphDev = sync.OnceValues(func() (address string, err error) {
	venv := os.Getenv("STELE_LANGGRAPH_VENV")
	if venv == "" {
		return "", errors.New("STELE_LANGGRAPH_VENV names no Python environment")
	}
	free, err := port.Free()
	if err != nil {
		return "", err
	}
	dir, err := os.MkdirTemp("", "langgraph-")
	if err != nil {
		return "", err
	}
	stops = append(stops, func() { _ = os.RemoveAll(dir) })
	for _, name := range []string{"graphs.py", "story.py", "langgraph.json"} {
		text, err := os.ReadFile(filepath.Join("reference", name))
		if name == "langgraph.json" { // the recordings do without it
			text = bytes.Replace(text, []byte(`"graphs": {`), []byte(`"graphs": {"story": "./story.py:story",`), 1)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o600)
		}
		if err != nil {
			return "", err
		}
	}
	cmd := exec.Command(filepath.Join(venv, "bin", "langgraph"), "dev", "--no-browser", "--no-reload", "--allow-blocking", "--port", fmt.Sprint(free), "--n-jobs-per-worker", "4")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "LANGSMITH_TRACING=false", "LANGGRAPH_CLI_NO_ANALYTICS=1")
	var log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		return "", err
	}
	stops = append(stops, func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	c, err := client.New(fmt.Sprintf("http://127.0.0.1:%d", free), client.WithRetries(60))
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), clientTime)
	defer cancel()
	if err := c.OK(ctx); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // so that log is at rest
		return "", fmt.Errorf("langgraph dev does not answer: %w: %s", err, log.String())
	}
	return fmt.Sprintf("http://127.0.0.1:%d", free), nil
})

// stops end what tests share.
var stops []func()

func TestMain(m *testing.M) {
	code := m.Run()
	for _, stop := range slices.Backward(stops) {
		stop()
	}
	os.Exit(code)
}

// onEach runs a test of a client in Go against stele, and against LangGraph's own server.
func onEach(t *testing.T, fn func(t *testing.T, address string)) {
	t.Run("stele", func(t *testing.T) { fn(t, newServer(t)) })
	t.Run("langgraph", func(t *testing.T) {
		address, err := langgraphDev()
		if err != nil {
			missing(t, "NOT TESTED: the client in Go against LangGraph's own server: "+err.Error())
		}
		fn(t, address)
	})
}

// wires are the requests that a client sends, as METHOD /path. If cut is not 0, every answer
// that is a stream breaks off after so many bytes.
type wires struct {
	mu   sync.Mutex
	sent []string
	cut  int
}

func (w *wires) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.sent = append(w.sent, r.Method+" "+r.URL.Path)
	w.mu.Unlock()
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && w.cut > 0 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = &cutBody{resp.Body, w.cut}
	}
	return resp, err
}

type cutBody struct {
	io.ReadCloser
	left int
}

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left == 0 {
		return 0, io.ErrUnexpectedEOF
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

func newClient(t *testing.T, address string) (*client.Client, *wires) {
	t.Helper()
	w := &wires{}
	c, err := client.New(address, client.WithHTTPClient(&http.Client{Transport: w}))
	if err != nil {
		t.Fatal(err)
	}
	return c, w
}

// leftOut are the operations that no method of the client asks for, and why.
var leftOut = map[string]string{
	"GET /":                         "is GET /ok",
	"GET /docs":                     "is a page for people",
	"GET /openapi.json":             "is a document for tools",
	"GET /threads/{}/history":       "POST can ask for more",
	"GET /threads/{}/stream/events": "is a WebSocket; POST gives the same events",
	"POST /mcp":                     "is a protocol of its own, with its own clients",
	"POST /mcp/":                    "is a protocol of its own, with its own clients",
}

var parameter = regexp.MustCompile(`\{\w+\}`)

// TestClientsGo lets package client use stele and LangGraph's own server, and shows that its
// methods reach every operation that stele's server describes.
func TestClientsGo(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		c, w := newClient(t, address)
		mark := uuid.NewString()
		for _, part := range []struct {
			name string
			play func(*testing.T, *client.Client, string)
		}{{"assistants", playAssistants}, {"threads", playThreads}, {"runs", playRuns}, {"streams", playStreams}, {"crons", playCrons}, {"store", playStore}, {"system", playSystem}} {
			t.Run(part.name, func(t *testing.T) { part.play(t, c, mark) })
		}
		if t.Failed() || strings.HasSuffix(t.Name(), "/langgraph") {
			return
		}
		resp, err := http.Get(address + "/openapi.json")
		must(t, err)
		defer resp.Body.Close()
		var doc struct {
			Paths map[string]map[string]json.RawMessage
		}
		must(t, json.NewDecoder(resp.Body).Decode(&doc))
		operations := 0
		for path, methods := range doc.Paths {
			for method := range methods {
				operations++
				route := strings.ToUpper(method) + " " + parameter.ReplaceAllString(path, "{}")
				reached := slices.ContainsFunc(w.sent, func(sent string) bool { return isRoute(route, sent, doc.Paths) })
				_, out := leftOut[route]
				out = out || strings.HasPrefix(path, "/stele/") // what operators see, beyond LangGraph's API
				if out == reached {
					t.Errorf("%s: reached %v, left out %v", route, reached, out)
				}
			}
		}
		if operations < 60 {
			t.Errorf("the document has %d operations", operations)
		}
	})
}

// isRoute reports whether a request is of a route. A route with a name where another has a
// parameter is the nearer one.
func isRoute[V any](route, sent string, all map[string]V) bool {
	r, s := strings.Split(route, "/"), strings.Split(sent, "/")
	if len(r) != len(s) {
		return false
	}
	path := sent[strings.Index(sent, "/"):]
	for i := range r {
		if r[i] != s[i] && r[i] != "{}" {
			return false
		}
	}
	_, named := all[path]
	return !named || !strings.Contains(route, "{}")
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// is fails if got is not want, as JSON.
func is(t *testing.T, got, want any) {
	t.Helper()
	if g, w := asJSON(t, got), asJSON(t, want); g != w {
		t.Fatalf("got %s, want %s", g, w)
	}
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	var plain any
	must(t, json.Unmarshal(text, &plain))
	text, err = json.Marshal(plain)
	must(t, err)
	return string(text)
}

// field is a field of JSON.
func field(t *testing.T, data json.RawMessage, name string) any {
	t.Helper()
	var m map[string]any
	must(t, json.Unmarshal(data, &m))
	return m[name]
}

func isError(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got %v, want %v", err, want)
	}
}

func playAssistants(t *testing.T, c *client.Client, mark string) {
	ctx := t.Context()
	a, err := c.Assistants.Create(ctx, client.AssistantCreate{GraphID: "configured", Name: mark, Metadata: state{"mark": mark},
		Config: &client.Config{Configurable: state{"style": "formal"}}})
	must(t, err)
	id := a.AssistantID
	_, err = c.Assistants.Create(ctx, client.AssistantCreate{GraphID: "configured", AssistantID: id})
	isError(t, err, client.ErrConflict)
	a, err = c.Assistants.Get(ctx, id)
	must(t, err)
	is(t, []any{a.Name, a.Version, a.Config.Configurable["style"]}, []any{mark, 1, "formal"})
	q := client.AssistantQuery{Metadata: state{"mark": mark}}
	n, err := c.Assistants.Count(ctx, q)
	must(t, err)
	is(t, n, 1)
	for found, err := range c.Assistants.All(ctx, q) {
		must(t, err)
		is(t, found.AssistantID, id)
		n++
	}
	is(t, n, 2)
	a, err = c.Assistants.Update(ctx, id, client.AssistantUpdate{Config: &client.Config{Configurable: state{"style": "plain"}}})
	must(t, err)
	is(t, a.Version, 2)
	versions, err := c.Assistants.Versions(ctx, id, client.AssistantQuery{})
	must(t, err)
	is(t, []int{versions[0].Version, versions[1].Version}, []int{2, 1})
	a, err = c.Assistants.SetVersion(ctx, id, 1)
	must(t, err)
	is(t, a.Version, 1)
	d, err := c.Assistants.Graph(ctx, "nested", 0)
	must(t, err)
	inside, err := c.Assistants.Graph(ctx, "nested", -1)
	must(t, err)
	if d.Nodes[0].ID != "__start__" || len(inside.Nodes) <= len(d.Nodes) || len(d.Edges) == 0 {
		t.Errorf("%+v, %+v", d, inside)
	}
	found, err := c.Assistants.Search(ctx, client.AssistantQuery{GraphID: "nested", Metadata: state{"created_by": "system"}})
	must(t, err)
	nested := found[0].AssistantID
	s, err := c.Assistants.Schemas(ctx, nested)
	must(t, err)
	if field(t, s.State, "properties") == nil {
		t.Errorf("%s", s.State)
	}
	for namespace, want := range map[string]int{"": 2, "middle": 1} {
		subgraphs, err := c.Assistants.Subgraphs(ctx, nested, namespace, namespace == "")
		must(t, err)
		is(t, len(subgraphs), want)
	}
	must(t, c.Assistants.Delete(ctx, id, false))
	_, err = c.Assistants.Get(ctx, id)
	isError(t, err, client.ErrNotFound)
}

func playThreads(t *testing.T, c *client.Client, mark string) {
	ctx := t.Context()
	th, err := c.Threads.Create(ctx, client.ThreadCreate{Metadata: state{"mark": mark}, TTL: &client.TTL{Minutes: 600}})
	must(t, err)
	id := th.ThreadID
	_, err = c.Threads.Create(ctx, client.ThreadCreate{ThreadID: id})
	isError(t, err, client.ErrConflict)
	_, err = c.Threads.Create(ctx, client.ThreadCreate{ThreadID: id, IfExists: "do_nothing"})
	must(t, err)
	values, err := c.Runs.Wait(ctx, id, client.RunRequest{AssistantID: "counter", Input: state{"n": 1}})
	must(t, err)
	is(t, field(t, values, "n"), 112)
	th, err = c.Threads.Get(ctx, id)
	must(t, err)
	is(t, []any{th.Status, field(t, th.Values, "n"), th.CreatedAt.IsZero()}, []any{client.Idle, 112, false})
	th, err = c.Threads.Update(ctx, id, client.ThreadUpdate{Metadata: state{"more": 1}})
	must(t, err)
	is(t, th.Metadata["more"], 1)

	s, err := c.Threads.State(ctx, id, client.At{})
	must(t, err)
	is(t, []any{field(t, s.Values, "n"), s.Next}, []any{112, []string{}})
	var history []*client.State
	for s, err := range c.Threads.History(ctx, id, client.HistoryQuery{}) {
		must(t, err)
		history = append(history, s)
	}
	is(t, len(history), 5)
	s, err = c.Threads.State(ctx, id, client.At{Checkpoint: history[2].Checkpoint, Subgraphs: true})
	must(t, err)
	is(t, field(t, s.Values, "n"), 2)
	s, err = c.Threads.State(ctx, id, client.At{CheckpointID: history[1].Checkpoint.CheckpointID})
	must(t, err)
	is(t, []any{field(t, s.Values, "n"), s.Parent}, []any{12, history[2].Checkpoint})
	n := 0
	for s, err := range c.Threads.History(ctx, id, client.HistoryQuery{Limit: 2, Before: history[1].Checkpoint.CheckpointID}) {
		must(t, err)
		n++
		is(t, s.Checkpoint, history[1+n].Checkpoint)
	}
	is(t, n, 2)
	at, err := c.Threads.UpdateState(ctx, id, client.StateUpdate{Values: state{"log": []string{"by hand"}}, AsNode: "three"})
	must(t, err)
	s, err = c.Threads.State(ctx, id, client.At{Checkpoint: at})
	must(t, err)
	is(t, field(t, s.Values, "log").([]any)[3], "by hand")
	// A run that goes back to a checkpoint is a fork.
	values, err = c.Runs.Wait(ctx, id, client.RunRequest{AssistantID: "counter", Checkpoint: history[1].Checkpoint})
	must(t, err)
	is(t, field(t, values, "n"), 112)

	size, err := c.Threads.Storage(ctx, id)
	must(t, err)
	if size.Checkpoints.Count < 6 || size.TotalBytes == 0 {
		t.Errorf("%+v", size)
	}
	copied, err := c.Threads.Copy(ctx, id)
	must(t, err)
	q := client.ThreadQuery{Metadata: state{"mark": mark}, Extract: map[string]string{"n": "values.n"}}
	count, err := c.Threads.Count(ctx, q)
	must(t, err)
	is(t, count, 2)
	found, err := c.Threads.Search(ctx, client.ThreadQuery{IDs: []string{id}, Extract: q.Extract})
	must(t, err)
	is(t, []any{len(found), found[0].Extracted["n"]}, []any{1, 112})
	pruned, err := c.Threads.Prune(ctx, false, copied.ThreadID)
	must(t, err)
	is(t, pruned, 1)
	must(t, c.Threads.Delete(ctx, id))
	_, err = c.Threads.Get(ctx, id)
	isError(t, err, client.ErrNotFound)

	th, err = c.Threads.Create(ctx, client.ThreadCreate{GraphID: "counter", Supersteps: []client.Superstep{
		{Updates: []client.Update{{Values: state{"n": 5}, AsNode: "__input__"}}}, {Updates: []client.Update{{Values: state{"n": 1}, AsNode: "one"}}}}})
	must(t, err)
	s, err = c.Threads.State(ctx, th.ThreadID, client.At{})
	must(t, err)
	is(t, s.Next, []string{"two"})
}

func newThread(t *testing.T, c *client.Client) string {
	t.Helper()
	th, err := c.Threads.Create(t.Context(), client.ThreadCreate{})
	must(t, err)
	return th.ThreadID
}

func playRuns(t *testing.T, c *client.Client, mark string) {
	ctx := t.Context()
	id := newThread(t, c)
	r, err := c.Runs.Create(ctx, id, client.RunRequest{AssistantID: "counter", Input: state{"n": 1}, Metadata: state{"mark": mark}, InterruptAfter: client.Nodes{"*"}})
	must(t, err)
	_, err = c.Runs.Join(ctx, id, r.RunID)
	must(t, err)
	r, err = c.Runs.Get(ctx, id, r.RunID)
	must(t, err)
	is(t, []any{r.Ended(), r.ThreadID, r.Metadata["mark"]}, []any{true, id, mark})
	s, err := c.Threads.State(ctx, id, client.At{})
	must(t, err)
	is(t, s.Next, []string{"two"})
	list, err := c.Runs.List(ctx, id, client.RunQuery{Select: []string{"run_id"}})
	must(t, err)
	is(t, []any{len(list), list[0].RunID, list[0].Status}, []any{1, r.RunID, ""})
	for all, err := range c.Runs.All(ctx, id, client.RunQuery{}) {
		must(t, err)
		is(t, all.RunID, r.RunID)
	}
	values, err := c.Runs.Wait(ctx, "", client.RunRequest{AssistantID: "counter", Input: state{"n": 2}})
	must(t, err)
	is(t, field(t, values, "n"), 113)
	for _, thread := range []string{"", id} {
		_, err = c.Runs.Wait(ctx, thread, client.RunRequest{AssistantID: "error", Input: state{"fail": true}})
		var failed *client.RunError
		if !errors.As(err, &failed) || failed.Kind != "ValueError" || failed.Message != "boom" {
			t.Fatal(err)
		}
	}
	_, err = c.Runs.Create(ctx, uuid.NewString(), client.RunRequest{AssistantID: "counter", Input: state{}})
	isError(t, err, client.ErrNotFound)
	_, err = c.Runs.Create(ctx, id, client.RunRequest{AssistantID: "counter", Input: state{}, Durability: "perhaps"})
	isError(t, err, client.ErrInvalid)
	_, err = c.Runs.Create(ctx, "", client.RunRequest{AssistantID: "counter", Input: state{"n": 1}})
	must(t, err)
	batch, err := c.Runs.Batch(ctx, []client.RunRequest{{AssistantID: "counter", Input: state{"n": 1}}, {AssistantID: "custom", Input: state{}}})
	must(t, err)
	is(t, len(batch), 2)

	slow := client.RunRequest{AssistantID: "slow", Input: state{"delay": 20}, MultitaskStrategy: "reject"}
	id = newThread(t, c)
	r, err = c.Runs.Create(ctx, id, slow)
	must(t, err)
	_, err = c.Runs.Create(ctx, id, slow)
	isError(t, err, client.ErrConflict)
	must(t, c.Runs.Cancel(ctx, id, r.RunID, client.CancelOptions{Wait: true}))
	r, err = c.Runs.Get(ctx, id, r.RunID)
	must(t, err)
	is(t, r.Status, client.Interrupted)
	slow.MultitaskStrategy = ""
	r, err = c.Runs.Create(ctx, id, slow)
	must(t, err)
	must(t, c.Runs.CancelMany(ctx, client.CancelQuery{ThreadID: id, RunIDs: []string{r.RunID}}, client.CancelOptions{}))
	_, _ = c.Runs.Join(ctx, id, r.RunID) // servers differ in what comes of a run that was cancelled
	must(t, c.Runs.Delete(ctx, id, r.RunID))
	_, err = c.Runs.Get(ctx, id, r.RunID)
	isError(t, err, client.ErrNotFound)

	// Two questions at once, answered by their ids, and then two of one node.
	id = newThread(t, c)
	ask := client.RunRequest{AssistantID: "ask", Input: state{"name": "x"}}
	answers := []any{nil, state{}, "one", "two"}
	for _, want := range []int{2, 1, 1, 0} {
		values, err = c.Runs.Wait(ctx, id, ask)
		must(t, err)
		th, err := c.Threads.Get(ctx, id)
		must(t, err)
		n := 0
		for _, list := range th.Interrupts {
			for _, in := range list {
				n++
				if want == 2 {
					answers[1].(state)[in.ID] = field(t, in.Value, "who")
				}
			}
		}
		is(t, n, want)
		answers = answers[1:]
		if len(answers) > 0 {
			ask.Input, ask.Command = nil, &client.Command{Resume: answers[0]}
		}
	}
	is(t, field(t, values, "answers"), []string{"left:left", "right:right", "twice:one:two"})
}

func playStreams(t *testing.T, c *client.Client, _ string) {
	ctx := t.Context()
	id := newThread(t, c)
	var modes []string
	for ev, err := range c.Runs.Stream(ctx, id, client.RunRequest{AssistantID: "counter", Input: state{"n": 0}, StreamMode: []string{client.ModeUpdates, client.ModeValues}}) {
		must(t, err)
		is(t, []any{ev.ThreadID, ev.RunID != ""}, []any{id, true})
		modes = append(modes, ev.Mode)
	}
	is(t, modes, []string{"metadata", "values", "updates", "values", "updates", "values", "updates", "values"})
	var told []any
	for ev, err := range c.Runs.Stream(ctx, "", client.RunRequest{AssistantID: "custom", Input: state{}, StreamMode: []string{client.ModeCustom}}) {
		must(t, err)
		if ev.Mode == client.ModeCustom {
			told = append(told, ev.Data)
		}
	}
	is(t, told, []any{state{"progress": 1}, "half way", []any{1, nil, state{"x": 2.5}}})
	var last error
	for _, err := range c.Runs.Stream(ctx, "", client.RunRequest{AssistantID: "error", Input: state{"fail": true}}) {
		last = err
	}
	isError(t, last, client.ErrRunFailed)

	// A question is answered in a second run, and its messages come part by part.
	id = newThread(t, c)
	user := state{"messages": []any{state{"role": "user", "content": "weather in Rome"}}}
	asked := false
	for ev, err := range c.Runs.Stream(ctx, id, client.RunRequest{AssistantID: "agent", Input: user, StreamMode: []string{client.ModeUpdates}}) {
		must(t, err)
		asked = asked || ev.Mode == client.ModeUpdates && field(t, ev.Data, "__interrupt__") != nil
	}
	is(t, asked, true)
	said := ""
	for ev, err := range c.Runs.Stream(ctx, id, client.RunRequest{AssistantID: "agent", Command: &client.Command{Resume: "sunny"}, StreamMode: []string{client.ModeMessagesTuple}}) {
		must(t, err)
		if ev.Mode == client.ModeMessages {
			var pair []struct{ Type, Content string }
			must(t, json.Unmarshal(ev.Data, &pair))
			if pair[0].Type == "AIMessageChunk" {
				said += pair[0].Content
			}
		}
	}
	is(t, said, "You said: sunny")

	// Somebody who comes later sees it from the start, and what they have not yet seen.
	id = newThread(t, c)
	r, err := c.Runs.Create(ctx, id, client.RunRequest{AssistantID: "slow", Input: state{"delay": 0.05}, StreamMode: []string{client.ModeUpdates}, StreamResumable: true})
	must(t, err)
	var ids []string
	for ev, err := range c.Runs.JoinStream(ctx, id, r.RunID, client.JoinOptions{LastEventID: client.FromStart}) {
		must(t, err)
		if ev.Mode == client.ModeUpdates {
			ids = append(ids, ev.ID)
		}
	}
	is(t, len(ids), 4)
	n := 0
	for ev, err := range c.Runs.JoinStream(ctx, id, r.RunID, client.JoinOptions{LastEventID: ids[1], StreamMode: []string{client.ModeUpdates}}) {
		must(t, err)
		is(t, ev.ID, ids[2+n])
		n++
	}
	is(t, n, 2)

	// The stream of a thread has its runs as they come.
	id = newThread(t, c)
	following, stop := context.WithTimeout(ctx, clientTime)
	defer stop()
	_, err = c.Runs.Create(ctx, id, client.RunRequest{AssistantID: "slow", Input: state{"delay": 0.5}, StreamMode: []string{client.ModeUpdates}})
	must(t, err)
	for ev, err := range c.Threads.Stream(following, id, client.ThreadStreamOptions{}) {
		must(t, err)
		if ev.Mode == client.ModeUpdates && field(t, ev.Data, "d") != nil {
			break
		}
	}

	// Version 2 of the protocol.
	id = newThread(t, c)
	_, err = c.Threads.Command(ctx, id, "no.such", state{})
	var refused *client.ProtocolError
	if !errors.As(err, &refused) || refused.Code == "" {
		t.Fatal(err)
	}
	_, err = c.Threads.Command(ctx, id, "run.start", state{"assistant_id": "counter", "input": state{"n": 1}})
	must(t, err)
	seq := int64(0)
	for ev, err := range c.Threads.Events(following, id, client.EventsRequest{Channels: []string{"values", "lifecycle"}}) {
		must(t, err)
		if ev.Seq <= seq {
			t.Errorf("event %d after %d", ev.Seq, seq)
		}
		seq = ev.Seq
		if ev.Method == "lifecycle" && field(t, ev.Params.Data, "event") == "completed" {
			break
		}
	}
}

func playCrons(t *testing.T, c *client.Client, mark string) {
	ctx := t.Context()
	id := newThread(t, c)
	in := client.CronRequest{RunRequest: client.RunRequest{AssistantID: "counter", Input: state{"n": 1}, Metadata: state{"mark": mark}}, Schedule: "0 0 1 1 *"}
	a, err := c.Crons.Create(ctx, id, in)
	must(t, err)
	in.OnRunCompleted, in.EndTime = "keep", &client.Time{Time: time.Now().Add(1000 * time.Hour)}
	b, err := c.Crons.Create(ctx, "", in)
	must(t, err)
	is(t, []any{a.ThreadID, b.ThreadID, b.OnRunCompleted, b.EndTime.IsZero()}, []any{id, "", "keep", false})
	got, err := c.Crons.Get(ctx, a.CronID)
	must(t, err)
	is(t, []any{got.Schedule, got.NextRunDate.Month()}, []any{"0 0 1 1 *", 1})
	off := false
	got, err = c.Crons.Update(ctx, a.CronID, client.CronRequest{Schedule: "1 2 3 4 *", Enabled: &off})
	must(t, err)
	is(t, []any{got.Schedule, got.Enabled}, []any{"1 2 3 4 *", false})
	q := client.CronQuery{Metadata: state{"mark": mark}}
	n, err := c.Crons.Count(ctx, q)
	must(t, err)
	is(t, n, 2)
	var ids []string
	for k, err := range c.Crons.All(ctx, q) {
		must(t, err)
		ids = append(ids, k.CronID)
	}
	is(t, len(ids), 2)
	for _, id := range ids {
		must(t, c.Crons.Delete(ctx, id))
	}
	_, err = c.Crons.Get(ctx, a.CronID)
	isError(t, err, client.ErrNotFound)
}

func playStore(t *testing.T, c *client.Client, mark string) {
	ctx := t.Context()
	ns := []string{"go", mark}
	must(t, c.Store.Put(ctx, ns, "k", state{"n": 1}, client.PutOptions{}))
	must(t, c.Store.Put(ctx, ns, "l", state{"n": 2}, client.PutOptions{NoIndex: true, TTL: time.Hour}))
	it, err := c.Store.Get(ctx, ns, "k")
	must(t, err)
	is(t, []any{it.Namespace, it.Key, it.Value, it.UpdatedAt.IsZero()}, []any{ns, "k", state{"n": 1}, false})
	_, err = c.Store.Get(ctx, ns, "none")
	isError(t, err, client.ErrNotFound)
	n := 0
	for it, err := range c.Store.All(ctx, client.ItemQuery{Prefix: ns, Filter: state{"n": 2}}) {
		must(t, err)
		is(t, it.Key, "l")
		n++
	}
	is(t, n, 1)
	names, err := c.Store.Namespaces(ctx, client.NamespaceQuery{Prefix: ns})
	must(t, err)
	is(t, names, [][]string{ns})
	must(t, c.Store.Delete(ctx, ns, "k"))
	_, err = c.Store.Get(ctx, ns, "k")
	isError(t, err, client.ErrNotFound)
}

func playSystem(t *testing.T, c *client.Client, _ string) {
	must(t, c.OK(t.Context()))
	info, err := c.Info(t.Context())
	must(t, err)
	if info.Version == "" || info.Flags["crons"] != true {
		t.Errorf("%+v", info)
	}
	metrics, err := c.Metrics(t.Context())
	must(t, err)
	if !strings.Contains(metrics, "# TYPE") {
		t.Errorf("%s", metrics)
	}
}

// TestClientsGoResume: wherever the connections of a stream break off, the client shows the
// events of a stream that did not.
func TestClientsGoResume(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		c, w := newClient(t, address)
		ctx := t.Context()
		show := func(ev client.Event) string {
			data := string(ev.Data)
			if ev.Mode == "metadata" {
				data = ""
			}
			return ev.Mode + fmt.Sprint(len(ev.Namespace)) + data
		}
		req := client.RunRequest{AssistantID: "counter", Input: state{"n": 1}, StreamMode: []string{client.ModeUpdates, client.ModeValues, client.ModeMessages}, StreamResumable: true}
		var whole []string
		for ev, err := range c.Runs.Stream(ctx, newThread(t, c), req) {
			must(t, err)
			whole = append(whole, show(ev))
		}
		if len(whole) < 8 {
			t.Fatalf("%q", whole)
		}
		for cut := 480; cut < 760; cut += 90 {
			id := newThread(t, c)
			w.cut, w.sent = cut, nil
			var got []string
			for ev, err := range c.Runs.Stream(ctx, id, req) {
				must(t, err)
				got = append(got, show(ev))
			}
			w.cut = 0
			is(t, got, whole)
			if runs, err := c.Runs.List(ctx, id, client.RunQuery{}); err != nil || len(runs) != 1 || len(w.sent) < 4 {
				t.Errorf("%v: %d runs, sent %q", err, len(runs), w.sent)
			}
		}
	})
}
