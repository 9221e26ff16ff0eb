package agent_test

import (
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
)

// TestGraph: the drawing of an agent is LangChain's, as the snapshots of its tests have it. But here an
// agent that has tools may always ask the model again, as TestAnswered shows; it is drawn so.
func TestGraph(t *testing.T) {
	hook := func(context.Context, map[string]any) (any, error) { return nil, nil }
	wrap := func(ctx context.Context, r agent.ModelRequest, next agent.ModelHandler) (agent.ModelResponse, error) {
		return next(ctx, r)
	}
	type list []agent.Middleware
	before := func(name string, jumps ...agent.Jump) agent.Middleware {
		return agent.Middleware{Name: name, BeforeModel: hook, Jumps: jumps}
	}
	after := func(name string, jumps ...agent.Jump) agent.Middleware {
		return agent.Middleware{Name: name, AfterModel: hook, Jumps: jumps}
	}
	both := func(name string) agent.Middleware {
		return agent.Middleware{Name: name, BeforeModel: hook, AfterModel: hook}
	}
	around := func(name string) agent.Middleware {
		return agent.Middleware{Name: name, BeforeModel: hook, WrapModel: wrap, AfterModel: hook}
	}
	made := map[string]struct {
		tools string
		list
	}{}
	add := func(name, tools string, m ...agent.Middleware) {
		made[name] = struct {
			tools string
			list
		}{tools, m}
	}
	const again = "\tmodel -.-> model;\n"
	const diagram, jumps = "test_create_agent_diagram", "test_async_middleware_with_can_jump_to_graph_snapshot"
	add(diagram, "")
	add(diagram+".1", "", before("NoopOne"))
	add(diagram+".2", "", before("NoopOne"), before("NoopTwo"))
	add(diagram+".3", "", before("NoopOne"), before("NoopTwo"), before("NoopThree"))
	add(diagram+".4", "", after("NoopFour"))
	add(diagram+".5", "", after("NoopFour"), after("NoopFive"))
	add(diagram+".6", "", after("NoopFour"), after("NoopFive"), after("NoopSix"))
	add(diagram+".7", "", both("NoopSeven"))
	add(diagram+".8", "", both("NoopSeven"), both("NoopEight"))
	add(diagram+".9", "", both("NoopSeven"), both("NoopEight"), both("NoopNine"))
	add(diagram+".10", "", around("NoopTen"))
	add(diagram+".11", "", around("NoopTen"), around("NoopEleven"))
	add(jumps, "", before("async_before_with_jump", agent.JumpEnd))
	add(jumps+".1", "", after("async_after_with_jump", agent.JumpModel, agent.JumpEnd))
	add(jumps+".2", "", before("async_before_early_exit", agent.JumpEnd), after("async_after_retry", agent.JumpModel))
	add(jumps+".3", "", before("sync_before_with_jump", agent.JumpEnd), after("async_after_with_jumps", agent.JumpModel, agent.JumpEnd))
	add("test_simple_agent_graph", "echo")
	add("test_agent_graph_with_jump_to_end_as_after_agent", "echo", agent.Middleware{Name: "NoopZero", BeforeAgent: hook, Jumps: []agent.Jump{agent.JumpEnd}},
		agent.Middleware{Name: "NoopOne", AfterAgent: hook}, agent.Middleware{Name: "NoopTwo", AfterAgent: hook})
	add("test_agent_graph_without_return_direct_tools", "echo")
	add("test_agent_graph_with_return_direct_tool", "final")
	add("test_agent_graph_with_mixed_tools", "final echo")
	for section := range strings.SplitSeq(string(must(os.ReadFile("testdata/drawings.txt"))), "=== ") {
		name, want, _ := strings.Cut(section, "\n")
		if name == "" {
			continue
		}
		o, ok := made[name]
		delete(made, name)
		if !ok {
			t.Errorf("%s: there is no such agent here", name)
		} else if got := must(agent.New(model.NewScripted(), agent.Options{Tools: tools(strings.Fields(o.tools)), Middleware: o.list})).Mermaid(); strings.Replace(got, again, "", 1) != want || strings.Contains(got, again) != (o.tools != "") {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
		}
	}
	for name := range made {
		t.Errorf("%s: there is no drawing of it", name)
	}
}
