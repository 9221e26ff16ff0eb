package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/stele-go/stele/runs"
)

// cronAPI has the operations on crons, and submits their runs.
type cronAPI struct {
	crons      *cronStore
	threads    *threadAPI
	assistants *assistantAPI
	runs       *runAPI
	deferred   *deferredActions
	auth       *Auth
	locks      *locks
	log        *slog.Logger
}

// shownCron is a cron as clients see it.
type shownCron struct {
	CronID         string         `json:"cron_id"`
	AssistantID    string         `json:"assistant_id"`
	ThreadID       *string        `json:"thread_id"`
	UserID         string         `json:"user_id"`
	EndTime        *string        `json:"end_time"`
	Schedule       string         `json:"schedule"`
	Timezone       *string        `json:"timezone"`
	Payload        map[string]any `json:"payload"`
	NextRunDate    string         `json:"next_run_date"`
	Metadata       map[string]any `json:"metadata"`
	OnRunCompleted *string        `json:"on_run_completed"`
	Enabled        bool           `json:"enabled"`
	CreatedAt      string         `json:"created_at"`
	UpdatedAt      string         `json:"updated_at"`
}

func (k cron) shown() shownCron {
	v := shownCron{CronID: k.ID, AssistantID: k.AssistantID, UserID: k.User.Identity, Schedule: k.Schedule,
		NextRunDate: k.Next.UTC().Format("2006-01-02T15:04:05-07:00"),
		Metadata:    merged(k.Metadata), Enabled: k.Enabled, CreatedAt: stamped(k.Created), UpdatedAt: stamped(k.Updated)}
	config, _ := k.Payload["config"].(map[string]any)
	configurable, _ := config["configurable"].(map[string]any)
	config = merged(config, map[string]any{"configurable": merged(configurable, map[string]any{"cron_id": k.ID})})
	v.Payload = merged(k.Payload, map[string]any{"config": config})
	if k.ThreadID != "" {
		v.ThreadID = &k.ThreadID
	} else {
		how := "delete"
		if k.Keep {
			how = "keep"
		}
		v.OnRunCompleted = &how
	}
	if k.Timezone != "" {
		v.Timezone = &k.Timezone
	}
	if k.Ends != nil {
		end := stamped(*k.Ends)
		v.EndTime = &end
	}
	return v
}

// cronFields are the fields of a cron that its runs do not have, and those of its runs.
var (
	cronFields = append([]field{may("schedule", text), may("end_time", orNull(text)), may("timezone", orNull(text)), may("enabled", flag),
		may("on_run_completed", oneOf("delete", "keep"))},
		runFields[1:]...)
	cronShape  = record(append([]field{need("assistant_id", text), need("schedule", text)}, cronFields[1:]...)...).with(oneContext)
	cronPatch  = record(cronFields...).with(oneContext)
	cronFilter = []field{may("assistant_id", identifier("assistant")), may("thread_id", identifier("thread")), may("enabled", flag), may("metadata", object)}
	cronSearch = searchPage(1000, append(slices.Clip(cronFilter),
		may("select", list(oneOf("cron_id", "assistant_id", "thread_id", "user_id", "end_time", "schedule", "timezone", "payload",
			"next_run_date", "metadata", "on_run_completed", "enabled", "created_at", "updated_at"))),
		may("sort_by", oneOf("cron_id", "assistant_id", "thread_id", "next_run_date", "end_time", "created_at", "updated_at")))...)
)

// plan sets the schedule of a cron from a request.
func (k *cron) plan(in body) error {
	if s, ok := in["schedule"].(string); ok {
		k.Schedule = s
	}
	if z, ok := in["timezone"]; ok {
		k.Timezone, _ = z.(string)
	}
	if on, ok := in["enabled"].(bool); ok {
		k.Enabled = on
	}
	if end, ok := in["end_time"]; ok {
		k.Ends = nil
		if s, ok := end.(string); ok {
			at, ok := timeOf(s)
			if !ok {
				return fail(422, "Invalid end_time: %q is no time in ISO 8601", s)
			}
			k.Ends = &at
		}
	}
	return k.advance(now())
}

// timeOf parses a time in ISO 8601. Without a zone, as Python writes naive times, it is UTC.
func timeOf(s string) (at time.Time, ok bool) {
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			return at, true
		}
	}
	return at, false
}

// expression is when the cron is due, as package runs reads it.
func (k *cron) expression() string {
	if k.Timezone == "" {
		return k.Schedule
	}
	return "CRON_TZ=" + k.Timezone + " " + k.Schedule
}

