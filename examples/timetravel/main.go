// Command timetravel writes a letter that a person has to approve, and looks at what its thread
// keeps: the question that waits in a graph inside the graph, what the store has meanwhile, every
// state since the beginning, and a fork that goes on from one of them with another state.
//
//	go run ./examples/timetravel
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"
	"slices"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// Letter is the state, and Draft that of the graph inside.
type (
	Letter struct {
		To     string   `json:"to"`
		Tone   string   `json:"tone"`
		Status string   `json:"status"`
		Stamps []string `json:"stamps" state:"append"`
	}
	Draft struct {
		Text string `json:"text"`
		Send bool   `json:"send"`
	}
)

// Question is what the person is shown.
type Question struct {
	Ask  string `json:"ask"`
	Text string `json:"text"`
}

func ask(ctx context.Context, d *Draft) (graph.Update, error) {
	// Without an answer this is an error that stops the run of both graphs, for seconds or for
	// weeks; with one the node runs again from its beginning and gets it here.
	send, err := pregel.AskFor[bool](ctx, Question{"send it?", d.Text})
	if err != nil {
		return nil, err
	}
	return graph.Write(&d.Send, send), nil
}

// build makes the graph. Review and stamp run side by side; what was refused is written again.
func build(s saver.Saver) (*graph.Graph[Letter], error) {
	inner, err := graph.For[Draft]().
		Node("polish", func(_ context.Context, d *Draft) (graph.Update, error) { return graph.Write(&d.Text, d.Text+"!"), nil }).
		Node("ask", ask).
		Sequence(graph.Start, "polish", "ask", graph.End).
		Compile(graph.Options{Name: "draft"})
	if err != nil {
		return nil, err
	}
	choose := func(_ context.Context, l *Letter) (graph.Update, error) {
		if l.Tone == "" {
			return graph.Write(&l.Tone, "stern"), nil
		}
		return graph.Write(&l.Tone, "kind"), nil
	}
	review := func(ctx context.Context, l *Letter) (graph.Update, error) {
		res, err := inner.Run(ctx, pregel.Inside(), Draft{Text: "A " + l.Tone + " letter to " + l.To})
		if err != nil {
			return nil, err // also a question
		}
		if !res.State.Send {
			return graph.Write(&l.Status, "refused").Goto("choose"), nil
		}
		return graph.Write(&l.Status, "sent: "+res.State.Text), nil
	}
	return graph.For[Letter]().
		Node("choose", choose).
		Node("review", review, graph.NodeOptions{Targets: []string{"choose"}, Subgraphs: []*pregel.Graph{inner.Untyped()}}).
		Node("stamp", func(_ context.Context, l *Letter) (graph.Update, error) {
			return graph.Write(&l.Stamps, []string{l.Tone}), nil
		}).
		Edge(graph.Start, "choose").Edge("choose", "review").Edge("choose", "stamp").
		Compile(graph.Options{Saver: s})
}

// waiting shows a thread that waits: its state, that of the graph inside, and what the saver has.
func waiting(ctx context.Context, g *graph.Graph[Letter], s saver.Saver, at pregel.Address, out io.Writer) error {
	state, err := g.State(ctx, at, pregel.StateOptions{Subgraphs: true})
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "the thread is %s: next %v\n", state.Status, state.Next)
	for _, t := range state.Tasks {
		fmt.Fprintf(out, "  task %s: ended %v, result %v, asks %d, error %v\n", t.Name, t.Finished, t.Result, len(t.Interrupts), t.Err)
		if t.State != nil {
			fmt.Fprintf(out, "    inside: next %v, %v\n", t.State.Next, t.State.Map()["text"])
		}
	}
	// A checkpoint is the state before the superstep, and pending writes are what its tasks wrote.
	tup, err := s.GetTuple(ctx, saver.Config{ThreadID: at.ThreadID})
	if err != nil {
		return err
	}
	step, _ := tup.Metadata.Step()
	var wrote []string
	for _, w := range tup.PendingWrites {
		wrote = append(wrote, w.Channel)
	}
	slices.Sort(wrote)
	fmt.Fprintf(out, "  stored: the checkpoint of step %d, and pending writes to %v\n", step, wrote)
	return nil
}

func run(ctx context.Context, out io.Writer) error {
	s := memory.New(memory.Options{})
	g, err := build(s)
	if err != nil {
		return err
	}
	at := pregel.Thread("letter-1")
	res, err := g.Run(ctx, at, Letter{To: "Ada"})
	if err != nil {
		return err
	}
	if err := waiting(ctx, g, s, at, out); err != nil {
		return err
	}
	for _, send := range []bool{false, true} {
		q, err := graph.QuestionOf[Question](res.Waiting[0])
		if err != nil {
			return err
		}
		if res, err = g.Resume(ctx, at, send); err != nil {
			return err
		}
		fmt.Fprintf(out, "%s %q %v: %s\n", q.Ask, q.Text, send, res.State.Status)
	}

	var first *graph.Snapshot[Letter] // the state before anything was asked
	for s, err := range g.History(ctx, at, pregel.HistoryQuery{}) {
		if err != nil {
			return err
		}
		step, _ := s.Metadata.Step()
		fmt.Fprintf(out, "step %d, next %v: %+v\n", step, s.Next, s.State)
		if slices.Contains(s.Next, "review") {
			first = s
		}
	}

	// From there with another state, and from there as it was. All branches stay.
	if _, err = g.Fork(ctx, first.Address, func(l *Letter) graph.Update { return graph.Write(&l.To, "Bob") }); err != nil {
		return err
	}
	if res, err = g.Resume(ctx, at, true); err != nil {
		return err
	}
	fmt.Fprintln(out, "forked,", res.State.Status)
	if _, err = g.Continue(ctx, first.Address); err != nil {
		return err
	}
	if res, err = g.Resume(ctx, at, true); err != nil {
		return err
	}
	fmt.Fprintln(out, "replayed,", res.State.Status)
	return nil
}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		log.Fatal(err)
	}
}
