package pregel

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// Every way a run begins, and what LangGraph does there.
func TestEntry(t *testing.T) {
	unfinished := progress{status: saver.StatusUnfinished, next: []string{"a"}}
	waiting := progress{status: saver.StatusWaiting}
	finish := runPolicy{unfinished: FinishFirst}
	refuseWaiting := runPolicy{unfinished: DiscardUnfinished, refuseWaiting: true}
	langGraph := runPolicy{unfinished: DiscardUnfinished, langGraph: true}
	asks := answer.Facts{Waiting: []string{"q"}}
	for _, c := range []struct {
		name      string
		facts     facts
		want      entryKind
		err       error
		langGraph string
	}{
		// The outermost graph.
		{"input, no thread", facts{input: inputValues, from: originNone, empty: true, fits: true, policy: finish}, entryInput, nil, "same"},
		{"input, thread is done", facts{input: inputValues, from: originNewest, fits: true, policy: finish, left: progress{status: saver.StatusDone}}, entryInput, nil, "same"},
		{"input, thread waits", facts{input: inputValues, from: originNewest, fits: true, policy: finish, left: waiting}, entryInput, nil, "same: drops what waits"},
		{"input, thread waits, refused", facts{input: inputValues, from: originNewest, fits: true, policy: refuseWaiting, left: waiting}, entryRefused, ErrWaiting, "drops what waits"},
		{"input, crash before, only waiting is refused", facts{input: inputValues, from: originNewest, fits: true, policy: refuseWaiting, left: unfinished}, entryInput, nil, "same"},
		{"input at a named checkpoint, waiting is refused", facts{input: inputValues, from: originOld, fits: true, policy: refuseWaiting, left: waiting}, entryBranch, nil, "same"},
		{"input, crash before", facts{input: inputValues, from: originNewest, fits: true, policy: finish, left: unfinished}, entryFinish, ErrUnfinished, "takes the input, and drops what is left"},
		{"input, crash before, refused", facts{input: inputValues, from: originNewest, fits: true, policy: runPolicy{unfinished: RefuseUnfinished}, left: unfinished}, entryRefused, ErrUnfinished, "as before"},
		{"input, crash before, discarded", facts{input: inputValues, from: originNewest, fits: true, policy: langGraph, left: unfinished}, entryInput, nil, "same"},
		{"input that does not fit, crash before", facts{input: inputValues, from: originNewest, policy: finish, left: unfinished}, entryInput, nil, "same: raises when it takes the input"},
		{"input, crash of another graph", facts{input: inputValues, from: originNewest, fits: true, policy: finish, left: unfinished, leftBy: "other"}, entryRefused, ErrUnfinished, "takes the input"},
		{"input, crash before a node that is gone", facts{input: inputValues, from: originNewest, fits: true, policy: finish, left: unfinished, missing: []string{"gone"}}, entryRefused, ErrUnknownNode, "takes the input"},
		{"input with the RunID of the thread", facts{input: inputValues, from: originNewest, sameRun: true}, entryResume, nil, "same"},
		{"input, named", facts{input: inputValues, from: originNamed, fits: true, policy: finish, left: unfinished}, entryBranch, nil, "same"},
		{"input, old", facts{input: inputValues, from: originOld}, entryBranch, nil, "same"},
		{"input, named and missing", facts{input: inputValues, from: originMissing, empty: true}, entryBranch, nil, "same; stele comes here with Options.LangGraph alone"},
		{"nil, no thread", facts{input: inputNil, from: originNone, empty: true}, entryInput, nil, "same: raises for want of input"},
		{"nil", facts{input: inputNil, from: originNewest}, entryResume, nil, "same"},
		{"nil, a node is gone", facts{input: inputNil, from: originNewest, missing: []string{"gone"}}, entryRefused, ErrUnknownNode, "passes over the node"},
		{"nil, named", facts{input: inputNil, from: originNamed}, entryFork, nil, "same"},
		{"nil, old", facts{input: inputNil, from: originOld}, entryFork, nil, "same"},
		{"nil, named, an update", facts{input: inputNil, from: originNamed, branch: true}, entryTravel, nil, "same"},
		{"nil, old, an update", facts{input: inputNil, from: originOld, branch: true}, entryFork, nil, "goes on without a fork; other runs may have children there"},
		{"update", facts{input: inputCommand, from: originNewest}, entryResume, nil, "same"},
		{"update, old", facts{input: inputCommand, from: originOld}, entryFork, nil, "same"},
		{"answer", facts{input: inputAnswer, from: originNewest, answer: asks}, entryResume, nil, "same"},
		{"answer, named", facts{input: inputAnswer, from: originNamed, answer: asks}, entryResume, nil, "runs all tasks again, as for an old one"},
		{"answer, old", facts{input: inputAnswer, from: originOld, answer: answer.Facts{Old: true, Waiting: asks.Waiting}}, entryRerun, nil, "same"},
		{"answer, old, nothing waits", facts{input: inputAnswer, from: originOld, answer: answer.Facts{Old: true}}, entryRefused, ErrNoInterrupt, "runs on with the answer that it has"},
		{"answer, no thread", facts{input: inputAnswer, from: originNone, empty: true}, entryRefused, ErrNoInterrupt, "begins the thread"},
		{"answer, no saver", facts{input: inputAnswer, noSaver: true, empty: true}, entryRefused, ErrNoSaver, "raises"},
		{"recovery", facts{input: inputRecovery, from: originNewest, left: unfinished}, entryResume, nil, "has none"},
		{"recovery, thread is done", facts{input: inputRecovery, from: originNewest, left: progress{status: saver.StatusDone}}, entryRefused, errSettled, "has none"},
		{"recovery, a node is gone", facts{input: inputRecovery, from: originNewest, left: unfinished, missing: []string{"gone"}}, entryRefused, ErrUnknownNode, "has none"},
		// A graph inside.
		{"inside, first call", facts{nested: true, input: inputValues, from: originNone, empty: true, fromParent: fromParentInput}, entryInput, nil, "same"},
		{"inside, around takes input", facts{nested: true, input: inputValues, from: originNewest, fromParent: fromParentInput}, entryInput, nil, "same"},
		{"inside, around resumes", facts{nested: true, input: inputValues, from: originNewest, fromParent: fromParentResume}, entryResume, nil, "same"},
		{"inside, around resumes, first call", facts{nested: true, input: inputValues, from: originNone, empty: true, fromParent: fromParentResume}, entryInput, nil, "same"},
		{"inside, around resumes, Stable, not called yet", facts{nested: true, input: inputValues, from: originNewest, fromParent: fromParentResume, spent: true}, entryInput, nil, "goes on from the earlier call: runs nothing"},
		{"inside, later superstep", facts{nested: true, input: inputValues, from: originNewest}, entryInput, nil, "same"},
		{"inside, nil in a later superstep", facts{nested: true, input: inputNil, from: originNewest}, entryResume, nil, "same"},
		{"inside, around travels", facts{nested: true, input: inputValues, from: originNamed, fromParent: fromParentResume, replays: true}, entryBranch, nil, "same"},
		{"inside, around travels, nothing before", facts{nested: true, input: inputValues, from: originMissing, empty: true, fromParent: fromParentResume, replays: true}, entryBranch, nil, "same"},
		{"inside, its checkpoint is named for an answer", facts{nested: true, input: inputValues, from: originNamed, fromParent: fromParentResume, mapped: true, answers: true}, entryResume, nil, "goes back, and asks whoever comes first"},
		{"inside, its checkpoint is named", facts{nested: true, input: inputValues, from: originOld, fromParent: fromParentResume, replays: true, mapped: true}, entryFork, nil, "same"},
		{"inside, crash before", facts{nested: true, input: inputValues, from: originNewest, fits: true, policy: finish, left: unfinished}, entryInput, nil, "same"},
	} {
		e := c.facts.entry()
		if e.kind != c.want || !errors.Is(e.err, c.err) || (e.err == nil) != (c.err == nil) {
			t.Errorf("%s: entry %d, %v, not %d, %v", c.name, e.kind, e.err, c.want, c.err)
		}
	}
}

