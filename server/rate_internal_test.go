package server

import (
	"fmt"
	"testing"
	"time"
)

// TestRates: a bucket fills with time, is each user's own, and the table does not grow.
func TestRates(t *testing.T) {
	r := &rates{per: 2, burst: 3, most: 10}
	at := time.Unix(1e9, 0)
	for range 3 {
		if wait := r.take("ann", at); wait != 0 {
			t.Fatalf("wait %v", wait)
		}
	}
	for range 5 { // what is refused takes nothing
		if wait := r.take("ann", at); wait != 500*time.Millisecond {
			t.Fatalf("wait %v", wait)
		}
	}
	if wait := r.take("bob", at); wait != 0 {
		t.Fatalf("another waits %v", wait)
	}
	at = at.Add(500 * time.Millisecond)
	if first, second := r.take("ann", at), r.take("ann", at); first != 0 || second != 500*time.Millisecond {
		t.Fatalf("waits %v, %v", first, second)
	}
	for i := range 9 { // fewer than the table holds: ann is not forgotten
		r.take(fmt.Sprint("u", i), at)
	}
	if wait := r.take("ann", at); wait != 500*time.Millisecond {
		t.Fatalf("wait %v", wait)
	}
	for i := range 1000 {
		r.take(fmt.Sprint("v", i), at)
		if n := len(r.young) + len(r.old); n > 20 {
			t.Fatalf("%d users", n)
		}
	}
}
