package streamv2

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
)

// told are the events of protocol v2 that a run's stored events make: "method ns data".
func told(t *testing.T, end runs.Run, events ...runs.Event) (out []string) {
	t.Helper()
	tr := NewTranslator(runs.Run{ID: "r", Spec: runs.Spec{Graph: "g", Modes: end.Modes}})
	for i, ev := range events {
		ev.Seq, ev.Time = int64(i+1), time.UnixMilli(1)
		text := string(ev.Data.Data)
		ev.Data.Data = nil
		made, err := tr.translate(ev, []byte(text), func() (runs.Run, error) { return end, nil })
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range made {
			data, err := json.Marshal(e.Data)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, fmt.Sprintf("%s %s %s", e.Method, strings.Join(e.Namespace, "|"), data))
		}
	}
	return out
}

func stored(kind runs.Kind, text string, ns ...string) runs.Event {
	ev := runs.Event{Kind: kind, Attempt: 1, Namespace: ns}
	ev.Data.Data = []byte(text)
	return ev
}

func toldAs(t *testing.T, got []string, want ...string) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestProtocolRun(t *testing.T) {
	got := told(t, runs.Run{Status: runs.Success},
		stored(runs.KindAttempt, `"w"`),
		stored("values", `{"n":1}`),
		stored("updates", `{"b":{"n":2},"a":null}`),
		stored("custom", `5`),
		stored("custom", `{"name":"x","payload":1}`),
		stored("checkpoints", `{"config":{"configurable":{"checkpoint_id":"c2"}},"parent_config":{"configurable":{"checkpoint_id":"c1"}},"metadata":{"step":1,"source":"loop"}}`),
		stored(runs.KindEnd, `"success"`))
	toldAs(t, got,
		`lifecycle  {"event":"running","graph_name":"g"}`,
		`values  {"n":1}`,
		`updates  {"node":"a","values":{}}`,
		`updates  {"node":"b","values":{"n":2}}`,
		`custom  5`,
		`custom  {"name":"x","payload":1}`,
		`checkpoints  {"id":"c2","parent_id":"c1","source":"loop"}`,
		`lifecycle  {"event":"completed","graph_name":"g"}`)
}

// Values come behind the checkpoint that has them, and never wait for one that does not come.
func TestProtocolValuesBehindTheirCheckpoint(t *testing.T) {
	checkpoint := func(id string, ns ...string) runs.Event {
		return stored("checkpoints", `{"config":{"configurable":{"checkpoint_id":"`+id+`"}},"metadata":{"step":1,"source":"loop"}}`, ns...)
	}
	ask := stored("values", `{"n":2,"__interrupt__":[{"id":"i","value":"?"}]}`)
	got := told(t, runs.Run{Status: runs.Success, Waiting: true, Spec: runs.Spec{Modes: []pregel.Mode{pregel.ModeValues, pregel.ModeCheckpoints}}},
		checkpoint("c0"),
		stored("values", `{"n":0}`), checkpoint("c1"),
		stored("values", `{"n":1}`), stored("tasks", `{"id":"1","name":"a"}`), checkpoint("c2"),
		stored("values", `{"m":1}`, "a:1"), checkpoint("c3"), checkpoint("c4", "a:1"),
		ask,
		stored(runs.KindEnd, `"success"`))
	toldAs(t, got,
		`checkpoints  {"id":"c0","source":"loop"}`,
		`checkpoints  {"id":"c1","source":"loop"}`,
		`values  {"n":0}`,
		`values  {"n":1}`,
		`tasks  {"id":"1","name":"a"}`,
		`checkpoints  {"id":"c2","source":"loop"}`,
		`checkpoints  {"id":"c3","source":"loop"}`,
		`values  {"n":2}`,
		`input.requested  {"interrupt_id":"i","payload":"?"}`,
		`lifecycle a:1 {"event":"started","graph_name":"a","namespace":["a:1"],"trigger_call_id":"1"}`,
		`checkpoints a:1 {"id":"c4","source":"loop"}`,
		`values a:1 {"m":1}`,
		`lifecycle a:1 {"event":"interrupted","graph_name":"a"}`,
		`lifecycle  {"event":"interrupted","graph_name":"g"}`)
	// A run of version 1 may tell nothing else for a long time.
	toldAs(t, told(t, runs.Run{}, stored("values", `{"n":0}`)), `values  {"n":0}`)
}

