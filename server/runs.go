package server

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/server/internal/streamv2"
	"github.com/stele-go/stele/store"
)

// runAPI has the operations on runs, and makes them.
type runAPI struct {
	queue       runs.Queue
	saver       saver.Saver
	store       store.Store
	withStore   queueWithStore // nil if queue is not in store
	graphs      *graphSet
	threads     *threadAPI
	assistants  *assistantAPI
	view        *runView
	streams     *streamAPI
	openStreams *streamCount
	events      *streamv2.Threads
	deferred    *deferredActions
	hooks       *http.Client
	attempts    int
	trace       func(ctx context.Context) map[string]string
	locks       *locks
	log         *slog.Logger
}

// create makes a run that a worker executes.
func (s *runAPI) create(c *call) error {
	r, stateless, err := s.made(c)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", place(r, stateless))
	return s.show(c, r)
}

// batch makes several runs. One that is refused ends it; those before it stay.
func (s *runAPI) batch(c *call) error {
	list, _ := c.in.([]any)
	shown := make([]any, 0, len(list))
	for _, in := range list {
		one, err := c.asked(in.(map[string]any))
		if err != nil {
			return err
		}
		r, err := s.stateless(one, one.body)
		if err != nil {
			return err
		}
		shown = append(shown, s.view.shown(r))
	}
	return c.json(shown)
}

// stream makes a run and streams it.
//
// # The way of one run
//
//  1. Server.ServeHTTP finds the operation, and Server.answer does it: prepare authenticates it, limits it, reads its body and
//     authorizes it, by the operation's row in the table of routes.
//  2. made and on (runcreation.go) find thread and assistant, or make the thread. request turns the body into a
//     runs.Request, and submit hands that to the queue, where queue and store are one (queueWithStore) together with the
//     thread's record. When submit returns, the run survives the
//     process: another worker, or this server when it starts again, executes it. On routes that stream or
//     wait (call.deferSync) it survives a power failure only once it was read from the queue, which
//     comes before the client is told of it.
//  3. A runs.Worker, which Server.begin started, claims the run (Worker.Run) and executes its graph
//     (execute, attempt, invoke). A Local claims it for a worker that has offered to take one
//     (WorkerQueue.Offer) while Submit is under way. The worker's recorder appends the run's events to
//     the queue. Nothing here calls the graph.
//  4. streamAPI.follow reads those events until the run has ended (streamv2.Reader); Queue.Watch wakes it
//     when there are more. The queue gives out an event only when it is durable: in a Local the reader
//     waits for that (Local.latest). The connection stays open meanwhile. The end of a run that
//     succeeded has no frame of its own: the stream ends. A client that comes back finds the run by its id.
func (s *runAPI) stream(c *call) error {
	r, stateless, err := s.made(c)
	if err != nil {
		return err
	}
	return s.streams.streamed(c, r, stateless, modesOfRun(r), eventID{}, false, c.body.text("on_disconnect") == "cancel")
}

// wait makes a run and answers with what came of it.
func (s *runAPI) wait(c *call) error {
	r, _, err := s.made(c)
	if err != nil {
		return err
	}
	return s.streams.wait(c, r, c.body.text("on_disconnect") == "cancel", s.view.outcome)
}

// show answers with a run.
func (s *runAPI) show(c *call, r runs.Run) error {
	m := s.view.shown(r)
	if waits := s.view.workers.of(c.ctx, r); waits != nil {
		m["stele_waiting_for"] = waits
	}
	return c.json(m)
}

// runColumns are the fields that a request for a list of runs may select.
var runColumns = []string{"assistant_id", "created_at", "error", "kwargs", "langsmith_session_name", "metadata", "multitask_strategy",
	"run_id", "status", "thread_id", "updated_at"}

// runStatuses are those that runs may be listed by.
var runStatuses = []string{string(runs.Pending), string(runs.Running), string(runs.Error), string(runs.Success), string(runs.Interrupted)}

