package admin

import (
	"fmt"

	"github.com/stele-go/stele/engine/check"
	"github.com/stele-go/stele/engine/export"
	"github.com/stele-go/stele/saver/layout"
)

// LostCheckpoint is a checkpoint, or the writes of a call, that cannot be read.
type LostCheckpoint struct {
	Thread     string `json:"thread"`
	Namespace  string `json:"namespace"`
	Checkpoint string `json:"checkpoint"`
	What       string `json:"what"` // "checkpoint", "writes", or the key of an entry of another kind
}

// LostValue is a value that cannot be read: its own bytes are damaged, or those of a
// value that it is a patch against.
type LostValue struct {
	Thread     string  `json:"thread"`
	Namespace  string  `json:"namespace"`
	Checkpoint string  `json:"checkpoint"`
	Channel    string  `json:"channel"`
	Task       string  `json:"task,omitempty"` // of a pending write
	Finding    Finding `json:"finding"`
}

func lostEntry(it export.LostEntry) LostCheckpoint {
	l := LostCheckpoint{Thread: threadName(it.Partition), What: fmt.Sprintf("entry %q", it.Key)}
	if k, ok := layout.ParseEntry(it.Key); ok {
		l.Namespace, l.Checkpoint, l.What = k.Namespace, k.CheckpointID, k.Kind
	}
	return l
}

// lostValues are the lost values of entries that are not in entries, the lost entries.
func lostValues(ls []check.Lost, entries map[export.LostEntry]bool) []LostValue {
	out := []LostValue{}
	for _, v := range ls {
		k, ok := layout.ParseEntry(v.Key)
		if !ok || entries[export.LostEntry{Partition: v.Partition, Key: v.Key}] {
			continue // listed as a lost entry
		}
		l := LostValue{Thread: threadName(v.Partition), Namespace: k.Namespace, Checkpoint: k.CheckpointID, Channel: v.Name, Finding: findingOf(v.Err)}
		if k.Kind == "writes" {
			l.Task = v.First
		}
		out = append(out, l)
	}
	return out
}

// losses divides lost values into the entries that are lost with them, because they cannot do
// without the value, and the other values.
func losses(ls []check.Lost) ([]LostCheckpoint, []LostValue) {
	gone, entries := map[export.LostEntry]bool{}, []LostCheckpoint{}
	for _, l := range ls {
		it := export.LostEntry{Partition: l.Partition, Key: l.Key}
		if replacement(l) == nil && !gone[it] {
			gone[it] = true
			entries = append(entries, lostEntry(it))
		}
	}
	return entries, lostValues(ls, gone)
}
