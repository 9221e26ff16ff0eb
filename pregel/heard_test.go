package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
)

// hearing is the answers that nodes have heard.
type hearing struct {
	mu    sync.Mutex
	heard []any
	fails bool // nodes fail once they have heard
}

func (h *hearing) ask(ctx context.Context, q string) (any, error) {
	a, err := pregel.Ask(ctx, q)
	if err != nil {
		return nil, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.heard = append(h.heard, a)
	if h.fails {
		return nil, errBoom
	}
	return m{"steps": []string{fmt.Sprint(a)}}, nil
}

func (h *hearing) asks(questions ...string) pregel.Func {
	return func(ctx context.Context, _ any) (out any, err error) {
		for _, q := range questions {
			if out, err = h.ask(ctx, q); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
}

func says(name string) pregel.Func {
	return func(context.Context, any) (any, error) { return m{"steps": []string{name}}, nil }
}

// askers are graphs that ask: a node "ask" between "a" and "z".
var askers = map[string]func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph{
	"one": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph { return asker(t, h.asks("1?"), nil, o) },
	"twice": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return asker(t, h.asks("1?", "2?"), nil, o)
	},
	"two": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return compiled(t, graph.New(stepsField()).Node("a", says("a")).Node("ask", h.asks("1?")).Node("other", h.asks("2?")).Node("z", says("z")).
			Sequence(graph.Start, "a", "ask", "z").Edge("a", "other"), o)
	},
	"function": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		asks := pregel.NewTask("asks", func(ctx context.Context, _ int) (any, error) { return h.ask(ctx, "1?") })
		return asker(t, func(ctx context.Context, _ any) (any, error) { return asks.Call(ctx, 0) }, nil, o)
	},
	"inside": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return asker(t, nil, asker(t, h.asks("1?"), nil, graph.Options{}), o)
	},
	"inside twice": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return asker(t, nil, asker(t, h.asks("1?", "2?"), nil, graph.Options{}), o)
	},
	"deep inside": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return asker(t, nil, asker(t, nil, asker(t, h.asks("1?"), nil, graph.Options{}), graph.Options{}), o)
	},
	"inside, with its history": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return asker(t, nil, asker(t, h.asks("1?"), nil, graph.Options{Checkpointing: pregel.Stable}), o)
	},
	"inside, called": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		in := asker(t, h.asks("1?"), nil, graph.Options{})
		return asker(t, func(ctx context.Context, s any) (any, error) {
			if _, err := in.Invoke(ctx, pregel.Inside(), m{"steps": []string{}}); err != nil {
				return nil, err
			}
			return h.ask(ctx, "2?")
		}, nil, o, in)
	},
	"behind a join": func(t *testing.T, h *hearing, o graph.Options) *pregel.Graph {
		return compiled(t, graph.New(stepsField()).Node("a", says("a")).Node("b", says("b")).Node("ask", h.asks("1?")).Node("z", says("z")).
			Edge(graph.Start, "a").Edge(graph.Start, "b").Join([]string{"a", "b"}, "ask").Edge("ask", "z"), o)
	},
}

// asker is a graph with "a", "ask" and "z": the node in the middle is a body, or a graph.
func asker(t *testing.T, body pregel.Func, in *pregel.Graph, o graph.Options, called ...*pregel.Graph) *pregel.Graph {
	t.Helper()
	b := graph.New(stepsField()).Node("a", says("a")).Node("z", says("z"))
	if in != nil {
		b.Subgraph("ask", in)
	} else {
		b.Node("ask", body, graph.NodeOptions{Subgraphs: called})
	}
	return compiled(t, b.Sequence(graph.Start, "a", "ask", "z"), o)
}

// history is a thread that was brought so far, and what it asked on the way.
type history struct {
	h      *hearing
	s      *watched
	g      *pregel.Graph
	at     pregel.Address
	o      pregel.RunOptions
	ids    []string // of its questions
	rounds int      // of answers that it took
	name   string
	anew   bool // a graph inside that has ended is run anew
}

