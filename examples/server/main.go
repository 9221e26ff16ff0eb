// Command server serves a chat agent by LangGraph's server API, on this machine alone. The
// agent's model is scripted, so nothing is needed: it tells the weather when it is asked for
// it, and sends a mail, after a person has approved it, when it is asked to. All that it was
// told is kept in a directory, and a run that a kill cut off goes on.
//
//	go run ./examples/server
//
// Then any client of LangGraph's works, such as langgraph-sdk or agent-chat-ui, with the URL
// http://127.0.0.1:2024 and the assistant "agent".
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/server"
	"github.com/stele-go/stele/store"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run serves until ctx ends. It says to out where.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	addr := flags.String("addr", "127.0.0.1:2024", "where to listen")
	dir := flags.String("dir", "stele-server", "where to keep what is stored")
	if err := flags.Parse(args); err != nil {
		return err
	}
	s, err := disk.Open(*dir, disk.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	items, err := store.On(s, store.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, items.Close()) }()
	queue, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		return err
	}
	g, err := chat(graph.Options{Name: "agent", Saver: s, Store: items})
	if err != nil {
		return err
	}
	api, err := server.New(server.Config{Graphs: map[string]*pregel.Graph{"agent": g}, Saver: s, Store: items, Queue: queue, Auth: server.NoAuth(),
		Origins: []string{"http://localhost:3000", "https://agentchat.vercel.app"}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, api.Close()) }()
	l, err := net.Listen("tcp", *addr)
	if err != nil {
		return fmt.Errorf("%w; -addr names another address, such as 127.0.0.1:2030", err)
	}
	fmt.Fprintf(out, "http://%s serves the assistant \"agent\"\n", l.Addr())
	srv := &http.Server{Handler: api, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, 1)
	go func() { ended <- srv.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return srv.Close() // streams can be resumed
	}
}

// chat is the agent.
func chat(o graph.Options) (*pregel.Graph, error) {
	type mailArgs struct{ To, Text string }
	weather, err := tool.New("weather", "The weather here.", tool.Unchecked(`{"type":"object"}`),
		func(context.Context, struct{}) (string, error) { return "It rains.", nil })
	if err != nil {
		return nil, err
	}
	mail, err := tool.New("mail", "Sends a mail.", tool.Unchecked(`{"type":"object","properties":{"to":{"type":"string"},"text":{"type":"string"}}}`),
		func(_ context.Context, in mailArgs) (string, error) { return "A mail was sent to " + in.To + ".", nil })
	if err != nil {
		return nil, err
	}
	return agent.New(model.NewScriptedFunc(script), agent.Options{
		Tools:      []tool.Tool{weather, mail},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"mail": {}}})},
		Graph:      o,
	})
}

// script is what the model says.
func script(_ context.Context, r model.Request) (model.Answer, error) {
	if len(r.Messages) == 0 {
		return model.Text("Say something."), nil
	}
	last := r.Messages[len(r.Messages)-1]
	said := strings.ToLower(last.Text())
	call := fmt.Sprint("call-", len(r.Messages))
	switch {
	case last.Type == message.TypeTool:
		return model.Text(last.Text()), nil
	case strings.Contains(said, "weather"):
		return model.Calls(message.ToolCall{Name: "weather", ID: call, Args: map[string]any{}}), nil
	case strings.Contains(said, "mail"):
		return model.Calls(message.ToolCall{Name: "mail", ID: call, Args: map[string]any{"to": "Ada", "text": last.Text()}}), nil
	}
	return model.Text("You said: " + last.Text()), nil
}
