package message_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/saver/serde"
)

// tree is what LangGraph would read: the fields of a stored message.
func tree(t *testing.T, data []byte) map[string]any {
	t.Helper()
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindMsgpack, Data: data})
	if err != nil {
		t.Fatal(err)
	}
	return v.(*serde.Ext).Fields()
}

// keys are the keys of a stored message, in the order of the bytes.
func keys(t *testing.T, data []byte, names ...string) (out []string) {
	t.Helper()
	for len(names) > 0 {
		first, at := -1, 0
		for i, n := range names {
			if j := bytes.Index(data, append([]byte{byte(0xa0 + len(n))}, n...)); j >= 0 && (first < 0 || j < at) {
				first, at = i, j
			}
		}
		if first < 0 {
			break
		}
		out = append(out, names[first])
		names = append(names[:first:first], names[first+1:]...)
	}
	return out
}

const odd = `{"type":"ai","content":"hi","name":null,"id":"","tool_calls":[{"name":"f","args":{"b":1,"a":2},"id":"c1","type":"tool_call","extra":1},{"name":"g","args":{},"id":null}],"invalid_tool_calls":[{"name":null,"args":"{","id":"","error":null,"type":"invalid_tool_call"}],"usage_metadata":{"total_tokens":3,"input_tokens":1,"output_tokens":2,"cost":1.5,"input_token_details":{"z":1,"audio":2}},"unknown":{"z":1,"a":2},"status":"x"}`

// oddStored is odd as Python would have stored it.
func oddStored(t *testing.T) []byte {
	t.Helper()
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: []byte(odd)})
	if err != nil {
		t.Fatal(err)
	}
	f := v.(map[string]any)
	list := serde.Fields{}
	for _, k := range []string{"unknown", "usage_metadata", "type", "content", "id", "name", "tool_calls", "invalid_tool_calls", "status"} {
		list = append(list, serde.Field{Name: k, Value: f[k]})
	}
	return encoded(t, serde.NewExt(serde.ExtPydanticV2, "langchain_core.messages.ai", "AIMessage", list, ""))
}

// TestChanges: what a program changes in a message that was read is written, and nothing else
// changes: neither fields that are not known, nor what was empty and what was missing, nor the
// order of keys.
func TestChanges(t *testing.T) {
	data := oddStored(t)
	for name, c := range map[string]struct {
		change func(*message.Message)
		want   func(f map[string]any)
	}{
		"nothing": {func(*message.Message) {}, func(map[string]any) {}},
		"content": {func(m *message.Message) { m.Content = "ho" }, func(f map[string]any) { f["content"] = "ho" }},
		"blocks":  {func(m *message.Message) { m.Blocks = []any{"a"} }, func(f map[string]any) { f["content"] = []any{"a"} }},
		"id":      {func(m *message.Message) { m.ID = "7" }, func(f map[string]any) { f["id"] = "7" }},
		"args in place": {func(m *message.Message) { m.ToolCalls[0].Args["a"] = int64(3) }, func(f map[string]any) {
			f["tool_calls"].([]any)[0].(map[string]any)["args"].(map[string]any)["a"] = int64(3)
		}},
		"name of a call in place": {func(m *message.Message) { m.ToolCalls[0].Name = "h" }, func(f map[string]any) {
			f["tool_calls"].([]any)[0].(map[string]any)["name"] = "h"
		}},
		"other args": {func(m *message.Message) { m.ToolCalls[1].Args = map[string]any{"x": nil} }, func(f map[string]any) {
			f["tool_calls"].([]any)[1].(map[string]any)["args"] = map[string]any{"x": nil}
		}},
		"fewer calls": {func(m *message.Message) { m.ToolCalls = m.ToolCalls[:1] }, func(f map[string]any) {
			f["tool_calls"] = f["tool_calls"].([]any)[:1]
		}},
		"a new call": {func(m *message.Message) { m.ToolCalls = append(m.ToolCalls, message.ToolCall{Name: "n", ID: "c9"}) }, func(f map[string]any) {
			f["tool_calls"] = append(f["tool_calls"].([]any), map[string]any{"name": "n", "args": map[string]any{}, "id": "c9", "type": "tool_call"})
		}},
		"an error": {func(m *message.Message) { m.InvalidToolCalls[0].Error = "bad" }, func(f map[string]any) {
			f["invalid_tool_calls"].([]any)[0].(map[string]any)["error"] = "bad"
		}},
		"usage": {func(m *message.Message) { m.Usage.InputTokens = 9 }, func(f map[string]any) { f["usage_metadata"].(map[string]any)["input_tokens"] = int64(9) }},
		"details": {func(m *message.Message) { m.Usage.InputDetails["audio"] = 9 }, func(f map[string]any) {
			f["usage_metadata"].(map[string]any)["input_token_details"].(map[string]any)["audio"] = int64(9)
		}},
		"no details": {func(m *message.Message) { m.Usage.InputDetails = nil }, func(f map[string]any) {
			delete(f["usage_metadata"].(map[string]any), "input_token_details")
		}},
		"no usage":       {func(m *message.Message) { m.Usage = nil }, func(f map[string]any) { f["usage_metadata"] = nil }},
		"extra":          {func(m *message.Message) { delete(m.Extra, "unknown") }, func(f map[string]any) { delete(f, "unknown") }},
		"extra in place": {func(m *message.Message) { m.Extra["unknown"].(map[string]any)["z"] = "y" }, func(f map[string]any) { f["unknown"].(map[string]any)["z"] = "y" }},
		"metadata":       {func(m *message.Message) { m.ResponseMetadata = map[string]any{"a": true} }, func(f map[string]any) { f["response_metadata"] = map[string]any{"a": true} }},
	} {
		var m message.Message
		decodeInto(t, data, &m)
		c.change(&m)
		got := encoded(t, m)
		want := tree(t, data)
		c.want(want)
		if show(tree(t, got)) != show(want) {
			t.Errorf("%s:\n got %s\nwant %s", name, show(tree(t, got)), show(want))
		}
		order := keys(t, got, "usage_metadata", "content", "tool_calls", "invalid_tool_calls", "status")
		if show(order) != `["usage_metadata","content","tool_calls","invalid_tool_calls","status"]` {
			t.Errorf("%s: order %q", name, order)
		}
	}
}

