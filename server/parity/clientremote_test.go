package parity

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stele-go/stele/message"
	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/server/client"
	"github.com/stele-go/stele/server/client/remote"
)

// TestClientsGoRemote uses graphs of a server as graphs.
func TestClientsGoRemote(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		c, _ := newClient(t, address)
		ctx := t.Context()
		g := remote.New(c, "counter")
		at := pregel.Thread(newThread(t, c))
		res, err := g.Invoke(ctx, at, state{"n": 1}, pregel.RunOptions{Metadata: map[string]any{"mark": "m", "no": func() {}}, Tags: []string{"x"}, RecursionLimit: 50})
		must(t, err)
		is(t, res.Map()["n"], 112)
		if res.Map()["n"] != int64(112) {
			t.Errorf("%T", res.Map()["n"])
		}
		_, err = g.Invoke(ctx, at, state{"n": 1}, pregel.RunOptions{RecursionLimit: 1})
		var failed *client.RunError
		if !errors.As(err, &failed) || failed.Kind != "GraphRecursionError" {
			t.Fatal(err)
		}
		_, err = g.Invoke(ctx, at, state{"n": 1}, pregel.RunOptions{ConflictRetries: 1})
		isError(t, err, pregel.ErrInvalidArgument)
		at = pregel.Thread(newThread(t, c))
		_, err = g.Invoke(ctx, at, state{"n": 1}, pregel.RunOptions{Metadata: map[string]any{"mark": "m"}})
		must(t, err)
		var shown []string
		for ev, err := range g.Stream(ctx, at, state{"n": 0}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeUpdates, pregel.ModeValues}}) {
			must(t, err)
			if u, ok := ev.Data.(pregel.Update); ok {
				shown = append(shown, u.Node)
			} else {
				shown = append(shown, fmt.Sprint(ev.Data.(state)["n"]))
			}
		}
		is(t, shown, []string{"112", "one", "113", "two", "123", "three", "223"})

		s, err := g.GetState(ctx, at)
		must(t, err)
		is(t, []any{s.Map()["n"], s.Next, s.Metadata["step"]}, []any{223, []string{}, 8})
		var history []*pregel.StateSnapshot
		for s, err := range g.GetStateHistory(ctx, at, pregel.HistoryQuery{}) {
			must(t, err)
			history = append(history, s)
		}
		is(t, []any{len(history), history[0].Address, *history[0].Parent}, []any{10, s.Address, history[1].Address})
		is(t, history[9].Metadata["mark"], "m")
		s, err = g.GetState(ctx, history[1].Address)
		must(t, err)
		is(t, s.Values, history[1].Values)
		made, err := g.UpdateState(ctx, at, pregel.StateUpdate{Values: state{"log": []string{"by hand"}}, AsNode: "three"})
		must(t, err)
		s, err = g.GetState(ctx, made)
		must(t, err)
		is(t, s.Map()["log"].([]any)[6], "by hand")
		// A run at an earlier checkpoint is a fork.
		res, err = g.Invoke(ctx, history[6].Address, nil)
		must(t, err)
		is(t, res.Map()["n"], 112)

		// Without a thread.
		res, err = g.Invoke(ctx, pregel.Address{}, state{"n": 3})
		must(t, err)
		is(t, res.Map()["n"], 114)

		// A question, and messages.
		g = remote.New(c, "agent")
		at = pregel.Thread(newThread(t, c))
		res, err = g.Invoke(ctx, at, state{"messages": message.List{message.Human("weather in Rome")}})
		must(t, err)
		is(t, []any{len(res.Interrupts), res.Interrupts[0].Value.(state)["city"]}, []any{1, "Rome"})
		s, err = g.GetState(ctx, at)
		must(t, err)
		is(t, []any{s.Interrupts[0].ID, s.Next}, []any{res.Interrupts[0].ID, []string{"tools"}})
		said := ""
		for ev, err := range g.Stream(ctx, at, pregel.Command{Resume: "sunny"}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages}}) {
			must(t, err)
			if part, ok := ev.Data.(pregel.MessageEvent).Message.(message.Chunk); ok {
				said += part.Text()
			}
		}
		is(t, said, "You said: sunny")

		// A graph inside.
		at = pregel.Thread(newThread(t, c))
		depths := map[int]bool{}
		for ev, err := range remote.New(c, "nested").Stream(ctx, at, state{"path": []string{"in"}}, pregel.RunOptions{Subgraphs: true}) {
			must(t, err)
			depths[len(ev.NS)] = true
		}
		is(t, len(depths), 3)
		s, err = remote.New(c, "nested").GetState(ctx, at, pregel.StateOptions{Subgraphs: true})
		must(t, err)
		is(t, s.Tasks[0].State.Tasks[0].State.Interrupts[0].Value, "deep?")
		inside, err := remote.New(c, "nested").GetState(ctx, s.Tasks[0].State.Address)
		must(t, err)
		is(t, inside.Values, s.Tasks[0].State.Values)
	})
}

