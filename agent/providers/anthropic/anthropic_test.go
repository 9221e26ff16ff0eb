package anthropic_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/model/modeltest"
	"github.com/stele-go/stele/agent/providers/anthropic"
	"github.com/stele-go/stele/message"
)

func event(kind, rest string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"" + rest + "}\n\n"
}

func begin(index int, block string) string {
	return event("content_block_start", `,"index":`+strconv.Itoa(index)+`,"content_block":`+block)
}

func delta(index int, delta string) string {
	return event("content_block_delta", `,"index":`+strconv.Itoa(index)+`,"delta":`+delta)
}

func end(index int) string { return event("content_block_stop", `,"index":`+strconv.Itoa(index)) }

func stop(reason string) string {
	return event("message_delta", `,"delta":{"stop_reason":"`+reason+`","stop_sequence":null},"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}`)
}

const (
	head  = `"id":"msg_1","type":"message","role":"assistant","model":"claude-x"`
	count = `"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"output_tokens":5,"output_tokens_details":{"thinking_tokens":2}}`
)

var (
	start = event("message_start", `,"message":{`+head+`,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":10,"cache_read_input_tokens":4,"cache_creation_input_tokens":1,"output_tokens":1}}`)
	ping  = event("ping", "")
	done  = event("message_stop", "")
)

