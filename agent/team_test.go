package agent_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
)

// counting is a model that says the same with the number of its call.
type counting struct {
	says  string
	calls int
}

func (m *counting) Stream(context.Context, model.Request) iter.Seq2[message.Chunk, error] {
	return func(yield func(message.Chunk, error) bool) {
		m.calls++
		yield(message.Chunk{Message: message.AI(fmt.Sprint(m.says, m.calls))}, nil)
	}
}

// teamState is the state of a typed team.
type teamState struct {
	message.State
	Topic string `json:"topic"`
}

// summarizing is an agent that summarizes early, and the model of its summaries.
func summarizing(t *testing.T, name string, o graph.Options) (*pregel.Graph, *counting) {
	t.Helper()
	short := &counting{says: "summary "}
	g, err := agent.New(&counting{says: name + " "}, agent.Options{Name: name, Graph: o,
		Middleware: []agent.Middleware{agent.Summarize(agent.Summary{Model: short, Triggers: []agent.Trigger{{Messages: 6}}, Keep: agent.Trigger{Messages: 2}})}})
	if err != nil {
		t.Fatal(err)
	}
	return g, short
}

// turns lets a thread have turns, and returns the conversation after each.
func turns(t *testing.T, g *pregel.Graph, n int) (out []string) {
	t.Helper()
	for i := range n {
		res, err := g.Invoke(ctx, pregel.Thread("t"), agent.Say(fmt.Sprint("question ", i)))
		if err != nil {
			t.Fatal(err)
		}
		var texts []string
		for _, m := range must(agent.Messages(res.Map())) {
			text := m.Text()
			texts = append(texts, text[strings.LastIndex(text, "\n")+1:])
		}
		out = append(out, strings.Join(texts, "|"))
	}
	return out
}

