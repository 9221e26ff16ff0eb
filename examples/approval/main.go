// Command approval puts a person into a graph: a payment above a limit waits for
// a decision, for seconds or for weeks, in the store. Each part of the program
// could run in another process.
//
//	go run ./examples/approval
package main

import (
	"context"
	"fmt"
	"io"
	"log"
	"os"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
)

// Payment is the state; its fields are the keys.
type Payment struct {
	To     string `json:"to"`
	Amount int    `json:"amount"`
	Status string `json:"status"`
}

// Question is what the person is shown.
type Question struct {
	Text   string `json:"text"`
	Amount int    `json:"amount"`
}

func main() {
	dir, err := os.MkdirTemp("", "stele-approval-")
	if err == nil {
		defer os.RemoveAll(dir)
		err = run(context.Background(), dir, os.Stdout)
	}
	if err != nil {
		log.Print(err)
	}
}

func approve(ctx context.Context, p *Payment) (graph.Update, error) {
	approved := graph.Write(&p.Status, "approved").Goto("pay")
	if p.Amount <= 100 {
		return approved, nil
	}
	// Without an answer this is an error that stops the run; with one the node is run
	// again from its start and gets it here.
	ok, err := pregel.AskFor[bool](ctx, Question{"pay " + p.To + "?", p.Amount})
	if err != nil {
		return nil, err
	}
	if !ok {
		return graph.Write(&p.Status, "refused"), nil
	}
	return approved, nil
}

func pay(_ context.Context, p *Payment) (graph.Update, error) {
	return graph.Write(&p.Status, "paid to "+p.To), nil
}

func build(s saver.Saver) (*graph.Graph[Payment], error) {
	return graph.For[Payment]().
		Node("approve", approve, graph.NodeOptions{Targets: []string{"pay"}}).
		Node("pay", pay).
		Edge(graph.Start, "approve").
		Compile(graph.Options{Saver: s})
}

func run(ctx context.Context, dir string, out io.Writer) error {
	s, err := disk.Open(dir, disk.Options{})
	if err != nil {
		return err
	}
	defer s.Close()
	g, err := build(s)
	if err != nil {
		return err
	}
	for thread, answer := range []bool{true, false} {
		at := pregel.Thread(fmt.Sprint("payment-", thread))
		res, err := g.Run(ctx, at, Payment{To: "Ada", Amount: 500})
		if err != nil {
			return err
		}
		q, err := graph.QuestionOf[Question](res.Waiting[0])
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "waiting: %s %d\n", q.Text, q.Amount)
		state, err := g.State(ctx, at)
		if err != nil {
			return err
		}
		fmt.Fprintln(out, "stored, next:", state.Next)
		if res, err = g.Resume(ctx, at, answer); err != nil {
			return err
		}
		fmt.Fprintf(out, "answered %v: %s\n", answer, res.State.Status)
	}
	return nil
}
