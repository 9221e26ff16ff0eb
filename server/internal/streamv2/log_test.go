package streamv2

import (
	"context"
	"testing"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/store"
)

// TestProtocolLateID: a reader of version 2 of streaming comes to a run that was stored after another
// one although its id is from before, as when the clocks of two servers differ.
func TestProtocolLateID(t *testing.T) {
	ctx := t.Context()
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	q, err := runs.NewLocal(ctx, items, runs.LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	l := (&Threads{Queue: q, Removed: func(context.Context, string) (map[string]Removed, error) { return nil, nil }}).Log("t", 0)
	read := func(r runs.Run) {
		t.Helper()
		if ok, err := l.nextRun(ctx); err != nil || !ok || l.run.run.ID != r.ID {
			t.Fatalf("%v, %v: the reader does not come to run %s", ok, err, r.ID)
		}
		l.done[r.ID] = true
		l.at(nil)
		if ok, err := l.nextRun(ctx); err != nil || ok {
			t.Fatalf("%v, %v behind run %s", ok, err, r.ID)
		}
	}
	execute := func() (r runs.Run) {
		t.Helper()
		c, _, err := q.Claim(ctx, "w", []string{"g"})
		if err == nil && c != nil {
			r, err = c.Run, q.Finish(ctx, *c, runs.Outcome{Status: runs.Success})
		}
		if err != nil || c == nil {
			t.Fatalf("%v: %+v", err, c)
		}
		return r
	}
	req := runs.Request{Spec: runs.Spec{Graph: "g", ThreadID: "t"}}
	late, err := q.SubmitWith(ctx, req, func(runs.Run) ([]store.Op, error) { // it has its id, and is not stored
		_, err := q.Submit(ctx, req)
		if err == nil {
			read(execute())
		}
		return nil, err
	}, false)
	if err != nil {
		t.Fatal(err)
	}
	execute()
	read(late)
}
