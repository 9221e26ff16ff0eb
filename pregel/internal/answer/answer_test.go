package answer_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/memory"
	"github.com/stele-go/stele/saver/serde"
)

const (
	task = "t1"
	ns   = "ask:t1"
)

// asked is the write of a question of the task that has n answers.
func asked(n int) answer.Write {
	return answer.New(task, "", saver.ChannelInterrupt, []serde.Interrupt{{Value: "?", ID: answer.ID(ns, n)}})
}

// take asks the n-th question of the task, in a run that finds pending. recorded is what the task
// stores as its answers.
func take(s answer.Set, n int, check func(any) error) (got any, open *answer.Open, recorded []any) {
	var p answer.Pad
	s.Fill(&p, task, ns)
	got, open = p.Take(ns, n, check, func(taken []any) { recorded = taken })
	return got, open, recorded
}

func fits(any) error { return nil }

// An answer goes through all five steps: it is for the question that waits, is stored, handed out,
// taken once, and gone when the next question is asked.
func TestAnAnswerFindsItsQuestion(t *testing.T) {
	pending := []answer.Write{asked(0)}
	none := func() (map[string]string, error) { return nil, nil }
	waiting, _, _, err := answer.Questions(pending, none)
	if err != nil || !slices.Equal(waiting, []string{answer.ID(ns, 0)}) {
		t.Fatalf("waiting: %v, %v", waiting, err)
	}
	if use := (&answer.Facts{Waiting: waiting}).Judge(true, false); use != answer.One {
		t.Fatalf("use %d", use)
	}
	given := answer.New(answer.NoTask, "", saver.ChannelResume, "yes")
	pending = append(pending, given)
	if at := answer.Untaken(pending); at != 1 {
		t.Errorf("before it is taken: %d", at)
	}
	got, open, recorded := take(answer.Of(pending), 0, fits)
	if got != "yes" || open != nil || !slices.Equal(recorded, []any{"yes"}) {
		t.Fatalf("got %v, %+v, recorded %v", got, open, recorded)
	}
	if at := answer.Untaken(pending); at != -1 || !pending[1].IsSpent() {
		t.Errorf("after it was taken: %d", at)
	}
	if _, open, _ = take(answer.Of(pending), 0, fits); open == nil {
		t.Error("it was taken twice")
	}
	// The next run loads what is stored: the answer of no task was recorded by the task.
	stored := []answer.Write{asked(0), answer.New(answer.NoTask, "", saver.ChannelResume, "yes"), answer.New(task, "", saver.ChannelResume, recorded)}
	left := answer.Unspent(stored)
	if len(left) != 2 {
		t.Fatalf("left: %v", left)
	}
	if got, _, _ = take(answer.Of(left), 0, fits); got != "yes" {
		t.Errorf("the recorded answer is %v", got)
	}
	if _, open, _ = take(answer.Of(left), 1, fits); open == nil || open.Question != 1 {
		t.Errorf("the second question: %+v", open)
	}
}

// An answer that a question does not take leaves it waiting, and says whether an earlier run had it
// recorded.
func TestARefusedAnswer(t *testing.T) {
	refuse := errors.New("no")
	check := func(any) error { return refuse }
	fresh := []answer.Write{asked(0), answer.New(answer.NoTask, "", saver.ChannelResume, "x")}
	_, open, recorded := take(answer.Of(fresh), 0, check)
	if open == nil || !errors.Is(open.Refused, refuse) || open.Recorded || recorded != nil {
		t.Errorf("fresh: %+v, recorded %v", open, recorded)
	}
	before := []answer.Write{asked(1), answer.New(task, "", saver.ChannelResume, []any{"a", "b"})}
	_, open, recorded = take(answer.Of(before), 1, check)
	if open == nil || !open.Recorded || open.Question != 1 || !slices.Equal(recorded, []any{"a"}) {
		t.Errorf("recorded before: %+v, recorded %v", open, recorded)
	}
	again := answer.AskedAgain(before, task, serde.Interrupt{ID: "again"}, []string{answer.ID(ns, 1)})
	if len(again) != 1 || again[0].ID != "again" {
		t.Errorf("asked again: %v", again)
	}
}

// Nobody gets an answer for which no question was stored as waiting; with LangGraph's ways whoever
// asks does. An answer by id reaches the task whose question has the id, and no other.
func TestWhoGetsIt(t *testing.T) {
	unasked := answer.Of([]answer.Write{answer.New(answer.NoTask, "", saver.ChannelResume, "x")})
	if _, open, _ := take(unasked, 0, fits); open == nil || open.Refused != nil {
		t.Errorf("nobody asked: %+v", open)
	}
	unasked.LangGraph = true
	if got, _, _ := take(unasked, 0, fits); got != "x" {
		t.Errorf("with LangGraph's ways: %v", got)
	}
	byID := answer.Of([]answer.Write{asked(0)})
	for id, want := range map[string]any{answer.ID(ns, 0): "mine", answer.ID("other:t2", 0): nil} {
		byID.ByID = map[string]any{id: "mine"}
		if got, _, _ := take(byID, 0, fits); got != want {
			t.Errorf("by id: %v, not %v", got, want)
		}
	}
	// A graph inside asks: the answer was given to the run around, and some task inside had it already
	// as far as the saver can tell, or not.
	for _, ended := range []bool{false, true} {
		around := []answer.Write{asked(0), answer.New(answer.NoTask, "", saver.ChannelResume, "x")}
		s := memory.New(memory.Options{})
		if ended {
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
		}
		answer.Guard(t.Context(), around, s, saver.Config{ThreadID: "t", CheckpointID: "c"})
		var outer answer.Pad
		set := answer.Of(around)
		set.Fill(&outer, task, ns)
		const inner = ns + "|in:t3"
		inside := answer.Of([]answer.Write{answer.New("t3", "", saver.ChannelInterrupt, serde.Interrupt{ID: answer.ID(inner, 0)})})
		inside.Around = &outer
		var p answer.Pad
		inside.Fill(&p, "t3", inner)
		got, open := p.Take(inner, 0, fits, func([]any) {})
		if ended && open == nil || !ended && got != "x" {
			t.Errorf("inside, the saver is closed %t: %v, %+v", ended, got, open)
		}
	}
}
