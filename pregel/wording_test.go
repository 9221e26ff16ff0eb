package pregel_test

import (
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver/memory"
)

// What cannot be stored is told with the node's name, once.
func TestUnserializableNamesTheNodeOnce(t *testing.T) {
	for _, roundTrip := range []bool{true, false} {
		g := compiled(t, graph.New(graph.Key("x", nil)).Node("talker", returns(map[string]any{"x": make(chan int)})).Edge(graph.Start, "talker"),
			graph.Options{RoundTrip: roundTrip, Saver: memory.New(memory.Options{})})
		_, err := g.Invoke(ctx, pregel.Thread("t"), map[string]any{"x": 1})
		if err == nil || strings.Count(err.Error(), "talker") != 1 || !strings.Contains(err.Error(), `channel "x"`) {
			t.Errorf("round trip %v: %v", roundTrip, err)
		}
	}
}

// Input that is no state is not told of as if a node had returned it.
func TestInputThatIsNoState(t *testing.T) {
	g := compiled(t, graph.New(steps()).Node("a", step("a")).Edge(graph.Start, "a"), graph.Options{})
	_, err := g.Invoke(ctx, pregel.Address{}, "text")
	if err == nil || !strings.Contains(err.Error(), "the input is a string") || strings.Contains(err.Error(), "node") || strings.Contains(err.Error(), "RETURN_VALUE") {
		t.Error(err)
	}
}

func TestUnfinishedErrorCountsQuestions(t *testing.T) {
	for n, want := range map[int]string{1: "a question waits", 2: "2 questions wait"} {
		e := &pregel.UnfinishedError{Stopped: true, Interrupts: make([]pregel.Interrupt, n)}
		if got := e.Error(); !strings.Contains(got, want) {
			t.Errorf("%d: %s", n, got)
		}
	}
}

func TestCallMismatchErrorTellsBothCalls(t *testing.T) {
	for want, e := range map[string]pregel.CallMismatchError{
		`call 1 is now "hold", before it was "reserve"`:               {Position: 1, Call: "hold", Before: "reserve"},
		`call 2 was "reserve", and is not made any more`:              {Position: 2, Before: "reserve"},
		`call 1 of "hold" has another input`:                          {Position: 1, Call: "hold", Before: "hold"},
		`child 1 is now of graph "hold", before it was of graph "in"`: {Position: 1, Call: "hold", Before: "in", Child: true},
	} {
		if got := e.Error(); !strings.Contains(got, want) {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
