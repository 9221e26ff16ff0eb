package openai_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/openai/openai-go/v3/option"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/model/modeltest"
	"github.com/stele-go/stele/agent/providers/openai"
	"github.com/stele-go/stele/message"
)

// event is a part of an answer: the one choice, or none, and what else is in it.
func event(choice, rest string) string {
	choices := "[]"
	if choice != "" {
		choices = "[" + choice + "]"
	}
	return `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"gpt-x","system_fingerprint":"fp_1","choices":` + choices + rest + "}\n\n"
}

func delta(delta string) string {
	return event(`{"index":0,"delta":`+delta+`,"finish_reason":null}`, "")
}

func finish(reason string) string {
	return event(`{"index":0,"delta":{},"finish_reason":"`+reason+`"}`, "")
}

const (
	done   = "data: [DONE]\n\n"
	tokens = `{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":4},"completion_tokens_details":{"reasoning_tokens":2}}`
	whole  = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"gpt-x","system_fingerprint":"fp_1","usage":` + tokens + `,"choices":[{"index":0,`
)

func newModel(t *testing.T, o openai.Options) *openai.Model {
	t.Helper()
	o.Model, o.Key = "gpt-x", "key"
	m, err := openai.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWire(t *testing.T) {
	said := message.AI("Hello")
	said.Usage = &message.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15, InputDetails: map[string]int64{"cache_read": 4}, OutputDetails: map[string]int64{"reasoning": 2}}
	said.ResponseMetadata = map[string]any{"id": "chatcmpl-1", "model_name": "gpt-x", "model_provider": "openai", "system_fingerprint": "fp_1", "finish_reason": "stop"}
	modeltest.Test(t, modeltest.Vendor{
		New: func(t *testing.T, url string, retry model.Retry, whole bool) model.Model {
			return newModel(t, openai.Options{BaseURL: url, Retry: retry, Whole: whole})
		},
		Hello: []string{
			delta(`{"role":"assistant","content":""}`), delta(`{"content":"Hel"}`), delta(`{"content":"lo"}`), finish("stop"),
			event("", `,"usage":`+tokens), done,
		},
		HelloBody: whole + `"message":{"role":"assistant","content":"Hello"},"finish_reason":"stop"}]}`,
		Said:      said,
		Calls: []string{
			delta(`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":""}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"{\"city\":"}}]}`),
			delta(`{"tool_calls":[{"index":0,"function":{"arguments":"\"Oslo\",\"days\":2}"}}]}`),
			delta(`{"tool_calls":[{"index":1,"id":"call_2","type":"function","function":{"name":"now","arguments":""}}]}`),
			finish("tool_calls"), done,
		},
		CallsBody: whole + `"message":{"role":"assistant","content":null,"tool_calls":[{"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Oslo\",\"days\":2}"}},{"id":"call_2","type":"function","function":{"name":"now","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		Called: []message.ToolCall{
			{Name: "weather", ID: "call_1", Args: map[string]any{"city": "Oslo", "days": int64(2)}},
			{Name: "now", ID: "call_2", Args: map[string]any{}},
		},
		CutCalls: []string{
			delta(`{"tool_calls":[{"index":0,"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\": \"Os"}}]}`), finish("length"), done,
		},
		Refused: `{"error":{"message":"too much","type":"requests","param":null,"code":"rate_limit_exceeded"}}`,
		Failed:  `data: {"error":{"message":"overloaded","type":"server_error"}}` + "\n\n",
		Garbled: `data: {"id":"chatcmpl-1","choices":[{"delta":nope}]}` + "\n\n",
	})
}

// TestAnswers: answers are those of langchain-openai.
func TestAnswers(t *testing.T) {
	modeltest.Answers(t, "../../model/testdata/answers.json", "openai", map[string]string{
		"text and a broken call": "LangChain makes a call without arguments of what it cannot read",
	}, func(t *testing.T, url string) model.Model { return newModel(t, openai.Options{BaseURL: url}) })
}

// TestRecorded: requests are those of langchain-openai.
func TestRecorded(t *testing.T) {
	modeltest.Recorded(t, "../../model/testdata/requests.json", "openai", []string{"messages", "tools", "tool_choice", "response_format"}, map[string]string{
		"thoughts of Anthropic": "LangChain sends the blocks that it does not know, which OpenAI refuses",
	}, func(t *testing.T, url string) model.Model { return newModel(t, openai.Options{BaseURL: url}) })
}

