package agent_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
)

// TestApprovalIsForOneRun: an approval, an edit, and the count of a limit hold for one run of one call of one
// message. What is done to the conversation after, a call that comes to the tools once more is decided anew. A call
// that was approved and has not run needs no other approval, also in a fork: as in LangChain.
func TestApprovalIsForOneRun(t *testing.T) {
	type thread struct {
		*testing.T
		g   *pregel.Graph
		at  pregel.Address
		w   *wiped
		end *pregel.StateSnapshot
	}
	messages := func(s *pregel.StateSnapshot) []message.Message {
		return must(agent.Messages(s.Values.(map[string]any)))
	}
	// rewrite stores a conversation in place of the one that is there, as a node: then what is behind it runs.
	rewrite := func(th thread, node string, list ...message.Message) {
		th.Helper()
		all := append([]message.Message{message.Remove(message.RemoveAllID)}, list...)
		must(th.g.UpdateState(ctx, th.at, pregel.StateUpdate{AsNode: node, Values: map[string]any{agent.KeyMessages: all}}))
	}
	const toTools, toHooks = "last.after_model", agent.NodeModel
	// again brings the first call to the tools once more.
	again := map[string]func(th thread){
		"its answer is removed":                    func(th thread) { rewrite(th, toTools, messages(th.end)[:2]...) },
		"its answer is removed, and the hooks run": func(th thread) { rewrite(th, toHooks, messages(th.end)[:2]...) },
		"its message is removed and comes back": func(th thread) {
			rewrite(th, toTools, messages(th.end)[0])
			rewrite(th, toTools, messages(th.end)[:2]...)
		},
		"its message is edited and edited back": func(th thread) {
			other := messages(th.end)[1]
			other.ToolCalls = []message.ToolCall{wipe("1", "other")}
			rewrite(th, toTools, messages(th.end)[0], other)
			rewrite(th, toTools, messages(th.end)[:2]...)
		},
		"it comes in another message": func(th thread) {
			other := messages(th.end)[1]
			other.ID = "another"
			rewrite(th, toTools, messages(th.end)[0], other)
		},
	}
	middleware := map[string]func() agent.Middleware{
		"person": func() agent.Middleware {
			return agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"wipe": {}}})
		},
		"person, per call": func() agent.Middleware {
			return agent.AskPerson(agent.Review{PerCall: true, Tools: map[string]agent.Gate{"wipe": {}}})
		},
		"limit": func() agent.Middleware { return agent.LimitToolCalls("wipe", agent.Limit{Thread: 1}) },
	}
	last := agent.Middleware{Name: "last", AfterModel: func(context.Context, map[string]any) (any, error) { return nil, nil }}
	for gate, make := range middleware {
		for way, twice := range again {
			for decide, stop := range map[string]pregel.RunOptions{
				"approve": {}, "edit": {}, "approve, before the model is asked": {InterruptAfter: []string{agent.NodeTools}}, "edit, before the model is asked": {InterruptAfter: []string{agent.NodeTools}},
			} {
				t.Run(fmt.Sprint(gate, "/", way, "/", decide), func(t *testing.T) {
					th := thread{T: t, at: pregel.Thread("1"), w: &wiped{ran: map[string]string{}}}
					m := model.NewScripted(model.Calls(wipe("1", "a")), model.Text("done"), model.Text("done again"), model.Text("and again"))
					th.g = must(agent.New(m, agent.Options{Tools: append(tools([]string{"echo"}), th.w.tool()), Middleware: []agent.Middleware{last, make()}, Graph: graph.Options{Saver: newStore()}}))
					kind, _, _ := strings.Cut(decide, ",")
					p := &person{decide: decisions(true)[kind]}
					res, err := th.g.Invoke(ctx, th.at, agent.Say("hi"), stop)
					for err == nil && len(res.Interrupts) > 0 {
						res, err = th.g.Invoke(ctx, th.at, p.answer(res.Interrupts), stop)
					}
					if err != nil || th.w.all != 1 {
						t.Fatalf("%d calls ran, %v", th.w.all, err)
					}
					th.end = must(th.g.GetState(ctx, th.at))
					twice(th)
					if res, err = th.g.Invoke(ctx, th.at, nil); err != nil || th.w.all != 1 {
						t.Fatalf("by one approval it ran %d times; %+v, %v", th.w.all, res, err)
					}
					if gate == "limit" {
						return
					}
					if len(res.Interrupts) != 1 {
						t.Fatalf("nobody was asked: %+v", res)
					}
					if _, err = th.g.Invoke(ctx, th.at, p.answer(res.Interrupts)); err != nil || th.w.all != 2 {
						t.Errorf("with another approval: it ran %d times, %v", th.w.all, err)
					}
				})
			}
		}
	}
}

// TestApprovalLapses: a call that was approved and taken out of its message before it ran is decided anew if it comes
// back after the model was asked.
func TestApprovalLapses(t *testing.T) {
	w, at := &wiped{ran: map[string]string{}}, pregel.Thread("1")
	m := model.NewScripted(model.Calls(wipe("1", "a")), model.Text("done"), model.Text("done again"))
	g := must(agent.New(m, agent.Options{Tools: append(tools([]string{"echo"}), w.tool()), Graph: graph.Options{Saver: newStore()},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"wipe": {}}})}}))
	p, stop := &person{decide: decisions(true)["approve"]}, pregel.RunOptions{InterruptBefore: []string{agent.NodeTools}}
	res := must(g.Invoke(ctx, at, agent.Say("hi"), stop))
	must(g.Invoke(ctx, at, p.answer(res.Interrupts), stop))
	approved := must(g.GetState(ctx, at))
	list := must(agent.Messages(approved.Values.(map[string]any)))

	// In a fork from there it runs by that approval, as in LangChain.
	must(g.Invoke(ctx, approved.Address, nil))
	if w.all != 1 {
		t.Fatalf("approved, and ran %d times", w.all)
	}
	none := list[1]
	none.ToolCalls, none.Content = nil, "nothing"
	must(g.UpdateState(ctx, approved.Address, pregel.StateUpdate{AsNode: agent.NodeTools, Values: map[string]any{agent.KeyMessages: none}}))
	must(g.Invoke(ctx, at, nil)) // the model is asked
	must(g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: "HumanInTheLoopMiddleware.after_model", Values: map[string]any{agent.KeyMessages: append([]message.Message{message.Remove(message.RemoveAllID)}, list...)}}))
	res = must(g.Invoke(ctx, at, nil))
	if w.all != 1 || len(res.Interrupts) != 1 {
		t.Errorf("ran %d times, asked %+v", w.all, res.Interrupts)
	}
}

// TestNotesOfAnother: state in place of the notes of gates that is none lets nothing pass, and makes no update fail.
func TestNotesOfAnother(t *testing.T) {
	m := model.NewScripted(model.Text("done"))
	g := must(agent.New(m, agent.Options{Graph: graph.Options{Saver: newStore()}, Middleware: []agent.Middleware{
		agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"echo": {}}})}, Tools: tools([]string{"echo"})}))
	at := pregel.Thread("1")
	must(g.Invoke(ctx, at, agent.Say("hi")))
	odd := []any{map[string]any{}, []any{}, 1, nil, "x"}
	for _, notes := range []any{map[string]any{"message": "x", "calls": odd}, map[string]any{"spent": odd}, map[string]any{"spent": odd, "calls": 1}} {
		if _, err := g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: agent.NodeModel, Values: map[string]any{"gates_passed": notes}}); err != nil {
			t.Errorf("%v: %v", notes, err)
		}
	}
}
