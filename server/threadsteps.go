package server

import (
	"cmp"
	"slices"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
)

// mostSteps bounds the steps of one answer: see shownSteps.
const mostSteps = 1000

// steps answers with what the bodies of a superstep did: of the one that begins at a checkpoint, or of the newest; and
// with the thread that awaits this one, its child, if the user may see it. Long values are cut, as a person reads them
// in a line; see glimpse. It asks no graph, so it also tells of threads whose program is elsewhere.
func (s *threadAPI) steps(c *call, t thread) error {
	steps, err := pregel.Steps(c.ctx, s.saver, pregel.Thread(t.ID).At(c.query("checkpoint_id")))
	if err != nil {
		return err
	}
	shown := map[string]any{}
	if all := len(steps); all > mostSteps {
		steps = shownSteps(steps, mostSteps)
		shown["left_out"] = all - len(steps)
	}
	for i := range steps {
		x := &steps[i]
		x.Result, x.Error = shortValue(x.Result), cutTo(x.Error, listedBytes)
		for n, q := range x.Questions {
			x.Questions[n] = pregel.Interrupt{ID: q.ID, Value: shortValue(q.Value)}
		}
	}
	shown["steps"] = append([]pregel.Step{}, steps...)
	parent, err := s.parentOf(c.ctx, t.ID)
	if err != nil {
		return err
	}
	if parent != "" {
		_, ok, err := s.record(c.ctx, parent, c.grant)
		if err != nil {
			return err
		}
		if ok {
			shown["parent_thread_id"] = parent
		}
	}
	return c.json(shown)
}

// shownSteps are at most so many of steps, in their order: those that have not ended, or are exposed, before those that have,
// and of either the ones that began last; with each the calls that it is in.
func shownSteps(steps []pregel.Step, most int) []pregel.Step {
	order, around, began := make([]int, len(steps)), make([]int, len(steps)), make([]time.Time, len(steps))
	var calls []int // the newest one of each depth
	for i, s := range steps {
		order[i], around[i], began[i] = i, -1, s.Began
		if began[i].IsZero() && i > 0 && s.Node == steps[i-1].Node { // it comes behind the one before
			began[i] = began[i-1]
		}
		calls = calls[:min(len(calls), s.Depth)]
		if s.Depth > 0 && len(calls) == s.Depth {
			around[i] = calls[s.Depth-1]
		}
		calls = append(calls, i)
	}
	ended := func(i int) int {
		if s := steps[i]; s.State == pregel.StepWaiting || s.State == pregel.StepBegun || s.Kind == pregel.StepExposed {
			return 0
		}
		return 1
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Or(cmp.Compare(ended(a), ended(b)), began[b].Compare(began[a]), cmp.Compare(b, a))
	})
	kept := map[int]bool{}
	for _, i := range order {
		var with []int
		for ; i >= 0 && !kept[i]; i = around[i] {
			with = append(with, i)
		}
		if len(kept)+len(with) > most {
			continue // one that is in fewer calls may fit
		}
		for _, i := range with {
			kept[i] = true
		}
	}
	shown := make([]pregel.Step, 0, len(kept))
	for i, s := range steps {
		if kept[i] {
			shown = append(shown, s)
		}
	}
	return shown
}

// shortValue is a value for a line. One that nests too deep for JSON is too long for that as well.
func shortValue(v any) any {
	shown, err := pregeljson.Value(marked(v, 0))
	if err != nil {
		return tooLong
	}
	return glimpse(shown, 0)
}
