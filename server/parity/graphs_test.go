package parity

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

type state = map[string]any

type builder = func(graph.Options) (*pregel.Graph, error)

// builders are the graphs of reference/graphs.py, node by node.
var builders = map[string]builder{
	"agent":      agentGraph,
	"ask":        askGraph,
	"configured": configuredGraph,
	"counter":    counterGraph,
	"custom":     customGraph,
	"error":      errorGraph,
	"fanout":     fanoutGraph,
	"jump":       jumpGraph,
	"nested":     nestedGraph,
	"notes":      notesGraph,
	"slow":       slowGraph,
	"spare":      counterGraph,
	"telling":    tellingGraph,
	"tooling":    toolingGraph,
	"written":    writtenGraph,
}

// graphs are those of builders, and more.
func graphs(s saver.Saver, items store.Store, more map[string]builder) (map[string]*pregel.Graph, error) {
	out, all := map[string]*pregel.Graph{}, maps.Clone(builders)
	maps.Copy(all, more)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		g, err := all[name](graph.Options{Name: name, Saver: s, Store: items})
		if err != nil {
			return nil, fmt.Errorf("graph %s: %w", name, err)
		}
		out[name] = g
	}
	return out, nil
}

// says is a node that writes the same whatever it reads.
func says(update state) pregel.Func {
	return func(context.Context, any) (any, error) { return update, nil }
}

func texts(name string) graph.Field { return graph.Key(name, channel.Reduce(channel.Append[string])) }

func counterGraph(o graph.Options) (*pregel.Graph, error) {
	saw := func(name string, n int) pregel.Func {
		return func(_ context.Context, s any) (any, error) {
			return state{"n": n, "log": []string{fmt.Sprintf("%s saw %v", name, s.(state)["n"])}}, nil
		}
	}
	b := graph.New(graph.Key("n", channel.Reduce(channel.Add[int])), texts("log"))
	b.Node("one", says(state{"n": 1, "log": []string{"one"}})).Node("two", saw("two", 10)).Node("three", saw("three", 100))
	b.Sequence(graph.Start, "one", "two", "three", graph.End)
	return b.Compile(o)
}

// parrot calls the tool that the last message names, or repeats the message.
func parrot(_ context.Context, r model.Request) (model.Answer, error) {
	last := r.Messages[len(r.Messages)-1]
	text, id := last.Text(), "lc_run--"+uuid.NewString()
	ai := func(text string) message.Message {
		m := message.AI(text)
		m.ID = id // as LangChain's models name their answers
		return m
	}
	if city, ok := strings.CutPrefix(text, "weather in "); ok && last.Type == message.TypeHuman {
		call := message.ToolCallChunk{Name: "weather", Args: fmt.Sprintf(`{"city": %q}`, city), ID: "call-" + city, Index: new(int)}
		return model.Answer{Chunks: []message.Chunk{{Message: ai(""), ToolCallChunks: []message.ToolCallChunk{call}}, {Message: ai(""), Last: true}}}, nil
	}
	var chunks []message.Chunk
	for _, word := range []string{"You ", "said: ", text} {
		chunks = append(chunks, message.Chunk{Message: ai(word)})
	}
	return model.Answer{Chunks: append(chunks, message.Chunk{Message: ai(""), Last: true})}, nil
}

