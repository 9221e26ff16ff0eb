package pregel

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/stele-go/stele/pregel/internal/answer"
	"github.com/stele-go/stele/saver"
)

// keepsGiven reports whether the run stores which answers are in force; see answer.Given. LangGraph stores none.
// So does the superstep behind an older one at which a question is answered.
func (l *loop) keepsGiven() bool {
	return l.run.saver != nil && !l.run.nested() && !l.run.policy.langGraph && (l.pos.entry.kind == entryResume || l.pos.entry.kind == entryRerun)
}

// recordAnswers gives this run the answers in force and those that it was given by id, and returns the save
// that puts the new ones in force; nil if there are none. An answer without an id is given to the task that
// asks, as a graph inside that stores nothing asks under another id now.
func (l *loop) recordAnswers() (*saveOp, error) {
	cmd, _ := commandOf(l.input)
	use, fresh := l.pos.entry.answer, map[string]any{}
	if use == answer.ByIDs {
		byID, _ := answer.ByID(cmd.Resume)
		var err error
		if l.run.resumeMap, err = l.saves.enc.answersAgain(byID); err != nil {
			return nil, err
		}
	}
	if !l.keepsGiven() {
		return nil, nil
	}
	for _, id := range answer.Unended(l.pos.pending) {
		if v, ok := l.run.resumeMap[id]; ok {
			fresh[id] = v
		}
	}
	l.run.resumeMap = l.pos.given.With(l.run.resumeMap)
	if use == answer.One {
		fresh[l.pos.entry.question] = cmd.Resume
	}
	if len(fresh) == 0 {
		return nil, nil
	}
	return l.recordGiven(chAnswers, l.pos.given.With(fresh))
}

// recordGiven makes answers those in force, and returns the save of their record. It returns nil under Exit,
// which stores the record at its end.
func (l *loop) recordGiven(channel string, answers map[string]any) (*saveOp, error) {
	n, record := l.pos.given.Replace(answers, l.run.opts.RunID)
	id, err := uuid5(l.pos.cp.id, channel+strconv.FormatInt(n, 10))
	if err != nil {
		return nil, err
	}
	encoded, err := l.pos.record(&l.saves.enc, nil, id, []write{{channel, record}})
	if err != nil || len(encoded) == 0 {
		return nil, err
	}
	op := l.saves.writesOp("", l.pos.here(), encoded, id, "")
	op.barrier = true
	return op, nil
}

// endGiven ends the answers that are in force no longer when the run ends with err: those that were refused,
// and, if it stopped, all but those of tasks that stored nothing, as a graph inside stopped at a breakpoint.
func (l *loop) endGiven(ctx context.Context, err error) error {
	if l.pos.status == "" || len(l.pos.given.Answers) == 0 || !l.keepsGiven() {
		return nil
	}
	_, stopped := err.(*InterruptError) //nolint:errorlint // the loop's own
	stopped = stopped && ctx.Err() == nil
	quiet := answer.Unended(slices.DeleteFunc(slices.Clone(l.pos.pending), func(w answer.Write) bool { return l.pos.written[w.TaskID] }))
	left := map[string]any{}
	for id, v := range l.pos.given.Answers {
		if !l.run.refused.Has(id) && (!stopped || slices.Contains(quiet, id)) {
			left[id] = v
		}
	}
	if len(left) == len(l.pos.given.Answers) {
		return nil
	}
	op, err := l.recordGiven(chAnswersOver, left)
	if op != nil {
		l.saves.submit(op, false)
	}
	return err
}

// leavesQuestions reports whether the run, which failed, leaves questions that have no answer, after others were answered. Savers
// take the record of answers for one to all. A graph inside tells the outermost by the checkpoint at which that stands.
func (l *loop) leavesQuestions() bool {
	open := slices.ContainsFunc(answer.Unended(l.pos.pending), func(id string) bool { _, has := l.run.resumeMap[id]; return !has })
	if open && l.run.nested() {
		l.run.open.Add(l.run.cpMap[""])
	}
	return (open || l.run.open.Has(l.pos.cp.id)) && (l.pos.given.Recorded() || len(l.run.resumeMap) > 0)
}

// TakeAnswersBack ends the answers that a run gave to questions of the newest checkpoint, so that these wait
// again. It is for who has removed the checkpoints of the run, and owns the thread by lease. A crash before it leaves
// a thread that is unfinished. It may be called again.
func (g *Graph) TakeAnswersBack(ctx context.Context, threadID, runID string, lease *saver.Lease) error {
	s := g.mustBe().opts.Saver
	if s == nil || runID == "" || g.opts.LangGraph {
		return nil
	}
	given, err := g.givenTo(ctx, s, threadID)
	if err != nil || len(given.Answers) == 0 || given.Run != runID {
		return err
	}
	head, err := getTuple(ctx, s, saver.Config{ThreadID: threadID})
	if err != nil || head == nil {
		return err
	}
	at := head.Config
	at.Epoch = lease.Epoch()
	n, record := given.Replace(map[string]any{}, "")
	id, err := uuid5(at.CheckpointID, chAnswersOver+strconv.FormatInt(n, 10))
	if err != nil {
		return err
	}
	e := &encoder{g: g, codec: codecOf(s)}
	null, err := e.encodeWrites("", []write{{chResume, nil}})
	if err != nil {
		return err
	}
	over, err := e.encodeWrites("", []write{{chAnswersOver, record}, {chStopped, nil}})
	if err != nil {
		return err
	}
	// The answer of no task first: without it the record of answers would be found by the next call.
	if slices.ContainsFunc(head.PendingWrites, func(w saver.PendingWrite) bool { return w.TaskID == nullTaskID && w.Channel == chResume }) {
		err = s.PutWrites(ctx, at, null, nullTaskID, "")
	}
	if err == nil {
		err = s.PutWrites(ctx, at, over, id, "")
	}
	if err != nil {
		return &PersistError{Op: fmt.Sprintf("take back answers of thread %q", threadID), Err: err}
	}
	return nil
}

// givenTo are the answers in force on a thread, as its newest checkpoint has them.
func (g *Graph) givenTo(ctx context.Context, s saver.Saver, threadID string) (given answer.Given, err error) {
	head, err := getTuple(ctx, s, saver.Config{ThreadID: threadID})
	if err != nil || head == nil {
		return given, err
	}
	pending, err := g.loadPending(slices.DeleteFunc(slices.Clone(head.PendingWrites), func(w saver.PendingWrite) bool {
		return w.Channel != chAnswers && w.Channel != chAnswersOver
	}))
	if err == nil {
		_, given = answer.TakeGiven(pending)
	}
	return given, err
}
