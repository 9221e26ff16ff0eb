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
	if newest, changed := q.Newest("t"); newest != second.ID || !changed.Equal(second.Created) {
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

// TestClockSetBackBeforeOpen: a run that was submitted before the clock was set back waits no longer than it
// was to, also where another process has it now.
func TestClockSetBackBeforeOpen(t *testing.T) {
	at := time.Now()
	o := LocalOptions{Clock: func() time.Time { return at }}
	q, items := newQueue(t, o)
	now := submitted(t, q, Request{Spec: Spec{ThreadID: "now", Graph: "g"}})
	later := submitted(t, q, Request{Spec: Spec{ThreadID: "later", Graph: "g"}, After: at.Add(time.Minute)})
	at = at.Add(-24 * time.Hour)
	q, err := NewLocal(t.Context(), items, o)
	if err != nil {
		t.Fatal(err)
	}
	claims := func(want string) {
		t.Helper()
		c := claimNext(t, q)
		if c == nil && want != "" || c != nil && c.ID != want {
			t.Fatalf("claimed %+v, want %q", c, want)
		}
		if c != nil {
			if err := q.Finish(t.Context(), *c, Outcome{Status: Success}); err != nil {
				t.Fatal(err)
			}
		}
	}
	claims(now.ID)
	at = at.Add(59 * time.Second)
	claims("")
	at = at.Add(time.Second)
	claims(later.ID)
}

// TestClockSetBackBetweenEnds: of a thread's runs the one counts that ended last, whatever the clock showed:
// what one that was cancelled left unfinished stays so.
func TestClockSetBackBetweenEnds(t *testing.T) {
	at := time.Now()
	q, _ := newQueue(t, LocalOptions{Clock: func() time.Time { return at }})
	claim := func() *Claim {
		t.Helper()
		submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
		c := claimNext(t, q)
		if c == nil {
			t.Fatal("nothing was claimed")
		}
		return c
	}
	for _, status := range []Status{Success, Interrupted} {
		if err := q.Finish(t.Context(), *claim(), Outcome{Status: status}); err != nil {
			t.Fatal(err)
		}
		at = at.Add(-time.Hour)
	}
	if c := claim(); !c.Discard {
		t.Error("what a cancelled run left is finished by the next one")
	}
}

// TestClockSetBackBeforeRetry: a run that was given back after the clock was set back waits for its next attempt, also
// where another process has it then.
func TestClockSetBackBeforeRetry(t *testing.T) {
	at := time.Now()
	o := LocalOptions{Clock: func() time.Time { return at }}
	q, items := newQueue(t, o)
	r := submitted(t, q, Request{Spec: Spec{ThreadID: "t", Graph: "g"}})
	at = at.Add(-24 * time.Hour)
	claim := func() *Claim { return claimNext(t, q) }
	c := claim()
	if c == nil {
		t.Fatal("nothing was claimed")
	}
	if err := q.Finish(t.Context(), *c, Outcome{Status: Pending, After: at.Add(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	q, err := NewLocal(t.Context(), items, o)
	if err != nil {
		t.Fatal(err)
	}
	if c := claim(); c != nil {
		t.Errorf("claimed %+v before its time", c)
	}
	at = at.Add(time.Minute)
	if c := claim(); c == nil || c.ID != r.ID {
		t.Errorf("claimed %+v, want %s", c, r.ID)
	}
}
