package genai

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/genai"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
)

// convert puts messages into Gemini's form. A result of a tool goes behind the turn that called it.
func convert(list []message.Message, name string) (system *genai.Content, contents []*genai.Content, err error) {
	answered := map[int]bool{} // tool messages that have their place
	for i, m := range list {
		fail := func(err error) error { return fmt.Errorf("%w: message %d: %w", model.ErrRequest, i, err) }
		switch m.Type {
		case message.TypeSystem:
			parts, err := convertContent(m)
			if err != nil {
				return nil, nil, fail(err)
			}
			if system == nil {
				system = &genai.Content{}
			}
			system.Parts = append(system.Parts, parts...)
		case message.TypeHuman:
			parts, err := convertContent(m)
			if err != nil {
				return nil, nil, fail(err)
			}
			if len(parts) == 0 {
				continue // a person who said nothing
			}
			contents = append(contents, &genai.Content{Role: genai.RoleUser, Parts: parts})
		case message.TypeAI:
			turn, err := convertAnswer(m)
			if err != nil {
				return nil, nil, fail(err)
			}
			if len(turn.Parts) == 0 {
				continue // an answer of nothing
			}
			contents = append(contents, turn)
			results := &genai.Content{Role: genai.RoleUser}
			for _, call := range callsOf(m) { // results have no ids: they count in the order of the calls
				for j, r := range list {
					if r.Type != message.TypeTool || r.ToolCallID != call.ID || answered[j] {
						continue
					}
					answered[j] = true
					parts, err := convertResult(r, call.Name)
					if err != nil {
						return nil, nil, fmt.Errorf("%w: message %d: %w", model.ErrRequest, j, err)
					}
					results.Parts = append(results.Parts, parts...)
				}
			}
			if results.Parts != nil {
				contents = append(contents, results)
			}
		case message.TypeTool:
			if !answered[i] {
				return nil, nil, fail(fmt.Errorf("it answers the call %q, which no message before it makes", m.ToolCallID))
			}
		default:
			return nil, nil, fail(fmt.Errorf("its type is %q", m.Type))
		}
	}
	if isGemini3(name) {
		sign(contents)
	}
	return system, contents, nil
}

// callsOf are the ids and names of the calls of a turn of the model, in the order in which it has them.
func callsOf(m message.Message) []message.ToolCall {
	calls := slices.Clone(m.ToolCalls)
	for _, c := range m.InvalidToolCalls {
		if c.Name != "" {
			calls = append(calls, message.ToolCall{Name: c.Name, ID: c.ID})
		}
	}
	return calls
}

// convertAnswer is a turn of the model.
func convertAnswer(m message.Message) (*genai.Content, error) {
	parts, err := convertContent(m)
	if err != nil {
		return nil, err
	}
	turn := &genai.Content{Role: genai.RoleModel, Parts: parts}
	signed, _ := m.AdditionalKwargs[signatures].(map[string]any)
	add := func(name, id string, args map[string]any) {
		p := &genai.Part{FunctionCall: &genai.FunctionCall{Name: name, Args: args}}
		text, _ := signed[id].(string)
		p.ThoughtSignature = signature(text)
		turn.Parts = append(turn.Parts, p)
	}
	for _, c := range m.ToolCalls {
		if _, err := c.ArgsJSON(); err != nil {
			return nil, err
		}
		add(c.Name, c.ID, c.Args)
	}
	for _, c := range m.InvalidToolCalls {
		if c.Name != "" {
			add(c.Name, c.ID, nil)
		}
	}
	return turn, nil
}

// signature reads a signature; nil if it is none.
func signature(text string) []byte {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(b) == 0 {
		return nil
	}
	return b
}

// convertResult is the result of a call, with the images in it before it.
func convertResult(m message.Message, call string) ([]*genai.Part, error) {
	var parts []*genai.Part
	var response any
	if m.Blocks == nil {
		if json.Unmarshal([]byte(m.Content), &response) != nil {
			response = m.Content
		}
	} else {
		texts := []any{}
		for _, e := range m.Blocks {
			b, _ := e.(map[string]any)
			media, ok := message.MediaOf(b)
			if !ok {
				texts = append(texts, e)
				continue
			}
			p, err := convertMedia(media)
			if err != nil {
				return nil, err
			}
			parts = append(parts, p)
		}
		response = texts
	}
	o, ok := response.(map[string]any)
	if !ok {
		o = map[string]any{"output": response}
	}
	name := m.Name
	if name == "" {
		name = call
	}
	return append(parts, &genai.Part{FunctionResponse: &genai.FunctionResponse{Name: name, Response: o}}), nil
}

// convertContent returns the parts of a message. Of an answer of another provider, only text and media
// are sent.
func convertContent(m message.Message) ([]*genai.Part, error) {
	if m.Blocks == nil {
		if m.Content == "" && (m.Type == message.TypeAI || m.Type == message.TypeHuman) {
			return nil, nil
		}
		return []*genai.Part{{Text: m.Content}}, nil
	}
	made := m.ResponseMetadata["model_provider"]
	foreign := m.Type == message.TypeAI && made != nil && made != provider
	var parts []*genai.Part
	for i, e := range m.Blocks {
		b, ok := e.(map[string]any)
		if !ok {
			text, _ := e.(string)
			b = message.TextBlock(text)
		}
		p, err := convertBlock(b, foreign)
		if err != nil {
			return nil, fmt.Errorf("block %d: %w", i, err)
		}
		if p != nil {
			parts = append(parts, p)
		}
	}
	return parts, nil
}