// advance sets when the cron is due next.
func (k *cron) advance(at time.Time) error {
	if k.Timezone != "" {
		if _, err := time.LoadLocation(k.Timezone); err != nil || strings.ContainsAny(k.Timezone, " \t") {
			return fail(422, "Invalid timezone: %q", k.Timezone)
		}
	}
	next, err := runs.NextTime(k.expression(), at)
	if every := runs.CheckCron(k.expression()); err == nil && every != nil && k.Next.IsZero() {
		return fail(422, "Invalid cron schedule: %s", every)
	}
	if errors.Is(err, runs.ErrNeverDue) {
		return fail(422, "Invalid cron schedule: '%s'. Reason: No date is like that, so it would never run.", k.Schedule)
	}
	if err != nil || strings.Contains(k.Schedule, "TZ=") {
		return fail(422, "Invalid cron schedule: '%s'. Reason: Invalid cron schedule. Ensure the schedule uses the standard cron format (minute hour day_of_month month day_of_week). Example: '*/5 * * * *' for every 5 minutes.", k.Schedule)
	}
	k.Next = next
	return nil
}

// create makes a cron: on the thread of the path, or one that makes threads.
func (s *cronAPI) create(c *call) error {
	a, err := s.assistants.named(c, c.body.text("assistant_id"))
	if err != nil {
		return instead(err, 422, fail(404, "Assistant '%s' not found", c.body.text("assistant_id")))
	}
	created, err := c.access("threads", "create")
	if err != nil {
		return err
	}
	at := now()
	k := cron{ID: uuid.Must(uuid.NewV7()).String(), AssistantID: a.ID, ThreadID: c.path("thread_id"),
		Metadata: c.grant.stamp(c.body.object("metadata")), Stamp: created.stamp(nil),
		User: *c.user, Keep: c.body.text("on_run_completed") == "keep", Enabled: true, Created: at, Updated: at}
	if k.ThreadID != "" {
		g, err := c.access("threads", "create_run")
		if err != nil {
			return err
		}
		if _, ok, err := s.threads.record(c.ctx, k.ThreadID, g); err != nil || !ok {
			return cmp.Or(err, noThreadOfCron(k))
		}
	}
	k.Payload = merged(c.body, map[string]any{"assistant_id": a.ID})
	if err := k.plan(c.body); err != nil {
		return err
	}
	if err := s.checkRun(c, k, a); err != nil {
		return err
	}
	ok, err := s.keep(c.ctx, k)
	if err != nil { // it may be stored, but the client does not learn its id
		if err := s.crons.delete(context.WithoutCancel(c.ctx), k); err != nil {
			s.log.Error("take a cron back", "cron", k.ID, "error", err)
		}
	}
	if err != nil || !ok {
		return cmp.Or(err, noThreadOfCron(k))
	}
	return c.json(k.shown())
}

func noThreadOfCron(k cron) error {
	return fail(404, "Thread with ID '%s' not found. Please verify the ID is correct and the thread hasn't been deleted or expired.", k.ThreadID)
}

// keep stores a cron, with when it is due, unless its thread is not there.
func (s *cronAPI) keep(ctx context.Context, k cron) (ok bool, err error) {
	due := deferredAction{Kind: deferredCron, Run: k.ID, Due: k.Next}
	op, err := s.deferred.records.op(due.key(), due)
	if err != nil {
		return false, err
	}
	if ok, err = s.crons.put(ctx, k, op); ok && err == nil {
		s.deferred.expect(due)
	}
	return ok, err
}

// ofPath is the cron of a path, if the grant shows it. Whose one is that cannot be decoded is not known: it
// is shown, with errUndecodedCron, to those alone whom no filter binds.
func (s *cronAPI) ofPath(c *call) (cron, error) {
	k, ok, err := s.crons.records.get(c.ctx, c.path("cron_id"))
	if errors.Is(err, errUndecoded) {
		s.log.Error("a cron cannot be read", "cron", c.path("cron_id"), "error", err)
		if err = errNotFound; c.grant.all() {
			err = errUndecodedCron
		}
		return k, err
	}
	if err == nil && (!ok || !c.grant.admits(k.Metadata)) {
		err = errNotFound
	}
	return k, err
}

var errUndecodedCron = fail(http.StatusInternalServerError, "The cron cannot be read: the log of the server says why. It can be deleted.")

func (s *cronAPI) get(c *call) error {
	k, err := s.ofPath(c)
	return c.answer(k.shown(), err)
}

