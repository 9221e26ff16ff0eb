package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// post is a graph that takes letters, writes them down and mails those that its log
// does not know as mailed.
type post struct {
	mu   sync.Mutex
	sent []string
	// sending is called in the node that mails, after it mailed; may be nil.
	sending func(ctx context.Context) error
	opts    graph.Options
}

func (p *post) mailed() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(p.sent)
}

func (p *post) send(c context.Context, in any) (any, error) {
	state := in.(map[string]any)
	log, _ := state["log"].([]string)
	var done []string
	for _, letter := range state["letters"].([]string) {
		if !slices.Contains(log, "mailed "+letter) {
			p.mu.Lock()
			p.sent = append(p.sent, letter)
			p.mu.Unlock()
			done = append(done, "mailed "+letter)
		}
	}
	if p.sending != nil {
		if err := p.sending(c); err != nil {
			return nil, err
		}
	}
	return map[string]any{"log": done}, nil
}

func (p *post) graph(t *testing.T, s saver.Saver) *pregel.Graph {
	t.Helper()
	o := p.opts
	o.Saver = s
	g, err := graph.New(graph.Key("letters", channel.Reduce(channel.Append[string])), graph.Key("log", channel.Reduce(channel.Append[string]))).
		Node("write", func(context.Context, any) (any, error) { return map[string]any{"log": []string{"wrote"}}, nil }).
		Node("send", p.send).
		Sequence(graph.Start, "write", "send", graph.End).Compile(o)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func letter(text string) map[string]any { return map[string]any{"letters": []string{text}} }

// dies runs the first letter on a saver that fails at one put, as if the process had
// died there, and returns what is stored.
func (p *post) dies(t *testing.T, at string, opts ...pregel.RunOptions) *memory.Saver {
	t.Helper()
	s := memory.New(memory.Options{})
	w := &watched{Saver: s, before: func(_ context.Context, op string) error {
		if op == at {
			return errDead
		}
		return nil
	}}
	cfg := pregel.RunOptions{}
	if len(opts) > 0 {
		cfg = opts[0]
	}
	cfg.Durability = pregel.Sync
	if _, err := p.graph(t, w).Invoke(ctx, pregel.Thread("t"), letter("first"), cfg); !errors.Is(err, errDead) {
		t.Fatalf("the run did not die: %v", err)
	}
	return s
}

// afterSend is the put of the checkpoint that ends the superstep of send: what send
// wrote is stored then, and the checkpoint is missing.
const afterSend = "put 2"

func newest(t *testing.T, g *pregel.Graph) *pregel.StateSnapshot {
	t.Helper()
	state, err := g.GetState(ctx, pregel.Thread("t"))
	if err != nil {
		t.Fatal(err)
	}
	return state
}

// New input on an unfinished thread loses nothing that ended: each letter is mailed
// once. In LangGraph's way what was stored is dropped, and the first is mailed twice.
func TestNewInputFinishesFirst(t *testing.T) {
	run := map[string]func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) error{
		"invoke": func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) error {
			_, err := g.Invoke(ctx, at, letter("second"), cfg)
			return err
		},
		"stream": func(g *pregel.Graph, at pregel.Address, cfg pregel.RunOptions) error {
			var shown []string
			for e, err := range g.Stream(ctx, at, letter("second"), withModes(cfg, pregel.ModeUpdates)) {
				if err != nil {
					return err
				}
				shown = append(shown, e.Data.(pregel.Update).Node)
			}
			if got := fmt.Sprint(shown); got != "[write send]" {
				return fmt.Errorf("shown are %s, not only what the input does", got)
			}
			return nil
		},
	}
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for how, run := range run {
			for _, langGraph := range []bool{false, true} {
				t.Run(fmt.Sprintf("%s/%s/LangGraph %v", d, how, langGraph), func(t *testing.T) {
					p := &post{opts: graph.Options{LangGraph: langGraph}}
					s := p.dies(t, afterSend, pregel.RunOptions{RunID: "run 1"})
					g := p.graph(t, s)
					if state := newest(t, g); state.Status != saver.StatusUnfinished {
						t.Fatalf("status %q", state.Status)
					}
					if err := run(g, pregel.Thread("t"), pregel.RunOptions{Durability: d, RunID: "run 2"}); err != nil {
						t.Fatal(err)
					}
					want, log := "[first second]", "[wrote mailed first wrote mailed second]"
					if langGraph {
						want, log = "[first first second]", "[wrote wrote mailed first mailed second]"
					}
					state := newest(t, g)
					if p.mailed() != want || fmt.Sprint(state.Map()["log"]) != log || state.Status != saver.StatusDone {
						t.Errorf("mailed %s, want %s; log %v, want %s; status %q", p.mailed(), want, state.Map()["log"], log, state.Status)
					}
				})
			}
		}
	}
}