// lived makes a thread that was given so many rounds of answers, as long as it asked.
func lived(t *testing.T, kind string, rounds int, fails bool, d pregel.Durability) *history {
	t.Helper()
	l := &history{h: &hearing{}, s: watch(nil), at: pregel.Thread("t"), o: pregel.RunOptions{Durability: d},
		name: fmt.Sprintf("%s, %s, fails %v", kind, d, fails), anew: kind == "inside, called" && d == pregel.Exit}
	l.g = askers[kind](t, l.h, graph.Options{Saver: l.s})
	res, err := l.g.Invoke(ctx, l.at, m{"steps": []string{"in"}}, l.o)
	for n := 0; ; n++ {
		if l.rounds = n; err != nil {
			if !fails || n == 0 || !errors.Is(err, errBoom) {
				t.Fatal(err)
			}
			return l
		}
		answers := map[string]any{}
		for _, in := range res.Interrupts {
			answers[in.ID] = "yes"
			if !slices.Contains(l.ids, in.ID) {
				l.ids = append(l.ids, in.ID)
			}
		}
		if n == rounds || len(res.Interrupts) == 0 {
			return l
		}
		l.h.fails = fails && n == rounds-1
		res, err = l.g.Invoke(ctx, l.at, pregel.Command{Resume: answers}, l.o)
		l.h.fails = false
	}
}

// place is an address of a thread: itself, or that of one of its checkpoints, also inside. n is how many there are.
func (l *history) place(t *testing.T, at int) (place pregel.Address, n int) {
	t.Helper()
	place, n = l.at, 1
	for tup, err := range l.s.List(ctx, saver.Query{ThreadID: "t"}) {
		if err != nil {
			t.Fatal(err)
		}
		if n == at {
			place = must(l.g.GetState(ctx, pregel.Address{ThreadID: "t", Namespace: tup.Config.Namespace, CheckpointID: tup.Config.CheckpointID})).Address
		}
		n++
	}
	return place, n
}

// TestAnswersAreHeardOrRefused: wherever an answer is given, with or without the ids of questions and whatever comes
// with it, a node hears it, or it is refused before anything is stored or run.
func TestAnswersAreHeardOrRefused(t *testing.T) {
	heard, refused := 0, 0
	for kind := range askers {
		for _, d := range allDurabilities {
			for rounds := range 4 {
				for _, fails := range []bool{false, true} {
					l := lived(t, kind, rounds, fails, d)
					if l.rounds < rounds || fails && rounds == 0 {
						continue // is tried already
					}
					_, places := l.place(t, 0)
					ids := len(l.ids)
					for at := range places {
						for way := range ids + 2 {
							for n := range steers {
								if at > 0 && (n > 0 || d == pregel.Async) { // which stores what Sync does
									continue
								}
								if l.hears(t, at, way, n) {
									heard++
									l = lived(t, kind, rounds, fails, d)
								} else { // and the thread is as it was
									refused++
								}
							}
						}
					}
				}
			}
		}
	}
	if heard < 100 || refused < 100 {
		t.Errorf("%d were heard and %d refused: the test tests little", heard, refused)
	}
	t.Logf("%d were heard, %d refused", heard, refused)
}

// steers are what may come with an answer.
var steers = []pregel.Command{{}, {Goto: "a", Update: m{"steps": []string{"u"}}}, {Update: m{"steps": []string{"u"}}}, {Goto: "z"}, {Goto: "ask"}}

// hears gives an answer at one place of a thread: to one question, to all, or without an id. It reports whether it was
// heard.
func (l *history) hears(t *testing.T, at, way, steer int) bool {
	t.Helper()
	place, _ := l.place(t, at)
	cmd := steers[steer]
	all := m{}
	for _, id := range l.ids {
		all[id] = "new"
	}
	switch {
	case way < len(l.ids):
		cmd.Resume = m{l.ids[way]: "new"}
	case way == len(l.ids):
		cmd.Resume = all
	default:
		cmd.Resume = "new"
	}
	saves, before := len(l.s.acked("")), len(l.h.heard)
	res, err := l.g.Invoke(ctx, place, cmd, l.o)
	wrong := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, %d rounds, at %d %v, %v: %s", l.name, l.rounds, at, place, cmd, fmt.Sprintf(format, args...))
	}
	if err != nil {
		if !errors.Is(err, pregel.ErrNoInterrupt) && !errors.Is(err, pregel.ErrAmbiguousResume) && !errors.Is(err, pregel.ErrUnknownInterrupt) {
			wrong("%v", err)
		}
		if len(l.s.acked("")) != saves || len(l.h.heard) != before {
			wrong("refused with %v, and %d saves were made", err, len(l.s.acked(""))-saves)
		}
		return false
	}
	// Exit stores nothing of a graph inside that has ended, so it begins anew, and asks before its caller does.
	anew := l.anew && len(res.Interrupts) > 0 && res.Interrupts[0].Value == "1?"
	if !slices.Contains(l.h.heard[before:], any("new")) && !anew {
		wrong("nobody heard it: %v, now asked %v", l.h.heard, res.Interrupts)
	}
	return true
}

