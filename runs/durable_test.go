package runs_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stele-go/stele/base/vfs"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/runs"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// ground is a queue on disk, whose log syncs only when it is told to.
type ground struct {
	*testing.T
	saver *disk.Saver
	items *store.Local
	queue *runs.Local
}

func newGround(t *testing.T) *ground {
	t.Helper()
	g := &ground{T: t}
	g.saver = must(disk.Open("store", disk.Options{Simulation: disk.Simulation{FS: vfs.NewMem(vfs.MemOptions{}), Inline: true}}))
	g.items = must(store.On(g.saver, store.Options{}))
	g.queue = must(runs.NewLocal(t.Context(), g.items, runs.LocalOptions{}))
	t.Cleanup(func() {
		g.items.Close()
		if err := g.saver.Close(); err != nil {
			t.Error(err)
		}
	})
	return g
}

// durable checks whether all that was written is synced.
func (g *ground) durable(what string, want bool) {
	g.Helper()
	if st := g.saver.Stats(); (st.DurableLSN == st.LastLSN) != want {
		g.Errorf("%s: durable up to %d of %d", what, st.DurableLSN, st.LastLSN)
	}
}

func (g *ground) claim() runs.Claim {
	g.Helper()
	c, _, err := g.queue.Claim(g.Context(), "w", []string{"g"})
	if err != nil || c == nil {
		g.Fatalf("claimed %v, %v", c, err)
	}
	return *c
}

// TestDurable: what a call has done, and what anybody has seen of a run, is durable.
func TestDurable(t *testing.T) {
	g := newGround(t)
	ctx, q := t.Context(), g.queue
	spec := runs.Spec{ThreadID: "t", Graph: "g"}
	event := runs.Event{Kind: "custom", Data: must(q.Serializer().Encode("x"))}

	r := must(q.Submit(ctx, runs.Request{Spec: spec}))
	g.durable("Submit", true)
	c := g.claim()
	must(q.Append(ctx, c, []runs.Event{event, event}))
	g.durable("a claim and events that nobody has seen", false)
	if found := must(q.Events(ctx, r.ID, 2, 0)); len(found) != 0 {
		t.Errorf("%v", found)
	}
	g.durable("events behind those that are there", false)
	if found := must(q.Events(ctx, r.ID, 1, 0)); len(found) != 1 || found[0].Seq != 2 {
		t.Errorf("%v", found)
	}
	g.durable("Events", true)
	must(q.Append(ctx, c, []runs.Event{event}))
	for range q.List(ctx, runs.Query{}) {
	}
	g.durable("List", true)
	must(q.Append(ctx, c, []runs.Event{event}))
	if err := q.Mark(ctx, c, "m"); err != nil {
		t.Fatal(err)
	}
	g.durable("Mark", true)
	must(q.Append(ctx, c, []runs.Event{event}))
	must(q.Cancel(ctx, r.ID, runs.Interrupt))
	g.durable("Cancel", true)
	must(q.Append(ctx, c, []runs.Event{event}))
	if err := q.Finish(ctx, c, runs.Outcome{Status: runs.Interrupted}); err != nil {
		t.Fatal(err)
	}
	g.durable("Finish", true)
	must(q.Retry(ctx, r.ID))
	g.durable("Retry", true)
	must(q.Cancel(ctx, r.ID, runs.Interrupt))
	if err := q.Delete(ctx, r.ID); err != nil {
		t.Fatal(err)
	}
	g.durable("Delete", true)
	must(q.PutSchedule(ctx, runs.Schedule{ID: "s", Cron: "@daily", Spec: spec}))
	g.durable("PutSchedule", true)

	r = must(q.SubmitWith(ctx, runs.Request{Spec: spec}, nil, true))
	g.durable("SubmitWith without a sync", false)
	must(q.Get(saver.DeferSync(ctx), r.ID))
	g.durable("Get that defers", false)
	if got := must(q.Get(ctx, r.ID)); got.ID != r.ID {
		t.Errorf("%+v", got)
	}
	g.durable("Get", true)
	must(q.SubmitWith(ctx, runs.Request{Spec: spec}, nil, true))
	if err := g.items.Put(saver.DeferSync(ctx), store.Namespace{"a"}, "k", map[string]any{}); err != nil {
		t.Fatal(err)
	}
	if err := q.Sync(ctx); err != nil {
		t.Fatal(err)
	}
	g.durable("Sync", true)
}

