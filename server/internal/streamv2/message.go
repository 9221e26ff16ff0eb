package streamv2

import (
	"fmt"
	"maps"
	"slices"
)

// message is a message that is being written, as the protocol shows it: a list of blocks, one after the
// other.
type message struct {
	ns       []string
	id       string
	usage    any
	metadata map[string]any  // what the model said of its answer
	told     map[string]bool // the types of blocks that were told
	block    map[string]any  // the one that is being written; nil if there is none
	index    int             // of block
	count    int             // of blocks
	call     any             // the index that the model gave the tool call in block
}

// message emits the events for a part of a message that a model streams. Messages that a node writes
// are only in the values.
func (t *Translator) message(data any) {
	pair, _ := data.([]any)
	if len(pair) == 0 {
		return
	}
	m, _ := pair[0].(map[string]any)
	id, _ := m["id"].(string)
	kind, _ := m["type"].(string)
	if id == "" || kind != "AIMessageChunk" || t.written[id] {
		return
	}
	ns := t.event.Namespace
	var msg *message
	for _, open := range t.texts {
		if open.id == id && slices.Equal(open.ns, ns) {
			msg = open
		}
	}
	if msg == nil {
		msg = &message{ns: slices.Clone(ns), id: id, metadata: map[string]any{}, told: map[string]bool{}}
		t.texts = append(t.texts, msg)
		t.add(methodMessages, ns, map[string]any{"event": "message-start", "role": "ai", "id": id})
	}
	if m["usage_metadata"] != nil {
		msg.usage = m["usage_metadata"]
	}
	metadata, _ := m["response_metadata"].(map[string]any)
	maps.Copy(msg.metadata, metadata)
	switch content := m["content"].(type) {
	case string:
		t.text(msg, "text", "text", content)
	case []any:
		for _, b := range content {
			t.block(msg, b)
		}
	}
	kwargs, _ := m["additional_kwargs"].(map[string]any)
	if refusal, ok := kwargs["refusal"].(string); ok && refusal != "" { // where OpenAI's chat completions have it
		t.block(msg, map[string]any{"type": "refusal", "refusal": refusal})
	}
	calls, _ := m["tool_call_chunks"].([]any)
	for _, c := range calls {
		if call, ok := c.(map[string]any); ok {
			t.toolCall(msg, call)
		}
	}
	if m["chunk_position"] == "last" {
		t.closeMessage(msg)
	}
}

// tell emits an event about the message.
func (t *Translator) tell(msg *message, event string, fields map[string]any) {
	data := map[string]any{"event": event}
	maps.Copy(data, fields)
	t.add(methodMessages, msg.ns, data)
}

// open begins a block. content is its first content.
func (t *Translator) open(msg *message, block, content map[string]any) {
	t.closeBlock(msg)
	msg.block, msg.index = block, msg.count
	kind, _ := block["type"].(string)
	msg.told[kind] = true
	msg.count++
	t.tell(msg, "content-block-start", map[string]any{"index": msg.index, "content": content})
}

// text emits a part of a block of text.
func (t *Translator) text(msg *message, kind, field, part string) {
	if part == "" {
		return
	}
	if msg.block["type"] != kind {
		t.open(msg, map[string]any{"type": kind, field: ""}, map[string]any{"type": kind, field: ""})
	}
	before, _ := msg.block[field].(string)
	msg.block[field] = before + part
	t.tell(msg, "content-block-delta", map[string]any{"index": msg.index, "delta": map[string]any{"type": kind + "-delta", field: part}})
}

