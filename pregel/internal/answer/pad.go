package answer

import (
	"context"
	"iter"
	"slices"
	"sync"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// token is an answer that belongs to no task. The first task to ask takes it.
type token struct {
	mu    sync.Mutex
	value any
	used  bool
	// takenInside reports whether a task of a graph inside has taken the answer
	// already, in a run before this one; nil if this run gave the answer.
	takenInside func(value any) bool
}

// take takes the answer, if it is not taken. inside: a graph inside asks.
func (t *token) take(inside bool) (any, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.used || t.value == nil {
		return nil, false
	}
	t.used = true
	if inside && t.takenInside != nil && t.takenInside(t.value) {
		return nil, false
	}
	return t.value, true
}

func (t *token) spent() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.used
}

// Set has the answers of a superstep, for its tasks. The zero Set has none. The exported fields are
// set before Fill is called.
type Set struct {
	// ByID are the answers by the ids of questions that the run was given.
	ByID map[string]any
	// Around is the pad of the task that runs the graph; nil if there is none, or if its answers are
	// not for the next question.
	Around *Pad
	// LangGraph: whoever asks gets the answer that waits. Passing: the ids of tasks, and so
	// those of their questions, are valid in this run only.
	LangGraph, Passing bool

	token  *token
	taken  map[string][]any    // by task
	shown  map[string][]string // ids of questions by task
	failed map[string]bool     // tasks that stored an error
}

// Of has the answers among pending writes.
func Of(pending []Write) (s Set) {
	if len(pending) > 0 {
		s.taken, s.shown, s.failed = map[string][]any{}, map[string][]string{}, map[string]bool{}
	}
	for _, w := range pending {
		switch {
		case w.Channel == saver.ChannelInterrupt:
			for _, in := range Interrupts(w.Value) {
				s.shown[w.TaskID] = append(s.shown[w.TaskID], in.ID)
			}
		case w.Channel == saver.ChannelError:
			s.failed[w.TaskID] = true
		case w.Channel != saver.ChannelResume:
		case w.TaskID == NoTask:
			if s.token == nil && w.token != nil && !w.token.spent() {
				s.token = w.token
			}
		default:
			if _, first := s.taken[w.TaskID]; !first {
				s.taken[w.TaskID] = listOf(w.Value)
			}
		}
	}
	return s
}

// Taken are the recorded answers of a task.
func (s *Set) Taken(taskID string) []any { return s.taken[taskID] }

// Pad has the answers of one task, so that the next attempt of it finds the same ones. It is safe for
// concurrent use once it is filled.
type Pad struct {
	around             *Pad
	token              *token   // nil if the superstep has none of its own
	shown              []string // the questions the task was stored to wait for
	failed             bool     // the task was stored to have failed
	langGraph, passing bool

	// mu guards taken, the answers this task has, in the order of its questions. stored of them were recorded
	// by earlier runs.
	mu     sync.Mutex
	taken  []any
	stored int
}

// Fill gives the pad of a task its answers.
func (s *Set) Fill(p *Pad, taskID, ns string) {
	p.around, p.token, p.langGraph, p.passing = s.Around, s.token, s.LangGraph, s.Passing
	p.taken, p.shown, p.failed = slices.Clone(s.taken[taskID]), s.shown[taskID], s.failed[taskID]
	p.stored = len(p.taken)
	// An answer by id goes to the task's next question. Threads written before
	// questions had ids of their own know only the first id.
	if len(s.ByID) > 0 {
		v, ok := s.ByID[ID(ns, len(p.taken))]
		if first := ID(ns, 0); !ok && (s.LangGraph || !p.failed) && (len(p.shown) == 0 || slices.Contains(p.shown, first)) {
			v, ok = s.ByID[first]
		}
		if ok {
			p.taken = append(p.taken, v)
		}
	}
}

// Below makes around the pad of the task that called this one, or that failed before it.
func (p *Pad) Below(around *Pad) { p.around = around }

// Shown are the ids of the questions that the task was stored to wait for.
func (p *Pad) Shown() []string { return p.shown }

// Open is a question that has no answer.
type Open struct {
	Question int // its number
	// Refused is the reason why the question refused its answer; nil if it has none. Recorded: an
	// earlier run had recorded that answer as taken.
	Refused  error
	Recorded bool
}

