package graph_test

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// A state that is a struct: the compiler checks what nodes write.
func ExampleFor() {
	type Order struct {
		Items []string `json:"items"`
		Total int      `json:"total"`
		Log   []string `json:"log" state:"append"`
	}
	g := must(graph.For[Order]().
		Node("price", func(_ context.Context, o *Order) (graph.Update, error) {
			return graph.Write(&o.Total, 3*len(o.Items)).And(graph.Write(&o.Log, []string{"priced"})), nil
		}).
		Node("reset", func(_ context.Context, o *Order) (graph.Update, error) {
			return graph.Write(&o.Items, nil).And(graph.Write(&o.Log, []string{"reset"})), nil
		}).
		Sequence(graph.Start, "price", "reset", graph.End).
		Compile(graph.Options{Saver: memory.New(memory.Options{})}))
	res := must(g.Run(context.Background(), pregel.Thread("t"), Order{Items: []string{"tea", "milk"}}))
	fmt.Println(res.State.Total, len(res.State.Items), res.State.Log)
	// Output: 6 0 [priced reset]
}

// Map-reduce: one packet for each part of the work, results in the order of the packets.
func ExampleWorker() {
	type Text struct {
		Words   []string `json:"words"`
		Lengths []int    `json:"lengths" state:"append"`
	}
	b := graph.For[Text]()
	count := graph.Worker(b, "count", func(_ context.Context, word string, t *Text) (graph.Update, error) {
		return graph.Write(&t.Lengths, []int{len(word)}), nil
	})
	b.Branch(graph.Start, func(_ context.Context, t *Text) (graph.Update, error) { return count.Send(t.Words...), nil }, "count")
	g := must(b.Compile(graph.Options{}))
	res := must(g.Run(context.Background(), pregel.Address{}, Text{Words: strings.Fields("one three eleven")}))
	fmt.Println(res.State.Lengths)
	// Output: [3 5 6]
}

// New input that resets a field, and an answer with a change beside it.
func ExampleGraph_Do() {
	type Payment struct {
		Amount int    `json:"amount"`
		Status string `json:"status"`
	}
	g := must(graph.For[Payment]().Node("ask", func(ctx context.Context, p *Payment) (graph.Update, error) {
		ok, err := pregel.AskFor[bool](ctx, fmt.Sprintf("pay %d, now %q?", p.Amount, p.Status))
		if err != nil {
			return nil, err
		}
		return graph.Write(&p.Status, fmt.Sprint("paid: ", ok)), nil
	}).Edge(graph.Start, "ask").Compile(graph.Options{Saver: memory.New(memory.Options{})}))

	ctx, at := context.Background(), pregel.Thread("p")
	must(g.Run(ctx, at, Payment{Amount: 5, Status: "new"}))
	res := must(g.Do(ctx, at, graph.Command[Payment]{Resume: true, Update: func(p *Payment) graph.Update { return graph.Write(&p.Amount, 4) }}))
	fmt.Println(res.State)
	res = must(g.Do(ctx, at, graph.Command[Payment]{Input: func(p *Payment) graph.Update {
		return graph.Write(&p.Amount, 7).And(graph.Write(&p.Status, ""))
	}}))
	fmt.Println(res.Waiting[0].Value)
	// Output:
	// {4 paid: true}
	// pay 7, now ""?
}
