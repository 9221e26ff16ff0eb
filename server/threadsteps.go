package server

import (
	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
)

// mostSteps bounds the steps of one answer: those that began last.
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
	if left := len(steps) - mostSteps; left > 0 {
		steps, shown["left_out"] = steps[left:], left
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

// shortValue is a value for a line. One that nests too deep for JSON is too long for that as well.
func shortValue(v any) any {
	shown, err := pregeljson.Value(marked(v, 0))
	if err != nil {
		return tooLong
	}
	return glimpse(shown, 0)
}
