//go:build unix

package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/postgres"
	"github.com/stele-go/stele/pregel"

	"github.com/stele-go/stele/postgres/pgtest"
)

// TestChangedWorkflow: a workflow that was changed while its thread waited is refused, in another process and
// also on a copy of the thread. The former one goes on, with the keys it had.
func TestChangedWorkflow(t *testing.T) {
	url := pgtest.Shared(t).Database(t)
	a, b := open(t, url, postgres.Options{}), open(t, url, postgres.Options{})
	keys := map[string]bool{}
	build := func(s *postgres.Saver, calls ...string) *pregel.Graph {
		g, err := pregel.Entrypoint("flow", func(ctx context.Context, _ int) (string, error) {
			for _, name := range calls {
				_, err := pregel.NewTask(name, func(ctx context.Context, _ int) (any, error) {
					if name == "approve" {
						return pregel.Ask(ctx, "go on?")
					}
					key, err := pregel.IdempotencyKey(ctx, name)
					keys[name+" "+key] = true
					return key, err
				}).Call(ctx, 1)
				if err != nil {
					return "", err
				}
			}
			return "done", nil
		}, pregel.EntrypointOptions{Options: pregel.Options{Name: "flow", Saver: s}})
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	if _, err := build(a, "pay", "mail", "approve").Invoke(t.Context(), pregel.Thread("t"), 1); err != nil {
		t.Fatal(err)
	}
	if err := a.CopyThread(t.Context(), "t", "copy"); err != nil {
		t.Fatal(err)
	}
	yes := pregel.Command{Resume: "yes"}
	for _, thread := range []string{"t", "copy"} {
		_, err := build(b, "tax", "pay", "mail", "approve").Invoke(t.Context(), pregel.Thread(thread), yes)
		var e *pregel.CallMismatchError
		if !errors.As(err, &e) || e.Position != 1 || e.Call != "tax" || e.Before != "pay" {
			t.Errorf("thread %s: %v", thread, err)
		}
		if res, err := build(b, "pay", "mail", "approve").Invoke(t.Context(), pregel.Thread(thread), yes); err != nil || fmt.Sprint(res.Value) != "done" {
			t.Errorf("thread %s: %+v, %v", thread, res, err)
		}
	}
	if len(keys) != 2 {
		t.Errorf("keys %v", keys)
	}
}
