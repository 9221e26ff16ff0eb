package graph_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/store"
)

type letterOne struct {
	To   string   `json:"to"`
	Text []string `json:"text" state:"append"`
	Size int      `json:"size"`
}

type letterTwo struct {
	Recipient string   `json:"recipient" state:"alias=to"`
	Text      []string `json:"text" state:"append"`
	Size      string   `json:"size"`
}

// letters leaves n threads that wait, of which every third has a size, and one that is done.
func letters(t *testing.T, s saver.Saver, n int) {
	t.Helper()
	g, err := graph.For[letterOne]().Node("size", func(_ context.Context, l *letterOne) (graph.Update, error) {
		if strings.HasSuffix(l.To, "3") {
			return graph.Write(&l.Size, 7), nil
		}
		return nil, nil
	}).Node("approve", func(ctx context.Context, l *letterOne) (graph.Update, error) {
		if l.To == "nobody" {
			return nil, nil
		}
		_, err := pregel.AskFor[string](ctx, "write to "+l.To+"?")
		return nil, err
	}).Sequence(graph.Start, "size", "approve").Compile(graph.Options{Name: "letters", Version: "1", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		if _, err := g.Run(t.Context(), pregel.Thread(fmt.Sprintf("letter-%03d", i)), letterOne{To: fmt.Sprint("to ", i%3+1)}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := g.Run(t.Context(), pregel.Thread("a done one"), letterOne{To: "nobody"}); err != nil {
		t.Fatal(err)
	}
}

func lettersTwo(t testing.TB, name string, s saver.Saver) *graph.Graph[letterTwo] {
	t.Helper()
	g, err := graph.For[letterTwo]().Node("size", quiet[letterTwo]).Node("approve", asks[letterTwo]).Sequence(graph.Start, "size", "approve").
		Compile(graph.Options{Name: name, Version: "2", Saver: s})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// withoutNotes refuses to list threads with their notes, which is a read for each.
type withoutNotes struct {
	saver.Saver
	t *testing.T
}

func (s withoutNotes) Threads(ctx context.Context, q saver.ThreadQuery) iter.Seq2[saver.ThreadInfo, error] {
	if !q.WithoutNotes {
		s.t.Error("threads are listed with their notes")
	}
	return s.Saver.Threads(ctx, q)
}

// A preflight reads the head of each thread once and nothing else, and says what it found as text, as
// JSON and as an exit code.
func TestPreflightReport(t *testing.T) {
	kept := inMemory()
	letters(t, kept, 12)
	var gets, others atomic.Int64
	s := saver.Intercept(withoutNotes{kept, t}, func(ctx context.Context, c saver.Call, do func(context.Context) error) error {
		switch c.Method {
		case "GetTuple":
			gets.Add(1)
		case "Threads":
		default:
			others.Add(1)
		}
		return do(ctx)
	})
	g := lettersTwo(t, "letters", nil)
	r, err := g.Preflight(t.Context(), s, saver.ThreadQuery{})
	if err != nil {
		t.Fatal(err)
	}
	if gets.Load() != 12 || others.Load() != 0 {
		t.Errorf("%d reads of heads for 12 threads, and %d other calls", gets.Load(), others.Load())
	}
	if r.ExitCode() != 1 || r.Threads != 12 || r.Done != 1 || r.Versions["1"] != 12 || len(r.Broken) != 4 || r.Adapted["alias to → recipient"] != 8 {
		t.Errorf("%+v", r)
	}
	const want = `letters, version 2: 12 threads
        8  continue through alias to → recipient
        4  break
decode, channel "size", field "Size": 4
    thread "letter-002" (waiting, version 1): thread "letter-002", checkpoint ID of version "1": restore channel "size": decode msgpack value: decode $: integer does not fit string; this program is version "2": give it a Migration from "1", or let a program of that version continue
    thread "letter-005" (waiting, version 1): thread "letter-005", checkpoint ID of version "1": restore channel "size": decode msgpack value: decode $: integer does not fit string; this program is version "2": give it a Migration from "1", or let a program of that version continue
    thread "letter-008" (waiting, version 1): thread "letter-008", checkpoint ID of version "1": restore channel "size": decode msgpack value: decode $: integer does not fit string; this program is version "2": give it a Migration from "1", or let a program of that version continue
    and 1 more
not judged: what the code of these nodes does when it runs again: approve (8 threads)
`
	text := r.String()
	for _, b := range r.Broken {
		text = strings.ReplaceAll(text, b.CheckpointID, "ID")
		if state := (*pregel.StoredTypeError)(nil); !errors.As(b.Err, &state) || state.ThreadID != b.ThreadID {
			t.Errorf("%+v", b)
		}
	}
	if text != want {
		t.Errorf("it says\n%s\nwant\n%s", text, want)
	}
	data, err := json.Marshal(r)
	var back struct {
		Threads int `json:"threads"`
		Broken  []struct{ Thread, Stage, Channel, Field, Version, Reason string }
	}
	if err != nil || json.Unmarshal(data, &back) != nil || back.Threads != 12 || len(back.Broken) != 4 || back.Broken[0].Thread != "letter-002" || back.Broken[0].Stage != "decode" ||
		back.Broken[0].Field != "Size" || back.Broken[0].Version != "1" || !strings.Contains(back.Broken[0].Reason, "does not fit string") {
		t.Errorf("%s, %v", data, err)
	}

	r, err = g.Preflight(t.Context(), s, saver.ThreadQuery{Prefix: "letter-001"})
	if err != nil || r.ExitCode() != 0 || r.Threads != 1 || len(r.Broken) != 0 {
		t.Errorf("one thread: %+v, %v", r, err)
	}
	for name, others := range map[string]int{"another": 12, "": 0} {
		r, err = lettersTwo(t, name, nil).Preflight(t.Context(), s, saver.ThreadQuery{})
		if err != nil || r.OtherGraph != others || r.Threads != 12-others {
			t.Errorf("as graph %q: %+v, %v", name, r, err)
		}
		if got := strings.Contains(r.String(), "not judged: the threads of graphs with another name: letters (12 threads)\n"); got != (others > 0) {
			t.Errorf("as graph %q it says\n%s", name, r)
		}
	}
}

// TestPreflightOfOne: what a preflight of one thread says is in the singular, with the names of nodes that had asked or
// called something, also inside, and of other graphs. A node that has ended does not run again, so it has no name.
func TestPreflightOfOne(t *testing.T) {
	type state struct {
		Done []string `json:"done" state:"append"`
	}
	task := pregel.NewTask("task", func(context.Context, int) (int, error) { return 1, nil })
	pays := func(then error) func(context.Context, *state) (graph.Update, error) {
		return func(ctx context.Context, _ *state) (graph.Update, error) {
			_, err := task.Call(ctx, 1)
			return nil, errors.Join(err, then)
		}
	}
	asks := func(ctx context.Context, _ *state) (graph.Update, error) {
		_, err := pregel.AskFor[string](ctx, "go?")
		return nil, err
	}
	inner := must(graph.For[state]().Node("ask", asks).Edge(graph.Start, "ask").Compile(graph.Options{}))
	one := graph.For[state]().Node("pay", pays(nil)).Node("go", asks).Subgraph("in", inner.Untyped()).
		Edge(graph.Start, "pay").Edge(graph.Start, "go").Edge(graph.Start, "in")
	two := graph.For[state]().Node("pay", pays(errors.New("no"))).Edge(graph.Start, "pay")
	for want, b := range map[string]*graph.StateBuilder[state]{"go (1 thread), in (1 thread), in:ask (1 thread)": one, "pay (1 thread)": two} {
		s := inMemory()
		compile := func(name string) *graph.Graph[state] {
			return must(b.Compile(graph.Options{Name: name, Version: "1", Saver: s}))
		}
		if _, err := compile("one").Run(t.Context(), pregel.Thread("t"), state{}); (err != nil) != (b == two) {
			t.Fatal(err)
		}
		want = "one, version 1: 1 thread\n        1  continues unchanged\nnot judged: what the code of these nodes does when it runs again: " + want + "\n"
		if r := must(compile("one").Preflight(t.Context(), nil, saver.ThreadQuery{})); r.String() != want {
			t.Errorf("it says\n%s\nwant\n%s", r, want)
		}
		want = "two, version 1: 0 threads\nnot judged: the threads of graphs with another name: one (1 thread)\n"
		if r := must(compile("two").Preflight(t.Context(), nil, saver.ThreadQuery{})); r.String() != want {
			t.Errorf("it says\n%s\nwant\n%s", r, want)
		}
	}
	var read pregel.PreflightReport
	if err := json.Unmarshal([]byte(`{"graph": "one", "version": "1", "threads": 1, "adapted": {"alias a → b": 1}, "ignored": {"c": 1},
		"broken": [{"thread": "t", "stage": "load"}], "begun": 1, "other_graph": 2}`), &read); err != nil {
		t.Fatal(err)
	}
	const want = `one, version 1: 1 thread
        1  continues through alias a → b
        1  continues without what is stored as "c"
        1  breaks
load: 1
    thread "t" (status unknown, version unknown): 
not judged: what the code of these nodes does when it runs again: 1 thread
not judged: the threads of graphs with another name: 2 threads
`
	if read.String() != want {
		t.Errorf("a report that was read says\n%s\nwant\n%s", &read, want)
	}
}

// What the saver cannot do is an error, and a thread that cannot be read breaks alone.
func TestPreflightErrors(t *testing.T) {
	kept := inMemory()
	letters(t, kept, 3)
	g := lettersTwo(t, "letters", nil)
	if _, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{}); !errors.Is(err, pregel.ErrNoSaver) {
		t.Error(err)
	}
	if _, err := g.Preflight(t.Context(), kept, saver.ThreadQuery{Limit: -1}); !errors.Is(err, saver.ErrInvalid) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := g.Preflight(ctx, kept, saver.ThreadQuery{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	lost := errors.New("the database is away")
	for _, fault := range []error{lost, fmt.Errorf("a page: %w", saver.ErrCorrupt)} {
		s := saver.Intercept(kept, func(ctx context.Context, c saver.Call, do func(context.Context) error) error {
			if c.Method == "GetTuple" && c.Config.ThreadID == "letter-001" {
				return fault
			}
			return do(ctx)
		})
		r, err := g.Preflight(t.Context(), s, saver.ThreadQuery{})
		switch {
		case fault == lost: //nolint:errorlint // the test's own
			if !errors.Is(err, lost) {
				t.Errorf("%+v, %v", r, err)
			}
		case err != nil || r.Threads != 3 || len(r.Broken) != 2 || r.Broken[0].Stage != pregel.StageLoad || r.Broken[0].ThreadID != "letter-001":
			t.Errorf("%+v, %v", r, err)
		}
	}
	strict, err := graph.For[letterOne]().Node("approve", asks[letterOne]).Edge(graph.Start, "approve").
		OnUnknown(func(context.Context, pregel.Address, []string) error { panic("it cannot be") }).Compile(graph.Options{Name: "letters"})
	if err != nil {
		t.Fatal(err)
	}
	two := memory.New(memory.Options{})
	if _, err := lettersTwo(t, "letters", two).Run(t.Context(), pregel.Thread("t"), letterTwo{Recipient: "x"}); err != nil {
		t.Fatal(err)
	}
	r, err := strict.Preflight(t.Context(), two, saver.ThreadQuery{})
	if p := (*pregel.PanicError)(nil); err != nil || len(r.Broken) != 1 || !errors.As(r.Broken[0].Err, &p) {
		t.Errorf("a panic: %+v, %v", r, err)
	}
}

// Threads that sleep, that wait for a signal, and that took one go on as they are: what records their waits is no
// task's.
func TestPreflightOfSleepers(t *testing.T) {
	type state struct {
		How string `json:"how"`
	}
	items, err := store.NewMemory(store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	word := pregel.NewSignal[string]("word")
	g, err := graph.For[state]().Node("wait", func(ctx context.Context, s *state) (graph.Update, error) {
		if s.How == "sleeps" {
			return nil, pregel.Sleep(ctx, time.Hour)
		}
		if _, err := word.Receive(ctx); err != nil {
			return nil, err
		}
		_, _, err := word.ReceiveFor(ctx, time.Hour)
		return nil, err
	}).Edge(graph.Start, "wait").Compile(graph.Options{Name: "g", Saver: inMemory(), Store: items})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"sleeps", "receives", "received"} {
		if _, err := g.Run(t.Context(), pregel.Thread(id), state{id}); err != nil {
			t.Fatal(err)
		}
	}
	if err := word.Send(t.Context(), g.Untyped(), "received", "x"); err != nil {
		t.Fatal(err)
	}
	if res, err := g.Continue(t.Context(), pregel.Thread("received")); err != nil || len(res.Waits) != 1 || res.Waits[0].Until.IsZero() {
		t.Fatalf("%+v, %v", res, err)
	}
	r, err := g.Preflight(t.Context(), nil, saver.ThreadQuery{})
	if err != nil || r.Threads != 3 || r.Unchanged != 3 || r.Begun != 3 {
		t.Errorf("%v, %v", r, err)
	}
}

// TestPreflightUnnamedReducers: a reducer that is given as a function has no name, also in a graph inside, and the report says so.
func TestPreflightUnnamedReducers(t *testing.T) {
	type votes struct {
		Done []string `json:"done"`
	}
	last := func(a, b []string) []string { return append(a, b...) }
	inner := must(graph.For[votes](graph.Key("done", channel.Reduce(last))).Node("a", quiet[votes]).Edge(graph.Start, "a").Compile(graph.Options{}))
	g := must(graph.For[votes](graph.Key("done", channel.Reduce(last))).Node("a", quiet[votes]).Subgraph("in", inner.Untyped()).Edge(graph.Start, "a").
		Compile(graph.Options{Name: "g"}))
	r := must(g.Preflight(t.Context(), inMemory(), saver.ThreadQuery{}))
	data := must(json.Marshal(r))
	if !slices.Equal(r.Unnamed, []string{"done", "in:done"}) || !strings.Contains(r.String(), "not judged: the reducers of done, in:done, which have no name\n") ||
		!strings.Contains(string(data), `"unnamed_reducers":["done","in:done"]`) {
		t.Errorf("%v\n%s", r, data)
	}
	named := must(graph.For[bill1]().Node("a", quiet[bill1]).Edge(graph.Start, "a").Compile(graph.Options{Name: "g"}))
	if r := must(named.Preflight(t.Context(), inMemory(), saver.ThreadQuery{})); len(r.Unnamed) > 0 {
		t.Errorf("%v", r)
	}
}