// TestAnswerAtAnOldCheckpointAgain: an answer that was given where the thread has moved past, and whose node failed then,
// may be given again, with or without its id, and the node hears it. Another one is refused.
func TestAnswerAtAnOldCheckpointAgain(t *testing.T) {
	for kind := range askers {
		for _, d := range []pregel.Durability{pregel.Sync, pregel.Async} {
			h := &hearing{}
			g, at, o := askers[kind](t, h, graph.Options{Saver: watch(nil)}), pregel.Thread("t"), pregel.RunOptions{Durability: d}
			res := must(g.Invoke(ctx, at, m{"steps": []string{"in"}}, o))
			asked := must(g.GetState(ctx, at)).Address
			must(g.Invoke(ctx, at, m{"steps": []string{"moved past"}}, o))
			answers, others := m{}, m{}
			for _, in := range res.Interrupts {
				answers[in.ID], others[in.ID] = "new", "other"
			}
			h.fails = true
			if _, err := g.Invoke(ctx, asked, pregel.Command{Resume: answers}, o); kind == "inside, with its history" && errors.Is(err, pregel.ErrNoInterrupt) {
				continue // the graph inside has moved past it, too, and has one history
			} else if !errors.Is(err, errBoom) {
				t.Fatal(kind, err)
			}
			for _, again := range []any{answers, "new"} {
				h.heard = nil
				if _, err := g.Invoke(ctx, asked, pregel.Command{Resume: again}, o); !errors.Is(err, errBoom) || !slices.Contains(h.heard, any("new")) {
					t.Errorf("%s, %s, %v: %v, heard %v", kind, d, again, err, h.heard)
				}
			}
			if _, err := g.Invoke(ctx, asked, pregel.Command{Resume: others}, o); !errors.Is(err, pregel.ErrNoInterrupt) {
				t.Errorf("%s, %s: another answer: %v", kind, d, err)
			}
			h.fails, h.heard = false, nil
			if _, err := g.Invoke(ctx, asked, pregel.Command{Resume: answers}, o); err != nil || !slices.Contains(h.heard, any("new")) {
				t.Errorf("%s, %s: %v, heard %v", kind, d, err, h.heard)
			}
		}
	}
}

// TestAnswerAtAnOldCheckpoint: where the thread has moved past a checkpoint at which one of two questions waits, that one
// is answered there, and the other, which has been answered, is not, not even with the same answer.
func TestAnswerAtAnOldCheckpoint(t *testing.T) {
	for _, d := range allDurabilities {
		for _, c := range []struct {
			give func(one, two string) any
			err  error
		}{
			{func(one, _ string) any { return m{one: "yes"} }, pregel.ErrNoInterrupt},
			{func(one, _ string) any { return m{one: "no"} }, pregel.ErrNoInterrupt},
			{func(one, two string) any { return m{one: "yes", two: "new"} }, pregel.ErrNoInterrupt},
			{func(_, two string) any { return m{two: "new"} }, nil},
			{func(string, string) any { return "new" }, nil},
		} {
			h, s := &hearing{}, watch(nil)
			g, at, o := askers["two"](t, h, graph.Options{Saver: s}), pregel.Thread("t"), pregel.RunOptions{Durability: d}
			res := must(g.Invoke(ctx, at, m{"steps": []string{"in"}}, o))
			one, two := res.Interrupts[0].ID, res.Interrupts[1].ID
			must(g.Invoke(ctx, at, pregel.Command{Resume: m{one: "yes"}}, o))
			asked := must(g.GetState(ctx, at)).Address
			must(g.Invoke(ctx, at, m{"steps": []string{"moved past"}}, o))
			h.heard = nil
			saves, give := len(s.acked("")), c.give(one, two)
			_, err := g.Invoke(ctx, asked, pregel.Command{Resume: give}, o)
			if !errors.Is(err, c.err) || (err == nil) != (c.err == nil) || err == nil && !slices.Contains(h.heard, any("new")) {
				t.Errorf("%s, %v: %v, heard %v", d, give, err, h.heard)
			}
			if err != nil && (len(s.acked("")) != saves || len(h.heard) > 0) {
				t.Errorf("%s, %v: refused, and %d saves were made, heard %v", d, give, len(s.acked(""))-saves, h.heard)
			}
		}
	}
}
