package pregel

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// first turns the run's input into the state the first superstep starts from.
func (l *loop) first(ctx context.Context) error {
	l.beginDeltas()
	cmd, isCommand := commandOf(l.input)
	l.resumeGiven = isCommand && cmd.Resume != nil
	resumes := l.isResuming(isCommand)
	if err := l.mayBegin(ctx, resumes); err != nil {
		return err
	}
	travels := l.isTimeTravelling()
	l.replaying = travels || l.superseded
	if travels {
		l.pending = slices.DeleteFunc(l.pending, func(w pendingWrite) bool { return w.channel == chResume })
	}
	use, err := l.judge(ctx, cmd, resumes)
	if err != nil {
		return err
	}
	if use == answerNone || use == answerSpent {
		l.pending = dropSpentAnswer(l.pending)
		l.guardAnswers(ctx)
	}
	l.answered = resumes && l.answeredSince()
	source := l.md.Source()
	branched := source == "update" || source == "fork"
	forks := resumes && travels && (!branched || l.superseded)
	l.delta.forced = map[string]bool{}
	if resumes && !l.replaying {
		for _, w := range l.pending {
			if w.taskID != nullTaskID {
				l.delta.loaded = append(l.delta.loaded, w)
			}
		}
	} else {
		l.forceDeltas(l.pending)
	}
	var carried []pendingWrite
	var given []saver.Write
	if isCommand {
		if carried, given, err = l.takeCommand(cmd, use, forks); err != nil {
			return err
		}
	}
	if err := l.applyNull(carried); err != nil {
		return err
	}
	if len(given) > 0 {
		l.submitWrites("", l.place.At(l.cp.id), given, nullTaskID, "")
	}
	var bound *saver.Config
	if resumes {
		bound, err = l.resume(ctx, forks, branched)
	} else {
		err = l.takeInput(ctx)
	}
	if err != nil {
		return err
	}
	if !l.nested() {
		l.resuming, l.replay = &resumes, nil
		if travels {
			l.replay = l.replayFrom(bound)
		}
	}
	l.status, l.entered = statusPending, true
	if h := l.g.opts.Hooks.Resume; resumes && h != nil {
		l.g.guardHook("Resume", func() { h(l.info()) })
	}
	return nil
}

// beginDeltas notes which writes to delta channels are stored already.
func (l *loop) beginDeltas() {
	l.delta.written = map[string]bool{}
	l.delta.reapplied = map[string]bool{}
	l.delta.storedWrites = map[[2]string]bool{}
	for _, w := range l.pending {
		if w.taskID != nullTaskID && slices.Contains(l.g.deltas, w.channel) {
			l.delta.storedWrites[[2]string{w.taskID, w.channel}] = true
		}
	}
}

// mayBegin is asked before anything is changed or stored.
func (l *loop) mayBegin(ctx context.Context, resumes bool) error {
	if !resumes {
		return l.guardUnfinished(ctx)
	}
	if l.admit != nil {
		return l.admit(ctx, l)
	}
	return l.checkNodes()
}

func commandOf(v any) (Command, bool) {
	switch x := v.(type) {
	case Command:
		return x, true
	case *Command:
		if x != nil {
			return *x, true
		}
	}
	return Command{}, false
}

// isResuming reports whether the run goes on from where the thread stands,
// instead of giving it new input. A graph inside is told by the one around.
func (l *loop) isResuming(isCommand bool) bool {
	if len(l.cp.versions) == 0 {
		return false
	}
	if l.resuming != nil && *l.resuming && l.input != nil && l.spentState() {
		l.resuming = nil
	}
	if l.resuming != nil {
		return *l.resuming
	}
	return l.input == nil || isCommand || !l.nested() && l.cfg.RunID != "" && l.cfg.RunID == l.md.RunID()
}

// isTimeTravelling reports whether the run starts over from a checkpoint it was
// pointed at, so that questions are asked again.
func (l *loop) isTimeTravelling() bool {
	if !l.addressed {
		return false
	}
	if _, own := l.cpMap[l.ns]; own && l.nested() {
		return true
	}
	return !l.resumeGiven && !(l.resuming != nil && *l.resuming)
}

func (l *loop) forceDeltas(writes []pendingWrite) {
	for _, w := range writes {
		l.g.deltasAmong(l.delta.forced, w.channel)
	}
}

// takeCommand makes a Command's writes ready: as carried if a fork is about to carry
// them, else as what to store on the checkpoint the run starts from, once the channels
// took them.
func (l *loop) takeCommand(cmd Command, use answerUse, forks bool) (carried []pendingWrite, given []saver.Write, err error) {
	answer := cmd.Resume
	if use != answerOne {
		cmd.Resume = nil
	}
	writes, err := commandWrites(cmd)
	if err != nil {
		return nil, nil, err
	}
	if use == answerByID {
		l.resumeMap, _ = answersByID(answer)
		if err := l.answersAgain(); err != nil {
			return nil, nil, err
		}
	}
	if len(writes) == 0 {
		if use == answerNone {
			err = fmt.Errorf("%w: the Command is empty", ErrEmptyInput)
		}
		return nil, nil, err
	}
	if forks {
		l.g.nameWrites(writes)
		if err := l.writesAgain("", writes); err != nil {
			return nil, nil, err
		}
		for _, w := range writes {
			carried = append(carried, newPending(nullTaskID, "", w.channel, w.value))
		}
		l.forceDeltas(carried)
		return carried, nil, nil
	}
	if given, err = l.recordWrites(nil, nullTaskID, writes); err != nil {
		return nil, nil, err
	}
	if l.exits() {
		for _, w := range writes {
			if slices.Contains(l.g.deltas, w.channel) {
				l.delta.commandExit = append(l.delta.commandExit, w)
			}
		}
	}
	return nil, given, nil
}

