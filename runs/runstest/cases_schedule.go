package runstest

import (
	"time"

	"github.com/stele-go/stele/runs"
)

func (e *env) schedules() []runs.Schedule {
	e.Helper()
	all, err := e.q.Schedules(e.ctx)
	if err != nil {
		e.Fatalf("schedules: %v", err)
	}
	return all
}

func (e *env) put(id, cron string) runs.Schedule {
	e.Helper()
	s, err := e.q.PutSchedule(e.ctx, runs.Schedule{ID: id, Cron: cron, Spec: runs.Spec{Graph: "g"}})
	if err != nil {
		e.Fatalf("schedule %s %q: %v", id, cron, err)
	}
	return s
}

var scheduleCases = []testCase{
	{"schedules", "cron expressions", func(e *env) {
		// It is Friday, 2026-01-02 03:04:05.000006 UTC.
		for cron, want := range map[string]string{
			"* * * * *":                    "2026-01-02T03:05:00Z",
			"30 4 * * *":                   "2026-01-02T04:30:00Z",
			"0 3 * * *":                    "2026-01-03T03:00:00Z",
			"0 0 1 * *":                    "2026-02-01T00:00:00Z",
			"0 0 * * mon":                  "2026-01-05T00:00:00Z",
			"*/15 * * * *":                 "2026-01-02T03:15:00Z",
			"@daily":                       "2026-01-03T00:00:00Z",
			"@every 1h30m":                 "2026-01-02T04:34:05Z",
			"CRON_TZ=Asia/Tokyo 0 0 * * *": "2026-01-02T15:00:00Z",
		} {
			if s := e.put("s", cron); s.Next.Format(time.RFC3339Nano) != want {
				e.Errorf("%q: next %v, want %v", cron, s.Next, want)
			}
		}
		if all := e.schedules(); len(all) != 1 {
			e.Errorf("%d schedules of one id", len(all))
		}
	}},
	{"schedules", "that are none", func(e *env) {
		for _, cron := range []string{"", "no", "* * * *", "* * * * * *", "99 * * * *", "0 0 30 2 *", "CRON_TZ=No/Where * * * * *", "CRON_TZ=UTC",
			"TZ=", "@every", "a\x00"} {
			_, err := e.q.PutSchedule(e.ctx, runs.Schedule{ID: "s", Cron: cron, Spec: runs.Spec{Graph: "g"}})
			e.refused(cron, err, runs.ErrInvalid)
		}
		for _, s := range []runs.Schedule{{Cron: "@daily", Spec: runs.Spec{Graph: "g"}}, {ID: "s", Cron: "@daily"},
			{ID: "\x00", Cron: "@daily", Spec: runs.Spec{Graph: "g"}}} {
			_, err := e.q.PutSchedule(e.ctx, s)
			e.refused("schedule", err, runs.ErrInvalid)
		}
		if all := e.schedules(); len(all) != 0 {
			e.Errorf("stored %+v", all)
		}
	}},
	{"schedules", "by id", func(e *env) {
		for _, id := range []string{"b", "a", "B", "ä"} {
			s, err := e.q.PutSchedule(e.ctx, runs.Schedule{ID: id, Cron: "@daily", Spec: runs.Spec{Graph: "g", Metadata: map[string]any{"id": id}, Priority: 4}})
			if err != nil || s.Spec.Attempts != runs.DefaultAttempts || s.Spec.Input.Kind == "" {
				e.Fatalf("schedule: %+v, %v", s, err)
			}
		}
		var ids []string
		for _, s := range e.schedules() {
			ids = append(ids, s.ID)
			e.equal("metadata", s.Spec.Metadata, map[string]any{"id": s.ID})
		}
		e.equal("ids", ids, []string{"B", "a", "b", "ä"})
		for range 2 {
			if err := e.q.DeleteSchedule(e.ctx, "a"); err != nil {
				e.Fatalf("delete: %v", err)
			}
		}
		if err := e.q.DeleteSchedule(e.ctx, "no"); err != nil {
			e.Fatalf("delete: %v", err)
		}
		e.equal("left", len(e.schedules()), 3)
	}},
	{"schedules", "advance by compare and set", func(e *env) {
		s := e.put("s", "@hourly")
		other := e.put("t", "@hourly")
		to := s.Next.Add(time.Hour)
		advance := func(id string, from, to time.Time, want time.Time) {
			e.Helper()
			if err := e.q.Advance(e.ctx, id, from, to); err != nil {
				e.Fatalf("advance: %v", err)
			}
			if got := e.schedules()[0].Next; !got.Equal(want) || got.Location() != time.UTC {
				e.Fatalf("next %v, want %v", got, want)
			}
		}
		advance("s", s.Next.Add(time.Second), to, s.Next)
		advance("s", s.Next, to, to)
		advance("s", s.Next, to.Add(time.Hour), to)
		advance("no", s.Next, to, to)
		e.equal("the other", e.schedules()[1].Next, other.Next)
	}},
}
