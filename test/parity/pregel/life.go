package traces

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/stele-go/stele/pregel"
)

// life is what one process knows of a scenario: the calls it made and what its
// nodes did to the world outside. The life after a crash is given the past, so
// that the scenario goes on with the call that was under way.
type life struct {
	minted atomic.Int64 // checkpoint ids made so far
	calls  []*callRecord
	ledger *ledger // nil: nobody crashes this life
	past   *past   // nil: the first life
	exits  bool    // durability is Exit
	// partner takes turns with this program; nil: it makes all calls.
	partner *partner

	// mu guards deeds and ran.
	mu    sync.Mutex
	deeds []deed
	ran   map[string]int // tasks by id, in the call that a crash had cut
}

// callRecord is one call of a scenario: what it was, showed and returned.
type callRecord struct {
	kind   string
	lines  []string
	result any
	minted int // before it
	input  any // of a run
	cfg    config
	saves  [2]int // its part of the ledger
}

// deed is an effect of a task on the world outside the store.
type deed struct {
	name  string
	value any
	task  string
	call  int
	after int // saves acknowledged before it
}

// past is what is left of the life before a crash.
type past struct {
	life  *life
	next  int   // the first call that had not stored all it stores
	saved []ack // what that call had stored; empty if it had not begun
	keys  map[saveKey]bool
	// replays: the call is made again from a checkpoint it names, and what it
	// stored there runs again, as in any replay.
	replays bool
}

// crashedAfter is the past of a life that ended when these saves were stored.
func (l *life) crashedAfter(saved []ack) *past {
	p := &past{life: l, keys: map[saveKey]bool{}}
	for _, a := range saved {
		p.keys[a.key] = true
	}
	for i, c := range l.calls {
		if c.saves[0] == c.saves[1] {
			continue // made again, unless a later call has stored something
		}
		p.saved = nil
		for _, a := range l.ledger.acks[c.saves[0]:c.saves[1]] {
			if p.keys[a.key] {
				p.saved = append(p.saved, a)
			}
		}
		switch len(p.saved) {
		case c.saves[1] - c.saves[0]:
			p.next, p.saved = i+1, nil
			continue
		case 0:
		default:
			p.next = i
		}
		return p
	}
	return p
}

// boundary names the last save before the crash.
func (p *past) boundary() string {
	last := ack{}
	for _, a := range p.life.ledger.acks {
		if p.keys[a.key] {
			last = a
		}
	}
	return fmt.Sprintf("%d of %d, %s", last.seq+1, len(p.life.ledger.acks), last.key.What)
}

// minted is how many ids were made until the crash, as far as anybody can know:
// until the call began, or until the newest checkpoint that is stored.
func (p *past) minted() int {
	n := int(p.life.minted.Load())
	if p.next < len(p.life.calls) {
		n = p.life.calls[p.next].minted
	}
	for _, a := range p.saved {
		if !p.overAgain() || a.step == -2 { // the checkpoint that holds writes is found again
			n = max(n, a.minted)
		}
	}
	return n
}

// overAgain reports whether the call begins over: under Exit nothing counts until
// the outermost graph has stored where it came to.
func (p *past) overAgain() bool {
	return p.life.exits && !slices.ContainsFunc(p.saved, func(a ack) bool { return a.put && a.ns == "" && a.step > -2 })
}

// deeds are those of tasks whose outcome is stored: the world outside is as if
// the others had not begun.
func (p *past) deeds() (kept []deed) {
	for _, d := range p.life.deeds {
		if d.call < p.next || d.call == p.next && p.ended(d) {
			kept = append(kept, d)
		}
	}
	return kept
}

func (p *past) ended(d deed) bool {
	stored := false
	for _, a := range p.life.ledger.acks[d.after:] {
		if !a.put && a.task == d.task {
			return p.keys[a.key]
		}
		stored = stored || a.put && a.seq < p.life.calls[p.next].saves[1] && p.keys[a.key]
	}
	return stored // Exit stores the tasks of earlier supersteps as a checkpoint only
}

