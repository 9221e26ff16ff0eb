package genai_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	vendor "google.golang.org/genai"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/model/modeltest"
	"github.com/stele-go/stele/agent/providers/genai"
	"github.com/stele-go/stele/message"
)

const (
	tokens = `"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":3,"thoughtsTokenCount":2,"cachedContentTokenCount":4,"totalTokenCount":15}`
	about  = `"modelVersion":"gemini-2.5-x","responseId":"r1"`
)

// body is a part of an answer, or a whole one, with the parts of the content.
func body(parts, finish string) string {
	if finish != "" {
		finish = `,"finishReason":"` + finish + `"`
	}
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"index":0` + finish + `}],` + tokens + `,` + about + `}`
}

func event(parts, finish string) string { return "data: " + body(parts, finish) + "\n\n" }

// unnamed is a part of an answer without the name of the model.
func unnamed(event string) string {
	return strings.Replace(event, `"modelVersion":"gemini-2.5-x",`, "", 1)
}

func newModel(t *testing.T, o genai.Options) *genai.Model {
	t.Helper()
	if o.Model == "" {
		o.Model = "gemini-2.5-flash"
	}
	o.Key = "key"
	m, err := genai.New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func TestWire(t *testing.T) {
	said := message.AI("Hello")
	said.Usage = &message.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15, InputDetails: map[string]int64{"cache_read": 4}, OutputDetails: map[string]int64{"reasoning": 2}}
	said.ResponseMetadata = map[string]any{"id": "r1", "model_name": "gemini-2.5-x", "model_provider": "google_genai", "finish_reason": "STOP", "safety_ratings": []any{}}
	calls := `{"functionCall":{"id":"f1","name":"weather","args":{"city":"Oslo","days":2}}},{"functionCall":{"id":"f2","name":"now"}}`
	modeltest.Test(t, modeltest.Vendor{
		New: func(t *testing.T, url string, retry model.Retry, whole bool) model.Model {
			return newModel(t, genai.Options{BaseURL: url, Retry: retry, Whole: whole})
		},
		Hello:     []string{event(`{"text":"Hel"}`, ""), event(`{"text":"lo"}`, ""), event(`{"text":""}`, "STOP")},
		HelloBody: body(`{"text":"Hel"},{"text":"lo"}`, "STOP"),
		Said:      said,
		Calls:     []string{event(calls, ""), event("", "STOP")},
		CallsBody: body(calls, "STOP"),
		Called: []message.ToolCall{
			{Name: "weather", ID: "f1", Args: map[string]any{"city": "Oslo", "days": int64(2)}},
			{Name: "now", ID: "f2", Args: map[string]any{}},
		},
		Refused: `{"error":{"code":429,"message":"too much","status":"RESOURCE_EXHAUSTED"}}`,
		Failed:  `data: {"error":{"code":503,"message":"overloaded","status":"UNAVAILABLE"}}` + "\n\n",
		Garbled: `data: {"candidates":nope}` + "\n\n",
	})
}

// TestAnswers: answers are those of langchain-google-genai.
func TestAnswers(t *testing.T) {
	modeltest.Answers(t, "../../model/testdata/answers.json", "google_genai", nil, func(t *testing.T, url string) model.Model { return newModel(t, genai.Options{BaseURL: url}) })
}

// TestRecorded: requests are those of langchain-google-genai.
func TestRecorded(t *testing.T) {
	modeltest.Recorded(t, "../../model/testdata/requests.json", "google_genai", []string{"systemInstruction.parts", "contents", "toolConfig"}, map[string]string{
		"an invalid call": "LangChain leaves it out, with its result, so that the model does not learn of its mistake",
	}, func(t *testing.T, url string) model.Model { return newModel(t, genai.Options{BaseURL: url}) })
}

// asked is a field of the nth request to s, as JSON.
func asked(t *testing.T, s *modeltest.Server, n int, field string) string {
	t.Helper()
	text, err := json.Marshal(s.Asked()[n].Body[field])
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestBlocks: thoughts, signatures, code, images and what has no block of its own come back as they
// were said.
func TestBlocks(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Events: []string{
		event(`{"text":"H","thought":true}`, ""), event(`{"text":"m.","thought":true,"thoughtSignature":"c2ln"}`, ""),
		event(`{"executableCode":{"code":"1+1","language":"PYTHON"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}}`, ""),
		event(`{"inlineData":{"data":"AAAA","mimeType":"image/png"}},{"fileData":{"fileUri":"https://a/b","mimeType":"text/plain"}}`, ""),
		event(`{"text":"Ra"}`, ""), event(`{"text":"in."}`, ""), event(`{"functionCall":{"name":"weather","args":{"city":"Oslo"}},"thoughtSignature":"c2ln"}`, "STOP"),
	}})
	defer s.Close()
	m := newModel(t, genai.Options{BaseURL: s.URL})
	r := modeltest.Ask()
	got, err := model.Call(t.Context(), m, r)
	if err != nil {
		t.Fatal(err)
	}
	if got.Text() != "Rain." || len(got.ToolCalls) != 1 || got.ToolCalls[0].ID == "" || len(got.Blocks) != 6 {
		t.Errorf("%q %+v %+v", got.Text(), got.ToolCalls, got.Blocks)
	}
	r.Messages = append(r.Messages, got, message.ToolResult(got.ToolCalls[0], "dry"))
	if _, err := model.Call(t.Context(), m, r); err == nil {
		t.Fatal("no error")
	}
	want := `[{"parts":[{"text":"Hi"}],"role":"user"},{"parts":[` +
		`{"text":"Hm.","thought":true,"thoughtSignature":"c2ln"},{"executableCode":{"code":"1+1","language":"PYTHON"}},{"codeExecutionResult":{"outcome":"OUTCOME_OK","output":"2"}},` +
		`{"inlineData":{"data":"AAAA","mimeType":"image/png"}},{"fileData":{"fileUri":"https://a/b","mimeType":"text/plain"}},{"text":"Rain."},` +
		`{"functionCall":{"args":{"city":"Oslo"},"name":"weather"},"thoughtSignature":"c2ln"}],"role":"model"},` +
		`{"parts":[{"functionResponse":{"name":"weather","response":{"output":"dry"}}}],"role":"user"}]`
	if got := asked(t, s, 1, "contents"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestGemini3: the text is in blocks, and the first call of a turn that nobody has signed says so.
func TestGemini3(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Events: []string{unnamed(event(`{"text":"Hel"}`, "")), unnamed(event(`{"text":"lo"}`, "STOP"))}})
	defer s.Close()
	m := newModel(t, genai.Options{BaseURL: s.URL, Model: "gemini-3-pro"})
	got, err := model.Call(t.Context(), m, modeltest.Ask())
	if err != nil || len(got.Blocks) != 1 || got.Text() != "Hello" {
		t.Errorf("%+v %v", got, err)
	}
	call := func(id string) message.ToolCall {
		return message.ToolCall{Name: "weather", ID: id, Args: map[string]any{"city": id}}
	}
	r := model.Request{Messages: []message.Message{
		message.Human("a"), message.AI("", call("old")), message.ToolResult(call("old"), "1"), message.Human("b"),
		message.AI("", call("x"), call("y")), message.ToolResult(call("x"), "2"), message.ToolResult(call("y"), "3"),
	}}
	if _, err := model.Call(t.Context(), m, r); err == nil {
		t.Fatal("no error")
	}
	want := `[{"parts":[{"text":"a"}],"role":"user"},{"parts":[{"functionCall":{"args":{"city":"old"},"name":"weather"}}],"role":"model"},{"parts":[{"functionResponse":{"name":"weather","response":{"output":1}}}],"role":"user"},` +
		`{"parts":[{"text":"b"}],"role":"user"},{"parts":[{"functionCall":{"args":{"city":"x"},"name":"weather"},"thoughtSignature":"skip/thought/signature/validator"},{"functionCall":{"args":{"city":"y"},"name":"weather"}}],"role":"model"},` +
		`{"parts":[{"functionResponse":{"name":"weather","response":{"output":2}}},{"functionResponse":{"name":"weather","response":{"output":3}}}],"role":"user"}]`
	if got := asked(t, s, 1, "contents"); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// TestRequest: settings, tools and the form of the answer are in the request.
func TestRequest(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	m := newModel(t, genai.Options{BaseURL: s.URL, Settings: map[string]any{"temperature": 0.5, "maxOutputTokens": 7, "unknown": 1}})
	r := modeltest.Ask()
	r.Settings = map[string]any{"temperature": 0.25}
	r.ToolChoice = model.ToolAny
	r.Format = &model.Format{Name: "form", Schema: []byte(`{"type":"object"}`)}
	if _, err := model.Call(t.Context(), m, r); err == nil {
		t.Fatal("no error")
	}
	if got := s.Asked()[0]; got.Path != "/v1beta/models/gemini-2.5-flash:streamGenerateContent" || got.Header.Get("x-goog-api-key") != "key" {
		t.Errorf("%s %v", got.Path, got.Header)
	}
	for field, want := range map[string]string{
		"generationConfig":  `{"maxOutputTokens":7,"responseJsonSchema":{"type":"object"},"responseMimeType":"application/json","temperature":0.25}`,
		"toolConfig":        `{"functionCallingConfig":{"allowedFunctionNames":["weather"],"mode":"ANY"}}`,
		"systemInstruction": `{"parts":[{"text":"Be brief."}],"role":"user"}`,
		"tools":             `[{"functionDeclarations":[{"description":"Tells the weather.","name":"weather","parametersJsonSchema":{"properties":{"city":{"type":"string"}},"type":"object"}}]}]`,
	} {
		if got := asked(t, s, 0, field); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", field, got, want)
		}
	}
}

// TestRetryInfo: when to try again is in the error's details.
func TestRetryInfo(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Status: 429, Body: `{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"3600s"}]}}`})
	defer s.Close()
	_, err := model.Call(t.Context(), newModel(t, genai.Options{BaseURL: s.URL}), modeltest.Ask())
	var e *model.ProviderError
	if !errors.As(err, &e) || e.RetryAfter() != time.Hour || e.Kind != "RESOURCE_EXHAUSTED" || len(s.Asked()) != 1 {
		t.Errorf("%v", err)
	}
}

// TestRemains: no turn is without parts, and no part without anything, which Gemini refuses.
func TestRemains(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	_, _ = model.Call(t.Context(), newModel(t, genai.Options{BaseURL: s.URL}), model.Request{Messages: modeltest.Remains()}) // the answer is none
	turns, _ := s.Asked()[0].Body["contents"].([]any)
	for i, e := range turns {
		parts, _ := e.(map[string]any)["parts"].([]any)
		if len(parts) == 0 {
			t.Errorf("turn %d: %v", i, e)
		}
		for _, p := range parts {
			if part, ok := p.(map[string]any); !ok || len(part) == 0 {
				t.Errorf("turn %d: %v", i, e)
			}
		}
	}
	if len(turns) < 4 {
		t.Errorf("%v", turns)
	}
}

// TestResultsInOrder: results of calls of one tool stand in the order of the calls, whichever came first: Gemini does
// not see whose they are.
func TestResultsInOrder(t *testing.T) {
	s := modeltest.Serve()
	defer s.Close()
	pay := func(id string) message.ToolCall {
		return message.ToolCall{Name: "pay", ID: id, Args: map[string]any{"to": id}}
	}
	list := []message.Message{message.Human("hi"), message.AI("", pay("Ann"), pay("Bob")), message.ToolResult(pay("Bob"), "no"), message.ToolResult(pay("Ann"), "paid"), message.Human("more")}
	_, _ = model.Call(t.Context(), newModel(t, genai.Options{BaseURL: s.URL}), model.Request{Messages: list}) // the answer is none
	turns, _ := s.Asked()[0].Body["contents"].([]any)
	got, err := json.Marshal(turns[2])
	if want := `{"parts":[{"functionResponse":{"name":"pay","response":{"output":"paid"}}},{"functionResponse":{"name":"pay","response":{"output":"no"}}}],"role":"user"}`; err != nil || string(got) != want {
		t.Errorf("got  %s %v\nwant %s", got, err, want)
	}
}

// TestBlocked: a prompt that is blocked has an empty answer.
func TestBlocked(t *testing.T) {
	s := modeltest.Serve(modeltest.Reply{Events: []string{`data: {"promptFeedback":{"blockReason":"SAFETY"},` + about + "}\n\n"}})
	defer s.Close()
	got, err := model.Call(t.Context(), newModel(t, genai.Options{BaseURL: s.URL}), modeltest.Ask())
	feedback, _ := got.ResponseMetadata["prompt_feedback"].(map[string]any)
	if err != nil || got.Text() != "" || feedback["blockReason"] != "SAFETY" {
		t.Errorf("%+v %v", got, err)
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []genai.Options{{Key: "k"}, {Key: "k", Model: "m", Retry: model.Retry{Delay: -1}}} {
		if _, err := genai.New(t.Context(), o); !errors.Is(err, model.ErrRequest) {
			t.Errorf("%+v: %v", o, err)
		}
	}
	m := newModel(t, genai.Options{Profile: model.Profile{MaxInputTokens: 7}, Settings: map[string]any{"temperature": "hot"}})
	if model.ProfileOf(m).MaxInputTokens != 7 {
		t.Error("no profile")
	}
	if _, err := model.Call(t.Context(), m, modeltest.Ask()); !errors.Is(err, model.ErrRequest) {
		t.Errorf("a setting of the wrong type: %v", err)
	}
	lost := model.Request{Messages: []message.Message{message.Human("a"), message.ToolResult(message.ToolCall{Name: "f", ID: "1"}, "b")}}
	for _, err := range newModel(t, genai.Options{}).Stream(t.Context(), lost) {
		if !errors.Is(err, model.ErrRequest) {
			t.Errorf("a result without its call: %v", err)
		}
	}
}

// FuzzStream: an answer of any bytes is an answer or a typed error.
func FuzzStream(f *testing.F) {
	modeltest.Fuzz(f, func(t *testing.T, client *http.Client, whole bool) model.Model {
		never := model.Retry{Retries: -1}
		return newModel(t, genai.Options{BaseURL: "http://localhost", Whole: whole, Retry: never, Client: vendor.ClientConfig{HTTPClient: client}})
	}, event(`{"text":"Hel"}`, "")+event(`{"text":"lo","thought":true,"thoughtSignature":"c2ln"}`, "STOP"), event(`{"functionCall":{"id":"f1","name":"weather","args":{"city":"Oslo"}}}`, "STOP"), body(`{"text":"Hello"}`, "STOP"))
}

// TestSilence: a provider that says nothing is given up.
func TestSilence(t *testing.T) {
	defer genai.SetSilence(time.Second)()
	modeltest.Silence(t, func(t *testing.T, url string) model.Model {
		return newModel(t, genai.Options{BaseURL: url, Retry: model.Retry{Retries: -1}})
	})
}
