package runstest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/waittest"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
)

// Families tests workers with runs that start children, on a queue and a saver that open makes, fresh ones for each test.
func Families(t *testing.T, open func(t *testing.T, clock func() time.Time) Home) {
	for name, test := range map[string]func(*family){
		"call":      (*family).call,
		"exit":      (*family).exit,
		"side":      (*family).sideBySide,
		"ends":      (*family).ends,
		"deleted":   (*family).deleted,
		"timeout":   (*family).timeOut,
		"cancel":    (*family).cancelled,
		"detached":  (*family).detached,
		"fork":      (*family).fork,
		"again":     (*family).again,
		"changed":   (*family).changed,
		"queueless": (*family).queueless,
		"retried":   (*family).retried,
		"refused":   (*family).refusedAnswer,
		"type":      (*family).wrongType,
		"large":     (*family).large,
		"inside":    (*family).inside,
		"user":      (*family).user,
		"versions":  (*family).versions,
		"behind":    (*family).behindWait,
		"order":     (*family).order,
		"late":      (*family).answeredLate,
		"copied":    (*family).copied,
		"past":      (*family).past,
	} {
		t.Run(name, func(t *testing.T) {
			clock := waittest.NewClock()
			f := &family{dormitory: &dormitory{T: t, clock: clock}, home: open(t, clock.Now), graphs: map[string]*pregel.Graph{}}
			f.saver, f.queue = f.home.Saver, f.home.Queue
			f.graph = f.graphOf("child", "", f.childBody)
			test(f)
		})
	}
}

// family has a graph of children, which do what their input says, and graphs of parents that tests make.
type family struct {
	*dormitory
	home   Home
	graphs map[string]*pregel.Graph
	stop   func()
}

var kin = pregel.NewChild[string, string]("child")

// childBody is the body of a child: of "sleep 1" the words before the last say what to do.
func (f *family) childBody(ctx context.Context, in string) (string, error) {
	f.did("child " + in)
	switch what, _, _ := strings.Cut(in, " "); what {
	case "sleep":
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
	case "ask":
		v, err := pregel.AskFor[string](ctx, "?")
		return in + ": " + v, err
	case "fail":
		return "", fmt.Errorf("%w: %s", pregel.ErrInvalidUpdate, in)
	case "start": // a child of its own
		v, err := kin.Call(ctx, "sleep below")
		return in + ": " + v, err
	case "large":
		return strings.Repeat("x", 1<<20), nil
	}
	return "did " + in, nil
}

// graphOf adds an entrypoint to those of the workers.
func (f *family) graphOf(name, version string, body func(context.Context, string) (string, error)) *pregel.Graph {
	f.Helper()
	g, err := pregel.Entrypoint(name, body, pregel.EntrypointOptions{Options: pregel.Options{Saver: f.saver, Version: version,
		Store: f.home.Items, Env: pregel.Environment{Now: f.clock.Now}}})
	if err != nil {
		f.Fatal(err)
	}
	f.graphs[name] = g
	return g
}

// begin starts two workers, in place of those before.
func (f *family) begin() {
	f.Helper()
	if f.stop != nil {
		f.stop()
	}
	ctx, cancel := context.WithCancel(context.Background())
	var ended sync.WaitGroup
	for range 2 {
		w := &runs.Worker{Queue: f.queue, Saver: f.saver, Graphs: maps.Clone(f.graphs), Backoff: func(int) time.Duration { return 0 }}
		ended.Go(func() {
			if err := w.Run(ctx); err != nil {
				f.Error(err)
			}
		})
	}
	f.stop = sync.OnceFunc(func() {
		cancel()
		ended.Wait()
	})
	f.Cleanup(f.stop)
}

// parent starts workers with a parent, and submits a run of it to thread "p".
func (f *family) parent(body func(ctx context.Context, in string) (string, error)) runs.Run {
	f.Helper()
	f.graphOf("parent", "", body)
	f.begin()
	return f.run("p", "parent", "in")
}