// convertBlock is a block in Gemini's form; nil if it is left out.
func convertBlock(b message.Block, foreign bool) (*genai.Part, error) {
	text := func(key string) string { s, _ := b[key].(string); return s }
	var sign []byte
	if !foreign {
		extras, _ := b["extras"].(map[string]any)
		s, _ := extras["signature"].(string)
		if s == "" {
			s = text("signature")
		}
		sign = signature(s)
	}
	switch kind := text("type"); kind {
	case "text":
		if text("text") == "" && sign == nil {
			return nil, nil
		}
		return &genai.Part{Text: text("text"), ThoughtSignature: sign}, nil
	case "thinking", "reasoning":
		said := text(kind)
		if foreign || said == "" && sign == nil {
			return nil, nil
		}
		return &genai.Part{Text: said, Thought: true, ThoughtSignature: sign}, nil
	case "executable_code":
		return &genai.Part{ExecutableCode: &genai.ExecutableCode{Code: text("executable_code"), Language: genai.Language(text("language"))}}, nil
	case "code_execution_result":
		outcome := genai.OutcomeOK
		if n, ok := b["outcome"].(int64); ok && n != 1 {
			outcome = genai.OutcomeFailed
		}
		return &genai.Part{CodeExecutionResult: &genai.CodeExecutionResult{Output: text("code_execution_result"), Outcome: outcome}}, nil
	case "non_standard":
		return native(b["value"], foreign)
	case "tool_use", "input_json_delta", "tool_call", "tool_call_chunk", "invalid_tool_call", "function_call", "redacted_thinking", "reasoning_content",
		"server_tool_use", "server_tool_call", "server_tool_call_chunk", "server_tool_result":
		return nil, nil
	}
	if uri := text("file_uri"); uri != "" { // LangChain's "media" and "file_data"
		return &genai.Part{FileData: &genai.FileData{FileURI: uri, MIMEType: text("mime_type")}}, nil
	}
	media, ok := message.MediaOf(b)
	if text("type") == "media" {
		media, ok = message.Media{Kind: "file", Data: text("data"), MIMEType: text("mime_type")}, true
	}
	if !ok {
		if foreign {
			return nil, nil
		}
		return nil, fmt.Errorf("there is no form for a block of type %v", b["type"])
	}
	p, err := convertMedia(media)
	if err == nil {
		p.ThoughtSignature = sign
	}
	return p, err
}

// native is a part that came from Gemini and has no block of its own.
func native(v any, foreign bool) (*genai.Part, error) {
	if foreign {
		return nil, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	p := new(genai.Part)
	if err := json.Unmarshal(text, p); err != nil {
		return nil, err
	}
	return p, nil
}

// convertMedia converts media to Gemini's form.
func convertMedia(media message.Media) (*genai.Part, error) {
	switch {
	case media.Text != "":
		return &genai.Part{Text: media.Text}, nil
	case media.Data != "":
		data, err := base64.StdEncoding.DecodeString(media.Data)
		if err != nil {
			return nil, fmt.Errorf("the data of a block of type %q: %w", media.Kind, err)
		}
		if media.MIMEType == "" {
			return nil, errors.New("data without a MIME type")
		}
		return &genai.Part{InlineData: &genai.Blob{Data: data, MIMEType: media.MIMEType}}, nil
	}
	uri := media.URL
	if uri == "" {
		uri = media.FileID
	}
	return &genai.Part{FileData: &genai.FileData{FileURI: uri, MIMEType: media.MIMEType}}, nil
}

var geminiVersion = regexp.MustCompile(`gemini-(\d+)`)

// isGemini3 reports whether a model is of version 3 or later. Those answer in blocks, and want each
// call of a turn signed.
func isGemini3(name string) bool {
	found := geminiVersion.FindStringSubmatch(name)
	if found == nil {
		return false
	}
	n, err := strconv.Atoi(found[1])
	return err == nil && n >= 3
}

// unsigned is the signature that Google has for calls which have none, such as those that another
// model made.
var unsigned = func() []byte {
	b, err := base64.URLEncoding.DecodeString("skip_thought_signature_validator")
	if err != nil {
		panic(err)
	}
	return b
}()

// sign signs the first call of each turn since the person last spoke.
func sign(contents []*genai.Content) {
	start := 0
	for i, c := range contents {
		spoke, answers := false, false
		for _, p := range c.Parts {
			spoke = spoke || p.Text != "" || p.InlineData != nil
			answers = answers || p.FunctionResponse != nil
		}
		if c.Role == genai.RoleUser && spoke && !answers {
			start = i
		}
	}
	for _, c := range contents[start:] {
		if c.Role != genai.RoleModel {
			continue
		}
		for _, p := range c.Parts {
			if p.FunctionCall == nil {
				continue
			}
			if p.ThoughtSignature == nil {
				p.ThoughtSignature = unsigned
			}
			break
		}
	}
}
