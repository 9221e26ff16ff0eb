package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server/client"
)

// scripted answers the stream of each run with the same frames, and remembers what it was asked.
type scripted struct {
	frames string
	last   bool // the answer does not end by itself

	mu    sync.Mutex
	asked []string
	runs  []map[string]any
}

func (s *scripted) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.asked = append(s.asked, r.Method+" "+r.URL.Path)
	begun := len(s.runs)
	s.mu.Unlock()
	switch {
	case strings.HasSuffix(r.URL.Path, "/runs/stream"):
		var req map[string]any
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			w.WriteHeader(422)
			return
		}
		s.mu.Lock()
		s.runs = append(s.runs, req)
		s.mu.Unlock()
		w.Header().Set("Content-Location", strings.TrimSuffix(r.URL.Path, "/stream")+"/r")
		fmt.Fprint(w, s.frames)
		_ = http.NewResponseController(w).Flush()
		if s.last {
			<-r.Context().Done()
		}
	case strings.HasSuffix(r.URL.Path, "/runs") && begun == 0:
		w.WriteHeader(404)
	default:
		fmt.Fprint(w, `[]`)
	}
}

func serve(t *testing.T, s *scripted) *Graph {
	t.Helper()
	web := httptest.NewServer(s)
	t.Cleanup(web.Close)
	c, err := client.New(web.URL)
	if err != nil {
		t.Fatal(err)
	}
	return New(c, "there")
}

func frameOf(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// A remote graph steers the graph around the node that calls it.
func TestParentCommand(t *testing.T) {
	for _, goTo := range []string{`"c"`, `["c"]`, `[{"node":"c","input":{"x":"sent"}}]`, `[{"node":"c","arg":{"x":"sent"}}]`} {
		s := &scripted{frames: frameOf("values", `{"x":"inside"}`) + frameOf("command", `{"graph":"__parent__","update":{"x":"up"},"goto":`+goTo+`}`)}
		b := graph.New(graph.Key("x", nil), graph.Key("y", nil))
		b.Node("a", serve(t, s).Node(CallOptions{}), graph.NodeOptions{Targets: []string{"c"}})
		b.Node("c", func(_ context.Context, in any) (any, error) {
			return map[string]any{"y": in.(map[string]any)["x"]}, nil
		})
		b.Edge(graph.Start, "a")
		g, err := b.Compile(graph.Options{Saver: memory.New(memory.Options{}), RoundTrip: true})
		if err != nil {
			t.Fatal(err)
		}
		res, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"x": "in"})
		want := "up"
		if strings.Contains(goTo, "sent") {
			want = "sent"
		}
		if err != nil || res.Map()["x"] != "up" || res.Map()["y"] != want {
			t.Errorf("%s: %v, %v", goTo, res, err)
		}
	}
}

// A call of a function gets a command as an error.
func TestCommandError(t *testing.T) {
	s := &scripted{frames: frameOf("values", `{"x":"inside"}`) + frameOf("command", `{"graph":"__parent__","update":{"x":"up"},"goto":"c"}`)}
	there := serve(t, s)
	b := graph.New(graph.Key("x", nil))
	b.Node("a", func(ctx context.Context, _ any) (any, error) {
		return Call[map[string]any](ctx, there, map[string]any{"x": "in"}, CallOptions{})
	}).Edge(graph.Start, "a")
	g, err := b.Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	var gave *CommandError
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"x": "in"}); !errors.As(err, &gave) || gave.Command.Update.(map[string]any)["x"] != "up" {
		t.Error(err)
	}
}

// A caller who stops, or whose context ends, cancels the run.
func TestCancel(t *testing.T) {
	s := &scripted{frames: frameOf("updates", `{"a":{}}`) + frameOf("updates", `{"b":{}}`), last: true}
	g := serve(t, s)
	for _, err := range g.Stream(t.Context(), pregel.Thread("t"), nil) {
		if err != nil {
			t.Error(err)
		}
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	for ev, err := range g.Stream(ctx, pregel.Thread("t"), nil) {
		cancel()
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Error(ev, err)
		}
	}
	n := 0
	for _, a := range s.asked {
		if a == "POST /threads/t/runs/r/cancel" {
			n++
		}
	}
	if n != 2 {
		t.Errorf("%d runs were cancelled: %q", n, s.asked)
	}
}