func newModel(t *testing.T, o anthropic.Options) *anthropic.Model {
	t.Helper()
	o.Model, o.Key = "claude-x", "key"
	m, err := anthropic.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWire(t *testing.T) {
	said := message.AI("Hello")
	said.Usage = &message.Usage{InputTokens: 15, OutputTokens: 5, TotalTokens: 20, InputDetails: map[string]int64{"cache_read": 4, "cache_creation": 1}, OutputDetails: map[string]int64{"reasoning": 2}}
	said.ResponseMetadata = map[string]any{"id": "msg_1", "model_name": "claude-x", "model_provider": "anthropic", "stop_reason": "end_turn", "stop_sequence": nil}
	modeltest.Test(t, modeltest.Vendor{
		New: func(t *testing.T, url string, retry model.Retry, whole bool) model.Model {
			return newModel(t, anthropic.Options{BaseURL: url, Retry: retry, Whole: whole})
		},
		Hello: []string{
			start, begin(0, `{"type":"text","text":""}`), ping, delta(0, `{"type":"text_delta","text":"Hel"}`), delta(0, `{"type":"text_delta","text":"lo"}`), end(0),
			stop("end_turn"), done,
		},
		HelloBody: `{` + head + `,"content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn","stop_sequence":null,` + count + `}`,
		Said:      said,
		Calls: []string{
			start, begin(0, `{"type":"text","text":"I look."}`), end(0),
			begin(1, `{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}`), delta(1, `{"type":"input_json_delta","partial_json":""}`),
			delta(1, `{"type":"input_json_delta","partial_json":"{\"city\":"}`), delta(1, `{"type":"input_json_delta","partial_json":"\"Oslo\",\"days\":2}"}`), end(1),
			begin(2, `{"type":"tool_use","id":"toolu_2","name":"now","input":{}}`), end(2),
			stop("tool_use"), done,
		},
		CallsBody: `{` + head + `,"content":[{"type":"text","text":"I look."},{"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Oslo","days":2}},{"type":"tool_use","id":"toolu_2","name":"now","input":{}}],"stop_reason":"tool_use","stop_sequence":null,` + count + `}`,
		Called: []message.ToolCall{
			{Name: "weather", ID: "toolu_1", Args: map[string]any{"city": "Oslo", "days": int64(2)}},
			{Name: "now", ID: "toolu_2", Args: map[string]any{}},
		},
		CutCalls: []string{
			start, begin(0, `{"type":"tool_use","id":"toolu_1","name":"weather","input":{}}`), delta(0, `{"type":"input_json_delta","partial_json":"{\"city\": \"Os"}`), end(0),
			stop("max_tokens"), done,
		},
		Refused: `{"type":"error","error":{"type":"rate_limit_error","message":"too much"}}`,
		Failed:  "event: error\n" + `data: {"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}` + "\n\n",
		Garbled: "event: content_block_delta\n" + `data: {"type":"content_block_delta","index":0,"delta":nope}` + "\n\n",
	})
}

// TestAnswers: answers are those of langchain-anthropic.
func TestAnswers(t *testing.T) {
	modeltest.Answers(t, "../../model/testdata/answers.json", "anthropic", nil, func(t *testing.T, url string) model.Model { return newModel(t, anthropic.Options{BaseURL: url}) })
}

// TestRecorded: requests are those of langchain-anthropic.
func TestRecorded(t *testing.T) {
	modeltest.Recorded(t, "../../model/testdata/requests.json", "anthropic", []string{"system", "messages", "tools", "tool_choice", "output_config", "max_tokens"}, map[string]string{
		"thoughts of Gemini": "LangChain sends a signature that Anthropic refuses",
	}, func(t *testing.T, url string) model.Model { return newModel(t, anthropic.Options{BaseURL: url}) })
}

// TestBlocks: with thoughts, citations and tools of Anthropic's own, an answer is a list of blocks,
// which goes back as it came.
func TestBlocks(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Events: []string{
		start,
		begin(0, `{"type":"thinking","thinking":"","signature":""}`), delta(0, `{"type":"thinking_delta","thinking":"H"}`), delta(0, `{"type":"thinking_delta","thinking":"m."}`), delta(0, `{"type":"signature_delta","signature":"c2ln"}`), end(0),
		begin(1, `{"type":"redacted_thinking","data":"xyz"}`), end(1),
		begin(2, `{"type":"server_tool_use","id":"srvtoolu_1","name":"web_search","input":{}}`), delta(2, `{"type":"input_json_delta","partial_json":"{\"query\":\"rain\"}"}`), end(2),
		begin(3, `{"type":"web_search_tool_result","tool_use_id":"srvtoolu_1","content":[]}`), end(3),
		begin(4, `{"type":"text","text":""}`), delta(4, `{"type":"text_delta","text":"Rain."}`), delta(4, `{"type":"citations_delta","citation":{"type":"char_location","cited_text":"rain","document_index":0,"start_char_index":0,"end_char_index":4}}`), end(4),
		stop("end_turn"), done,
	}})
	defer s.Close()
	m := newModel(t, anthropic.Options{BaseURL: s.URL, Settings: map[string]any{"thinking": map[string]any{"type": "adaptive"}}})
	r := modeltest.Ask()
	r.Tools = nil
	got, err := model.Call(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text() != "Rain." || len(got.ToolCalls)+len(got.InvalidToolCalls) != 0 || len(got.Blocks) != 5 {
		t.Errorf("%q %+v %+v", got.Text(), got.ToolCalls, got.Blocks)
	}
	r.Messages = append(r.Messages, got, message.Human("Sure?"))
	if _, err := model.Call(t.Context(), m, r); err == nil {
		t.Fatal("no error")
	}
	turns, _ := s.Asked()[1].Body["messages"].([]any)
	text, err := json.Marshal(turns[1])
	want := `{"content":[{"signature":"c2ln","thinking":"Hm.","type":"thinking"},{"data":"xyz","type":"redacted_thinking"},{"id":"srvtoolu_1","input":{"query":"rain"},"name":"web_search","type":"server_tool_use"},{"content":[],"tool_use_id":"srvtoolu_1","type":"web_search_tool_result"},{"citations":[{"cited_text":"rain","document_index":0,"end_char_index":4,"start_char_index":0,"type":"char_location"}],"text":"Rain.","type":"text"}],"role":"assistant"}`
	if err != nil || string(text) != want {
		t.Errorf("got  %s %v\nwant %s", text, err, want)
	}
}

