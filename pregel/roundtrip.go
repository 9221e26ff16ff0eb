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
func (e *encoder) writesAgain(node string, writes []write) error {
	if !e.roundTrip {
		return nil
	}
	for i := range writes {
		w := &writes[i]
		if _, untracked := e.g.specs.at(w.channel).(channel.Untracked); untracked || w.channel == chItems {
			continue
		}
		if list, ok := w.value.([]Interrupt); ok {
			if err := e.interruptsAgain(node, list); err != nil {
				return err
			}
			continue
		}
		v := w.value
		if w.channel == chTasks {
			v = e.g.sanitize(v)
		}
		var err error
		if w.value, err = e.again(node, w.channel, v); err != nil {
			return err
		}
	}
	return nil
}

func (e *encoder) interruptsAgain(node string, list []Interrupt) error {
	for i := range list {
		v, err := e.again(node, chInterrupt, list[i])
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
func (e *encoder) answersAgain(byID map[string]any) (answers map[string]any, err error) {
	if !e.roundTrip {
		return byID, nil
	}
	answers = make(map[string]any, len(byID))
	for id, v := range byID {
		if answers[id], err = e.again("", chResume, v); err != nil {
			return nil, err
		}
	}
	return answers, nil
}

// channelsAgain restores every channel from what would be stored, so that the next superstep
// reads what a resumed run would read.
func (e *encoder) channelsAgain(set *channelSet) error {
	if !e.roundTrip {
		return nil
	}
	for i, ch := range set.list {
		if _, untracked := ch.(channel.Untracked); untracked || !ch.Available() {
			continue
		}
		name := set.names[i]
		v, ok := ch.Checkpoint()
		if d, isDelta := ch.(channel.DeltaChannel); isDelta {
			v, ok = d.Snapshot(), true
		}
		if !ok {
			continue
		}
		if name == chTasks {
			v = e.g.sanitizeAll(v)
		}
		stored, err := e.stow("", name, v)
		if err != nil {
			return err
		}
		if set.list[i], err = e.g.specs.list[i].Restore(stored); err != nil {
			return fmt.Errorf("read back channel %q: %w", name, err)
		}
	}
	return nil
}