// Take takes the answer to the n-th question of the task in namespace ns, counted from 0. If there is
// none, or check refuses it, the question is open. record stores the answers that the task has from now on; it keeps
// the list.
func (p *Pad) Take(ns string, n int, check func(answer any) error, record func(taken []any)) (answer any, open *Open) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if n < len(p.taken) {
		if err := check(p.taken[n]); err != nil {
			record(slices.Clone(p.taken[:n])) // an earlier run may have recorded it
			return nil, &Open{Question: n, Refused: err, Recorded: true}
		}
		record(slices.Clone(p.taken[:n+1]))
		return p.taken[n], nil
	}
	next := len(p.taken)
	v, ok := p.unclaimed(ns, ID(ns, next))
	if !ok {
		return nil, &Open{Question: next}
	}
	if err := check(v); err != nil {
		return nil, &Open{Question: n, Refused: err}
	}
	p.taken = append(p.taken, v)
	record(slices.Clone(p.taken))
	return v, nil
}

// unclaimed takes the answer that belongs to no task, from this graph or a graph around it,
// for question id of the task in namespace ns. The caller holds mu.
func (p *Pad) unclaimed(ns, id string) (any, bool) {
	if !p.awaits(ns, id) {
		return nil, false
	}
	for inside := false; p != nil; p, inside = p.around, true {
		if p.token != nil {
			return p.token.take(inside)
		}
	}
	return nil, false
}

// awaits reports whether question id was stored as waiting when the run began. Only such
// questions get an answer. If ids are valid in this run only, it reports whether any question
// of the task around was waiting.
func (p *Pad) awaits(ns, id string) bool {
	if p.langGraph || slices.Contains(p.shown, id) {
		return true
	}
	if p.passing {
		around := p.around
		for around != nil && around.passing {
			around = around.around
		}
		return around != nil && len(around.shown) > 0
	}
	// Threads written before questions had ids of their own know only the first id.
	return p.stored > 0 && !p.failed && slices.Contains(p.shown, ID(ns, 0))
}

// AskedAgain are the questions that a task waits with when one of them, again, is asked again: of
// itself, of a function that it calls, or of a graph inside. stale are those that again voids.
func AskedAgain(pending []Write, taskID string, again serde.Interrupt, stale []string) (list []serde.Interrupt) {
	there := false
	for _, w := range pending {
		if w.TaskID != taskID || w.Channel != saver.ChannelInterrupt {
			continue
		}
		for _, in := range Interrupts(w.Value) {
			if in.ID != again.ID && !slices.Contains(stale, in.ID) {
				list = append(list, in)
			} else if !there {
				list, there = append(list, again), true
			}
		}
	}
	if !there {
		list = append(list, again)
	}
	return list
}

// Unspent returns pending without an answer of no task that some task has taken. Savers keep such
// answers, and a run that brings none of its own must not give an old answer to the next question. If
// the same answer was given twice and the second one never reached its task, the task asks again, which
// is safe.
func Unspent(pending []Write) []Write {
	var given []any
	for _, w := range pending {
		if w.Channel == saver.ChannelResume && w.TaskID != NoTask {
			given = append(given, listOf(w.Value)...)
		}
	}
	if len(given) == 0 {
		return pending
	}
	return slices.DeleteFunc(slices.Clone(pending), func(w Write) bool {
		return w.TaskID == NoTask && w.Channel == saver.ChannelResume && contains(given, w.Value)
	})
}

// AnyGiven reports whether is holds for an answer of no task.
func AnyGiven(pending []Write, is func(value any) bool) bool {
	return slices.ContainsFunc(pending, func(w Write) bool { return w.token != nil && is(w.Value) })
}

// Untaken returns the index of the answer of no task that nobody took; -1 if there is none.
func Untaken(pending []Write) int {
	return slices.IndexFunc(pending, func(w Write) bool { return w.token != nil && w.token.value != nil && !w.token.spent() })
}

// Guard keeps the answers that an earlier run stored from being given twice. A graph inside records an
// answer that its task took in its own namespace, where Unspent does not see it. LangGraph gives such
// an answer again, to whatever the graph inside asks next. The superstep starts from the checkpoint at.
// The saver, which may be nil, is read only if a graph inside asks a question.
func Guard(ctx context.Context, pending []Write, s saver.Saver, at saver.Config) {
	for _, w := range pending {
		if w.token != nil && s != nil {
			w.token.takenInside = func(value any) bool { return takenInside(ctx, s, at, value) }
		}
	}
}

