package openai

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"net/http"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/param"
	"github.com/openai/openai-go/v3/packages/respjson"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/base/silence"
	"github.com/stele-go/stele/message"
)

// provider is the name of the provider in the metadata of answers.
const provider = "openai"

// silent is how long a model may say nothing; tests have less time.
var silent = model.Silence

// Options are options of a Model.
type Options struct {
	// Model is the name of the model.
	Model string
	// Key is the key; empty is that of the environment, OPENAI_API_KEY. A server that needs none
	// gets what is there, or nothing.
	Key string
	// BaseURL is the address of the server, with the version; empty is that of the environment,
	// OPENAI_BASE_URL, or else OpenAI's.
	BaseURL string
	// Settings are fields of every request, such as "temperature"; those of a request come
	// before them. A field that is nil is left out, also one that the package itself sets, such
	// as "stream_options", which some servers do not know.
	Settings map[string]any
	// Retry says how a call is tried again.
	Retry model.Retry
	// Profile is what the model can do.
	Profile model.Profile
	// Whole requests whole answers, for servers that do not stream. An answer is then one chunk.
	Whole bool
	// Client are further options of the client, such as its HTTP client and headers. An HTTP client of
	// its own has its own bounds of time; else a model that says nothing for model.Silence is given up.
	Client []option.RequestOption
}

// Model is a chat model. It is safe for concurrent use.
type Model struct {
	opts   Options
	client openai.Client
}

// New makes a model. Nothing is sent before it is asked. The error is model.ErrRequest for options
// without a model, or with a negative delay.
func New(o Options) (*Model, error) {
	if o.Model == "" {
		return nil, fmt.Errorf("%w: no model is named", model.ErrRequest)
	}
	if err := o.Retry.Check(); err != nil {
		return nil, err
	}
	opts := []option.RequestOption{option.WithHTTPClient(&http.Client{Transport: silence.Transport(nil, silent)})}
	if o.Key != "" {
		opts = append(opts, option.WithAPIKey(o.Key))
	}
	if o.BaseURL != "" {
		opts = append(opts, option.WithBaseURL(o.BaseURL))
	}
	opts = append(opts, o.Client...)
	opts = append(opts, option.WithMaxRetries(0)) // model.Retry does it
	return &Model{o, openai.NewClient(opts...)}, nil
}

// Profile implements model.Profiled.
func (m *Model) Profile() model.Profile {
	p := m.opts.Profile
	p.Provider = cmp.Or(p.Provider, provider)
	return p
}

// Stream implements model.Model. The errors are model.ErrRequest and *model.ProviderError.
func (m *Model) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	body, err := m.body(r)
	return m.opts.Retry.Stream(ctx, func(yield func(message.Chunk, error) bool) {
		switch {
		case err != nil:
			yield(message.Chunk{}, err)
		case m.opts.Whole:
			yield(m.whole(ctx, body))
		default:
			m.stream(ctx, body, yield)
		}
	})
}