func (f *family) run(thread, graph string, input any) runs.Run {
	f.Helper()
	r, err := f.queue.Submit(f.Context(), runs.Request{Spec: runs.Spec{ThreadID: thread, Graph: graph}, Input: input})
	if err != nil {
		f.Fatal(err)
	}
	return r
}

// asleep reports whether a run sleeps and is not due: one that is due will have another place soon.
func (f *family) asleep(r runs.Run) bool { return r.Asleep() && r.After.After(f.clock.Now()) }

// waits waits until a run sleeps and the thread waits for a child, and returns that child's thread.
func (f *family) waits(r runs.Run) string {
	f.Helper()
	f.until(r, f.asleep)
	st, err := f.graphs[r.Graph].GetState(f.Context(), pregel.Thread(r.ThreadID))
	if err != nil || len(st.Waits) == 0 || st.Waits[0].Child == "" || st.Waits[0].ChildGraph != "child" {
		f.Fatalf("%+v, %v", st, err)
	}
	return st.Waits[0].Child
}

// runOf is the only run of a thread.
func (f *family) runOf(thread string) runs.Run {
	f.Helper()
	var all []runs.Run
	for r, err := range f.queue.List(f.Context(), runs.Query{ThreadID: thread}) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, r)
	}
	if len(all) != 1 {
		f.Fatalf("runs of thread %s: %+v", thread, all)
	}
	return all[0]
}

// returned checks the end of a parent, and what it returned.
func (f *family) returned(r runs.Run, want string) {
	f.Helper()
	f.ended(r, runs.Success)
	if got, err := f.graphs[r.Graph].Output(f.Context(), r.ThreadID); err != nil || got != want {
		f.Fatalf("it returned %q, %v; want %q", got, err, want)
	}
}

// children are the runs of the graph of children.
func (f *family) children() (all []runs.Run) {
	f.Helper()
	for r, err := range f.queue.List(f.Context(), runs.Query{Graph: "child"}) {
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// call: a parent sleeps while its child does, whatever becomes of the workers, and gets what it returned.
func (f *family) call() {
	p := f.parent(func(ctx context.Context, in string) (string, error) {
		f.did("parent")
		v, err := kin.Call(ctx, "sleep "+in)
		if err != nil {
			return "", err
		}
		f.did("got " + v)
		if err := pregel.Sleep(ctx, time.Hour); err != nil { // the body runs once more
			return "", err
		}
		return v + "!", nil
	})
	child := f.runOf(f.waits(p))
	f.until(child, runs.Run.Asleep)
	if child.Parent != "p" {
		f.Fatalf("%+v", child)
	}
	f.begin()
	f.pass()
	f.ended(child, runs.Success)
	f.until(p, func(r runs.Run) bool { return r.After.Before(never) && f.asleep(r) })
	f.wantDone("parent", "child sleep in", "child sleep in", "parent", "got did sleep in")
	if err := f.queue.Delete(f.Context(), child.ID); err != nil { // it is not started anew
		f.Fatal(err)
	}
	f.pass()
	f.returned(p, "did sleep in!")
	f.wantDone("parent", "got did sleep in")
	if left := f.children(); len(left) > 0 {
		f.Fatalf("%+v", left)
	}
}

var never = time.Date(9000, 1, 1, 0, 0, 0, 0, time.UTC)

// exit: a run that stores everything at its end finds its child again.
func (f *family) exit() {
	f.graphOf("parent", "", func(ctx context.Context, in string) (string, error) { return kin.Call(ctx, "sleep "+in) })
	f.begin()
	p, err := f.queue.Submit(f.Context(), runs.Request{Spec: runs.Spec{ThreadID: "p", Graph: "parent", Durability: pregel.Exit}, Input: "in"})
	if err != nil {
		f.Fatal(err)
	}
	f.until(f.runOf(f.waits(p)), runs.Run.Asleep)
	f.pass()
	f.returned(p, "did sleep in")
	f.wantDone("child sleep in", "child sleep in")
}

// sideBySide: several children at once; each end counts once, and a body has their ends in its order.
func (f *family) sideBySide() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		f.did("parent")
		var started []pregel.StartedChild[string]
		for i := range 3 {
			s, err := kin.Start(ctx, fmt.Sprint("ask ", i))
			if err != nil {
				return "", err
			}
			started = append(started, s)
		}
		var got []string
		for _, s := range started {
			v, err := s.Get(ctx)
			if err != nil {
				return "", err
			}
			got = append(got, v)
		}
		return strings.Join(got, ", "), nil
	})
	f.waits(p)
	all := f.children()
	if len(all) != 3 {
		f.Fatalf("%+v", all)
	}
	for _, i := range []int{2, 0, 1} {
		if r, err := runs.Wait(f.Context(), f.queue, all[i].ID); err != nil || !r.Waiting {
			f.Fatalf("%+v, %v", r, err)
		}
		f.returnedAs(f.run(all[i].ThreadID, "child", pregel.Command{Resume: fmt.Sprint("answer ", i)}), fmt.Sprintf("ask %d: answer %d", i, i))
	}
	f.returned(p, "ask 0: answer 0, ask 1: answer 1, ask 2: answer 2")
	if n := len(f.children()); n != 6 {
		f.Fatalf("%d runs of children", n)
	}
}