// list answers with runs of a thread, newest first.
func (s *runAPI) list(c *call, t thread) error {
	limit, err := c.numeric("limit", 10, 1, 1000)
	if err != nil {
		return err
	}
	offset, err := c.numeric("offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}
	status, err := c.word("status", runStatuses...)
	if err != nil {
		return err
	}
	c.body = body{}
	if names := c.values("select"); len(names) > 0 {
		asked := make([]any, len(names))
		for i, n := range names {
			if !slices.Contains(runColumns, n) {
				return fail(422, "Invalid select columns: ['%s']. Expected: {'%s'}", n, strings.Join(runColumns, "', '"))
			}
			asked[i] = n
		}
		c.body["select"] = asked
	}
	shown := c.listing()
	n := 0
	for r, err := range s.queue.List(c.ctx, runs.Query{ThreadID: t.ID, Status: runs.Status(status), Newest: true}) {
		if err != nil && !errors.Is(err, runs.ErrUnreadable) {
			return err
		}
		if isGone(r) {
			continue
		}
		if offset--; offset >= 0 {
			continue
		}
		var m any
		if err != nil {
			m = map[string]any{"run_id": r.ID, "thread_id": t.ID, "status": runs.Error, "error": s.view.unreadable(r.ID, err)}
		} else {
			m = s.view.shown(r)
		}
		if err := shown.addSelected(c, m); err != nil {
			return err
		}
		if n++; n == limit {
			break
		}
	}
	return c.list(shown)
}

// delete removes a run, with the checkpoints that it made.
func (s *runAPI) delete(c *call) error {
	r, err := s.threads.run(c)
	if errors.Is(err, runs.ErrNotFound) {
		return fail(404, "Run not found")
	}
	if err != nil && !errors.Is(err, runs.ErrUnreadable) {
		return err
	}
	if err := s.threads.endRun(c.ctx, r, runs.Interrupt); err != nil {
		return err
	}
	if err := s.deleteCheckpoints(c.ctx, r); err != nil {
		return err
	}
	return c.none(s.remove(c.ctx, r))
}

// deleteCheckpoints removes the checkpoints of a run, and puts the signals back that it took. The saver searches
// all threads for them while another run owns the run's thread: that one goes on with what this one took.
func (s *runAPI) deleteCheckpoints(ctx context.Context, r runs.Run) error {
	lease, err := s.saver.Own(ctx, r.ThreadID, false)
	if err == nil {
		defer lease.Release()
		if g := s.graphs.by[r.Graph]; g != nil {
			if err := g.PutSignalsBack(ctx, r.ThreadID, r.ID); err != nil {
				return err
			}
		}
	} else if !errors.Is(err, saver.ErrConflict) {
		return err
	}
	_, err = s.saver.DeleteForRuns(ctx, []string{r.ID}, lease)
	return err
}

// remove removes a run that has ended, with its events.
func (s *runAPI) remove(ctx context.Context, r runs.Run) error {
	if err := s.forget(ctx, r.ID); err != nil {
		return err
	}
	if err := s.queue.Delete(ctx, r.ID); err != nil && !errors.Is(err, runs.ErrNotFound) {
		return err
	}
	return nil
}

// forget keeps the number of a run's events in mind. It must be called before the run,
// which has ended, is removed from the queue. Those of one that cannot be decoded do not count.
func (s *runAPI) forget(ctx context.Context, id string) error {
	r, err := s.queue.Get(ctx, id)
	if errors.Is(err, runs.ErrNotFound) || err == nil && r.Started.IsZero() {
		return nil
	}
	n := int64(0)
	if err == nil {
		n, err = s.events.Count(ctx, r)
	}
	if errors.Is(err, runs.ErrUnreadable) {
		return nil
	}
	if err != nil {
		return err
	}
	defer s.locks.removedRuns(r.ThreadID)()
	known, _, err := s.threads.removed.get(ctx, r.ThreadID)
	if err != nil {
		return err
	}
	if known.Runs == nil {
		known.Runs = map[string]streamv2.Removed{}
	}
	known.Runs[r.ID] = streamv2.Removed{Started: r.Started, Events: n}
	return s.threads.removed.put(ctx, r.ThreadID, known)
}

// noMatch says that there is nothing to cancel.
var noMatch = fail(404, "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted or completed.")

// cancel cancels a run, which may be executing.
//
// # The way of one cancellation
//
//  1. Queue.Cancel notes it at the run. A run that nobody has claimed ends here.
//  2. The worker that executes the run learns of it when it renews its claims (Worker.renewAll), which
//     Queue.Watch makes it do soon. It cancels the run's context.
//  3. The superstep cancels its tasks' contexts and waits for their nodes. Nothing is stored of tasks that
//     did not end (superstep.abandoned), so that the thread is as after a crash.
//  4. The worker finishes the run as interrupted. With runs.Rollback the run's checkpoints are removed
//     then. A run that ended first keeps its end: the client got 202 all the same.
func (s *runAPI) cancel(c *call) error {
	how, err := c.action()
	if err != nil {
		return err
	}
	wait, err := c.isTrue("wait", false)
	if err != nil {
		return err
	}
	r, err := s.threads.run(c)
	if errors.Is(err, runs.ErrNotFound) {
		return fail(404, "No runs found to cancel.")
	}
	if err != nil {
		return err
	}
	if r.Status.Ended() {
		return noMatch
	}
	if wait {
		leave, err := s.openStreams.enter(c.user.Identity)
		if err != nil {
			return err
		}
		defer leave()
	}
	if r, err = s.queue.Cancel(c.ctx, r.ID, how); err != nil {
		return err
	}
	if wait {
		return s.streams.wait(c, r, false, func(context.Context, runs.Run) (any, error) { return struct{}{}, nil })
	}
	c.w.WriteHeader(202)
	return nil
}

// cancelMany cancels runs by status, or by their ids on a thread.
func (s *runAPI) cancelMany(c *call) error {
	how, err := c.action()
	if err != nil {
		return err
	}
	ids, status := c.body.texts("run_ids"), c.body.text("status")
	q := runs.Query{ThreadID: c.body.text("thread_id")}
	if status != "" && (q.ThreadID != "" || len(ids) > 0) {
		return fail(422, "When providing a 'status', 'thread_id' and 'run_ids' must be omitted. The 'status' parameter cancels all runs with the given status, regardless of thread or run ID.")
	}
	switch status {
	case "pending":
		q.Status = runs.Pending
	case "running":
		q.Status = runs.Running
	case "":
		if q.ThreadID == "" || c.body["run_ids"] == nil {
			return fail(422, "%s is not valid under any of the schemas listed in the 'oneOf' keyword\n\nFailed validating \"oneOf\" in schema\n\nOn instance:\n    %s", shown(c.in), shown(c.in))
		}
		if len(ids) == 0 {
			return fail(404, "No runs found to cancel.")
		}
	}
	n, mine := 0, map[string]bool{}
	for r, err := range s.queue.List(c.ctx, q) {
		if errors.Is(err, runs.ErrUnreadable) { // of no thread that is known
			s.view.unreadable(r.ID, err)
			continue
		}
		if err != nil {
			return err
		}
		if r.Status.Ended() || status == "" && !slices.ContainsFunc(ids, func(id string) bool { return usual(id) == r.ID }) {
			continue
		}
		ok, known := mine[r.ThreadID]
		if !known {
			t, found, err := s.threads.records.get(c.ctx, r.ThreadID)
			if err != nil {
				return err
			}
			ok = found && c.grant.admits(t.Metadata)
			mine[r.ThreadID] = ok
		}
		if !ok {
			continue
		}
		if _, err := s.queue.Cancel(c.ctx, r.ID, how); err != nil && !errors.Is(err, runs.ErrNotFound) {
			return err
		}
		n++
	}
	if n == 0 && status == "" {
		return noMatch
	}
	return c.none(nil)
}
