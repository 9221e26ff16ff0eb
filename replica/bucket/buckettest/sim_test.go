package buckettest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/replica/bucket"
	"github.com/stele-go/stele/replica/bucket/buckettest"
)

// TestSim: without failures it is a bucket, for who looks at it and for a client.
func TestSim(t *testing.T) {
	t.Run("as it is", func(t *testing.T) {
		buckettest.Test(t, func(*testing.T) bucket.Bucket { return buckettest.NewSim(nil) })
	})
	t.Run("client", func(t *testing.T) {
		buckettest.Test(t, func(*testing.T) bucket.Bucket { return buckettest.NewSim(nil).Client("a") })
	})
}

func fated(fates ...buckettest.Fate) *buckettest.Sim {
	return buckettest.NewSim(func(c buckettest.Call) buckettest.Fate {
		if c.N < len(fates) {
			return fates[c.N]
		}
		return buckettest.Applied
	})
}

func put(b bucket.Bucket, text string, cond bucket.Condition) error {
	_, err := b.Put(context.Background(), "k", bucket.NewBody([]byte(text)), cond)
	return err
}

// has returns what lies under k, or "none".
func has(t *testing.T, b bucket.Bucket) string {
	t.Helper()
	o, err := b.Get(t.Context(), "k", bucket.GetOptions{})
	if errors.Is(err, bucket.ErrNotFound) {
		return "none"
	}
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(o.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestFates: what each does to a create, and what is there then, after another call, and in the end.
func TestFates(t *testing.T) {
	const unknown = "unknown"
	for _, c := range []struct {
		fate                     buckettest.Fate
		told                     string
		at, afterAnother, atLast string
	}{
		{buckettest.Applied, "ok", "1", "1", "1"},
		{buckettest.NotApplied, unknown, "none", "none", "none"},
		{buckettest.AnswerLost, unknown, "1", "1", "1"},
		{buckettest.Twice, "refused", "1", "1", "1"},
		{buckettest.Again, "ok", "1", "1", "1"},
		{buckettest.Late, unknown, "none", "none", "1"},
		{buckettest.LateBy(1), unknown, "none", "1", "1"},
		{buckettest.LateBy(2), unknown, "none", "none", "1"},
		{buckettest.Cut, "ok", "1", "1", "1"}, // a put has no body to cut
	} {
		s := fated(c.fate)
		told, err := "ok", put(s.Client("a"), "1", bucket.Condition{IfAbsent: true})
		switch {
		case errors.Is(err, bucket.ErrCondition):
			told = "refused"
		case errors.Is(err, buckettest.ErrUnknown):
			told = unknown
		}
		at := has(t, s)
		if _, err := s.Client("b").List(t.Context(), "", ""); err != nil {
			t.Fatal(err)
		}
		afterAnother := has(t, s)
		s.Deliver()
		if last := has(t, s); told != c.told || at != c.at || afterAnother != c.afterAnother || last != c.atLast {
			t.Errorf("%s: told %s, then %s, %s, %s\n%s", c.fate, told, at, afterAnother, last, s)
		}
	}
}

// TestAgain: a second copy that arrives late brings back what was deleted, and overwrites without
// a condition.
func TestAgain(t *testing.T) {
	s := fated(buckettest.Again)
	a := s.Client("a")
	if err := errors.Join(put(a, "1", bucket.Condition{IfAbsent: true}), a.Delete(t.Context(), "k")); err != nil || has(t, s) != "none" {
		t.Fatal(err)
	}
	if s.Deliver(); has(t, s) != "1" {
		t.Error(s)
	}
}

func TestCut(t *testing.T) {
	s := fated(buckettest.Cut)
	if err := put(s, "0123456789", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	o, err := s.Client("a").Get(t.Context(), "k", bucket.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := io.ReadAll(o.Body); string(text) != "01234" || !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("got %q, %v", text, err)
	}
}

// TestDisconnect: a client that is cut off reaches nothing, others do.
func TestDisconnect(t *testing.T) {
	s := buckettest.NewSim(nil)
	s.Disconnect("a")
	if err := put(s.Client("a"), "1", bucket.Condition{}); !errors.Is(err, buckettest.ErrUnknown) || has(t, s.Client("b")) != "none" {
		t.Errorf("got %v\n%s", err, s)
	}
	s.Connect("a")
	if err := put(s.Client("a"), "2", bucket.Condition{}); err != nil || has(t, s.Client("b")) != "2" {
		t.Errorf("got %v\n%s", err, s)
	}
}

// TestStall: a stalled call is applied when its client goes on; so is one whose caller has gone.
func TestStall(t *testing.T) {
	s := buckettest.NewSim(nil)
	s.Stall("a")
	ctx, cancel := context.WithCancel(t.Context())
	gone := make(chan error)
	go func() {
		_, err := s.Client("a").Put(ctx, "k", bucket.NewBody([]byte("late")), bucket.Condition{IfAbsent: true})
		gone <- err
	}()
	cancel()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := put(s.Client("b"), "b", bucket.Condition{}); err != nil {
		t.Fatal(err)
	}
	waits := make(chan error)
	go func() { waits <- put(s.Client("a"), "a", bucket.Condition{}) }()
	select {
	case err := <-waits:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	if has(t, s) != "b" {
		t.Error(s)
	}
	s.Resume("a")
	if err := <-waits; err != nil || has(t, s) != "a" {
		t.Errorf("got %v\n%s", err, s)
	}
}

// TestSeeded: the same calls draw the same fates, whoever else calls in between, another seed draws
// others, and every fate is drawn.
func TestSeeded(t *testing.T) {
	run := func(seed uint64, between bool) (fates []buckettest.Fate) {
		s := buckettest.NewSim(buckettest.Seeded(seed, 2))
		for i := range 300 {
			if between && i%3 == 0 {
				_ = put(s.Client("b"), "x", bucket.Condition{})
			}
			_ = put(s.Client("a"), "1", bucket.Condition{})
			if o, err := s.Client("a").Get(t.Context(), "k", bucket.GetOptions{}); err == nil {
				_ = o.Body.Close()
			}
			_ = s.Client("a").Delete(t.Context(), "k")
		}
		for _, c := range s.History() {
			if c.Client == "a" {
				fates = append(fates, c.Fate)
			}
		}
		return fates
	}
	first := run(1, false)
	if !slices.Equal(first, run(1, true)) {
		t.Error("others change what a client draws")
	}
	if slices.Equal(first, run(2, false)) {
		t.Error("two seeds draw the same")
	}
	for f := buckettest.Applied; f <= buckettest.LateBy(1); f++ {
		if f != buckettest.Late && !slices.Contains(first, f) {
			t.Errorf("%s is never drawn", f)
		}
	}
}

// TestEachFault: every call has each of its fates once, and the text of the history says which.
func TestEachFault(t *testing.T) {
	var seen []string
	buckettest.EachFault(t, func(t *testing.T, s *buckettest.Sim) {
		a := s.Client("a")
		_ = put(a, "1", bucket.Condition{IfAbsent: true})
		if o, err := a.Get(t.Context(), "k", bucket.GetOptions{}); err == nil {
			_ = o.Body.Close()
		}
		for _, c := range s.History() {
			if c.Fate != buckettest.Applied {
				seen = append(seen, fmt.Sprint(c.Op, " ", c.Fate))
				if !strings.Contains(s.String(), fmt.Sprintf("a: %s k", c.Op)) || !strings.Contains(s.String(), c.Fate.String()) {
					t.Errorf("the history is\n%s", s)
				}
			}
		}
	})
	want := []string{"put not applied", "put answer lost", "put twice", "put again", "put late", "put late by 1 calls", "put late by 2 calls", "get not applied", "get answer lost", "get cut"}
	if !slices.Equal(seen, want) {
		t.Errorf("got %q", seen)
	}
}