// allFacts yields every combination of what decides about the kind of an entry, but for
// what cannot be.
func allFacts(yield func(facts)) {
	bools := []bool{false, true}
	for _, given := range []inputKind{inputNil, inputRecovery, inputValues, inputCommand, inputAnswer} {
		for from := originNone; from <= originMissing; from++ {
			for bits := range 1 << 8 {
				bit := func(n int) bool { return bools[bits>>n&1] }
				for told := fromParentNothing; told <= fromParentResume; told++ {
					f := facts{input: given, from: from, fromParent: told, empty: bit(0), branch: bit(1), sameRun: bit(2), nested: bit(3), mapped: bit(4), replays: bit(5), spent: bit(6), answers: bit(7)}
					switch {
					case !f.nested && (f.mapped || f.replays || f.spent || f.answers || told != fromParentNothing),
						f.nested && (f.sameRun || given == inputRecovery),
						f.empty && (f.branch || f.sameRun || f.spent),
						!from.found() && !f.empty,
						from == originOld && f.nested && !f.mapped,
						f.spent && (from != originNewest || told != fromParentResume || given == inputNil),
						(f.mapped || f.replays) && !from.named(),
						given == inputRecovery && from.named():
						continue
					}
					yield(f)
				}
			}
		}
	}
}

// The kind follows from LangGraph's rules, as its source has them: is_resuming,
// is_time_traveling, and a fork for a checkpoint that is none. The differences are named.
func TestEntryKindsOfAllFacts(t *testing.T) {
	n := 0
	seen := map[entryKind]bool{}
	allFacts(func(f facts) {
		n++
		input := f.input == inputValues
		hasResuming, resuming := f.fromParent != fromParentNothing, f.fromParent == fromParentResume
		if f.replays && !f.mapped { // the flag is removed where a replay loads a checkpoint
			hasResuming, resuming = false, false
		}
		if f.spent { // ours: an earlier call is not gone on with
			hasResuming, resuming = false, false
		}
		isResuming := !f.empty && (hasResuming && resuming || !hasResuming && (!input || !f.nested && f.sameRun))
		isReplaying := f.from.named()
		travelling := isReplaying && (f.nested && f.mapped && !f.answers || !(f.input == inputAnswer || resuming)) // ours: no answer travels
		old := f.from == originOld
		forks := isResuming && travelling && (!f.branch || old) // ours: an old branch is left as well
		want := entryInput
		switch {
		case forks:
			want = entryFork
		case isResuming && travelling:
			want = entryTravel
		case isResuming && old: // ours: at the newest nothing is run again
			want = entryRerun
		case isResuming:
			want = entryResume
		case travelling:
			want = entryBranch
		}
		got := f.kind()
		seen[got] = true
		if got != want {
			t.Errorf("%+v: %d, not %d", f, got, want)
		}
		if got.resumes() != isResuming || got.travels() != travelling || isResuming && got.reruns() != (travelling || old) {
			t.Errorf("%+v: %d resumes %v, travels %v, reruns %v", f, got, got.resumes(), got.travels(), got.reruns())
		}
		e := f.entry()
		if tell := e.toInside; !f.nested && (tell == fromParentResume) != isResuming || f.nested && tell != f.parentSays() {
			t.Errorf("%+v tells %d", f, tell)
		}
	})
	if n < 300 || len(seen) != int(entryTravel-entryInput)+1 {
		t.Errorf("%d combinations, kinds %v: the test tests too little", n, seen)
	}
}