// How a run ended is told by its status, and what waits or was cancelled is interrupted.
func TestProtocolEndings(t *testing.T) {
	for _, c := range []struct {
		run  runs.Run
		want string
	}{
		{runs.Run{Status: runs.Success}, `{"event":"completed","graph_name":"g"}`},
		{runs.Run{Status: runs.Success, Waiting: true}, `{"event":"interrupted","graph_name":"g"}`},
		{runs.Run{Status: runs.Interrupted}, `{"event":"interrupted","graph_name":"g"}`},
		{runs.Run{Status: runs.Error, Error: "task a: boom"}, `{"error":"boom","event":"failed","graph_name":"g"}`},
	} {
		got := told(t, c.run, stored(runs.KindAttempt, `"w"`), stored(runs.KindError, `{"error":"E","message":"boom"}`), stored(runs.KindEnd, `"x"`))
		toldAs(t, got[1:], "lifecycle  "+c.want)
	}
}

func TestProtocolInside(t *testing.T) {
	ask := `{"path":[1],"__interrupt__":[{"id":"i","value":"deep?","response_schema":null}]}`
	got := told(t, runs.Run{Status: runs.Success, Waiting: true},
		stored(runs.KindAttempt, `"w"`),
		stored("values", `{}`, "a:1", "b:2"),
		stored("tasks", `{"id":"3","name":"c","error":null,"result":{},"interrupts":[]}`, "a:1"),
		stored("values", ask, "a:1", "b:2"),
		stored("updates", `{"__interrupt__":[{"id":"i","value":"deep?"}]}`, "a:1"),
		stored("tasks", `{"id":"2","name":"b","error":null,"result":{},"interrupts":[{"id":"i"}]}`, "a:1"),
		stored("values", `{"path":[]}`),
		stored(runs.KindEnd, `"success"`))
	toldAs(t, got,
		`lifecycle  {"event":"running","graph_name":"g"}`,
		`lifecycle a:1 {"event":"started","graph_name":"a","namespace":["a:1"],"trigger_call_id":"1"}`,
		`tasks a:1 {"error":null,"id":"3","interrupts":[],"name":"c","result":{}}`,
		`lifecycle a:1|b:2 {"event":"started","graph_name":"b","namespace":["a:1","b:2"],"trigger_call_id":"2"}`,
		`values a:1|b:2 {}`,
		`values a:1|b:2 {"path":[1]}`,
		`input.requested a:1|b:2 {"interrupt_id":"i","payload":"deep?"}`,
		`tasks a:1 {"error":null,"id":"2","interrupts":[{"id":"i"}],"name":"b","result":{}}`,
		`lifecycle a:1|b:2 {"event":"interrupted","graph_name":"b"}`,
		`values  {"path":[]}`,
		`lifecycle a:1 {"event":"interrupted","graph_name":"a"}`,
		`lifecycle  {"event":"interrupted","graph_name":"g"}`)
}

