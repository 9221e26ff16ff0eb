// Command agent is a chat with an agent that looks up the weather and sends mails, each after a
// person has approved it. It shows its words as they come, remembers what was said, and survives
// kill -9: the process kills itself at random, again and again, also right after a mail went out.
// The next one goes on, and each mail goes out once.
//
//	go run ./examples/agent
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/model"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/tool"
)

var turns = []string{"Mail Ada the weather.", "Bob wants it too.", "And Eve."}

func main() {
	childMain()
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// build makes the agent. It may die at each step, and when a mail was sent.
func build(s saver.Saver, dir string, step func(sent bool)) (*pregel.Graph, error) {
	type mailArgs struct{ To, Text string }
	weather, err := tool.New("weather", "The weather here.", tool.Unchecked(`{"type":"object"}`),
		func(context.Context, struct{}) (string, error) { return "rain", nil })
	if err != nil {
		return nil, err
	}
	mail, err := tool.New("mail", "Sends a mail.", tool.Unchecked(`{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"}}}`),
		func(ctx context.Context, in mailArgs) (string, error) {
			call, _ := tool.CallOf(ctx)
			key, err := pregel.IdempotencyKey(ctx, call.ID) // the same after a crash
			if err != nil {
				return "", err
			}
			step(false)
			err = send(dir, key, in.To+": "+in.Text)
			step(true)
			return "sent to " + in.To, err
		})
	if err != nil {
		return nil, err
	}
	return agent.New(model.NewScriptedFunc(script), agent.Options{
		System:     "You send mails.",
		Tools:      []tool.Tool{weather, mail},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})},
		Graph:      graph.Options{Saver: s},
	})
}

// chat takes the turns that are left, from wherever the process before was killed.
func chat(ctx context.Context, dir string, step func(sent bool), out io.Writer) error {
	s, err := disk.Open(filepath.Join(dir, "state"), disk.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	g, err := build(s, dir, step)
	if err != nil {
		return err
	}
	at := pregel.Thread("chat")
	for {
		state, err := g.GetState(ctx, at)
		if err != nil {
			return err
		}
		said := 0 // by the person
		if values := state.Map(); values["messages"] != nil {
			list, err := agent.Messages(values)
			if err != nil {
				return err
			}
			said = len(message.Filter(list, message.FilterOptions{IncludeTypes: []message.Type{message.TypeHuman}}))
		}
		var input any // nil goes on with what a crash left
		switch {
		case len(state.Interrupts) > 0:
			fmt.Fprint(out, "\n[approved] ")
			input = pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{{Type: agent.Approve}}}}
		case state.Status == saver.StatusUnfinished:
			fmt.Fprint(out, "\n[going on] ")
		case said == len(turns):
			return nil
		default:
			fmt.Fprintf(out, "\n> %s\n", turns[said])
			input = agent.Say(turns[said])
		}
		for e, err := range g.Stream(ctx, at, input, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
			if err != nil {
				return err
			}
			if part, ok := e.Data.(pregel.MessageEvent).Message.(message.Chunk); ok {
				fmt.Fprint(out, part.Text())
			}
			step(false)
		}
	}
}
