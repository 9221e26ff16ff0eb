package pregel

import "testing"

func TestWays(t *testing.T) {
	langGraph := ways{DiscardUnfinished, true, true, true, true}
	for _, c := range []struct {
		langGraph bool
		cfg       Config
		want      ways
	}{
		{false, Config{}, ways{unfinished: FinishFirst}},
		{true, Config{}, langGraph},
		{true, Config{Unfinished: RefuseUnfinished}, ways{RefuseUnfinished, true, true, true, true}},
		{false, Config{Unfinished: DiscardUnfinished, Shared: true, AnyAnswer: true, AnyCheckpoint: true}, ways{DiscardUnfinished, true, true, true, false}},
		{false, Config{AnyAnswer: true}, ways{unfinished: FinishFirst, anyAnswer: true}},
	} {
		g := &Graph{opts: Options{LangGraph: c.langGraph}}
		if got := g.ways(c.cfg); got != c.want {
			t.Errorf("LangGraph %v, %+v: %+v, not %+v", c.langGraph, c.cfg, got, c.want)
		}
	}
	// A graph inside follows the outermost one, whatever its own options say.
	outermost := &loop{g: &Graph{opts: Options{LangGraph: true}}}
	inside := &loop{g: &Graph{}, parent: &taskRun{step: &superstep{l: outermost}}}
	if got := inside.ways(); got != langGraph {
		t.Errorf("inside: %+v, not %+v", got, langGraph)
	}
}
