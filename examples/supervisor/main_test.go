package main

import (
	"bytes"
	"slices"
	"testing"

	"github.com/stele-go/stele/agent"
	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
)

func Example() {
	main()
	// Output:
	// you                    Add 40 and 2, and make a verse of it.
	// supervisor             calls give_to_mathematician map[]
	// give_to_mathematician  mathematician goes on
	// mathematician          calls add map[a:40 b:2]
	// add                    42
	// mathematician          It is 42.
	// supervisor             calls give_to_poet map[]
	// give_to_poet           poet goes on
	// poet                   Forty and two, the sum is true.
	// supervisor             That was all.
}

// TestHandoffs: agents run in the order in which they were handed the conversation, and each call
// of a tool is answered once.
func TestHandoffs(t *testing.T) {
	g, err := build(scripts())
	if err != nil {
		t.Fatal(err)
	}
	var ran []string
	for e, err := range g.Stream(t.Context(), pregel.Thread("t"), agent.Say("go")) {
		if err != nil {
			t.Fatal(err)
		}
		if u, ok := e.Data.(pregel.Update); ok {
			ran = append(ran, u.Node)
		}
	}
	if want := []string{"supervisor", "mathematician", "supervisor", "poet", "supervisor"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	state, err := g.GetState(t.Context(), pregel.Thread("t"))
	if err != nil {
		t.Fatal(err)
	}
	list, err := agent.Messages(state.Map())
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]int{}
	for _, m := range list {
		if m.Type == message.TypeTool {
			answers[m.ToolCallID]++
		}
	}
	if len(answers) != 3 || answers["add"] != 1 || answers["give_to_poet"] != 1 {
		t.Errorf("answers: %v", answers)
	}
	if err := run(t.Context(), &bytes.Buffer{}); err != nil {
		t.Error(err)
	}
}
