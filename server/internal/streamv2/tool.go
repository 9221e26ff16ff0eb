package streamv2

import (
	"encoding/json"
	"slices"

	"github.com/stele-go/stele/pregel"
)

// tool emits a step of a tool call. What a tool answered is also a message, whole at once, in a namespace of
// the call's own, where LangGraph's server puts it.
func (t *Translator) tool(data any) {
	m, _ := data.(map[string]any)
	t.add(methodTools, t.event.Namespace, m)
	call, _ := m["tool_call_id"].(string)
	answer := answerTo(call, m["output"])
	if call == "" || m["event"] != string(pregel.ToolFinished) || answer == nil {
		return
	}
	id, _ := answer["id"].(string)
	if id == "" {
		id = "tool-" + call
	}
	ns := append(slices.Clone(t.event.Namespace), "tools:"+call)
	whole := map[string]any{"type": "text", "text": textOf(answer["content"])}
	for _, e := range []map[string]any{
		{"event": "message-start", "role": "tool", "id": id, "tool_call_id": call},
		{"event": "content-block-start", "index": 0, "content": map[string]any{"type": "text", "text": ""}},
		{"event": "content-block-delta", "index": 0, "content": whole},
		{"event": "content-block-finish", "index": 0, "content": whole},
		{"event": "message-finish", "metadata": map[string]any{}},
	} {
		t.add(methodMessages, ns, e)
	}
}

// answerTo is the message that answers a call, in what its tool returned: the message, or a Command that writes it.
func answerTo(call string, output any) map[string]any {
	switch x := output.(type) {
	case []any:
		for _, e := range x {
			if m := answerTo(call, e); m != nil {
				return m
			}
		}
	case map[string]any:
		if x["type"] == "tool" && x["tool_call_id"] == call {
			return x
		}
		update, _ := x["update"].(map[string]any)
		for _, v := range update {
			if m := answerTo(call, v); m != nil {
				return m
			}
		}
	}
	return nil
}

// textOf is the content of a message as one text: that of blocks is JSON.
func textOf(content any) string {
	if text, ok := content.(string); ok || content == nil {
		return text
	}
	text, _ := json.Marshal(content) // it was decoded from JSON
	return string(text)
}