func TestProtocolMessages(t *testing.T) {
	part := func(text string) runs.Event { return stored("messages", text) }
	got := told(t, runs.Run{Status: runs.Success},
		part(`[{"type":"AIMessageChunk","id":"m","content":[{"type":"thinking","thinking":"hm"}],"tool_call_chunks":[]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"he","tool_call_chunks":[]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"llo","tool_call_chunks":[]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{"id":"c","name":"f","args":"{\"a\"","index":0}]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{"id":null,"name":null,"args":":1}","index":0}]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[{"id":"d","name":"g","args":"[","index":1}]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"m","content":"","tool_call_chunks":[],"chunk_position":"last","usage_metadata":{"input_tokens":1}},{}]`),
		part(`[{"type":"tool","id":"n","content":"x"},{}]`),
		part(`[{"type":"ai","id":"o","content":"whole","tool_calls":[{"name":"f","args":{"a":1},"id":"e"}]},{}]`),
		part(`[{"type":"AIMessageChunk","id":"p","content":"cut","tool_call_chunks":[]},{}]`),
		stored("values", `{"messages":[{"type":"ai","content":"x","additional_kwargs":{},"name":null,"tool_calls":[]}]}`))
	toldAs(t, got,
		`messages  {"event":"message-start","id":"m","role":"ai"}`,
		`messages  {"content":{"reasoning":"","type":"reasoning"},"event":"content-block-start","index":0}`,
		`messages  {"delta":{"reasoning":"hm","type":"reasoning-delta"},"event":"content-block-delta","index":0}`,
		`messages  {"content":{"reasoning":"hm","type":"reasoning"},"event":"content-block-finish","index":0}`,
		`messages  {"content":{"text":"","type":"text"},"event":"content-block-start","index":1}`,
		`messages  {"delta":{"text":"he","type":"text-delta"},"event":"content-block-delta","index":1}`,
		`messages  {"delta":{"text":"llo","type":"text-delta"},"event":"content-block-delta","index":1}`,
		`messages  {"content":{"text":"hello","type":"text"},"event":"content-block-finish","index":1}`,
		`messages  {"content":{"args":"","id":"c","index":0,"name":"f","type":"tool_call_chunk"},"event":"content-block-start","index":2}`,
		`messages  {"delta":{"args":"{\"a\"","type":"tool-call-delta"},"event":"content-block-delta","index":2}`,
		`messages  {"delta":{"args":":1}","type":"tool-call-delta"},"event":"content-block-delta","index":2}`,
		`messages  {"content":{"args":{"a":1},"id":"c","name":"f","type":"tool_call"},"event":"content-block-finish","index":2}`,
		`messages  {"content":{"args":"","id":"d","index":1,"name":"g","type":"tool_call_chunk"},"event":"content-block-start","index":3}`,
		`messages  {"delta":{"args":"[","type":"tool-call-delta"},"event":"content-block-delta","index":3}`,
		`messages  {"content":{"args":"[","error":"the arguments are no JSON object","id":"d","name":"g","type":"invalid_tool_call"},"event":"content-block-finish","index":3}`,
		`messages  {"event":"message-finish","usage":{"input_tokens":1}}`,
		`messages  {"event":"message-start","id":"p","role":"ai"}`,
		`messages  {"content":{"text":"","type":"text"},"event":"content-block-start","index":0}`,
		`messages  {"delta":{"text":"cut","type":"text-delta"},"event":"content-block-delta","index":0}`,
		`messages  {"content":{"text":"cut","type":"text"},"event":"content-block-finish","index":0}`,
		`messages  {"event":"message-finish"}`,
		`values  {"messages":[{"content":"x","type":"ai"}]}`)
}

