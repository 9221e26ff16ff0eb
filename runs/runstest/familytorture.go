package runstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// FamilyTorture is a program whose processes may be killed at any moment, like Torture. Each parent starts three children, of
// five kinds in turn: they end, sleep, ask, fail, or sleep until they are cancelled. Each start of a child, and
// each end that a parent got, has an effect outside under its pregel.IdempotencyKey.
type FamilyTorture struct {
	Dir     string
	Queue   runs.Queue
	Saver   saver.Saver
	Parents int
}

// kindsOfChild are the kinds, with what the parent says of each.
var kindsOfChild = []struct{ kind, said string }{
	{"ends", "did ends"}, {"sleeps", "did sleeps"}, {"asks", "did asks: yes"}, {"fails", "failed"}, {"cancelled", "cancelled"},
}

func (x *FamilyTorture) graphs() (map[string]*pregel.Graph, error) {
	out := (&Torture{Dir: x.Dir}).effect
	random := func(ctx context.Context) error {
		t := time.NewTimer(time.Duration(time.Now().UnixNano()%5) * time.Millisecond) // the process may die in it
		defer t.Stop()
		select {
		case <-t.C:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	child, err := pregel.Entrypoint("child", func(ctx context.Context, in string) (string, error) {
		if err := random(ctx); err != nil {
			return "", err
		}
		kind, _, _ := strings.Cut(in, " ")
		said := "did " + kind
		if err := out(ctx, "begun "+in); err != nil {
			return "", err
		}
		switch kind {
		case "sleeps":
			if err := pregel.Sleep(ctx, 20*time.Millisecond); err != nil {
				return "", err
			}
		case "cancelled":
			if err := pregel.Sleep(ctx, time.Hour); err != nil {
				return "", err
			}
		case "asks":
			v, err := pregel.AskFor[string](ctx, "?")
			if err != nil {
				return "", err
			}
			said += ": " + v
		case "fails":
			return "", pregel.ErrInvalidUpdate
		}
		return said, random(ctx)
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: x.Saver}})
	if err != nil {
		return nil, err
	}
	got := pregel.NewTask("got", func(ctx context.Context, what string) (string, error) { return what, out(ctx, "got "+what) })
	kin := pregel.NewChild[string, string]("child")
	parent, err := pregel.Entrypoint("parent", func(ctx context.Context, n int) (string, error) {
		var started []pregel.StartedChild[string]
		for i := range 3 {
			s, err := kin.Start(ctx, fmt.Sprintf("%s %d of %d", kindsOfChild[(n+i)%len(kindsOfChild)].kind, i, n))
			if err != nil {
				return "", err
			}
			started = append(started, s)
			if err := random(ctx); err != nil {
				return "", err
			}
		}
		var all []string
		for i, s := range started {
			said, err := s.Get(ctx)
			var how *pregel.ChildError
			if errors.As(err, &how) {
				said, err = string(how.How), nil
			}
			if err != nil {
				return "", err
			}
			if said, err = got.Call(ctx, fmt.Sprintf("%s from %d of %d", said, i, n)); err != nil {
				return "", err
			}
			all = append(all, said)
		}
		return strings.Join(all, ", "), nil
	}, pregel.EntrypointOptions{Options: pregel.Options{Saver: x.Saver}})
	return map[string]*pregel.Graph{"parent": parent, "child": child}, err
}

// Work is what a worker process does until ctx ends.
func (x *FamilyTorture) Work(ctx context.Context) error {
	if err := os.MkdirAll(filepath.Join(x.Dir, "effects"), 0o755); err != nil {
		return err
	}
	graphs, err := x.graphs()
	if err != nil {
		return err
	}
	w := &runs.Worker{Queue: x.Queue, Saver: x.Saver, Graphs: graphs, Concurrency: 8, Backoff: func(int) time.Duration { return 20 * time.Millisecond }}
	return w.Run(ctx)
}

// Drive submits the parents, answers and cancels children, and returns when all parents have ended. It may be called again,
// in any process.
func (x *FamilyTorture) Drive(ctx context.Context) error {
	open := map[string]string{} // by run: its thread
	for n := range x.Parents {
		r, err := x.Queue.Submit(ctx, runs.Request{Key: fmt.Sprint("parent ", n), Input: n,
			Spec: runs.Spec{ThreadID: threadName(n), Graph: "parent", Attempts: 1000}})
		if err != nil {
			return err
		}
		open[r.ID] = r.ThreadID
	}
	changed, stop := x.Queue.Watch("")
	defer stop()
	for len(open) > 0 {
		for r, err := range x.Queue.List(ctx, runs.Query{Graph: "child"}) {
			if err == nil {
				err = x.push(ctx, r)
			}
			if err != nil {
				return err
			}
		}
		for id := range maps.Clone(open) {
			r, err := x.Queue.Get(ctx, id)
			if err != nil {
				return err
			}
			if r.Status.Ended() {
				delete(open, id)
			}
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// push answers a child that asks, and cancels one that sleeps for that.
func (x *FamilyTorture) push(ctx context.Context, r runs.Run) (err error) {
	in, err := x.Queue.Serializer().Decode(r.Input)
	if err != nil {
		return err
	}
	text, _ := in.(string)
	switch kind, _, _ := strings.Cut(text, " "); {
	case kind == "cancelled" && r.Asleep():
		_, err = x.Queue.Cancel(ctx, r.ID, runs.Interrupt)
	case kind == "asks" && r.Status == runs.Success && r.Waiting:
		_, err = x.Queue.Submit(ctx, runs.Request{Key: "answer " + r.ThreadID, Input: pregel.Command{Resume: "yes"},
			Spec: runs.Spec{ThreadID: r.ThreadID, Graph: "child", Attempts: 1000}})
	}
	return err
}

// Check returns what was broken: a parent that did not get each end once, a child that was started twice, or not at all,
// effects that are missing or came under two keys.
func (x *FamilyTorture) Check(ctx context.Context) error {
	var broken error
	report := func(format string, args ...any) { broken = errors.Join(broken, fmt.Errorf(format, args...)) }
	graphs, err := x.graphs()
	if err != nil {
		return err
	}
	want := map[string]bool{}
	for n := range x.Parents {
		var all []string
		for i := range 3 {
			k := kindsOfChild[(n+i)%len(kindsOfChild)]
			said := fmt.Sprintf("%s from %d of %d", k.said, i, n)
			all = append(all, said)
			want["got "+said], want[fmt.Sprintf("begun %s %d of %d", k.kind, i, n)] = true, true
		}
		got, err := graphs["parent"].Output(ctx, threadName(n))
		if err != nil {
			return err
		}
		if said := strings.Join(all, ", "); got != said {
			report("parent %d got %q, want %q", n, got, said)
		}
	}
	threads := map[string]int{}
	for r, err := range x.Queue.List(ctx, runs.Query{Graph: "child"}) {
		if err != nil {
			return err
		}
		threads[r.Parent+" "+r.ThreadID]++
		if !r.Status.Ended() {
			report("a child has not ended: %+v", r)
		}
	}
	if len(threads) != 3*x.Parents {
		report("%d children, want %d", len(threads), 3*x.Parents)
	}
	found, err := effectsIn(x.Dir)
	if err != nil {
		return err
	}
	seen := map[string]int{}
	for _, text := range found {
		_, name, _ := strings.Cut(text, " ")
		if seen[name]++; name != "" && (seen[name] > 1 || !want[name]) {
			report("effect %q came %d times", name, seen[name])
		}
	}
	if len(found) != len(want) {
		report("%d effects, want %d: missing %q", len(found), len(want), slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(s string) bool { return seen[s] > 0 }))
	}
	return broken
}
