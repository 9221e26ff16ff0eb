package pregel_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// TestWhyAnAnswerIsRefused: the error of an answer that nobody waits for says which case it is, and what to do.
func TestWhyAnAnswerIsRefused(t *testing.T) {
	l := lived(t, "twice", 1, true, pregel.Sync)
	refused := func(at pregel.Address, resume any, words ...string) {
		t.Helper()
		_, err := l.g.Invoke(ctx, at, pregel.Command{Resume: resume}, l.o)
		wantNamed(t, err, pregel.ErrNoInterrupt, words...)
	}
	refused(pregel.Thread("new"), "yes", `"new"`, "no state yet", "begin it with input")
	refused(l.at, m{l.ids[0]: "no"}, "another answer", "continue it without an answer")
	l = lived(t, "one", 9, false, pregel.Sync)
	refused(l.at, "no", "has finished", "send new input")
	refused(l.at, m{l.ids[0]: "yes"}, "has finished", "send new input")
	asked := must(l.g.GetState(ctx, l.at))                          // the newest; the question was asked before it
	refused(asked.Address, "yes", "has finished", "send new input") // named, it is the newest all the same
	for asked.Parent != nil && !slices.Contains(asked.Next, "ask") {
		asked = must(l.g.GetState(ctx, *asked.Parent))
	}
	refused(asked.Address, "yes", "went on from this checkpoint", "asks again")
}

// TestLongThreadID: the error of an id that is too long does not print it whole.
func TestLongThreadID(t *testing.T) {
	g := fan(t, pregel.Options{Saver: watch(nil)}, node("a", says("a")))
	_, err := g.Invoke(ctx, pregel.Thread(strings.Repeat("x", 1<<20)), 1)
	if !errors.Is(err, saver.ErrTooLarge) || len(err.Error()) > 2000 || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("%.3000v", err)
	}
}

// TestInputThatCannotBeStored: whoever gave the input reads "input", not the name of a channel.
func TestInputThatCannotBeStored(t *testing.T) {
	s := watch(nil)
	b := graph.New(stepsField()).Node("a", says("a")).Sequence(graph.Start, "a")
	_, err := compiled(t, b, graph.Options{Saver: s}).Invoke(ctx, pregel.Thread("t"), m{"steps": []string{"x"}, "more": func() {}})
	if err != nil && strings.Contains(err.Error(), pregel.Start) {
		t.Error(err)
	}
	g := must(pregel.Entrypoint("e", func(context.Context, any) (any, error) { return nil, nil }, pregel.EntrypointOptions{Options: pregel.Options{Saver: s}}))
	_, err = g.Invoke(ctx, pregel.Thread("u"), func() {})
	if err == nil || strings.Contains(err.Error(), pregel.Start) || !strings.Contains(err.Error(), "input") {
		t.Error(err)
	}
}