// body is the request as JSON.
func (m *Model) body(r model.Request) (openai.ChatCompletionNewParams, error) {
	messages, err := convert(r.Messages)
	if err != nil {
		return openai.ChatCompletionNewParams{}, err
	}
	body := map[string]any{"model": m.opts.Model, "messages": messages}
	if !m.opts.Whole {
		body["stream_options"] = map[string]any{"include_usage": true}
	}
	var tools []any
	for _, t := range r.Tools {
		function := map[string]any{"name": t.Name, "description": t.Description}
		if t.Parameters != nil {
			function["parameters"] = t.Parameters
		}
		tools = append(tools, map[string]any{"type": "function", "function": function})
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch r.ToolChoice {
	case "":
	case model.ToolAny:
		body["tool_choice"] = "required"
	default:
		body["tool_choice"] = map[string]any{"type": "function", "function": map[string]any{"name": r.ToolChoice}}
	}
	if f := r.Format; f != nil {
		schema := map[string]any{"name": f.Name, "schema": f.Schema}
		if f.Strict {
			schema["strict"] = true
		}
		body["response_format"] = map[string]any{"type": "json_schema", "json_schema": schema}
	}
	maps.Copy(body, m.opts.Settings)
	maps.Copy(body, r.Settings)
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(body)
	if err != nil {
		return openai.ChatCompletionNewParams{}, fmt.Errorf("%w: %w", model.ErrRequest, err)
	}
	return param.Override[openai.ChatCompletionNewParams](json.RawMessage(text)), nil
}

// whole requests a whole answer.
func (m *Model) whole(ctx context.Context, body openai.ChatCompletionNewParams) (message.Chunk, error) {
	res, err := m.client.Chat.Completions.New(ctx, body)
	if err != nil {
		return message.Chunk{}, failure(err)
	}
	if res == nil || len(res.Choices) == 0 { // nil if the body is null, or there is none
		return message.Chunk{}, model.Broken(provider, io.ErrUnexpectedEOF)
	}
	said := res.Choices[0].Message
	c := part(said.Content, said.Refusal, said.JSON.ExtraFields)
	for i, call := range said.ToolCalls {
		c.ToolCallChunks = append(c.ToolCallChunks, message.ToolCallChunk{Name: call.Function.Name, Args: call.Function.Arguments, ID: call.ID, Index: &i})
	}
	//lint:ignore SA1019 as in a stream
	e := ending{id: res.ID, model: res.Model, fingerprint: res.SystemFingerprint, tier: string(res.ServiceTier), reason: res.Choices[0].FinishReason}
	if res.JSON.Usage.Valid() {
		e.usage = &res.Usage
	}
	e.put(&c)
	return c, nil
}

// stream hands on the parts of an answer.
func (m *Model) stream(ctx context.Context, body openai.ChatCompletionNewParams, yield func(message.Chunk, error) bool) {
	s := m.client.Chat.Completions.NewStreaming(ctx, body)
	defer s.Close()
	var e ending
	for s.Next() {
		event := s.Current()
		e.read(&event)
		if len(event.Choices) == 0 {
			continue
		}
		said := event.Choices[0].Delta
		c := part(said.Content, said.Refusal, said.JSON.ExtraFields)
		for _, call := range said.ToolCalls {
			index := int(call.Index)
			c.ToolCallChunks = append(c.ToolCallChunks, message.ToolCallChunk{Name: call.Function.Name, Args: call.Function.Arguments, ID: call.ID, Index: &index})
		}
		if c.Content == "" && c.ToolCallChunks == nil && c.AdditionalKwargs == nil {
			continue
		}
		if !yield(c, nil) {
			return
		}
	}
	err := s.Err()
	if err == nil && e.reason == "" {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		yield(message.Chunk{}, failure(err))
		return
	}
	last := part("", "", nil)
	e.put(&last)
	yield(last, nil)
}

// part returns a chunk of a model's answer.
func part(text, refusal string, extra map[string]respjson.Field) message.Chunk {
	c := message.Chunk{Message: message.AI(text)}
	kwarg := func(name, text string) {
		if text == "" {
			return
		}
		if c.AdditionalKwargs == nil {
			c.AdditionalKwargs = map[string]any{}
		}
		c.AdditionalKwargs[name] = text
	}
	kwarg("refusal", refusal)
	for _, name := range []string{"reasoning_content", "reasoning"} { // of servers other than OpenAI's
		var thought string
		if json.Unmarshal([]byte(extra[name].Raw()), &thought) == nil && thought != "" {
			kwarg("reasoning_content", thought)
			break
		}
	}
	return c
}

// ending has the metadata of an answer. Some servers send the usage repeatedly; the last one counts.
type ending struct {
	id, model, fingerprint, tier, reason string
	usage                                *openai.CompletionUsage
}

func (e *ending) read(event *openai.ChatCompletionChunk) {
	set := func(dst *string, text string) {
		if text != "" {
			*dst = text
		}
	}
	set(&e.id, event.ID)
	set(&e.model, event.Model)
	//lint:ignore SA1019 OpenAI sends it less and less; others do, and LangChain stores it
	set(&e.fingerprint, event.SystemFingerprint)
	set(&e.tier, string(event.ServiceTier))
	if len(event.Choices) > 0 {
		set(&e.reason, event.Choices[0].FinishReason)
	}
	if event.JSON.Usage.Valid() {
		e.usage = &event.Usage
	}
}

// put writes the ending into the last chunk.
func (e *ending) put(c *message.Chunk) {
	c.Last = true
	c.ResponseMetadata = map[string]any{"model_provider": provider}
	for name, text := range map[string]string{"id": e.id, "model_name": e.model, "system_fingerprint": e.fingerprint, "service_tier": e.tier,
		"finish_reason": e.reason} {
		if text != "" {
			c.ResponseMetadata[name] = text
		}
	}
	if u := e.usage; u != nil {
		c.Usage = usage(u)
	}
}

// usage counts tokens as langchain-openai does.
func usage(u *openai.CompletionUsage) *message.Usage {
	out := &message.Usage{
		InputTokens: u.PromptTokens, OutputTokens: u.CompletionTokens, TotalTokens: u.TotalTokens,
		InputDetails: map[string]int64{}, OutputDetails: map[string]int64{},
	}
	if !u.JSON.TotalTokens.Valid() {
		out.TotalTokens = out.InputTokens + out.OutputTokens
	}
	detail := func(details map[string]int64, name string, n int64, f respjson.Field) {
		if f.Valid() {
			details[name] = n
		}
	}
	in, gone := u.PromptTokensDetails, u.CompletionTokensDetails
	detail(out.InputDetails, "audio", in.AudioTokens, in.JSON.AudioTokens)
	detail(out.InputDetails, "cache_read", in.CachedTokens, in.JSON.CachedTokens)
	detail(out.OutputDetails, "audio", gone.AudioTokens, gone.JSON.AudioTokens)
	detail(out.OutputDetails, "reasoning", gone.ReasoningTokens, gone.JSON.ReasoningTokens)
	return out
}

// failure converts the error of a call to a typed one.
func failure(err error) error {
	var refused *openai.Error
	if errors.As(err, &refused) {
		e := model.Refused(provider, refused.StatusCode, nil, refused.Type, refused.Message, err)
		if refused.Response != nil {
			e = model.Refused(provider, refused.StatusCode, refused.Response.Header, refused.Type, refused.Message, err)
		}
		if refused.Code != "" {
			e.Kind = refused.Code
		}
		return e
	}
	var inStream *ssestream.StreamError
	if errors.As(err, &inStream) {
		var data struct {
			Error struct{ Type, Message string }
		}
		e := &model.ProviderError{Provider: provider, Err: err}
		if json.Unmarshal(inStream.Event.Data, &data) == nil {
			e.Kind, e.Message = data.Error.Type, data.Error.Message
		}
		e.Temporary = e.Kind != "invalid_request_error"
		return e
	}
	return model.Broken(provider, err)
}
