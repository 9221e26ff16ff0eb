package saver

import (
	"encoding/binary"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/base"
)

// Keys of the engine. docs/format/key.md has them byte by byte.
//
//	thread "t" + thread id     items: checkpoints and task writes
//	thread "r" + run id        items: the threads the run stored checkpoints in
//	thread "s" + labels        items of package store, which owns them; Erase deletes such threads
//
//	item "c" + ns + id         a checkpoint
//	item "w" + ns + id + LSN   what one call wrote against a checkpoint
//
// A namespace, and an id within a key, is escaped and terminated, so that keys
// sort as their parts do.

const (
	spaceThread = "t"
	spaceRun    = "r"
	spaceItems  = "s"

	keyCheckpoint = 'c'
	keyWrites     = 'w'
	keyAttempts   = 'a'

	terminator = "\x00\x00"
)

// escape doubles no byte but NUL, which becomes NUL FF: above the terminator.
func escape(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s + terminator
	}
	return strings.ReplaceAll(s, "\x00", "\x00\xff") + terminator
}

// unescape takes an escaped string off the front of key. What escape does not
// write is refused.
func unescape(key string) (s, rest string, ok bool) {
	for i := 0; i+1 < len(key); i++ {
		if key[i] != 0 {
			continue
		}
		switch key[i+1] {
		case 0:
			return strings.ReplaceAll(key[:i], "\x00\xff", "\x00"), key[i+2:], true
		case 0xff:
			i++
		default:
			return "", "", false
		}
	}
	return "", "", false
}

func threadKey(threadID string) string { return spaceThread + threadID }

// itemsKey begins the keys of a namespace of package store and of all below it.
func itemsKey(labels []string) string {
	key := spaceItems
	for _, label := range labels {
		key += escape(label)
	}
	return key
}

func runKey(runID string) string { return spaceRun + runID }

// checkpointPrefix begins the keys of all checkpoints of a namespace.
func checkpointPrefix(ns string) string { return string(keyCheckpoint) + escape(ns) }

func checkpointKey(ns, id string) string { return checkpointPrefix(ns) + id }

// parseCheckpointKey splits the key of a checkpoint.
func parseCheckpointKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != keyCheckpoint {
		return "", "", false
	}
	return unescape(key[1:])
}

// writesPrefix begins the keys of all writes against a checkpoint.
func writesPrefix(ns, id string) string {
	if strings.IndexByte(ns, 0) < 0 && strings.IndexByte(id, 0) < 0 {
		return string(keyWrites) + ns + terminator + id + terminator
	}
	return string(keyWrites) + escape(ns) + escape(id)
}

// writesSuffix is the length of what tells the batches of one checkpoint apart:
// record and number.
const writesSuffix = 8 + 2

// writesKey is the key of the n-th batch of writes a commit stores: commit order
// is key order.
func writesKey(ns, id string, lsn base.LSN, n int) string {
	b := []byte(writesPrefix(ns, id))
	b = binary.BigEndian.AppendUint64(b, uint64(lsn))
	b = binary.BigEndian.AppendUint16(b, uint16(n))
	return string(b)
}

// parseWritesKey splits the key of a batch of writes.
func parseWritesKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != keyWrites {
		return "", "", false
	}
	if ns, key, ok = unescape(key[1:]); !ok {
		return "", "", false
	}
	id, key, ok = unescape(key)
	if !ok || len(key) != writesSuffix {
		return "", "", false
	}
	return ns, id, true
}

// attemptsKey is the key of the count of attempts at recovery from a checkpoint.
func attemptsKey(ns, id string) string { return string(keyAttempts) + escape(ns) + id }

// parseAttemptsKey splits such a key.
func parseAttemptsKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != keyAttempts {
		return "", "", false
	}
	return unescape(key[1:])
}

// hotItems selects what is read often: the newest checkpoint of each namespace
// and its writes. items are in the order of keys.
func hotItems(items []*index.Item) []bool {
	hot := make([]bool, len(items))
	heads := map[string]string{} // namespace → id of its newest checkpoint
	for i, it := range items {
		ns, id, ok := parseCheckpointKey(it.Key)
		if !ok {
			continue
		}
		heads[ns] = id
		last := i+1 == len(items)
		if !last {
			next, _, ok := parseCheckpointKey(items[i+1].Key)
			last = !ok || next != ns
		}
		hot[i] = last
	}
	for i, it := range items {
		switch ns, id, ok := parseWritesKey(it.Key); {
		case ok:
			head, has := heads[ns]
			hot[i] = !has || id >= head
		case it.Key != "" && it.Key[0] != keyCheckpoint:
			hot[i] = true
		}
	}
	return hot
}

// lineOf is the engine's name for the values that a slot continues: those of a
// channel in one namespace, or its checkpoint records. A task's write continues
// nothing.
func lineOf(it *index.Item, slot int) string {
	_, id, ok := parseCheckpointKey(it.Key)
	if !ok {
		return ""
	}
	ns := it.Key[:len(it.Key)-len(id)]
	if slot == 0 {
		return ns + recordLine
	}
	return ns + it.Slots[slot].Name
}

// isRecord reports whether a slot holds a checkpoint's record: all that listing
// checkpoints reads.
func isRecord(it *index.Item, slot int) bool {
	return slot == 0 && it.Key != "" && it.Key[0] == keyCheckpoint
}

// ItemKey is what the key of an item of a thread says, for tools.
type ItemKey struct {
	Kind         string // "checkpoint", "writes" or "attempts"
	Namespace    string
	CheckpointID string
}

// ParseItem splits the key of an item as docs/format/key.md has it; not ok for a key
// of none of these kinds.
func ParseItem(key string) (ItemKey, bool) {
	if ns, id, ok := parseCheckpointKey(key); ok {
		return ItemKey{"checkpoint", ns, id}, true
	}
	if ns, id, ok := parseAttemptsKey(key); ok {
		return ItemKey{"attempts", ns, id}, true
	}
	ns, id, ok := parseWritesKey(key)
	return ItemKey{"writes", ns, id}, ok
}

// ParseVersion reads the tag of a channel's slot, a packed version, for tools.
func ParseVersion(tag string) (Version, error) { return unpackVersion(tag) }
