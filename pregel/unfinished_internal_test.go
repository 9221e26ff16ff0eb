package pregel

import (
	"context"
	"testing"

	"github.com/stele-go/stele/pregel/internal/frozen"
)

func TestWays(t *testing.T) {
	langGraph := ways{DiscardUnfinished, true, false}
	for _, c := range []struct {
		langGraph bool
		opts      RunOptions
		want      ways
	}{
		{false, RunOptions{}, ways{unfinished: FinishFirst}},
		{true, RunOptions{}, langGraph},
		{true, RunOptions{Unfinished: RefuseUnfinished}, ways{RefuseUnfinished, true, false}},
		{false, RunOptions{Unfinished: DiscardUnfinished}, ways{DiscardUnfinished, false, false}},
	} {
		g := &Graph{opts: Options{LangGraph: c.langGraph}}
		if got := g.ways(&c.opts); got != c.want {
			t.Errorf("LangGraph %v, %+v: %+v, not %+v", c.langGraph, c.opts, got, c.want)
		}
	}
	// A graph inside follows the outermost one, whatever its own options say.
	r := &taskRun{step: frozen.Of(stepView{run: runConfig{ways: langGraph}}), task: &task{around: &checkpointsAround{}}, att: &attempt{}}
	r.ctx.outer, r.ctx.run = context.Background(), r
	inside, err := (&Graph{}).newLoop(&r.ctx, &Address{inside: true}, nil, &RunOptions{})
	if err != nil || inside.run.ways != langGraph {
		t.Errorf("inside: %+v, not %+v; %v", inside, langGraph, err)
	}
}
