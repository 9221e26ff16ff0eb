package pregel_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stele-go/stele/pregel"
	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/graph"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
)

// till takes payments that people have answered questions about.
type till struct {
	mu   sync.Mutex
	paid map[string][]any // the answers that it was paid with, by key
}

func (p *till) pay(ctx context.Context, with any) (any, error) {
	key, err := pregel.IdempotencyKey(ctx, "pay")
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.paid[key] = append(p.paid[key], with)
	return with, nil
}

// ask asks once, and pays with the answer.
func (p *till) ask(ctx context.Context, _ any) (any, error) {
	a, err := pregel.Ask(ctx, "pay?")
	if err != nil {
		return nil, err
	}
	return p.pay(ctx, a)
}

func (p *till) payments() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, with := range p.paid {
		n += len(with)
	}
	return n
}

// within is a node that runs nodes in a graph inside.
func within(t *testing.T, name string, nodes ...*pregel.NodeBuilder) *pregel.NodeBuilder {
	sub := fan(t, pregel.Options{}, nodes...)
	return node(name, func(ctx context.Context, in any) (any, error) {
		res, err := sub.Invoke(ctx, pregel.Inside(), in)
		if err != nil {
			return nil, err
		}
		return res.Value, nil
	}).Subgraphs(sub)
}

// payers are nodes that ask and pay. The number is how often their question is asked before the one that
// a test is about.
var payers = map[string]struct {
	before int
	make   func(t *testing.T, p *till, name string) *pregel.NodeBuilder
}{
	"plain": {0, func(_ *testing.T, p *till, name string) *pregel.NodeBuilder { return node(name, p.ask) }},
	"inside": {0, func(t *testing.T, p *till, name string) *pregel.NodeBuilder {
		return within(t, name, node("in", p.ask))
	}},
	"inside 2": {0, func(t *testing.T, p *till, name string) *pregel.NodeBuilder {
		return within(t, name, within(t, "mid", node("in", p.ask)))
	}},
	"pays later": {0, func(t *testing.T, p *till, name string) *pregel.NodeBuilder {
		said := graph.New(graph.Key("said", channel.LastValue[any]()))
		said.Node("ask", func(ctx context.Context, _ any) (any, error) {
			a, err := pregel.Ask(ctx, "pay?")
			return map[string]any{"said": a}, err
		})
		said.Node("pay", func(ctx context.Context, s any) (any, error) {
			_, err := p.pay(ctx, s.(map[string]any)["said"])
			return nil, err
		})
		sub, err := said.Sequence(graph.Start, "ask", "pay", graph.End).Compile(graph.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return node(name, func(ctx context.Context, _ any) (any, error) {
			res, err := sub.Invoke(ctx, pregel.Inside(), map[string]any{"said": "nothing"})
			if err != nil {
				return nil, err
			}
			return res.Map()["said"], nil
		}).Subgraphs(sub)
	}},
	"function": {0, func(_ *testing.T, p *till, name string) *pregel.NodeBuilder {
		return node(name, func(ctx context.Context, _ any) (any, error) {
			return pregel.NewTask("asks", func(ctx context.Context, _ int) (any, error) { return p.ask(ctx, nil) }).Call(ctx, 0)
		})
	}},
	"twice": {1, func(_ *testing.T, p *till, name string) *pregel.NodeBuilder { return node(name, p.askTwice) }},
	"twice inside": {1, func(t *testing.T, p *till, name string) *pregel.NodeBuilder {
		return within(t, name, node("in", p.askTwice))
	}},
}

// askTwice asks another question before.
func (p *till) askTwice(ctx context.Context, _ any) (any, error) {
	if _, err := pregel.Ask(ctx, "sure?"); err != nil {
		return nil, err
	}
	return p.ask(ctx, nil)
}

// TestAnswersSurviveDeathAtEverySave: a process dies at any save after it was given answers. Where one was stored, the
// thread is unfinished and its question does not wait, another answer is refused before anything is stored,
// and Recover goes on with the first one. Where it was not stored nothing was paid.
func TestAnswersSurviveDeathAtEverySave(t *testing.T) {
	for kind := range payers {
		for _, way := range []string{"by id", "by position", "several", "some"} {
			for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
				t.Run(fmt.Sprint(kind, "/", way, "/", d), func(t *testing.T) {
					for death := 0; dieAnswered(t, kind, way, d, death); death++ {
						if death > 60 {
							t.Fatal("it always dies")
						}
					}
				})
			}
		}
	}
}

