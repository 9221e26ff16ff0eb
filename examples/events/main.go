// Command events serves an agent over HTTP, with net/http and nothing else. A request is a run on
// a thread, and its answer a stream of server-sent events: the words of the model as they come,
// questions, and the end. A client that goes away cancels its run; an empty request goes on with
// it. A shutdown drains the runs: each stops after its superstep, and the next process goes on.
//
//	go run ./examples/events
//	curl -N localhost:8080/threads/ada -d 'Buy apples'
//	curl -N localhost:8080/threads/ada/answer -d yes
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/agent/model"
	"github.com/stele-go/stele/agent/tool"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// server has an agent. Its runs stop when control asks for it.
type server struct {
	agent   *pregel.Graph
	control pregel.Control
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /threads/{thread}", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		var input any // nil goes on with what is left
		if len(text) > 0 {
			input = agent.Say(string(text))
		}
		s.stream(w, r, input, err)
	})
	mux.HandleFunc("POST /threads/{thread}/answer", func(w http.ResponseWriter, r *http.Request) {
		text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		decision := agent.Decision{Type: agent.Reject, Message: string(text)}
		if string(text) == "yes" {
			decision = agent.Decision{Type: agent.Approve}
		}
		s.stream(w, r, pregel.Command{Resume: agent.ReviewAnswer{Decisions: []agent.Decision{decision}}}, err)
	})
	return mux
}

// stream runs the agent and sends what it says. An error is a status before the first event, and
// an event after it.
func (s *server) stream(w http.ResponseWriter, r *http.Request, input any, err error) {
	begun := false
	send := func(event string, data any) {
		w.Header().Set("Content-Type", "text/event-stream")
		text, _ := json.Marshal(data)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", event, text)
		_ = http.NewResponseController(w).Flush() // a client that is gone cancels the run
		begun = true
	}
	opts := pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages, pregel.ModeUpdates}, Control: &s.control}
	for e, serr := range s.agent.Stream(r.Context(), pregel.Thread(r.PathValue("thread")), input, opts) {
		if err = errors.Join(err, serr); err != nil {
			break
		}
		if words := agent.Words(e); words != "" {
			send("words", words)
		}
		for _, q := range e.Interrupts {
			send("question", q.Value)
		}
	}
	switch {
	case err == nil:
		send("end", nil)
	case begun:
		send("error", err.Error())
	case errors.Is(err, pregel.ErrConflict), errors.Is(err, pregel.ErrNoInterrupt), errors.Is(err, pregel.ErrUnfinished):
		http.Error(w, err.Error(), http.StatusConflict)
	case errors.Is(err, pregel.ErrDrained):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// serve serves until ctx ends, and then drains the runs.
func serve(ctx context.Context, l net.Listener, sv saver.Saver, m model.Model) error {
	buy := tool.Must(tool.New("buy", "Buys something.", tool.Unchecked(`{"type":"object","properties":{"item":{"type":"string"}}}`),
		func(_ context.Context, in struct{ Item string }) (string, error) { return "bought " + in.Item, nil }))
	g, err := agent.New(m, agent.Options{Name: "shop", Tools: []tool.Tool{buy}, Graph: graph.Options{Saver: sv},
		Middleware: []agent.Middleware{agent.AskPerson(agent.Review{Tools: map[string]agent.Gate{"buy": {}}})}})
	if err != nil {
		return err
	}
	if _, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil { // what the last process left
		return err
	}
	s := &server{agent: g}
	srv := &http.Server{Handler: s.routes(), ReadHeaderTimeout: 5 * time.Second}
	drained := make(chan error, 1)
	context.AfterFunc(ctx, func() {
		s.control.RequestDrain("shutdown")
		drained <- srv.Shutdown(context.Background()) // waits for the runs
	})
	if err := srv.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return <-drained
}

// script is the model: it buys what it is told to.
func script(_ context.Context, r model.Request) (model.Answer, error) {
	if last := r.Messages[len(r.Messages)-1]; last.Type == message.TypeHuman {
		return model.Calls(message.ToolCall{Name: "buy", ID: fmt.Sprint(len(r.Messages)), Args: map[string]any{"item": last.Text()}}), nil
	}
	return model.Text("That is done."), nil
}

func main() {
	listen, dir := flag.String("listen", "localhost:8080", "address"), flag.String("dir", "stele-events", "store")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	d, err := disk.Open(*dir, disk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	l, err := net.Listen("tcp", *listen)
	if err == nil {
		fmt.Println("serving on", l.Addr())
		err = serve(ctx, l, d, model.NewScriptedFunc(script))
	} else {
		err = fmt.Errorf("%w; -listen names another address", err)
	}
	if err := errors.Join(err, d.Close()); err != nil {
		log.Fatal(err)
	}
}