// returnedAs is returned for a run of a child.
func (f *family) returnedAs(r runs.Run, want string) {
	f.Helper()
	if r.Parent == "" {
		f.Fatalf("it has no parent: %+v", r)
	}
	f.returned(r, want)
}

// ends: how a child ends is told by its error.
func (f *family) ends() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		failing, err := kin.Start(ctx, "fail 1")
		if err != nil {
			return "", err
		}
		sleeping, err := kin.Start(ctx, "sleep 2")
		if err != nil {
			return "", err
		}
		var said []string
		for _, s := range []pregel.StartedChild[string]{failing, sleeping} {
			var how *pregel.ChildError
			_, err := s.Get(ctx)
			if !errors.As(err, &how) {
				return "", err
			}
			if how.ThreadID != s.ThreadID || how.RunID == "" || how.Graph != "child" || !strings.Contains(err.Error(), how.RunID) {
				return "", fmt.Errorf("%+v", how)
			}
			said = append(said, string(how.How), how.Text)
		}
		return strings.Join(said, "; "), nil
	})
	f.waits(p)
	for _, r := range f.children() {
		if !r.Status.Ended() && strings.Contains(f.inputOf(r), "sleep") {
			f.until(r, runs.Run.Asleep)
			if _, err := f.queue.Cancel(f.Context(), r.ID, runs.Interrupt); err != nil {
				f.Fatal(err)
			}
		}
	}
	f.ended(p, runs.Success)
	got, err := f.graphs["parent"].Output(f.Context(), "p")
	if s, _ := got.(string); err != nil || !strings.HasPrefix(s, "failed; ") || !strings.Contains(s, "fail 1") || !strings.HasSuffix(s, "; cancelled; ") {
		f.Fatalf("%q, %v", got, err)
	}
}

func (f *family) inputOf(r runs.Run) string {
	f.Helper()
	v, err := f.queue.Serializer().Decode(r.Input)
	if err != nil {
		f.Fatal(err)
	}
	s, _ := v.(string)
	return s
}

// deleted: a child that waits for an answer is removed. Its parent does not wait for ever.
func (f *family) deleted() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		_, err := kin.Call(ctx, "ask")
		var how *pregel.ChildError
		if errors.As(err, &how) && how.How == pregel.ChildDeleted {
			return "deleted", nil
		}
		return "", err
	})
	child := f.runOf(f.waits(p))
	if r, err := runs.Wait(f.Context(), f.queue, child.ID); err != nil || !r.Waiting {
		f.Fatalf("%+v, %v", r, err)
	}
	if err := f.queue.Delete(f.Context(), child.ID); err != nil {
		f.Fatal(err)
	}
	f.returned(p, "deleted")
	f.wantDone("child ask")
}