// TestSubmitWith: a run and what is stored beside it are in one write, and in none if the run is
// refused or there already.
func TestSubmitWith(t *testing.T) {
	g := newGround(t)
	ctx, q := t.Context(), g.queue
	ns := store.Namespace{"a"}
	beside := func(key string) func(runs.Run) ([]store.Op, error) {
		return func(r runs.Run) ([]store.Op, error) {
			return []store.Op{store.PutOp{Namespace: ns, Key: key, Value: map[string]any{"run": r.ID}}}, nil
		}
	}
	has := func(key, run string) {
		t.Helper()
		item, err := q.Items().Get(ctx, ns, key)
		if run == "" && errors.Is(err, store.ErrNotFound) {
			return
		}
		if err != nil || item.Value["run"] != run {
			t.Errorf("item %s is %+v, %v, want run %q", key, item, err, run)
		}
	}
	spec := runs.Spec{ThreadID: "t", Graph: "g", Multitask: runs.Reject}
	before := g.saver.Stats().LastLSN
	r := must(q.SubmitWith(ctx, runs.Request{Spec: spec, Key: "k"}, beside("first"), false))
	if n := g.saver.Stats().LastLSN - before; n != 1 {
		t.Errorf("%d writes", n)
	}
	g.durable("SubmitWith", true)
	has("first", r.ID)
	if again := must(q.SubmitWith(ctx, runs.Request{Spec: spec, Key: "k"}, beside("again"), false)); again.ID != r.ID {
		t.Errorf("%s, want %s", again.ID, r.ID)
	}
	has("again", "")
	if _, err := q.SubmitWith(ctx, runs.Request{Spec: spec}, beside("busy"), false); !errors.Is(err, runs.ErrBusy) {
		t.Errorf("a busy thread: %v", err)
	}
	has("busy", "")
	boom := errors.New("boom")
	spec.ThreadID = "other"
	if _, err := q.SubmitWith(ctx, runs.Request{Spec: spec}, func(runs.Run) ([]store.Op, error) { return nil, boom }, false); !errors.Is(err, boom) {
		t.Errorf("got %v", err)
	}
	if _, err := q.SubmitWith(ctx, runs.Request{Spec: spec}, func(runs.Run) ([]store.Op, error) {
		return []store.Op{store.PutOp{Namespace: ns, Key: "k", Value: map[string]any{"f": func() {}}}}, nil
	}, false); err == nil {
		t.Error("an item that cannot be stored is")
	}
	for r := range q.List(ctx, runs.Query{ThreadID: "other"}) {
		t.Errorf("there is run %s", r.ID)
	}
}

// TestEndIsDurable: when a run has ended, its checkpoints are durable, though none of them was
// synced by itself.
func TestEndIsDurable(t *testing.T) {
	g := newGround(t)
	if !g.queue.SharesLog(g.saver) || !g.queue.SharesLog(g.items) {
		t.Error("the queue does not know that it shares its log")
	}
	if other := newGround(t); g.queue.SharesLog(other.saver) || g.queue.SharesLog(other.items) || g.queue.SharesLog(other) {
		t.Error("the queue shares the log of another store")
	}
	node := func(context.Context, any) (any, error) { return map[string]any{"log": []string{"a"}}, nil }
	graphs := map[string]*pregel.Graph{"g": must(graph.New(graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("a", node).Node("b", node).Sequence(graph.Start, "a", "b").Compile(graph.Options{Saver: g.saver}))}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- (&runs.Worker{Queue: g.queue, Saver: g.saver, Graphs: graphs}).Run(ctx) }()
	r := must(g.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}, Input: map[string]any{"log": []string{}}}))
	if r = must(runs.Wait(t.Context(), g.queue, r.ID)); r.Status != runs.Success {
		t.Fatalf("%+v", r)
	}
	g.durable("the end of a run", true)
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestWatchedRun: who watches a run reads from memory what came of it, and nothing stays there.
func TestWatchedRun(t *testing.T) {
	g := newGround(t)
	ctx, q := t.Context(), g.queue
	event := runs.Event{Kind: "custom", Data: must(q.Serializer().Encode("x"))}
	for _, limit := range []int{0, 3} {
		r := must(q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}}))
		_, stop := q.Watch(r.ID)
		c := g.claim()
		for range 100 {
			must(q.Append(ctx, c, []runs.Event{event, event}))
		}
		check := func(when string) {
			t.Helper()
			for _, after := range []int64{0, 1, 63, 64, 65, 199, 200, 201, 500} {
				found := must(q.Events(ctx, r.ID, after, limit))
				want := max(201-after, 0)
				if limit > 0 {
					want = min(want, int64(limit))
				}
				if int64(len(found)) != want || want > 0 && found[0].Seq != after+1 || want > 1 && found[want-1].Seq != after+want {
					t.Errorf("%s: %d events behind %d with limit %d, want %d", when, len(found), after, limit, want)
				}
			}
		}
		if err := q.Finish(ctx, c, runs.Outcome{Status: runs.Success}); err != nil {
			t.Fatal(err)
		}
		if n := runs.InMemory(q); n != 1 {
			t.Errorf("%d runs in memory", n)
		}
		check("watched")
		stop()
		if n := runs.InMemory(q); n != 0 {
			t.Errorf("%d runs in memory when nobody watches", n)
		}
		check("stored")
	}
}

