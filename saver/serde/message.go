package serde

import "strings"

// Message is a chat message, in whatever form it was stored.
type Message struct {
	// Role is LangChain's type of message: "human", "ai", "system", "tool",
	// "function", "chat", "remove". OpenAI's names are translated: "user",
	// "assistant" and "developer".
	Role    string
	Content any    // usually string, or []any of content blocks
	ID      string // empty if it has none
	Name    string // empty if it has none
	// Fields are all fields of the message, including those above. It is the stored map
	// itself, not a copy, so changes to it are written.
	Fields map[string]any
}

// Text is the content as text: the string itself, or the text blocks joined.
func (m Message) Text() string {
	switch c := m.Content.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, block := range c {
			switch block := block.(type) {
			case string:
				b.WriteString(block)
			case map[string]any:
				if text, ok := block["text"].(string); ok && (block["type"] == "text" || block["type"] == nil) {
					b.WriteString(text)
				}
			}
		}
		return b.String()
	}
	return ""
}

// MessageFrom reads v as a chat message: a LangChain message as msgpack or old
// JSON ({"lc": 1, …}) stored it, or a map with "role" or "type", and "content".
// ok is false if it is none of these.
func MessageFrom(v any) (Message, bool) {
	var f map[string]any
	role := ""
	switch v := v.(type) {
	case *Ext:
		if v == nil || !isMessageModule(v.Module) {
			return Message{}, false
		}
		f, role = v.Fields(), classRole(v.Name)
	case map[string]any:
		f = v
		if id, ok := v["id"].([]any); ok && len(id) > 0 && v["type"] == "constructor" {
			class, _ := id[len(id)-1].(string)
			if role = classRole(class); role == "" {
				return Message{}, false
			}
			f, _ = v["kwargs"].(map[string]any)
		}
	}
	if f == nil {
		return Message{}, false
	}
	m := Message{Role: role, Content: f["content"], Fields: f}
	if kind, ok := f["type"].(string); ok {
		m.Role = kind
		if r := classRole(kind); r != "" { // chunks have their class there
			m.Role = r
		}
	} else if given, ok := f["role"].(string); ok && (role == "" || role == "chat") {
		m.Role = given
	}
	switch m.Role {
	case "user":
		m.Role = "human"
	case "assistant":
		m.Role = "ai"
	case "developer":
		m.Role = "system"
	}
	m.ID, _ = f["id"].(string)
	m.Name, _ = f["name"].(string)
	_, hasContent := f["content"]
	return m, m.Role != "" && (hasContent || m.Role == "remove")
}

func isMessageModule(module string) bool {
	return strings.HasPrefix(module, "langchain_core.messages.")
}

// classRole is the role of a LangChain message class: "AIMessageChunk" is "ai".
func classRole(class string) string {
	class = strings.TrimSuffix(class, "Chunk")
	name, ok := strings.CutSuffix(class, "Message")
	if !ok || name == "Base" {
		return ""
	}
	return strings.ToLower(name)
}