// timeOut: what came first is stored, and the end of the parent cancels the child.
func (f *family) timeOut() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		s, err := kin.Start(ctx, "ask")
		if err != nil {
			return "", err
		}
		if _, ok, err := s.GetFor(ctx, time.Hour); ok || err != nil {
			return "", cmpError(err, "it has no answer")
		}
		f.did("late")
		if err := pregel.Sleep(ctx, time.Hour); err != nil {
			return "", err
		}
		v, ok, err := s.GetFor(ctx, time.Hour)
		return fmt.Sprint(v, " ", ok), err
	})
	child := f.runOf(f.waits(p))
	if r := f.until(p, runs.Run.Asleep); !r.After.Before(never) {
		f.Fatalf("%+v", r)
	}
	if r, err := runs.Wait(f.Context(), f.queue, child.ID); err != nil || !r.Waiting {
		f.Fatalf("%+v, %v", r, err)
	}
	f.pass()
	f.until(p, f.asleep)
	f.returnedAs(f.run(child.ThreadID, "child", pregel.Command{Resume: "yes"}), "ask: yes")
	f.pass()
	f.returned(p, "ask: yes true")
	f.wantDone("child ask", "child ask", "late", "late")
}

func cmpError(err error, text string) error {
	if err != nil {
		return err
	}
	return errors.New(text)
}

// cancelled: the end of a parent is that of its children, and of theirs, also of one that waits for an answer.
func (f *family) cancelled() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		for _, in := range []string{"ask", "start"} {
			if _, err := kin.Start(ctx, in); err != nil {
				return "", err
			}
		}
		return kin.Call(ctx, "sleep")
	})
	f.waits(p)
	for f.sleeping() < 3 { // the second, the third, and the child of the second
		f.pause()
	}
	for _, r := range f.children() {
		if f.inputOf(r) == "ask" {
			if got, err := runs.Wait(f.Context(), f.queue, r.ID); err != nil || !got.Waiting {
				f.Fatalf("%+v, %v", got, err)
			}
		}
	}
	if _, err := f.queue.Cancel(f.Context(), p.ID, runs.Interrupt); err != nil {
		f.Fatal(err)
	}
	f.ended(p, runs.Interrupted)
	asked := ""
	for _, r := range f.children() {
		got, err := runs.Wait(f.Context(), f.queue, r.ID)
		if err != nil {
			f.Fatal(err)
		}
		if got.Status == runs.Success && got.Waiting {
			asked = r.ThreadID
		} else if got.Status != runs.Interrupted {
			f.Errorf("%+v", got)
		}
	}
	f.ended(f.run(asked, "child", pregel.Command{Resume: "late"}), runs.Interrupted)
}

// sleeping is how many children sleep.
func (f *family) sleeping() (n int) {
	f.Helper()
	for _, r := range f.children() {
		if r.Asleep() {
			n++
		}
	}
	return n
}

// pass lets an hour pass when all runs that have not ended sleep: the time would end the claims of others.
func (f *family) pass() {
	f.Helper()
	quiet := func() bool {
		for r, err := range f.queue.List(f.Context(), runs.Query{}) {
			if err != nil {
				f.Fatal(err)
			}
			if !r.Status.Ended() && !f.asleep(r) {
				return false
			}
		}
		return true
	}
	for !quiet() {
		f.pause()
	}
	f.clock.Move(time.Hour)
}

// pause waits until something has changed in the queue.
func (f *family) pause() {
	changed, stop := f.queue.Watch("")
	defer stop()
	select {
	case <-changed:
	case <-time.After(50 * time.Millisecond): // a change before
	}
}