// TestTurnDurable: the end of a run is durable before anybody sees it, and at once if nobody is about to
// look. Few runs stay in memory because nobody has.
func TestTurnDurable(t *testing.T) {
	event := runs.Event{Kind: "custom"}
	for name, see := range map[string]func(g *ground, r runs.Run){
		"Get":    func(g *ground, r runs.Run) { must(g.queue.Get(g.Context(), r.ID)) },
		"Events": func(g *ground, r runs.Run) { must(g.queue.Events(g.Context(), r.ID, 0, 0)) },
		"List": func(g *ground, _ runs.Run) {
			for range g.queue.List(g.Context(), runs.Query{}) {
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for _, watch := range []func(*runs.Local, string) (<-chan struct{}, func()){(*runs.Local).Watch, (*runs.Local).WatchEnd} {
				g := newGround(t)
				r := must(g.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "g"}}))
				_, stop := watch(g.queue, r.ID)
				if next := must(g.queue.FinishAndClaim(t.Context(), g.claim(), runs.Outcome{Status: runs.Success, Events: []runs.Event{event}}, "w", []string{"g"})); next != nil {
					t.Errorf("%+v", next)
				}
				g.durable("the end of a run that somebody watches", false)
				see(g, r)
				g.durable(name, true)
				stop()
				if n := runs.InMemory(g.queue); n != 0 {
					t.Errorf("%d runs in memory", n)
				}
			}
		})
	}
	g := newGround(t)
	for range 100 {
		must(g.queue.Submit(t.Context(), runs.Request{Spec: runs.Spec{Graph: "g"}}))
	}
	c := g.claim()
	for left := 99; left >= 0; left-- {
		before := g.saver.Stats().LastLSN
		next := must(g.queue.FinishAndClaim(t.Context(), c, runs.Outcome{Status: runs.Success}, "w", []string{"g"}))
		if n := g.saver.Stats().LastLSN - before; n != 1 {
			t.Fatalf("%d writes", n)
		}
		if n := runs.InMemory(g.queue); n > left+33 {
			t.Fatalf("%d runs in memory, of which %d have not ended", n, left)
		}
		if next != nil {
			c = *next
		} else if left > 0 {
			t.Fatalf("no run with %d left", left)
		}
	}
	g.durable("the end of a run that nobody watches", true)
}

// TestDurableNotDeleted: the end of a run that could not be deleted, wherever the call was given up, is
// durable for whoever asks for it.
func TestDurableNotDeleted(t *testing.T) {
	for given, kept := 0, true; kept; given++ {
		g := newGround(t)
		ctx, q := t.Context(), g.queue
		r := must(q.Submit(ctx, runs.Request{Spec: runs.Spec{ThreadID: "t", Graph: "g"}}))
		_, stop := q.WatchEnd(r.ID)
		if next, err := q.FinishAndClaim(ctx, g.claim(), runs.Outcome{Status: runs.Success}, "w", nil); err != nil || next != nil {
			t.Fatalf("%v: %+v", err, next)
		}
		g.durable("an end that somebody waits for", false)
		err := q.Delete(&endsLate{Context: ctx, lives: given}, r.ID)
		if kept = err != nil; kept {
			if got := must(q.Get(ctx, r.ID)); !errors.Is(err, context.Canceled) || got.Status != runs.Success {
				t.Errorf("%v: %+v", err, got)
			}
		}
		g.durable("an end that somebody was told, or a deletion", true)
		stop()
	}
}

// endsLate is a context that has ended when somebody asks for the time behind lives.
type endsLate struct {
	context.Context
	lives int
}

func (c *endsLate) Err() error {
	if c.lives--; c.lives < 0 {
		return context.Canceled
	}
	return nil
}
