package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/store"
)

var people = store.Namespace{"people"} // what is known of them, in all threads

var note = tool.Must(tool.New("note", "Notes a fact about a person.", texts("who", "fact"),
	func(ctx context.Context, in struct{ Who, Fact string }) (string, error) {
		task, _ := pregel.Task(ctx)
		return "noted", task.Store.Put(ctx, people, in.Who, map[string]any{"fact": in.Fact})
	}))

var mail = tool.Must(tool.New("mail", "Sends a mail.", texts("to", "body"),
	func(ctx context.Context, in struct{ To, Body string }) (string, error) {
		key, err := tool.IdempotencyKey(ctx) // the same after a crash
		if err != nil {
			return "", err
		}
		return "sent to " + in.To, send(key, in.To+": "+in.Body)
	}))

// recall is the system prompt: it tells the model what is noted.
func recall(ctx context.Context, _ agent.ModelRequest) (string, error) {
	task, _ := pregel.Task(ctx)
	notes, err := task.Store.Search(ctx, store.Query{Prefix: people, ByKey: true})
	prompt := "You send mails."
	for _, n := range notes {
		prompt += fmt.Sprintf("\n%s: %s", n.Key, n.Value["fact"])
	}
	return prompt, err
}

// newAgent makes the agent. Each call of its model and of a tool has a minute, and three tries.
func newAgent(m model.Model, o graph.Options) (*pregel.Graph, error) {
	approval := agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})
	return agent.New(m, agent.Options{
		Tools:      []tool.Tool{note, mail},
		Middleware: []agent.Middleware{agent.DynamicPrompt(recall), approval},
		Defaults: graph.NodeOptions{Timeout: pregel.Timeout(time.Minute, 0),
			Retry: []pregel.RetryPolicy{{InitialInterval: time.Millisecond, NoJitter: true}}},
		Graph: o,
	})
}

// chat says something to the agent, and shows its words as they come. It goes on from whatever the
// last process left: a question, an unfinished run, or the next thing to say.
func chat(ctx context.Context, g *pregel.Graph, thread string, say []string, out io.Writer) error {
	at, words := pregel.Thread(thread), pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}
	for {
		state, err := g.GetState(ctx, at)
		if err != nil {
			return err
		}
		list, err := agent.Messages(state.Map())
		said := message.Filter(list, message.FilterOptions{IncludeTypes: []message.Type{"human"}})
		var input any // nil goes on with what a crash left
		switch {
		case err != nil:
			return err
		case len(state.Interrupts) > 0:
			input, err = agent.Decide(state.Interrupts[0], func(a agent.ActionRequest) agent.Decision {
				fmt.Fprintf(out, "\n[approved: %s %v] ", a.Name, a.Args)
				return agent.Decision{Type: agent.Approve}
			})
		case state.Status == saver.StatusUnfinished:
			fmt.Fprint(out, "\n[going on] ")
		case len(said) == len(say):
			return nil
		default:
			fmt.Fprintf(out, "\n> %s\n", say[len(said)])
			input = agent.Say(say[len(said)])
		}
		if err != nil {
			return err
		}
		for e, err := range g.Stream(ctx, at, input, words) {
			if err != nil {
				return err
			}
			fmt.Fprint(out, agent.Words(e))
		}
	}
}
