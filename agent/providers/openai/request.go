package openai

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// OpenAI refuses these in the name of who speaks, and in that of a call, which a model may have made up.
var unnamable, uncallable = regexp.MustCompile(`[\s<|\\/>]+`), regexp.MustCompile(`[^a-zA-Z0-9_-]`)

// callID is an id that OpenAI takes, the same each time: those of other providers may be longer.
func callID(id string) string {
	if len(id) <= 40 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "call_" + hex.EncodeToString(sum[:16])
}

// convert puts messages into OpenAI's form. What the results of tools have beside texts, which OpenAI refuses there,
// follows them in a message of the user.
func convert(list []message.Message) ([]any, error) {
	out := make([]any, 0, len(list))
	var shown []any
	show := func() {
		if shown != nil {
			out, shown = append(out, map[string]any{"role": "user", "content": shown}), nil
		}
	}
	for i, m := range list {
		converted, err := convertMessage(m)
		if err != nil {
			return nil, fmt.Errorf("%w: message %d: %w", model.ErrRequest, i, err)
		}
		if m.Type != message.TypeTool {
			show()
		} else if texts, others := split(converted["content"]); others != nil {
			converted["content"] = texts
			shown = append(append(shown, message.TextBlock(fmt.Sprintf("From the result of the tool call %q:", converted["tool_call_id"]))), others...)
		}
		out = append(out, converted)
	}
	show()
	return out, nil
}

// split splits a content into its texts and its other parts.
func split(content any) (texts any, others []any) {
	parts, _ := content.([]any)
	var said []any
	for _, p := range parts {
		if b, _ := p.(map[string]any); b["type"] == "text" {
			said = append(said, p)
		} else {
			others = append(others, p)
		}
	}
	if said == nil {
		return "The result is in the message of the user below.", others
	}
	return said, others
}

func convertMessage(m message.Message) (map[string]any, error) {
	content, err := convertContent(m)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"content": content}
	name := m.Name
	if name == "" {
		name, _ = m.AdditionalKwargs["name"].(string)
	}
	if name != "" && m.Type != message.TypeTool {
		out["name"] = unnamable.ReplaceAllString(name, "_")
	}
	switch m.Type {
	case message.TypeHuman:
		out["role"] = "user"
	case message.TypeSystem:
		out["role"] = "system"
		if role, ok := m.AdditionalKwargs["__openai_role__"].(string); ok {
			out["role"] = role
		}
	case message.TypeChat:
		out["role"] = m.Role
	case message.TypeFunction:
		out["role"] = "function"
	case message.TypeTool:
		out["role"], out["tool_call_id"] = "tool", callID(m.ToolCallID)
	case message.TypeAI:
		out["role"] = "assistant"
		calls, err := convertCalls(m)
		if err != nil {
			return nil, err
		}
		if calls != nil {
			out["tool_calls"] = calls
			if content == "" {
				out["content"] = nil
			}
		}
	default:
		return nil, fmt.Errorf("its type is %q", m.Type)
	}
	return out, nil
}

func convertCalls(m message.Message) ([]any, error) {
	var out []any
	add := func(id, name, args string) {
		name = uncallable.ReplaceAllString(name, "_")
		name = name[:min(len(name), 64)] // longer ones are refused
		out = append(out, map[string]any{"type": "function", "id": callID(id), "function": map[string]any{"name": name, "arguments": args}})
	}
	for _, c := range m.ToolCalls {
		args, err := c.ArgsJSON()
		if err != nil {
			return nil, err
		}
		add(c.ID, c.Name, args)
	}
	for _, c := range m.InvalidToolCalls {
		add(c.ID, c.Name, c.Args)
	}
	return out, nil
}

// foreign are types of blocks that other providers have, and that only they understand.
var foreign = map[any]bool{
	"tool_use": true, "input_json_delta": true, "thinking": true, "redacted_thinking": true, "reasoning": true, "reasoning_content": true,
	"function_call": true, "code_interpreter_call": true, "tool_call": true, "tool_call_chunk": true, "invalid_tool_call": true,
	"server_tool_use": true, "server_tool_call": true, "server_tool_call_chunk": true, "server_tool_result": true,
	"executable_code": true, "code_execution_result": true, "non_standard": true,
}

// convertContent is the content as a text or a list of blocks.
func convertContent(m message.Message) (any, error) {
	if m.Blocks == nil {
		return m.Content, nil
	}
	out := make([]any, 0, len(m.Blocks))
	for i, e := range m.Blocks {
		b, ok := e.(map[string]any)
		switch {
		case !ok:
			text, _ := e.(string)
			out = append(out, map[string]any{"type": "text", "text": text})
		case foreign[b["type"]]:
		case b["type"] == "text":
			out = append(out, map[string]any{"type": "text", "text": b["text"]})
		case b["type"] == "refusal":
			out = append(out, b)
		case m.Type == message.TypeAI: // an assistant has no other parts, whatever another provider's model or its tools made
		case b["type"] == "image_url" || b["type"] == "input_audio":
			out = append(out, b)
		default:
			block, err := convertMedia(b)
			if err != nil {
				return nil, fmt.Errorf("block %d: %w", i, err)
			}
			out = append(out, block)
		}
	}
	if len(out) == 0 {
		return "", nil // a list of no parts is refused
	}
	return out, nil
}

// convertMedia is a block that is no text in OpenAI's form.
func convertMedia(b message.Block) (message.Block, error) {
	if inner, ok := b["file"].(map[string]any); ok && b["type"] == "file" { // OpenAI's already
		return message.Block{"type": "file", "file": inner}, nil
	}
	media, ok := message.MediaOf(b)
	switch {
	case !ok:
		return nil, fmt.Errorf("there is no form for a block of type %v", b["type"])
	case media.Kind == "image" && media.Data != "" && media.MIMEType == "":
		return nil, fmt.Errorf("an image without a MIME type")
	case media.Kind == "image" && media.DataURL() != "":
		return message.ImageURL(media.DataURL()), nil
	case media.Kind == "audio" && media.Data != "":
		_, format, _ := strings.Cut(media.MIMEType, "/")
		return message.Block{"type": "input_audio", "input_audio": map[string]any{"data": media.Data, "format": format}}, nil
	case media.Kind == "file" && media.FileID != "":
		return message.Block{"type": "file", "file": map[string]any{"file_id": media.FileID}}, nil
	case media.Kind == "file" && media.Data != "":
		name := media.Filename
		if name == "" {
			name = "LC_AUTOGENERATED" // LangChain's; OpenAI refuses a file without a name
		}
		return message.Block{"type": "file", "file": map[string]any{"file_data": media.DataURL(), "filename": name}}, nil
	case media.Kind == "file" && media.Text != "":
		return message.TextBlock(media.Text), nil
	}
	return nil, fmt.Errorf("there is no form for this block of type %v", b["type"])
}
