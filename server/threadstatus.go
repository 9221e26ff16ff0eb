package server

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/admin"
)

// Statuses of threads.
const (
	idle        = "idle"
	busy        = "busy"
	interrupted = "interrupted"
	failed      = "error"
)

var threadStatuses = oneOf(idle, busy, interrupted, failed)

// steleStatuses are the values of the extension stele_status, which shows the status of threads and
// selects by it. They are the statuses of savers, which distinguish a thread that waits from one whose
// run was cut off: LangGraph calls both interrupted. A thread whose run sleeps, and that asks nobody, is
// sleepingStatus. anyStatus selects every thread.
var steleStatuses = []string{anyStatus, string(saver.StatusDone), string(saver.StatusWaiting), string(saver.StatusFailed),
	string(saver.StatusUnfinished), runningStatus, sleepingStatus}

const (
	anyStatus      = "any"
	runningStatus  = "running"
	sleepingStatus = string(saver.StatusSleeping)
)

// threadStatus is how far a thread is.
type threadStatus struct {
	stele  string // the status by the store and the runs, one of steleStatuses, or ""
	status string
	error  any
	state  *pregel.StateSnapshot // nil if there is no graph, or if it cannot be read
	at     time.Time             // of the last change
	saved  time.Time             // of the newest checkpoint; that of the thread if there is none
	ran    bool                  // there is a checkpoint, or a run has ended
	lost   *pregeljson.Failure   // the last run cannot be decoded
}

// isBusy reports whether a thread has a run that has not ended and does not sleep.
func (s *threadAPI) isBusy(ctx context.Context, id string) (bool, error) {
	open, err := s.openRuns(ctx, id)
	return open[id] == runningStatus, err
}

// openRuns returns the threads that have runs which have not ended: sleepingStatus if all of them sleep, else
// runningStatus. With an id it is about that thread alone. It looks for pending runs first: one that begins in
// between is then found as running.
func (s *threadAPI) openRuns(ctx context.Context, id string) (map[string]string, error) {
	open := map[string]string{}
	for _, status := range []runs.Status{runs.Pending, runs.Running} {
		for r, err := range s.queue.List(ctx, runs.Query{ThreadID: id, Status: status}) {
			if err != nil && !errors.Is(err, runs.ErrUnreadable) { // it has not ended all the same
				return nil, err
			}
			if err != nil || !r.Asleep() {
				open[r.ThreadID] = runningStatus
			} else if open[r.ThreadID] == "" {
				open[r.ThreadID] = sleepingStatus
			}
		}
	}
	return open, nil
}

// unreadable logs that the state of a thread cannot be read, and returns the failure that clients see.
// The error is about that thread only, or the server lacks its graph: lists show the thread with it.
// Clients get its text only if it names no files or hosts.
func (s *threadAPI) unreadable(id string, err error) pregeljson.Failure {
	s.log.Error("the state of a thread cannot be read", "thread", id, "error", err)
	why := "the log of the server says why"
	if errors.As(err, new(*pregel.StoredTypeError)) && ofType(err) && !isAny(err, saver.ErrCorrupt, saver.ErrNotFound) {
		why = err.Error()
	}
	return pregeljson.Failure{Error: "UnreadableState", Message: "The state of the thread cannot be read: " + why}
}

// stateOf returns the state of a thread. ofThread is true if err is about the thread's stored data, or
// about its graph or serializer. Errors of these may have any type: err is about the thread if the
// store can read all of the thread's data and stateOf fails again.
func (s *threadAPI) stateOf(ctx context.Context, t thread) (st *pregel.StateSnapshot, ofThread bool, err error) {
	at := pregel.Thread(t.ID)
	if st, err = s.snapshot(ctx, t, at, false); err == nil || isOfThread(err) {
		return st, err != nil, err
	}
	if ctx.Err() != nil || !s.reads(ctx, t.ID) {
		return nil, false, err
	}
	st, err = s.snapshot(ctx, t, at, false)
	return st, err != nil && ctx.Err() == nil, err
}

// reads reports whether the store reads all that the newest checkpoint of a thread has.
func (s *threadAPI) reads(ctx context.Context, id string) bool {
	head, err := s.head(ctx, id)
	if head == nil || err != nil {
		return false
	}
	for _, v := range head.Checkpoint.Values {
		if _, err := v.View(); err != nil {
			return false
		}
	}
	for _, w := range head.PendingWrites {
		if _, err := w.Value.View(); err != nil {
			return false
		}
	}
	return true
}

