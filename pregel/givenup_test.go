package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// stuck is a thread whose node ends its process in every run; runs counts them. It is
// at the checkpoint before the node.
func stuck(t *testing.T) (g *pregel.Graph, runs *int) {
	t.Helper()
	p, n := &post{opts: graph.Options{Name: "post"}}, 0
	s := p.dies(t, "put 1")
	p.sending = func(context.Context) error { n++; return nil }
	g = p.graph(t, &dying{s})
	if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); !errors.Is(err, errDead) {
		t.Fatal(err)
	}
	n = 0
	return g, &n
}

// New input that finishes first counts as an attempt at recovery, of the same count:
// what kills the process is not run by every message. Nil runs it all the same.
func TestFinishFirstGivesUp(t *testing.T) {
	g, runs := stuck(t)
	if report, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil || report.Threads[0].Attempt != 1 {
		t.Fatalf("%+v, %v", report, err)
	}
	for i := range 5 {
		_, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"))
		if !errors.Is(err, pregel.ErrUnfinished) || errors.Is(err, pregel.ErrGivenUp) != (i >= 2) {
			t.Errorf("input %d: %v", i+1, err)
		}
	}
	if *runs != 3 {
		t.Errorf("the node ran %d times", *runs)
	}
	if report, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil || report.Threads[0].Outcome != pregel.GivenUp {
		t.Errorf("%+v, %v", report, err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), nil); !errors.Is(err, errDead) || *runs != 4 {
		t.Errorf("nil: %v; the node ran %d times", err, *runs)
	}
}

// A caller who goes away while a thread is finished uses up no attempt.
func TestCancelledAttemptsDoNotCount(t *testing.T) {
	p := &post{opts: graph.Options{Name: "post"}}
	s := p.dies(t, "put 1")
	g := p.graph(t, s)
	for i := range 6 {
		gone, leave := context.WithCancel(ctx)
		p.sending = func(context.Context) error { leave(); return gone.Err() }
		if i == 0 { // to the checkpoint before send
			if _, err := g.Invoke(gone, pregel.Thread("t"), nil); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			continue
		}
		if i%2 == 0 {
			if _, err := g.Invoke(gone, pregel.Thread("t"), letter("second")); errors.Is(err, pregel.ErrGivenUp) || err == nil {
				t.Errorf("input %d: %v", i, err)
			}
			continue
		}
		report, err := g.Recover(gone, pregel.RecoverOptions{})
		if err == nil || len(report.Threads) != 1 || report.Threads[0].Outcome != pregel.RecoveryFailed || report.Threads[0].Attempt != 1 {
			t.Errorf("recovery %d: %+v, %v", i, report, err)
		}
	}
	p.sending = nil
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second")); err != nil {
		t.Error(err)
	}
}

// Nor does a caller who goes away while the attempt is counted: a saver that notices in the middle
// cannot say whether the count is stored. One who goes away right before is not counted at all.
func TestCancelledCountsDoNotCount(t *testing.T) {
	p := &post{opts: graph.Options{Name: "post"}}
	after, calls := func(string, int) {}, map[string]int{}
	s := saver.Intercept(p.dies(t, "put 1"), func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
		err := next(ctx)
		calls[call.Method]++
		after(call.Method, calls[call.Method])
		if call.Method == "CountAttempt" && err == nil && ctx.Err() != nil {
			return fmt.Errorf("%w: %w", saver.ErrOutcomeUnknown, context.Cause(ctx))
		}
		return err
	})
	g := p.graph(t, s)
	lists := 0 // before the count
	for i := range 12 {
		gone, leave := context.WithCancel(ctx)
		clear(calls)
		want := 1 - i%2
		after = func(method string, n int) {
			if want == 1 && method == "CountAttempt" {
				lists = calls["List"]
				leave()
			}
			if want == 0 && method == "List" && n == lists { // the last before it
				leave()
			}
		}
		if _, err := g.Invoke(gone, pregel.Thread("t"), letter("second")); !errors.Is(err, context.Canceled) || errors.Is(err, saver.ErrOutcomeUnknown) || calls["CountAttempt"] != want {
			t.Errorf("input %d: counted %d times, want %d; %v", i, calls["CountAttempt"], want, err)
		}
	}
	after = func(string, int) {}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second")); err != nil || p.mailed() != "[first second]" {
		t.Errorf("mailed %s, %v", p.mailed(), err)
	}
}
