package modeltest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

// Vendor is how the server of a provider speaks. Its events are whole, with their empty lines.
type Vendor struct {
	// New makes the model that is tested.
	New func(t *testing.T, url string, retry model.Retry, whole bool) model.Model
	// Hello are the events of the text "Hello", in the parts "Hel" and "lo"; HelloBody is the same in
	// one body. The message is Said, without what Request says otherwise.
	Hello     []string
	HelloBody string
	Said      message.Message
	// Calls are the events of the calls Called; CallsBody is the same in one body.
	Calls     []string
	CallsBody string
	Called    []message.ToolCall
	// CutCalls are the events of an answer that ends within the arguments of a call with the name
	// "weather"; nil if the provider cannot.
	CutCalls []string
	// Refused is the body of a refusal with the message "too much".
	Refused string
	// Failed is an event that says that the answer failed.
	Failed string
	// Garbled is an event with broken JSON.
	Garbled string
}

// Ask is the request of the tests.
func Ask() model.Request {
	return model.Request{
		Messages: []message.Message{message.System("Be brief."), message.Human("Hi")},
		Tools: []tool.Definition{{Name: "weather", Description: "Tells the weather.",
			Parameters: []byte(`{"type":"object","properties":{"city":{"type":"string"}}}`)}},
	}
}

