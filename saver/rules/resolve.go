package rules

import (
	"cmp"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// WriteIndex is the index under which the i-th write of a task is stored: i, or a fixed
// negative number on a special channel. Special writes count too, so that the index of a
// write is always its position.
func WriteIndex(channel string, i int) int {
	switch channel {
	case saver.ChannelError:
		return -1
	case saver.ChannelScheduled:
		return -2
	case saver.ChannelInterrupt:
		return -3
	case saver.ChannelResume:
		return -4
	}
	return i
}

// ComparePendingWrites is the order of pending writes: task path, task id,
// index. It is the order in which a superstep applies its tasks, so that a
// replay gives the state the run had.
func ComparePendingWrites(a, b saver.PendingWrite) int {
	return cmp.Or(cmp.Compare(a.TaskPath, b.TaskPath), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Index, b.Index))
}

// ResolveWrites takes the writes of one checkpoint in commit order, drops repeated ones and
// sorts the others. Of several writes of one task at one index the first counts, on a
// special channel the last. It may reuse the memory of writes.
func ResolveWrites(writes []saver.PendingWrite) []saver.PendingWrite {
	kept := writes[:0]
	if len(writes) > fewWrites {
		kept = resolveMany(writes)
	} else {
		for _, w := range writes {
			i := slices.IndexFunc(kept, func(k saver.PendingWrite) bool { return k.Index == w.Index && k.TaskID == w.TaskID })
			switch {
			case i < 0:
				kept = append(kept, w)
			case w.Index < 0:
				kept[i] = w
			}
		}
	}
	slices.SortStableFunc(kept, ComparePendingWrites)
	return kept
}

// PendingWrites are the writes of one checkpoint as a Tuple has them, never nil. calls are those
// that wrote against it, in commit order. The values share the bytes of calls, and codec decodes
// them.
func PendingWrites(calls []WritesPlan, codec serde.Serializer) []saver.PendingWrite {
	writes := []saver.PendingWrite{}
	for i := range calls {
		c := &calls[i]
		for j, channel := range c.Channels {
			writes = append(writes, saver.PendingWrite{
				TaskID: c.TaskID, TaskPath: c.TaskPath, Channel: channel, Index: c.Index(j),
				Value: saver.ValueShared(c.Values[j], codec),
			})
		}
	}
	return ResolveWrites(writes)
}

// OnChannel reports whether one of the writes of a checkpoint, given in commit order, is on
// the channel when repeated ones are dropped. It may reuse the memory of writes.
func OnChannel(writes []saver.PendingWrite, channel string) bool {
	on := func(w saver.PendingWrite) bool { return w.Channel == channel }
	return slices.ContainsFunc(writes, on) && slices.ContainsFunc(ResolveWrites(writes), on)
}

// fewWrites: up to this number of writes a linear search is faster than a map.
const fewWrites = 8

func resolveMany(writes []saver.PendingWrite) []saver.PendingWrite {
	type key struct {
		task  string
		index int
	}
	at := make(map[key]int, len(writes))
	kept := writes[:0]
	for _, w := range writes {
		k := key{w.TaskID, w.Index}
		i, seen := at[k]
		switch {
		case !seen:
			at[k] = len(kept)
			kept = append(kept, w)
		case w.Index < 0:
			kept[i] = w
		}
	}
	return kept
}
