package pregel

import (
	"fmt"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// entry says how a run begins. facts.entry decides it once, after the checkpoint is loaded
// and before anything is run or stored. It does not change after that.
//
//	the run is given      at the newest       at a named checkpoint
//	values                entryInput          entryBranch
//	values, crash before  entryFinish         entryBranch
//	nil, update or goto   entryResume         entryFork, or entryTravel
//	an answer             entryResume         entryResume, or entryRerun if it is old
//
// A graph inside first follows what the graph around tells it.
type entry struct {
	kind entryKind
	// answer is what becomes of a Command's Resume.
	answer answer.Use
	// question is the one that an answer without an id is for; "" if that is not known.
	question string
	// branch: an update or a fork made the checkpoint.
	branch bool
	// toInside is what this graph tells graphs inside during the first superstep.
	toInside fromParent
	// answersSpent: before a crash this graph got answers to the questions for which the graph
	// around has an answer, so that answer is not for the next question.
	answersSpent bool
	// err is why the run does not begin. The caller gets it if kind is entryRefused, or if
	// kind is entryFinish and the earlier run does not reach its end.
	err error
}

type entryKind int

const (
	entryRefused entryKind = iota
	// entryFinish: an earlier run is finished first. Then this one begins once more.
	entryFinish
	// entryInput takes input at the newest checkpoint, if there is one.
	entryInput
	// entryBranch takes input at a checkpoint that was named.
	entryBranch
	// entryResume goes on where the thread stands. Tasks that ended do not run again.
	entryResume
	// entryRerun goes on from an old checkpoint without copying it. All its tasks run
	// again, with the same ids.
	entryRerun
	// entryFork goes back to a checkpoint and first stores a copy of it. So its tasks run
	// again with new ids.
	entryFork
	// entryTravel goes back to a checkpoint that is such a copy, or an update.
	entryTravel
)

// resumes reports whether the run goes on from a checkpoint, instead of taking input.
func (k entryKind) resumes() bool { return k >= entryResume }

// travels reports whether the run goes back in time: questions are asked again.
func (k entryKind) travels() bool { return k == entryBranch || k == entryFork || k == entryTravel }

// reruns reports whether tasks of the first superstep run although they ended before.
func (k entryKind) reruns() bool { return k.travels() || k == entryRerun }

// inputKind tells what a run was given.
type inputKind int

const (
	inputNil      inputKind = iota
	inputRecovery           // nil, to go on with a thread only if it is unfinished
	inputValues             // values
	inputCommand            // a Command that updates or steers
	inputAnswer             // a Command that resumes
)

// origin is the checkpoint that a run begins with.
type origin int

const (
	originNone    origin = iota // the thread has none
	originNewest                // the newest
	originNamed                 // the one that was named, or that a replay bounds
	originOld                   // the one that was named, when the thread has moved past it
	originMissing               // one that was named and does not exist; the thread counts as empty
)

func (o origin) found() bool { return o != originNone && o != originMissing }

func (o origin) named() bool { return o >= originNamed }

// fromParent is the order that a graph inside has from the graph around.
type fromParent int

const (
	fromParentNothing fromParent = iota
	fromParentInput              // to take its input
	fromParentResume             // to go on where it stands
)

// facts are everything that decides how a run begins.
type facts struct {
	thread string // for errors
	policy runPolicy
	input  inputKind
	from   origin
	// noSaver: nothing is stored.
	noSaver bool
	// empty: the checkpoint holds no state. branch: an update or a fork made it.
	empty, branch bool
	// sameRun: the checkpoint is of a run with the RunID that this one was given.
	sameRun bool
	// missing are the nodes to run next that the graph does not have.
	missing []string

	// nested: another graph runs this one, and says fromParent. mapped: it names the checkpoint
	// to begin with. answers: it does so for an answer, so that is where the question waits. replays: it went back
	// in time, and that checkpoint is what this graph had then. spent: an earlier call, which ended, left the
	// checkpoint.
	nested, mapped, answers, replays, spent bool
	fromParent                              fromParent
	// answered: see entry.answersSpent.
	answered bool

	// fits: the channels can take the input.
	fits bool
	// left is what an earlier run left; looked up for looksBack alone. leftBy is the
	// graph that left it, if that is another one.
	left   progress
	leftBy string

	answer answer.Facts // looked up if there is an answer
}

// parentSays is what the graph around tells this graph, if it applies.
func (f *facts) parentSays() fromParent {
	if f.replays && !f.mapped || f.spent {
		return fromParentNothing
	}
	return f.fromParent
}

// kind is how the run begins, if nothing is in its way.
func (f *facts) kind() entryKind {
	says := f.parentSays()
	resumes := !f.empty && (says == fromParentResume || says == fromParentNothing && (f.input != inputValues || f.sameRun))
	travels := f.from.named() && (f.mapped && !f.answers || f.input != inputAnswer && says != fromParentResume)
	switch {
	case !resumes && travels:
		return entryBranch
	case !resumes:
		return entryInput
	case travels && f.branch && f.from != originOld:
		return entryTravel
	case travels:
		return entryFork
	case f.from == originOld:
		return entryRerun
	}
	return entryResume
}

// looksBack reports whether it matters what an earlier run left. For input that will be
// refused it does not, so that nobody finishes a run for it.
func (f *facts) looksBack() bool {
	switch f.kind() {
	case entryInput:
		return f.from == originNewest && !f.nested && f.fits && (f.policy.unfinished != DiscardUnfinished || f.policy.refuseWaiting)
	case entryResume, entryRerun, entryFork, entryTravel:
		return f.input == inputRecovery
	case entryRefused, entryFinish, entryBranch:
	}
	return false
}

// entry decides. LangGraph never finishes an earlier run first, refuses an answer only if
// nothing is left to run, and skips missing nodes.
func (f *facts) entry() entry {
	e := entry{kind: f.kind(), branch: f.branch, toInside: f.parentSays()}
	resumes := e.kind.resumes()
	switch {
	case f.nested:
	case resumes:
		e.toInside = fromParentResume
	default:
		e.toInside = fromParentInput
	}
	e.answersSpent = resumes && f.answered && !(f.policy.langGraph && e.kind.travels())
	unknown := error(nil)
	if len(f.missing) > 0 {
		unknown = &UnknownNodeError{ThreadID: f.thread, Nodes: f.missing}
	}
	unfinished := f.left.status == saver.StatusUnfinished
	switch {
	case f.looksBack() && !resumes && f.policy.refuseWaiting && f.left.status == saver.StatusWaiting:
		e.err = fmt.Errorf("thread %q: %w; the input was not taken", f.thread, ErrWaiting)
	case f.looksBack() && !resumes && f.left.status == saver.StatusWaiting && len(f.left.waits) > 0 && f.policy.unfinished != DiscardUnfinished:
		e.err = &SleepingError{ThreadID: f.thread, Waits: f.left.waits}
		if f.left.due && f.policy.unfinished == FinishFirst && f.leftBy == "" && unknown == nil {
			e.kind, e.err = entryFinish, &UnfinishedError{ThreadID: f.thread, Next: f.left.next}
			return e
		}
	case f.looksBack() && !resumes && unfinished && f.policy.unfinished != DiscardUnfinished:
		err := &UnfinishedError{ThreadID: f.thread, Next: f.left.next, Graph: f.leftBy}
		if e.err = err; f.leftBy == "" {
			err.Err = unknown
		}
		if f.leftBy == "" && unknown == nil && f.policy.unfinished == FinishFirst {
			e.kind = entryFinish
			return e
		}
	case f.looksBack() && resumes && !unfinished && !f.left.due:
		e.err = errSettled
	case resumes && unknown != nil:
		e.err = unknown
	default:
		if e.answer, e.err = f.judge(resumes); e.answer == answer.One && len(f.answer.Waiting) == 1 {
			e.question = f.answer.Waiting[0]
		}
	}
	if e.err != nil {
		e.kind = entryRefused
	}
	return e
}

// judge decides what becomes of a Command's answer.
func (f *facts) judge(resumes bool) (answer.Use, error) {
	if f.input != inputAnswer {
		return answer.None, nil
	}
	if f.noSaver {
		return answer.None, fmt.Errorf("resume: %w", ErrNoSaver)
	}
	use, err := f.answer.Judge(resumes, f.policy.langGraph), error(nil)
	switch use {
	case answer.Refused:
		err = f.noInterrupt("")
	case answer.Ambiguous:
		err = &AmbiguousResumeError{Pending: f.answer.Waiting}
	case answer.Unknown:
		err = &UnknownInterruptError{Unknown: f.answer.Unknown, Pending: f.answer.Waiting}
	case answer.Answered:
		err = f.noInterrupt(fmt.Sprintf("the interrupts %v have another answer already, or one that was not stored; ", f.answer.Answered))
	case answer.None, answer.One, answer.ByIDs, answer.Spent:
		return use, nil
	}
	return answer.None, err
}

// noInterrupt is the error of an answer for which no question waits: why, and what its sender can do.
func (f *facts) noInterrupt(why string) error {
	next := "it failed, sleeps or is unfinished; continue it without an answer, and it asks again if it needs to"
	switch {
	case f.answer.Old:
		next = "the thread went on from this checkpoint, and without an answer a run from there asks again"
	case f.empty:
		next = "it has no state yet; begin it with input"
	case f.answer.Finished:
		next = "it has finished, so an answer that arrived was used; read its state, or send new input"
	case why != "":
		next = "continue it without an answer"
	}
	return fmt.Errorf("thread %q: %w; %s%s", f.thread, ErrNoInterrupt, why, next)
}
