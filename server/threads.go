package server

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/message/pregeljson"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
	"github.com/stele-go/stele/store"
)

// thread is what the server keeps of a thread. What its graph stores is in the saver, and
// its runs are in the queue: from these its status is computed whenever it is asked for, so
// that a crash cannot leave a wrong one.
type thread struct {
	ID       string         `json:"id"`
	Created  time.Time      `json:"created"`
	Updated  time.Time      `json:"updated"`
	Metadata map[string]any `json:"metadata"`
	// Config is that of the last run.
	Config map[string]any `json:"config"`
	// Run is the last run with which the record was written. The queue may have newer ones; see lastRun.
	Run string `json:"run,omitempty"`
	TTL *ttl   `json:"ttl,omitempty"`
	// Temporary: the thread goes with its only run, and is in no search.
	Temporary bool `json:"temporary,omitempty"`
	// Stored: the server has no record of it; a program beside it made it.
	Stored bool `json:"-"`
	// kept: this is the record as it is stored.
	kept bool
	// fresh: the request at hand makes it for its run, and nobody else knows its id.
	fresh bool
}

// isFlat reports whether the metadata of a thread has nothing that a node could change: runs share what
// is in it.
func (t thread) isFlat() bool {
	for _, v := range t.Metadata {
		switch v.(type) {
		case map[string]any, []any:
			return false
		}
	}
	return true
}

// ttl is how long a thread lives after its last change.
type ttl struct {
	Minutes  float64 `json:"minutes"`
	Strategy string  `json:"strategy"` // "delete" or "keep_latest"
}

func (t *ttl) duration() time.Duration { return minutes(t.Minutes) }

// longest bounds the times that clients give, so that sums with the present do not overflow.
const longest = 100 * 365 * 24 * time.Hour

// minutes is a time in minutes, at most longest.
func minutes(n float64) time.Duration {
	return time.Duration(min(n*float64(time.Minute), float64(longest)))
}

// graph is the name of the graph that the thread is of; "" if no run was made.
func (t thread) graph() string {
	name, _ := t.Metadata["graph_id"].(string)
	return name
}

// threadAPI has the operations on threads and their states.
type threadAPI struct {
	records    records[thread]
	unfinished records[unfinishedThread]
	saver      saver.Saver
	queue      runs.Queue
	store      store.Store
	withStore  queueWithStore // nil if queue is not in store
	graphs     *graphSet
	view       *runView
	crons      *cronStore
	deferred   *deferredActions
	removed    records[removedRuns]
	locks      *locks
	log        *slog.Logger
}

// Statuses of threads.
const (
	idle        = "idle"
	busy        = "busy"
	interrupted = "interrupted"
	failed      = "error"
)

var threadStatuses = oneOf(idle, busy, interrupted, failed)

// steleStatuses are what the extension stele_status tells of a thread, and selects by. They are
// the statuses of savers, which tell a thread that waits from one whose run was cut off:
// LangGraph calls both interrupted. Any selects every thread.
var steleStatuses = []string{anyStatus, string(saver.StatusDone), string(saver.StatusWaiting), string(saver.StatusFailed), string(saver.StatusUnfinished), runningStatus}

const (
	anyStatus     = "any"
	runningStatus = "running"
)

// threadStatus is how far a thread is.
type threadStatus struct {
	stele  string // the status that the store and the runs tell, one of steleStatuses, or ""
	status string
	error  any
	state  *pregel.StateSnapshot // nil if there is no graph, or if it cannot be read
	at     time.Time             // of the last change
	saved  time.Time             // of the newest checkpoint; that of the thread if there is none
	ran    bool                  // there is a checkpoint, or a run has ended
	lost   *pregeljson.Failure   // the last run cannot be decoded
}

// isBusy reports whether a thread has a run that has not ended. It asks for those that wait first: one
// that is begun in between is found as one that is under way.
func (s *threadAPI) isBusy(ctx context.Context, id string) (bool, error) {
	for _, status := range []runs.Status{runs.Pending, runs.Running} {
		for _, err := range s.queue.List(ctx, runs.Query{ThreadID: id, Status: status, Limit: 1}) {
			if err == nil || errors.Is(err, runs.ErrUnreadable) { // it has not ended all the same
				return true, nil
			}
			return false, err
		}
	}
	return false, nil
}

