package layout

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"strings"

	"github.com/stele-go/stele/base"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver"
)

// Keys of the engine. docs/format/key.md has them byte by byte.
//
//	partition "t" + thread id     entries: checkpoints and task writes of a thread
//	partition "r" + run id        entries: the threads the run stored checkpoints in
//	partition "s" + labels        items of package store, which owns them; Erase deletes such partitions
//	partition "n" + group         results of package cache, which owns them
//	partition "x" + hash          the memory of an erased thread
//	partition "o"                 entries: the stores this one was salvaged from
//	partition "l"                 entries: the TTLs of threads that have their own
//	partition "e"                 entries: erasures that files may still contradict
//	partition "b"                 entries: the threads with the greatest checkpoint ids
//	partition "h"                 an entry: the store was released, after it was restored
//	partition "q" + client        entries: the last calls of a client of a server
//
//	entry "c" + ns + id         a checkpoint
//	entry "w" + ns + id + LSN   what one call wrote against a checkpoint
//	entry "a" + ns + id         how often runs began from a checkpoint
//
// A namespace, and an id within a key, is escaped and terminated, so that keys
// sort as their parts do.

const (
	SpaceThread  = "t" // a thread
	SpaceRun     = "r" // a run
	SpaceItems   = "s" // a namespace of package store
	SpaceResults = "n" // a group of package cache
	SpaceErased  = "x" // the memory of an erased thread
	SpaceCalls   = "q" // a client of a server
	// OriginPartition has an entry for each store that this one was salvaged from; the key
	// is its number. Threads erased there are remembered by hashes with that number.
	OriginPartition = "o"
	// TTLPartition has an entry for each thread with a TTL of its own: the key is the thread's
	// id, the TTL the tag of its slot.
	TTLPartition = "l"
	// ErasuresPartition has an entry for each erasure that files may still contradict; the key
	// is the hash.
	ErasuresPartition = "e"
	// NewestPartition has an entry for each of the threads with the greatest checkpoint ids, as far
	// as they were known at the last Close: the key is the thread's id, the tag of its slot the
	// greatest checkpoint id. An entry with no key is for all others: its tag is the greatest id that
	// they may have, its name the number of the store, 8 bytes big-endian.
	NewestPartition = "b"
	// ReleasePartition has an entry with no key, written when a store that was restored was released last; only its LSN
	// counts. See engine.Engine.HeldUpTo.
	ReleasePartition = "h"

	// The first byte of an entry's key says what the entry is.

	KeyCheckpoint = 'c' // a checkpoint
	KeyWrites     = 'w' // what one call wrote against a checkpoint
	keyAttempts   = 'a' // how often runs began from a checkpoint

	terminator = "\x00\x00"
)

// Escape doubles no byte but NUL, which becomes NUL FF: above the terminator.
func Escape(s string) string {
	if strings.IndexByte(s, 0) < 0 {
		return s + terminator
	}
	return strings.ReplaceAll(s, "\x00", "\x00\xff") + terminator
}

// unescape takes an escaped string off the front of key. What Escape does not
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

// ThreadKey is the id of a thread's partition.
func ThreadKey(threadID string) string { return SpaceThread + threadID }

// ItemsKey begins the keys of a namespace of package store and of all below it.
func ItemsKey(labels []string) string {
	key := SpaceItems
	for _, label := range labels {
		key += Escape(label)
	}
	return key
}

// signalsSpace is the first label of the namespaces of signals to threads.
const signalsSpace = "__stele_signals__"

// Inbox is the namespace of package store below which the signals to a thread lie that nobody has taken, those that were
// refused, and the keys that were used. Former is where earlier releases put them all. An erasure of the thread erases both.
func Inbox(threadID string) (labels, former []string) {
	label := base64.RawURLEncoding.EncodeToString([]byte(threadID)) // which may not be any text
	return []string{signalsSpace, "~" + label}, []string{signalsSpace, label}
}

// RunKey is the id of a run's partition.
func RunKey(runID string) string { return SpaceRun + runID }

// CheckpointPrefix begins the keys of all checkpoints of a namespace.
func CheckpointPrefix(ns string) string { return string(KeyCheckpoint) + Escape(ns) }

// CheckpointKey is the key of a checkpoint.
func CheckpointKey(ns, id string) string { return CheckpointPrefix(ns) + id }

// ParseCheckpointKey splits the key of a checkpoint.
func ParseCheckpointKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != KeyCheckpoint {
		return "", "", false
	}
	return unescape(key[1:])
}

