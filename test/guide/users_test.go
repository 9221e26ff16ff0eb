package guide

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func recoverTickets(ctx context.Context, g *graph.Graph[Ticket], find func(id string) (*server.User, error)) (pregel.RecoverReport, error) {
	return g.Recover(ctx, pregel.RecoverOptions{Run: func(state *pregel.StateSnapshot) (pregel.RunOptions, error) {
		id, _ := state.Metadata["langgraph_auth_user_id"].(string)
		user, err := find(id)
		if err != nil {
			return pregel.RunOptions{}, err // this thread is reported as failed, and nothing ran
		}
		return pregel.RunOptions{Configurable: user.Configurable()}, nil
	}})
}

// TestUsersAfterACrash: Recover gives a run the user that the program finds, and none by itself. While an answer has no
// checkpoint of its own, the thread's newest one names the user of the run before.
func TestUsersAfterACrash(t *testing.T) {
	for _, asks := range []bool{false, true} {
		die := func() {}
		g, err := graph.For[Ticket]().Node("ask", func(ctx context.Context, _ *Ticket) (graph.Update, error) {
			if asks {
				if _, err := pregel.AskFor[bool](ctx, "assign it?"); err != nil {
					return nil, err
				}
			}
			die()
			return nil, ctx.Err()
		}).Node("assign", assign).Sequence(graph.Start, "ask", "assign", graph.End).Compile(graph.Options{Name: "tickets", Saver: memory.New(memory.Options{})})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		if asks { // ada's run ends with a question, and bob's, which answers it, is cut off
			if _, err := file(ctx, g, "ada", Ticket{Text: "help"}); err != nil {
				t.Fatal(err)
			}
			die = cancel
			bob := &server.User{Identity: "bob"}
			_, err = g.Resume(ctx, pregel.Thread("ticket-1"), true, pregel.RunOptions{Configurable: bob.Configurable()})
		} else {
			die = cancel
			_, err = file(ctx, g, "ada", Ticket{Text: "help"})
		}
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		die = func() {}
		away := errors.New("the directory of users is away")
		report, err := recoverTickets(t.Context(), g, func(id string) (*server.User, error) {
			return nil, fmt.Errorf("%s: %w", id, away)
		})
		if err != nil || len(report.Threads) != 1 || !errors.Is(report.Threads[0].Err, away) || !strings.Contains(report.Threads[0].Err.Error(), "ada: ") {
			t.Errorf("%+v, %v", report, err)
		}
		if !asks {
			report, err = recoverTickets(t.Context(), g, func(id string) (*server.User, error) {
				return &server.User{Identity: id, Claims: map[string]any{"org": id + "'s"}}, nil
			})
			if err != nil {
				t.Error(err)
			}
			if state, err := g.State(t.Context(), pregel.Thread("ticket-1")); err != nil || state.State.Org != "ada's" {
				t.Errorf("%+v, %v, %+v", state, err, report)
			}
		} else if report, err = g.Recover(t.Context(), pregel.RecoverOptions{}); err != nil || len(report.Threads) != 1 ||
			report.Threads[0].Err == nil || !strings.Contains(report.Threads[0].Err.Error(), "nobody is logged in") {
			t.Errorf("without a user: %+v, %v", report, err)
		}
	}
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
