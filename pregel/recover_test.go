package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/savertest"
)

// Recover runs what this graph left, and reports the rest.
func TestRecover(t *testing.T) {
	p := &post{opts: graph.Options{Name: "post"}}
	s := p.dies(t, afterSend, pregel.RunOptions{RunID: "run 1"})
	other := &post{opts: graph.Options{Name: "other"}}
	if err := s.CopyThread(ctx, "t", "u"); err != nil {
		t.Fatal(err)
	}
	if report, err := other.graph(t, s).Recover(ctx, pregel.RecoverOptions{}); err != nil || len(report.Threads) != 2 ||
		report.Threads[0].Outcome != pregel.OtherGraph || report.Threads[0].Graph != "post" || other.mailed() != "[]" {
		t.Errorf("another graph: %+v, %v, mailed %s", report, err, other.mailed())
	}
	plain := &post{}
	if _, err := plain.graph(t, noteless{s}).Invoke(ctx, pregel.Thread("v"), letter("x")); err != nil {
		t.Fatal(err)
	}
	g := p.graph(t, s)
	asked := 0
	report, err := g.Recover(ctx, pregel.RecoverOptions{Run: func(state *pregel.StateSnapshot) (pregel.RunOptions, error) {
		asked++
		if state.Address.ThreadID == "u" {
			return pregel.RunOptions{}, errDead
		}
		return pregel.RunOptions{Metadata: map[string]any{"by": "recovery"}}, nil
	}})
	if err != nil || len(report.Threads) != 2 || fmt.Sprint(report.Unknown) != "[v]" || asked != 2 {
		t.Fatalf("%+v, %v, asked %d times", report, err, asked)
	}
	if r := report.Threads[0]; r.ThreadID != "t" || r.Outcome != pregel.Recovered || r.Attempt != 1 || len(r.Next) > 0 {
		t.Errorf("%+v", r)
	}
	if r := report.Threads[1]; r.Outcome != pregel.RecoveryFailed || !errors.Is(r.Err, errDead) || r.Attempt != 0 {
		t.Errorf("%+v", r)
	}
	state := newest(t, g)
	if state.Status != saver.StatusDone || p.mailed() != "[first]" || state.Metadata.RunID() != "run 1" || state.Metadata["by"] != "recovery" {
		t.Errorf("%+v, mailed %s", state, p.mailed())
	}
}

// A node that ends its process in every run is run as often as Recover may, and then
// its thread is given up. The attempt is counted before anything is run.
func TestRecoverGivesUp(t *testing.T) {
	g, runs := stuck(t)
	for i := range 5 {
		report, err := g.Recover(ctx, pregel.RecoverOptions{Attempts: 2})
		if err != nil || len(report.Threads) != 1 {
			t.Fatalf("%+v, %v", report, err)
		}
		r := report.Threads[0]
		if i < 2 && (r.Outcome != pregel.RecoveryFailed || r.Attempt != i+1) || i >= 2 && r.Outcome != pregel.GivenUp {
			t.Errorf("recovery %d: %+v", i+1, r)
		}
	}
	if *runs != 2 {
		t.Errorf("the node ran %d times", *runs)
	}
}

// noteless is a saver that stores what LangGraph stores: its checkpoints have no notes.
type noteless struct{ saver.Saver }

func (s noteless) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	req.Note = nil
	return s.Saver.PutRequest(c, req)
}

// dying is a saver of a process that dies before a task's writes are stored.
type dying struct{ saver.Saver }

func (d *dying) PutRequest(c context.Context, req saver.PutRequest) (saver.Config, error) {
	return savertest.Apart(c, req, d.PutWrites, d.Saver.PutRequest)
}

func (*dying) PutWrites(context.Context, saver.Config, []saver.Write, string, string) error {
	return errDead
}

// A thread that a run has is left to it; so many are run at a time as was asked for.
func TestRecoverDuringRuns(t *testing.T) {
	p := &post{opts: graph.Options{Name: "post"}}
	s := p.dies(t, "put 1")
	for i := range 6 {
		if err := s.CopyThread(ctx, "t", fmt.Sprint("u", i)); err != nil {
			t.Fatal(err)
		}
	}
	lease, err := s.Own(ctx, "t", false)
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Release()
	var now, most atomic.Int32
	p.sending = func(context.Context) error {
		n := now.Add(1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		now.Add(-1)
		return nil
	}
	report, err := p.graph(t, s).Recover(ctx, pregel.RecoverOptions{AtOnce: 2})
	if err != nil || len(report.Threads) != 7 {
		t.Fatalf("%+v, %v", report, err)
	}
	if r := report.Threads[0]; r.ThreadID != "t" || r.Outcome != pregel.Busy || !errors.Is(r.Err, pregel.ErrConflict) || r.Attempt != 0 {
		t.Errorf("%+v", r)
	}
	for _, r := range report.Threads[1:] {
		if r.Outcome != pregel.Recovered {
			t.Errorf("%+v", r)
		}
	}
	if most.Load() > 2 {
		t.Errorf("%d threads ran at a time", most.Load())
	}
}

func TestRecoverRefuses(t *testing.T) {
	s := memory.New(memory.Options{})
	for name, c := range map[string]struct {
		g    *pregel.Graph
		o    pregel.RecoverOptions
		want error
	}{
		"no saver":    {(&post{opts: graph.Options{Name: "post"}}).graph(t, nil), pregel.RecoverOptions{}, pregel.ErrNoSaver},
		"no name":     {(&post{}).graph(t, s), pregel.RecoverOptions{}, pregel.ErrInvalidGraph},
		"at once":     {(&post{opts: graph.Options{Name: "post"}}).graph(t, s), pregel.RecoverOptions{AtOnce: -1}, pregel.ErrInvalidArgument},
		"no attempts": {(&post{opts: graph.Options{Name: "post"}}).graph(t, s), pregel.RecoverOptions{Attempts: -1}, pregel.ErrInvalidArgument},
	} {
		if _, err := c.g.Recover(ctx, c.o); !errors.Is(err, c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