// unreadable tells the operator that the state of a thread cannot be read, and returns what its
// clients are told. It is an error of that thread alone, or of a server without its graph: lists
// show the thread with it. Clients get its text only if it names no files or hosts.
func (s *threadAPI) unreadable(id string, err error) pregeljson.Failure {
	s.log.Error("the state of a thread cannot be read", "thread", id, "error", err)
	why := "the log of the server says why"
	if errors.As(err, new(*pregel.StoredTypeError)) && ofType(err) && !isAny(err, saver.ErrCorrupt, saver.ErrNotFound) {
		why = err.Error()
	}
	return pregeljson.Failure{Error: "UnreadableState", Message: "The state of the thread cannot be read: " + why}
}

// isOfThread reports whether an error of reading a thread's state is about what is stored of it,
// and not about the store or the request. A value may be gone since the thread was found.
func isOfThread(err error) bool {
	return isAny(err, saver.ErrCorrupt, saver.ErrNotFound, saver.ErrAncestorCycle, pregel.ErrInvalidUpdate, pregel.ErrUnknownNode,
		serde.ErrMalformed, serde.ErrDecodeLimit, serde.ErrUnknownKind, serde.ErrDecrypt, serde.ErrPlaintext) ||
		ofType(err) || errors.As(err, new(*saver.MetadataError))
}

// ofType reports whether an error is about the type of what is stored.
func ofType(err error) bool {
	return errors.As(err, new(*serde.TypeError)) || errors.As(err, new(*channel.TypeError))
}

// stateOf is the state of a thread. ofThread is true if it fails for what is stored of the thread, or
// for its graph or serializer. What these fail with may have any type: it is about the thread if the
// store reads all that the thread has, and it fails again.
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
	isBusy, err := s.isBusy(ctx, t.ID)
	if err != nil {
		return at, err
	}
	info, _, err := s.infoOf(ctx, t.ID)
	if err != nil {
		return at, err
	}
	at, run, err := s.outline(ctx, t, info, isBusy)
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
		case saver.StatusWaiting, saver.StatusUnfinished:
			at.status = interrupted
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
			at.status = failed
			if at.error, err = s.view.failure(ctx, run); err != nil {
				return at, err
			}
		case run.Cancel == runs.Rollback && run.Status == runs.Interrupted:
			at.error = rolledBack
		case current && run.Status == runs.Interrupted && at.status == interrupted:
			at.error = cancelled
		}
	}
	if isBusy {
		at.status = busy
	}
	return at, nil
}

// outline is what the store and the runs tell of a thread without its state being read, and its
// last run, if there is one. A search through all threads goes by it.
func (s *threadAPI) outline(ctx context.Context, t thread, info saver.ThreadInfo, isBusy bool) (at threadStatus, run runs.Run, err error) {
	t, run, err = s.lastRun(ctx, t)
	at = threadStatus{stele: string(info.Status), at: t.Updated, saved: t.Created}
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
			at.stele = string(saver.StatusFailed)
		}
		if run.Ended.After(at.at) {
			at.at = run.Ended
		}
	}
	if isBusy {
		at.stele = runningStatus
	}
	return at, run, nil
}