// What is finished first has the RunID of the run that left it, and the RunID of that
// run itself resumes, as ever.
func TestFinishingKeepsRunID(t *testing.T) {
	p := &post{}
	g := p.graph(t, p.dies(t, afterSend, pregel.RunOptions{RunID: "run 1"}))
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"), pregel.RunOptions{RunID: "run 2"}); err != nil {
		t.Fatal(err)
	}
	var ids []string
	for state, err := range g.GetStateHistory(ctx, pregel.Thread("t"), pregel.HistoryQuery{}) {
		if err != nil {
			t.Fatal(err)
		}
		if state.Status != "" {
			t.Errorf("a state of the past has status %q", state.Status)
		}
		ids = append(ids, state.Metadata.RunID())
	}
	if got := fmt.Sprint(ids); got != "[run 2 run 2 run 2 run 2 run 1 run 1 run 1 run 1]" {
		t.Errorf("run ids %s", got)
	}
	again := &post{}
	g = again.graph(t, again.dies(t, afterSend, pregel.RunOptions{RunID: "run 1"}))
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"), pregel.RunOptions{RunID: "run 1"}); err != nil || again.mailed() != "[first]" {
		t.Errorf("a retry of the run: mailed %s, %v", again.mailed(), err)
	}
}

func TestRefuseAndDiscardUnfinished(t *testing.T) {
	p := &post{}
	g := p.graph(t, p.dies(t, afterSend))
	before := newest(t, g)
	_, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"), pregel.RunOptions{Unfinished: pregel.RefuseUnfinished})
	var u *pregel.UnfinishedError
	if !errors.Is(err, pregel.ErrUnfinished) || !errors.As(err, &u) || len(u.Next) > 0 || u.Stopped || u.Err != nil {
		t.Fatalf("%+v, %v", u, err)
	}
	if after := newest(t, g); after.Address.CheckpointID != before.Address.CheckpointID || p.mailed() != "[first]" {
		t.Errorf("the refused run did something: %+v, mailed %s", after, p.mailed())
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"), pregel.RunOptions{Unfinished: pregel.DiscardUnfinished}); err != nil || p.mailed() != "[first first second]" {
		t.Errorf("discarded: mailed %s, %v", p.mailed(), err)
	}
	if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("x"), pregel.RunOptions{Unfinished: "maybe"}); !errors.Is(err, pregel.ErrInvalidArgument) {
		t.Errorf("an unknown way: %v", err)
	}
}

