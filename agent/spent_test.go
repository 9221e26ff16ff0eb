package agent_test

import (
	"fmt"
	"slices"
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
	// rewrite stores a conversation in place of the one that is there.
	rewrite := func(th thread, list ...message.Message) {
		th.Helper()
		all := append([]message.Message{message.Remove(message.RemoveAllID)}, list...)
		must(th.g.UpdateState(ctx, th.at, pregel.StateUpdate{AsNode: agent.NodeModel, Values: map[string]any{agent.KeyMessages: all}}))
	}
	toTools := func(th thread) (*pregel.Result, error) {
		return th.g.Invoke(ctx, th.at, pregel.Command{Goto: agent.NodeTools})
	}
	// again brings the first call to the tools once more.
	again := map[string]func(th thread) (*pregel.Result, error){
		"its answer is removed": func(th thread) (*pregel.Result, error) {
			rewrite(th, messages(th.end)[:2]...)
			return toTools(th)
		},
		"its answer is removed, and the hooks run": func(th thread) (*pregel.Result, error) {
			rewrite(th, messages(th.end)[:2]...)
			return th.g.Invoke(ctx, th.at, nil)
		},
		"its message is removed and comes back": func(th thread) (*pregel.Result, error) {
			list := messages(th.end)
			rewrite(th, list[0])
			rewrite(th, list[:2]...)
			return toTools(th)
		},
		"its message is edited and edited back": func(th thread) (*pregel.Result, error) {
			list := slices.Clone(messages(th.end)[:2])
			other := list[1]
			other.ToolCalls = []message.ToolCall{wipe("1", "other")}
			rewrite(th, list[0], other)
			rewrite(th, list...)
			return toTools(th)
		},
		"it comes in another message": func(th thread) (*pregel.Result, error) {
			list := messages(th.end)
			other := list[1]
			other.ID = "another"
			rewrite(th, list[0], other)
			return toTools(th)
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
	for gate, make := range middleware {
		for way, twice := range again {
			for _, decide := range []string{"approve", "edit"} {
				t.Run(fmt.Sprint(gate, "/", way, "/", decide), func(t *testing.T) {
					th := thread{T: t, at: pregel.Thread("1"), w: &wiped{ran: map[string]string{}}}
					m := model.NewScripted(model.Calls(wipe("1", "a")), model.Text("done"), model.Text("done again"), model.Text("and again"))
					th.g = must(agent.New(m, agent.Options{Tools: append(tools([]string{"echo"}), th.w.tool()), Middleware: []agent.Middleware{make()}, Graph: graph.Options{Saver: newStore()}}))
					p := &person{decide: decisions()[decide]}
					res, err := th.g.Invoke(ctx, th.at, agent.Say("hi"))
					for err == nil && len(res.Interrupts) > 0 {
						res, err = th.g.Invoke(ctx, th.at, p.answer(res.Interrupts))
					}
					if err != nil || th.w.all != 1 {
						t.Fatalf("%d calls ran, %v", th.w.all, err)
					}
					th.end = must(th.g.GetState(ctx, th.at))
					if res, err = twice(th); err != nil || th.w.all != 1 {
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
	p, stop := &person{decide: decisions()["approve"]}, pregel.RunOptions{InterruptBefore: []string{agent.NodeTools}}
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
	must(g.UpdateState(ctx, at, pregel.StateUpdate{AsNode: agent.NodeModel, Values: map[string]any{agent.KeyMessages: append([]message.Message{message.Remove(message.RemoveAllID)}, list...)}}))
	res = must(g.Invoke(ctx, at, pregel.Command{Goto: agent.NodeTools}))
	if w.all != 1 || len(res.Interrupts) != 1 {
		t.Errorf("ran %d times, asked %+v", w.all, res.Interrupts)
	}
}
