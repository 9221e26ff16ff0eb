package pregel

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// A migration that does not come to its end is given up, with the thread and the function named, by all that loads a thread. Where several
// run on, no more are begun. What they hold ends with them.
func TestMigrationThatLoops(t *testing.T) {
	const threads = 8
	was := migrationTime
	defer func() { migrationTime = was }()
	s := memory.New(memory.Options{})
	graph := func(version string, ms ...Migration) *Graph {
		n, err := NewNode("ask").Do(func(ctx context.Context, _ any) (any, error) { return Ask(ctx, "?") }).SubscribeOnly("in").Build()
		if err != nil {
			t.Fatal(err)
		}
		g, err := New(Spec{Input: One("in"), Output: One("in"), Channels: map[string]channel.Channel{"in": channel.LastValue[any]()}, Nodes: []*Node{n}},
			Options{Name: "g", Version: version, Saver: s, Migrations: ms})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	for i := range threads {
		if _, err := graph("1").Invoke(t.Context(), Thread(fmt.Sprint("t", i)), "x"); err != nil {
			t.Fatal(err)
		}
	}
	migrationTime = time.Millisecond
	goOn, begun := make(chan struct{}), make(chan struct{}, 4*threads)
	g := graph("2", Migration{From: "1", To: "2", Name: "forever", Values: func(map[string]any) error {
		begun <- struct{}{}
		<-goOn
		return nil
	}})
	named := func(what string, err error, says string) {
		t.Helper()
		var failed *MigrationError
		if !errors.As(err, &failed) || failed.From != "1" || failed.To != "2" || failed.Name != "forever" || failed.ThreadID == "" || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	_, err := g.Invoke(t.Context(), Thread("t0"), nil)
	named("a run", err, "not ended after 1ms")
	r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{})
	if err != nil || len(r.Broken) != threads {
		t.Errorf("%v, %v", r, err)
	}
	for _, b := range r.Broken {
		named("the preflight", b.Err, "not ended")
	}
	migrationTime = was // those that run on are of these threads alone, and one of them is refused at once
	_, err = g.Invoke(t.Context(), Thread("t1"), nil)
	named("a second run", err, "an earlier call")
	if err := g.bounded(t.Context(), "another", func() error { return nil }); err != nil {
		t.Errorf("another thread: %v", err)
	}
	migrationTime = time.Millisecond
	report, err := g.Recover(t.Context(), RecoverOptions{})
	if err != nil {
		t.Error(report, err)
	}
	for range threads {
		<-begun
	}
	if n := len(begun); n > 0 {
		t.Errorf("%d were begun once more", n)
	}
	close(goOn)
	for g.endless.refuse("t0") != nil { // it ends, and is not counted any more
		runtime.Gosched()
	}
	migrationTime = was
	if res, err := g.Invoke(t.Context(), Thread("t0"), nil); err != nil || len(res.Interrupts) != 1 {
		t.Errorf("%+v, %v", res, err)
	}
}

// Who gives a run up does not wait for its migration.
func TestMigrationOfARunThatIsGivenUp(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	goOn, gone := make(chan struct{}), errors.New("the caller went away")
	defer close(goOn)
	g, was := &Graph{}, migrationTime
	err := g.bounded(ctx, "t", func() error {
		cancel(gone)
		<-goOn
		return nil
	})
	if !errors.Is(err, gone) {
		t.Error(err)
	}
	migrationTime = time.Millisecond
	err = g.bounded(ctx, "late", func() error { <-goOn; return nil }) // for whichever reason
	migrationTime = was
	if err == nil {
		t.Error("a migration that runs on has ended")
	}
	for g.endless.refuse("late") == nil { // it is counted, though nobody waits for it
		runtime.Gosched()
	}
	if err := g.bounded(t.Context(), "another", func() error { runtime.Goexit(); return nil }); err == nil {
		t.Error("a migration that ends its goroutine has succeeded")
	}
}