// detached: a child goes on without its parent.
func (f *family) detached() {
	free := pregel.NewChild[string, string]("child", pregel.ChildOptions{Detached: true})
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		if _, err := kin.Start(ctx, "sleep bound"); err != nil {
			return "", err
		}
		s, err := free.Start(ctx, "sleep free")
		return s.ThreadID, err
	})
	f.ended(p, runs.Success)
	for _, r := range f.children() {
		if f.inputOf(r) == "sleep free" {
			f.until(r, runs.Run.Asleep)
			f.pass()
			f.ended(r, runs.Success)
		} else {
			f.ended(r, runs.Interrupted)
		}
	}
}

// fork: a run from an earlier checkpoint starts other children.
func (f *family) fork() {
	p := f.parent(func(ctx context.Context, in string) (string, error) { return kin.Call(ctx, in) })
	f.returned(p, "did in")
	first := f.children()[0]
	var begin string
	for st, err := range f.graphs["parent"].GetStateHistory(f.Context(), pregel.Thread("p"), pregel.HistoryQuery{}) {
		if err != nil {
			f.Fatal(err)
		}
		if len(st.Next) > 0 {
			begin = st.Address.CheckpointID
		}
	}
	fork, err := f.queue.Submit(f.Context(), runs.Request{Spec: runs.Spec{ThreadID: "p", Graph: "parent", CheckpointID: begin}})
	if err != nil {
		f.Fatal(err)
	}
	f.returned(fork, "did in")
	all := f.children()
	if len(all) != 2 || all[1].ThreadID == first.ThreadID {
		f.Fatalf("%+v", all)
	}
	f.wantDone("child in", "child in")
}

// again: a body that runs again, because another part of it failed, finds its child.
func (f *family) again() {
	tries := 0
	p := f.parent(func(ctx context.Context, in string) (string, error) {
		s, err := kin.Start(ctx, in)
		if err != nil {
			return "", err
		}
		if tries++; tries < 3 {
			return "", errors.New("not yet")
		}
		return s.Get(ctx)
	})
	f.returned(p, "did in")
	f.wantDone("child in")
}

// changed: a body that was changed gets no other child's end.
func (f *family) changed() {
	for _, now := range []struct{ graph, in, want string }{
		{"other", "sleep", `child 1 is now of graph "other", before it was of graph "child"`},
		{"child", "sleep more", `of graph "child" has another input`},
	} {
		thread := now.graph
		f.graphOf("parent", "", func(ctx context.Context, _ string) (string, error) { return kin.Call(ctx, "sleep") })
		f.begin()
		p := f.run(thread, "parent", "in")
		f.waits(p)
		f.graphOf("parent", "", func(ctx context.Context, _ string) (string, error) {
			_, err := pregel.NewChild[string, string](now.graph).Start(ctx, now.in)
			f.did("ignored " + fmt.Sprint(errors.Is(err, pregel.ErrCallMismatch)))
			return "", nil
		})
		f.begin()
		if err := f.queue.Wake(f.Context(), thread); err != nil {
			f.Fatal(err)
		}
		for child := range slices.Values(f.children()) {
			if child.Parent == thread {
				f.until(child, runs.Run.Asleep)
			}
		}
		f.pass()
		got, err := runs.Wait(f.Context(), f.queue, p.ID)
		if err != nil || got.Status != runs.Error || got.Attempt != 1 || !strings.Contains(got.Error, now.want) {
			f.Fatalf("%+v, %v; want %s", got, err, now.want)
		}
		f.wantDone("child sleep", "child sleep", "ignored true")
	}
}