// block emits a block of a message's content, or a part of one.
func (t *Translator) block(msg *message, v any) {
	if s, ok := v.(string); ok {
		t.text(msg, "text", "text", s)
		return
	}
	b, _ := v.(map[string]any)
	switch b["type"] {
	case "text":
		part, _ := b["text"].(string)
		t.text(msg, "text", "text", part)
	case "reasoning", "thinking":
		part, ok := b["reasoning"].(string)
		if !ok {
			part, _ = b["thinking"].(string)
		}
		t.text(msg, "reasoning", "reasoning", part)
	case "refusal": // the protocol has no delta of it: the end of the block has the whole
		if msg.block["type"] != "refusal" {
			t.open(msg, maps.Clone(b), b)
			return
		}
		before, _ := msg.block["refusal"].(string)
		part, _ := b["refusal"].(string)
		msg.block["refusal"] = before + part
	case "tool_use", "tool_call", "tool_call_chunk", "input_json_delta": // they are in the tool calls too
	case nil:
	default:
		t.open(msg, b, b)
	}
}

// toolCall emits a part of a tool call.
func (t *Translator) toolCall(msg *message, part map[string]any) {
	args, _ := part["args"].(string)
	id, _ := part["id"].(string)
	name, _ := part["name"].(string)
	same := msg.block["type"] == "tool_call_chunk" && msg.call == part["index"] && (id == "" || id == msg.block["id"])
	if !same {
		block := map[string]any{"type": "tool_call_chunk", "id": nil, "name": nil, "args": ""}
		if id != "" {
			block["id"] = id
		}
		if name != "" {
			block["name"] = name
		}
		msg.call = part["index"]
		content := maps.Clone(block)
		if msg.call != nil {
			content["index"] = msg.call
		}
		t.open(msg, block, content)
	} else if name != "" {
		before, _ := msg.block["name"].(string)
		msg.block["name"] = before + name
	}
	if args != "" {
		msg.block["args"] = fmt.Sprint(msg.block["args"], args)
		t.tell(msg, "content-block-delta", map[string]any{"index": msg.index, "delta": map[string]any{"type": "tool-call-delta", "args": args}})
	}
}

// closeBlock ends the block that is being written.
func (t *Translator) closeBlock(msg *message) {
	if msg.block == nil {
		return
	}
	content := msg.block
	if content["type"] == "tool_call_chunk" {
		text, _ := content["args"].(string)
		if text == "" {
			text = "{}"
		}
		args, err := plainJSON([]byte(text))
		if object, ok := args.(map[string]any); err == nil && ok {
			content = map[string]any{"type": "tool_call", "id": content["id"], "name": content["name"], "args": object}
		} else {
			content = map[string]any{"type": "invalid_tool_call", "id": content["id"], "name": content["name"], "args": content["args"],
				"error": "the arguments are no JSON object"}
		}
	}
	t.tell(msg, "content-block-finish", map[string]any{"index": msg.index, "content": content})
	msg.block = nil
}

// closeMessage ends a message.
func (t *Translator) closeMessage(msg *message) {
	t.closeBlock(msg)
	end := msg.ending()
	if msg.usage != nil {
		end["usage"] = msg.usage
	}
	t.tell(msg, "message-finish", end)
	t.written[msg.id] = true
	t.texts = slices.DeleteFunc(t.texts, func(o *message) bool { return o == msg })
}

// ending is why the message ended, as the model said it, in its own word and, if it has one, in LangChain's,
// which is that of what the message holds.
func (msg *message) ending() map[string]any {
	end := map[string]any{}
	for _, key := range []string{"finish_reason", "normalized_finish_reason", "finish_state"} {
		if v := msg.metadata[key]; v != nil && v != "" {
			end[key] = v
		}
	}
	switch normalized := end["normalized_finish_reason"]; {
	case normalized != nil && msg.told["refusal"]:
		end["normalized_finish_reason"] = "refusal"
	case normalized == "stop" && msg.told["tool_call_chunk"]:
		end["normalized_finish_reason"] = "tool_call"
	}
	if len(msg.metadata) > 0 {
		end["metadata"] = msg.metadata
	}
	return end
}

// finish ends the messages of graphs at ns and inside: their superstep is over.
func (t *Translator) finish(ns []string) {
	for _, msg := range slices.Clone(t.texts) {
		if len(msg.ns) >= len(ns) && slices.Equal(msg.ns[:len(ns)], ns) {
			t.closeMessage(msg)
		}
	}
}
