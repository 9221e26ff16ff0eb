package otel_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/ops/otel"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

var brisk = []pregel.RetryPolicy{{InitialInterval: time.Nanosecond, NoJitter: true}}

// TestRetriesAreShown: each attempt of a task that may be tried again has a span inside of the
// task, and what failed is on its attempt alone.
func TestRetriesAreShown(t *testing.T) {
	r := record(t)
	tries := 0
	g := compile(t, state().
		Node("flaky", func(ctx context.Context, in any) (any, error) {
			if tries++; tries < 3 {
				return nil, errors.New("busy")
			}
			_, span := r.provider.Tracer("user").Start(ctx, "own work")
			span.End()
			return one(ctx, in)
		}, graph.NodeOptions{Retry: brisk}).
		Node("calm", one).Sequence(graph.Start, "flaky", "calm", graph.End), graph.Options{Hooks: r.Hooks(pregel.Hooks{})})
	if _, err := g.Invoke(ctx, pregel.Address{}, map[string]any{"n": 0}); err != nil {
		t.Fatal(err)
	}
	attempts := 0
	for _, path := range r.tree() {
		if path == "run LangGraph > superstep LangGraph > task flaky > attempt flaky" {
			attempts++
		}
		if path == "run LangGraph > superstep LangGraph > task calm > attempt calm" {
			t.Error("a task that is tried once has attempts")
		}
	}
	own := false
	for _, path := range r.tree() {
		own = own || path == "run LangGraph > superstep LangGraph > task flaky > attempt flaky > own work"
	}
	last := r.last(t, "attempt flaky")
	if attempts != 3 || !own || attr(last, "stele.attempt") != "3" || last.Status.Code == codes.Error || r.find(t, "task flaky").Status.Code == codes.Error {
		t.Errorf("%d attempts, the last %v %v\n%v", attempts, last.Attributes, last.Status, r.tree())
	}
	for _, s := range r.exp.GetSpans() {
		if s.Name == "attempt flaky" && attr(s, "stele.attempt") == "1" && s.Status.Code != codes.Error {
			t.Error("the first attempt failed, and its span does not say so")
		}
	}
}

// TestChats: the calls of models and tools have spans as the conventions for generative AI have
// them, inside of their tasks.
func TestChats(t *testing.T) {
	r := record(t)
	usage := message.AI("It rains.")
	usage.Usage = &message.Usage{InputTokens: 30, OutputTokens: 4, TotalTokens: 34}
	usage.ResponseMetadata = map[string]any{"model_name": "m-1-0101", "finish_reason": "stop"}
	m := model.NewScripted(model.Calls(message.ToolCall{Name: "weather", ID: "call-1"}), model.Fail(errors.New("busy")), model.Answer{Message: usage}).
		WithProfile(model.Profile{MaxInputTokens: 7})
	weather := tool.Must(tool.New("weather", "", tool.Unchecked(`{"type":"object"}`), func(context.Context, struct{}) (string, error) { return "rain", nil }))
	traced := r.Model(m, otel.ModelInfo{Name: "m-1", Provider: "acme"})
	if model.ProfileOf(traced).MaxInputTokens != 7 {
		t.Error("the profile is lost")
	}
	g, err := agent.New(traced, agent.Options{Tools: []tool.Tool{r.Tool(weather)}, Defaults: graph.NodeOptions{Retry: brisk},
		Graph: graph.Options{Hooks: r.Hooks(pregel.Hooks{})}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("ada"), agent.Say("Rain?")); err != nil {
		t.Fatal(err)
	}
	chats, failed := 0, 0
	for _, s := range r.exp.GetSpans() {
		if s.Name != "chat m-1" {
			continue
		}
		chats++
		if s.Status.Code == codes.Error {
			failed++
			if attr(s, "error.type") != "*errors.errorString" {
				t.Errorf("error.type: %v", s.Attributes)
			}
		}
	}
	if chats != 3 || failed != 1 {
		t.Errorf("%d calls of the model, %d failed: %v", chats, failed, r.tree())
	}
	last := r.last(t, "chat m-1")
	for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "acme", "gen_ai.request.model": "m-1",
		"gen_ai.response.model": "m-1-0101", "gen_ai.response.finish_reasons": `["stop"]`, "gen_ai.usage.input_tokens": "30",
		"gen_ai.usage.output_tokens": "4", "gen_ai.conversation.id": "ada", "app": "test"} {
		if got := attr(last, key); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
	call := r.find(t, "execute_tool weather")
	for key, want := range map[string]string{"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "weather", "gen_ai.tool.call.id": "call-1", "gen_ai.tool.type": "function"} {
		if got := attr(call, key); got != want {
			t.Errorf("%s is %q, not %q", key, got, want)
		}
	}
	if last.SpanKind != trace.SpanKindClient || call.SpanKind != trace.SpanKindInternal {
		t.Errorf("kinds %v, %v", last.SpanKind, call.SpanKind)
	}
}

// TestToolPanics: the span of a tool that panics ends, with an error. A question is none.
func TestToolPanics(t *testing.T) {
	r := record(t)
	for name, body := range map[string]func() error{"oh": func() error { panic("oh") }, "ask": func() error { return &pregel.InterruptError{} }} {
		x := r.Tool(tool.Must(tool.New(name, "", tool.Unchecked(`{}`), func(context.Context, struct{}) (string, error) { return "", body() })))
		func() {
			defer func() { _ = recover() }()
			_, _ = x.Call(ctx, tool.Call{ToolCall: message.ToolCall{Name: name}})
		}()
		if s := r.find(t, "execute_tool "+name); (s.Status.Code == codes.Error) != (name == "oh") {
			t.Errorf("%s: %v", name, s.Status)
		}
	}
	if direct := agent.ReturnDirect(tool.Must(tool.New("d", "", tool.Unchecked(`{}`), func(context.Context, struct{}) (string, error) { return "", nil }))); r.Tool(direct).(interface{ Unwrap() tool.Tool }).Unwrap() != direct {
		t.Error("the traced tool is lost")
	}
}
