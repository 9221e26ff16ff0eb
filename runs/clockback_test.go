package runs

import (
	"testing"
	"time"
)

// TestClockSetBack: a run that is submitted later is newer, also when the clock was set back before the
// queue opened again.
func TestClockSetBack(t *testing.T) {
	at := time.Now().Add(time.Hour)
	o := LocalOptions{Clock: func() time.Time { return at }}
	q, items := newQueue(t, o)
	restart := func() {
		lastID.Lock()
		defer lastID.Unlock()
		lastID.at = 0
	}
	restart()
	first := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	restart()
	at = at.Add(-2 * time.Hour)
	q, err := NewLocal(t.Context(), items, o)
	if err != nil {
		t.Fatal(err)
	}
	second := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	if newest := q.Newest("t"); newest != second.ID {
		t.Errorf("%s is the newest, behind %s comes %s", newest, first.ID, second.ID)
	}
	at = at.Add(3 * time.Hour)
	if c, _, err := q.Claim(t.Context(), "w", []string{"g"}); err != nil || c == nil || c.ID != first.ID {
		t.Errorf("claimed %+v, %v; %s was submitted first", c, err, first.ID)
	}
}

// TestClockSetBackInBetween: a run whose time has come when the queue looks for the next one can be
// claimed, also when the clock is set back while it looks.
func TestClockSetBackInBetween(t *testing.T) {
	at, looks := time.Now(), -1000
	q, _ := newQueue(t, LocalOptions{Clock: func() time.Time {
		if looks++; looks == 2 {
			at = at.Add(-time.Hour)
		}
		if looks > 100 {
			panic("the queue waits for the clock, with its lock")
		}
		return at
	}})
	r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}, After: at.Add(time.Minute)})
	at = at.Add(2 * time.Minute)
	looks = 0
	if c, _, err := q.Claim(t.Context(), "w", []string{"g"}); err != nil || c == nil || c.ID != r.ID {
		t.Errorf("claimed %+v, %v; %s is due", c, err, r.ID)
	}
}