// TestSummaryInATeam: an agent of a team that shares its conversation summarizes as often as it does
// alone, and the team's conversation becomes as short, whatever channel keeps it, and though each turn
// begins with what is stored.
func TestSummaryInATeam(t *testing.T) {
	const n = 9
	options := func() graph.Options {
		s, err := disk.Open(t.TempDir(), disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return graph.Options{Saver: s}
	}
	alone, short := summarizing(t, "ada", options())
	want := turns(t, alone, n)
	if short.calls < 2 || short.calls > n/2 {
		t.Fatalf("alone: %d summaries in %q", short.calls, want)
	}
	for name, build := range map[string]func(member *pregel.Graph) (*pregel.Graph, error){
		"messages": func(member *pregel.Graph) (*pregel.Graph, error) {
			return graph.New(graph.Key("messages", message.Channel(nil))).Subgraph("ada", member).Edge(graph.Start, "ada").Compile(options())
		},
		"deltas": func(member *pregel.Graph) (*pregel.Graph, error) {
			return graph.New(graph.Key("messages", message.DeltaChannel(3, nil))).Subgraph("ada", member).Edge(graph.Start, "ada").Compile(options())
		},
		"typed": func(member *pregel.Graph) (*pregel.Graph, error) {
			g, err := graph.For[teamState]().Subgraph("ada", member).Edge(graph.Start, "ada").Compile(options())
			return g.Untyped(), err
		},
		"two floors": func(member *pregel.Graph) (*pregel.Graph, error) {
			floor, err := graph.New(graph.Key("messages", message.Channel(nil))).Subgraph("ada", member).Edge(graph.Start, "ada").Compile(graph.Options{})
			if err != nil {
				return nil, err
			}
			return graph.New(graph.Key("messages", message.Channel(nil))).Subgraph("floor", floor).Edge(graph.Start, "floor").Compile(options())
		},
	} {
		member, inTeam := summarizing(t, "ada", graph.Options{})
		g, err := build(member)
		if err != nil {
			t.Fatal(name, err)
		}
		if got := turns(t, g, n); !slices.Equal(got, want) || inTeam.calls != short.calls {
			t.Errorf("%s: %d summaries and\n%s\nalone %d and\n%s", name, inTeam.calls, strings.Join(got, "\n"), short.calls, strings.Join(want, "\n"))
		}
	}
}

// TestSummaryBesideOthers: of agents that run at once, and of which some summarize, no word is lost, and
// no run fails because two removed one message.
func TestSummaryBesideOthers(t *testing.T) {
	for _, order := range [][]string{{"ada", "bob", "plain"}, {"plain", "bob", "ada"}, {"bob", "plain", "ada"}} {
		b := graph.New(graph.Key("messages", message.Channel(nil)))
		for _, name := range order {
			var member *pregel.Graph
			if name == "plain" {
				member = must(agent.New(&counting{says: "plain "}, agent.Options{Name: "plain"}))
			} else {
				member, _ = summarizing(t, name, graph.Options{})
			}
			b.Subgraph(name, member).Edge(graph.Start, name)
		}
		g, err := b.Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		var list []message.Message
		for i := range 8 {
			list = append(list, message.Human(fmt.Sprint("old ", i)))
		}
		res, err := g.Invoke(ctx, pregel.Address{}, map[string]any{"messages": list})
		if err != nil {
			var unknown *message.UnknownIDError
			t.Fatalf("%v: %v (unknown: %v)", order, err, errors.As(err, &unknown))
		}
		seen := map[string]int{}
		for _, m := range must(agent.Messages(res.Map())) {
			if m.Type == message.TypeRemove {
				t.Errorf("%v: a removal stays", order)
			}
			text := m.Text()
			seen[text[strings.LastIndex(text, "\n")+1:]]++
		}
		for _, text := range []string{"ada 1", "bob 1", "plain 1", "summary 1", "old 6", "old 7"} {
			if seen[text] == 0 {
				t.Errorf("%v: %q is lost of %v", order, text, seen)
			}
		}
	}
}

// TestSummaryHandedOver: an agent that summarizes and then hands the conversation over, as docs/guide/agents.md
// does, makes that of the team short.
func TestSummaryHandedOver(t *testing.T) {
	give := must(tool.New("give_to_bob", "", object, func(ctx context.Context, _ struct{}) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		state, err := tool.State[message.State](ctx)
		messages := slices.Concat(message.List{message.Remove(message.RemoveAllID)}, state.Messages, message.List{message.ToolResult(call.ToolCall, "bob takes over")})
		return pregel.Command{Graph: pregel.Parent, Goto: []any{"bob"}, Update: map[string]any{"messages": messages}}, err
	}))
	const n = 9
	var calls []model.Answer
	for i := range n {
		calls = append(calls, model.Calls(message.ToolCall{Name: "give_to_bob", ID: fmt.Sprint("call ", i)}))
	}
	short := &counting{says: "summary "}
	ada := must(agent.New(model.NewScripted(calls...), agent.Options{Name: "ada", Tools: []tool.Tool{give},
		Middleware: []agent.Middleware{agent.Summarize(agent.Summary{Model: short, Triggers: []agent.Trigger{{Messages: 10}}, Keep: agent.Trigger{Messages: 2}})}}))
	bob := must(agent.New(&counting{says: "bob "}, agent.Options{Name: "bob"}))
	g := must(graph.New(graph.Key("messages", message.Channel(nil))).Subgraph("ada", ada).Subgraph("bob", bob).Edge(graph.Start, "ada").
		Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	for i, conversation := range turns(t, g, n) {
		if long := strings.Count(conversation, "|") + 1; long > 12 {
			t.Errorf("turn %d: %d messages: %s", i, long, conversation)
		}
	}
	if short.calls < 2 || short.calls > n/2 {
		t.Errorf("%d summaries", short.calls)
	}
}

// TestMembersWithMemory: agents that keep the conversation themselves have it in another order than the
// team. Where none takes anything out, that of the team stays as it is.
func TestMembersWithMemory(t *testing.T) {
	b := graph.New(graph.Key("messages", message.Channel(nil)))
	for _, name := range []string{"ada", "bob"} {
		member := must(agent.New(&counting{says: name + " "}, agent.Options{Name: name, Graph: graph.Options{Checkpointing: pregel.Stable}}))
		b.Subgraph(name, member).Edge(graph.Start, name)
	}
	g := must(b.Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	got := turns(t, g, 3)
	if want := "question 0|ada 1|bob 1|question 1|ada 2|bob 2|question 2|ada 3|bob 3"; got[2] != want {
		t.Errorf("the conversation is %q, want %q", got[2], want)
	}
}