// Only new input upon the newest checkpoint of an outermost graph, and a recovery, ask what
// an earlier run left.
func TestEntryLooksBack(t *testing.T) {
	allFacts(func(f facts) {
		for _, way := range []Unfinished{FinishFirst, RefuseUnfinished, DiscardUnfinished} {
			for _, fits := range []bool{false, true} {
				f.policy.unfinished, f.fits = way, fits
				input := f.kind() == entryInput && f.from == originNewest && !f.nested && fits && way != DiscardUnfinished
				recovery := f.input == inputRecovery && !f.empty
				if f.looksBack() != (input || recovery) {
					t.Errorf("%+v: %v", f, f.looksBack())
				}
				f.left = progress{status: saver.StatusUnfinished}
				if e := f.entry(); f.input != inputAnswer && (e.err != nil) != input || (e.kind == entryFinish) != (input && way == FinishFirst) {
					t.Errorf("%+v: %+v", f, e)
				}
				f.left = progress{}
			}
		}
	})
}

// What becomes of an answer. LangGraph, and stele with Options.LangGraph, refuse only one that several
// questions wait for; at an old checkpoint stele also refuses one that was given before.
func TestEntryAnswer(t *testing.T) {
	ids := []string{"p", "q"}
	for _, c := range []struct {
		name      string
		answer    answer.Facts
		want      answer.Use
		err       error
		langGraph answer.Use
		anyErr    error
	}{
		{"one waits", answer.Facts{Waiting: ids[:1]}, answer.One, nil, answer.One, nil},
		{"several wait", answer.Facts{Waiting: ids}, answer.None, ErrAmbiguousResume, answer.None, ErrAmbiguousResume},
		{"none waits", answer.Facts{}, answer.None, ErrNoInterrupt, answer.One, nil},
		{"given before", answer.Facts{Given: true}, answer.Spent, nil, answer.One, nil},
		{"breakpoint", answer.Facts{AtBreakpoint: true}, answer.Spent, nil, answer.One, nil},
		{"by id", answer.Facts{ByID: true, Waiting: ids}, answer.ByIDs, nil, answer.ByIDs, nil},
		{"by id, unknown", answer.Facts{ByID: true, Waiting: ids, Unknown: ids[:1]}, answer.None, ErrUnknownInterrupt, answer.ByIDs, nil},
		{"by id, empty", answer.Facts{ByID: true, Empty: true, Waiting: ids}, answer.None, ErrUnknownInterrupt, answer.ByIDs, nil},
		{"by id, none waits, asked before", answer.Facts{ByID: true}, answer.Spent, nil, answer.ByIDs, nil},
		{"by id, none waits, unknown", answer.Facts{ByID: true, Unknown: ids}, answer.None, ErrNoInterrupt, answer.ByIDs, nil},
		{"by id, none waits, empty", answer.Facts{ByID: true, Empty: true}, answer.None, ErrNoInterrupt, answer.ByIDs, nil},
		{"by id, empty, breakpoint", answer.Facts{ByID: true, Empty: true, AtBreakpoint: true}, answer.Spent, nil, answer.ByIDs, nil},
	} {
		for _, way := range []string{"", "any answer", "old"} {
			f := facts{input: inputAnswer, from: originNewest, answer: c.answer, policy: runPolicy{langGraph: way == "any answer"}}
			want, err, kind := c.want, c.err, entryResume
			switch way {
			case "any answer":
				want, err = c.langGraph, c.anyErr
			case "old":
				f.from, f.answer.Old, kind = originOld, true, entryRerun
				if want == answer.Spent && !f.answer.AtBreakpoint && !f.answer.Given {
					want, err = answer.None, ErrNoInterrupt
				}
			}
			if err != nil {
				kind = entryRefused
			}
			if e := f.entry(); e.answer != want || e.kind != kind || !errors.Is(e.err, err) {
				t.Errorf("%s (%s): %+v, not %d, %v", c.name, way, e, want, err)
			}
		}
	}
	e := (&facts{input: inputAnswer, answer: answer.Facts{ByID: true, Waiting: ids, Unknown: []string{"x"}}}).entry()
	var unknown *UnknownInterruptError
	if !errors.As(e.err, &unknown) || !slices.Equal(unknown.Unknown, []string{"x"}) || !slices.Equal(unknown.Pending, ids) {
		t.Errorf("%v", e.err)
	}
}