// statusOf computes how far a thread is. If its state cannot be read, its status is error.
func (s *threadAPI) statusOf(ctx context.Context, t thread) (at threadStatus, err error) {
	open, err := s.openRuns(ctx, t.ID)
	if err != nil {
		return at, err
	}
	info, _, err := s.infoOf(ctx, t.ID)
	if err != nil {
		return at, err
	}
	at, run, err := s.outline(ctx, t, info, open[t.ID])
	if err != nil {
		return at, err
	}
	if t.graph() != "" || t.Stored {
		var ofThread bool
		if at.state, ofThread, err = s.stateOf(ctx, t); err != nil && !ofThread {
			return at, err
		}
	}
	at.status = idle
	switch {
	case err != nil:
		at.state, at.status, at.error, at.ran = nil, failed, s.unreadable(t.ID, err), true
	case at.state != nil:
		if made, err := time.Parse(time.RFC3339Nano, at.state.CreatedAt); err == nil {
			at.saved, at.ran = made, true
		}
		switch at.state.Status {
		case saver.StatusWaiting, saver.StatusSleeping, saver.StatusUnfinished:
			at.status = interrupted
			if at.state.Status == saver.StatusSleeping && at.stele == string(saver.StatusWaiting) { // no run of the queue sleeps with it
				at.stele = sleepingStatus
			}
			if at.state.Status != saver.StatusSleeping && len(at.state.Interrupts) > 0 && at.stele == sleepingStatus { // somebody is asked beside the wait
				at.stele = string(saver.StatusWaiting)
			}
		case saver.StatusFailed:
			at.status = failed
		}
	}
	if at.lost != nil {
		at.status, at.error, at.ran = failed, at.lost, true
	}
	if run.Status.Ended() {
		at.ran = true
		switch current := !at.saved.After(run.Ended); {
		case current && run.Status == runs.Error:
			refused, f, err := s.refused(ctx, run)
			if err == nil && !refused {
				at.status = failed
				f, err = s.view.failure(ctx, run)
			}
			if err != nil {
				return at, err
			}
			if at.status != idle {
				at.error = f
			}
		case run.Cancel == runs.Rollback && run.Status == runs.Interrupted:
			at.error = rolledBack
		case current && run.Status == runs.Interrupted && at.status == interrupted:
			at.error = cancelled
		}
	}
	if at.status == failed && at.state != nil && len(at.state.Interrupts) > 0 {
		at.status = interrupted // a task failed beside one that asks: who looks for questions finds it
	}
	if at.stele == runningStatus {
		at.status = busy
	}
	return at, nil
}

// outline returns the status of a thread as far as it is known without reading its state, and its last
// run, if there is one; open is what openRuns has of it. A search through all threads uses it.
func (s *threadAPI) outline(ctx context.Context, t thread, info saver.ThreadInfo, open string) (at threadStatus, run runs.Run, err error) {
	t, run, err = s.lastRun(ctx, t)
	at = threadStatus{stele: string(s.toldApart(ctx, t, info.Status)), at: t.Updated, saved: t.Created}
	if info.UpdatedAt.After(at.at) {
		at.at = info.UpdatedAt
	}
	if errors.Is(err, runs.ErrUnreadable) {
		lost := s.view.unreadable(t.Run, err)
		at.stele, at.lost, run = string(saver.StatusFailed), &lost, runs.Run{}
	} else if err != nil && !errors.Is(err, runs.ErrNotFound) {
		return at, run, err
	}
	if run.Status.Ended() {
		if run.Status == runs.Error && !info.UpdatedAt.After(run.Ended) {
			refused, _, err := s.refused(ctx, run)
			if err != nil {
				return at, run, err
			}
			if !refused && !s.asks(ctx, t, info.Status) { // an answer lets a thread go on of which a task failed and another asks
				at.stele = string(saver.StatusFailed)
			}
		}
		if run.Ended.After(at.at) {
			at.at = run.Ended
		}
	}
	if open != "" {
		at.stele = open
	}
	return at, run, nil
}

// toldApart is the status of a thread that the saver tells. Savers call one waiting that sleeps; of a graph that the server
// has the state tells, of another what is stored of the waits. A search does not read that of each thread whose graph it
// does not know, unless the server has none.
func (s *threadAPI) toldApart(ctx context.Context, t thread, status saver.Status) saver.Status {
	lacks := len(s.graphs.by) == 0 || t.graph() != "" && s.graphs.by[t.graph()] == nil
	if lacks && status == saver.StatusWaiting {
		if waits, err := admin.WaitsOf(ctx, s.saver, t.ID); err == nil && waits.OnlySleeps() { // else it is as the saver says
			return saver.StatusSleeping
		}
	}
	return status
}

