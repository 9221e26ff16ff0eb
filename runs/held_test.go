package runs_test

import (
	"bytes"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stele-go/stele/base/metrics"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver/admin"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// heldHome is a queue in a store that was restored.
type heldHome struct {
	t     *testing.T
	dir   string
	clock *waittest.Clock
	d     *disk.Saver
	items *store.Local
	q     *runs.Local
}

func (h *heldHome) open() {
	h.t.Helper()
	h.d = must(disk.Open(h.dir, disk.Options{Clock: h.clock.Now}))
	h.items = must(store.On(h.d, store.Options{}))
	h.q = must(runs.NewLocal(h.t.Context(), h.items, runs.LocalOptions{Clock: h.clock.Now}))
}

func (h *heldHome) close() {
	h.t.Helper()
	if err := h.items.Close(); err != nil {
		h.t.Error(err)
	}
	if err := h.d.Close(); err != nil {
		h.t.Error(err)
	}
}

func (h *heldHome) submit(thread string) runs.Run {
	h.t.Helper()
	return must(h.q.Submit(h.t.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: "g"}, Input: map[string]any{"log": []string{"in"}}}))
}

// claim claims a run, and checks that it is that one; "" for none.
func (h *heldHome) claim(want string) *runs.Claim {
	h.t.Helper()
	c, _, err := h.q.Claim(h.t.Context(), "w", []string{"g"})
	if err != nil {
		h.t.Fatal(err)
	}
	got := ""
	if c != nil {
		got = c.ID
	}
	if got != want {
		h.t.Fatalf("claimed %q, want %q", got, want)
	}
	return c
}

func (h *heldHome) wantHeld(runs, schedules int) {
	h.t.Helper()
	if r, s := h.q.Held(); r != runs || s != schedules {
		h.t.Fatalf("%d runs and %d schedules are held, want %d and %d", r, s, runs, schedules)
	}
}

// newHeld restores a store with a run that waits, one that is under way, one that sleeps, one that has ended, and a schedule. Since then
// all of them have become due.
func newHeld(t *testing.T, o admin.BackupOptions) (h *heldHome, waiting, begun, asleep, ended runs.Run) {
	t.Helper()
	root := t.TempDir()
	h = &heldHome{t: t, dir: filepath.Join(root, "store"), clock: waittest.NewClock()}
	h.clock.Move(time.Now().Add(-48 * time.Hour).Sub(h.clock.Now())) // workers have their own
	h.open()
	ended = h.submit("ended")
	if err := h.q.Finish(t.Context(), *h.claim(ended.ID), runs.Outcome{Status: runs.Error, Error: "no"}); err != nil {
		t.Fatal(err)
	}
	asleep = h.submit("asleep")
	out := runs.Outcome{Status: runs.Pending, Waiting: true, After: h.clock.Now().Add(time.Hour)}
	if err := h.q.Finish(t.Context(), *h.claim(asleep.ID), out); err != nil {
		t.Fatal(err)
	}
	begun = h.submit("begun")
	h.claim(begun.ID)
	waiting = h.submit("waiting")
	if _, err := h.q.PutSchedule(t.Context(), runs.Schedule{ID: "s", Cron: "@hourly", Spec: runs.Spec{Graph: "g"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.BackupOpen(t.Context(), h.d, filepath.Join(root, "backup"), admin.BackupOptions{}); err != nil {
		t.Fatal(err)
	}
	h.close()
	h.dir = filepath.Join(root, "restored")
	if _, err := admin.Restore(t.Context(), filepath.Join(root, "backup"), h.dir, o); err != nil {
		t.Fatal(err)
	}
	h.clock.Move(24 * time.Hour)
	h.open()
	t.Cleanup(func() { h.close() })
	return h, waiting, begun, asleep, ended
}

// What waited when a store was restored waits until the store is released. New runs do not, but behind a run that was begun.
func TestRestoredQueueIsHeld(t *testing.T) {
	h, waiting, begun, asleep, _ := newHeld(t, admin.BackupOptions{})
	h.claim("")
	h.wantHeld(3, 1)
	if all := must(h.q.Schedules(t.Context())); len(all) != 1 || !all[0].Held {
		t.Fatalf("schedules: %+v", all)
	}
	h.claim(h.submit("new").ID)
	h.claim(h.submit("waiting").ID)
	behindBegun, behindAsleep := h.submit("begun"), h.submit("asleep")
	h.claim("")
	h.close()
	h.open() // what was submitted since goes on, and the rest is still held
	h.wantHeld(3, 1)
	h.clock.Move(time.Minute)
	h.claim(must(h.q.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "newer", Graph: "g", Priority: 1}})).ID)

	if err := h.d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for {
		c, _, err := h.q.Claim(t.Context(), "w", []string{"g"})
		if err != nil {
			t.Fatal(err)
		}
		if c == nil {
			break
		}
		got[c.ID] = true
		if err := h.q.Finish(t.Context(), *c, runs.Outcome{Status: runs.Success}); err != nil {
			t.Fatal(err)
		}
	}
	for name, r := range map[string]runs.Run{"waiting": waiting, "begun": begun, "asleep": asleep, "behind begun": behindBegun, "behind asleep": behindAsleep} {
		if !got[r.ID] {
			t.Errorf("the run %s was not claimed after the release", name)
		}
	}
	h.wantHeld(0, 0)
	if all := must(h.q.Schedules(t.Context())); all[0].Held {
		t.Error("the schedule is held after the release")
	}
	h.close()
	h.open()
	h.wantHeld(0, 0)
	for _, p := range h.d.Health().Problems {
		if p.Kind == metrics.TroubleHeld {
			t.Error(p)
		}
	}
}

