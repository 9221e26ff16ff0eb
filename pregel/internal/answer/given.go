package answer

import (
	"maps"
	"slices"
	"sync"

	"github.com/stele-go/stele/saver/rules"
	"github.com/stele-go/stele/saver/serde"
)

// The answers that a run was given are stored before any task runs, so that after a crash they are worked
// on, and no others take their place. Their record is the write of a task that does not exist to ChannelGiven or
// ChannelOver, against the checkpoint of the outermost graph that the superstep starts from. It has all
// answers in force by the ids of their questions, which may be those of graphs inside. The record with the
// greatest number counts. LangGraph ignores it.
//
// An answer is in force until the superstep ends, its question refuses it, or the run stops: by then every
// task that took an answer has stored that, and one that nobody took is void.
//
//   - A crash before the record leaves a question that waits.
//   - After it the thread is unfinished, and the next run gives the answer to its question.
//   - Between what the tasks store at a stop and the record that the answers are over, answers that were taken
//     are still in force. That changes nothing: their questions do not wait.
const (
	// ChannelGiven has the record of a run that was given answers. Savers take it for an answer to all questions.
	ChannelGiven = rules.ChannelAnswers
	// ChannelOver has the record of a run that ended answers, or some of them.
	ChannelOver = "__stele_answers_over__"
)

// Given are the answers in force. The zero Given has none.
type Given struct {
	number  int64
	Run     string         // the id of the run that stored the newest record; "" if it has none
	Answers map[string]any // by the ids of their questions; nobody changes it
}

// Recorded reports whether a run of the superstep stored what answers were in force. Then an answer of no
// task says nothing more: it may be that to an earlier question.
func (g *Given) Recorded() bool { return g.number > 0 }

// TakeGiven separates the records of answers in force from other pending writes. What another program stored
// in their place counts as none.
func TakeGiven(pending []Write) (rest []Write, g Given) {
	rest = pending[:0]
	for _, w := range pending {
		if w.Channel != ChannelGiven && w.Channel != ChannelOver {
			rest = append(rest, w)
			continue
		}
		record, _ := w.Value.(map[string]any)
		if n, _ := record["number"].(int64); n > g.number {
			g.number = n
			g.Answers, _ = record["answers"].(map[string]any)
			g.Run, _ = record["run"].(string)
		}
	}
	return rest, g
}

// Replace makes answers those in force, by a run. It returns the number of their record, which names it, and its value.
func (g *Given) Replace(answers map[string]any, run string) (number int64, record any) {
	g.number, g.Answers, g.Run = g.number+1, answers, run
	return g.number, map[string]any{"number": g.number, "answers": answers, "run": run}
}

// With are the answers in force and others.
func (g *Given) With(others map[string]any) map[string]any {
	all := make(map[string]any, len(g.Answers)+len(others))
	maps.Copy(all, g.Answers)
	maps.Copy(all, others)
	return all
}

// Unanswered are the interrupts of a list without those that have an answer in force.
func (g *Given) Unanswered(list []serde.Interrupt) []serde.Interrupt {
	if len(g.Answers) == 0 {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), func(in serde.Interrupt) bool { _, has := g.Answers[in.ID]; return has })
}

// IDs are ids that tasks of a run note, also those of graphs inside. It is safe for concurrent use.
type IDs struct {
	mu  sync.Mutex
	ids []string
}

// Add adds ids.
func (s *IDs) Add(ids ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, ids...)
}

// Has reports whether id is among them.
func (s *IDs) Has(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Contains(s.ids, id)
}