// goOn is how a program goes on with a run that a crash cut: as before if
// nothing of it was stored, and else from where the thread stands. Answers by
// interrupt id are not stored before a task takes them, so they are given again.
func (p *past) goOn(input any, cfg config) (any, config) {
	var head *ack
	taken := false
	for i, a := range p.saved {
		if a.thread != cfg.ThreadID || a.ns != "" {
			continue
		}
		if a.put && a.step > -2 {
			head = &p.saved[i]
		}
		taken = taken || !a.put && a.task == nullTask
	}
	if head != nil {
		cfg.Namespace, cfg.CheckpointID, cfg.CheckpointMap = "", "", nil
		if cfg.RecursionLimit > 0 {
			cfg.RecursionLimit -= p.steps()
		}
		if head.source == "fork" && len(p.saved) == 1 { // graphs inside begin from before it
			cfg.CheckpointID = head.checkpoint
		}
		return nil, cfg
	}
	if cmd, ok := input.(pregel.Command); ok && taken && !p.behind(cfg) {
		cfg.CheckpointID = ""
		if answers, ok := cmd.Resume.(m); ok {
			return pregel.Command{Resume: answers}, cfg
		}
		return nil, cfg
	}
	if input == nil && !p.behind(cfg) { // it was on its way from the head
		cfg.CheckpointID = ""
	}
	p.replays = cfg.CheckpointID != "" && (input == nil || p.behind(cfg))
	return input, cfg
}

// behind reports whether the call names a checkpoint that the thread has moved
// past.
func (p *past) behind(cfg config) bool {
	return cfg.CheckpointID != "" && slices.ContainsFunc(p.life.ledger.acks, func(a ack) bool {
		return a.put && a.thread == cfg.ThreadID && a.ns == "" && a.checkpoint > cfg.CheckpointID && p.keys[a.key]
	})
}

// steps is how many steps of its limit the call has used.
func (p *past) steps() int {
	first, last, found := 0, 0, false
	for _, a := range p.saved {
		if a.put && a.ns == "" && a.step > -2 {
			if !found {
				first, found = a.step, true
			}
			last = a.step
		}
	}
	return last - first + b2i(found)
}

const nullTask = "00000000-0000-0000-0000-000000000000"

// call makes one call of the scenario, or shows what it did before the crash. f
// is told whether a crash cut it.
func call[T any](tr *trace, kind string, f func(again bool) T) T {
	l := tr.life
	n := len(l.calls)
	if l.past != nil && n < l.past.next {
		c := l.past.life.calls[n]
		l.calls = append(l.calls, c)
		tr.lines = append(tr.lines, c.lines...)
		result, _ := c.result.(T) // nil is no T
		return result
	}
	c := &callRecord{kind: kind, minted: int(l.minted.Load()), saves: [2]int{l.ledger.len()}}
	l.calls = append(l.calls, c)
	from := len(tr.lines)
	var result T
	if l.partner != nil {
		result = inTurns(tr, kind, f)
	} else {
		result = f(l.past != nil && n == l.past.next && len(l.past.saved) > 0)
	}
	c.result, c.lines, c.saves[1] = result, slices.Clone(tr.lines[from:]), l.ledger.len()
	return result
}

// does is called by a node that has an effect outside the store. It returns how
// often that effect was seen, in all lives.
func (tr *trace) does(ctx context.Context, name string, value any) int {
	info, _ := pregel.Task(ctx)
	l := tr.life
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deeds = append(l.deeds, deed{name, value, info.TaskID, len(l.calls) - 1, l.ledger.len()})
	n := 0
	for _, d := range l.deeds {
		if d.name == name {
			n++
		}
	}
	return n
}

// did are the values of what was done under name.
func (tr *trace) did(name string) []any {
	l := tr.life
	l.mu.Lock()
	defer l.mu.Unlock()
	values := []any{}
	for _, d := range l.deeds {
		if d.name == name {
			values = append(values, canon(d.value))
		}
	}
	return values
}

// show writes a line about the world outside.
func (tr *trace) show(key string, value func() any) {
	call(tr, "show", func(bool) any {
		tr.put(m{key: value()})
		return nil
	})
}

// hooks count the tasks that run in the call that a crash had cut.
func (tr *trace) hooks() pregel.Hooks {
	l := tr.life
	return pregel.Hooks{TaskStart: func(info pregel.TaskInfo) {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.past != nil && len(l.calls)-1 == l.past.next {
			l.ran[info.TaskID]++
		}
	}}
}