// dieAnswered answers questions in a process that dies at a save, and goes on. It returns false if the process
// did not die.
func dieAnswered(t *testing.T, kind, way string, d pregel.Durability, death int) bool {
	t.Helper()
	p := &till{paid: map[string][]any{}}
	s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
	payer := payers[kind]
	nodes := []*pregel.NodeBuilder{payer.make(t, p, "one")}
	if way == "several" || way == "some" {
		nodes = append(nodes, payer.make(t, p, "two"))
	}
	g := fan(t, pregel.Options{Saver: s, Name: "till"}, nodes...)
	at, o := pregel.Thread("t"), pregel.RunOptions{Durability: d}
	res, err := g.Invoke(ctx, at, 1, o)
	byID := func(list []pregel.Interrupt, v any) pregel.Command {
		answers := map[string]any{}
		for _, in := range list {
			answers[in.ID] = v
		}
		return pregel.Command{Resume: answers}
	}
	for range payer.before {
		if err != nil || len(res.Interrupts) != len(nodes) {
			t.Fatal(res, err)
		}
		if way == "by position" {
			res, err = g.Invoke(ctx, at, pregel.Command{Resume: "yes"}, o)
		} else {
			res, err = g.Invoke(ctx, at, byID(res.Interrupts, "yes"), o)
		}
	}
	if err != nil || len(res.Interrupts) != len(nodes) {
		t.Fatal(res, err)
	}
	answered := res.Interrupts
	if way == "some" {
		answered = answered[:1]
	}
	yes := byID(answered, "yes")
	if way == "by position" {
		yes.Resume = "yes"
	}

	s.left = death
	_, err = g.Invoke(ctx, at, yes, o)
	s.left = -1
	if err == nil {
		p.want(t, len(answered), death)
		return false
	}
	if !errors.Is(err, errDead) {
		t.Fatalf("death at save %d: %v", death, err)
	}

	st, err := g.GetState(ctx, at, pregel.StateOptions{Subgraphs: true})
	if err != nil {
		t.Fatal(err)
	}
	switch inForce := st.Status == saver.StatusUnfinished; {
	case !inForce && st.Status == saver.StatusWaiting && len(st.Interrupts) == len(nodes) && d != pregel.Exit && p.payments() > 0:
		t.Errorf("death at save %d: %d payments, and all questions wait", death, p.payments())
	case inForce:
		for _, in := range shownIn(st) {
			for _, a := range answered {
				if a.ID == in.ID {
					t.Errorf("death at save %d: question %v is answered, and shown as waiting", death, in.ID)
				}
			}
		}
		saves, paid := s.saves, p.payments()
		others := []pregel.Command{byID(answered, "no")}
		if len(nodes) == 1 {
			others = append(others, pregel.Command{Resume: "no"})
		}
		for _, no := range others {
			if _, err := g.Invoke(ctx, at, no, o); !errors.Is(err, pregel.ErrNoInterrupt) {
				t.Errorf("death at save %d: %v: %v; want it refused", death, no.Resume, err)
			}
		}
		if s.saves != saves || p.payments() != paid {
			t.Errorf("death at save %d: another answer made %d saves and %d payments", death, s.saves-saves, p.payments()-paid)
		}
		report, err := g.Recover(ctx, pregel.RecoverOptions{})
		want := pregel.Recovered
		if way == "some" {
			want = pregel.RecoveredToStop
		}
		if err != nil || len(report.Threads) != 1 || report.Threads[0].Outcome != want {
			t.Errorf("death at save %d: %+v, %v; want %s", death, report, err, want)
		}
	default:
		if st.Status == saver.StatusDone {
			break
		}
		if _, err := g.Invoke(ctx, at, yes, o); err != nil {
			t.Errorf("death at save %d: the same answer: %v", death, err)
		}
	}
	if st, err = g.GetState(ctx, at); err != nil || (st.Status == saver.StatusDone) != (way != "some") {
		t.Errorf("death at save %d: it ends as %+v, %v", death, st, err)
	}
	p.want(t, len(answered), death)
	return true
}

// want checks that n payments were made, each under a key of its own and with the first answer.
func (p *till) want(t *testing.T, n, death int) {
	t.Helper()
	if len(p.paid) != n {
		t.Errorf("death at save %d: paid %v; want %d keys", death, p.paid, n)
	}
	for key, with := range p.paid {
		for _, a := range with {
			if a != "yes" {
				t.Errorf("death at save %d: %s was paid with %v", death, key, with)
			}
		}
	}
}

// shownIn are the questions that a state and those of graphs inside show.
func shownIn(st *pregel.StateSnapshot) (list []pregel.Interrupt) {
	list = append(list, st.Interrupts...)
	for _, task := range st.Tasks {
		if task.State != nil {
			list = append(list, shownIn(task.State)...)
		}
	}
	return list
}