func agentGraph(o graph.Options) (*pregel.Graph, error) {
	m := model.NewScriptedFunc(parrot)
	conversation := func(s any) ([]message.Message, error) { return message.FromList(s.(state)["messages"]) }
	b := graph.New(graph.Key("messages", message.Channel(nil)))
	b.Node("model", func(ctx context.Context, s any) (any, error) {
		list, err := conversation(s)
		if err != nil {
			return nil, err
		}
		answer, err := model.Call(ctx, m, model.Request{Messages: list})
		return state{"messages": message.List{answer}}, err
	})
	b.Node("tools", func(ctx context.Context, s any) (any, error) {
		list, err := conversation(s)
		if err != nil {
			return nil, err
		}
		var answers message.List
		for _, call := range list[len(list)-1].ToolCalls {
			city := call.Args["city"].(string)
			text := "It rains in " + city
			if city == "Rome" {
				answer, err := pregel.Ask(ctx, map[string]any{"question": "The weather of Rome?", "city": city})
				if err != nil {
					return nil, err
				}
				text = fmt.Sprint(answer)
			}
			answers = append(answers, message.ToolResult(call, text))
		}
		return state{"messages": answers}, nil
	})
	b.Edge(graph.Start, "model").Edge("tools", "model")
	b.Conditional("model", "route", func(_ context.Context, s any) (any, error) {
		list, err := conversation(s)
		if err == nil && len(list[len(list)-1].ToolCalls) > 0 {
			return "tools", nil
		}
		return graph.End, err
	}, "tools", graph.End)
	return b.Compile(o)
}

// needs is the schema of arguments of which one must be there.
type needs string

func (n needs) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, `{"type": "object", "required": [%q]}`, string(n)), nil
}

func (n needs) Validate(args map[string]any) error {
	if _, ok := args[string(n)]; !ok {
		return fmt.Errorf("%s is required", string(n))
	}
	return nil
}

type number struct {
	N int `json:"n"`
}

func toolingGraph(o graph.Options) (*pregel.Graph, error) {
	counting, err := counterGraph(graph.Options{})
	if err != nil {
		return nil, err
	}
	named, err := counterGraph(graph.Options{Metadata: state{"lc_agent_name": "counting"}})
	if err != nil {
		return nil, err
	}
	count := func(g *pregel.Graph) func(context.Context, number) (string, error) {
		return func(ctx context.Context, in number) (string, error) {
			out, err := g.Invoke(ctx, pregel.Inside(), state{"n": in.N}, pregel.RunOptions{})
			if err != nil {
				return "", err
			}
			return fmt.Sprint("It has ", out.Value.(state)["n"]), nil
		}
	}
	type city struct {
		City string `json:"city"`
	}
	type words struct {
		Text string `json:"text"`
	}
	var made []tool.Tool
	add := func(t tool.Tool, e error) {
		made, err = append(made, t), cmp.Or(err, e)
	}
	add(tool.New("weather", "The weather in a city.", needs("city"), func(ctx context.Context, in city) (string, error) {
		for _, part := range []string{"It rains", " in " + in.City} {
			if err := tool.Emit(ctx, part); err != nil {
				return "", err
			}
		}
		return "It rains in " + in.City, nil
	}))
	add(tool.New("broken", "Fails.", needs("text"), func(_ context.Context, in words) (string, error) { return "", fmt.Errorf("broken: %s", in.Text) }))
	add(tool.New("person", "Asks.", needs("question"), func(ctx context.Context, in struct {
		Question string `json:"question"`
	}) (string, error) {
		answer, err := pregel.Ask(ctx, in.Question)
		return fmt.Sprint("They say ", answer), err
	}))
	add(tool.New("inside", "Counts in a graph.", needs("n"), count(counting)))
	add(tool.New("helper", "Counts in an agent.", needs("n"), count(named)))
	add(tool.New("update", "Updates the state.", needs("text"), func(ctx context.Context, in words) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		return pregel.Command{Update: state{"messages": message.List{message.ToolResult(call.ToolCall, "It is "+in.Text)}}}, nil
	}))
	if err != nil {
		return nil, err
	}
	node, err := tool.NewNode(tool.Options{}, made...)
	if err != nil {
		return nil, err
	}
	b := graph.New(graph.Key("messages", message.Channel(nil))).Node("tools", node.Run)
	b.Conditional(graph.Start, "route", func(_ context.Context, s any) (any, error) {
		list, err := message.FromList(s.(state)["messages"])
		if err != nil {
			return nil, err
		}
		if calls := list[len(list)-1].ToolCalls; calls[0].Name == "helper" {
			return tool.Send("tools", calls), nil
		}
		return "tools", nil
	}, "tools")
	return b.Compile(o)
}

