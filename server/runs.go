package server

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// shownRun is a run as clients see it.
func (s *Server) shownRun(r runs.Run) map[string]any {
	stored, _ := r.Labels[labelKwargs].(map[string]any)
	config, _ := stored["config"].(map[string]any)
	kwargs := map[string]any{"input": nil, "subgraphs": r.Subgraphs, "checkpoint_during": r.Durability != pregel.Exit, "durability": r.Durability}
	for _, name := range kwargsGiven {
		kwargs[name] = nil
	}
	kwargs = merged(kwargs, stored)
	kwargs["config"] = merged(config, map[string]any{"configurable": merged(r.Configurable, map[string]any{"run_id": r.ID}), "metadata": r.Metadata})
	input, err := s.cfg.Queue.Serializer().Decode(r.Input)
	if _, ok := input.(pregel.Command); err == nil && !ok {
		kwargs["input"], err = pregeljson.Value(input)
	}
	updated := r.Created
	for _, at := range []time.Time{r.Started, r.Ended} {
		if at.After(updated) {
			updated = at
		}
	}
	shown := map[string]any{"run_id": r.ID, "thread_id": r.ThreadID, "assistant_id": r.Labels[labelAssistant], "metadata": merged(r.Metadata),
		"status": r.Status, "kwargs": kwargs, "multitask_strategy": r.Multitask, "created_at": stamped(r.Created), "updated_at": stamped(updated),
		"langsmith_session_name": nil}
	if err != nil {
		shown["error"] = s.unreadableRun(r.ID, err)
	}
	return shown
}

// unreadableRun tells the operator that a run, or its input, cannot be decoded, and returns what its
// clients are told. Lists show the run with it, and the others as they are.
func (s *Server) unreadableRun(id string, err error) pregeljson.Failure {
	s.cfg.Logger.Error("a run cannot be read", "run", id, "error", err)
	return pregeljson.Failure{Error: "UnreadableRun", Message: "The run cannot be read: the log of the server says why"}
}

// showRun answers with a run.
func (c *call) showRun(r runs.Run) error { return c.json(c.shownRun(r)) }

// run is the run of a path, if its thread is the user's. With an error that it cannot be decoded
// comes what can be.
func (c *call) run() (runs.Run, error) {
	if _, err := c.thread(c.grant); err != nil {
		return runs.Run{}, err
	}
	r, err := c.cfg.Queue.Get(c.ctx, c.path("run_id"))
	if (err == nil || errors.Is(err, runs.ErrUnreadable)) && (r.ThreadID != c.path("thread_id") || isGone(r)) {
		err = runs.ErrNotFound
	}
	return r, err
}

// isGone reports whether a run was rolled back: to clients it was never there. It is removed
// with its thread.
func isGone(r runs.Run) bool { return r.Status == runs.Interrupted && r.Cancel == runs.Rollback }

// kwarg is a field of what a client asked for when it made a run.
func kwarg(r runs.Run, name string) any {
	kwargs, _ := r.Labels[labelKwargs].(map[string]any)
	return kwargs[name]
}

// place is the address of a run, for headers. The id of a thread that a program made may hold
// what no header can.
func place(r runs.Run, stateless bool) string {
	if stateless {
		return "/runs/" + r.ID
	}
	return "/threads/" + url.PathEscape(r.ThreadID) + "/runs/" + r.ID
}

