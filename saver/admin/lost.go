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
	What       string `json:"what"` // "checkpoint", "writes", or the key of an item of another kind
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

func lostItem(it export.LostItem) LostCheckpoint {
	l := LostCheckpoint{Thread: threadName(it.Partition), What: fmt.Sprintf("item %q", it.Key)}
	if k, ok := layout.ParseItem(it.Key); ok {
		l.Namespace, l.Checkpoint, l.What = k.Namespace, k.CheckpointID, k.Kind
	}
	return l
}

// lostValues are the lost values of items that are not in items, the lost items.
func lostValues(ls []check.Lost, items map[export.LostItem]bool) []LostValue {
	out := []LostValue{}
	for _, v := range ls {
		k, ok := layout.ParseItem(v.Key)
		if !ok || items[export.LostItem{Partition: v.Partition, Key: v.Key}] {
			continue // listed as a lost item
		}
		l := LostValue{Thread: threadName(v.Partition), Namespace: k.Namespace, Checkpoint: k.CheckpointID, Channel: v.Name, Finding: findingOf(v.Err)}
		if k.Kind == "writes" {
			l.Task = v.First
		}
		out = append(out, l)
	}
	return out
}

// losses divides lost values into the items that are lost with them, because they cannot do
// without the value, and the other values.
func losses(ls []check.Lost) ([]LostCheckpoint, []LostValue) {
	gone, items := map[export.LostItem]bool{}, []LostCheckpoint{}
	for _, l := range ls {
		it := export.LostItem{Partition: l.Partition, Key: l.Key}
		if replacement(l) == nil && !gone[it] {
			gone[it] = true
			items = append(items, lostItem(it))
		}
	}
	return items, lostValues(ls, gone)
}