func writtenGraph(o graph.Options) (*pregel.Graph, error) {
	inner := graph.New(graph.Key("messages", message.Channel(nil)))
	inner.Node("say", func(ctx context.Context, s any) (any, error) {
		list, err := message.FromList(s.(state)["messages"])
		if err != nil {
			return nil, err
		}
		answer, err := model.Call(ctx, model.NewScriptedFunc(parrot), model.Request{Messages: list})
		return state{"messages": message.List{answer}}, err
	}).Edge(graph.Start, "say")
	inside, err := inner.Compile(graph.Options{Name: "inside"})
	if err != nil {
		return nil, err
	}
	b := graph.New(graph.Key("messages", message.Channel(nil)))
	b.Node("write", says(state{"messages": message.List{message.AI("merely written"), message.Human("a person")}}))
	b.Subgraph("inside", inside).Sequence(graph.Start, "write", "inside")
	return b.Compile(o)
}

func nestedGraph(o graph.Options) (*pregel.Graph, error) {
	leaf := graph.New(texts("path"))
	leaf.Node("leaf", says(state{"path": []string{"leaf"}}))
	leaf.Node("ask", func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, "deep?")
		return state{"path": []string{fmt.Sprintf("ask:%v", answer)}}, err
	})
	leaf.Sequence(graph.Start, "leaf", "ask")
	inner, err := leaf.Compile(graph.Options{Name: "inner"})
	if err != nil {
		return nil, err
	}
	mid := graph.New(texts("path"))
	mid.Node("before", says(state{"path": []string{"before"}})).Subgraph("inner", inner).Sequence(graph.Start, "before", "inner")
	middle, err := mid.Compile(graph.Options{Name: "middle"})
	if err != nil {
		return nil, err
	}
	b := graph.New(texts("path"))
	b.Node("top", says(state{"path": []string{"top"}})).Subgraph("middle", middle).Sequence(graph.Start, "top", "middle")
	return b.Compile(o)
}

func fanoutGraph(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(graph.Key("items", channel.LastValue[[]string]()), graph.Key("item", channel.LastValue[string]()), texts("done"))
	b.Node("plan", says(state{"done": []string{"plan"}}))
	b.Node("work", func(_ context.Context, s any) (any, error) {
		return state{"done": []string{fmt.Sprintf("did %v", s.(state)["item"])}}, nil
	})
	b.Edge(graph.Start, "plan")
	b.Conditional("plan", "send", func(_ context.Context, s any) (any, error) {
		var sends []any
		items, _ := s.(state)["items"].([]string)
		for _, item := range items {
			sends = append(sends, pregel.Send{Node: "work", Arg: state{"item": item}})
		}
		return sends, nil
	}, "work")
	return b.Compile(o)
}

// ValueError has the name of the error that the graph in Python fails with: clients see it.
type ValueError struct{ text string }

func (e *ValueError) Error() string { return e.text }

func errorGraph(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(texts("steps"), graph.Key("fail", channel.LastValue[bool]()))
	b.Node("first", says(state{"steps": []string{"first"}}))
	b.Node("second", func(_ context.Context, s any) (any, error) {
		if fail, given := s.(state)["fail"].(bool); fail || !given {
			return nil, &ValueError{"boom"}
		}
		return state{"steps": []string{"second"}}, nil
	})
	b.Sequence(graph.Start, "first", "second")
	return b.Compile(o)
}

// atB is the delay of the recorded runs that are at node b when the next requests come.
const atB = 0.3

func slowGraph(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(texts("steps"), graph.Key("delay", channel.LastValue[float64]()))
	for _, name := range []string{"a", "b", "c", "d"} {
		b.Node(name, func(ctx context.Context, s any) (any, error) {
			delay, _ := s.(state)["delay"].(float64)
			if name == "b" && delay == atB {
				delay = 15 // a busy machine takes longer than the recorded one
			}
			select {
			case <-time.After(time.Duration(delay * float64(time.Second))):
				return state{"steps": []string{name}}, nil
			case <-ctx.Done():
				return nil, context.Cause(ctx)
			}
		})
	}
	b.Sequence(graph.Start, "a", "b", "c", "d")
	return b.Compile(o)
}

