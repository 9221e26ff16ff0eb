package agent

import (
	"context"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
)

// TestDirectUnnamed: a call whose answer names no tool counts as one of the tool that it names.
func TestDirectUnnamed(t *testing.T) {
	named := func(name string) tool.Tool {
		return tool.Must(tool.New(name, "", tool.Unchecked(`{"type":"object"}`), func(context.Context, struct{}) (string, error) { return "", nil }))
	}
	a := &agent{byName: map[string]tool.Tool{"direct": ReturnDirect(named("direct")), "normal": named("normal")}}
	direct, normal := message.ToolCall{Name: "direct", ID: "1"}, message.ToolCall{Name: "normal", ID: "2"}
	for name, want := range map[string]string{"": "MODEL", "normal": "MODEL", "direct": "END"} {
		second := message.ToolResult(normal, "x")
		second.Name = name
		state := map[string]any{KeyMessages: []message.Message{message.Human("go"), message.AI("", direct, normal), message.ToolResult(direct, "x"), second}}
		got, err := a.afterTools(destinations{model: "MODEL", end: "END"})(context.Background(), state)
		if err != nil || got != want {
			t.Errorf("an answer of %q: %v, %v", name, got, err)
		}
	}
}