// commandWrites are the writes a Command as input stands for.
func commandWrites(cmd Command) ([]write, error) {
	if cmd.Graph == Parent {
		return nil, &InvalidUpdateError{Reason: "There is no parent graph"}
	}
	var out []write
	gotos, err := gotoList(cmd.Goto)
	if err != nil {
		return nil, err
	}
	for _, g := range gotos {
		if s, ok := sendOf(g); ok {
			out = append(out, write{chTasks, s})
		} else {
			out = append(out, write{branchPrefix + g.(string), Start})
		}
	}
	if cmd.Resume != nil {
		out = append(out, write{chResume, cmd.Resume})
	}
	for _, p := range UpdatePairs(cmd.Update) {
		out = append(out, write{p.Key, p.Value})
	}
	return out, nil
}

// gotoList reads Command.Goto: strings and Sends.
func gotoList(v any) ([]any, error) {
	var list []any
	switch x := v.(type) {
	case nil:
		return nil, nil
	case string:
		if x == "" {
			return nil, nil
		}
		return []any{x}, nil
	case []any:
		list = x
	case []string:
		for _, s := range x {
			list = append(list, s)
		}
	case []Send:
		for _, s := range x {
			list = append(list, s)
		}
	default:
		list = []any{v}
	}
	for _, g := range list {
		if _, ok := sendOf(g); ok {
			continue
		}
		if _, ok := g.(string); !ok {
			return nil, &InvalidUpdateError{Reason: fmt.Sprintf("In Command.goto, expected Send/str, got %T", g)}
		}
	}
	return list, nil
}

// UpdatePairs reads Command.Update as writes to state keys: pairs, a map, or a
// value for the whole of a state without keys.
func UpdatePairs(update any) Pairs {
	if update == nil {
		return nil
	}
	if pairs, ok := PairsOf(update); ok {
		return pairs
	}
	if list, ok := update.([]any); ok && len(list) > 0 {
		pairs := make(Pairs, 0, len(list))
		for _, e := range list {
			pair, ok := e.([]any)
			if !ok || len(pair) != 2 {
				return Pairs{{RootKey, update}}
			}
			key, ok := pair[0].(string)
			if !ok {
				return Pairs{{RootKey, update}}
			}
			pairs = append(pairs, Pair{key, pair[1]})
		}
		return pairs
	}
	return Pairs{{RootKey, update}}
}

// applyNull applies the writes that belong to no task.
func (l *loop) applyNull(carried []pendingWrite) error {
	var writes []write
	for _, list := range [][]pendingWrite{l.pending, carried} {
		for _, w := range list {
			if w.taskID == nullTaskID {
				writes = append(writes, write{w.channel, w.value})
			}
		}
	}
	if len(writes) == 0 {
		return nil
	}
	updated, err := l.applier().apply([]taskWrites{{path: Path{}.String(), node: Input, writes: writes}})
	if err != nil {
		return err
	}
	if l.updated != nil {
		l.updated = union(l.updated, updated)
	}
	return nil
}

// resume goes on from where the thread stands. It returns the checkpoint that
// graphs inside replay from if a fork of a branch moves it.
func (l *loop) resume(ctx context.Context, forks, branched bool) (bound *saver.Config, err error) {
	passed := map[string]saver.Version{}
	maps.Copy(passed, l.cp.seen[chInterrupt])
	for _, name := range l.set.names {
		if v, ok := l.cp.versions[name]; ok {
			passed[name] = v
		}
	}
	l.cp.seen[chInterrupt] = passed
	if l.forked = forks; forks {
		if branched {
			bound = l.prev
		}
		// The fork gives all tasks new ids, so what the old ones asked is not
		// pending here.
		l.pending = slices.DeleteFunc(l.pending, func(w pendingWrite) bool { return w.channel == chInterrupt })
		// A fork is no superstep: it says of no channel that it was updated.
		updated := l.updated
		l.updated = nil
		if err := l.putCheckpoint(ctx, "fork"); err != nil {
			return nil, err
		}
		l.updated = updated
		l.coming = coming{} // made without knowing what was updated
	}
	if err := l.goOnFromStop(); err != nil {
		return nil, err
	}
	l.emitValues(nil)
	return bound, nil
}

// replayFrom is the bound for graphs inside.
func (l *loop) replayFrom(bound *saver.Config) *replayState {
	before := l.cp.id
	source := l.md.Source()
	switch {
	case bound != nil:
		before = bound.CheckpointID
	case (source == "update" || source == "fork") && l.prev != nil:
		before = l.prev.CheckpointID
	}
	return &replayState{before: before, visited: map[string]bool{}}
}