// WritesPrefix begins the keys of all writes against a checkpoint.
func WritesPrefix(ns, id string) string {
	if strings.IndexByte(ns, 0) < 0 && strings.IndexByte(id, 0) < 0 {
		return string(KeyWrites) + ns + terminator + id + terminator
	}
	return string(KeyWrites) + Escape(ns) + Escape(id)
}

// writesSuffix is the length of the end of a key that distinguishes the batches of one checkpoint:
// record and number.
const writesSuffix = 8 + 2

// WritesKey is the key of the n-th batch of writes a commit stores: commit order
// is key order.
func WritesKey(ns, id string, lsn base.LSN, n int) string {
	var suffix [writesSuffix]byte
	binary.BigEndian.PutUint64(suffix[:], uint64(lsn))
	binary.BigEndian.PutUint16(suffix[8:], uint16(n))
	return WritesPrefix(ns, id) + string(suffix[:])
}

// ParseWritesKey splits the key of a batch of writes.
func ParseWritesKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != KeyWrites {
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

// AttemptsKey is the key of the count of attempts at recovery from a checkpoint.
func AttemptsKey(ns, id string) string { return string(keyAttempts) + Escape(ns) + id }

// parseAttemptsKey splits such a key.
func parseAttemptsKey(key string) (ns, id string, ok bool) {
	if key == "" || key[0] != keyAttempts {
		return "", "", false
	}
	return unescape(key[1:])
}

// HotEntries selects the entries that are read often: the newest checkpoint of each namespace and its
// writes. entries are in the order of keys.
func HotEntries(entries []*index.Entry) []bool {
	hot := make([]bool, len(entries))
	heads := map[string]string{} // namespace → id of its newest checkpoint
	for i, it := range entries {
		ns, id, ok := ParseCheckpointKey(it.Key)
		if !ok {
			continue
		}
		heads[ns] = id
		last := i+1 == len(entries)
		if !last {
			next, _, ok := ParseCheckpointKey(entries[i+1].Key)
			last = !ok || next != ns
		}
		hot[i] = last
	}
	for i, it := range entries {
		switch ns, id, ok := ParseWritesKey(it.Key); {
		case ok:
			head, has := heads[ns]
			hot[i] = !has || id >= head
		case it.Key != "" && it.Key[0] != KeyCheckpoint:
			hot[i] = true
		}
	}
	return hot
}

// SeriesOf is the engine's name for the values that a slot continues: those of a
// channel in one namespace, or its checkpoint records. A task's write continues
// nothing.
func SeriesOf(it *index.Entry, slot int, name string) string {
	_, id, ok := ParseCheckpointKey(it.Key)
	if !ok {
		return ""
	}
	ns := it.Key[:len(it.Key)-len(id)]
	if slot == 0 {
		return ns + RecordSeries
	}
	return ns + name
}

// IsRecord reports whether a slot holds a checkpoint's record: all that listing
// checkpoints reads.
func IsRecord(it *index.Entry, slot int) bool {
	return slot == 0 && it.Key != "" && it.Key[0] == KeyCheckpoint
}

// EntryKey is the decoded key of an entry of a thread, for tools.
type EntryKey struct {
	Kind         string // "checkpoint", "writes" or "attempts"
	Namespace    string
	CheckpointID string
}

// ParseEntry decodes the key of an entry, in the format of docs/format/key.md. It returns false for a
// key of another kind.
func ParseEntry(key string) (EntryKey, bool) {
	if ns, id, ok := ParseCheckpointKey(key); ok {
		return EntryKey{"checkpoint", ns, id}, true
	}
	if ns, id, ok := parseAttemptsKey(key); ok {
		return EntryKey{"attempts", ns, id}, true
	}
	ns, id, ok := ParseWritesKey(key)
	return EntryKey{"writes", ns, id}, ok
}

// ParseVersion reads the tag of a channel's slot, a packed version, for tools.
func ParseVersion(tag string) (saver.Version, error) { return unpackVersion(tag) }

// RecordSeries is the series of checkpoint records; no channel's name begins like it.
const RecordSeries = "\x00checkpoint"

// ErasedHash returns the hash that is kept in place of the id of an erased thread. store is the number
// of the store.
func ErasedHash(store uint64, threadID string) string {
	b := binary.BigEndian.AppendUint64([]byte("stele erased\x00"), store)
	sum := sha256.Sum256(append(b, threadID...))
	return hex.EncodeToString(sum[:])
}

// ErasedThread is the engine's thread that remembers the erasure of a thread in the
// store with a number.
func ErasedThread(store uint64, threadID string) string {
	return SpaceErased + ErasedHash(store, threadID)
}