// around is a graph here with a remote graph as its node, made anew as after a restart.
func around(t *testing.T, s saver.Saver, g *remote.Graph, o remote.CallOptions) *pregel.Graph {
	t.Helper()
	b := graph.New(graph.Key("name", nil), graph.Key("delay", nil), graph.Key("fail", nil), graph.Key("text", nil), graph.Key("answers", nil), graph.Key("steps", nil), texts("here"))
	b.Node("before", says(state{"here": []string{"before"}})).Node("there", g.Node(o)).Node("after", says(state{"here": []string{"after"}}))
	b.Sequence(graph.Start, "before", "there", "after")
	local, err := b.Compile(graph.Options{Name: "around", Saver: s, RoundTrip: s != nil})
	must(t, err)
	return local
}

// runsMade are the runs of a thread.
func runsMade(t *testing.T, c *client.Client, id string) (made []client.Run) {
	t.Helper()
	for r, err := range c.Runs.All(t.Context(), id, client.RunQuery{}) {
		must(t, err)
		made = append(made, r)
	}
	return made
}

// TestClientsGoInside: the questions of a remote graph are asked by the task that calls it, and
// the answers reach it, whatever restarts come between.
func TestClientsGoInside(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		c, _ := newClient(t, address)
		ctx, s, at := t.Context(), memory.New(memory.Options{}), pregel.Thread("not a UUID")
		key := ""
		o := remote.CallOptions{Thread: func(task pregel.TaskInfo) string {
			if key == "" {
				key = newThread(t, c)
			}
			return key
		}}
		g := remote.New(c, "ask")
		res, err := around(t, s, g, o).Invoke(ctx, at, state{"name": "x"})
		must(t, err)
		is(t, len(res.Interrupts), 2) // both at once
		answers := map[string]any{}
		for _, q := range res.Interrupts {
			answers[q.ID] = q.Value.(state)["who"]
		}
		for _, answer := range []any{answers, "one"} {
			res, err = around(t, s, g, o).Invoke(ctx, at, pregel.Command{Resume: answer})
			must(t, err)
			is(t, len(res.Interrupts), 1)
		}
		is(t, res.Interrupts[0].Value, "second")
		res, err = around(t, s, g, o).Invoke(ctx, at, pregel.Command{Resume: "two"})
		must(t, err)
		is(t, []any{res.Interrupts, res.Map()["answers"], res.Map()["here"]}, []any{nil, []string{"left:left", "right:right", "twice:one:two"}, []string{"before", "after"}})
		is(t, len(runsMade(t, c, key)), 5) // the input, and each answer

		// Each task has a thread of its own if nobody names one: nothing is left of the call before.
		for range 2 {
			res, err = around(t, s, g, remote.CallOptions{}).Invoke(ctx, pregel.Thread("two"), state{"name": "x"})
			must(t, err)
			is(t, len(res.Interrupts), 2)
		}

		// Without a saver there is no question to answer, and no thread.
		res, err = around(t, nil, remote.New(c, "slow"), remote.CallOptions{}).Invoke(ctx, pregel.Address{}, state{"delay": 0})
		must(t, err)
		is(t, res.Map()["steps"], []string{"a", "b", "c", "d"})

		// Messages are messages here and there: what both have is one.
		b := graph.New(graph.Key("messages", message.Channel(nil)))
		b.Node("agent", remote.New(c, "agent").Node(remote.CallOptions{})).Edge(graph.Start, "agent")
		chat, err := b.Compile(graph.Options{Saver: s})
		must(t, err)
		var said []string
		parts := 0
		for ev, err := range chat.Stream(ctx, pregel.Thread("chat"), state{"messages": message.List{message.Human("hello")}}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeMessages, pregel.ModeValues}}) {
			must(t, err)
			if ev.Mode == pregel.ModeMessages {
				parts++
				continue
			}
			list, err := message.FromList(ev.Data.(state)["messages"])
			must(t, err)
			said = nil
			for _, m := range list {
				said = append(said, m.Text())
			}
		}
		is(t, said, []string{"hello", "You said: hello"})
		if parts < 3 {
			t.Errorf("%d parts of messages", parts)
		}

		// What it emits is emitted here, and what is configured here is configured there.
		var told []any
		for ev, err := range around(t, s, remote.New(c, "custom"), remote.CallOptions{}).Stream(ctx, pregel.Thread("three"), state{"name": "x", "text": "x"}, pregel.RunOptions{Modes: []pregel.Mode{pregel.ModeCustom}}) {
			must(t, err)
			told = append(told, ev.Data)
		}
		is(t, told, []any{state{"progress": 1}, "half way", []any{1, nil, state{"x": 2.5}}})
		res, err = around(t, s, remote.New(c, "configured"), remote.CallOptions{}).Invoke(ctx, pregel.Thread("four"), state{"name": "x", "text": "x"},
			pregel.RunOptions{Configurable: map[string]any{"style": "formal", "thread_id": "no", "__pregel_x": 1, "f": func() {}}})
		must(t, err)
		is(t, res.Map()["text"], "style formal")
	})
}