func TestRequest(t *testing.T) {
	s := &scripted{frames: frameOf("values", "{}")}
	g := serve(t, s)
	at := pregel.Address{ThreadID: "t", CheckpointID: "c", CheckpointMap: map[string]string{"": "c"}}
	_, err := g.Invoke(t.Context(), at, &pregel.Command{Resume: 0, Update: pregel.Pairs{{Key: "m", Value: message.Human("hi")}}, Goto: []any{"a", pregel.Send{Node: "b", Arg: 1}}}, pregel.RunOptions{
		Metadata:     map[string]any{"keep": []any{1, nil, "x", func() {}}, "drop": make(chan int)},
		Configurable: map[string]any{"style": map[string]any{"a": 1, "b": t}, "nan": math.NaN(), "thread_id": "x", "checkpoint_id": "x", "checkpoint_ns": "x", "checkpoint_map": "x", "__pregel_task_id": "x", "langgraph_auth_user_id": "x", "langgraph_auth_user": map[string]any{"claims": map[string]any{}}},
		Tags:         []string{"tag"}, RecursionLimit: 7, InterruptBefore: []string{pregel.AllNodes}, Durability: pregel.Sync, Context: map[string]any{"k": 1}})
	if err != nil {
		t.Fatal(err)
	}
	plain := s.runs[0]
	cmd := plain["command"].(map[string]any)
	if m := cmd["update"].(map[string]any)["m"].(map[string]any); m["type"] != "human" || m["content"] != "hi" {
		t.Errorf("%v", m)
	}
	delete(cmd, "update")
	want := map[string]any{}
	if err := json.Unmarshal([]byte(`{"assistant_id":"there","command":{"resume":0,"goto":["a",{"node":"b","input":1}]},
		"config":{"tags":["tag"],"recursion_limit":7,"configurable":{"style":{"a":1}}},"metadata":{"keep":[1,"x"]},"context":{"k":1},
		"checkpoint":{"thread_id":"t","checkpoint_ns":"","checkpoint_id":"c","checkpoint_map":{"":"c"}},
		"stream_mode":["values","updates"],"stream_resumable":true,"if_not_exists":"create","interrupt_before":"*","durability":"sync"}`), &want); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(plain, want) {
		t.Errorf("got %v\nwant %v", plain, want)
	}

	for _, err := range g.Stream(t.Context(), at, nil, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeTools}}) {
		if !errors.Is(err, pregel.ErrInvalidArgument) {
			t.Errorf("mode tools: %v", err)
		}
	}
	if _, err := g.Invoke(t.Context(), at, pregel.Command{Graph: pregel.Parent}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := g.UpdateState(t.Context(), at, pregel.StateUpdate{TaskID: "x"}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Error(err)
	}
	if _, err := g.Call(t.Context(), nil, CallOptions{}); !errors.Is(err, pregel.ErrOutsideTask) {
		t.Error(err)
	}
}

func TestEvents(t *testing.T) {
	s := &scripted{frames: frameOf("metadata", `{"run_id":"r"}`) +
		frameOf("updates|in:1", `{"a":{"n":1,"f":1.5},"b":null,"__metadata__":{"cached":true}}`) +
		frameOf("updates", `{"__interrupt__":[{"value":{"n":1},"id":"i","response_schema":null}]}`) +
		frameOf("values", `{"n":12345678901234567,"__interrupt__":[]}`) +
		frameOf("messages", `[{"type":"AIMessageChunk","content":"hi","id":"m"},{"langgraph_step":1}]`) +
		frameOf("messages", `[{"type":"human","content":"ho","id":"h"},{}]`) +
		frameOf("custom", `[1]`)}
	var got []pregel.Event
	for ev, err := range serve(t, s).Stream(t.Context(), pregel.Address{}, nil, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates, pregel.ModeValues, pregel.ModeMessages, pregel.ModeCustom}}) {
		if err != nil {
			t.Fatal(err)
		}
		if m, ok := ev.Data.(pregel.MessageEvent); ok { // a message remembers what it was read from
			switch x := m.Message.(type) {
			case message.Chunk:
				ev.Data = "chunk " + x.Text() + fmt.Sprint(m.Metadata)
			case message.Message:
				ev.Data = "message " + x.Text()
			}
		}
		got = append(got, ev)
	}
	in := []string{"in:1"}
	want := []pregel.Event{
		{NS: in, Mode: "updates", Data: pregel.Update{Node: "a", Value: map[string]any{"n": int64(1), "f": 1.5}, Cached: true}},
		{NS: in, Mode: "updates", Data: pregel.Update{Node: "b", Cached: true}},
		{Mode: "updates", Data: pregel.Update{Node: pregel.KeyInterrupt}, Interrupts: []pregel.Interrupt{{ID: "i", Value: map[string]any{"n": int64(1)}}}},
		{Mode: "values", Data: map[string]any{"n": int64(12345678901234567)}, Interrupts: []pregel.Interrupt{}},
		{Mode: "messages", Data: "chunk himap[langgraph_step:1]"},
		{Mode: "messages", Data: "message ho"},
		{Mode: "custom", Data: []any{int64(1)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	for name, data := range map[string]string{"updates": `[]`, "values": `{`, "messages": `[1]`, "custom": `x`} {
		failed := false
		for _, err := range serve(t, &scripted{frames: frameOf(name, data)}).Stream(t.Context(), pregel.Address{}, nil, pregel.RunOptions{Modes: []pregel.Mode{pregel.Mode(name)}}) {
			failed = failed || err != nil
		}
		if !failed {
			t.Errorf("%s: %s is an event", name, data)
		}
	}
}

func FuzzEvents(f *testing.F) {
	for _, seed := range []string{`{"__interrupt__":[{"value":1,"id":"i"}]}`, `[{"type":"AIMessageChunk","content":"x"},{}]`, `{"graph":"__parent__","goto":["a",{"node":"b","arg":1}]}`, `{"a":null,"__metadata__":{"cached":true}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, mode := range []string{"updates", "values", "messages", "custom"} {
			if list, err := eventsOf(client.Event{Mode: mode, Data: data}); err == nil && mode != "updates" && len(list) != 1 {
				t.Errorf("%s: %d events", mode, len(list))
			}
		}
		var parent *pregel.ParentCommandError
		if err := commandOf(data); !errors.As(err, &parent) && json.Valid(data) && strings.HasPrefix(string(data), `{"graph":"`) && err == nil {
			t.Error("a command is no error")
		}
	})
}

// TestStateOfNoCheckpoint: servers show an empty state for a checkpoint that is not there.
func TestStateOfNoCheckpoint(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"values": {}, "next": [], "tasks": [], "created_at": null, "checkpoint": {"thread_id": "t", "checkpoint_id": "nope"}}`)
	}))
	defer s.Close()
	c, err := client.New(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	if st, err := New(c, "g").GetState(t.Context(), pregel.Thread("t").At("nope")); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("%+v, %v", st, err)
	}
	if st, err := New(c, "g").GetState(t.Context(), pregel.Thread("t")); err != nil || st.CreatedAt != "" {
		t.Errorf("%+v, %v", st, err)
	}
}