// TestCacheUsage: tokens that went into a cache are counted once, by how long it keeps them.
func TestCacheUsage(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Body: `{` + head + `,"content":[],"stop_reason":"stop_sequence","stop_sequence":"END","usage":{"input_tokens":1,"cache_creation_input_tokens":10,"cache_creation":{"ephemeral_5m_input_tokens":4,"ephemeral_1h_input_tokens":6},"output_tokens":2}}`})
	defer s.Close()
	got, err := model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL, Whole: true}), modeltest.Ask())
	if err != nil {
		t.Fatal(err)
	}
	u := got.Usage
	if u.InputTokens != 11 || u.TotalTokens != 13 || u.InputDetails["cache_creation"] != 0 || u.InputDetails["ephemeral_1h_input_tokens"] != 6 || got.ResponseMetadata["stop_sequence"] != "END" {
		t.Errorf("%+v %v", u, got.ResponseMetadata)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []anthropic.Options{{}, {Model: "m", MaxTokens: -1}, {Model: "m", Retry: model.Retry{Delay: -1}}} {
		if _, err := anthropic.New(o); !errors.Is(err, model.ErrRequest) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	m := newModel(t, anthropic.Options{Profile: model.Profile{MaxInputTokens: 7}})
	if model.ProfileOf(m).MaxInputTokens != 7 {
		t.Error("no profile")
	}
}

// TestSystem: system messages are the system prompt wherever they stand, also between a call and its result.
func TestSystem(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	call := message.ToolCall{Name: "look", ID: "1", Args: map[string]any{}}
	list := []message.Message{message.System("a"), message.Human("b"), message.System("c"), message.Human("d"), message.AI("", call), message.System("e"), message.ToolResult(call, "f")}
	_, _ = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: list}) // the answer is none
	body := s.Asked()[0].Body
	system, err := json.Marshal(body["system"])
	if want := `[{"text":"a","type":"text"},{"text":"c","type":"text"},{"text":"e","type":"text"}]`; string(system) != want || err != nil {
		t.Errorf("the system prompt is %s, %v", system, err)
	}
	var roles []any
	for _, e := range body["messages"].([]any) {
		roles = append(roles, e.(map[string]any)["role"])
	}
	if want := []any{"user", "assistant", "user"}; !slices.Equal(roles, want) {
		t.Errorf("turns of %q", roles)
	}
	// What is wrong is named by where it stands in the request, not behind the system messages.
	list = []message.Message{message.Human("a"), {Type: "chat"}, message.System("b"), message.System("c")}
	_, err = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: list})
	if !errors.Is(err, model.ErrRequest) || !strings.Contains(err.Error(), `message 1: its type is "chat"`) {
		t.Errorf("a message of another type: %v", err)
	}
}

// FuzzStream: an answer of any bytes is an answer or a typed error.
func FuzzStream(f *testing.F) {
	modeltest.Fuzz(f, func(t *testing.T, client *http.Client, whole bool) model.Model {
		never := model.Retry{Retries: -1}
		return newModel(t, anthropic.Options{BaseURL: "http://localhost", Whole: whole, Retry: never, Client: []option.RequestOption{option.WithHTTPClient(client)}})
	}, start+begin(0, `{"type":"text","text":""}`)+delta(0, `{"type":"text_delta","text":"Hel"}`)+end(0)+stop("end_turn")+done, start+begin(1, `{"type":"tool_use","id":"t","name":"f","input":{}}`)+delta(1, `{"type":"input_json_delta","partial_json":"{}"}`)+stop("tool_use"), `{`+head+`,"content":[{"type":"text","text":"Hello"}],"stop_reason":"end_turn",`+count+`}`)
}

// TestRemains: what a conversation has of empty messages and of answers that broke off does not go out: no message is
// empty, no answer ends with a thought, and none has a call of a tool of Anthropic's own without its result.
func TestRemains(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Remains()}) // the answer is none
	got, err := json.Marshal(s.Asked()[0].Body["messages"])
	look := `{"content":[{"text":"look","type":"text"}],"role":"assistant"}`
	if want := `[{"content":"hi","role":"user"},` + look + `,` + look + `,{"content":"more","role":"user"}]`; err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
}

