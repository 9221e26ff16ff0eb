package runs

import (
	"context"
	"fmt"
	"strings"

	"github.com/stele-go/stele/store"
)

// Held: what was there when the store was restored. The store may be a second one beside its original, so no worker gets these runs, and no
// schedule submits one, until the store is released or they are changed: a signal, a cancellation, PutSchedule. A held run
// counts as one whose time has not come: one that was begun keeps its thread, and any other holds nobody up.

// heldItems are the items of runs and schedules that are held, by id. The spec of a run counts while nothing has changed the run.
func heldItems(ctx context.Context, items *store.Local) (held, schedules map[string]bool, err error) {
	if held, err = items.Held(ctx, specsSpace, runsSpace); err == nil {
		schedules, err = items.Held(ctx, schedulesSpace)
	}
	return held, schedules, err
}

// Held is how many runs and schedules wait until the store is released; see disk.Saver.Release.
func (q *Local) Held() (runs, schedules int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.noticeRelease()
	for _, s := range q.schedules {
		if s.Held {
			schedules++
		}
	}
	return len(q.unreleased), schedules
}

// noticeRelease lets all go on if the store was released since. The caller holds mu.
func (q *Local) noticeRelease() {
	if !q.holds || q.items.IsHeld() {
		return
	}
	were := q.unreleased
	q.unreleased, q.holds = nil, false
	for id := range were {
		q.place(q.open[id])
	}
	for id, s := range q.schedules {
		s.Held = false
		q.schedules[id] = s
	}
}

// heldBack is what a queue holds, in words; "" if it holds nothing.
func heldBack(q Queue) string {
	h, ok := q.(interface{ Held() (runs, schedules int) })
	if !ok {
		return ""
	}
	runs, schedules := h.Held()
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{runs, "run"}, {schedules, "schedule"}} {
		switch p.n {
		case 0:
		case 1:
			parts = append(parts, "1 "+p.what)
		default:
			parts = append(parts, fmt.Sprintf("%d %ss", p.n, p.what))
		}
	}
	return strings.Join(parts, ", ")
}
