package studio

import (
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
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
		Compile(graph.Options{Saver: s})
	if err != nil {
		return nil, err
	}
	return g.Untyped(), nil
}

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
	backups, err := tempDir()
	if err != nil {
		return backend{}, err
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"mail": g}, Saver: d, Store: items, Queue: queue, BackupDir: backups,
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

func onStele(t *testing.T, fn func(t *testing.T, b backend, base string)) {
	t.Run("stele", func(t *testing.T) {
		b, err := steleServer()
		if err != nil {
			t.Fatal(err)
		}
		fn(t, b, serve(t, b))
	})
}