// queueless: without a worker nothing is started; a thread whose child has been awaited goes on without one.
func (f *family) queueless() {
	body := func(ctx context.Context, in string) (string, error) {
		v, err := kin.Call(ctx, in)
		if err != nil {
			return "", err
		}
		return v, pregel.Sleep(ctx, time.Hour)
	}
	g := f.graphOf("parent", "", body)
	if _, err := g.Invoke(f.Context(), pregel.Thread("alone"), "in"); !errors.Is(err, pregel.ErrNoQueue) {
		f.Fatalf("%v", err)
	}
	if all := f.children(); len(all) > 0 {
		f.Fatalf("%+v", all)
	}
	f.begin()
	p := f.run("p", "parent", "in")
	f.until(p, func(r runs.Run) bool { return r.After.Before(never) && f.asleep(r) })
	sleeping := f.run("q", "parent", "sleep")
	f.until(f.runOf(f.waits(sleeping)), runs.Run.Asleep)
	f.stop()
	f.pass()
	if res, err := g.Invoke(f.Context(), pregel.Thread("p"), nil); err != nil || res.Value != "did in" {
		f.Fatalf("%+v, %v", res, err)
	}
	res, err := g.Invoke(f.Context(), pregel.Thread("q"), nil)
	if err != nil || len(res.Waits) != 1 || res.Waits[0].Child == "" {
		f.Fatalf("%+v, %v", res, err)
	}
	unsaved, err := pregel.Entrypoint("unsaved", body, pregel.EntrypointOptions{})
	if err != nil {
		f.Fatal(err)
	}
	if _, err := unsaved.Invoke(f.Context(), pregel.Address{}, "in"); !errors.Is(err, pregel.ErrNoSaver) {
		f.Fatalf("%v", err)
	}
	if _, err := kin.Start(f.Context(), "in"); !errors.Is(err, pregel.ErrOutsideTask) {
		f.Fatalf("%v", err)
	}
}

// retried: a parent that failed finds its child when it is tried again.
func (f *family) retried() {
	broken := true
	var mu sync.Mutex
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		s, err := kin.Start(ctx, "sleep")
		if err != nil {
			return "", err
		}
		mu.Lock()
		defer mu.Unlock()
		if broken {
			return "", pregel.ErrInvalidUpdate
		}
		return s.Get(ctx)
	})
	f.ended(p, runs.Error)
	child := f.until(f.children()[0], runs.Run.Asleep)
	f.pass()
	f.ended(child, runs.Success)
	mu.Lock()
	broken = false
	mu.Unlock()
	if _, err := f.queue.Retry(f.Context(), p.ID); err != nil {
		f.Fatal(err)
	}
	f.returned(p, "did sleep")
	f.wantDone("child sleep", "child sleep")
}

// refusedAnswer: an answer of the wrong type ends no child.
func (f *family) refusedAnswer() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) { return kin.Call(ctx, "ask") })
	child := f.runOf(f.waits(p))
	if r, err := runs.Wait(f.Context(), f.queue, child.ID); err != nil || !r.Waiting {
		f.Fatalf("%+v, %v", r, err)
	}
	wrong, err := runs.Wait(f.Context(), f.queue, f.run(child.ThreadID, "child", pregel.Command{Resume: []any{1}}).ID)
	if err != nil || wrong.Status != runs.Error || !wrong.Waiting {
		f.Fatalf("%+v, %v", wrong, err)
	}
	f.returnedAs(f.run(child.ThreadID, "child", pregel.Command{Resume: "yes"}), "ask: yes")
	f.returned(p, "ask: yes")
}

// wrongType: an output that is not what is awaited is an error of the child, for good.
func (f *family) wrongType() {
	p := f.parent(func(ctx context.Context, in string) (string, error) {
		_, err := pregel.NewChild[string, int]("child").Call(ctx, in)
		return "", err
	})
	got, err := runs.Wait(f.Context(), f.queue, p.ID)
	if err != nil || got.Status != runs.Error || got.Attempt != 1 || !strings.Contains(got.Error, "an output of another type") {
		f.Fatalf("%+v, %v", got, err)
	}
}

