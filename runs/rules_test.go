package runs

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A cron expression names a time to come, or is refused.
func FuzzCron(f *testing.F) {
	for _, cron := range []string{"* * * * *", "@every 1h", "CRON_TZ=UTC 0 0 29 2 *", "TZ=", "CRON_TZ=", "@", "*/0 * * * *", "0 0 31 2 *"} {
		f.Add(cron)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC)
	f.Fuzz(func(t *testing.T, cron string) {
		next, err := NextTime(cron, now)
		if err == nil && !next.After(now) || err != nil && !errors.Is(err, ErrInvalid) {
			t.Errorf("%q: %v, %v", cron, next, err)
		}
	})
}

// TestEveryMoment: a time between that schedules do not have is refused by name, unless it is stored already.
func TestEveryMoment(t *testing.T) {
	for _, cron := range []string{"@every 0s", "@every -5s", "@every 1ns", "@every 999ms", "@every 1500ms", "CRON_TZ=UTC @every 0s"} {
		if err := CheckCron(cron); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "no whole number of seconds") {
			t.Errorf("%q: %v", cron, err)
		}
		if _, err := NextTime(cron, time.Now()); err != nil { // a stored one
			t.Errorf("%q: %v", cron, err)
		}
	}
	if err := CheckCron("@every 1s"); err != nil {
		t.Error(err)
	}
}

// TestDeepSpec: values that contain themselves, or that could not be read again, are refused. What is
// taken can be read.
func TestDeepSpec(t *testing.T) {
	ctx := t.Context()
	q, items := newQueue(t, LocalOptions{})
	cycle, list := map[string]any{}, make([]any, 1)
	cycle["list"], list[0] = list, cycle
	deep := func(n int) map[string]any {
		m := map[string]any{}
		for range n - 1 {
			m = map[string]any{"a": m}
		}
		return m
	}
	for _, c := range []struct {
		name string
		m    map[string]any
		ok   bool
	}{{"cycle", cycle, false}, {"5", deep(5), true}, {"1000", deep(1000), true}, {"10000", deep(10000), false}} {
		for field, spec := range map[string]Spec{
			"metadata": {Metadata: c.m}, "configurable": {Configurable: c.m}, "context": {Context: c.m}, "labels": {Labels: c.m},
		} {
			spec.Graph = "g"
			_, err := q.Submit(ctx, Request{Spec: spec})
			_, scheduled := q.PutSchedule(ctx, Schedule{ID: fmt.Sprint(c.name, field), Cron: "@daily", Spec: spec})
			for _, err := range []error{err, scheduled} {
				if c.ok && err != nil || !c.ok && !errors.Is(err, ErrInvalid) {
					t.Errorf("%s of %s: %v", field, c.name, err)
				}
			}
		}
	}
	if _, err := NewLocal(ctx, items, LocalOptions{}); err != nil {
		t.Error(err)
	}
}
