package server

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/runs"
)

// mostRuns bounds the runs of one answer.
const mostRuns = 200

// operatorRun is a run for operators, without its input.
type operatorRun struct {
	RunID    string      `json:"run_id"`
	ThreadID string      `json:"thread_id"`
	Graph    string      `json:"graph"`
	Status   runs.Status `json:"status"`
	Waiting  bool        `json:"waiting"`
	Error    string      `json:"error,omitempty"`
	Refused  bool        `json:"refused,omitempty"` // its answer or its input was, so there is nothing to try again
	Attempt  int         `json:"attempt"`
	Worker   string      `json:"worker,omitempty"`
	Version  string      `json:"version,omitempty"`          // of the graph
	Pinned   bool        `json:"pinned,omitempty"`           // it waits for a worker of Version
	Parent   string      `json:"parent_thread_id,omitempty"` // which awaits this run's
	After    string      `json:"after"`
	Created  string      `json:"created_at"`
	Started  string      `json:"started_at,omitempty"`
	Ended    string      `json:"ended_at,omitempty"`
}

// allRuns answers with the newest runs of a status, or of a thread, newest first.
func (s *operatorAPI) allRuns(c *call) error {
	status, err := c.word("status", runStatuses...)
	if err != nil {
		return err
	}
	q := runs.Query{Status: runs.Status(status), ThreadID: c.query("thread_id"), Newest: true, Limit: mostRuns}
	list := []operatorRun{}
	for r, err := range s.queue.List(c.ctx, q) {
		if errors.Is(err, runs.ErrUnreadable) {
			r.Error = s.view.unreadable(r.ID, err).Message
		} else if err != nil {
			return err
		}
		o := operatorRun{RunID: r.ID, ThreadID: r.ThreadID, Graph: r.Graph, Status: r.Status, Waiting: r.Waiting, Error: r.Error,
			Attempt: r.Attempt, Worker: r.Worker, Version: r.Version, Pinned: r.Pinned, Parent: r.Parent, After: stamped(r.After), Created: stamped(r.Created)}
		if r.Status == runs.Error {
			if o.Refused, _, err = s.threads.refused(c.ctx, r); err != nil {
				return err
			}
		}
		if !r.Started.IsZero() {
			o.Started = stamped(r.Started)
		}
		if !r.Ended.IsZero() {
			o.Ended = stamped(r.Ended)
		}
		list = append(list, o)
	}
	total := len(list)
	if total == mostRuns {
		var err error
		if total, err = s.queue.Count(c.ctx, q); err != nil {
			return err
		}
	}
	return c.json(map[string]any{"runs": list, "total": total})
}

// versions answers with the runs that have not ended, and the workers that are alive, by graph and version.
func (s *operatorAPI) versions(c *call) error {
	found, err := s.queue.Versions(c.ctx)
	if err != nil {
		return err
	}
	return c.json(map[string]any{"versions": append([]metrics.QueueVersion{}, found...)})
}

// ranTask is a task of a run.
type ranTask struct {
	ID        string   `json:"id"`
	Name      string   `json:"name"`
	Namespace []string `json:"namespace"`
	Starts    int      `json:"starts"`   // in all attempts of the run
	Ends      int      `json:"ends"`     // of the starts that came to an end
	Attempts  int      `json:"attempts"` // calls of the node by the last of them; 0 until it ends
	Status    string   `json:"status"`   // "" if nothing was read of it but what is inside
	Began     string   `json:"began_at"` // when the last of its starts was stored; "" if that was not read
	Took      int64    `json:"took_ns"`

	Uses []runs.Use `json:"uses,omitempty"` // of all attempts of the run, with those of the tasks inside
}

// tasksPage is how many events of a run are read at a time; tasksEvents and tasksBytes bound how many, and
// bytes of them, are read for one answer.
const (
	tasksPage   = 256 // of events
	tasksEvents = 10_000
	tasksBytes  = 16 << 20
)

// tasksOfRun answers with the tasks that a run began: when, how often, and how long each took. It reads the events behind
// `after`, and answers with the last that it read: who asks again with that one is told what is new alone, to be added to what
// was told before. A run with very many events has `next` too, where the next request continues.
func (s *operatorAPI) tasksOfRun(c *call) error {
	begin, err := c.numeric("after", 0, 0, math.MaxInt)
	if err != nil {
		return err
	}
	r, err := s.threads.run(c)
	if errors.Is(err, runs.ErrNotFound) {
		return errNotFound
	}
	if err != nil {
		return err
	}
	list, at := []*ranTask{}, map[string]*ranTask{}
	left := eventBudget{tasksEvents, tasksBytes}
	after, more, err := s.eachNote(c.ctx, r.ID, int64(begin), &left, func(ev runs.Event, n runs.TaskNote) {
		add := func(id, name string, namespace []string) *ranTask {
			if at[id] == nil {
				at[id] = &ranTask{ID: id, Name: name, Namespace: append([]string{}, namespace...)}
				list = append(list, at[id])
			}
			return at[id]
		}
		for i, part := range ev.Namespace { // those around it may have begun before `after`, and have its tokens all the same
			if name, id, isTask := strings.Cut(part, ":"); isTask {
				add(id, name, ev.Namespace[:i])
			}
		}
		add(n.ID, n.Name, ev.Namespace).note(n, stamped(ev.Time))
	})
	if err != nil {
		return err
	}
	own := make([][]runs.Use, len(list))
	for i, t := range list {
		own[i] = t.Uses
	}
	for i, t := range list { // a task that a kill cut off has noted nothing, but those inside that had ended have
		for _, part := range t.Namespace {
			if _, id, isTask := strings.Cut(part, ":"); isTask {
				at[id].Uses = append(at[id].Uses, own[i]...)
			}
		}
	}
	shown := map[string]any{"recorded": r.Tasks, "tasks": list, "after": after}
	if more {
		shown["next"] = after
	}
	return c.json(shown)
}