// large: an output is any value.
func (f *family) large() {
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		v, err := kin.Call(ctx, "large")
		return fmt.Sprint(len(v)), err
	})
	f.returned(p, fmt.Sprint(1<<20))
}

// inside: a child of a function that the body calls, and of a graph inside that stores nothing.
func (f *family) inside() {
	off, err := pregel.Entrypoint("off", func(ctx context.Context, in string) (string, error) {
		f.did("off")
		return kin.Call(ctx, "sleep "+in)
	}, pregel.EntrypointOptions{Options: pregel.Options{Checkpointing: pregel.Off}})
	if err != nil {
		f.Fatal(err)
	}
	called := pregel.NewTask("called", func(ctx context.Context, in string) (string, error) {
		f.did("called")
		return kin.Call(ctx, "sleep "+in)
	})
	p := f.parent(func(ctx context.Context, _ string) (string, error) {
		a, err := called.Call(ctx, "a")
		if err != nil {
			return "", err
		}
		res, err := off.Invoke(ctx, pregel.Inside(), "b")
		if err != nil {
			return "", err
		}
		return fmt.Sprint(a, ", ", res.Value), nil
	})
	first := f.until(f.runOf(f.waits(p)), runs.Run.Asleep)
	f.pass()
	f.ended(first, runs.Success)
	for len(f.children()) < 2 {
		f.pause()
	}
	f.until(f.children()[1], runs.Run.Asleep)
	for f.waits(p) == first.ThreadID {
		f.pause()
	}
	f.pass()
	f.returned(p, "did sleep a, did sleep b")
	f.wantDone("called", "child sleep a", "child sleep a", "called", "off", "child sleep b", "child sleep b", "off")
}

// user: a child runs for the user of its parent.
func (f *family) user() {
	f.graphOf("child", "", func(ctx context.Context, _ string) (string, error) {
		info, _ := pregel.Task(ctx)
		return fmt.Sprint(info.Configurable["langgraph_auth_user_id"], " ", info.Context), nil
	})
	f.graphOf("parent", "", func(ctx context.Context, in string) (string, error) { return kin.Call(ctx, in) })
	f.begin()
	p, err := f.queue.Submit(f.Context(), runs.Request{Spec: runs.Spec{ThreadID: "p", Graph: "parent", Priority: 3,
		Configurable: map[string]any{"langgraph_auth_user_id": "ada"},
		Context:      map[string]any{"lang": "de"}, Trace: map[string]string{"traceparent": "x"}}, Input: "in"})
	if err != nil {
		f.Fatal(err)
	}
	f.returned(p, "ada map[lang:de]")
	if r := f.children()[0]; r.Priority != 3 || r.Trace["traceparent"] != "x" {
		f.Fatalf("%+v", r)
	}
}

// versions: a parent and its child that other versions have stored go on, each by its own.
func (f *family) versions() {
	body := func(ctx context.Context, in string) (string, error) { return kin.Call(ctx, "sleep "+in) }
	f.graphOf("parent", "p1", body)
	f.graphOf("child", "c1", f.childBody)
	f.begin()
	p := f.run("p", "parent", "in")
	child := f.until(f.runOf(f.waits(p)), runs.Run.Asleep)
	f.graphOf("child", "c2", f.childBody)
	f.graphOf("parent", "p2", body)
	f.begin()
	f.pass()
	f.ended(child, runs.Success)
	f.returned(p, "did sleep in")
	for _, r := range []runs.Run{p, child} {
		got, err := f.queue.Get(f.Context(), r.ID)
		if want := r.Graph[:1] + "2"; err != nil || got.Version != want {
			f.Errorf("%+v, %v; want version %s", got, err, want)
		}
	}
	st, err := f.graphs["parent"].GetState(f.Context(), pregel.Thread("p"))
	if err != nil || st.Status != saver.StatusDone {
		f.Errorf("%+v, %v", st, err)
	}
}
