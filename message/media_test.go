package message_test

import (
	"testing"

	"github.com/stele-go/stele/message"
)

// TestMediaOf: the forms of LangChain, OpenAI and Anthropic for what is no text.
func TestMediaOf(t *testing.T) {
	type b = map[string]any
	for _, c := range []struct {
		block b
		want  message.Media
	}{
		{b{"type": "image", "url": "https://a/b.png"}, message.Media{Kind: "image", URL: "https://a/b.png"}},
		{b{"type": "image", "url": "data:image/png;base64,AA=="}, message.Media{Kind: "image", Data: "AA==", MIMEType: "image/png"}},
		{b{"type": "image", "base64": "AA==", "mime_type": "image/png"}, message.Media{Kind: "image", Data: "AA==", MIMEType: "image/png"}},
		{b{"type": "image", "source_type": "base64", "data": "AA==", "mime_type": "image/png"}, message.Media{Kind: "image", Data: "AA==", MIMEType: "image/png"}},
		{b{"type": "image_url", "image_url": b{"url": "https://a"}}, message.Media{Kind: "image", URL: "https://a"}},
		{b{"type": "image_url", "image_url": "data:image/gif;base64,AA=="}, message.Media{Kind: "image", Data: "AA==", MIMEType: "image/gif"}},
		{b{"type": "image", "source": b{"type": "base64", "media_type": "image/png", "data": "AA=="}}, message.Media{Kind: "image", Data: "AA==", MIMEType: "image/png"}},
		{b{"type": "image", "source": b{"type": "url", "url": "https://a"}}, message.Media{Kind: "image", URL: "https://a"}},
		{b{"type": "document", "source": b{"type": "text", "media_type": "text/plain", "data": "hi"}}, message.Media{Kind: "file", Text: "hi", MIMEType: "text/plain"}},
		{b{"type": "document", "source": b{"type": "file", "file_id": "f"}}, message.Media{Kind: "file", FileID: "f"}},
		{b{"type": "file", "file_id": "f"}, message.Media{Kind: "file", FileID: "f"}},
		{b{"type": "file", "source_type": "id", "id": "f"}, message.Media{Kind: "file", FileID: "f"}},
		{b{"type": "file", "source_type": "text", "text": "hi"}, message.Media{Kind: "file", Text: "hi"}},
		{b{"type": "file", "base64": "AA==", "mime_type": "application/pdf", "extras": b{"filename": "a.pdf"}}, message.Media{Kind: "file", Data: "AA==", MIMEType: "application/pdf", Filename: "a.pdf"}},
		{b{"type": "file", "file": b{"file_data": "data:application/pdf;base64,AA==", "filename": "a.pdf"}}, message.Media{Kind: "file", Data: "AA==", MIMEType: "application/pdf", Filename: "a.pdf"}},
		{b{"type": "audio", "base64": "AA==", "mime_type": "audio/wav"}, message.Media{Kind: "audio", Data: "AA==", MIMEType: "audio/wav"}},
		{b{"type": "input_audio", "input_audio": b{"data": "AA==", "format": "wav"}}, message.Media{Kind: "audio", Data: "AA==", MIMEType: "audio/wav"}},
		{b{"type": "video", "url": "https://a"}, message.Media{Kind: "video", URL: "https://a"}},
	} {
		if got, ok := message.MediaOf(c.block); !ok || got != c.want {
			t.Errorf("%v: %+v %v", c.block, got, ok)
		}
	}
	for _, none := range []b{nil, {}, {"type": "text", "text": "a"}, {"type": "image"}, {"type": "image_url"}, {"type": "image_url", "image_url": 1}, {"type": 1}, {"type": "file", "source": b{}}} {
		if got, ok := message.MediaOf(none); ok {
			t.Errorf("%v: %+v", none, got)
		}
	}
	if got := (message.Media{Data: "AA==", MIMEType: "image/png"}).DataURL(); got != "data:image/png;base64,AA==" {
		t.Error(got)
	}
}

// TestComplete: of a call that is cut off, Whole has what is there, and Complete no call.
func TestComplete(t *testing.T) {
	c := message.Chunk{Message: message.AI("a"), ToolCallChunks: []message.ToolCallChunk{
		{Name: "whole", ID: "1", Args: `{"a": 1}`}, {Name: "none", ID: "2"}, {Name: "cut", ID: "3", Args: `{"a": "b`}, {Name: "list", ID: "4", Args: `[1]`}, {Name: "broken", ID: "5", Args: `nope`},
	}}
	whole, err := c.Whole()
	if err != nil || len(whole.ToolCalls) != 3 || len(whole.InvalidToolCalls) != 2 {
		t.Errorf("%+v %v", whole, err)
	}
	m, err := c.Complete()
	if err != nil || len(m.ToolCalls) != 2 || len(m.InvalidToolCalls) != 3 || m.ToolCalls[1].ID != "2" {
		t.Fatalf("%+v %v", m, err)
	}
	if cut := m.InvalidToolCalls[2]; cut.ID != "3" || cut.Args != `{"a": "b` || cut.Error == "" {
		t.Errorf("%+v", cut)
	}
	for key, reason := range map[string]string{"finish_reason": "length", "stop_reason": "max_tokens"} {
		for _, reason := range []string{reason, "tool_calls"} { // the last call has no arguments, and may be cut off
			c := message.Chunk{Message: message.AI(""), ToolCallChunks: []message.ToolCallChunk{{Name: "none", ID: "1"}, {Name: "none", ID: "2"}}}
			c.ResponseMetadata = map[string]any{key: reason}
			m, err := c.Complete()
			cut := 0
			if reason != "tool_calls" {
				cut = 1
			}
			if err != nil || len(m.ToolCalls) != 2-cut || len(m.InvalidToolCalls) != cut || cut == 1 && (m.InvalidToolCalls[0].ID != "2" || m.InvalidToolCalls[0].Error == "") {
				t.Errorf("%s %s: %+v %v", key, reason, m, err)
			}
		}
	}
	if _, err := (message.Chunk{Message: message.Remove("1")}).Complete(); err == nil {
		t.Error("a removal is a message")
	}
}

func TestArgsJSON(t *testing.T) {
	for want, args := range map[string]map[string]any{"{}": nil, `{"a":"<é>","b":[1,2.5]}`: {"b": []any{int64(1), 2.5}, "a": "<é>"}} {
		if got, err := (message.ToolCall{Args: args}).ArgsJSON(); err != nil || got != want {
			t.Errorf("%s %v, want %s", got, err, want)
		}
	}
	if _, err := (message.ToolCall{Args: map[string]any{"c": make(chan int)}}).ArgsJSON(); err == nil {
		t.Error("a channel has a JSON")
	}
}
