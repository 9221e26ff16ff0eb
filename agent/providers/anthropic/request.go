package anthropic

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// turn is a message in Anthropic's form.
type turn struct {
	Role    string `json:"role"`
	Content any    `json:"content"`
}

// convert puts messages into Anthropic's form. system is a text, a list of blocks, or nil.
func convert(list []message.Message) (system any, turns []turn, err error) {
	for i, m := range list {
		switch m.Type {
		case message.TypeHuman, message.TypeSystem, message.TypeAI, message.TypeTool:
		default:
			return nil, nil, fmt.Errorf("%w: message %d: its type is %q", model.ErrRequest, i, m.Type)
		}
	}
	// Anthropic has one system prompt, before all turns. What a later system message says counts as much there; in a
	// turn of the person it would count less.
	list = slices.Clone(list)
	slices.SortStableFunc(list, func(a, b message.Message) int { return rank(a) - rank(b) })
	merged := merge(list)
	last := -1
	for i, m := range merged {
		if m.Type != message.TypeSystem {
			last = i
		}
	}
	for i, m := range merged {
		content, err := convertContent(m)
		if err != nil {
			return nil, nil, err
		}
		if m.Type == message.TypeSystem {
			system = content
			continue
		}
		role := "user"
		if m.Type == message.TypeAI {
			role = "assistant"
			if content, err = addCalls(content, m); err != nil {
				return nil, nil, err
			}
			content = withoutRemains(content, merged[i:])
			if i == last {
				trimEnd(content)
				if text, ok := content.(string); ok {
					content = strings.TrimRightFunc(text, unicode.IsSpace)
				}
			}
		}
		if isEmpty(content) && (role == "user" || i != last) {
			continue // refused, but for an answer at the end
		}
		turns = append(turns, turn{role, content})
	}
	return system, turns, nil
}

// rank is 0 for a system message, and 1 for any other.
func rank(m message.Message) int {
	if m.Type == message.TypeSystem {
		return 0
	}
	return 1
}

// isEmpty reports whether a content has no words, nor anything else.
func isEmpty(content any) bool {
	switch c := content.(type) {
	case string:
		return strings.TrimSpace(c) == ""
	case []any:
		return len(c) == 0
	}
	return content == nil
}

// withoutRemains is the content of the first of messages without what an answer that broke off leaves, and Anthropic
// refuses: thoughts at the end, and calls of its own tools whose results are not there. Where no turn of a person is
// behind it, it may still go on with the results.
func withoutRemains(content any, messages []message.Message) any {
	blocks, ok := content.([]any)
	if !ok {
		return content
	}
	end := slices.IndexFunc(messages, func(m message.Message) bool { return m.Type != message.TypeAI })
	blocks = slices.DeleteFunc(slices.Clone(blocks), func(e any) bool {
		b, _ := e.(map[string]any)
		return end > 0 && (b["type"] == "server_tool_use" || b["type"] == "mcp_tool_use") &&
			!slices.ContainsFunc(messages[:end], func(m message.Message) bool {
				return slices.ContainsFunc(m.Blocks, func(e any) bool {
					r, _ := e.(map[string]any)
					return r["tool_use_id"] != nil && r["tool_use_id"] == b["id"]
				})
			})
	})
	for n := len(blocks) - 1; n >= 0; n-- {
		if b, _ := blocks[n].(map[string]any); b["type"] != "thinking" && b["type"] != "redacted_thinking" {
			break
		}
		blocks = blocks[:n]
	}
	return blocks
}

// trimEnd removes the space at the end of the last block, which Anthropic refuses there.
func trimEnd(content any) {
	if blocks, ok := content.([]any); ok && len(blocks) > 0 {
		b, _ := blocks[len(blocks)-1].(map[string]any)
		if text, ok := b["text"].(string); ok && b["type"] == "text" {
			b["text"] = strings.TrimRightFunc(text, unicode.IsSpace)
		}
	}
}

// merge makes results of tools parts of a person's turn, and joins turns of one side.
func merge(list []message.Message) (out []message.Message) {
	for _, m := range list {
		if m.Type == message.TypeTool {
			m = result(m)
		}
		if n := len(out) - 1; n >= 0 && m.Type == out[n].Type && m.Type != message.TypeAI {
			out[n].Blocks = slices.Concat(blocks(out[n]), blocks(m))
			out[n].Content = ""
			continue
		}
		out = append(out, m)
	}
	return out
}

func blocks(m message.Message) []any {
	if m.Blocks != nil {
		return m.Blocks
	}
	return []any{message.TextBlock(m.Content)}
}