// TestProtocolEndOfMessage: a message ends with why the model ended it, and a refusal is one block. The ends are those
// that LangChain's chunks_to_events tells of these chunks; of the parts of a refusal it keeps the last.
func TestProtocolEndOfMessage(t *testing.T) {
	for name, c := range map[string]struct {
		chunks []string
		ends   []string // of the block, and of the message
	}{
		"a refusal beside the content": {
			[]string{`"additional_kwargs":{"refusal":"No"},"response_metadata":{"model_provider":"openai"}`, `"additional_kwargs":{"refusal":"."}`,
				`"response_metadata":{"finish_reason":"stop","normalized_finish_reason":"stop"}`},
			[]string{`{"content":{"refusal":"No.","type":"refusal"},"event":"content-block-finish","index":0}`,
				`{"event":"message-finish","finish_reason":"stop","metadata":{"finish_reason":"stop","model_provider":"openai","normalized_finish_reason":"stop"},"normalized_finish_reason":"refusal"}`},
		},
		"a refusal in the content": {
			[]string{`"content":[{"type":"refusal","refusal":"No","index":0}]`, `"content":[{"type":"refusal","refusal":" way","index":0}]`, `"response_metadata":{"finish_reason":"stop"}`},
			[]string{`{"content":{"index":0,"refusal":"No way","type":"refusal"},"event":"content-block-finish","index":0}`,
				`{"event":"message-finish","finish_reason":"stop","metadata":{"finish_reason":"stop"}}`},
		},
		"a tool call": {
			[]string{`"tool_call_chunks":[{"name":"f","args":"{}","id":"c","index":0}]`,
				`"response_metadata":{"finish_reason":"tool_calls","normalized_finish_reason":"stop","finish_state":"complete"}`},
			[]string{`{"content":{"args":{},"id":"c","name":"f","type":"tool_call"},"event":"content-block-finish","index":0}`,
				`{"event":"message-finish","finish_reason":"tool_calls","finish_state":"complete","metadata":{"finish_reason":"tool_calls","finish_state":"complete","normalized_finish_reason":"stop"},"normalized_finish_reason":"tool_call"}`},
		},
		"no reason": {
			[]string{`"content":"hi","response_metadata":{"stop_reason":"end_turn","finish_reason":""}`},
			[]string{`{"content":{"text":"hi","type":"text"},"event":"content-block-finish","index":0}`,
				`{"event":"message-finish","metadata":{"finish_reason":"","stop_reason":"end_turn"}}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var events []runs.Event
			for i, chunk := range c.chunks {
				if i == len(c.chunks)-1 {
					chunk += `,"chunk_position":"last"`
				}
				events = append(events, stored("messages", `[{"type":"AIMessageChunk","id":"m",`+chunk+`},{}]`))
			}
			got := told(t, runs.Run{Status: runs.Success}, events...)
			toldAs(t, got[len(got)-2:], "messages  "+c.ends[0], "messages  "+c.ends[1])
		})
	}
}

func TestProtocolSubscription(t *testing.T) {
	e := func(method string, ns ...string) Event { return Event{Method: method, Namespace: ns} }
	named := e("custom")
	named.Data = map[string]any{"name": "x"}
	for _, c := range []struct {
		sub  Subscription
		e    Event
		want bool
	}{
		{Subscription{Channels: []string{"values"}, Depth: -1}, e("values", "a:1", "b:2"), true},
		{Subscription{Channels: []string{"values"}, Depth: -1}, e("updates"), false},
		{Subscription{Channels: []string{"input"}, Depth: -1}, e(methodInput), true},
		{Subscription{Channels: []string{"custom"}, Depth: -1}, named, true},
		{Subscription{Channels: []string{"custom:x"}, Depth: -1}, named, true},
		{Subscription{Channels: []string{"custom:y"}, Depth: -1}, named, false},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{}}, Depth: 0}, e("values"), true},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{}}, Depth: 0}, e("values", "a:1"), false},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{"a:1"}}, Depth: -1}, e("values", "a:1", "b:2"), true},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{"a"}}, Depth: -1}, e("values", "a:1"), true},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{"a:2"}}, Depth: -1}, e("values", "a:1"), false},
		{Subscription{Channels: []string{"values"}, Namespaces: [][]string{{"a:1"}}, Depth: 0}, e("values", "a:1", "b:2"), false},
	} {
		if got := c.sub.Wants(c.e); got != c.want {
			t.Errorf("%+v wants %s %v: %v", c.sub, c.e.Method, c.e.Namespace, got)
		}
	}
}

// A second attempt says so, and an event that is no JSON is an error.
func TestProtocolAttempt(t *testing.T) {
	again := stored(runs.KindAttempt, `"w"`)
	again.Attempt = 2
	toldAs(t, told(t, runs.Run{}, again), `lifecycle  {"attempt":2,"event":"running","graph_name":"g"}`)
	gone := errors.New("gone")
	tr := NewTranslator(runs.Run{})
	if _, err := tr.translate(runs.Event{Kind: runs.KindEnd}, []byte(`"x"`), func() (runs.Run, error) { return runs.Run{}, gone }); !errors.Is(err, gone) {
		t.Errorf("got %v", err)
	}
	if _, err := tr.translate(runs.Event{Kind: "values"}, []byte(`{`), nil); err == nil {
		t.Error("an event that is no JSON was translated")
	}
}

// FuzzProtocolEvents: whatever is stored is told or refused.
func FuzzProtocolEvents(f *testing.F) {
	f.Add("values", `{"a":[{"__interrupt__":[{"id":"x"}]}]}`)
	f.Add("messages", `[{"type":"ai","id":"m","content":[{"type":"text","text":"x"}],"tool_calls":[{}]},{}]`)
	f.Add("tasks", `{"id":1,"name":2,"result":null,"interrupts":[1]}`)
	f.Add("checkpoints", `{"config":1}`)
	f.Add("updates", `{"a":1}`)
	f.Fuzz(func(t *testing.T, kind, text string) {
		tr := NewTranslator(runs.Run{ID: "r"})
		for seq := range int64(2) {
			made, err := tr.translate(runs.Event{Seq: seq, Kind: runs.Kind(kind), Namespace: []string{"a:1"}}, []byte(text), func() (runs.Run, error) { return runs.Run{}, nil })
			if err != nil {
				return
			}
			for _, e := range made {
				if _, err := json.Marshal(e); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestProtocolAgents: two agents begin side by side, each with the name that its first task says and the call that caused
// it, whatever came first; what they began with follows, and an agent without a task is a graph of its node.
func TestProtocolAgents(t *testing.T) {
	task := func(id, agent string, ns ...string) runs.Event {
		return stored("tasks", `{"id":"`+id+`","name":"model","input":{},"metadata":{"lc_agent_name":"`+agent+`"}}`, ns...)
	}
	got := told(t, runs.Run{Status: runs.Success, Spec: runs.Spec{Modes: []pregel.Mode{pregel.ModeValues, pregel.ModeTasks}}},
		stored("tasks", `{"id":"1","name":"tools","input":[{"id":"call-1","name":"x"}]}`),
		stored("tasks", `{"id":"2","name":"tools","input":{"tool_call":{"id":"call-2"},"__type":"tool_call_with_context"}}`),
		stored("values", `{"n":1}`, "tools:1"), stored("values", `{"n":2}`, "tools:2"), stored("values", `{"n":3}`, "tools:3"),
		task("20", "second", "tools:2"), task("10", "first", "tools:1"),
		stored("tasks", `{"id":"3","name":"tools","result":{}}`),
		stored(runs.KindEnd, `"success"`))
	toldAs(t, got,
		`tasks  {"id":"1","input":[{"id":"call-1","name":"x"}],"name":"tools"}`,
		`tasks  {"id":"2","input":{"__type":"tool_call_with_context","tool_call":{"id":"call-2"}},"name":"tools"}`,
		`lifecycle tools:2 {"cause":{"tool_call_id":"call-2","type":"toolCall"},"event":"started","graph_name":"second","namespace":["tools:2"],"trigger_call_id":"2"}`,
		`values tools:2 {"n":2}`,
		`tasks tools:2 {"id":"20","input":{},"metadata":{"lc_agent_name":"second"},"name":"model"}`,
		`lifecycle tools:1 {"cause":{"tool_call_id":"call-1","type":"toolCall"},"event":"started","graph_name":"first","namespace":["tools:1"],"trigger_call_id":"1"}`,
		`values tools:1 {"n":1}`,
		`tasks tools:1 {"id":"10","input":{},"metadata":{"lc_agent_name":"first"},"name":"model"}`,
		`tasks  {"id":"3","name":"tools","result":{}}`,
		`lifecycle tools:3 {"event":"started","graph_name":"tools","namespace":["tools:3"],"trigger_call_id":"3"}`,
		`values tools:3 {"n":3}`,
		`lifecycle tools:3 {"event":"completed","graph_name":"tools"}`,
		`lifecycle tools:1 {"event":"completed","graph_name":"first"}`,
		`lifecycle tools:2 {"event":"completed","graph_name":"second"}`,
		`lifecycle  {"event":"completed","graph_name":"g"}`)
}
