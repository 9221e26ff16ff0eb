package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// nested is a schema with a definition of its own.
type nested struct{ worded }

func (nested) MarshalJSON() ([]byte, error) {
	return []byte(`{"type":"object","properties":{"text":{"$ref":"#/$defs/word"}},"$defs":{"word":{"type":"string"}}}`), nil
}

// TestDecideEach: each call gets its decision, the schema of a question has the definitions of the
// tool's, and arguments that a wrapped tool does not take are refused.
func TestDecideEach(t *testing.T) {
	ran := []string{}
	send := must(tool.New("send", "Sends.", nested{}, func(_ context.Context, in text) (string, error) {
		ran = append(ran, in.Text)
		return "sent", nil
	}))
	call := func(id, text string) message.ToolCall {
		return message.ToolCall{Name: "send", ID: id, Args: map[string]any{"text": text}}
	}
	g := must(agent.New(model.NewScripted(model.Calls(call("1", "a"), call("2", "b")), model.Text("done")), agent.Options{
		Tools:      []tool.Tool{agent.ReturnDirect(wrapped{send})},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{PerCall: true, Tools: map[string]agent.Gate{"send": {}}})},
		Graph:      graph.Options{Saver: memory.New(memory.Options{})},
	}))
	at := pregel.Thread("t")
	asked := must(g.Invoke(ctx, at, agent.Say("hi"))).Interrupts
	if len(asked) != 2 {
		t.Fatalf("%d questions", len(asked))
	}
	var schema struct {
		Defs map[string]json.RawMessage `json:"$defs"`
	}
	must(0, json.Unmarshal(must(json.Marshal(asked[0].ResponseSchema)), &schema))
	if string(schema.Defs["word"]) != `{"type":"string"}` {
		t.Errorf("%s", schema.Defs)
	}
	edit := func(args map[string]any) pregel.Command {
		return must(agent.DecideEach(asked, func(a agent.Approval) agent.Decision {
			if a.ID == "1" {
				return agent.Decision{Type: agent.Reject}
			}
			return agent.Decision{Type: agent.Edit, Edited: &agent.Action{Name: "send", Args: args}}
		}))
	}
	var refused *pregel.AnswerError
	if _, err := g.Invoke(ctx, at, edit(map[string]any{})); !errors.As(err, &refused) || !errors.Is(err, agent.ErrDecision) || !strings.Contains(err.Error(), "edited_action.args") || len(ran) > 0 {
		t.Errorf("%v, ran %v", err, ran)
	}
	asked = must(g.GetState(ctx, at)).Interrupts
	if _, err := g.Invoke(ctx, at, edit(map[string]any{"text": "c"})); err != nil || len(ran) != 1 || ran[0] != "c" {
		t.Errorf("%v, ran %v", err, ran)
	}
	var other *channel.TypeError
	if _, err := agent.DecideEach([]pregel.Interrupt{{Value: 7}}, nil); !errors.As(err, &other) {
		t.Errorf("another question: %v", err)
	}
}