// Finishing that fails or stops keeps the input out, and says why; then the thread
// failed or waits, and the next input is taken.
func TestFinishingThatDoesNotEnd(t *testing.T) {
	errNode := errors.New("no stamps")
	for name, c := range map[string]struct {
		sending func(context.Context) error
		check   func(u *pregel.UnfinishedError) bool
		status  saver.Status
	}{
		"fails": {func(context.Context) error { return errNode }, func(u *pregel.UnfinishedError) bool {
			return errors.Is(u, errNode) && !u.Stopped
		}, saver.StatusFailed},
		"asks": {func(c context.Context) error {
			_, err := pregel.Ask(c, "really?")
			return err
		}, func(u *pregel.UnfinishedError) bool {
			return u.Stopped && u.Err == nil && len(u.Interrupts) == 1 && u.Interrupts[0].Value == "really?"
		}, saver.StatusWaiting},
	} {
		t.Run(name, func(t *testing.T) {
			p := &post{}
			s := p.dies(t, "put 1") // send has not run
			p.sending = c.sending
			g := p.graph(t, s)
			_, err := g.Invoke(ctx, pregel.Thread("t"), letter("second"))
			var u *pregel.UnfinishedError
			if !errors.As(err, &u) || !c.check(u) {
				t.Fatalf("%+v, %v", u, err)
			}
			state := newest(t, g)
			if state.Status != c.status || fmt.Sprint(state.Map()["letters"]) != "[first]" {
				t.Errorf("status %q, letters %v", state.Status, state.Map()["letters"])
			}
			p.sending = nil
			if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("second")); err != nil {
				t.Errorf("the next input: %v", err)
			}
		})
	}
}

// The status of a snapshot is exact with and without notes.
func TestStatusOfSnapshots(t *testing.T) {
	errNode := errors.New("no")
	for _, notes := range []bool{true, false} {
		for name, c := range map[string]struct {
			want  saver.Status
			begin func(p *post)
		}{
			"done": {saver.StatusDone, func(*post) {}},
			"failed": {saver.StatusFailed, func(p *post) {
				p.sending = func(context.Context) error { return errNode }
			}},
			"asks": {saver.StatusWaiting, func(p *post) {
				p.sending = func(c context.Context) error { _, err := pregel.Ask(c, "?"); return err }
			}},
			"before breakpoint": {saver.StatusWaiting, func(p *post) { p.opts.InterruptBefore = []string{"send"} }},
			"after breakpoint":  {saver.StatusWaiting, func(p *post) { p.opts.InterruptAfter = []string{"write"} }},
		} {
			t.Run(fmt.Sprintf("%s/notes %v", name, notes), func(t *testing.T) {
				var s saver.Saver = memory.New(memory.Options{})
				if !notes {
					s = noteless{s}
				}
				p := &post{}
				c.begin(p)
				g := p.graph(t, s)
				if state := newest(t, g); state.Status != "" {
					t.Errorf("a new thread has status %q", state.Status)
				}
				_, err := g.Invoke(ctx, pregel.Thread("t"), letter("first"))
				if err != nil && !errors.Is(err, errNode) {
					t.Fatal(err)
				}
				if state := newest(t, g); state.Status != c.want {
					t.Errorf("status %q, want %q", state.Status, c.want)
				}
			})
		}
	}
}

// A graph inside that stops at a breakpoint is waiting for somebody, and new input or
// Recover must not run past it.
func TestBreakpointInsideIsNotUnfinished(t *testing.T) {
	for _, notes := range []bool{true, false} {
		var s saver.Saver = memory.New(memory.Options{})
		if !notes {
			s = noteless{s}
		}
		inner := (&post{opts: graph.Options{InterruptBefore: []string{"send"}}})
		g, err := graph.New(graph.Key("letters", channel.Reduce(channel.Append[string])), graph.Key("log", channel.Reduce(channel.Append[string]))).
			Subgraph("office", inner.graph(t, nil)).Sequence(graph.Start, "office", graph.End).Compile(graph.Options{Name: "g", Saver: s})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := g.Invoke(ctx, pregel.Thread("t"), letter("first")); err != nil {
			t.Fatal(err)
		}
		if state := newest(t, g); state.Status != saver.StatusWaiting {
			t.Errorf("notes %v: status %q", notes, state.Status)
		}
		if notes {
			if report, err := g.Recover(ctx, pregel.RecoverOptions{}); err != nil || len(report.Threads) > 0 {
				t.Errorf("recovered %+v, %v", report, err)
			}
		}
		if inner.mailed() != "[]" {
			t.Errorf("notes %v: mailed %s past the breakpoint", notes, inner.mailed())
		}
	}
}
