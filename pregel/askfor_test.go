package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/saver/memory"
)

// An answer of the wrong type fails the node, and the question can be answered again:
// by a plain answer or by id, after any number of wrong ones, in every durability, also
// where an earlier question of the node was answered well.
func TestAskForAnswersAgain(t *testing.T) {
	for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
		for _, langGraph := range []bool{false, true} {
			for _, byID := range []bool{false, true} {
				t.Run(fmt.Sprint(d, "/langgraph ", langGraph, "/by id ", byID), func(t *testing.T) {
					g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph}, node("a", func(ctx context.Context, _ any) (any, error) {
						first, err := pregel.AskFor[string](ctx, "first?")
						if err != nil {
							return nil, err
						}
						second, err := pregel.AskFor[string](ctx, "second?")
						return first + second, err
					}))
					at, cfg := pregel.Thread("t"), pregel.RunOptions{Durability: d}
					res, err := g.Invoke(ctx, at, "in", cfg)
					if err != nil {
						t.Fatal(err)
					}
					for _, good := range []string{"one", "two"} {
						if len(res.Interrupts) != 1 {
							t.Fatalf("%d questions before %q", len(res.Interrupts), good)
						}
						answer := func(v any) pregel.Command {
							if byID {
								v = map[string]any{res.Interrupts[0].ID: v}
							}
							return pregel.Command{Resume: v}
						}
						for _, wrong := range []any{5, []any{"x"}} {
							if _, err := g.Invoke(ctx, at, answer(wrong), cfg); err == nil {
								t.Fatalf("%v was taken for %q", wrong, good)
							}
						}
						if res, err = g.Invoke(ctx, at, answer(good), cfg); err != nil {
							t.Fatalf("%q after wrong ones: %v", good, err)
						}
					}
					if out, _ := res.Value.([]any); len(res.Interrupts) != 0 || len(out) != 1 || out[0] != "onetwo" {
						t.Errorf("the run ended with %v, %v", res.Value, res.Interrupts)
					}
				})
			}
		}
	}
}

// A refused answer is told with its question. A check that changes its mind, also in a called
// function, has the question answered again, although the answer was recorded.
func TestCheckedAnswer(t *testing.T) {
	for _, called := range []bool{false, true} {
		for _, byID := range []bool{false, true} {
			t.Run(fmt.Sprint("called ", called, "/by id ", byID), func(t *testing.T) {
				broken, refused := errors.New("broken"), errors.New("not that one")
				breaks, takes := true, "one"
				asks := func(ctx context.Context, _ int) (any, error) {
					answer, err := pregel.Ask(ctx, "which?", pregel.AskOptions{Check: func(answer any) error {
						if answer != takes {
							return refused
						}
						return nil
					}})
					if err == nil && breaks {
						err = broken
					}
					return answer, err
				}
				g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(ctx context.Context, _ any) (any, error) {
					if called {
						return pregel.NewTask("asks", asks).Call(ctx, 0)
					}
					return asks(ctx, 0)
				}))
				at := pregel.Thread("t")
				res, err := g.Invoke(ctx, at, "in")
				if err != nil || len(res.Interrupts) != 1 {
					t.Fatal(res, err)
				}
				id := res.Interrupts[0].ID
				answer := func(v any) any {
					if byID {
						v = map[string]any{id: v}
					}
					return pregel.Command{Resume: v}
				}
				var wrong *pregel.AnswerError
				if _, err := g.Invoke(ctx, at, answer("two")); !errors.As(err, &wrong) || !errors.Is(err, refused) || wrong.Interrupt != id {
					t.Fatalf("%v", err)
				}
				if _, err := g.Invoke(ctx, at, answer("one")); !errors.Is(err, broken) {
					t.Fatalf("%v", err)
				}
				if st, err := g.GetState(ctx, at); !called && (err != nil || len(st.Interrupts) != 0) {
					t.Errorf("a task that was answered and failed shows its question: %+v, %v", st, err)
				}
				breaks, takes = false, "two"
				if _, err := g.Invoke(ctx, at, nil); !errors.Is(err, refused) {
					t.Fatalf("%v", err)
				}
				res, err = g.Invoke(ctx, at, answer("two"))
				if err != nil || len(res.Interrupts) != 0 || fmt.Sprint(res.Value) != "[two]" {
					t.Fatalf("%v, %v", res, err)
				}
			})
		}
	}
}

// Of two functions that ask one is given an answer of the wrong type. Its question
// alone waits then, and a plain answer is for it.
func TestOneWrongAnswer(t *testing.T) {
	asks := pregel.NewTask("asks", func(ctx context.Context, q string) (int, error) { return pregel.AskFor[int](ctx, q) })
	g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(ctx context.Context, _ any) (any, error) {
		one, errOne := asks.Call(ctx, "first?")
		two, errTwo := asks.Call(ctx, "second?")
		both := &pregel.InterruptError{}
		for _, err := range []error{errOne, errTwo} {
			var waits *pregel.InterruptError
			if errors.As(err, &waits) {
				both.Interrupts = append(both.Interrupts, waits.Interrupts...)
			} else if err != nil {
				return nil, err
			}
		}
		if len(both.Interrupts) > 0 {
			return nil, both
		}
		return fmt.Sprint(one, two), nil
	}))
	at := pregel.Thread("t")
	res, err := g.Invoke(ctx, at, "in")
	if err != nil || len(res.Interrupts) != 2 {
		t.Fatal(res, err)
	}
	wrong := res.Interrupts[1].ID
	if _, err := g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{res.Interrupts[0].ID: 1, wrong: "two"}}); err == nil {
		t.Fatal("taken")
	}
	if st, err := g.GetState(ctx, at); err != nil || len(st.Interrupts) != 1 || st.Interrupts[0].ID != wrong {
		t.Errorf("%+v, %v", st, err)
	}
	if res, err = g.Invoke(ctx, at, pregel.Command{Resume: 2}); err != nil || len(res.Interrupts) != 0 || fmt.Sprint(res.Value) != "[1 2]" {
		t.Errorf("%v, %v", res, err)
	}
}