// An entry that does not begin says of which thread, and what to do.
func TestEntryErrors(t *testing.T) {
	left := progress{status: saver.StatusUnfinished, next: []string{"a"}}
	f := facts{thread: "t7", input: inputValues, from: originNewest, fits: true, policy: runPolicy{unfinished: RefuseUnfinished}, left: left, leftBy: "post"}
	for want, got := range map[string]entry{
		`thread "t7": the thread is unfinished: nodes ["a"] of an earlier run are left; the input was not taken: that was a run of graph "post"`: f.entry(),
		`thread "t7": an earlier run left nodes ["gone"]`:                                    (&facts{thread: "t7", missing: []string{"gone"}}).entry(),
		`thread "t7": nothing is waiting to be resumed; the thread went on from this check`:  (&facts{thread: "t7", input: inputAnswer, answer: answer.Facts{Old: true}}).entry(),
		`thread "t7": nothing is waiting to be resumed`:                                      (&facts{thread: "t7", input: inputAnswer, empty: true}).entry(),
		`When there are multiple pending interrupts, you must specify the interrupt id when`: (&facts{input: inputAnswer, answer: answer.Facts{Waiting: []string{"p", "q"}}}).entry(),
	} {
		if !strings.HasPrefix(fmt.Sprint(got.err), want) {
			t.Errorf("%v, not %s", got.err, want)
		}
	}
}
