package studio

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

// mail is the state of the agent of testdata/langgraph, in Go.
type mail struct {
	message.State
	Sent []string `json:"sent" state:"append"`
	Note string   `json:"note"`
}

// modelWorks mends the model of those who ask it to fail.
var modelWorks atomic.Bool

func talk(ctx context.Context, s *mail) (graph.Update, error) {
	last := s.Messages[len(s.Messages)-1]
	if strings.Contains(last.Text(), "think for ever") {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	if last.Type == message.TypeTool {
		done := message.AI("**Done.** The mail is on its way.")
		done.Usage = &message.Usage{InputTokens: 10, OutputTokens: 12, TotalTokens: 22}
		return graph.Write(&s.Messages, message.List{done}), nil
	}
	if strings.Contains(last.Text(), "fail") && !modelWorks.Load() {
		return nil, errors.New("the model is not there")
	}
	call := message.ToolCall{ID: "call-1", Name: "send_mail", Args: map[string]any{"to": "ann", "text": last.Text()}}
	return graph.Write(&s.Messages, message.List{message.AI("I will send it.", call)}).And(graph.Write(&s.Note, "asked")), nil
}

func send(ctx context.Context, s *mail) (graph.Update, error) {
	call := s.Messages[len(s.Messages)-1].ToolCalls[0]
	answer, err := pregel.AskFor[string](ctx, map[string]any{"question": "Send this mail?", "to": call.Args["to"]})
	if err != nil {
		return nil, err
	}
	return graph.Write(&s.Messages, message.List{message.ToolResult(call, "answer: "+answer)}).And(graph.Write(&s.Sent, []string{"ann"})), nil
}

func mailGraph(s saver.Saver) (*pregel.Graph, error) {
	g, err := graph.For[mail]().
		Node("model", talk).Node("send", send).
		Edge(graph.Start, "model").Edge("send", "model").
		Conditional("model", func(_ context.Context, s *mail) (string, error) {
			if len(s.Messages[len(s.Messages)-1].ToolCalls) > 0 {
				return "send", nil
			}
			return graph.End, nil
		}, "send", graph.End).
		Compile(graph.Options{Name: "mail", Saver: s})
	if err != nil {
		return nil, err
	}
	return g.Untyped(), nil
}

// party is the state of the second graph of testdata/langgraph, in Go.
type party struct {
	message.State
	Task   string   `json:"task"`
	Guests []string `json:"guests" state:"append"`
	Dish   string   `json:"dish"`
}

// comes is the answer that Ann is asked for.
type comes struct {
	Comes bool `json:"comes"`
	With  int  `json:"with"`
}

var comesSchema = map[string]any{"type": "object", "properties": map[string]any{
	"comes": map[string]any{"type": "boolean", "title": "Comes"}, "with": map[string]any{"type": "integer", "title": "How many"}}}

// moreWords lets the node `talk` say the rest.
var moreWords = make(chan struct{})

func partyGraph(s saver.Saver) (*pregel.Graph, error) {
	kitchen, err := graph.For[party]().Node("soup", func(_ context.Context, s *party) (graph.Update, error) {
		return graph.Write(&s.Dish, fmt.Sprintf("soup for %d", len(s.Guests))), nil
	}).Edge(graph.Start, "soup").Compile(graph.Options{Name: "kitchen"})
	if err != nil {
		return nil, err
	}
	g, err := graph.For[party]().
		Node("talk", func(ctx context.Context, s *party) (graph.Update, error) {
			id := "said"
			for i, word := range []string{"one ", "two ", "three ", "four ", "five"} {
				if i == 2 {
					select {
					case <-moreWords:
					case <-ctx.Done():
						return nil, context.Cause(ctx)
					}
				}
				c := message.Chunk{Message: message.AI(word)}
				c.ID = id
				if err := pregel.EmitMessage(ctx, c); err != nil {
					return nil, err
				}
			}
			said := message.AI("one two three four five")
			said.ID = id
			return graph.Write(&s.Messages, message.List{said}), nil
		}).
		Node("wait", func(ctx context.Context, _ *party) (graph.Update, error) {
			<-ctx.Done()
			return nil, context.Cause(ctx)
		}).
		Node("ann", func(ctx context.Context, s *party) (graph.Update, error) {
			a, err := pregel.AskFor[comes](ctx, map[string]any{"question": "Does Ann come?"}, pregel.AskOptions{ResponseSchema: comesSchema})
			if err != nil {
				return nil, err
			}
			return graph.Write(&s.Guests, []string{fmt.Sprintf("ann %t %d", a.Comes, a.With)}), nil
		}).
		Node("bob", func(ctx context.Context, s *party) (graph.Update, error) {
			a, err := pregel.AskFor[string](ctx, map[string]any{"question": "Does Bob come?"})
			if err != nil {
				return nil, err
			}
			return graph.Write(&s.Guests, []string{"bob " + a}), nil
		}).
		Node("unsure", func(ctx context.Context, s *party) (graph.Update, error) {
			if task, _ := pregel.Task(ctx); task.Attempt < 3 {
				return nil, errors.New("not sure")
			}
			return graph.Write(&s.Dish, "soup after all"), nil
		}, graph.NodeOptions{Retry: []pregel.RetryPolicy{{InitialInterval: time.Millisecond, NoJitter: true, RetryOn: func(error) bool { return true }}}}).
		Subgraph("kitchen", kitchen.Untyped()).
		Node("invite", func(_ context.Context, s *party) (graph.Update, error) { return graph.Write(&s.Dish, "not known"), nil }).
		Conditional(graph.Start, func(_ context.Context, s *party) (string, error) { return s.Task, nil }, "talk", "wait", "invite", "unsure").
		Edge("invite", "ann").Edge("invite", "bob").
		Edge("ann", "kitchen").Edge("bob", "kitchen").
		Compile(graph.Options{Name: "party", Saver: s})
	if err != nil {
		return nil, err
	}
	return g.Untyped(), nil
}

// deskGraph is the agent `desk` of testdata/langgraph, or `desk_each`, in Go.
func deskGraph(s saver.Saver, each bool) (*pregel.Graph, error) {
	type refunds struct {
		Order  int64
		Amount float64
		Reason string
		Notify *bool
	}
	refund, err := tool.New("refund", "Gives money back.", tool.Unchecked(`{"type": "object", "required": ["order", "amount", "reason"], "properties": {
		"order": {"type": "integer", "title": "Order"}, "amount": {"type": "number", "title": "Amount"}, "reason": {"type": "string", "title": "Reason"},
		"notify": {"type": "boolean", "title": "Notify", "default": true}}}`),
		func(_ context.Context, in refunds) (string, error) {
			return fmt.Sprintf("order %d, because %s, notify %t", in.Order, in.Reason, in.Notify == nil || *in.Notify), nil
		})
	if err != nil {
		return nil, err
	}
	write, err := tool.New("write", "Writes to a customer.", tool.Unchecked(`{"type": "object"}`),
		func(_ context.Context, in map[string]any) (string, error) {
			return fmt.Sprint("wrote to ", in["to"]), nil
		})
	if err != nil {
		return nil, err
	}
	clerk := model.NewScriptedFunc(func(_ context.Context, r model.Request) (model.Answer, error) {
		last := r.Messages[len(r.Messages)-1]
		if last.Type == message.TypeTool {
			var said []string
			for _, m := range r.Messages {
				if m.Type == message.TypeTool {
					said = append(said, m.Text())
				}
			}
			return model.Answer{Message: message.AI(strings.Join(said, "; "))}, nil
		}
		calls := []message.ToolCall{{ID: "c1", Name: "refund", Args: map[string]any{"order": int64(9007199254740993), "amount": 12.5, "reason": "it came late"}}}
		if strings.Contains(last.Text(), "both") {
			calls = append(calls, message.ToolCall{ID: "c2", Name: "write", Args: map[string]any{"to": "ann", "text": "Sorry,\nit was late."}})
		}
		return model.Answer{Message: message.AI("I will do that.", calls...)}, nil
	})
	tone := func(context.Context, message.ToolCall, map[string]any) (string, error) {
		return "Look at the tone.", nil
	}
	review := agent.Review{PerCall: each, Tools: map[string]agent.Gate{"refund": {}, "write": {Decisions: []agent.DecisionType{agent.Approve, agent.Reject}, Describe: tone}}}
	return agent.New(clerk, agent.Options{Tools: []tool.Tool{refund, write}, Middleware: []agent.Middleware{agent.AskPerson(review)}, Graph: graph.Options{Saver: s}})
}

// theMail is the graph of the server.
var theMail *pregel.Graph

// kindsThread is a thread of a program that the server does not have.
const kindsThread = "kinds of values"

// steleServer is stele's own server, on a store in a directory.
var steleServer = sync.OnceValues(func() (backend, error) {
	dir, err := tempDir()
	if err != nil {
		return backend{}, err
	}
	d, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return backend{}, err
	}
	items, err := store.On(d, store.Options{})
	if err != nil {
		return backend{}, err
	}
	queue, err := runs.NewLocal(context.Background(), items, runs.LocalOptions{})
	if err != nil {
		return backend{}, err
	}
	g, err := mailGraph(d)
	if err != nil {
		return backend{}, err
	}
	theMail = g
	one := map[string]saver.Version{"kinds": saver.IntVersion(1)}
	kinds := map[string]any{"blob": []byte{0, 1, 2}, "price": serde.NewExt(serde.ExtPositional, "decimal", "Decimal", []any{"1.5"}, "")}
	if _, err := d.Put(context.Background(), saver.Config{ThreadID: kindsThread}, saver.Checkpoint{V: 4, ID: "1f0a0000-0000-6000-8000-000000000000", TS: "2026-01-01T00:00:00+00:00",
		Values: map[string]saver.Value{"kinds": saver.ValueOf(kinds)}, Versions: one}, saver.Metadata{"step": 0, "source": "loop", "graph_id": "of another program"}, one); err != nil {
		return backend{}, err
	}
	p, err := partyGraph(d)
	if err != nil {
		return backend{}, err
	}
	desk, err := deskGraph(d, false)
	if err != nil {
		return backend{}, err
	}
	each, err := deskGraph(d, true)
	if err != nil {
		return backend{}, err
	}
	backups, err := tempDir()
	if err != nil {
		return backend{}, err
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g, "party": p, "desk": desk, "desk_each": each}, Saver: d, Store: items, Queue: queue, BackupDir: backups,
		Auth: server.NoAuth(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return backend{}, err
	}
	s := httptest.NewServer(api)
	stops = append(stops, func() {
		s.CloseClientConnections()
		_ = api.Close()
		s.Close()
		_ = items.Close()
		_ = d.Close()
	})
	return backend{s.URL}, nil
})

// serveGraphs serves graphs by a server of their own, in memory.
func serveGraphs(t *testing.T, make func(saver.Saver, store.Store) map[string]*pregel.Graph) backend {
	t.Helper()
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	mem := memory.New(memory.Options{})
	queue, err := runs.NewLocal(t.Context(), items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	api, err := server.New(server.Config{Graphs: make(mem, items), Saver: mem, Store: items, Queue: queue, Auth: server.NoAuth(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(api)
	t.Cleanup(func() { s.CloseClientConnections(); _ = api.Close(); s.Close() })
	return backend{s.URL}
}

func onStele(t *testing.T, fn func(t *testing.T, b backend, base string)) {
	t.Run("stele", func(t *testing.T) {
		b, err := steleServer()
		if err != nil {
			t.Fatal(err)
		}
		fn(t, b, serve(t, b))
	})
}