// TestClientsGoOnce: a remote run whose result was lost is found again, one that failed is
// resumed, and one whose caller was cancelled is cancelled and resumed.
func TestClientsGoOnce(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		c, w := newClient(t, address)
		ctx, at := t.Context(), pregel.Thread("t")
		key := newThread(t, c)
		o := remote.CallOptions{Thread: func(pregel.TaskInfo) string { return key }}
		begun := func() bool {
			w.mu.Lock()
			defer w.mu.Unlock()
			return slices.Contains(w.sent, "POST /threads/"+key+"/runs/stream")
		}
		lost, lose := errors.New("lost"), true
		s := saver.Intercept(memory.New(memory.Options{}), func(ctx context.Context, call saver.Call, next func(context.Context) error) error {
			if lose && call.Method == "PutWrites" && begun() {
				return lost
			}
			return next(ctx)
		})
		g := remote.New(c, "slow")
		_, err := around(t, s, g, o).Invoke(ctx, at, state{"delay": 0})
		isError(t, err, lost)
		lose = false
		res, err := around(t, s, g, o).Invoke(ctx, at, nil)
		must(t, err)
		is(t, []any{res.Map()["steps"], len(runsMade(t, c, key))}, []any{[]string{"a", "b", "c", "d"}, 1})

		// Cancelled in the middle, it goes on where it was.
		key = newThread(t, c)
		at = pregel.Thread("u")
		stopping, stop := context.WithCancel(ctx)
		go func() {
			defer stop()
			for stopping.Err() == nil { // until node a has ended
				s, err := c.Threads.State(stopping, key, client.At{})
				if err == nil && slices.Contains(s.Next, "b") {
					return
				}
				time.Sleep(20 * time.Millisecond)
			}
		}()
		_, err = around(t, s, g, o).Invoke(stopping, at, state{"delay": 1})
		isError(t, err, context.Canceled)
		res, err = around(t, s, g, o).Invoke(ctx, at, nil)
		must(t, err)
		is(t, []any{res.Map()["steps"], len(runsMade(t, c, key))}, []any{[]string{"a", "b", "c", "d"}, 2})

		// Failed, it is tried again from where it failed.
		key = newThread(t, c)
		at = pregel.Thread("v")
		for _, input := range []any{state{"fail": true}, nil} {
			_, err = around(t, s, remote.New(c, "error"), o).Invoke(ctx, at, input)
			var failed *client.RunError
			if !errors.As(err, &failed) || failed.Message != "boom" {
				t.Fatal(err)
			}
		}
		for { // the run may end a moment after its stream
			_, err = remote.New(c, "error").UpdateState(ctx, pregel.Thread(key), pregel.StateUpdate{Values: state{"fail": false}, AsNode: "first"})
			if !errors.Is(err, client.ErrConflict) {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		must(t, err)
		res, err = around(t, s, remote.New(c, "error"), o).Invoke(ctx, at, nil)
		must(t, err)
		st, err := remote.New(c, "error").GetState(ctx, pregel.Thread(key))
		must(t, err)
		is(t, []any{st.Map()["steps"], res.Map()["here"]}, []any{[]string{"first", "second"}, []string{"before", "after"}})
		is(t, len(runsMade(t, c, key)), 3)
	})
}