// TestOtherType: a message that is made one of another type is written as if it were new.
func TestOtherType(t *testing.T) {
	var m message.Message
	decodeInto(t, oddStored(t), &m)
	m.Type = message.TypeHuman
	got := encoded(t, m)
	if f := tree(t, got); f["type"] != "human" || f["tool_calls"] != nil || f["content"] != "hi" || f["unknown"] == nil {
		t.Errorf("%s", show(f))
	}
	m.Type = "robot"
	if _, err := serde.Default().Encode(m); !errors.Is(err, message.ErrNotMessage) {
		t.Errorf("type robot: %v", err)
	}
	if _, err := serde.Default().Encode(message.Chunk{Message: message.Remove("x")}); !errors.Is(err, message.ErrNotMessage) {
		t.Errorf("a chunk of a removal: %v", err)
	}
}

// TestZeroMessage: the zero Message is None, and back.
func TestZeroMessage(t *testing.T) {
	type state struct {
		Pinned message.Message  `json:"pinned"`
		Other  *message.Message `json:"other"`
	}
	typed, err := serde.Default().Encode(state{})
	if err != nil {
		t.Fatal(err)
	}
	if v, _ := serde.Default().Decode(typed); show(v) != `{"other":null,"pinned":null}` {
		t.Errorf("%s", show(v))
	}
	var back state
	if err := serde.Default().DecodeInto(typed, &back); err != nil || !back.Pinned.IsZero() || back.Other != nil {
		t.Errorf("%s %v", show(back), err)
	}
	m := message.Human("hi")
	if typed, err = serde.Default().Encode(state{Pinned: m, Other: &m}); err != nil {
		t.Fatal(err)
	}
	if err := serde.Default().DecodeInto(typed, &back); err != nil || !message.Equal(back.Pinned, m) || !message.Equal(*back.Other, m) {
		t.Errorf("%s %v", show(back), err)
	}
}

