// Command handover goes on with a graph that a program in another language has begun, on
// the store that it has begun it on. The tests of the other clients start it.
//
//	handover ADDRESS THREAD ANSWER
//
// It answers the thread's question, runs until the next one, and prints the state and the
// questions as JSON. The graph is the one of wire/python/tests/test_handover.py, with
// the names of its nodes and keys: they are in the ids of tasks, by which an engine finds
// what another one has stored.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/wire/client"
)

func main() {
	if len(os.Args) != 4 {
		log.Fatal("usage: handover ADDRESS THREAD ANSWER")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2], os.Args[3]); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, address, thread, answer string) error {
	c, err := client.Address(address, client.Options{})
	if err != nil {
		return err
	}
	defer c.Close()
	g, err := build(c)
	if err != nil {
		return err
	}
	res, err := g.Invoke(ctx, pregel.Thread(thread), pregel.Command{Resume: answer})
	if err != nil {
		return err
	}
	questions := []any{}
	for _, i := range res.Interrupts {
		questions = append(questions, i.Value)
	}
	return json.NewEncoder(os.Stdout).Encode(map[string]any{"state": res.Map(), "questions": questions})
}

func build(s saver.Saver) (*pregel.Graph, error) {
	answer := graph.Key("answer", channel.LastValue[string]())
	review, err := graph.New(answer).Node("ask", ask("May I?", "answer")).Edge(graph.Start, "ask").Compile(graph.Options{Name: "review"})
	if err != nil {
		return nil, err
	}
	return graph.New(graph.Key("log", channel.Reduce(channel.Append[string])), answer, graph.Key("confirmed", channel.LastValue[string]())).
		Node("fan", fan("work"), graph.NodeOptions{Targets: []string{"work"}}).
		Node("work", work).
		Subgraph("review", review).
		Node("more", fan("check"), graph.NodeOptions{Targets: []string{"check"}}).
		Node("check", work).
		Node("confirm", ask("Is it right?", "confirmed")).
		Sequence(graph.Start, "fan").
		Sequence("work", "review", "more").
		Edge("check", "confirm").
		Compile(graph.Options{Name: "handover", Saver: s})
}

// fan is a node that sends three packets to another one.
func fan(to string) pregel.Func {
	return func(context.Context, any) (any, error) {
		var packets []any
		for i := range 3 {
			packets = append(packets, pregel.Send{Node: to, Arg: map[string]any{"n": i}})
		}
		return pregel.Command{Goto: packets}, nil
	}
}

func work(_ context.Context, input any) (any, error) {
	part, _ := input.(map[string]any)
	return map[string]any{"log": []string{fmt.Sprint("go ", part["n"])}}, nil
}

// ask is a node that asks a question and keeps the answer.
func ask(question, key string) pregel.Func {
	return func(ctx context.Context, _ any) (any, error) {
		answer, err := pregel.Ask(ctx, question)
		if err != nil {
			return nil, err
		}
		return map[string]any{key: answer}, nil
	}
}
