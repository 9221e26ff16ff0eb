// Command supervisor is a team of agents. A supervisor decides who works next, and hands over by a
// tool that returns a Command for the graph around it. Each agent is a graph inside, with tools
// and a prompt of its own; the conversation is the state that they share.
//
//	go run ./examples/supervisor
package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

var nothing = tool.Unchecked(`{"type":"object"}`)

// handoff is a tool with which an agent gives the conversation to another one. The messages so far
// go with it, and behind them the answer to the call.
func handoff(to string) tool.Tool {
	return tool.Must(tool.New("give_to_"+to, "Lets "+to+" go on.", nothing, func(ctx context.Context, _ struct{}) (pregel.Command, error) {
		call, _ := tool.CallOf(ctx)
		state, err := tool.State[message.State](ctx)
		messages := append(slices.Clip(state.Messages), message.ToolResult(call.ToolCall, to+" goes on"))
		return pregel.Command{Graph: pregel.Parent, Goto: []any{to}, Update: map[string]any{"messages": messages}}, err
	}))
}

var add = tool.Must(tool.New("add", "Adds two numbers.", tool.Unchecked(`{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"integer"}}}`),
	func(_ context.Context, in struct{ A, B int }) (int, error) { return in.A + in.B, nil }))

// build makes the team: the supervisor begins, and whoever it hands over to gives back to it.
func build(models map[string]model.Model) (*pregel.Graph, error) {
	b := graph.New(graph.Key("messages", message.Channel(nil)))
	for _, o := range []agent.Options{
		{Name: "supervisor", System: "You decide who works next.", Tools: []tool.Tool{handoff("mathematician"), handoff("poet")}},
		{Name: "mathematician", System: "You compute.", Tools: []tool.Tool{add}},
		{Name: "poet", System: "You write verses."},
	} {
		g, err := agent.New(models[o.Name], o)
		if err != nil {
			return nil, err
		}
		if b.Subgraph(o.Name, g); o.Name != "supervisor" {
			b.Edge(o.Name, "supervisor")
		}
	}
	return b.Edge(graph.Start, "supervisor").Compile(graph.Options{Name: "team", Saver: memory.New(memory.Options{})})
}

// scripts are the models. Each says the next thing that it was told to.
func scripts() map[string]model.Model {
	call := func(name string, args map[string]any) model.Answer {
		return model.Calls(message.ToolCall{Name: name, ID: name, Args: args})
	}
	return map[string]model.Model{
		"supervisor":    model.NewScripted(call("give_to_mathematician", nil), call("give_to_poet", nil), model.Text("That was all.")),
		"mathematician": model.NewScripted(call("add", map[string]any{"a": 40, "b": 2}), model.Text("It is 42.")),
		"poet":          model.NewScripted(model.Text("Forty and two, the sum is true.")),
	}
}

func run(ctx context.Context, out io.Writer) error {
	g, err := build(scripts())
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread("task"), agent.Say("Add 40 and 2, and make a verse of it."))
	if err != nil {
		return err
	}
	list, err := agent.Messages(res.Map())
	for _, m := range list {
		who := cmp.Or(m.Name, "you")
		for _, c := range m.ToolCalls {
			fmt.Fprintf(out, "%-22s calls %s %v\n", who, c.Name, c.Args)
		}
		if m.Text() != "" {
			fmt.Fprintf(out, "%-22s %s\n", who, m.Text())
		}
	}
	return err
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