// TestRequest: settings, and what the request says of the answer, are in the body; nil leaves a
// field out, and the key is sent.
func TestRequest(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	m := newModel(t, openai.Options{BaseURL: s.URL + "/v1", Settings: map[string]any{"temperature": 0.5, "seed": 1, "stream_options": nil}})
	r := modeltest.Ask()
	r.Settings = map[string]any{"temperature": 0.25}
	r.Format = &model.Format{Name: "form", Schema: []byte(`{"type":"object"}`), Strict: true}
	if _, err := model.Call(t.Context(), m, r); err == nil {
		t.Fatal("no error")
	}
	asked := s.Asked()[0]
	if asked.Path != "/v1/chat/completions" || asked.Header.Get("Authorization") != "Bearer key" {
		t.Errorf("%s %v", asked.Path, asked.Header)
	}
	for k, want := range map[string]string{
		"temperature": "0.25", "seed": "1", "stream": "true", "stream_options": "null", "model": `"gpt-x"`,
		"response_format": `{"json_schema":{"name":"form","schema":{"type":"object"},"strict":true},"type":"json_schema"}`,
	} {
		if got, err := json.Marshal(asked.Body[k]); err != nil || string(got) != want {
			t.Errorf("%s: %s %v", k, got, err)
		}
	}
}

// TestKwargs: a refusal, and the reasoning of other servers, are kept; usage that is told again and
// again counts once.
func TestKwargs(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Events: []string{
		delta(`{"refusal":"No"}`), delta(`{"refusal":"."}`), delta(`{"reasoning_content":"Hm"}`), delta(`{"reasoning_content":"m"}`),
		event(`{"index":0,"delta":{},"finish_reason":"stop"}`, `,"usage":{"prompt_tokens":1,"completion_tokens":1}`),
		event("", `,"usage":{"prompt_tokens":1,"completion_tokens":2}`), done,
	}})
	defer s.Close()
	got, err := model.Call(t.Context(), newModel(t, openai.Options{BaseURL: s.URL}), modeltest.Ask())
	if err != nil || got.AdditionalKwargs["refusal"] != "No." || got.AdditionalKwargs["reasoning_content"] != "Hmm" || got.Usage.TotalTokens != 3 {
		t.Errorf("%+v %+v %v", got, got.Usage, err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []openai.Options{{}, {Model: "m", Retry: model.Retry{Delay: -1}}} {
		if _, err := openai.New(o); !errors.Is(err, model.ErrRequest) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	m := newModel(t, openai.Options{Profile: model.Profile{StructuredOutput: true}})
	if !model.ProfileOf(m).StructuredOutput {
		t.Error("no profile")
	}
}

// FuzzStream: an answer of any bytes is an answer or a typed error.
func FuzzStream(f *testing.F) {
	modeltest.Fuzz(f, func(t *testing.T, client *http.Client, whole bool) model.Model {
		never := model.Retry{Retries: -1}
		return newModel(t, openai.Options{BaseURL: "http://localhost", Whole: whole, Retry: never, Client: []option.RequestOption{option.WithHTTPClient(client)}})
	}, delta(`{"content":"Hel"}`)+finish("stop")+event("", `,"usage":`+tokens)+done, delta(`{"tool_calls":[{"index":0,"id":"c","function":{"name":"f","arguments":"{}"}}]}`)+finish("stop"), whole+`"message":{"content":"Hello"},"finish_reason":"stop"}]}`)
}

// TestRemains: no message of what is left of other providers' answers is a list of no parts, which OpenAI refuses.
func TestRemains(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, openai.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Remains()}) // the answer is none
	list, _ := s.Asked()[0].Body["messages"].([]any)
	if len(list) != len(modeltest.Remains()) {
		t.Errorf("%d messages", len(list))
	}
	for i, e := range list {
		parts, ok := e.(map[string]any)["content"].([]any)
		if ok && len(parts) == 0 {
			t.Errorf("message %d: %v", i, e)
		}
		for _, p := range parts {
			if kind := p.(map[string]any)["type"]; e.(map[string]any)["role"] == "assistant" && kind != "text" && kind != "refusal" {
				t.Errorf("message %d: an assistant's part is %v", i, p)
			}
		}
	}
}

