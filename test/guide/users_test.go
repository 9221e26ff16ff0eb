package guide

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server"
)

type Ticket struct {
	Text string `json:"text"`
	Org  string `json:"org"`
}

func assign(ctx context.Context, t *Ticket) (graph.Update, error) {
	user, ok := server.UserOf(ctx)
	if !ok {
		return nil, errors.New("nobody is logged in")
	}
	org, _ := user.Claims["org"].(string)
	return graph.Write(&t.Org, org), nil
}

var refund = tool.Must(tool.New("refund", "Refunds an order.", tool.Unchecked(`{"type":"object"}`),
	func(ctx context.Context, in struct{ Order string }) (string, error) {
		if user, _ := server.UserOf(ctx); !slices.Contains(user.Permissions, "refund") {
			return "This user may not refund orders.", nil
		}
		return "Refunded order " + in.Order + ".", nil
	}))

func file(ctx context.Context, g *graph.Graph[Ticket], login string, t Ticket) (*graph.Result[Ticket], error) {
	user := &server.User{Identity: login, Claims: map[string]any{"org": "acme"}}
	return g.Run(ctx, pregel.Thread("ticket-1"), t, pregel.RunOptions{Configurable: user.Configurable()})
}

// TestUsers runs the page about who is logged in.
func TestUsers(t *testing.T) {
	g, err := graph.For[Ticket]().Node("assign", assign).Sequence(graph.Start, "assign", graph.End).Compile(graph.Options{Saver: memory.New(memory.Options{})})
	if err != nil {
		t.Fatal(err)
	}
	if res, err := file(t.Context(), g, "ada", Ticket{Text: "help"}); err != nil || res.State.Org != "acme" {
		t.Error(res, err)
	}
	if _, err := g.Run(t.Context(), pregel.Thread("ticket-2"), Ticket{}); err == nil {
		t.Error("a run of nobody was assigned")
	}

	tools, err := tool.NewNode(tool.Options{}, refund)
	if err != nil {
		t.Fatal(err)
	}
	chat, err := graph.For[message.State]().Func("tools", tools.Run).Edge(graph.Start, "tools").Compile(graph.Options{})
	if err != nil {
		t.Fatal(err)
	}
	call := message.List{message.AI("", message.ToolCall{Name: "refund", ID: "1", Args: map[string]any{"order": "7"}})}
	for want, user := range map[string]*server.User{
		"Refunded order 7.":                {Identity: "ada", Permissions: []string{"refund"}},
		"This user may not refund orders.": {Identity: "bob"},
	} {
		res, err := chat.Run(t.Context(), pregel.Address{}, message.State{Messages: call}, pregel.RunOptions{Configurable: user.Configurable()})
		if err != nil || res.State.Messages[1].Text() != want {
			t.Errorf("%s: %v, %v", user.Identity, res, err)
		}
	}
}