// asks reports whether a thread of this status waits for a person, and does not only sleep.
func (s *threadAPI) asks(ctx context.Context, t thread, status saver.Status) bool {
	if status != saver.StatusWaiting {
		return false
	}
	waits, err := admin.WaitsOf(ctx, s.saver, t.ID)
	return err == nil && waits.Questions > 0
}

// refused reports whether a run failed because its answer or its input was refused, which changed nothing: the thread
// is as it was. Then it returns the failure, too.
func (s *threadAPI) refused(ctx context.Context, run runs.Run) (bool, pregeljson.Failure, error) {
	for _, refusal := range refusals {
		if strings.Contains(run.Error, refusal.text) { // a node's error may quote it: the events tell
			f, err := s.view.failure(ctx, run)
			return err == nil && f.Error == pregeljson.FailureOf(refusal.err).Error, f, err
		}
	}
	return false, pregeljson.Failure{}, nil
}

// refusals are the errors of runs that changed nothing, with a part of their texts. They are the same if the run is tried again.
var refusals = []struct {
	err  error
	text string
}{
	{pregel.ErrNoInterrupt, pregel.ErrNoInterrupt.Error()},
	{pregel.ErrWaiting, pregel.ErrWaiting.Error()},
	{&pregel.AmbiguousResumeError{}, "multiple pending interrupts"},
	{&pregel.UnknownInterruptError{}, "unknown interrupts"},
	{&pregel.AnswerError{Err: errors.New("")}, (&pregel.AnswerError{Err: errors.New("")}).Error()},
}

// lastRun returns the last run that was submitted on a thread, and the thread with that run's changes.
// If the run cannot be decoded, it returns an error and the fields that can be.
func (s *threadAPI) lastRun(ctx context.Context, t thread) (thread, runs.Run, error) {
	newer := false
	if s.withStore != nil {
		if id, _ := s.withStore.Newest(t.ID); id > t.Run {
			newer, t.Run = true, id
		}
	}
	if t.Run == "" {
		return t, runs.Run{}, nil
	}
	r, err := s.queue.Get(ctx, t.Run)
	if newer {
		t = t.withRun(r)
	}
	return t, r, err
}

// cancelled is the failure of a run that was cancelled.
var cancelled = pregeljson.Failure{Error: "UserInterrupt", Message: "interrupt requested via POST /threads/{thread_id}/runs/{run_id}/cancel"}

// rolledBack is the failure of a run that was rolled back.
var rolledBack = pregeljson.Failure{Error: "UserRollback", Message: "rollback requested via POST /threads/{thread_id}/runs/{run_id}/cancel"}

// shown is a thread as clients see it.
func (s *threadAPI) shown(t thread, at threadStatus) map[string]any {
	m := map[string]any{"thread_id": t.ID, "created_at": stamped(t.Created), "updated_at": stamped(at.at), "state_updated_at": stamped(at.saved),
		"metadata": merged(t.Metadata), "status": at.status, "config": merged(t.Config), "values": nil}
	if !at.ran {
		return m
	}
	m["error"] = at.error
	if at.state == nil || at.state.CreatedAt == "" {
		return m
	}
	st, err := pregeljson.State(at.state)
	if err != nil {
		m["error"] = s.unreadable(t.ID, err)
		return m
	}
	asked := map[string][]any{}
	for _, task := range st.Tasks {
		if len(task.Interrupts) > 0 {
			asked[task.ID] = task.Interrupts
		}
	}
	m["values"], m["interrupts"] = st.Values, asked
	return m
}

// show answers with a thread.
func (s *threadAPI) show(c *call, t thread) error {
	include, err := c.words("include", "ttl", "stele_status")
	if err != nil {
		return err
	}
	brief, err := c.word("stele_values", aboutValues)
	if err != nil {
		return err
	}
	at, err := s.statusOf(c.ctx, t)
	if err != nil {
		return err
	}
	m := s.shown(t, at)
	if slices.Contains(include, "stele_status") {
		m["stele_status"] = at.stele
	}
	if brief != "" {
		withAbout(m)
	}
	if t.TTL != nil && slices.Contains(include, "ttl") {
		expires, err := s.expires(c.ctx, t, at.at)
		if err != nil {
			return err
		}
		m["ttl"] = map[string]any{"strategy": t.TTL.Strategy, "ttl_minutes": t.TTL.Minutes, "expires_at": stamped(expires)}
	}
	return c.json(m)
}
