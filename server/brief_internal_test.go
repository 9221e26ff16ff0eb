package server

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
)

// A line about a thread is words for a person, never what a tool answered a model.
func TestAboutThread(t *testing.T) {
	call := message.ToolCall{ID: "1", Name: "category", Args: map[string]any{}}
	calls := message.AI("", call, message.ToolCall{ID: "2", Name: "look"})
	structured := message.ToolResult(call, "Returning structured response: {'category': 'billing'}")
	long := strings.Repeat("ü", 300)
	for _, c := range []struct {
		values      any
		title, line string
	}{
		{nil, "", ""},
		{map[string]any{"n": 7, "text": "a", "also": "b"}, "", "also: b · text: a"},
		{map[string]any{"messages": []any{message.Human("refund me"), message.AI("I will.")}}, "refund me", "I will."},
		{map[string]any{"messages": []any{message.System("you help"), message.Human("refund me"), calls, structured}}, "refund me", "calls category, look"},
		{map[string]any{"messages": []any{message.Human(long)}, "text": "x"}, long[:2*aboutLength], long[:2*aboutLength]},
		{map[string]any{"messages": []any{structured}, "text": "x"}, "", "text: x"},
	} {
		if title, line := aboutThread(c.values); title != c.title || line != c.line {
			t.Errorf("%v: %q and %q, want %q and %q", c.values, title, line, c.title, c.line)
		}
	}
}
