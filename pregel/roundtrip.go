package pregel

import (
	"fmt"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// again is v after it was encoded and decoded, as a resumed run would read it.
func (e *encoder) again(node, ch string, v any) (any, error) {
	stored, err := e.stow(node, ch, v)
	if err != nil {
		return nil, err
	}
	out, err := stored.Any()
	if err != nil {
		return nil, &EncodeError{Node: node, Channel: ch, Err: fmt.Errorf("read back: %w", err)}
	}
	return out, nil
}

// stow encodes v as a saver would store it.
func (e *encoder) stow(node, ch string, v any) (saver.Value, error) {
	codec := e.plainCodec()
	typed, err := codec.Encode(v)
	if err != nil {
		return saver.Value{}, &EncodeError{Node: node, Channel: ch, Err: err}
	}
	return saver.ValueTyped(serde.Typed{Kind: typed.Kind, Data: typed.Data}).WithCodec(codec), nil
}

// writesAgain replaces writes, in place, by what a resumed run would read.
func (l *loop) writesAgain(node string, writes []write) error {
	if !l.run.ways.roundTrip {
		return nil
	}
	for i := range writes {
		w := &writes[i]
		if _, untracked := l.run.g.specs.at(w.channel).(channel.Untracked); untracked || w.channel == chItems {
			continue
		}
		if list, ok := w.value.([]Interrupt); ok {
			if err := l.interruptsAgain(node, list); err != nil {
				return err
			}
			continue
		}
		v := w.value
		if w.channel == chTasks {
			v = l.run.g.sanitize(v)
		}
		var err error
		if w.value, err = l.saves.enc.again(node, w.channel, v); err != nil {
			return err
		}
	}
	return nil
}

func (l *loop) interruptsAgain(node string, list []Interrupt) error {
	for i := range list {
		v, err := l.saves.enc.again(node, chInterrupt, list[i])
		if err != nil {
			return err
		}
		if in, ok := v.(Interrupt); ok {
			list[i] = in
		}
	}
	return nil
}

// answersAgain does the same for the answers by interrupt id.
func (l *loop) answersAgain() error {
	if !l.run.ways.roundTrip {
		return nil
	}
	answers := make(map[string]any, len(l.run.resumeMap))
	for id, v := range l.run.resumeMap {
		var err error
		if answers[id], err = l.saves.enc.again("", chResume, v); err != nil {
			return err
		}
	}
	l.run.resumeMap = answers
	return nil
}

// channelsAgain restores every channel from what would be stored, so that the next superstep
// reads what a resumed run would read.
func (l *loop) channelsAgain() error {
	if !l.run.ways.roundTrip {
		return nil
	}
	for i, ch := range l.pos.set.list {
		if _, untracked := ch.(channel.Untracked); untracked || !ch.Available() {
			continue
		}
		name := l.pos.set.names[i]
		v, ok := ch.Checkpoint()
		if d, isDelta := ch.(channel.DeltaChannel); isDelta {
			v, ok = d.Snapshot(), true
		}
		if !ok {
			continue
		}
		if name == chTasks {
			v = l.run.g.sanitizeAll(v)
		}
		stored, err := l.saves.enc.stow("", name, v)
		if err != nil {
			return err
		}
		if l.pos.set.list[i], err = l.run.g.specs.list[i].Restore(stored); err != nil {
			return fmt.Errorf("read back channel %q: %w", name, err)
		}
	}
	return nil
}
