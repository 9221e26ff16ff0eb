package pregel

import (
	"fmt"
	"maps"
	"reflect"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/pregel/internal/frozen"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// encoder serializes what is stored, when its superstep ends. If a superstep appended to a
// list, only the new elements are serialized, so a superstep of a long chat costs only its
// last messages.
type encoder struct {
	g         *Graph
	roundTrip bool                   // see runPolicy
	codec     serde.Serializer       // nil: the saver serializes
	lists     map[string]encodedList // of channels, as last stored
}

// codecOf is the serializer of a saver; nil if the saver does not tell.
func codecOf(s saver.Saver) serde.Serializer {
	if s == nil {
		return nil
	}
	return s.Serializer()
}

const (
	// minGrown is the size below which serializing a list again costs little.
	// maxGrown is the size above which its bytes are not kept for the next superstep.
	minGrown = 1 << 10
	maxGrown = 8 << 20
)

// encodedList is the list that a channel had when it was last stored, and its bytes. The saver
// shares the bytes. Neither is changed.
type encodedList struct {
	value reflect.Value
	typed serde.Typed
}

// encodeChannel is encode for a channel of a checkpoint.
func (e *encoder) encodeChannel(ch string, v any) (saver.Value, error) {
	list := reflect.ValueOf(v)
	if list.Kind() != reflect.Slice {
		delete(e.lists, ch)
		return e.encode("", ch, v)
	}
	codec, ok := serde.GrowerOf(e.codec)
	if !ok {
		return e.encode("", ch, v)
	}
	was, known := e.lists[ch]
	delete(e.lists, ch)
	var typed serde.Typed
	if n := appended(was.value, list); known && n > 0 {
		if g, ok := codec.EncodeGrown(was.typed, v, n); ok {
			b := append(make([]byte, 0, g.Len(len(was.typed.Data))), g.Head...)
			typed = serde.Typed{Kind: was.typed.Kind, Data: append(append(b, was.typed.Data[g.From:]...), g.Tail...)}
		}
	}
	if typed.Kind == "" {
		whole, err := e.encode("", ch, v)
		if err != nil {
			return saver.Value{}, err
		}
		if typed, err = whole.Typed(); err != nil {
			return saver.Value{}, err
		}
	}
	if n := len(typed.Data); n >= minGrown && n <= maxGrown {
		if e.lists == nil {
			e.lists = map[string]encodedList{}
		}
		e.lists[ch] = encodedList{list, typed}
	}
	return saver.ValueTyped(typed), nil
}

// appended is how many elements were appended to was to make list; 0 if list was made in
// another way. It does not compare what elements refer to, because nobody changes that.
func appended(was, list reflect.Value) int {
	if !was.IsValid() || was.Type() != list.Type() || list.Len() <= was.Len() {
		return 0
	}
	for i := range was.Len() {
		if !frozen.Same(was.Index(i), list.Index(i)) {
			return 0
		}
	}
	return list.Len() - was.Len()
}

// encode serializes a value now, if the codec is known, because the reducers of the next
// superstep may append to it.
func (e *encoder) encode(node, ch string, v any) (saver.Value, error) {
	if e.codec == nil {
		return saver.ValueOf(v), nil
	}
	typed, err := e.codec.Encode(v)
	if err != nil {
		return saver.Value{}, &EncodeError{Node: node, Channel: ch, Err: err}
	}
	return saver.ValueTyped(typed), nil
}

// encodeWrites serializes writes, except those to untracked channels.
func (e *encoder) encodeWrites(node string, writes []write) ([]saver.Write, error) {
	out := make([]saver.Write, 0, len(writes))
	for _, w := range writes {
		if _, untracked := e.g.specs.at(w.channel).(channel.Untracked); untracked {
			continue
		}
		v := w.value
		if w.channel == chTasks {
			v = e.g.sanitize(v)
		}
		if list, ok := v.([]Interrupt); ok {
			v = anys(list)
		}
		value, err := e.encode(node, w.channel, v)
		if err != nil {
			return nil, err
		}
		out = append(out, saver.Write{Channel: w.channel, Value: value})
	}
	return out, nil
}

// nameWrites gives ids to messages that are written to delta channels, in place.
func (g *Graph) nameWrites(writes []write) {
	if len(g.deltas) == 0 {
		return
	}
	for i, w := range writes {
		if n, ok := g.specs.at(w.channel).(channel.Namer); ok {
			writes[i].value = n.Name(w.value)
		}
	}
}

// sanitize removes untracked values from a packet's argument.
func (g *Graph) sanitize(v any) any {
	s, ok := sendOf(v)
	if !ok || !g.untracked {
		return v
	}
	arg, ok := s.Arg.(map[string]any)
	if !ok {
		return v
	}
	clean := make(map[string]any, len(arg))
	for k, x := range arg {
		if _, untracked := g.specs.at(k).(channel.Untracked); !untracked {
			clean[k] = x
		}
	}
	return Send{Node: s.Node, Arg: clean, Timeout: s.Timeout}
}

// encodeCheckpoint makes the checkpoint to store, with the serialized values of the changed
// channels.
func (e *encoder) encodeCheckpoint(cp *liveCheckpoint, captured capture, changed map[string]saver.Version) (saver.Checkpoint, error) {
	out := saver.Checkpoint{V: cp.v, ID: cp.id, TS: cp.ts, Versions: maps.Clone(cp.versions), Seen: maps.Clone(cp.seen), Updated: cp.updated, Immutable: true,
		Values: make(map[string]saver.Value, len(changed))}
	for _, c := range captured {
		name, v := c.channel, c.value
		if _, isNew := changed[name]; !isNew {
			continue
		}
		if name == chTasks {
			v = e.g.sanitizeAll(v)
		}
		value, err := e.encodeChannel(name, v)
		if err != nil {
			return out, err
		}
		out.Values[name] = value
	}
	return out, nil
}

func (g *Graph) sanitizeAll(v any) any {
	list, ok := v.([]any)
	if !ok || !g.untracked {
		return v
	}
	out := make([]any, len(list))
	for i, p := range list {
		out[i] = g.sanitize(p)
	}
	return out
}

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

// plainCodec serializes what does not go to the saver. It is the saver's codec, if there is
// one.
func (e *encoder) plainCodec() serde.Serializer {
	if e.codec != nil {
		return e.codec
	}
	return serde.Default()
}
