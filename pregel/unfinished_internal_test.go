package pregel

import (
	"context"
	"testing"

	"github.com/stele-go/stele/pregel/internal/frozen"
)

func TestWays(t *testing.T) {
	langGraph := runPolicy{unfinished: DiscardUnfinished, langGraph: true}
	for _, c := range []struct {
		langGraph bool
		opts      RunOptions
		want      runPolicy
	}{
		{false, RunOptions{}, runPolicy{unfinished: FinishFirst}},
		{true, RunOptions{}, langGraph},
		{true, RunOptions{Unfinished: RefuseUnfinished}, runPolicy{unfinished: RefuseUnfinished, langGraph: true}},
		{false, RunOptions{Unfinished: DiscardUnfinished}, runPolicy{unfinished: DiscardUnfinished}},
	} {
		g := &Graph{opts: Options{LangGraph: c.langGraph}}
		if got := g.runPolicy(&c.opts); got != c.want {
			t.Errorf("LangGraph %v, %+v: %+v, not %+v", c.langGraph, c.opts, got, c.want)
		}
	}
	// A graph inside follows the outermost one, whatever its own options say.
	r := &taskAttempt{step: frozen.Of(stepView{run: frozen.Of(runConfig{policy: langGraph, hooks: &runHooks{}})}), task: &task{around: &checkpointsAround{}}}
	r.ctx.outer, r.ctx.run = context.Background(), r
	inside, err := (&Graph{hooks: &runHooks{}}).newLoop(&r.ctx, &Address{inside: true}, nil, &RunOptions{})
	if err != nil || inside.run.policy != langGraph {
		t.Errorf("inside: %+v, not %+v; %v", inside, langGraph, err)
	}
}