// takenInside reports whether a task of a graph inside the superstep took value as an
// answer. If that cannot be read the answer is not given, and the task asks again.
func takenInside(ctx context.Context, s saver.Saver, at saver.Config, value any) bool {
	for tup, err := range Below(ctx, s, at) {
		if err != nil {
			return true
		}
		for _, w := range tup.PendingWrites {
			if w.Channel != saver.ChannelResume || w.TaskID == NoTask {
				continue
			}
			taken, err := w.Value.Any()
			if err != nil || contains(listOf(taken), value) {
				return true
			}
		}
	}
	return false
}

// Below are the checkpoints of the graphs inside the superstep that starts from the checkpoint at. They are
// newer than at, so older ones are not read.
func Below(ctx context.Context, s saver.Saver, at saver.Config) iter.Seq2[*saver.Tuple, error] {
	return func(yield func(*saver.Tuple, error) bool) {
		for tup, err := range s.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
			if err == nil && tup.Checkpoint.ID <= at.CheckpointID {
				return
			}
			if err == nil {
				parents, _ := tup.Metadata["parents"].(map[string]any)
				if tup.Config.Namespace == at.Namespace || parents[at.Namespace] != at.CheckpointID {
					continue
				}
			}
			if !yield(tup, err) {
				return
			}
		}
	}
}

// MovedPast are those among ids that a graph inside asked at a checkpoint that it has moved past. They are of the
// superstep that starts from the checkpoint at.
func MovedPast(ctx context.Context, s saver.Saver, at saver.Config, ids []string) (moved []string, err error) {
	newer := map[string]bool{} // namespaces
	for tup, err := range s.List(ctx, saver.Query{ThreadID: at.ThreadID}) {
		if err != nil {
			return nil, err
		}
		if tup.Checkpoint.ID <= at.CheckpointID {
			break
		}
		if ns := tup.Config.Namespace; ns == at.Namespace || !newer[ns] {
			newer[ns] = true
			continue
		}
		for _, w := range tup.PendingWrites {
			if w.Channel != saver.ChannelInterrupt {
				continue
			}
			v, err := w.Value.Any()
			if err != nil {
				return nil, err
			}
			for _, in := range Interrupts(v) {
				if slices.Contains(ids, in.ID) {
					moved = append(moved, in.ID)
				}
			}
		}
	}
	return moved, nil
}

// Inside are the answers that questions of graphs inside the superstep have, by those ids among ids. at is
// the checkpoint that it starts from. A task around repeats a question, so the innermost one that stored
// it has its answer.
func Inside(ctx context.Context, s saver.Saver, at saver.Config, ids []string) (map[string]any, error) {
	depth, answers := map[string]int{}, map[string]any{}
	if len(ids) == 0 || s == nil {
		return answers, nil
	}
	for tup, err := range Below(ctx, s, at) {
		if err != nil {
			return nil, err
		}
		pending := make([]Write, len(tup.PendingWrites))
		for i, w := range tup.PendingWrites {
			var v any // of what a task produced only matters that it did
			if IsControl(w.Channel) {
				if v, err = w.Value.Any(); err != nil {
					return nil, err
				}
			}
			pending[i] = New(w.TaskID, w.TaskPath, w.Channel, v)
		}
		for _, id := range ids {
			v, given, asked := to(pending, tup, id)
			if n := len(tup.Config.Namespace); asked && n > depth[id] {
				depth[id] = n
				if delete(answers, id); given {
					answers[id] = v
				}
			}
		}
	}
	return answers, nil
}

// to is the answer to a question among the writes of one superstep of a graph, and whether a task of it asked.
func to(pending []Write, tup *saver.Tuple, id string) (v any, given, asked bool) {
	statuses, order := Statuses(pending)
	taken := Of(pending).taken
	// A task repeats the questions of the functions that it calls, so the innermost task that has the
	// question is the one that asked. The path of a function contains that of its caller.
	paths := map[string]string{}
	for _, w := range pending {
		paths[w.TaskID] = w.Path
	}
	slices.SortStableFunc(order, func(a, b string) int { return len(paths[b]) - len(paths[a]) })
	for _, task := range order {
		s := statuses[task]
		if !slices.ContainsFunc(s.Interrupts, func(in serde.Interrupt) bool { return in.ID == id }) {
			continue
		}
		asked = true
		answers := taken[task]
		switch {
		case len(answers) == 0:
		case s.Finished: // it has stored no other question since
			return answers[len(answers)-1], true, true
		case s.Failed && tup.Note != nil: // before the answer, or with it
			for _, node := range tup.Note.Next {
				for n, v := range answers {
					if ID(tup.Config.Namespace+"|"+node+":"+task, n) == id {
						return v, true, true
					}
				}
			}
		}
	}
	return nil, false, asked
}