func (s *cronAPI) patch(c *call) error {
	defer s.locks.cron(c.path("cron_id"))()
	k, err := s.ofPath(c)
	if err != nil {
		return err
	}
	delete(c.body, "assistant_id")
	k.Payload = merged(k.Payload, c.body)
	if m := c.body.object("metadata"); m != nil {
		k.Metadata = c.grant.changed(k.Metadata, m)
	}
	if how := c.body.text("on_run_completed"); how != "" {
		k.Keep = how == "keep"
	}
	k.Updated = now()
	if err := k.plan(c.body); err != nil {
		return err
	}
	if slices.ContainsFunc(runShape.fields, func(f field) bool { _, given := c.body[f.name]; return given }) {
		if err := s.checkPayload(c, k); err != nil {
			return err
		}
	}
	if ok, err := s.keep(c.ctx, k); err != nil || !ok {
		return cmp.Or(err, error(errNotFound))
	}
	return c.json(k.shown())
}

// checkPayload refuses a payload of which no run can be made. A cron whose assistant is removed or
// hidden later is disabled when it is due.
func (s *cronAPI) checkPayload(c *call, k cron) error {
	a, err := s.assistants.named(c, k.AssistantID)
	if err != nil {
		return instead(err, http.StatusNotFound, nil)
	}
	return s.checkRun(c, k, a)
}

// checkRun refuses a cron of whose payload no run can be made. If its checkpoint is removed later its runs fail.
func (s *cronAPI) checkRun(c *call, k cron, a assistant) error {
	t := newThread(k.ThreadID, nil)
	if err := s.runs.hasCheckpoint(c.ctx, t.ID, k.Payload); err != nil {
		return err
	}
	_, err := s.runs.request(c, k.Payload, a, t, true)
	return err
}

func (s *cronAPI) delete(c *call) error {
	defer s.locks.cron(c.path("cron_id"))()
	k, err := s.ofPath(c)
	if err != nil && err != errUndecodedCron {
		return err
	}
	k.ID = c.path("cron_id")
	return c.none(s.crons.delete(c.ctx, k))
}

var cronOrder = sorting[cron]{
	by: map[string]func(a, b cron) int{
		"cron_id":       func(a, b cron) int { return strings.Compare(a.ID, b.ID) },
		"assistant_id":  func(a, b cron) int { return strings.Compare(a.AssistantID, b.AssistantID) },
		"thread_id":     func(a, b cron) int { return strings.Compare(a.ThreadID, b.ThreadID) },
		"created_at":    func(a, b cron) int { return a.Created.Compare(b.Created) },
		"updated_at":    func(a, b cron) int { return a.Updated.Compare(b.Updated) },
		"next_run_date": func(a, b cron) int { return a.Next.Compare(b.Next) },
		"end_time":      func(a, b cron) int { return a.ends().Compare(b.ends()) },
	},
	then: func(a, b cron) int { return b.Created.Compare(a.Created) },
}

// ends is when the cron ends; behind all times if it does not.
func (k cron) ends() time.Time {
	if k.Ends == nil {
		return time.Unix(1<<62, 0)
	}
	return *k.Ends
}

// brief returns the part of a cron that a search keeps until its page is cut: other fields may be
// large.
func (k cron) brief() cron {
	return cron{ID: k.ID, AssistantID: k.AssistantID, ThreadID: k.ThreadID, Next: k.Next, Ends: k.Ends, Created: k.Created, Updated: k.Updated}
}

// find returns the crons of a search, in its order, as brief returns them.
func (s *cronAPI) find(c *call) ([]cron, error) {
	on, only := c.body["enabled"].(bool)
	assistant, thread, metadata := usual(c.body.text("assistant_id")), c.body.text("thread_id"), c.body.object("metadata")
	return s.crons.records.find(c.ctx, c.body, cronOrder, cron.brief, func(k cron) bool {
		return c.grant.admits(k.Metadata) && (assistant == "" || k.AssistantID == assistant) && (thread == "" || k.ThreadID == thread) &&
			(!only || k.Enabled == on) && (metadata == nil || contains(k.Metadata, metadata))
	})
}

func (s *cronAPI) search(c *call) error {
	found, err := s.find(c)
	return searched(c, found, err, func(f cron) (any, bool, error) {
		k, ok, err := s.crons.records.get(c.ctx, f.ID)
		return k.shown(), ok && c.grant.admits(k.Metadata), err
	})
}

func (s *cronAPI) count(c *call) error {
	found, err := s.find(c)
	return c.answer(len(found), err)
}

