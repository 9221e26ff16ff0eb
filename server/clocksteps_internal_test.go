package server

import (
	"testing"
	"time"
)

// TestClockSteps: a clock that is set back is noticed, however long the server waited meanwhile.
func TestClockSteps(t *testing.T) {
	start := now()
	for _, c := range []struct {
		shown, passed time.Duration
		want          bool
	}{
		{0, 0, false},
		{time.Hour, time.Hour, false},
		{time.Hour - time.Second, time.Hour, false}, // it is corrected a little
		{48 * time.Hour, time.Hour, false},          // set forward, or the machine slept
		{-2 * time.Minute, 0, true},
		{time.Minute, time.Hour, true},
	} {
		steps := clockSteps{}
		if steps.back(start, time.Minute) {
			t.Error("set back at the first look")
		}
		if got := steps.back(start.Add(c.shown), time.Minute+c.passed); got != c.want {
			t.Errorf("%v later it shows %v more: %t", c.passed, c.shown, got)
		}
		if steps.back(start.Add(c.shown), time.Minute+c.passed) {
			t.Error("set back twice")
		}
	}
}
