package main

import (
	"context"
	"errors"
	"net/http"
	"os"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
)

// demo is an agent with a scripted model, and three threads to look at: one whose process died,
// one that waits for approval, and one with a fork.
func demo(ctx context.Context) (http.Handler, func() error, error) {
	dir, err := os.MkdirTemp("", "stele-studio-")
	if err != nil {
		return nil, nil, err
	}
	remove := func() error { return os.RemoveAll(dir) }
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	g, err := demoAgent(d)
	if err == nil {
		err = demoThreads(ctx, g)
	}
	if err != nil {
		return nil, nil, errors.Join(err, d.Close(), remove())
	}
	h, end, err := serveStore(ctx, d, func(c *server.Config) { c.Graphs["agent"] = g })
	if err != nil {
		return nil, nil, errors.Join(err, remove())
	}
	return h, func() error { return errors.Join(end(), remove()) }, nil
}

// dies is the context value that makes the weather station die while it is asked.
type dies struct{}

func demoAgent(s saver.Saver) (*pregel.Graph, error) {
	anything := tool.Unchecked(`{"type":"object"}`)
	weather, err := tool.New("weather", "The weather somewhere.", anything, func(ctx context.Context, _ map[string]any) (string, error) {
		if die, ok := ctx.Value(dies{}).(context.CancelFunc); ok {
			die()
			<-ctx.Done()
			return "", ctx.Err()
		}
		return "Rain until noon, then sun, 14 °C.", nil
	})
	if err != nil {
		return nil, err
	}
	mail, err := tool.New("mail", "Sends a mail.", anything, func(context.Context, map[string]any) (string, error) { return "sent", nil })
	if err != nil {
		return nil, err
	}
	return agent.New(model.NewScriptedFunc(demoModel), agent.Options{
		System: "You plan walks.", Tools: []tool.Tool{weather, mail},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})},
		Graph:      graph.Options{Saver: s},
	})
}

// demoModel asks for the weather, then for a mail, and then has done it.
func demoModel(_ context.Context, r model.Request) (model.Answer, error) {
	answered := 0
	for _, m := range r.Messages {
		switch m.Type {
		case message.TypeHuman:
			answered = 0
		case message.TypeTool:
			answered++
		}
	}
	said := model.Answer{Delay: 30 * time.Millisecond}
	switch answered {
	case 0:
		said.Message = message.AI("Let me see what the weather will be.", message.ToolCall{ID: "weather-1", Name: "weather", Args: map[string]any{"place": "Oslo"}})
	case 1:
		said.Message = message.AI("After noon it is dry. I will tell Ann.", message.ToolCall{ID: "mail-1", Name: "mail",
			Args: map[string]any{"to": "ann@example.org", "text": "A walk at two? It will be sunny."}})
	default:
		said.Message = message.AI("**Done.** Here is the plan:\n\n- a walk at *two*\n- Ann was asked")
	}
	return said, nil
}

func demoThreads(ctx context.Context, g *pregel.Graph) error {
	died, die := context.WithCancel(ctx)
	defer die()
	_, err := g.Invoke(context.WithValue(died, dies{}, die), pregel.Thread("a process that died"), agent.Say("Plan a walk for Sunday."))
	if !errors.Is(err, context.Canceled) {
		return errors.Join(errors.New("the demonstration's process did not die"), err)
	}
	approve := pregel.Command{Resume: map[string]any{"decisions": []any{map[string]any{"type": "approve"}}}}
	for _, id := range []string{"waits for approval", "a fork"} {
		if _, err := g.Invoke(ctx, pregel.Thread(id), agent.Say("Plan a walk for Sunday, and ask Ann.")); err != nil {
			return err
		}
	}
	fork := pregel.Thread("a fork")
	waiting, err := g.GetState(ctx, fork)
	if err != nil {
		return err
	}
	if _, err := g.Invoke(ctx, fork, approve); err != nil {
		return err
	}
	if _, err := g.Invoke(ctx, waiting.Address, nil); err != nil { // it asks again
		return err
	}
	other := pregel.Command{Resume: map[string]any{"decisions": []any{map[string]any{"type": "reject", "message": "Ann is away."}}}}
	_, err = g.Invoke(ctx, fork, other)
	return err
}