// fire submits the run of a cron that is due, and says when it is due again.
func (s *cronAPI) fire(ctx context.Context, a deferredAction) (again time.Time, err error) {
	defer s.locks.cron(a.Run)()
	k, ok, err := s.crons.records.get(ctx, a.Run)
	if errors.Is(err, errUndecoded) { // a newer version may be able to decode it; otherwise it can be deleted
		s.deferred.logUnlessEnding(ctx, "a cron cannot be read", err)
		return now().Add(time.Hour), nil
	}
	if err != nil || !ok {
		return s.deferred.done(ctx, a, err)
	}
	if k.Next.After(now()) { // it was changed, or another server has fired it, or a clock was ahead
		due, err := runs.DueAt(k.expression(), k.Next, now())
		if err == nil && due.Equal(k.Next) {
			return due, s.crons.index(ctx, k)
		}
		if err != nil {
			return k.Next, err
		}
		k.Next = due
		return s.putFired(ctx, a, k)
	}
	if k.Ends != nil && k.Ends.Before(now()) {
		k.Enabled = false
	}
	if k.Enabled {
		if err := s.submit(ctx, &k); err != nil {
			return time.Time{}, fmt.Errorf("cron %s: %w", k.ID, err)
		}
	}
	if err := k.advance(now()); err != nil {
		return time.Time{}, err
	}
	return s.putFired(ctx, a, k)
}

// putFired stores a cron with when it is due next. One that another process has removed while it was fired stays away.
func (s *cronAPI) putFired(ctx context.Context, a deferredAction, k cron) (again time.Time, err error) {
	if _, there, err := s.crons.records.get(ctx, k.ID); err != nil || !there {
		return s.deferred.done(ctx, a, err)
	}
	_, err = s.crons.put(ctx, k) // if its thread is gone the cron is, when it would be due next
	return k.Next, err
}

// grant returns the present grant of a cron's user; ok is false if the user may see nothing. The
// thread, or the assistant, may have been removed since the cron was made, and another user may have
// made one with the same id.
func (s *cronAPI) grant(ctx context.Context, k *cron, resource, action string) (g Grant, ok bool, err error) {
	value := merged(k.Payload, map[string]any{"cron_id": k.ID})
	if k.ThreadID != "" {
		value["thread_id"] = k.ThreadID
	}
	g, err = s.auth.grant(ctx, &k.User, Access{resource, action, value})
	var f *failure
	if errors.As(err, &f) && f.status == http.StatusForbidden {
		return g, false, nil
	}
	return g, err == nil, err
}

// submit submits the run of a cron for the time that it is due at. A cron whose thread or
// assistant is gone, or not its user's any more, is disabled, and so is one whose user may not run it.
func (s *cronAPI) submit(ctx context.Context, k *cron) error {
	c := &call{auth: s.auth, ctx: ctx, user: &k.User, body: k.Payload, in: map[string]any(k.Payload)}
	a, ok, err := s.assistants.records.get(ctx, k.AssistantID)
	if err != nil || !ok {
		k.Enabled = ok
		return err
	}
	g, ok, err := s.grant(ctx, k, "assistants", "read")
	if ok = ok && a.reads(g); err != nil || !ok {
		k.Enabled = ok || err != nil
		return err
	}
	due := k.ID + "/" + k.Next.UTC().Format(time.RFC3339)
	in := body(merged(k.shown().Payload))
	in["metadata"] = merged(in.object("metadata"), map[string]any{"cron_id": k.ID})
	id := k.ThreadID
	if id == "" {
		id = uuid.NewSHA1(namespaceGraph, []byte(due)).String()
	}
	defer s.locks.thread(id)()
	g, ok, err = s.grant(ctx, k, "threads", "create_run")
	t, known := thread{}, false
	switch {
	case err != nil || !ok:
	case k.ThreadID == "":
		t, known, err = s.threads.records.get(ctx, id)
		ok = !known || contains(t.Metadata, k.Stamp) // who knows the cron's id can make a thread of that id
	default:
		t, ok, err = s.threads.record(ctx, id, g)
		known = ok
	}
	if err != nil || !ok {
		k.Enabled = ok || err != nil
		return err
	}
	if !known {
		t = newThread(id, k.Stamp)
		t.Temporary = !k.Keep
	}
	c.grant = g
	_, err = s.runs.submit(c, in, t, a, k.ThreadID == "" && !k.Keep, "cron/"+due)
	return instead(err, 409, nil) // the thread is busy, and the cron's strategy is to reject
}
