package pregel

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/stele-go/stele/pregel/channel"
)

// takeInput begins with new input. It discards what was pending, and stores the input as a
// checkpoint.
func (l *loop) takeInput(ctx context.Context) error {
	writes, err := l.pos.fitting, error(nil)
	if l.pos.fitting = nil; writes == nil {
		writes, err = l.inputWrites()
	}
	if err != nil {
		return err
	}
	if len(writes) == 0 {
		if l.run.nested() && l.pos.entry.toInside != fromParentNothing {
			return nil
		}
		if l.input == nil && l.run.thread != "" {
			return fmt.Errorf("thread %q has no checkpoint to go on from: %w", l.run.thread, ErrEmptyInput)
		}
		return fmt.Errorf("%w for %v", ErrEmptyInput, l.run.g.input)
	}
	l.run.g.nameWrites(writes)
	discarded, err := l.pos.preparer().next(l.pos.updated)
	if err != nil {
		return err
	}
	l.run.g.addOverwritten(l.saves.delta.forced, writes)
	tasks := append(discarded.asWrites(), inputTask(writes))
	updated, err := l.pos.applier().apply(tasks)
	if err != nil {
		return err
	}
	// The items of the discarded superstep are discarded too.
	l.pos.pending = slices.DeleteFunc(l.pos.pending, func(w pendingWrite) bool { return w.channel == chItems })
	if err := l.keepDeltaInput(writes); err != nil {
		return err
	}
	l.pos.updated = updated
	return l.putCheckpoint(ctx, "input")
}

// inputWrites are the writes that the run's input stands for.
func (l *loop) inputWrites() ([]write, error) {
	if !l.run.nested() {
		if err := l.run.g.refuseKeys(l.input); err != nil {
			return nil, err
		}
	}
	return l.run.g.inputWrites(l.pos.set, l.input)
}

// refuseKeys refuses values from outside with keys that the graph does not know.
func (g *Graph) refuseKeys(values any) error {
	if g.spec.CheckKeys == nil || g.opts.LangGraph || values == nil {
		return nil
	}
	return g.spec.CheckKeys(values)
}

// inputWrites maps an input to writes to channels. It refuses what the channels cannot take.
func (g *Graph) inputWrites(set *channelSet, input any) ([]write, error) {
	writes, err := g.inputByChannel(input)
	if err != nil || len(writes) == 0 {
		return nil, err
	}
	values := map[string][]any{}
	for _, w := range writes {
		values[w.channel] = append(values[w.channel], w.value)
	}
	if g.spec.CheckInput != nil {
		pairs, err := g.spec.CheckInput(writes[0].value)
		if err != nil {
			return nil, err
		}
		for _, p := range pairs {
			values[p.Key] = append(values[p.Key], p.Value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		ch, ok := set.get(name)
		if !ok {
			continue
		}
		if err := channel.Check(ch, values[name]); err != nil {
			var ue *channel.UpdateError
			if errors.As(err, &ue) {
				ue.Nodes = []string{Input}
			}
			return nil, err
		}
	}
	return writes, nil
}

func (g *Graph) inputByChannel(input any) ([]write, error) {
	if c, ok := input.(*Command); input == nil || ok && c == nil {
		return nil, nil
	}
	if g.input.Single {
		if pairs, ok := input.(Pairs); ok { // it would be read back as plain data
			m := make(map[string]any, len(pairs))
			for _, p := range pairs {
				m[p.Key] = p.Value
			}
			input = m
		}
		return []write{{g.input.Names[0], input}}, nil
	}
	pairs, ok := PairsOf(input)
	if !ok {
		return nil, &InvalidUpdateError{Node: Input, Reason: fmt.Sprintf("the input has the channels %v: want a map, got %T", g.input.Names, input)}
	}
	var out []write
	for _, p := range pairs {
		if g.input.has(p.Key) {
			out = append(out, write{p.Key, p.Value})
		} else {
			g.env.Logger.Warn("ignored an unknown input", "graph", g.opts.Name, "channel", p.Key)
		}
	}
	return out, nil
}
