package otel

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

// ModelInfo has the attributes of spans about a model.
type ModelInfo struct {
	// Name is the model as the provider calls it.
	Name string
	// Provider is the conventions' name for the model's provider, such as "openai" or "anthropic".
	Provider string
}

// Model wraps m so that each call of it has a span, "chat <name>", by OpenTelemetry's semantic
// conventions for generative AI: provider, model, settings, the tokens that it took, why it ended,
// and the thread as the conversation. A call that is tried again has a span for each try. Prompts
// and answers are not recorded.
func (t *Tracer) Model(m model.Model, about ModelInfo) model.Model {
	return &tracedModel{m, t, about}
}

type tracedModel struct {
	model.Model
	tracer *Tracer
	about  ModelInfo
}

// Profile implements model.Profiled.
func (m *tracedModel) Profile() model.Profile { return model.ProfileOf(m.Model) }

// Stream implements model.Model.
func (m *tracedModel) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		attrs := text(conversation(ctx, "chat"), "gen_ai.provider.name", m.about.Provider)
		attrs = append(text(attrs, "gen_ai.request.model", m.about.Name), settings(r.Settings)...)
		ctx, span := m.tracer.start(ctx, name("chat", m.about.Name), trace.SpanKindClient, attrs)
		var answer response
		var failure error
		defer func() {
			span.SetAttributes(answer.attributes()...)
			finishCall(span, failure)
		}()
		for part, err := range m.Model.Stream(ctx, r) {
			answer.add(part)
			if failure = err; !yield(part, err) {
				return
			}
		}
	}
}

// response has the attributes of spans about an answer.
type response struct {
	id, model, finish string
	usage             *message.Usage
}

func (a *response) add(part message.Chunk) {
	set := func(field *string, v any) {
		if s, ok := v.(string); ok && s != "" {
			*field = s
		}
	}
	set(&a.id, part.ID)
	for _, key := range []string{"model_name", "model"} {
		set(&a.model, part.ResponseMetadata[key])
	}
	for _, key := range []string{"finish_reason", "stop_reason"} {
		set(&a.finish, part.ResponseMetadata[key])
	}
	if u := part.Usage; u != nil {
		if a.usage == nil {
			a.usage = &message.Usage{}
		}
		a.usage.InputTokens += u.InputTokens
		a.usage.OutputTokens += u.OutputTokens
	}
}

func (a *response) attributes() []attribute.KeyValue {
	out := text(text(nil, "gen_ai.response.id", a.id), "gen_ai.response.model", a.model)
	if a.finish != "" {
		out = append(out, attribute.StringSlice("gen_ai.response.finish_reasons", []string{a.finish}))
	}
	if a.usage != nil {
		out = append(out, attribute.Int64("gen_ai.usage.input_tokens", a.usage.InputTokens), attribute.Int64("gen_ai.usage.output_tokens", a.usage.OutputTokens))
	}
	return out
}

// settings returns the settings of a request that the conventions have names for.
func settings(s map[string]any) (out []attribute.KeyValue) {
	for _, key := range []string{"temperature", "top_p", "max_tokens"} {
		name := "gen_ai.request." + key
		switch v := s[key].(type) {
		case float64:
			out = append(out, attribute.Float64(name, v))
		case int:
			out = append(out, attribute.Int(name, v))
		}
	}
	return out
}

// Tool wraps x so that each call of it has a span, "execute_tool <name>", by the semantic
// conventions for generative AI. Arguments and results are not recorded. A wrapped tool that is
// agent.ReturnDirect stays so.
func (t *Tracer) Tool(x tool.Tool) tool.Tool { return &tracedTool{x, t} }

type tracedTool struct {
	tool.Tool
	tracer *Tracer
}

// Unwrap returns the tool that is traced.
func (x *tracedTool) Unwrap() tool.Tool { return x.Tool }

// Call implements tool.Tool.
func (x *tracedTool) Call(ctx context.Context, call tool.Call) (any, error) {
	attrs := append(conversation(ctx, "execute_tool"), attribute.String("gen_ai.tool.name", call.Name), attribute.String("gen_ai.tool.type", "function"))
	attrs = text(attrs, "gen_ai.tool.call.id", call.ID)
	ctx, span := x.tracer.start(ctx, name("execute_tool", call.Name), trace.SpanKindInternal, attrs)
	failure := errors.New("the tool panicked")
	defer func() { finishCall(span, failure) }()
	out, err := x.Tool.Call(ctx, call)
	failure = err
	return out, err
}

func (t *Tracer) start(ctx context.Context, name string, kind trace.SpanKind, attrs []attribute.KeyValue) (context.Context, trace.Span) {
	return t.t.Start(ctx, name, trace.WithSpanKind(kind), trace.WithAttributes(t.attrs...), trace.WithAttributes(attrs...))
}

func name(operation, of string) string {
	if of == "" {
		return operation
	}
	return operation + " " + of
}

// conversation are the attributes of an operation on the thread of the running task.
func conversation(ctx context.Context, operation string) []attribute.KeyValue {
	task, _ := pregel.Task(ctx)
	return text([]attribute.KeyValue{attribute.String("gen_ai.operation.name", operation)}, "gen_ai.conversation.id", task.ThreadID)
}

// finishCall ends a span as finish does, and adds the type of an error, which the conventions define.
func finishCall(span trace.Span, err error) {
	if err != nil && outcomeOf(err) == "" {
		span.SetAttributes(attribute.String("error.type", fmt.Sprintf("%T", err)))
		span.SetStatus(codes.Error, err.Error())
	}
	finish(span, err)
}
