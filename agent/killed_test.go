package agent_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// TestApprovedCallIsCutOff: a run is cut off in a tool call that a person has approved, in a team. The question
// does not wait any more, a rejection is refused, and Recover makes the call again with its key.
func TestApprovedCallIsCutOff(t *testing.T) {
	keys := map[string]int{}
	inTool, cut := context.WithCancel(ctx)
	dies := true
	pay := tool.Must(tool.New("pay", "Pays.", tool.Unchecked(`{"type":"object"}`), func(ctx context.Context, _ struct{}) (string, error) {
		key, err := tool.IdempotencyKey(ctx)
		if err != nil {
			return "", err
		}
		if keys[key]++; dies {
			cut()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "paid", nil
	}))
	member := must(agent.New(model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		if r.Messages[len(r.Messages)-1].Type == message.TypeHuman {
			return model.Calls(message.ToolCall{Name: "pay", ID: "1", Args: map[string]any{}}), nil
		}
		return model.Text(r.Messages[len(r.Messages)-1].Text()), nil
	}), agent.Options{Tools: []tool.Tool{pay}, Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"pay": {}}})}}))
	s := must(disk.Open(t.TempDir(), disk.Options{}))
	defer s.Close()
	g := must(graph.New(graph.Key("messages", message.Channel(nil))).Subgraph("clerk", member).Edge(graph.Start, "clerk").
		Compile(graph.Options{Saver: s, Name: "team"}))
	at := pregel.Thread("t")
	res := must(g.Invoke(ctx, at, agent.Say("pay")))
	decide := func(d agent.Decision) pregel.Command {
		return must(agent.Decide(res.Interrupts[0], func(agent.ActionRequest) agent.Decision { return d }))
	}
	if _, err := g.Invoke(inTool, at, decide(agent.Decision{Type: agent.Approve})); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	st := must(g.GetState(ctx, at))
	if st.Status != saver.StatusUnfinished || len(st.Interrupts) != 0 {
		t.Errorf("%s, %v; want it unfinished, and no question", st.Status, st.Interrupts)
	}
	if _, err := g.Invoke(ctx, at, decide(agent.Decision{Type: agent.Reject, Message: "no!"})); !errors.Is(err, pregel.ErrNoInterrupt) {
		t.Errorf("a rejection: %v; want ErrNoInterrupt", err)
	}
	dies = false
	report, err := g.Recover(ctx, pregel.RecoverOptions{})
	if err != nil || len(report.Threads) != 1 || report.Threads[0].Outcome != pregel.Recovered {
		t.Errorf("%+v, %v", report, err)
	}
	messages := must(agent.Messages(must(g.GetState(ctx, at)).Map()))
	if last := messages[len(messages)-1].Text(); last != "paid" || len(keys) != 1 {
		t.Errorf("it ends with %q after calls with the keys %v", last, keys)
	}
}