// result is the turn with the result of a tool.
func result(m message.Message) message.Message {
	whole := len(m.Blocks) > 0 && !slices.ContainsFunc(m.Blocks, func(e any) bool {
		b, _ := e.(map[string]any)
		return b["type"] != "tool_result"
	})
	if whole {
		return message.Message{Type: message.TypeHuman, Blocks: m.Blocks}
	}
	b := message.Block{"type": "tool_result", "tool_use_id": callID(m.ToolCallID), "is_error": m.Status == message.StatusError, "content": m.Content}
	if m.Blocks != nil {
		parts := make([]any, len(m.Blocks))
		for i, e := range m.Blocks {
			if part, ok := e.(map[string]any); ok && part["cache_control"] != nil { // it belongs to the whole result
				b["cache_control"] = part["cache_control"]
				e = without(part, "cache_control")
			}
			parts[i] = e
		}
		b["content"] = parts
	}
	return message.Message{Type: message.TypeHuman, Blocks: []any{b}}
}

// validID matches the ids of calls that Anthropic accepts.
var validID = regexp.MustCompile(`^[a-zA-Z0-9_-]+$`)

// uncallable are the characters that Anthropic refuses in the name of a call, which a model may have made up.
var uncallable = regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// callID is an id that Anthropic takes, the same each time: other providers have others. It is
// LangChain's.
func callID(id string) string {
	if id == "" || validID.MatchString(id) {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "toolu_" + hex.EncodeToString(sum[:])[:24]
}

// convertContent is the content as a text or a list of blocks.
func convertContent(m message.Message) (any, error) {
	if m.Blocks == nil {
		return m.Content, nil
	}
	out := make([]any, 0, len(m.Blocks))
	for i, e := range m.Blocks {
		b, ok := e.(map[string]any)
		if !ok {
			text, _ := e.(string)
			b = message.TextBlock(text)
		}
		converted, err := convertBlock(b, &m)
		if err != nil {
			return nil, fmt.Errorf("%w: block %d: %w", model.ErrRequest, i, err)
		}
		if converted != nil {
			out = append(out, converted)
		}
	}
	return out, nil
}

// convertBlock is a block in Anthropic's form; nil if it is left out.
func convertBlock(b message.Block, m *message.Message) (message.Block, error) {
	kind, _ := b["type"].(string)
	ours := m.ResponseMetadata["model_provider"] == nil || m.ResponseMetadata["model_provider"] == provider
	foreign := !ours && m.Type == message.TypeAI // what another provider's model or its tools made; but for texts and calls, it has no form here
	switch kind {
	case "":
		return nil, errors.New("it has no type")
	case "text":
		if text, _ := b["text"].(string); strings.TrimSpace(text) == "" {
			return nil, nil // refused
		}
		return only(b, "type", "text", "cache_control", "citations"), nil
	case "thinking":
		if !ours {
			return nil, nil // Anthropic refuses a signature that is not its own
		}
		return only(b, "type", "thinking", "cache_control", "signature"), nil
	case "redacted_thinking":
		return only(b, "type", "cache_control", "data"), nil
	case "reasoning", "reasoning_content", "function_call", "tool_call", "tool_call_chunk", "invalid_tool_call", "input_json_delta",
		"server_tool_call", "server_tool_call_chunk", "server_tool_result", "executable_code", "code_execution_result", "non_standard":
		return nil, nil
	case "tool_use":
		return convertUse(b, m), nil
	case "server_tool_use", "mcp_tool_use":
		if foreign {
			return nil, nil
		}
		out := only(b, "type", "id", "input", "name", "server_name", "cache_control")
		if input, ok := b["input"].(map[string]any); ok && len(input) == 0 {
			if args := partial(b); len(args) > 0 {
				out["input"] = args
			}
		}
		return out, nil
	case "tool_result":
		return convertResult(b)
	}
	if foreign {
		return nil, nil
	}
	if strings.HasSuffix(kind, "_tool_result") {
		return only(b, "type", "content", "tool_use_id", "is_error", "cache_control", "retrieved_at"), nil
	}
	media, ok := message.MediaOf(b)
	if !ok || b["source"] != nil {
		return without(b, "index"), nil // Anthropic's own
	}
	return convertMedia(media, b)
}

// convertUse is a call of a tool among the blocks.
func convertUse(b message.Block, m *message.Message) message.Block {
	id, _ := b["id"].(string)
	for _, c := range m.ToolCalls {
		if c.ID == id {
			return use(c)
		}
	}
	args, _ := b["input"].(map[string]any)
	if len(args) == 0 {
		args = partial(b)
	}
	name, _ := b["name"].(string)
	return use(message.ToolCall{Name: name, ID: id, Args: args})
}

// partial is the input of a block whose input was streamed.
func partial(b message.Block) map[string]any {
	text, _ := b["partial_json"].(string)
	args, err := read(text)
	if err != nil {
		return nil
	}
	return args
}

func use(c message.ToolCall) message.Block {
	args := c.Args
	if args == nil {
		args = map[string]any{}
	}
	name := uncallable.ReplaceAllString(c.Name, "_")
	return message.Block{"type": "tool_use", "id": callID(c.ID), "name": name[:min(len(name), 128)], "input": args}
}

// convertResult is the result of a tool with its content converted.
func convertResult(b message.Block) (message.Block, error) {
	out := maps.Clone(b)
	if id, ok := b["tool_use_id"].(string); ok {
		out["tool_use_id"] = callID(id)
	}
	if parts, ok := b["content"].([]any); ok {
		content, err := convertContent(message.Message{Type: message.TypeHuman, Blocks: parts})
		if err != nil {
			return nil, err
		}
		out["content"] = content
	}
	return out, nil
}

// convertMedia converts media to Anthropic's form.
func convertMedia(media message.Media, b message.Block) (message.Block, error) {
	kind := map[string]string{"image": "image", "file": "document"}[media.Kind]
	if kind == "" {
		return nil, fmt.Errorf("there is no form for a block of type %v", b["type"])
	}
	var source map[string]any
	switch {
	case media.Data != "":
		mime := media.MIMEType
		if mime == "" && media.Kind == "file" {
			mime = "application/pdf"
		}
		if mime == "" {
			return nil, errors.New("an image without a MIME type")
		}
		source = map[string]any{"type": "base64", "media_type": mime, "data": media.Data}
	case media.URL != "":
		source = map[string]any{"type": "url", "url": media.URL}
	case media.Text != "":
		source = map[string]any{"type": "text", "media_type": "text/plain", "data": media.Text}
	default:
		source = map[string]any{"type": "file", "file_id": media.FileID}
	}
	out := message.Block{"type": kind, "source": source}
	for _, k := range []string{"cache_control", "citations", "title", "context"} {
		if v, ok := b[k]; ok {
			out[k] = v
		}
	}
	return out, nil
}

// addCalls adds the calls that are not among the blocks.
func addCalls(content any, m message.Message) (any, error) {
	if len(m.ToolCalls)+len(m.InvalidToolCalls) == 0 {
		return content, nil
	}
	list, ok := content.([]any)
	if text, _ := content.(string); !ok && text != "" {
		list = []any{message.TextBlock(text)}
	}
	there := func(id string) bool {
		return slices.ContainsFunc(list, func(e any) bool {
			b, _ := e.(map[string]any)
			return b["type"] == "tool_use" && b["id"] == callID(id)
		})
	}
	for _, c := range m.ToolCalls {
		if !there(c.ID) {
			list = append(list, use(c))
		}
	}
	for _, c := range m.InvalidToolCalls {
		if c.ID == "" || c.Name == "" || there(c.ID) {
			continue
		}
		args, err := read(c.Args)
		if err != nil {
			args = nil // what the model wrote is lost to it; the result says that it was broken
		}
		list = append(list, use(message.ToolCall{Name: c.Name, ID: c.ID, Args: args}))
	}
	return list, nil
}

// hasDocuments reports whether the answer may cite: LangChain then keeps it as blocks.
func hasDocuments(turns []turn) bool {
	return slices.ContainsFunc(turns, func(t turn) bool {
		list, _ := t.Content.([]any)
		return slices.ContainsFunc(list, func(e any) bool {
			b, _ := e.(map[string]any)
			citations, _ := b["citations"].(map[string]any)
			return b["type"] == "document" && citations["enabled"] == true
		})
	})
}

func only(b message.Block, keys ...string) message.Block {
	out := message.Block{}
	for _, k := range keys {
		if v, ok := b[k]; ok {
			out[k] = v
		}
	}
	return out
}

func without(b message.Block, key string) message.Block {
	out := maps.Clone(b)
	delete(out, key)
	return out
}

var errNoObject = errors.New("no JSON object")

// read reads a JSON object. A number without a fraction is an integer.
func read(text string) (map[string]any, error) {
	if !json.Valid([]byte(text)) {
		return nil, errNoObject
	}
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: []byte(text)})
	if err != nil {
		return nil, err
	}
	o, ok := v.(map[string]any)
	if !ok {
		return nil, errNoObject
	}
	return o, nil
}