// Test tests a model against a server that speaks as v says.
func Test(t *testing.T, v Vendor) {
	quick := model.Retry{Delay: time.Microsecond}
	start := func(t *testing.T, retry model.Retry, replies ...Reply) (*Server, model.Model) {
		s := Serve(replies...)
		t.Cleanup(s.Close)
		return s, v.New(t, s.URL, retry, false)
	}
	hello := Reply{Events: v.Hello}
	plain := Ask()
	plain.Tools = nil

	t.Run("text in parts", func(t *testing.T) {
		_, m := start(t, quick, hello)
		var parts []string
		for c, err := range m.Stream(t.Context(), plain) {
			if err != nil {
				t.Fatal(err)
			}
			if c.Text() != "" {
				parts = append(parts, c.Text())
			}
		}
		if got := strings.Join(parts, "|"); got != "Hel|lo" {
			t.Errorf("parts %s", got)
		}
	})
	same := func(t *testing.T, got message.Message) {
		t.Helper()
		got.ID = ""
		if !message.Equal(got, v.Said) {
			t.Errorf("got  %+v usage %+v\nwant %+v usage %+v", got, got.Usage, v.Said, v.Said.Usage)
		}
	}
	t.Run("text", func(t *testing.T) {
		_, m := start(t, quick, hello)
		got, err := model.Call(t.Context(), m, plain)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got)
	})
	t.Run("text at once", func(t *testing.T) {
		s := Serve(Reply{Body: v.HelloBody})
		t.Cleanup(s.Close)
		got, err := model.Call(t.Context(), v.New(t, s.URL, quick, true), plain)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got)
	})
	t.Run("no answer at once", func(t *testing.T) {
		for _, none := range []Reply{{Body: "null"}, {Status: http.StatusNoContent}} {
			s := Serve(none)
			t.Cleanup(s.Close)
			var e *model.ProviderError
			if got, err := model.Call(t.Context(), v.New(t, s.URL, model.Retry{Retries: -1}, true), plain); !errors.As(err, &e) {
				t.Errorf("status %d, body %q: %+v, error %v", none.Status, none.Body, got, err)
			}
		}
	})
	called := func(t *testing.T, m model.Model) {
		t.Helper()
		got, err := model.Call(t.Context(), m, Ask())
		if err != nil {
			t.Fatal(err)
		}
		want := message.Message{Type: message.TypeAI, ToolCalls: v.Called}
		if !message.Equal(message.Message{Type: message.TypeAI, ToolCalls: got.ToolCalls, InvalidToolCalls: got.InvalidToolCalls}, want) {
			t.Errorf("calls %+v, invalid %+v, want %+v", got.ToolCalls, got.InvalidToolCalls, v.Called)
		}
	}
	t.Run("tool calls", func(t *testing.T) {
		_, m := start(t, quick, Reply{Events: v.Calls})
		called(t, m)
	})
	t.Run("tool calls at once", func(t *testing.T) {
		s := Serve(Reply{Body: v.CallsBody})
		t.Cleanup(s.Close)
		called(t, v.New(t, s.URL, quick, true))
	})
	t.Run("arguments that are cut off", func(t *testing.T) {
		if v.CutCalls == nil {
			t.Skip("the provider sends arguments whole")
		}
		_, m := start(t, quick, Reply{Events: v.CutCalls})
		got, err := model.Call(t.Context(), m, Ask())
		if err != nil || len(got.ToolCalls) != 0 || len(got.InvalidToolCalls) != 1 || got.InvalidToolCalls[0].Name != "weather" {
			t.Errorf("calls %+v, invalid %+v, error %v", got.ToolCalls, got.InvalidToolCalls, err)
		}
	})

	refused := func(status int, header map[string]string) Reply {
		return Reply{Status: status, Header: header, Body: v.Refused}
	}
	// again expects that the answer comes after some failed calls.
	again := func(t *testing.T, retry model.Retry, failures ...Reply) {
		t.Helper()
		s, m := start(t, retry, append(failures, hello)...)
		got, err := model.Call(t.Context(), m, plain)
		if err != nil {
			t.Fatal(err)
		}
		same(t, got)
		if n := len(s.Asked()); n != len(failures)+1 {
			t.Errorf("asked %d times", n)
		}
	}
	t.Run("again after 500 and 429", func(t *testing.T) { again(t, quick, refused(500, nil), refused(429, nil)) })
	t.Run("again after a reset", func(t *testing.T) { again(t, quick, Reply{Reset: true}) })
	t.Run("again after an empty answer", func(t *testing.T) { again(t, quick, Reply{Events: []string{}}) })
	t.Run("again after an answer that broke off before it began", func(t *testing.T) {
		again(t, quick, Reply{Events: []string{}, Cut: true})
	})
	t.Run("again after a failure before it began", func(t *testing.T) { again(t, quick, Reply{Events: []string{v.Failed}}) })
	t.Run("Retry-After", func(t *testing.T) {
		// Without the header, half an hour would pass.
		again(t, model.Retry{Delay: time.Hour, MaxDelay: time.Hour}, refused(429, map[string]string{"Retry-After": "0.001"}))
	})
	// fails expects that a call fails after a number of requests.
	fails := func(t *testing.T, asked int, retry model.Retry, replies ...Reply) (e *model.ProviderError, shown string) {
		t.Helper()
		s, m := start(t, retry, replies...)
		var err error
		ends := 0
		for c, why := range m.Stream(t.Context(), plain) {
			if ends > 0 {
				t.Error("the stream goes on behind its error")
			}
			if why != nil {
				err = why
				ends++
			}
			shown += c.Text()
		}
		if !errors.As(err, &e) {
			t.Fatalf("error %v", err)
		}
		if n := len(s.Asked()); n != asked {
			t.Errorf("asked %d times, want %d: %v", n, asked, err)
		}
		return e, shown
	}
	t.Run("too long a Retry-After", func(t *testing.T) {
		e, _ := fails(t, 1, quick, refused(429, map[string]string{"Retry-After": "3600"}), hello)
		if e.Status != 429 || e.RetryAfter() != time.Hour || !e.Temporary || !strings.Contains(e.Error(), "too much") {
			t.Errorf("%+v", e)
		}
	})
	t.Run("bounded", func(t *testing.T) {
		e, _ := fails(t, 3, quick, refused(500, nil), refused(500, nil), refused(500, nil), hello)
		if e.Status != 500 {
			t.Errorf("%+v", e)
		}
	})
	t.Run("no retries", func(t *testing.T) { fails(t, 1, model.Retry{Retries: -1}, refused(500, nil), hello) })
	t.Run("refused", func(t *testing.T) {
		e, _ := fails(t, 1, quick, refused(http.StatusUnauthorized, nil), hello)
		if e.Temporary || !strings.Contains(e.Error(), "401 Unauthorized") || !strings.Contains(e.Error(), "too much") {
			t.Errorf("%v", e)
		}
	})
	t.Run("cut off in the middle", func(t *testing.T) {
		for _, cut := range []bool{true, false} {
			e, shown := fails(t, 1, quick, Reply{Events: v.Hello[:v.firstText()+1], Cut: cut}, hello)
			if shown != "Hel" || !errors.Is(e, io.ErrUnexpectedEOF) {
				t.Errorf("shown %q, error %v", shown, e)
			}
		}
	})
	t.Run("failed in the middle", func(t *testing.T) {
		if _, shown := fails(t, 1, quick, Reply{Events: append(v.Hello[:v.firstText()+1:v.firstText()+1], v.Failed)}, hello); shown != "Hel" {
			t.Errorf("shown %q", shown)
		}
	})
	t.Run("garbled", func(t *testing.T) {
		if e, _ := fails(t, 1, quick, Reply{Events: []string{v.Garbled}}, hello); e.Temporary {
			t.Errorf("%+v", e)
		}
		if _, shown := fails(t, 1, quick, Reply{Events: append(v.Hello[:v.firstText()+1:v.firstText()+1], v.Garbled)}, hello); shown != "Hel" {
			t.Errorf("shown %q", shown)
		}
	})
	t.Run("cancelled", func(t *testing.T) {
		s, m := start(t, quick, Reply{Events: v.Hello[:v.firstText()+1], Hold: true}, hello)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var last error
		for c, err := range m.Stream(ctx, plain) {
			if last = err; c.Text() == "Hel" {
				cancel()
			}
		}
		if !errors.Is(last, context.Canceled) || len(s.Asked()) != 1 {
			t.Errorf("asked %d times, error %v", len(s.Asked()), last)
		}
		<-s.Left()
	})
	t.Run("cancelled between two calls", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		s, m := start(t, model.Retry{Delay: time.Hour, MaxDelay: time.Hour}, refused(500, nil), hello)
		go func() {
			for len(s.Asked()) == 0 {
				time.Sleep(time.Millisecond)
			}
			cancel()
		}()
		if _, err := model.Call(ctx, m, plain); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("left early", func(t *testing.T) {
		s, m := start(t, quick, Reply{Events: v.Hello[:v.firstText()+1], Hold: true})
		for c := range m.Stream(t.Context(), plain) {
			if c.Text() == "Hel" {
				break
			}
		}
		<-s.Left() // the connection was closed
	})
	t.Run("no form", func(t *testing.T) {
		s, m := start(t, quick, hello)
		_, err := model.Call(t.Context(), m, model.Request{Messages: []message.Message{{Type: "odd", ID: "1"}}})
		if !errors.Is(err, model.ErrRequest) || len(s.Asked()) != 0 {
			t.Errorf("asked %d times, error %v", len(s.Asked()), err)
		}
	})
	t.Run("twice", func(t *testing.T) { // each time a stream is ranged over is a call of its own
		s, m := start(t, quick, hello, hello)
		stream := m.Stream(t.Context(), plain)
		for range 2 {
			for _, err := range stream {
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := len(s.Asked()); n != 2 {
			t.Errorf("asked %d times", n)
		}
	})
}

// firstText is the index of the event with "Hel".
func (v Vendor) firstText() int {
	for i, e := range v.Hello {
		if strings.Contains(e, "Hel") {
			return i
		}
	}
	panic("no event has the text Hel")
}

// Broken is a conversation with every fault that message.Repair mends: calls without an answer, with
// two, with a late one, without an id or a name, with an id again, and an answer without a call.
func Broken() []message.Message {
	call := func(id string) message.ToolCall { return message.ToolCall{Name: "f", ID: id} }
	return []message.Message{
		message.Human("a"), message.AI("", call("1"), call("2")), message.ToolResult(call("2"), "x"),
		message.Human("b"), {Type: message.TypeAI, InvalidToolCalls: []message.InvalidToolCall{{Args: "nope"}}}, message.ToolResult(call("7"), "x"),
		message.Human("c"), message.AI("", call("1")), message.Human("d"), message.ToolResult(call("1"), "x"), message.ToolResult(call("1"), "y"),
		message.AI("e"), message.Human("f"), message.AI("", call("3")),
	}
}

// Remains is a conversation with what providers refuse though calls and answers are paired: messages in which nothing
// is, and what is left of answers that broke off, also those of other providers. All that is said in it is "hi", "look"
// and "more".
func Remains() []message.Message {
	from := func(provider string, blocks ...any) message.Message {
		m := message.Message{Type: message.TypeAI, Blocks: blocks}
		m.ResponseMetadata = map[string]any{"model_provider": provider}
		return m
	}
	thought := message.Block{"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
	search := message.Block{"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": map[string]any{}}
	silent := message.Message{Type: message.TypeHuman, Blocks: []any{}}
	return []message.Message{
		message.Human("hi"), from("anthropic", thought), message.Human(""), from("anthropic", message.TextBlock("look"), search),
		silent, from("anthropic", message.TextBlock("look"), thought), message.Human(" "), from("openai", message.Block{"type": "reasoning", "summary": []any{}}),
		{Type: message.TypeHuman, Blocks: []any{message.TextBlock("")}}, from("google_genai", message.Block{"type": "executable_code", "executable_code": "1"}),
		message.AI(""), {Type: message.TypeAI, Blocks: []any{}},
		from("openai", message.Block{"type": "web_search_call", "id": "ws_1", "status": "completed"},
			message.Block{"type": "refusal", "refusal": "No."}), message.Human(""),
		from("bedrock", search, message.Block{"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": []any{}}), message.Human(""),
		from("google_genai", message.ImageURL("data:image/png;base64,aGk=")), message.Human("more"),
	}
}

// Named is a conversation with names that providers refuse: of a person, of an agent, and of tools that a model made up.
func Named() []message.Message {
	person, answer := message.Human("hi"), message.AI("hello")
	person.Name, answer.Name = "Ada <Lovelace>", "Support bot"
	wrong := message.ToolCall{Name: "functions.look up", ID: "1"}
	long := message.InvalidToolCall{Name: strings.Repeat("x", 300), ID: "2"}
	return []message.Message{person, answer, message.Human("more"), {Type: message.TypeAI, ToolCalls: []message.ToolCall{wrong}, InvalidToolCalls: []message.InvalidToolCall{long}}}
}