// TestNames: whoever speaks and whatever a model calls has a name that OpenAI takes.
func TestNames(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, openai.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Named()}) // the answer is none
	list, _ := s.Asked()[0].Body["messages"].([]any)
	var names []any
	for _, e := range list {
		m := e.(map[string]any)
		calls, _ := m["tool_calls"].([]any)
		for _, c := range calls {
			names = append(names, c.(map[string]any)["function"].(map[string]any)["name"])
		}
		if m["name"] != nil {
			names = append(names, m["name"])
		}
	}
	if want := []any{"Ada_Lovelace_", "Support_bot", "functions_look_up", strings.Repeat("x", 64)}; !slices.Equal(names, want) {
		t.Errorf("%q", names)
	}
}

// TestPaired: a broken conversation goes out as OpenAI takes it: behind each message with calls is one
// of a tool for each, and no other is anywhere.
func TestPaired(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, openai.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Broken()}) // the answer is none
	var waiting []string
	calls := 0
	for i, e := range s.Asked()[0].Body["messages"].([]any) {
		m := e.(map[string]any)
		if id, ok := m["tool_call_id"].(string); ok {
			at := slices.Index(waiting, id)
			if at < 0 {
				t.Fatalf("message %d answers %q, and %q wait", i, id, waiting)
			}
			waiting = slices.Delete(waiting, at, at+1)
			continue
		}
		if len(waiting) > 0 {
			t.Errorf("message %d, and %q have no answer", i, waiting)
		}
		waiting = nil
		list, _ := m["tool_calls"].([]any)
		for _, c := range list {
			f := c.(map[string]any)["function"].(map[string]any)
			if waiting = append(waiting, c.(map[string]any)["id"].(string)); f["name"] == "" || waiting[len(waiting)-1] == "" {
				t.Errorf("message %d calls %v", i, c)
			}
			calls++
		}
	}
	if len(waiting) > 0 || calls != 5 {
		t.Errorf("%d calls, %q wait", calls, waiting)
	}
}

// TestResults: a result of a tool goes out as texts, whatever it has, behind the other results of its message; what else
// it has follows in a message of the user. An id that is too long is the same short one in the call and the result.
func TestResults(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	long := strings.Repeat("x", 41)
	ids := []string{strings.Repeat("y", 40), long, long + "x", "last"}
	var calls []message.ToolCall
	for _, id := range ids {
		calls = append(calls, message.ToolCall{Name: "look", ID: id, Args: map[string]any{}})
	}
	image := message.ImageURL("data:image/png;base64,AA==")
	result := func(i int, blocks ...any) message.Message {
		m := message.ToolResult(calls[i], "seen")
		if blocks != nil {
			m.Content, m.Blocks = "", blocks
		}
		return m
	}
	list := []message.Message{
		message.Human("look"), message.AI("", calls[:3]...), result(0, image), result(1, message.TextBlock("two"), image, image), result(2),
		message.Human("and?"), message.AI("", calls[3]), result(3, image),
	}
	_, _ = model.Call(t.Context(), newModel(t, openai.Options{BaseURL: s.URL}), model.Request{Messages: list}) // the answer is none
	var got []string
	var called []any
	for _, e := range s.Asked()[0].Body["messages"].([]any) {
		m := e.(map[string]any)
		line := m["role"].(string)
		if list, ok := m["tool_calls"].([]any); ok {
			called = append(called, list...)
		}
		if id, ok := m["tool_call_id"].(string); ok {
			at := slices.IndexFunc(called, func(c any) bool { return c.(map[string]any)["id"] == id })
			if line += fmt.Sprint(" ", at); len(id) > 40 || (id == ids[max(at, 0)]) != (at == 0 || at == 3) {
				t.Errorf("the id of call %d is %q", at, id)
			}
		}
		parts, _ := m["content"].([]any)
		for _, p := range parts {
			line += " " + p.(map[string]any)["type"].(string)
		}
		got = append(got, line)
	}
	want := []string{"user", "assistant", "tool 0", "tool 1 text", "tool 2", "user text image_url text image_url image_url", "user", "assistant", "tool 3", "user text image_url"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestSilence: a provider that says nothing is given up.
func TestSilence(t *testing.T) {
	defer openai.SetSilence(time.Second)()
	modeltest.Silence(t, func(t *testing.T, url string) model.Model {
		return newModel(t, openai.Options{BaseURL: url, Retry: model.Retry{Retries: -1}})
	})
}