// eventBudget is how many events, and bytes of them, may still be read for an answer.
type eventBudget struct{ events, bytes int }

// eachNote calls do with what a run noted of its tasks in the events behind after. It returns the last event that it
// read, and whether the budget was spent before the end.
func (s *operatorAPI) eachNote(ctx context.Context, run string, after int64, left *eventBudget,
	do func(runs.Event, runs.TaskNote)) (last int64, more bool, err error) {
	for {
		events, err := s.queue.Events(ctx, run, after, tasksPage)
		if err != nil {
			return after, false, err
		}
		for _, ev := range events {
			after = ev.Seq
			left.events, left.bytes = left.events-1, left.bytes-len(ev.Data.Data)
			if ev.Kind != runs.KindTask {
				continue
			}
			data, err := ev.JSON(s.queue.Serializer())
			if err != nil {
				return after, false, err
			}
			var n runs.TaskNote
			if err := json.Unmarshal(data, &n); err != nil {
				return after, false, err
			}
			do(ev, n)
		}
		if len(events) < tasksPage {
			return after, false, nil
		}
		if left.events <= 0 || left.bytes <= 0 {
			return after, true, nil
		}
	}
}

// note adds an event of the task.
func (t *ranTask) note(n runs.TaskNote, at string) {
	if !n.Ended {
		t.Starts++
		t.Attempts, t.Status, t.Began, t.Took = 0, "begun", at, 0
		return
	}
	t.Ends++
	t.Attempts, t.Took, t.Status, t.Uses = n.Attempts, int64(n.Took), "ended", append(t.Uses, n.Uses...)
	switch {
	case n.Failed:
		t.Status = failed
	case n.Waiting:
		t.Status = "waiting"
	}
}

// retryRun makes a run that failed, or was interrupted, pending again.
func (s *operatorAPI) retryRun(c *call) error {
	r, err := s.queue.Retry(c.ctx, c.path("run_id"))
	return c.answer(map[string]any{"run_id": r.ID, "status": r.Status}, refusedRun(err))
}

// refusedRun is the error of an operator whose run the queue has refused with err, nil for nil.
func refusedRun(err error) error {
	switch {
	case errors.Is(err, runs.ErrNotFound):
		return errNotFound
	case errors.Is(err, runs.ErrInvalid):
		return fail(409, "%s", err.Error())
	}
	return err
}

// eraseRun removes a run that cannot be decoded from the queue; its checkpoints stay. Any other goes by
// its thread, whose user is asked.
func (s *operatorAPI) eraseRun(c *call) error {
	id := c.path("run_id")
	_, err := s.queue.Get(c.ctx, id)
	if err == nil {
		return fail(409, "Run %s can be decoded. Delete it on its thread.", id)
	}
	if errors.Is(err, runs.ErrUnreadable) {
		err = s.queue.Delete(c.ctx, id)
	}
	return c.none(refusedRun(err))
}

func (s *operatorAPI) allSchedules(c *call) error {
	all, err := s.queue.Schedules(c.ctx)
	if err != nil {
		return err
	}
	list := []any{}
	for _, of := range all {
		m := map[string]any{"id": of.ID, "cron": of.Cron, "graph": of.Spec.Graph, "thread_id": of.Spec.ThreadID, "next": stamped(of.Next)}
		if of.Unreadable != nil {
			s.log.Error("a schedule cannot be read", "schedule", of.ID, "error", of.Unreadable)
			m["error"] = "The schedule cannot be read: the log of the server says why"
		}
		list = append(list, m)
	}
	return c.json(map[string]any{"schedules": list})
}

// deleteSchedule removes a schedule of the queue, also one that cannot be decoded.
func (s *operatorAPI) deleteSchedule(c *call) error {
	all, err := s.queue.Schedules(c.ctx)
	if err != nil {
		return err
	}
	id := c.path("schedule_id")
	if !slices.ContainsFunc(all, func(other runs.Schedule) bool { return other.ID == id }) {
		return errNotFound
	}
	return c.none(s.queue.DeleteSchedule(c.ctx, id))
}