// createRun makes a run that a worker executes.
func createRun(c *call) error {
	r, err := c.runOn(c.path("thread_id"), c.body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", place(r, false))
	return c.showRun(r)
}

func createStatelessRun(c *call) error {
	r, err := c.statelessRun(c.body)
	if err != nil {
		return err
	}
	c.w.Header().Set("Content-Location", place(r, true))
	return c.showRun(r)
}

// batchRuns makes several runs. One that is refused ends it; those before it stay.
func batchRuns(c *call) error {
	list, _ := c.in.([]any)
	shown := make([]any, 0, len(list))
	for _, in := range list {
		one, err := c.asked(in.(map[string]any))
		if err != nil {
			return err
		}
		r, err := one.statelessRun(one.body)
		if err != nil {
			return err
		}
		shown = append(shown, c.shownRun(r))
	}
	return c.json(shown)
}

func streamRun(c *call) error {
	c.untold = true
	r, err := c.runOn(c.path("thread_id"), c.body)
	if err != nil {
		return err
	}
	return c.streamNew(r, false)
}

func streamStatelessRun(c *call) error {
	c.untold = true
	r, err := c.statelessRun(c.body)
	if err != nil {
		return err
	}
	return c.streamNew(r, true)
}

func waitRun(c *call) error {
	c.untold = true
	r, err := c.runOn(c.path("thread_id"), c.body)
	if err != nil {
		return err
	}
	return c.wait(r, c.body.text("on_disconnect") == "cancel", c.outcome)
}

func waitStatelessRun(c *call) error {
	c.untold = true
	r, err := c.statelessRun(c.body)
	if err != nil {
		return err
	}
	return c.wait(r, c.body.text("on_disconnect") == "cancel", c.outcome)
}

// numeric is a number of the request's address.
func (c *call) numeric(name string, missing, low, high int) (int, error) {
	given := c.query(name)
	if given == "" {
		return missing, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < low || n > high {
		return 0, fail(422, "Invalid %s %s", name, given)
	}
	return n, nil
}

// runColumns are the fields of a run that a list can be asked for.
var runColumns = []string{"assistant_id", "created_at", "error", "kwargs", "langsmith_session_name", "metadata", "multitask_strategy", "run_id", "status", "thread_id", "updated_at"}

// listRuns answers with runs of a thread, newest first.
func listRuns(c *call) error {
	t, err := c.thread(c.grant)
	if err != nil {
		return err
	}
	limit, err := c.numeric("limit", 10, 1, 1000)
	if err != nil {
		return err
	}
	offset, err := c.numeric("offset", 0, 0, maxOffset)
	if err != nil {
		return err
	}
	c.body = body{}
	if names := c.r.URL.Query()["select"]; len(names) > 0 {
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
	for r, err := range c.cfg.Queue.List(c.ctx, runs.Query{ThreadID: t.ID, Status: runs.Status(c.query("status")), Newest: true}) {
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
			m = map[string]any{"run_id": r.ID, "thread_id": t.ID, "status": runs.Error, "error": c.unreadableRun(r.ID, err)}
		} else {
			m = c.shownRun(r)
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

func getRun(c *call) error {
	r, err := c.run()
	if err != nil {
		return err
	}
	return c.showRun(r)
}

// deleteRun removes a run, with the checkpoints that it made.
func deleteRun(c *call) error {
	r, err := c.run()
	if errors.Is(err, runs.ErrNotFound) {
		return fail(404, "Run not found")
	}
	if err != nil && !errors.Is(err, runs.ErrUnreadable) {
		return err
	}
	if err := c.endRun(c.ctx, r, runs.Interrupt); err != nil {
		return err
	}
	if err := c.deleteCheckpoints(r); err != nil {
		return err
	}
	if err := c.removeRun(c.ctx, r); err != nil {
		return err
	}
	return c.none()
}

// deleteCheckpoints removes what a run has stored. While another run has its thread, the saver
// looks for them in all threads.
func (c *call) deleteCheckpoints(r runs.Run) error {
	lease, err := c.cfg.Saver.Own(c.ctx, r.ThreadID, false)
	if err == nil {
		defer lease.Release()
	} else if !errors.Is(err, saver.ErrConflict) {
		return err
	}
	_, err = c.cfg.Saver.DeleteForRuns(c.ctx, []string{r.ID}, lease)
	return err
}

// removeRun removes a run that has ended, with its events.
func (s *Server) removeRun(ctx context.Context, r runs.Run) error {
	if err := s.forgetEvents(ctx, r.ID); err != nil {
		return err
	}
	if err := s.cfg.Queue.Delete(ctx, r.ID); err != nil && !errors.Is(err, runs.ErrNotFound) {
		return err
	}
	return nil
}

// noMatch says that there is nothing to cancel.
var noMatch = fail(404, "No matching runs to cancel. Please verify the thread ID and run IDs are correct, and the runs haven't been deleted or completed.")

// action is how a request cancels.
func (c *call) action() (runs.Strategy, error) {
	switch a := c.query("action"); a {
	case "", "interrupt":
		return runs.Interrupt, nil
	case "rollback":
		return runs.Rollback, nil
	default:
		return "", fail(422, "Invalid action %q: there are interrupt and rollback", a)
	}
}

func cancelRun(c *call) error {
	how, err := c.action()
	if err != nil {
		return err
	}
	r, err := c.run()
	if errors.Is(err, runs.ErrNotFound) {
		return fail(404, "No runs found to cancel.")
	}
	if err != nil {
		return err
	}
	if r.Status.Ended() {
		return noMatch
	}
	wait := c.isTrue("wait")
	if wait {
		leave, err := c.streams.enter(c.user.Identity, c.cfg.MaxStreams)
		if err != nil {
			return err
		}
		defer leave()
	}
	if r, err = c.cfg.Queue.Cancel(c.ctx, r.ID, how); err != nil {
		return err
	}
	if wait {
		return c.wait(r, false, func(context.Context, runs.Run) (any, error) { return struct{}{}, nil })
	}
	c.w.WriteHeader(202)
	return nil
}

// cancelRuns cancels runs by status, or by their ids on a thread.
func cancelRuns(c *call) error {
	how, err := c.action()
	if err != nil {
		return err
	}
	ids, status := c.body.texts("run_ids"), c.body.text("status")
	q := runs.Query{ThreadID: c.body.text("thread_id")}
	switch status {
	case "pending":
		q.Status = runs.Pending
	case "running":
		q.Status = runs.Running
	case "":
		if q.ThreadID == "" || len(ids) == 0 {
			return fail(422, "%s is not valid under any of the schemas listed in the 'oneOf' keyword\n\nFailed validating \"oneOf\" in schema\n\nOn instance:\n    %s", shown(c.in), shown(c.in))
		}
	}
	n, mine := 0, map[string]bool{}
	for r, err := range c.cfg.Queue.List(c.ctx, q) {
		if errors.Is(err, runs.ErrUnreadable) { // of no thread that is known
			c.unreadableRun(r.ID, err)
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
			t, found, err := c.threads.get(c.ctx, r.ThreadID)
			if err != nil {
				return err
			}
			ok = found && c.grant.admits(t.Metadata)
			mine[r.ThreadID] = ok
		}
		if !ok {
			continue
		}
		if _, err := c.cfg.Queue.Cancel(c.ctx, r.ID, how); err != nil && !errors.Is(err, runs.ErrNotFound) {
			return err
		}
		n++
	}
	if n == 0 && status == "" {
		return noMatch
	}
	return c.none()
}

// joinRun waits for a run and answers with what came of it.
func joinRun(c *call) error {
	r, err := c.run()
	if err != nil {
		return err
	}
	return c.wait(r, c.isTrue("cancel_on_disconnect"), c.outcome)
}
