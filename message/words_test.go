package message_test

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/message"
)

// TestWordsOfJSON: what is no message is told of in the words of JSON, whatever language it came from.
func TestWordsOfJSON(t *testing.T) {
	for _, c := range []struct {
		in   map[string]any
		says string
	}{
		{map[string]any{"role": "user", "content": []any{"a", 5}}, "part 1 of the content is an integer: use texts and blocks"},
		{map[string]any{"role": "user", "content": 5.5}, "the content is a number"},
		{map[string]any{"role": "user", "content": map[string]any{"a": 1}}, "the content is an object"},
		{map[string]any{"role": "user", "content": "x", "name": true}, "the name is a boolean"},
		{map[string]any{"role": "tool", "content": "x"}, "tool_call_id is null"},
		{map[string]any{"role": "ai", "content": "x", "tool_calls": "none"}, "tool_calls is a string"},
		{map[string]any{"role": "ai", "content": "x", "tool_calls": []any{[]any{}}}, "tool call 0 is a list"},
	} {
		if _, err := message.From(c.in); err == nil || !strings.HasSuffix(err.Error(), c.says) {
			t.Errorf("%v: %v, not %s", c.in, err, c.says)
		}
	}
	a, b := message.Chunk{Message: message.AI("")}, message.Chunk{Message: message.AI("")}
	a.AdditionalKwargs, b.AdditionalKwargs = map[string]any{"k": "x"}, map[string]any{"k": []any{}}
	if _, err := a.Add(b); err == nil || !strings.Contains(err.Error(), `"k" is a string and a list`) {
		t.Error(err)
	}
}
