package runs

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/store"
)

// TestLostRuns: a queue opens although runs cannot be decoded. What can be decoded of them counts, no
// worker gets one, they hold nobody up, and each can be deleted with all that is stored of it.
func TestLostRuns(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	submit := func(thread, key string) Run {
		t.Helper()
		return submitted(t, q, Request{Spec: Spec{ThreadID: thread, Graph: "g"}, Key: key})
	}
	claim := func() Claim {
		t.Helper()
		c, _, err := q.Claim(ctx, "w", []string{"g"})
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		return *c
	}
	damage := func(ns store.Namespace, key, text string) {
		t.Helper()
		op := textOp(ns, key, text)
		if item, err := items.Get(ctx, ns, key); err == nil { // what is beside it stays
			maps.DeleteFunc(item.Value, func(name string, _ any) bool { return name == jsonField })
			maps.Copy(op.Value, item.Value)
		}
		if _, err := items.Batch(ctx, op); err != nil {
			t.Fatal(err)
		}
	}
	// One that was begun and has an event, one that waits behind it, one whose end is known, one whose
	// key alone is, and one whose events cannot be decoded.
	begun := submit("t", "begun")
	if _, err := q.Append(ctx, claim(), []Event{{Kind: "a"}, {Kind: "a"}}); err != nil {
		t.Fatal(err)
	}
	waits := submit("t", "")
	ended := submit("ended", "")
	if err := q.Finish(ctx, claim(), Outcome{Status: Error}); err != nil {
		t.Fatal(err)
	}
	noSpec, noEvents := submit("no spec", "no spec"), submit("no events", "")
	damage(runsSpace, begun.ID, `{"id":`)
	damage(specsSpace, ended.ID, `{"graph":`)
	damage(specsSpace, noSpec.ID, `{"graph":`)
	if _, err := items.Batch(ctx, eventsOp(noEvents.ID, 1, []byte{packedForm, packedPlace})); err != nil {
		t.Fatal(err)
	}
	lost := []string{begun.ID, ended.ID, noSpec.ID, noEvents.ID}

	var err error
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	list := func(sel Query, want ...string) {
		t.Helper()
		var got []string
		for r, err := range q.List(ctx, sel) {
			if slices.Contains(lost, r.ID) != errors.Is(err, ErrUnreadable) {
				t.Errorf("%+v: run %s: %v", sel, r.ID, err)
			}
			got = append(got, r.ID)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%+v: %q, want %q", sel, got, want)
		}
	}
	list(Query{}, begun.ID, waits.ID, ended.ID, noSpec.ID, noEvents.ID)
	list(Query{After: begun.ID, Limit: 3}, waits.ID, ended.ID, noSpec.ID)
	list(Query{Status: Error}, ended.ID)
	list(Query{Status: Pending}, waits.ID)
	list(Query{ThreadID: "t"}, begun.ID, waits.ID)

	// The one that can be decoded is executed, and no other.
	if c := claim(); c.ID != waits.ID {
		t.Errorf("claimed %s, want %s", c.ID, waits.ID)
	} else if err := q.Finish(ctx, c, Outcome{Status: Success}); err != nil {
		t.Error(err)
	}
	if c, _, err := q.Claim(ctx, "w", []string{"", "g"}); c != nil || err != nil {
		t.Errorf("claimed %+v, %v", c, err)
	}
	for _, id := range lost {
		if _, err := q.Cancel(ctx, id, Interrupt); !errors.Is(err, ErrUnreadable) {
			t.Errorf("cancelled %s: %v", id, err)
		}
	}
	// A key that is known is that of its run still; one that is not begins a new run.
	if r, err := q.Submit(ctx, Request{Spec: Spec{ThreadID: "no spec", Graph: "g"}, Key: noSpec.Key}); !errors.Is(err, ErrUnreadable) {
		t.Errorf("submitted again: %+v, %v", r, err)
	}
	again := submit("t", "begun")
	if again.ID == begun.ID {
		t.Error("a run whose key is unknown has it")
	}

	for _, id := range lost {
		if err := q.Delete(ctx, id); err != nil {
			t.Errorf("delete %s: %v", id, err)
		}
		if err := q.Delete(ctx, id); !errors.Is(err, ErrNotFound) {
			t.Errorf("delete %s again: %v", id, err)
		}
	}
	list(Query{}, waits.ID, again.ID)
	list(Query{Status: Error})
	list(Query{ThreadID: "t"}, waits.ID, again.ID)
	for found, err := range items.Scan(ctx, store.Query{Prefix: eventsSpace[:1]}) {
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(lost, func(id string) bool { return found.Key == id || slices.Contains(found.Namespace, id) }) {
			t.Errorf("%v %s is left", found.Namespace, found.Key)
		}
	}
	submit("new", "no spec") // its key is free
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	list(Query{ThreadID: "ended"})
}