// lastRun is the last run that was submitted on a thread, and the thread as that made it. With an
// error that the run cannot be decoded comes what can be.
func (s *threadAPI) lastRun(ctx context.Context, t thread) (thread, runs.Run, error) {
	newer := false
	if s.withStore != nil {
		if id := s.withStore.Newest(t.ID); id > t.Run {
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

// withRun is a thread after a run was submitted on it.
func (t thread) withRun(r runs.Run) thread {
	t.Run = r.ID
	if r.Created.After(t.Updated) {
		t.Updated = r.Created
	}
	return t
}

// cancelled is what a run that was cancelled ends with.
var cancelled = pregeljson.Failure{Error: "UserInterrupt", Message: "interrupt requested via POST /threads/{thread_id}/runs/{run_id}/cancel"}

// rolledBack is what a run that was rolled back ends with.
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
	at, err := s.statusOf(c.ctx, t)
	if err != nil {
		return err
	}
	m := s.shown(t, at)
	if strings.Contains(c.query("include"), "stele_status") {
		m["stele_status"] = at.stele
	}
	if c.query("stele_values") == aboutValues {
		withAbout(m)
	}
	if t.TTL != nil && strings.Contains(c.query("include"), "ttl") {
		m["ttl"] = map[string]any{"strategy": t.TTL.Strategy, "ttl_minutes": t.TTL.Minutes, "expires_at": stamped(at.at.Add(t.TTL.duration()))}
	}
	return c.json(m)
}

// missingThread says that a thread is not there, or not the user's.
func missingThread(id string) error { return fail(404, "Thread with ID %s not found", id) }

// ofPath is the thread of a path, if the grant shows it.
func (s *threadAPI) ofPath(c *call) (thread, error) {
	id := c.path("thread_id")
	t, ok, err := s.record(c.ctx, id, c.grant)
	if err == nil && !ok {
		err = missingThread(id)
	}
	return t, err
}

// graphOf is the graph of a thread.
func (s *threadAPI) graphOf(t thread) (*pregel.Graph, error) {
	if t.graph() == "" {
		return nil, fail(400, "Thread '%s' has no assigned graph ID. This usually occurs when no runs have been made on this particular thread. This operation requires a graph ID. Please ensure a run has been made for the thread or manually update the thread metadata (by setting the 'graph_id' field) before running this operation.", t.ID)
	}
	return s.graphs.named(t.graph())
}

func (s *threadAPI) patch(c *call) error {
	defer s.locks.lock("thread " + c.path("thread_id"))()
	t, err := s.ofPath(c)
	if f, ok := err.(*failure); ok && f.status == 404 {
		err = errNotFound
	}
	if err != nil {
		return err
	}
	t.Metadata = c.grant.changed(t.Metadata, c.body.object("metadata"))
	if given, ok := c.body["ttl"]; ok {
		t.TTL = ttlOf(given)
	}
	t.Updated = now()
	err = s.keep(c.ctx, t)
	if err != nil || c.r.Header.Get("Prefer") == "return=minimal" {
		return c.none(err)
	}
	return s.show(c, t)
}

func (s *threadAPI) copyOf(c *call) error {
	t, err := s.ofPath(c)
	if err != nil {
		if f, ok := err.(*failure); ok && f.status == 404 {
			err = fail(409, "Conflict")
		}
		return err
	}
	created, err := c.access("threads", "create")
	if err != nil {
		return err
	}
	dst := newThread("", created.stamp(t.Metadata))
	dst.Config = t.Config
	defer s.locks.lock("thread " + dst.ID)()
	if err := s.makeThread(c, dst, func() error { return s.saver.CopyThread(c.ctx, t.ID, dst.ID) }); err != nil {
		return err
	}
	return s.show(c, dst)
}

// foundThread is a thread that a search may select.
type foundThread struct {
	thread
	at threadStatus
}

var threadOrder = sorting[*foundThread]{
	by: map[string]func(a, b *foundThread) int{
		"thread_id":        func(a, b *foundThread) int { return strings.Compare(a.ID, b.ID) },
		"status":           func(a, b *foundThread) int { return strings.Compare(a.at.status, b.at.status) },
		"created_at":       func(a, b *foundThread) int { return a.Created.Compare(b.Created) },
		"updated_at":       func(a, b *foundThread) int { return a.at.at.Compare(b.at.at) },
		"state_updated_at": func(a, b *foundThread) int { return a.at.saved.Compare(b.at.saved) },
	},
	then: func(a, b *foundThread) int { return b.Created.Compare(a.Created) },
}

// find are the threads that a search asks for, in its order, without their metadata and state:
// all of these may be more than memory holds. Their status is computed before the page is cut only
// where the search depends on it, as that reads the state of every thread.
func (s *threadAPI) find(c *call) (found []*foundThread, err error) {
	ids, metadata, values, status := c.body.texts("ids"), c.body.object("metadata"), c.body.object("values"), c.body.text("status")
	stele, prefixes := c.body.text("stele_status"), c.body.texts("stele_prefix")
	if stele == anyStatus {
		stele = ""
	}
	if len(values) == 0 {
		values = nil
	}
	complete := values != nil || status != "" || slices.Contains([]string{"status", "state_updated_at"}, c.body.text("sort_by"))
	outlined := stele != "" || c.body.text("sort_by") == "updated_at"
	begins := func(id string) bool {
		return len(prefixes) == 0 || slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(id, p) })
	}
	infos := map[string]saver.ThreadInfo{}
	busyThreads := map[string]bool{}
	consider := func(t thread) (err error) {
		if t.Temporary || !begins(t.ID) || !c.grant.admits(t.Metadata) {
			return nil
		}
		if complete || metadata["graph_id"] != nil {
			if t, err = s.withGraph(c.ctx, t); err != nil {
				return err
			}
		}
		if metadata != nil && !contains(t.Metadata, metadata) {
			return nil
		}
		f := &foundThread{thread: t}
		switch {
		case complete:
			f.at, err = s.statusOf(c.ctx, t)
		case outlined:
			f.at, _, err = s.outline(c.ctx, t, infos[t.ID], busyThreads[t.ID])
		}
		if err != nil || status != "" && f.at.status != status || stele != "" && f.at.stele != stele {
			return err
		}
		if values != nil {
			if have, err := valuesOf(f.at.state); err != nil || !contains(have, values) { // also if they cannot be shown
				return nil
			}
		}
		f.Metadata, f.Config, f.at.state = nil, nil, nil
		found = append(found, f)
		return nil
	}
	if outlined && !complete {
		for _, open := range []runs.Status{runs.Pending, runs.Running} { // as isBusy
			for r, err := range s.queue.List(c.ctx, runs.Query{Status: open}) {
				if err != nil && !errors.Is(err, runs.ErrUnreadable) {
					return nil, err
				}
				busyThreads[r.ThreadID] = true
			}
		}
	}
	if _, named := c.body["ids"]; named {
		for i, id := range ids {
			if ids[i], err = s.id(c.ctx, id); err != nil {
				return nil, err
			}
		}
		slices.Sort(ids)
		for _, id := range slices.Compact(ids) {
			t, ok, err := s.record(c.ctx, id, c.grant)
			if err == nil && ok && outlined {
				infos[id], _, err = s.infoOf(c.ctx, id)
			}
			if err == nil && ok {
				err = consider(t)
			}
			if err != nil {
				return nil, err
			}
		}
	} else {
		if len(prefixes) == 0 {
			prefixes = []string{""}
		}
		var stored []saver.ThreadInfo
		for _, p := range prefixes {
			if c.grant.Filter != nil && !outlined {
				break
			}
			for info, err := range s.saver.Threads(c.ctx, saver.ThreadQuery{Prefix: p, WithoutNotes: !complete && metadata["graph_id"] == nil}) {
				if err != nil {
					return nil, err
				}
				if _, twice := infos[info.ThreadID]; !twice {
					infos[info.ThreadID], stored = info, append(stored, info)
				}
			}
		}
		known := map[string]bool{}
		for h, err := range s.unfinished.all(c.ctx) { // before the records: those that are made meanwhile have one
			if err != nil {
				return nil, err
			}
			known[h.Thread] = true
		}
		for t, err := range s.records.all(c.ctx) {
			if err == nil {
				known[t.ID] = true
				err = consider(t)
			}
			if err != nil {
				return nil, err
			}
		}
		for _, info := range stored {
			if known[info.ThreadID] || c.grant.Filter != nil {
				continue
			}
			if err := consider(s.stored(info)); err != nil {
				return nil, err
			}
		}
	}
	threadOrder.sort(c.body, found)
	return found, nil
}

