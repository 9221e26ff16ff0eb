package pregel

import (
	"cmp"
	"slices"

	"github.com/stele-go/stele/pregel/internal/answer"
)

// askedBelow has the calls of a superstep that have asked, by the bodies around them. A body that makes several
// calls returns the interrupts of one.
type askedBelow struct {
	calls map[string]*askedCall   // by the id of the task
	under map[string][]*askedCall // by the path of each task whose body makes the call, or calls a function that does
	noted int
	found int // calls that were gone over, for tests
}

type askedCall struct {
	nth   int // in the order in which they asked last
	list  []Interrupt
	ended bool
}

// add adds pending writes. What was added of their tasks before stays.
func (a *askedBelow) add(writes []answer.Write) {
	for _, w := range writes {
		if w.Channel != chInterrupt {
			continue
		}
		c := a.calls[w.TaskID]
		if c == nil {
			body, _, ok := pathOfBody(w.Path)
			if !ok {
				continue
			}
			if a.calls == nil {
				a.calls, a.under = map[string]*askedCall{}, map[string][]*askedCall{}
			}
			c = &askedCall{}
			a.calls[w.TaskID] = c
			for ; ok; body, _, ok = pathOfBody(body) {
				body = body[len("~"+push+", "):]
				a.under[body] = append(a.under[body], c)
			}
		}
		if len(c.list) == 0 {
			a.noted++
			c.nth = a.noted
		}
		c.list = append(c.list, answer.Interrupts(w.Value)...)
	}
	for _, w := range writes {
		if c := a.calls[w.TaskID]; c != nil && !answer.IsControl(w.Channel) {
			c.ended = true
		}
	}
}

// drop drops what was added of a task.
func (a *askedBelow) drop(taskID string) {
	if c := a.calls[taskID]; c != nil {
		c.list, c.ended = nil, false
	}
}

// below are the interrupts of functions called by the body of t, or below, that have not ended.
func (a *askedBelow) below(t *task) (list []Interrupt) {
	calls := slices.Clone(a.under[t.pathStr])
	a.found += len(calls)
	slices.SortFunc(calls, func(x, y *askedCall) int { return cmp.Compare(x.nth, y.nth) })
	for _, c := range calls {
		if !c.ended {
			list = append(list, c.list...)
		}
	}
	return list
}
