package saver

import (
	"cmp"
	"slices"
)

// WriteIndex is the index under which the i-th write of a task is stored: i, or a fixed
// negative number on a special channel. Special writes count too, so that the index of a
// write is always its position.
func WriteIndex(channel string, i int) int {
	switch channel {
	case ChannelError:
		return -1
	case ChannelScheduled:
		return -2
	case ChannelInterrupt:
		return -3
	case ChannelResume:
		return -4
	}
	return i
}

// Compare is the order of pending writes: task path, task id,
// index. It is the order in which a superstep applies its tasks, so that a
// replay gives the state the run had.
func (a PendingWrite) Compare(b PendingWrite) int {
	return cmp.Or(cmp.Compare(a.TaskPath, b.TaskPath), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Index, b.Index))
}

// ResolveWrites takes the writes of one checkpoint in commit order, drops repeated ones and
// sorts the others. Of several writes of one task at one index the first counts, on a
// special channel the last. It may reuse the memory of writes.
func ResolveWrites(writes []PendingWrite) []PendingWrite {
	kept := writes[:0]
	if len(writes) > fewWrites {
		kept = resolveMany(writes)
	} else {
		for _, w := range writes {
			i := slices.IndexFunc(kept, func(k PendingWrite) bool { return k.Index == w.Index && k.TaskID == w.TaskID })
			switch {
			case i < 0:
				kept = append(kept, w)
			case w.Index < 0:
				kept[i] = w
			}
		}
	}
	slices.SortStableFunc(kept, PendingWrite.Compare)
	return kept
}

// fewWrites: up to this number of writes a linear search is faster than a map.
const fewWrites = 8

func resolveMany(writes []PendingWrite) []PendingWrite {
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
