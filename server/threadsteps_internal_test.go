package server

import (
	"fmt"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
)

// Of too many steps those are told that have not ended or are exposed, also of the first node and however long ago they
// began, and then the last ones, with the calls that they are in.
func TestShownSteps(t *testing.T) {
	begin := time.Unix(1e9, 0)
	at := func(node, name string, kind pregel.StepKind, state pregel.StepState, depth, second int) pregel.Step {
		s := pregel.Step{Node: node, Name: name, Kind: kind, State: state, Depth: depth}
		if second > 0 {
			s.Began = begin.Add(time.Duration(second) * time.Second)
		}
		return s
	}
	call, done := pregel.StepCall, pregel.StepDone
	steps := []pregel.Step{
		at("a", "exposed", pregel.StepExposed, done, 0, 1),
		at("a", "first", call, done, 0, 2),
		at("a", "outer", call, done, 0, 3),
		at("a", "middle", call, done, 1, 4),
		at("a", "asks", call, pregel.StepWaiting, 2, 5),
		at("a", "inside", call, done, 2, 6),
		at("a", "child", pregel.StepChild, pregel.StepBegun, 0, 7),
		at("a", "last of a", call, done, 0, 30),
		at("a", "failed", call, pregel.StepFailed, 0, 0),
		at("z", "tried", call, pregel.StepFailed, 0, 0),
		at("z", "second", call, done, 0, 20),
		at("z", "around", call, done, 0, 21),
		at("z", "within", call, done, 1, 40),
	}
	for most, want := range map[int]string{
		13: "[exposed first outer middle asks inside child last of a failed tried second around within]",
		11: "[exposed outer middle asks inside child last of a failed second around within]",
		9:  "[exposed outer middle asks child last of a failed around within]",
		8:  "[exposed outer middle asks child failed around within]",
		6:  "[exposed outer middle asks child failed]", // the last one does not fit with its call
		4:  "[outer middle asks child]",
		2:  "[exposed child]",
		0:  "[]",
	} {
		names := []string{}
		for _, s := range shownSteps(steps, most) {
			names = append(names, s.Name)
		}
		if got := fmt.Sprint(names); got != want {
			t.Errorf("%d of the steps: %s, want %s", most, got, want)
		}
	}
}