// What somebody changes is wanted here, and is not held any more, also when the store is opened again.
func TestHeldUntilChanged(t *testing.T) {
	h, waiting, begun, asleep, ended := newHeld(t, admin.BackupOptions{})
	steps := []struct {
		name   string
		change func() error
		claims string
		held   int
	}{
		{"a signal", func() error { return h.q.Wake(t.Context(), "asleep") }, asleep.ID, 2},
		{"a rollback", func() error { _, err := h.q.Cancel(t.Context(), begun.ID, runs.Rollback); return err }, begun.ID, 1},
		{"a retry", func() error { _, err := h.q.Retry(t.Context(), ended.ID); return err }, ended.ID, 1},
		{"an interrupt", func() error { _, err := h.q.Cancel(t.Context(), waiting.ID, runs.Interrupt); return err }, "", 0},
	}
	for _, s := range steps {
		if err := s.change(); err != nil {
			t.Fatal(s.name, err)
		}
		h.wantHeld(s.held, 1)
		h.claim(s.claims)
	}
	h.close()
	h.open()
	h.wantHeld(0, 1)
	if _, err := h.q.PutSchedule(t.Context(), runs.Schedule{ID: "s", Cron: "@hourly", Spec: runs.Spec{Graph: "g"}}); err != nil {
		t.Fatal(err)
	}
	h.wantHeld(0, 0)
	h.close()
	h.open()
	h.wantHeld(0, 0)
}

// A worker in a store that is held submits nothing for its schedules.
func TestHeldSchedule(t *testing.T) {
	h, _, _, _, _ := newHeld(t, admin.BackupOptions{})
	house := newHouse(t)
	house.queue = h.q
	house.add("g", says("done"))
	var log bytes.Buffer
	w := house.worker()
	w.Logger = slog.New(slog.NewTextHandler(&log, nil))
	stop := house.start(w)
	if r := must(runs.Wait(t.Context(), h.q, h.submit("new").ID)); r.Status != runs.Success {
		t.Errorf("the new run: %+v", r)
	}
	// The worker looks at schedules before it claims.
	for r, err := range h.q.List(t.Context(), runs.Query{}) {
		if err != nil || r.Key != "" {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if err := h.d.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	changed, unwatch := h.q.Watch("")
	defer unwatch()
	for fired := false; !fired; {
		for r, err := range h.q.List(t.Context(), runs.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			fired = fired || r.Key != ""
		}
		if !fired {
			select {
			case <-changed:
			case <-t.Context().Done():
				t.Fatal("no run was submitted after the release")
			}
		}
	}
	stop()
	if !strings.Contains(log.String(), "3 runs, 1 schedule wait") {
		t.Errorf("the worker logs %s", &log)
	}
}

// Who restores in place of a store that was lost says so, and all goes on.
func TestRestoreReleased(t *testing.T) {
	h, _, _, _, _ := newHeld(t, admin.BackupOptions{Release: true})
	h.wantHeld(0, 0)
	for range 3 {
		if c, _, err := h.q.Claim(t.Context(), "w", []string{"g"}); c == nil || err != nil {
			t.Fatal(c, err)
		}
	}
}
