package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/message"
	steleprom "github.com/stele-go/stele/ops/prometheus"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/disk"
)

// chat is an agent whose threads grow by two messages each run. Every tenth call of its model fails
// and is tried again.
func chat(d *disk.Saver, graphs *steleprom.GraphCollector) (*pregel.Graph, error) {
	var calls atomic.Int64
	m := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		if calls.Add(1)%10 == 0 {
			return model.Fail(errors.New("busy")), nil
		}
		last := r.Messages[len(r.Messages)-1]
		answer := message.AI(fmt.Sprintf("answer to %q", last.Text()))
		answer.Usage = &message.Usage{InputTokens: int64(message.CountApproximately(r.Messages)), OutputTokens: 4}
		return model.Answer{Message: answer}, nil
	})
	return agent.New(graphs.Model("scripted", m), agent.Options{Name: "chat",
		Defaults: graph.NodeOptions{Retry: []pregel.RetryPolicy{{InitialInterval: time.Millisecond, NoJitter: true}}},
		Graph:    graph.Options{Saver: d, Hooks: graphs.Hooks(pregel.Hooks{})}})
}

// threads is how many conversations there are.
const threads = 20

// work runs the agent until ctx ends.
func work(ctx context.Context, d *disk.Saver, graphs *steleprom.GraphCollector, every time.Duration) error {
	g, err := chat(d, graphs)
	if err != nil {
		return err
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		_, err := g.Invoke(ctx, pregel.Thread(fmt.Sprintf("conversation-%d", n%threads)), agent.Say(fmt.Sprintf("question %d", n)))
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
