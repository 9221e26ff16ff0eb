package runstest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// behindWait: a child that has slept, and fails then, is tried again if it may be, and ends if not.
func (f *family) behindWait() {
	f.graphOf("child", "", func(ctx context.Context, in string) (string, error) {
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		f.did("child " + in)
		if in == "never" {
			return "", pregel.ErrInvalidUpdate
		}
		if f.count("child "+in) < 3 {
			return "", errors.New("not yet")
		}
		return "did " + in, nil
	})
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		flaky, err := kin.Start(ctx, "flaky")
		if err != nil {
			return "", err
		}
		never, err := kin.Start(ctx, "never")
		if err != nil {
			return "", err
		}
		v, err := flaky.Get(ctx)
		if err != nil {
			return "", err
		}
		var failed *pregel.ChildError
		if _, err := never.Get(ctx); !errors.As(err, &failed) {
			return "", err
		}
		return v + ", " + string(failed.How), nil
	})
	f.waits(p)
	f.pass()
	f.returned(p, "did flaky, failed")
	f.wantDone("child flaky", "child flaky", "child flaky", "child never")
}

// count is how often something was done.
func (d *dormitory) count(what string) (n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, done := range d.done {
		if done == what {
			n++
		}
	}
	return n
}

// order: a body that awaits its children in another order when it runs again gets the end of each.
func (f *family) order() {
	backwards := false
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		var names [2]string
		var started [2]pregel.StartedChild[string]
		for i, in := range []string{"a", "sleep b"} {
			s, err := kin.Start(ctx, in)
			if err != nil {
				return "", err
			}
			names[i], started[i] = in, s
		}
		order := []int{0, 1}
		if backwards {
			order = []int{1, 0}
		}
		backwards = true
		for _, i := range order {
			v, err := started[i].Get(ctx)
			if err != nil {
				return "", err
			}
			names[i] += ": " + v
		}
		return strings.Join(names[:], ", "), nil
	})
	f.pass()
	f.returned(p, "a: did a, sleep b: did sleep b")
}

// answeredLate: an answer that was cancelled before it was begun ends no child, and the next one goes on with it.
func (f *family) answeredLate() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) { return kin.Call(ctx, "ask") })
	child := f.runOf(f.waits(p))
	if r, err := runs.Wait(f.Context(), f.queue, child.ID); err != nil || !r.Waiting {
		f.Fatalf("%+v, %v", r, err)
	}
	late, err := f.queue.Submit(f.Context(), runs.Request{Spec: runs.Spec{ThreadID: child.ThreadID, Graph: "child"},
		Input: pregel.Command{Resume: "late"}, After: never})
	if err != nil {
		f.Fatal(err)
	}
	if r, err := f.queue.Cancel(f.Context(), late.ID, runs.Interrupt); err != nil || r.Status != runs.Interrupted {
		f.Fatalf("%+v, %v", r, err)
	}
	f.returnedAs(f.run(child.ThreadID, "child", pregel.Command{Resume: "yes"}), "ask: yes")
	f.returned(p, "ask: yes")
}

// copied: a copy of a parent starts a child of its own, whether that of the original has ended or not.
func (f *family) copied() {
	p := f.parent(func(ctx context.Context, in string) (string, error) {
		v, err := kin.Call(ctx, "sleep "+in)
		if err != nil {
			return "", err
		}
		return v, pregel.Sleep(ctx, time.Hour)
	})
	f.until(f.runOf(f.waits(p)), runs.Run.Asleep)
	copied := func(thread string) runs.Run {
		if err := f.saver.CopyThread(f.Context(), "p", thread); err != nil {
			f.Fatal(err)
		}
		return f.run(thread, "parent", nil)
	}
	early := copied("early")
	f.until(f.runOf(f.waits(early)), runs.Run.Asleep)
	f.pass()
	f.until(p, func(r runs.Run) bool { return r.After.Before(never) && f.asleep(r) })
	late := copied("late")
	f.pass()
	f.returned(p, "did sleep in")
	f.returned(early, "did sleep in")
	f.until(f.runOf(f.waits(late)), runs.Run.Asleep)
	f.pass()
	f.pass()
	f.returned(late, "did sleep in")
	threads := map[string]bool{}
	for _, r := range f.children() {
		threads[r.ThreadID] = true
	}
	if len(threads) != 3 {
		f.Errorf("children of three threads: %v", threads)
	}
	for _, thread := range []string{"p", "early", "late"} {
		if st, err := f.graphs["parent"].GetState(f.Context(), pregel.Thread(thread)); err != nil || st.Status != saver.StatusDone {
			f.Errorf("%s: %+v, %v", thread, st, err)
		}
	}
}

// past: a thread that waited for a child for a time goes on without a worker when that has passed.
func (f *family) past() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		s, err := kin.Start(ctx, "ask")
		if err != nil {
			return "", err
		}
		v, ok, err := s.GetFor(ctx, time.Hour)
		return fmt.Sprint(v, ok), err
	})
	f.waits(p)
	f.stop()
	f.clock.Move(time.Hour)
	if res, err := f.graphs["parent"].Invoke(f.Context(), pregel.Thread("p"), nil); err != nil || res.Value != "false" {
		f.Fatalf("%+v, %v", res, err)
	}
}