func told() *graph.Builder { return graph.New(graph.Key("text", channel.LastValue[string]())) }

var emitted = []any{map[string]any{"progress": 1}, "half way", []any{1, nil, map[string]any{"x": 2.5}}}

func customGraph(o graph.Options) (*pregel.Graph, error) { return emits(o, emitted) }

func tellingGraph(o graph.Options) (*pregel.Graph, error) {
	return emits(o, append(slices.Clip(emitted), map[string]any{"name": "x", "payload": 1}, map[string]any{"name": "x", "more": []any{2}}, map[string]any{"payload": 3}))
}

func emits(o graph.Options, values []any) (*pregel.Graph, error) {
	b := told()
	b.Node("tell", func(ctx context.Context, _ any) (any, error) {
		for _, v := range values {
			if err := pregel.Emit(ctx, v); err != nil {
				return nil, err
			}
		}
		return state{"text": "told"}, nil
	})
	b.Edge(graph.Start, "tell")
	return b.Compile(o)
}

func askGraph(o graph.Options) (*pregel.Graph, error) {
	side := func(who string) pregel.Func {
		return func(ctx context.Context, _ any) (any, error) {
			answer, err := pregel.Ask(ctx, map[string]any{"who": who})
			return state{"answers": []string{fmt.Sprintf("%s:%v", who, answer)}}, err
		}
	}
	b := graph.New(graph.Key("name", channel.LastValue[string]()), texts("answers"))
	b.Node("left", side("left")).Node("right", side("right"))
	b.Node("twice", func(ctx context.Context, _ any) (any, error) {
		one, err := pregel.Ask(ctx, "first")
		if err != nil {
			return nil, err
		}
		two, err := pregel.Ask(ctx, "second")
		return state{"answers": []string{fmt.Sprintf("twice:%v:%v", one, two)}}, err
	})
	b.Edge(graph.Start, "left").Edge(graph.Start, "right").Join([]string{"left", "right"}, "twice")
	return b.Compile(o)
}

func configuredGraph(o graph.Options) (*pregel.Graph, error) {
	b := told()
	b.Node("show", func(ctx context.Context, _ any) (any, error) {
		info, _ := pregel.Task(ctx)
		style, ok := info.Configurable["style"]
		if !ok {
			style = "none"
		}
		return state{"text": fmt.Sprintf("style %v", style)}, nil
	})
	b.Edge(graph.Start, "show")
	return b.Compile(o)
}

func notesGraph(o graph.Options) (*pregel.Graph, error) {
	b := graph.New(graph.Key("note", channel.LastValue[string]()), graph.Key("seen", channel.Reduce(channel.Append[any])))
	b.Node("keep", func(ctx context.Context, s any) (any, error) {
		info, _ := pregel.Task(ctx)
		note, ns := s.(state)["note"].(string), store.Namespace{"notes", "all"}
		if err := info.Store.Put(ctx, ns, note, map[string]any{"text": note}); err != nil {
			return nil, err
		}
		found, err := info.Store.Search(ctx, store.Query{Prefix: ns})
		if err != nil {
			return nil, err
		}
		var keys []any
		for _, item := range found {
			keys = append(keys, item.Key)
		}
		slices.SortFunc(keys, func(a, b any) int { return strings.Compare(a.(string), b.(string)) })
		return state{"seen": []any{keys}}, nil
	})
	b.Edge(graph.Start, "keep")
	return b.Compile(o)
}

func jumpGraph(o graph.Options) (*pregel.Graph, error) {
	b := told()
	b.Node("choose", func(_ context.Context, s any) (any, error) {
		to := "near"
		if s.(state)["text"] == "far" {
			to = "far"
		}
		return pregel.Command{Update: state{"text": "chosen"}, Goto: to}, nil
	}, graph.NodeOptions{Targets: []string{"near", "far"}})
	b.Node("near", says(state{"text": "near"})).Node("far", says(state{"text": "far"}))
	b.Edge(graph.Start, "choose")
	return b.Compile(o)
}
