package runs_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/runs"
)

// TestClocksAreChanged: where the clocks of a time zone are changed, a schedule for certain hours is due
// once for each of its times: at the change, if that skips it, and the first of two times. One for every
// hour goes by the time that passes.
func TestClocksAreChanged(t *testing.T) {
	for _, c := range []struct{ cron, from, want string }{
		// 02:00 becomes 03:00 on 29 March, and 03:00 becomes 02:00 on 25 October.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2026-10-24T00:00:00Z", "2026-10-24T00:30:00Z 2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin */20 2 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z 2026-03-30T00:20:00Z"},
		{"CRON_TZ=Europe/Berlin */20 2 * * *", "2026-10-24T23:59:00Z", "2026-10-25T00:00:00Z 2026-10-25T00:20:00Z 2026-10-25T00:40:00Z 2026-10-26T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 2,3 * * *", "2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z 2026-03-30T00:00:00Z 2026-03-30T01:00:00Z"},
		{"CRON_TZ=Europe/Berlin 0 1-4 * * *", "2026-10-24T22:00:00Z", "2026-10-24T23:00:00Z 2026-10-25T00:00:00Z 2026-10-25T02:00:00Z 2026-10-25T03:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-03-28T23:45:00Z", "2026-03-29T00:30:00Z 2026-03-29T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 * * * *", "2026-10-24T23:45:00Z", "2026-10-25T00:30:00Z 2026-10-25T01:30:00Z 2026-10-25T02:30:00Z"},
		{"CRON_TZ=Europe/Berlin @hourly", "2026-10-24T23:45:00Z", "2026-10-25T00:00:00Z 2026-10-25T01:00:00Z 2026-10-25T02:00:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 29 3 *", "2026-01-01T00:00:00Z", "2026-03-29T01:00:00Z 2027-03-29T00:30:00Z"},
		// Half an hour, 02:00 becomes 02:30 on 4 October.
		{"CRON_TZ=Australia/Lord_Howe 15 2 * * *", "2026-10-03T12:00:00Z", "2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
		// There is no midnight on 26 April.
		{"CRON_TZ=Africa/Cairo @daily", "2024-04-25T12:00:00Z", "2024-04-25T22:00:00Z 2024-04-26T21:00:00Z"},
		// The last day of a leap year for which time zones have rules, and no table.
		{"CRON_TZ=Europe/Berlin 30 2 * * *", "2040-12-30T12:00:00Z", "2040-12-31T01:30:00Z 2041-01-01T01:30:00Z"},
		{"CRON_TZ=Europe/Berlin 30 2 31 3 *", "2040-12-30T12:00:00Z", "2041-03-31T01:00:00Z 2042-03-31T00:30:00Z"},
		{"CRON_TZ=Europe/Berlin 0 * 31 7 *", "2040-12-31T12:00:00Z", "2041-07-30T22:00:00Z 2041-07-30T23:00:00Z"},
		{"30 2 * * *", "2026-03-28T12:00:00Z", "2026-03-29T02:30:00Z 2026-03-30T02:30:00Z"},
	} {
		at, got := must(time.Parse(time.RFC3339, c.from)), ""
		for len(got) < len(c.want) {
			at = must(runs.NextTime(c.cron, at))
			if got != "" {
				got += " "
			}
			got += at.Format(time.RFC3339)
		}
		if got != c.want {
			t.Errorf("%s from %s:\n%s, want\n%s", c.cron, c.from, got, c.want)
		}
	}
}

// TestDueAt: a stored time stays, unless the clock must have been ahead when it was computed. Clocks that
// differ a little are right.
func TestDueAt(t *testing.T) {
	now := must(time.Parse(time.RFC3339, "2026-03-28T12:00:30Z"))
	at := func(d time.Duration) time.Time { return now.Add(d) }
	for _, c := range []struct {
		cron         string
		stored, want time.Time
	}{
		{"*/5 * * * *", at(4*time.Minute + 30*time.Second), at(4*time.Minute + 30*time.Second)},
		{"*/5 * * * *", at(-time.Hour), at(-time.Hour)},
		{"*/5 * * * *", at(9*time.Minute + 30*time.Second), at(4*time.Minute + 30*time.Second)},
		{"* * * * *", at(90 * time.Second), at(90 * time.Second)},
		{"* * * * *", at(150 * time.Second), at(30 * time.Second)},
		{"@every 1h", at(time.Hour + time.Minute), at(time.Hour + time.Minute)},
		{"@every 1h", at(time.Hour + 2*time.Minute), at(time.Hour)},
		{"@yearly", at(30 * 365 * 24 * time.Hour), must(time.Parse(time.RFC3339, "2027-01-01T00:00:00Z"))},
	} {
		if got := must(runs.DueAt(c.cron, c.stored, now)); !got.Equal(c.want) {
			t.Errorf("%s, stored %v: %v, want %v", c.cron, c.stored, got, c.want)
		}
	}
}

// TestScheduleCatchesUp: one run makes up for the times that passed while no worker lived, or while
// the machine slept. A schedule that a clock which was far ahead has put off is due again soon.
func TestScheduleCatchesUp(t *testing.T) {
	t.Parallel()
	h := newHouse(t)
	h.add("g", says("a"))
	put := func(id, cron string) runs.Schedule {
		return must(h.queue.PutSchedule(t.Context(), runs.Schedule{ID: id, Cron: cron, Spec: runs.Spec{Graph: "g", ThreadID: id}}))
	}
	missed, ahead, slept := put("missed", "@every 1h"), put("ahead", "@every 1s"), put("slept", "0 0 1 1 *")
	for _, s := range []struct {
		runs.Schedule
		next time.Time
	}{{missed, time.Now().Add(-72 * time.Hour)}, {ahead, time.Now().Add(1000 * time.Hour)}, {slept, slept.Next.AddDate(-1, 0, 0)}} {
		if err := h.queue.Advance(t.Context(), s.ID, s.Next, s.next); err != nil {
			t.Fatal(err)
		}
	}
	h.start(h.worker())
	threads := func() (all []string) {
		for r, err := range h.queue.List(t.Context(), runs.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, r.ThreadID)
		}
		return all
	}
	for !slices.Contains(threads(), "ahead") || !slices.Contains(threads(), "missed") || !slices.Contains(threads(), "slept") {
		time.Sleep(time.Millisecond)
		if t.Context().Err() != nil {
			t.Fatal("schedules are not due")
		}
	}
	for n := len(threads()); len(threads()) < n+2; { // it goes on
		time.Sleep(time.Millisecond)
	}
	for _, s := range must(h.queue.Schedules(t.Context())) {
		n := len(slices.DeleteFunc(threads(), func(thread string) bool { return thread != s.ID }))
		if s.ID != "ahead" && n != 1 || !s.Next.After(time.Now().Add(-time.Minute)) || s.ID == "slept" && !s.Next.Equal(slept.Next) {
			t.Errorf("%s: %d runs, the next at %v", s.ID, n, s.Next)
		}
	}
}
