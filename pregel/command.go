package pregel

import (
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
)

func commandOf(v any) (Command, bool) { return valueOf[Command](v) }

// valueOf is v as a T: v itself, or what it points to.
func valueOf[T any](v any) (x T, ok bool) {
	if p, isPointer := v.(*T); isPointer && p != nil {
		return *p, true
	}
	x, ok = v.(T)
	return x, ok
}

// takeCommand prepares a Command's writes. A fork carries them over to its checkpoint;
// otherwise they are given to the checkpoint that the run starts from, and stored once the
// channels have taken them.
func (l *loop) takeCommand() (carried []pendingWrite, given []saver.Write, err error) {
	cmd, ok := commandOf(l.input)
	if !ok {
		return nil, nil, nil
	}
	use, answer := l.pos.entry.answer, cmd.Resume
	if use != answerOne {
		cmd.Resume = nil
	}
	writes, err := commandWrites(cmd)
	if err == nil && !l.run.nested() {
		err = l.run.g.refuseKeys(cmd.Update)
	}
	if err != nil {
		return nil, nil, err
	}
	if use == answerByID {
		byID, _ := answersByID(answer)
		if l.run.resumeMap, err = l.saves.enc.answersAgain(byID); err != nil {
			return nil, nil, err
		}
	}
	if len(writes) == 0 {
		if use == answerNone {
			err = fmt.Errorf("%w: the Command is empty", ErrEmptyInput)
		}
		return nil, nil, err
	}
	if l.pos.entry.kind == entryFork {
		l.run.g.nameWrites(writes)
		if err := l.saves.enc.writesAgain("", writes); err != nil {
			return nil, nil, err
		}
		for _, w := range writes {
			carried = append(carried, newPending(nullTaskID, "", w.channel, w.value))
		}
		l.saves.delta.force(carried)
		return carried, nil, nil
	}
	if given, err = l.pos.record(&l.saves.enc, nil, nullTaskID, writes); err != nil {
		return nil, nil, err
	}
	if l.run.exits() {
		l.saves.delta.commandExit = l.saves.delta.among(writes)
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
		list = anys(x)
	case []Send:
		list = anys(x)
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

// UpdatePairs reads Command.Update as writes to keys of the state: pairs, a map, or one
// value for a state without keys.
func UpdatePairs(update any) Pairs {
	if update == nil {
		return nil
	}
	if pairs, ok := PairsOf(update); ok {
		return pairs
	}
	list, _ := update.([]any)
	pairs := make(Pairs, 0, len(list))
	for _, e := range list {
		if pair, _ := e.([]any); len(pair) == 2 {
			if key, ok := pair[0].(string); ok {
				pairs = append(pairs, Pair{key, pair[1]})
			}
		}
	}
	if len(list) == 0 || len(pairs) < len(list) {
		return Pairs{{RootKey, update}}
	}
	return pairs
}

// applyNull applies the writes that belong to no task.
func (p *position) applyNull(carried []pendingWrite) error {
	null := nullTask(slices.Concat(p.pending, carried))
	if null == nil {
		return nil
	}
	p.fitting = nil
	updated, err := p.applier().apply(null)
	if err == nil && p.updated != nil {
		p.updated = union(p.updated, updated)
	}
	return err
}
