package anthropic

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

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"
	"github.com/anthropics/anthropic-sdk-go/packages/param"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/base/silence"
	"github.com/stele-go/stele/message"
)

// provider is the name of the provider in the metadata of answers.
const provider = "anthropic"

// silent is how long a model may say nothing; tests have less time.
var silent = model.Silence

// Options are options of a Model.
type Options struct {
	// Model is the name of the model.
	Model string
	// Key is the key; empty is that of the environment, ANTHROPIC_API_KEY.
	Key string
	// BaseURL is the address of the server; empty is that of the environment, ANTHROPIC_BASE_URL,
	// or else Anthropic's.
	BaseURL string
	// MaxTokens is the most tokens of an answer; 0 is 4096, which all models can. An answer that
	// is longer ends with the stop_reason "max_tokens".
	MaxTokens int
	// Settings are fields of every request, such as "temperature" and "thinking"; those of a
	// request come before them. A field that is nil is left out.
	Settings map[string]any
	// Retry says how a call is tried again.
	Retry model.Retry
	// Profile is what the model can do.
	Profile model.Profile
	// Whole requests whole answers, not streams. An answer is then one chunk.
	Whole bool
	// Client are further options of the client, such as its HTTP client and headers. An HTTP client of
	// its own has its own bounds of time; else a model that says nothing for model.Silence is given up.
	Client []option.RequestOption
}

// Model is a chat model. It is safe for concurrent use.
type Model struct {
	opts   Options
	client anthropic.Client
}

