package crash

import (
	"context"
	"sync"
)

// answers are what the model says to the calls of one program. The runs of a
// program, one for each fault, differ in few calls: what one of them asked the
// model, the others need not ask again.
type answers struct {
	mu    sync.Mutex
	calls map[int]call      // by number, from 1
	known map[string]answer // by the numbers of the calls that were kept
}

// answer is what the last of some calls returned, and what the model shows then.
type answer struct{ class, dump string }

func newAnswers() *answers {
	return &answers{calls: map[int]call{}, known: map[string]answer{}}
}

// history is the numbers of the calls that a store has kept.
type history []byte

func (h history) with(n int) history { return append(h[:len(h):len(h)], byte(n)) }

// number notes which call the n-th of the program is.
func (a *answers) number(n int, c call) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.calls[n] = c
}

// after is what the model says after some calls. A model of one's own is asked if
// nobody has asked yet; kept, it goes on from there.
func (a *answers) after(ctx context.Context, own *asked, h history) (answer, error) {
	a.mu.Lock()
	got, ok := a.known[string(h)]
	a.mu.Unlock()
	if ok {
		return got, nil
	}
	got, err := own.ask(ctx, a, h)
	if err != nil {
		return answer{}, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.known[string(h)] = got
	return got, nil
}

func (a *answers) call(n int) call {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.calls[n]
}

// asked is a model and the calls it was given.
type asked struct {
	model *model
	clk   *clock
	calls history
}

func (m *asked) ask(ctx context.Context, a *answers, h history) (answer, error) {
	if m.model == nil || len(m.calls) >= len(h) || string(h[:len(m.calls)]) != string(m.calls) {
		m.clk = &clock{}
		m.model, m.calls = newModel(m.clk), nil
	}
	var got answer
	for _, n := range h[len(m.calls):] {
		m.clk.set(int(n))
		got.class = class(a.call(int(n)).do(ctx, m.model))
	}
	m.calls = h
	var err error
	got.dump, err = dump(ctx, m.model)
	return got, err
}