// TestAnswersTakenBack: the answers of a run that is rolled back are in force no longer: their question waits,
// and gets another one.
func TestAnswersTakenBack(t *testing.T) {
	for _, byID := range []bool{false, true} {
		p := &till{paid: map[string][]any{}}
		s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
		g := fan(t, pregel.Options{Saver: s}, node("one", p.ask))
		at := pregel.Thread("t")
		res, err := g.Invoke(ctx, at, 1)
		id := wantAsked(t, res, err, "pay?")
		answer := func(v any) pregel.Command {
			if byID {
				v = map[string]any{id: v}
			}
			return pregel.Command{Resume: v}
		}
		if s.left = 2; byID {
			s.left = 1
		}
		if _, err := g.Invoke(ctx, at, answer("yes"), pregel.RunOptions{RunID: "r"}); !errors.Is(err, errDead) {
			t.Fatal(err)
		}
		s.left = -1
		lease, err := s.Own(ctx, "t", false)
		if err != nil {
			t.Fatal(err)
		}
		for _, run := range []string{"another", "r", "r"} {
			if _, err := s.DeleteForRuns(ctx, []string{run}, lease); err != nil {
				t.Fatal(err)
			}
			if err := g.TakeAnswersBack(ctx, "t", run, lease); err != nil {
				t.Fatal(err)
			}
			st, err := g.GetState(ctx, at)
			if waits := run == "r"; err != nil || (st.Status == saver.StatusWaiting && len(st.Interrupts) == 1) != waits {
				t.Errorf("by id %v, run %q rolled back: %+v, %v", byID, run, st, err)
			}
		}
		lease.Release()
		res, err = g.Invoke(ctx, at, answer("no"))
		wantOut(t, res, err, "no")
	}
}

// TestTheSameAnswerAgain: who gives an answer again that a process had taken before it died, by position or by the
// id of its question, is not refused while the answer is in force. It reaches its own question, once, and none that
// waits beside it.
func TestTheSameAnswerAgain(t *testing.T) {
	given := 0
	for kind := range payers {
		for _, again := range []string{"by id", "by position"} {
			for _, beside := range []bool{false, true} {
				for _, d := range []pregel.Durability{pregel.Sync, pregel.Async, pregel.Exit} {
					t.Run(fmt.Sprint(kind, "/", again, "/", beside, "/", d), func(t *testing.T) {
						for death := 0; ; death++ {
							died, inForce := sameAgain(t, kind, again == "by position", beside, d, death)
							if given += inForce; !died {
								break
							}
							if death > 60 {
								t.Fatal("it always dies")
							}
						}
					})
				}
			}
		}
	}
	if given < 100 {
		t.Errorf("an answer in force was given again %d times: the test tests little", given)
	}
}

// sameAgain answers a question in a process that dies at a save, and gives the answer again. It reports whether the
// process died, and how often the answer was in force then.
func sameAgain(t *testing.T, kind string, byPosition, beside bool, d pregel.Durability, death int) (died bool, inForce int) {
	t.Helper()
	p := &till{paid: map[string][]any{}}
	s := &mortal{Saver: memory.New(memory.Options{}), left: -1, stored: map[string]bool{}}
	payer := payers[kind]
	nodes := []*pregel.NodeBuilder{payer.make(t, p, "one")}
	if beside {
		nodes = append(nodes, payer.make(t, p, "two"))
	}
	g := fan(t, pregel.Options{Saver: s, Name: "till"}, nodes...)
	at, o := pregel.Thread("t"), pregel.RunOptions{Durability: d}
	res, err := g.Invoke(ctx, at, 1, o)
	for range payer.before {
		if err != nil || len(res.Interrupts) != len(nodes) {
			t.Fatal(res, err)
		}
		sure := map[string]any{}
		for _, in := range res.Interrupts {
			sure[in.ID] = "sure"
		}
		res, err = g.Invoke(ctx, at, pregel.Command{Resume: sure}, o)
	}
	if err != nil || len(res.Interrupts) != len(nodes) {
		t.Fatal(res, err)
	}
	byID := map[string]any{res.Interrupts[0].ID: "yes"}
	again := pregel.Command{Resume: any(byID)}
	if byPosition {
		again.Resume = "yes"
	}
	s.left = death
	_, err = g.Invoke(ctx, at, pregel.Command{Resume: byID}, o)
	if s.left = -1; err == nil {
		return false, 0
	}
	st, err := g.GetState(ctx, at)
	if err != nil {
		t.Fatal(err)
	}
	if st.Status != saver.StatusUnfinished { // the answer is no longer in force, or not yet
		return true, 0
	}
	if res, err = g.Invoke(ctx, at, again, o); err != nil {
		t.Errorf("death at save %d: %v", death, err)
		return true, 1
	}
	if open := len(res.Interrupts); open != len(nodes)-1 {
		t.Errorf("death at save %d: %d questions wait: %v", death, open, res.Interrupts)
	}
	p.want(t, 1, death)
	return true, 1
}