// TestLostOpenRun: a run that a worker has is not deleted, whatever has become of what is stored of it.
func TestLostOpenRun(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	if _, err := items.Batch(ctx, textOp(runsSpace, r.ID, `{"id":`)); err != nil {
		t.Fatal(err)
	}
	if err := q.Delete(ctx, r.ID); !errors.Is(err, ErrInvalid) {
		t.Error(err)
	}
	c, _, err := q.Claim(ctx, "w", []string{"g"})
	if err != nil || c == nil {
		t.Fatal(c, err)
	}
	if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil {
		t.Error(err)
	}
}

// TestLostNumbers: an item whose events have not the numbers that its place tells is an error, and is not
// read again and again. A queue opens beside it.
func TestLostNumbers(t *testing.T) {
	ctx := t.Context()
	const event = `"kind":"a","data":{"Kind":"b","Data":""}`
	for _, text := range []string{
		`[{` + event + `}]`, `{` + event + `}`, `{}`, `[]`, `null`, `[{"seq":-1,` + event + `}]`, `[{"seq":2,` + event + `}]`,
		`[{"seq":1,` + event + `},{"seq":1,` + event + `}]`,
	} {
		q, items := newQueue(t, LocalOptions{})
		var all []Run
		for _, ends := range []bool{false, true} {
			r := submitted(t, q, Request{Spec: Spec{ThreadID: fmt.Sprint(ends), Graph: "g"}})
			c, _, err := q.Claim(ctx, "w", []string{"g"})
			if err != nil || c == nil {
				t.Fatal(c, err)
			}
			if _, err := q.Append(ctx, *c, []Event{{Kind: "a"}, {Kind: "a"}}); err != nil {
				t.Fatal(err)
			}
			if ends {
				if err := q.Finish(ctx, *c, Outcome{Status: Success}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := items.Batch(ctx, textOp(eventsOf(r.ID), seqKey(1), text)); err != nil {
				t.Fatal(err)
			}
			all = append(all, r)
		}
		q, err := NewLocal(ctx, items, LocalOptions{})
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if _, err := q.Get(ctx, all[0].ID); !errors.Is(err, ErrUnreadable) {
			t.Fatalf("%s: the run: %v", text, err)
		}
		for _, r := range all {
			if events, err := q.Events(ctx, r.ID, 0, 0); !errors.Is(err, ErrUnreadable) || len(events) > 0 {
				t.Errorf("%s: %d events of a run, %v", text, len(events), err)
			}
		}
		if c, _, err := q.Claim(ctx, "w", []string{"g"}); c != nil || err != nil {
			t.Errorf("%s: claimed %+v, %v", text, c, err)
		}
		for _, r := range all {
			if err := q.Delete(ctx, r.ID); err != nil {
				t.Errorf("%s: delete: %v", text, err)
			}
		}
	}
}

// TestNewerRuns: a run whose status or cancellation this version does not know is as one that cannot be
// decoded. No worker gets it.
func TestNewerRuns(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	for i, change := range []func(*Run){
		func(r *Run) { r.Status = "paused" },
		func(r *Run) { r.Status = "" },
		func(r *Run) { r.Cancel = "pause" },
	} {
		r := submitted(t, q, Request{Spec: Spec{ThreadID: fmt.Sprint(i), Graph: "g"}})
		change(&r)
		r.Spec = Spec{}
		op, err := putOp(runsSpace, r.ID, storedRun{Run: r})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := items.Batch(ctx, op); err != nil {
			t.Fatal(err)
		}
		if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
			t.Fatal(err)
		}
		if got, err := q.Get(ctx, r.ID); !errors.Is(err, ErrUnreadable) || got.ThreadID != fmt.Sprint(i) {
			t.Errorf("run %d: %+v, %v", i, got, err)
		}
		if c, _, err := q.Claim(ctx, "w", []string{"", "g"}); c != nil || err != nil {
			t.Errorf("run %d: claimed %+v, %v", i, c, err)
		}
		if _, err := q.Sweep(ctx, time.Now().Add(time.Hour)); !errors.Is(err, ErrUnreadable) {
			t.Errorf("run %d: sweep: %v", i, err)
		}
		if err := q.Delete(ctx, r.ID); err != nil {
			t.Errorf("run %d: %v", i, err)
		}
	}
}

// TestLostSchedules: a queue opens although a schedule cannot be decoded. It is listed with the reason, no
// worker submits a run of it, and it can be replaced and deleted.
func TestLostSchedules(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	for _, id := range []string{"bad", "good", "old"} {
		if _, err := q.PutSchedule(ctx, Schedule{ID: id, Cron: "@every 1s", Spec: Spec{Graph: id}}); err != nil {
			t.Fatal(err)
		}
	}
	for id, text := range map[string]string{"bad": `{"id":"other","next":"2020-01-01T00:00:00Z","spec":{"graph":"g","tags":5}}`, "old": `{`} {
		if _, err := items.Batch(ctx, textOp(schedulesSpace, id, text)); err != nil {
			t.Fatal(err)
		}
	}
	q, err := NewLocal(ctx, items, LocalOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Advance(ctx, "bad", time.Time{}, time.Now()); err != nil { // from what Next is
		t.Error(err)
	}
	listed := func(want ...string) {
		t.Helper()
		all, err := q.Schedules(ctx)
		var got []string
		for _, s := range all {
			if s.Unreadable == nil {
				got = append(got, s.ID)
			} else if got = append(got, "lost "+s.ID); s.Cron != "" || s.Spec.Graph != "" || !s.Next.IsZero() {
				t.Errorf("%+v", s)
			}
		}
		if !slices.Equal(got, want) || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	listed("lost bad", "good", "lost old")
	past := q.schedules["good"]
	past.Next = time.Now().Add(-time.Hour)
	q.schedules["good"] = past
	var logged strings.Builder // twice a second is too often to tell of it
	(&Worker{Queue: q, Logger: slog.New(slog.NewTextHandler(&logged, nil))}).fire(ctx, false)
	if logged.Len() > 0 {
		t.Error(logged.String())
	}
	for r, err := range q.List(ctx, Query{}) {
		if err != nil || r.Graph != "good" {
			t.Errorf("submitted %+v, %v", r, err)
		}
		past.ID = ""
	}
	if past.ID != "" {
		t.Error("the schedule that can be decoded has submitted no run")
	}
	if _, err := q.PutSchedule(ctx, Schedule{ID: "old", Cron: "@daily", Spec: Spec{Graph: "g"}}); err != nil {
		t.Error(err)
	}
	if err := q.DeleteSchedule(ctx, "bad"); err != nil {
		t.Error(err)
	}
	listed("good", "old")
	if q, err = NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Fatal(err)
	}
	listed("good", "old")
}