// valuesOf are the values of a state as plain JSON.
func valuesOf(st *pregel.StateSnapshot) (any, error) {
	if st == nil {
		return nil, nil
	}
	return pregeljson.Value(st.Values)
}

func (s *threadAPI) search(c *call) error {
	for name, path := range c.body.object("extract") {
		if p, ok := path.(string); !ok || p == "" {
			return fail(422, "Extract path for '%s' must be a non-empty string", name)
		}
	}
	found, err := s.find(c)
	return searched(c, found, err, func(f *foundThread) (any, bool, error) {
		t, ok, err := s.record(c.ctx, f.ID, c.grant)
		if err != nil || !ok {
			return nil, false, err
		}
		at, err := s.statusOf(c.ctx, t)
		if status := c.body.text("status"); err != nil || status != "" && at.status != status { // it has another one by now
			return nil, false, err
		}
		m := s.shown(t, at)
		if paths := c.body.object("extract"); len(paths) > 0 {
			if m["extracted"], err = extracted(m, paths); err != nil { // too deep with the thread around it
				m["error"] = s.unreadable(f.ID, err)
			}
		}
		if c.body.text("stele_values") == aboutValues {
			withAbout(m)
		}
		if c.body["stele_status"] != nil {
			m["stele_status"] = at.stele
		}
		return m, true, nil
	}, "extracted")
}

func (s *threadAPI) count(c *call) error {
	found, err := s.find(c)
	return c.answer(len(found), err)
}