// A recorded answer that a later run refuses: its question waits again, and not the one that was
// asked behind it, whose answer is void.
func TestRefusedLater(t *testing.T) {
	for _, called := range []bool{false, true} {
		for _, byID := range []bool{false, true} {
			t.Run(fmt.Sprint("called ", called, "/by id ", byID), func(t *testing.T) {
				takes, broken := "one", errors.New("broken")
				asks := func(ctx context.Context, _ int) (any, error) {
					first, err := pregel.Ask(ctx, "first?", pregel.AskOptions{ResponseSchema: map[string]any{"type": "string"}, Check: func(answer any) error {
						if answer != takes {
							return errors.New("not that one")
						}
						return nil
					}})
					if err != nil {
						return nil, err
					}
					second, err := pregel.Ask(ctx, "second?")
					if err != nil {
						return nil, err
					}
					return fmt.Sprint(first, second), broken
				}
				g := fan(t, pregel.Options{Saver: memory.New(memory.Options{})}, node("a", func(ctx context.Context, _ any) (any, error) {
					if called {
						return pregel.NewTask("asks", asks).Call(ctx, 0)
					}
					return asks(ctx, 0)
				}))
				at := pregel.Thread("t")
				waits := func(want any) string {
					t.Helper()
					st, err := g.GetState(ctx, at)
					if err != nil || len(st.Interrupts) != 1 || st.Interrupts[0].Value != want {
						t.Fatalf("%v waits, want %v; %v", st.Interrupts, want, err)
					}
					return st.Interrupts[0].ID
				}
				answer := func(v any) error {
					t.Helper()
					cmd := pregel.Command{Resume: v}
					if byID {
						st, err := g.GetState(ctx, at)
						if err != nil || len(st.Interrupts) != 1 {
							t.Fatalf("%+v, %v", st, err)
						}
						cmd.Resume = map[string]any{st.Interrupts[0].ID: v}
					}
					_, err := g.Invoke(ctx, at, cmd)
					return err
				}
				if _, err := g.Invoke(ctx, at, "in"); err != nil {
					t.Fatal(err)
				}
				if err := answer("one"); err != nil {
					t.Fatal(err)
				}
				waits("second?")
				if err := answer("B"); !errors.Is(err, broken) {
					t.Fatal(err)
				}
				takes = "two"
				var wrong *pregel.AnswerError
				if _, err := g.Invoke(ctx, at, nil); !errors.As(err, &wrong) {
					t.Fatal(err)
				}
				if id := waits("first?"); id != wrong.Interrupt {
					t.Errorf("%s waits, and the error names %s", id, wrong.Interrupt)
				}
				if err := answer("two"); err != nil {
					t.Fatal(err)
				}
				waits("second?")
				broken = nil
				if err := answer("C"); err != nil {
					t.Fatal(err)
				}
				if st, err := g.GetState(ctx, at); err != nil || len(st.Next) != 0 {
					t.Errorf("%+v, %v", st, err)
				}
			})
		}
	}
}

// Of two tasks that one Command answers, one refuses its answer. The other is not cut off: it runs
// to its end, and not again when the first is answered well.
func TestRefusedAnswerCutsNobodyOff(t *testing.T) {
	for _, langGraph := range []bool{false, true} {
		ends := 0
		asks := func(name string) *pregel.NodeBuilder {
			return node(name, func(ctx context.Context, _ any) (any, error) {
				n, err := pregel.AskFor[int](ctx, name)
				if err == nil && name == "b" {
					ends++
				}
				return n, err
			})
		}
		g := fan(t, pregel.Options{Saver: memory.New(memory.Options{}), LangGraph: langGraph}, asks("a"), asks("b"))
		at, one := pregel.Thread("t"), pregel.RunOptions{MaxConcurrency: 1} // b begins when a has ended
		res, err := g.Invoke(ctx, at, "in", one)
		if err != nil || len(res.Interrupts) != 2 {
			t.Fatal(res, err)
		}
		id := map[any]string{}
		for _, in := range res.Interrupts {
			id[in.Value] = in.ID
		}
		var wrong *pregel.AnswerError
		if _, err := g.Invoke(ctx, at, pregel.Command{Resume: map[string]any{id["a"]: "no number", id["b"]: 2}}, one); !errors.As(err, &wrong) || wrong.Interrupt != id["a"] {
			t.Fatalf("%v", err)
		}
		if ends != 1 {
			t.Errorf("LangGraph %t: b ended %d times", langGraph, ends)
		}
		st, err := g.GetState(ctx, at)
		if err != nil || len(st.Interrupts) != 1 || st.Interrupts[0].ID != id["a"] {
			t.Errorf("LangGraph %t: %+v %v", langGraph, st.Interrupts, err)
		}
		res, err = g.Invoke(ctx, at, pregel.Command{Resume: 1}, one)
		if err != nil || ends != 1 || fmt.Sprint(res.Value) != "[1 2]" {
			t.Errorf("LangGraph %t: %v %v, b ended %d times", langGraph, res, err, ends)
		}
	}
}