// New makes a model. Nothing is sent before it is asked. The error is model.ErrRequest for options
// without a model, or with a negative delay or number of tokens.
func New(o Options) (*Model, error) {
	if o.Model == "" || o.MaxTokens < 0 {
		return nil, fmt.Errorf("%w: model %q with at most %d tokens", model.ErrRequest, o.Model, o.MaxTokens)
	}
	if err := o.Retry.Check(); err != nil {
		return nil, err
	}
	if o.MaxTokens == 0 {
		o.MaxTokens = 4096
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
	return &Model{o, anthropic.NewClient(opts...)}, nil
}

// Profile implements model.Profiled.
func (m *Model) Profile() model.Profile {
	p := m.opts.Profile
	p.Provider = cmp.Or(p.Provider, provider)
	return p
}

// Stream implements model.Model. The errors are model.ErrRequest and *model.ProviderError.
func (m *Model) Stream(ctx context.Context, r model.Request) iter.Seq2[message.Chunk, error] {
	body, asText, err := m.body(r)
	return m.opts.Retry.Stream(ctx, func(yield func(message.Chunk, error) bool) {
		switch {
		case err != nil:
			yield(message.Chunk{}, err)
		case m.opts.Whole:
			yield(m.whole(ctx, body))
		default:
			m.stream(ctx, body, asText, yield)
		}
	})
}

// body is the request as JSON. asText: the answer is a text, not a list of blocks.
func (m *Model) body(r model.Request) (params anthropic.MessageNewParams, asText bool, err error) {
	system, messages, err := convert(r.Messages)
	if err != nil {
		return params, false, err
	}
	body := map[string]any{"model": m.opts.Model, "max_tokens": m.opts.MaxTokens, "messages": messages}
	if system != nil {
		body["system"] = system
	}
	var tools []any
	for _, t := range r.Tools {
		schema := t.Parameters
		if schema == nil {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		converted := map[string]any{"name": t.Name, "input_schema": schema}
		if t.Description != "" {
			converted["description"] = t.Description
		}
		tools = append(tools, converted)
	}
	if tools != nil {
		body["tools"] = tools
	}
	switch r.ToolChoice {
	case "":
	case model.ToolAny:
		body["tool_choice"] = map[string]any{"type": "any"}
	default:
		body["tool_choice"] = map[string]any{"type": "tool", "name": r.ToolChoice}
	}
	maps.Copy(body, m.opts.Settings)
	maps.Copy(body, r.Settings)
	if r.Format != nil {
		var schema map[string]any
		if err := json.Unmarshal(r.Format.Schema, &schema); err != nil {
			return params, false, fmt.Errorf("%w: the schema of the format: %w", model.ErrRequest, err)
		}
		config := map[string]any{}
		if had, ok := body["output_config"].(map[string]any); ok {
			maps.Copy(config, had)
		}
		// The library rewrites the schema to what Anthropic takes, as LangChain does.
		config["format"] = map[string]any{"type": "json_schema", "schema": anthropic.BetaJSONSchemaOutputFormat(schema).Schema}
		body["output_config"] = config
	}
	maps.DeleteFunc(body, func(_ string, v any) bool { return v == nil })
	text, err := json.Marshal(body)
	if err != nil {
		return params, false, fmt.Errorf("%w: %w", model.ErrRequest, err)
	}
	asText = body["tools"] == nil && body["mcp_servers"] == nil && !thinks(body["thinking"]) && body["context_management"] == nil && !hasDocuments(messages)
	return param.Override[anthropic.MessageNewParams](json.RawMessage(text)), asText, nil
}

// thinks reports whether a setting turns thinking on.
func thinks(setting any) bool {
	m, ok := setting.(map[string]any)
	return setting != nil && !(ok && m["type"] == "disabled")
}

// whole requests a whole answer.
func (m *Model) whole(ctx context.Context, body anthropic.MessageNewParams) (message.Chunk, error) {
	res, err := m.client.Messages.New(ctx, body)
	if err != nil {
		return message.Chunk{}, failure(err)
	}
	if res == nil { // the body is null, or there is none
		return message.Chunk{}, model.Broken(provider, io.ErrUnexpectedEOF)
	}
	c := message.Chunk{Message: message.Message{Type: message.TypeAI, Blocks: []any{}}}
	for i, part := range res.Content {
		b, err := read(part.RawJSON())
		if err != nil {
			return message.Chunk{}, model.Broken(provider, err)
		}
		if b["type"] == "tool_use" {
			c.ToolCallChunks = append(c.ToolCallChunks, message.ToolCallChunk{Name: part.Name, ID: part.ID, Args: string(part.Input), Index: &i})
		}
		c.Blocks = append(c.Blocks, b)
	}
	if len(res.Content) == 1 && res.Content[0].Type == "text" && len(res.Content[0].Citations) == 0 {
		c.Content, c.Blocks = res.Content[0].Text, nil
	}
	e := ending{id: res.ID, model: string(res.Model), reason: string(res.StopReason), sequence: res.StopSequence}
	if err := e.count(res.Usage.RawJSON()); err != nil {
		return message.Chunk{}, model.Broken(provider, err)
	}
	if e.reason == "" {
		return message.Chunk{}, model.Broken(provider, io.ErrUnexpectedEOF)
	}
	e.put(&c)
	if n := len(c.ToolCallChunks) - 1; n >= 0 && *c.ToolCallChunks[n].Index == len(res.Content)-1 && c.ToolCallChunks[n].Args == "{}" {
		c.ToolCallChunks[n].Args = "" // as in a stream, where it is not said that there are none
	}
	return c, nil
}

// stream hands on the parts of an answer.
func (m *Model) stream(ctx context.Context, body anthropic.MessageNewParams, asText bool, yield func(message.Chunk, error) bool) {
	s := m.client.Messages.NewStreaming(ctx, body)
	if err := s.Err(); err != nil {
		yield(message.Chunk{}, failure(err))
		return
	}
	defer s.Close()
	var e ending
	var kind string // of the block that is being sent
	for s.Next() {
		event := s.Current()
		if event.Type == "content_block_start" {
			kind = event.ContentBlock.Type
		}
		c, said, err := part(&event, kind, asText)
		if err == nil {
			err = e.read(&event)
		}
		if err != nil {
			yield(message.Chunk{}, model.Broken(provider, err))
			return
		}
		if said && !yield(c, nil) {
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
	last := message.Chunk{Message: message.AI("")}
	if !asText {
		last.Blocks = []any{} // so that an answer without any is a list, too
	}
	e.put(&last)
	yield(last, nil)
}

// part returns the chunk of an event; said is false if it has none. kind is the type of the block that
// the event belongs to.
func part(event *anthropic.MessageStreamEventUnion, kind string, asText bool) (c message.Chunk, said bool, err error) {
	c.Type = message.TypeAI
	var b message.Block
	index := int(event.Index)
	switch event.Type {
	case "content_block_start":
		start := event.ContentBlock
		if kind == "text" && start.Text == "" || kind == "thinking" && start.Thinking == "" && start.Signature == "" {
			return c, false, nil
		}
		if b, err = read(start.RawJSON()); err != nil {
			return c, false, err
		}
		if b["citations"] == nil {
			delete(b, "citations")
		}
		if kind == "tool_use" {
			call := message.ToolCallChunk{Name: start.Name, ID: start.ID, Index: &index}
			if input, ok := b["input"].(map[string]any); ok && len(input) > 0 {
				if call.Args, err = (message.ToolCall{Args: input}).ArgsJSON(); err != nil {
					return c, false, err
				}
			}
			c.ToolCallChunks = []message.ToolCallChunk{call}
		}
	case "content_block_delta":
		if b, err = read(event.JSON.Delta.Raw()); err != nil {
			return c, false, err
		}
		switch b["type"] {
		case "text_delta":
			b["type"] = "text"
		case "citations_delta":
			b["type"], b["citations"] = "text", []any{b["citation"]}
			delete(b, "citation")
		case "thinking_delta":
			b["type"] = "thinking"
		case "signature_delta":
			b["type"], b["thinking"] = "thinking", ""
		case "input_json_delta":
			if kind == "tool_use" {
				c.ToolCallChunks = []message.ToolCallChunk{{Args: event.Delta.PartialJSON, Index: &index}}
			}
		}
	default:
		return c, false, nil
	}
	if text, ok := b["text"].(string); ok && asText && b["type"] == "text" {
		c.Content = text
		return c, true, nil
	}
	b["index"] = event.Index
	c.Blocks = []any{b}
	return c, true, nil
}

// ending has the metadata of an answer.
type ending struct {
	id, model, reason, sequence string
	tokens                      tokens
}

// tokens are the counts that the answer contains. Counts at the end replace those at the beginning.
type tokens struct {
	Input         *int64           `json:"input_tokens"`
	Output        *int64           `json:"output_tokens"`
	CacheRead     *int64           `json:"cache_read_input_tokens"`
	CacheCreation *int64           `json:"cache_creation_input_tokens"`
	Creation      map[string]int64 `json:"cache_creation"`
	Details       struct {
		Thinking *int64 `json:"thinking_tokens"`
	} `json:"output_tokens_details"`
}

func (e *ending) read(event *anthropic.MessageStreamEventUnion) error {
	switch event.Type {
	case "message_start":
		e.id, e.model = event.Message.ID, string(event.Message.Model)
		return e.count(event.Message.Usage.RawJSON())
	case "message_delta":
		e.reason, e.sequence = string(event.Delta.StopReason), event.Delta.StopSequence
		return e.count(event.Usage.RawJSON())
	}
	return nil
}

func (e *ending) count(usage string) error {
	if usage == "" {
		return nil
	}
	return json.Unmarshal([]byte(usage), &e.tokens)
}

// put writes the ending into the last chunk.
func (e *ending) put(c *message.Chunk) {
	c.Last = true
	c.ResponseMetadata = map[string]any{"model_provider": provider, "id": e.id, "model_name": e.model, "stop_reason": e.reason, "stop_sequence": nil}
	if e.sequence != "" {
		c.ResponseMetadata["stop_sequence"] = e.sequence
	}
	c.Usage = e.tokens.usage()
}

// usage counts tokens as langchain-anthropic does. Anthropic's input tokens are those that were neither
// read from a cache nor written to one.
func (t *tokens) usage() *message.Usage {
	value := func(n *int64) int64 {
		if n == nil {
			return 0
		}
		return *n
	}
	in := map[string]int64{}
	if t.CacheRead != nil {
		in["cache_read"] = *t.CacheRead
	}
	if t.CacheCreation != nil {
		in["cache_creation"] = *t.CacheCreation
	}
	created := int64(0)
	for _, k := range []string{"ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"} {
		if n, ok := t.Creation[k]; ok {
			in[k] = n
			created += n
		}
	}
	if created > 0 {
		in["cache_creation"] = 0 // told by its parts
	} else {
		created = value(t.CacheCreation)
	}
	u := &message.Usage{InputTokens: value(t.Input) + value(t.CacheRead) + created, OutputTokens: value(t.Output), InputDetails: in}
	u.TotalTokens = u.InputTokens + u.OutputTokens
	if t.Details.Thinking != nil {
		u.OutputDetails = map[string]int64{"reasoning": *t.Details.Thinking}
	}
	return u
}

// failure is the error of a call, typed.
func failure(err error) error {
	var refused *anthropic.Error
	if !errors.As(err, &refused) {
		return model.Broken(provider, err)
	}
	var data struct {
		Error struct{ Type, Message string }
	}
	kind := string(refused.Type())
	if json.Unmarshal([]byte(refused.RawJSON()), &data) == nil && data.Error.Type != "" {
		kind = data.Error.Type
	}
	if refused.StatusCode < 400 { // in the middle of a stream that began well
		temporary := kind != "invalid_request_error" && kind != "authentication_error" && kind != "permission_error" && kind != "billing_error" &&
			kind != "not_found_error" && kind != "request_too_large"
		return &model.ProviderError{Provider: provider, Kind: kind, Message: data.Error.Message, Temporary: temporary, Err: err}
	}
	e := model.Refused(provider, refused.StatusCode, nil, kind, data.Error.Message, err)
	if refused.Response != nil {
		e = model.Refused(provider, refused.StatusCode, refused.Response.Header, kind, data.Error.Message, err)
	}
	return e
}
