//go:build unix

package postgres_test

import (
	"context"
	"testing"
	"time"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/postgres/pgtest"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/saver"
)

// Threads sleep on PostgreSQL as they do elsewhere.
func TestWaits(t *testing.T) {
	waittest.Test(t, func(t *testing.T) saver.Saver {
		return open(t, pgtest.Shared(t).Database(t), postgres.Options{})
	})
}

// LangGraph sees a thread that sleeps as one that waits at an interrupt. Its saver copies the records of the
// wait unread, and the copy wakes when the thread does.
func TestLangGraphReadsAThreadThatSleeps(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	python := pgtest.LangGraph(t)
	s := open(t, url, postgres.Options{})
	clock := waittest.NewClock()
	begun := 0
	g, err := graph.New(graph.Key("n", channel.LastValue[int]())).
		Node("nap", func(ctx context.Context, _ any) (any, error) {
			begun++
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return nil, err
			}
			return map[string]any{"n": 2}, pregel.Sleep(ctx, time.Hour)
		}).
		Sequence(graph.Start, "nap").
		Compile(graph.Options{Name: "g", Saver: s, Env: pregel.Environment{Now: clock.Now}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Invoke(t.Context(), pregel.Thread("t"), map[string]any{"n": 1}); err != nil {
		t.Fatal(err)
	}
	clock.Move(time.Hour)
	res, err := g.Invoke(t.Context(), pregel.Thread("t"), nil)
	if err != nil || len(res.Waits) != 1 {
		t.Fatalf("%+v, %v", res, err)
	}
	want := `{"next": ["nap"], "values": {"n": 1}, "interrupts": [["` + res.Waits[0].ID + `", {"until": "2030-01-02T05:04:05.678901Z", "wait": "sleep"}]]}`
	if lines := script(t, python, "sleeping", url, ""); len(lines) != 1 || lines[0] != want {
		t.Errorf("LangGraph reads\n%q, want\n%q", lines, want)
	}
	clock.Move(time.Hour)
	for _, thread := range []string{"t", "copy"} {
		if res, err := g.Invoke(t.Context(), pregel.Thread(thread), nil); err != nil || len(res.Waits) > 0 || res.Map()["n"] != 2 {
			t.Errorf("thread %s: %+v, %v", thread, res, err)
		}
	}
	if begun != 4 {
		t.Errorf("the node was begun %d times", begun)
	}
}