// TestCycle: a message that contains itself is refused, and does not end the process.
func TestCycle(t *testing.T) {
	m := message.AI("", message.ToolCall{Name: "f", Args: map[string]any{}})
	m.ToolCalls[0].Args["self"] = m.ToolCalls[0].Args
	m.AdditionalKwargs = m.ToolCalls[0].Args
	if _, err := m.MarshalJSON(); err == nil {
		t.Error("MarshalJSON")
	}
	if _, err := message.EncodeJS([]message.Message{m}); err == nil {
		t.Error("EncodeJS")
	}
	if _, err := serde.Default().Encode(m); !errors.Is(err, serde.ErrDepth) {
		t.Errorf("Encode: %v", err)
	}
	c := message.Chunk{Message: m}
	if _, err := c.Add(c); !errors.Is(err, message.ErrMerge) {
		t.Errorf("Add: %v", err)
	}
	c.AdditionalKwargs = nil
	if _, err := c.Whole(); !errors.Is(err, message.ErrMerge) {
		t.Errorf("Whole: %v", err)
	}
	c.ToolCalls = []message.ToolCall{{Name: "f", Args: map[string]any{"x": make(chan int)}}}
	if _, err := c.Add(); !errors.Is(err, message.ErrMerge) {
		t.Errorf("arguments that are no JSON: %v", err)
	}
	if n := message.CountApproximately([]message.Message{m}); n == 0 {
		t.Error("CountApproximately")
	}
}

func TestFromRefuses(t *testing.T) {
	ext := func(module, name string, v any) any { return serde.NewExt(serde.ExtPydanticV2, module, name, v, "") }
	for _, v := range []any{
		nil, 7, true, []any{}, []any{"user"}, []any{"user", 1.5, 2}, []any{1, "x"}, []string{"x"}, []any{"chat", "x"},
		map[string]any{}, map[string]any{"role": 1, "content": "x"}, (*message.Message)(nil), (*message.Chunk)(nil), (*serde.Ext)(nil),
		ext("app.models", "Invoice", map[string]any{}), ext("langchain_core.messages.base", "BaseMessage", map[string]any{}),
		ext("langchain_core.messages.modifier", "RemoveMessageChunk", map[string]any{}),
		ext("langchain_core.messages.human", "HumanMessage", "text"), &serde.Ext{Code: 5, Data: []byte{1}},
		message.Chunk{Message: message.Remove("x")},
	} {
		if m, err := message.From(v); !errors.Is(err, message.ErrNotMessage) {
			t.Errorf("%s: %s %v", show(v), show(m), err)
		}
	}
	if _, err := message.FromList([]any{"a", 7}); !errors.Is(err, message.ErrNotMessage) || !strings.Contains(err.Error(), "message 1") {
		t.Errorf("a list: %v", err)
	}
	var c message.Chunk
	if err := serde.Assign(&c, ext("langchain_core.messages.human", "HumanMessage", map[string]any{"content": "x"})); !errors.Is(err, message.ErrNotMessage) {
		t.Errorf("a whole message as a chunk: %v", err)
	}
}

// TestJSON: the JSON of a message has LangChain's fields, in its order, and is read again.
func TestJSON(t *testing.T) {
	m := message.AI("<é>", message.ToolCall{Name: "f", Args: map[string]any{"a": 1.0}, ID: "c"})
	want := `{"content":"<é>","additional_kwargs":{},"response_metadata":{},"type":"ai","name":null,"id":null,"tool_calls":[{"name":"f","args":{"a":1.0},"id":"c","type":"tool_call"}],"invalid_tool_calls":[],"usage_metadata":null}`
	got, err := m.MarshalJSON()
	if err != nil || string(got) != want {
		t.Errorf("%s %v", got, err)
	}
	for _, s := range python().Plain {
		var m, back message.Message
		decodeInto(t, s.Data, &m)
		m.Artifact = nil // bytes are no JSON
		text, err := json.Marshal(m)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || !message.Equal(m, back) {
			t.Errorf("%s: %v\n%s", text, err, show(back))
		}
	}
	for _, text := range []string{`7`, `{}`, `{"type":"robot","content":""}`, `{"type":"RemoveMessageChunk","content":""}`} {
		var m message.Message
		if err := json.Unmarshal([]byte(text), &m); !errors.Is(err, message.ErrNotMessage) {
			t.Errorf("%s: %v", text, err)
		}
		var c message.Chunk
		if err := json.Unmarshal([]byte(text), &c); !errors.Is(err, message.ErrNotMessage) {
			t.Errorf("chunk %s: %v", text, err)
		}
	}
}

// TestChunkJSON: the JSON of a chunk has LangChain's fields, and is read again.
func TestChunkJSON(t *testing.T) {
	for _, s := range python().Chunks {
		var c, back message.Chunk
		decodeInto(t, s.Data, &c)
		text, err := json.Marshal(c)
		if err == nil {
			err = json.Unmarshal(text, &back)
		}
		if err != nil || !sameChunk(c, back) {
			t.Errorf("%s: %s %v", text, show(back), err)
		}
		var m message.Message
		if err := json.Unmarshal(text, &m); err != nil || m.Type != c.Type || m.Text() != c.Text() {
			t.Errorf("%s as a message: %s %v", text, show(m), err)
		}
	}
}