// TestNames: whatever a model calls has a name that Anthropic takes.
func TestNames(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Named()}) // the answer is none
	turns, _ := s.Asked()[0].Body["messages"].([]any)
	var names []any
	for _, e := range turns[3].(map[string]any)["content"].([]any) {
		names = append(names, e.(map[string]any)["name"])
	}
	if want := []any{"functions_look_up", strings.Repeat("x", 128)}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestPaused: an answer that Anthropic pauses goes on where nobody has said anything since, and its results may
// stand in the answer behind it.
func TestPaused(t *testing.T) {
	search := message.Block{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": map[string]any{}}
	found := message.Block{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []any{}}
	answer := func(blocks ...any) message.Message { return message.Message{Type: message.TypeAI, Blocks: blocks} }
	for _, list := range [][]message.Message{
		{message.Human("hi"), answer(search)},
		{message.Human("hi"), answer(search), answer(found, message.TextBlock("so"))},
		{message.Human("hi"), answer(search), answer(found, message.TextBlock("so")), message.Human("more")},
	} {
		s := modeltest.Serve()
		_, _ = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: list}) // the answer is none
		s.Close()
		turns, _ := s.Asked()[0].Body["messages"].([]any)
		if text, err := json.Marshal(turns[1]); err != nil || len(turns) != len(list) || !strings.Contains(string(text), "server_tool_use") {
			t.Errorf("%d turns of %d, %s %v", len(turns), len(list), text, err)
		}
	}
}

// TestCutOffAtOnce: a call that comes at once, and without arguments since the model reached its limit, does not run.
func TestCutOffAtOnce(t *testing.T) {
	for reason, calls := range map[string]int{"max_tokens": 0, "tool_use": 1} {
		s := modeltest.Serve(modeltest.Reply{Body: `{` + head + `,"content":[{"type":"tool_use","id":"t","name":"f","input":{}}],"stop_reason":"` + reason + `",` + count + `}`})
		got, err := model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL, Whole: true}), modeltest.Ask())
		s.Close()
		if err != nil || len(got.ToolCalls) != calls || len(got.InvalidToolCalls) != 1-calls {
			t.Errorf("%s: %+v %v", reason, got, err)
		}
	}
}

// TestPaired: a broken conversation goes out as Anthropic takes it: the turn behind one with calls begins
// with their results, no other has one, and no id is there twice.
func TestPaired(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, anthropic.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Broken()}) // the answer is none
	var waiting []string
	seen := map[string]bool{"": true}
	for i, e := range s.Asked()[0].Body["messages"].([]any) {
		turn := e.(map[string]any)
		list, _ := turn["content"].([]any)
		n := 0
		for j, e := range list {
			switch b := e.(map[string]any); b["type"] {
			case "tool_result":
				at := slices.Index(waiting, b["tool_use_id"].(string))
				if at < 0 || j != n {
					t.Fatalf("turn %d: block %d answers %v, and %q wait", i, j, b["tool_use_id"], waiting)
				}
				waiting = slices.Delete(waiting, at, at+1)
				n++
			case "tool_use":
				id := b["id"].(string)
				if seen[id] || b["name"] == "" {
					t.Errorf("turn %d calls %v", i, b)
				}
				seen[id] = true
				waiting = append(waiting, id)
			}
		}
		if turn["role"] == "user" && len(waiting) > 0 {
			t.Errorf("turn %d, and %q have no answer", i, waiting)
		}
	}
	if len(waiting) > 0 || len(seen) != 6 {
		t.Errorf("calls %v, %q wait", seen, waiting)
	}
}

// TestSilence: a provider that says nothing is given up.
func TestSilence(t *testing.T) {
	defer anthropic.SetSilence(time.Second)()
	modeltest.Silence(t, func(t *testing.T, url string) model.Model {
		return newModel(t, anthropic.Options{BaseURL: url, Retry: model.Retry{Retries: -1}})
	})
}
