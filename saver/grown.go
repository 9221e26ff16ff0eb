package saver

import (
	"maps"
	"math"

	"github.com/stele-go/stele/internal/engine"
)

// ValueGrown is ValueOf(list) from a caller who knows what list is: the value its
// channel has in the checkpoint that Put is given as the parent, with the last n
// elements appended, none of the others changed. A saver that has the bytes of that
// value at hand then encodes only the last n; what it stores is the same. Where the
// saver does not have them, or the parent is not what was stored last, or the list
// is not as long as the caller said, it encodes the whole. Of the other elements the
// first and the last are compared with what is stored; a change to one between them
// goes unseen. A list that is not a slice, or an n below 1, is as with ValueOf.
func ValueGrown(list any, n int) Value {
	v := ValueOf(list)
	if v.state == valueNative && n > 0 && n <= math.MaxInt32 {
		v.grown = int32(n)
	}
	return v
}

// grownValues encodes the values of ValueGrown from where they grew, as far as that
// can be done. It returns them for the engine, and the values of the checkpoint
// with these serialized.
func (s *Disk) grownValues(req *PutRequest, codec *laps) (map[string]engine.Value, map[string]Value) {
	if req.Config.CheckpointID == "" || req.ValuesFrom != nil {
		return nil, req.Checkpoint.Values
	}
	var out map[string]engine.Value
	values := req.Checkpoint.Values
	for channel := range req.NewVersions {
		v := req.Checkpoint.Values[channel]
		if v.grown == 0 {
			continue
		}
		stored, whole, ok := s.grownValue(codec, req.Config, channel, v)
		if !ok {
			continue
		}
		typed, err := splitTyped(whole)
		if err != nil {
			continue
		}
		if out == nil {
			out, values = map[string]engine.Value{}, maps.Clone(values)
		}
		out[channel], values[channel] = stored, ValueTyped(typed)
	}
	return out, values
}

// grownValue is the value of one channel, if what it grew from is the last value of
// the channel that was stored, is that of the parent, and is in memory.
func (s *Disk) grownValue(codec *laps, cfg Config, channel string, v Value) (stored engine.Value, whole []byte, ok bool) {
	line := engine.Line{Thread: threadKey(cfg.ThreadID), Group: cfg.Namespace, Name: channel}
	last, ok := s.e.Last(line)
	if !ok {
		return stored, nil, false
	}
	t, err := s.e.Thread(line.Thread)
	if err != nil || t == nil {
		return stored, nil, false
	}
	slot := findSlot(channelSlots(t.Get(checkpointKey(cfg.Namespace, cfg.CheckpointID))), channel)
	if slot == nil || slot.Ref != last.Ref() {
		return stored, nil, false
	}
	before := last.Bytes()
	was, err := splitTyped(before)
	if err != nil {
		return stored, nil, false
	}
	g, ok := codec.encodeGrown(was, v.content, int(v.grown))
	if !ok {
		return stored, nil, false
	}
	kind := len(before) - len(was.Data)
	head := append(append(make([]byte, 0, kind+len(g.Head)), before[:kind]...), g.Head...)
	stored, whole, err = s.e.NewGrown(last, head, kind+g.From, g.Tail)
	return stored, whole, err == nil
}