// TestGrown: a conversation that grew is encoded at the cost of its new messages.
func TestGrown(t *testing.T) {
	list := talk(20)
	var read message.List
	decodeInto(t, encoded(t, list), &read)
	for _, l := range []message.List{list, read} {
		was, err := serde.Default().Encode(l[:17])
		if err != nil {
			t.Fatal(err)
		}
		g, ok := serde.Default().EncodeGrown(was, l, 3)
		if got := append(append(g.Head, was.Data[g.From:]...), g.Tail...); !ok || !bytes.Equal(got, encoded(t, l)) {
			t.Errorf("%v, %d bytes", ok, len(got))
		}
	}
}

// TestOldForms: messages that older releases of LangGraph stored, as models of pydantic 1 and as
// JSON, read as the same.
func TestOldForms(t *testing.T) {
	want := message.Message{Type: message.TypeHuman, Content: "hi", ID: "1", Extra: map[string]any{"example": false}}
	fields := serde.Fields{{Name: "content", Value: "hi"}, {Name: "type", Value: "human"}, {Name: "id", Value: "1"}, {Name: "example", Value: false}}
	data := encoded(t, serde.NewExt(serde.ExtPydanticV1, "langchain_core.messages.human", "HumanMessage", fields, ""))
	var m message.Message
	decodeInto(t, data, &m)
	if !message.Equal(m, want) || !bytes.Equal(encoded(t, m), data) {
		t.Errorf("pydantic 1: %s", show(m))
	}
	text := `{"lc":2,"type":"constructor","id":["langchain_core","messages","human","HumanMessage"],"method":[null,"construct"],"args":[],"kwargs":{"content":"hi","type":"human","id":"1","example":false}}`
	m = message.Message{}
	if err := serde.Default().DecodeInto(serde.Typed{Kind: serde.KindJSON, Data: []byte(text)}, &m); err != nil || !message.Equal(m, want) {
		t.Errorf("JSON: %s %v", show(m), err)
	}
}

// TestToolCallBytes: a tool call that stands alone, as what is sent to a node, is stored as
// LangChain's.
func TestToolCallBytes(t *testing.T) {
	c := message.ToolCall{Name: "f", Args: map[string]any{"a": int64(1)}}
	data := encoded(t, []any{c})
	if want := "\x91\x84\xa4name\xa1f\xa4args\x81\xa1a\x01\xa2id\xc0\xa4type\xa9tool_call"; string(data) != want {
		t.Errorf("%q, want %q", data, want)
	}
	var back []message.ToolCall
	decodeInto(t, data, &back)
	if len(back) != 1 || back[0].Name != "f" || back[0].Args["a"] != int64(1) || back[0].ID != "" {
		t.Errorf("%+v", back)
	}
	var one message.ToolCall
	if err := serde.Assign(&one, "text"); err == nil {
		t.Error("a text is a tool call")
	}
}

// TestToolCallJSON: a struct that embeds a call is marshalled with its own fields, and a call without
// arguments is read again.
func TestToolCallJSON(t *testing.T) {
	type reviewed struct {
		message.ToolCall
		Approved bool `json:"approved"`
	}
	data, err := json.Marshal(reviewed{message.ToolCall{Name: "f", ID: "c"}, true})
	if want := `{"name":"f","args":null,"id":"c","approved":true}`; err != nil || string(data) != want {
		t.Errorf("%s, want %s, %v", data, want, err)
	}
	var back message.ToolCall
	if err := serde.Default().DecodeInto(serde.Typed{Kind: serde.KindJSON, Data: data}, &back); err != nil || back.Name != "f" || back.ID != "c" {
		t.Errorf("%+v, %v", back, err)
	}
}

// TestBlocks: the blocks that this package makes are LangChain's.
func TestBlocks(t *testing.T) {
	m := message.Message{Type: message.TypeHuman, Blocks: []any{message.TextBlock("a"), "b", message.ImageURL("u"), message.Block{"type": "odd", "text": "x"}}}
	if m.Text() != "ab" {
		t.Errorf("text %q", m.Text())
	}
	if got := show(m.Blocks); got != `[{"text":"a","type":"text"},"b",{"image_url":{"url":"u"},"type":"image_url"},{"text":"x","type":"odd"}]` {
		t.Error(got)
	}
	r := message.ToolResult(message.ToolCall{Name: "f", ID: "c"}, "x")
	if r.Type != message.TypeTool || r.Name != "f" || r.ToolCallID != "c" || r.Content != "x" {
		t.Error(show(r))
	}
}

