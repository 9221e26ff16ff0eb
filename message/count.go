package message

import (
	"math"
	"unicode/utf8"

	"github.com/stele-go/stele/message/pyrepr"
)

// CountApproximately estimates the tokens of messages: a token is four characters of text, of the
// repr of blocks and tool calls, of names and roles; each message has three more, and each image
// 85. It is LangChain's count_tokens_approximately, for TrimOptions.Count and for limits that need
// not be exact.
func CountApproximately(list []Message) int {
	const perMessage, perImage = 3, 85
	total := 0
	for i := range list {
		m := &list[i]
		chars, images := m.chars()
		total += images*perImage + int(math.Ceil(float64(chars)/4)) + perMessage
	}
	return total
}

// chars counts the characters of m, and its images.
func (m *Message) chars() (chars, images int) {
	count := utf8.RuneCountInString
	chars = count(m.Content) + count(m.Name) + count(m.openAIRole())
	if m.Blocks != nil {
		chars -= count(m.Content) // it is the text of the blocks, which are counted below
	}
	for _, e := range m.Blocks {
		block, ok := e.(map[string]any)
		if !ok {
			text, _ := e.(string)
			chars += count(text)
			continue
		}
		switch block["type"] {
		case "image", "image_url":
			images++
		case "text":
			text, _ := block["text"].(string)
			chars += count(text)
		default:
			chars += count(pyrepr.String(block))
		}
	}
	switch {
	case m.Type == TypeAI && m.Blocks == nil && len(m.ToolCalls) > 0:
		calls := make([]any, len(m.ToolCalls))
		for i, c := range m.ToolCalls {
			args := c.Args
			if args == nil {
				args = map[string]any{}
			}
			calls[i] = map[string]any{"name": c.Name, "args": args, "id": optional(c.ID, nil), "type": "tool_call"}
		}
		chars += count(pyrepr.String(calls))
	case m.Type == TypeTool:
		chars += count(m.ToolCallID)
	}
	return chars, images
}

// openAIRole is what OpenAI calls who speaks.
func (m *Message) openAIRole() string {
	switch m.Type {
	case TypeAI:
		return "assistant"
	case TypeHuman:
		return "user"
	case TypeSystem:
		if role, ok := m.AdditionalKwargs["__openai_role__"].(string); ok {
			return role
		}
	case TypeChat:
		return m.Role
	}
	return string(m.Type)
}