// heavy is a list of messages that take much more memory than their bytes.
func heavy(n int) message.List {
	m := message.AI("")
	m.Usage = &message.Usage{InputDetails: map[string]int64{}}
	for i := range n {
		m.ToolCalls = append(m.ToolCalls, message.ToolCall{})
		m.InvalidToolCalls = append(m.InvalidToolCalls, message.InvalidToolCall{})
		m.Usage.InputDetails[fmt.Sprint(i)] = 1
		m = withExtra(m, fmt.Sprint(i), i)
	}
	return message.List{m, m, message.Human("x")}
}

func withExtra(m message.Message, k string, v any) message.Message {
	if m.Extra == nil {
		m.Extra = map[string]any{}
	}
	m.Extra[k] = v
	return m
}

// TestMemoryLimit: what a codec writes, it can read; and what would take more memory than it
// may use, it refuses to read, before it allocates.
func TestMemoryLimit(t *testing.T) {
	refused, read := 0, 0
	for _, n := range []int{0, 1, 10, 100} {
		list := heavy(n)
		typed := serde.Typed{Kind: serde.KindMsgpack, Data: encoded(t, list)}
		for limit := int64(1 << 10); limit < 1<<24; limit += limit / 4 {
			codec := serde.Default().WithDecodeLimit(limit)
			_, eerr := codec.Encode(list)
			var back message.List
			derr := codec.DecodeInto(typed, &back)
			switch {
			case eerr == nil && derr != nil:
				t.Errorf("limit %d: written, and not read: %v", limit, derr)
			case derr != nil && !errors.Is(derr, serde.ErrDecodeLimit):
				t.Error(derr)
			case derr != nil:
				refused++
			default:
				read++
			}
		}
	}
	if refused == 0 || read == 0 {
		t.Errorf("refused %d, read %d", refused, read)
	}
}

// TestMemoryOfMessages: the limit counts what a message takes beyond the data that it is read
// from.
func TestMemoryOfMessages(t *testing.T) {
	calls := heavy(1000)[0]
	calls.Extra, calls.Usage = nil, nil
	typed := serde.Typed{Kind: serde.KindMsgpack, Data: encoded(t, calls)}
	limit := int64(1 << 10)
	for _, err := serde.Default().WithDecodeLimit(limit).Decode(typed); err != nil; _, err = serde.Default().WithDecodeLimit(limit).Decode(typed) {
		limit += limit / 100
	}
	var m message.Message
	if err := serde.Default().WithDecodeLimit(limit).DecodeInto(typed, &m); !errors.Is(err, serde.ErrDecodeLimit) {
		t.Errorf("limit %d, which the data alone takes: %v", limit, err)
	}
	if err := serde.Default().WithDecodeLimit(4*limit).DecodeInto(typed, &m); err != nil {
		t.Error(err)
	}
}

// TestEmbedded: what a program makes of a message or a call by embedding it is not stored as the
// message alone.
func TestEmbedded(t *testing.T) {
	type noted struct {
		message.Message
		Note string
	}
	type called struct {
		message.ToolCall
		Note string
	}
	type streamed struct {
		*message.Chunk
		Note string
	}
	type with struct {
		Said message.Message
		Call *message.ToolCall
		Note string
	}
	m, c := message.Human("hi"), message.ToolCall{Name: "add", ID: "c0"}
	for _, v := range []any{noted{m, "n"}, &noted{m, "n"}, called{c, "n"}, []*called{{c, "n"}}, streamed{&message.Chunk{Message: m}, "n"}} {
		var e *serde.EncodeError
		if _, err := serde.Default().Encode(v); !errors.As(err, &e) || !errors.Is(err, serde.ErrUnsupported) {
			t.Errorf("%T: %v", v, err)
		}
	}
	typed, err := serde.Default().Encode(with{m, &c, "n"})
	if err != nil {
		t.Fatal(err)
	}
	var back with
	if err := serde.Default().DecodeInto(typed, &back); err != nil || back.Note != "n" || back.Said.Content != "hi" || back.Call.Name != "add" {
		t.Errorf("%+v %v", back, err)
	}
}
