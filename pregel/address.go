package pregel

import (
	"maps"

	"github.com/stele-go/stele/saver"
)

// Address says where a call works: on which thread, in which graph inside, and at which
// checkpoint. Thread makes the address of a thread; snapshots have those of their
// checkpoints. The zero Address names no thread. Only a graph without a saver runs there.
type Address struct {
	// ThreadID names the thread.
	ThreadID string
	// Namespace addresses a graph inside this one, as snapshots name it.
	Namespace string
	// CheckpointID names a checkpoint. A run begins there: it goes back in time, unless
	// that is the newest and the run answers a question. "" is the newest.
	CheckpointID string
	// CheckpointMap names the checkpoints of other namespaces that belong with it.
	CheckpointMap map[string]string

	inside bool
}

// Thread is the address of a thread, at its newest checkpoint. A thread is kept by Options.Saver: without one nothing is.
func Thread(id string) Address { return Address{ThreadID: id} }

// Inside is the address at which a node runs another graph as a part of its own run:
// that graph has the thread, the saver and the limits of the run, and a namespace of its
// own. Every other address makes a run of its own, also in a node.
func Inside() Address { return Address{inside: true} }

// At is the address of a checkpoint in a's thread and namespace.
func (a Address) At(checkpointID string) Address {
	return Address{ThreadID: a.ThreadID, Namespace: a.Namespace, CheckpointID: checkpointID}
}

func (a Address) place() saver.Config {
	return saver.Config{ThreadID: a.ThreadID, Namespace: a.Namespace, CheckpointID: a.CheckpointID}
}

// addressOf is the address of a stored checkpoint. It names the checkpoints of the graphs
// around, so that going back there finds them as they were.
func addressOf(p saver.Config, md saver.Metadata) Address {
	a := Address{ThreadID: p.ThreadID, Namespace: p.Namespace, CheckpointID: p.CheckpointID}
	parents := parentsOf(md)
	if len(parents) == 0 {
		return a
	}
	a.CheckpointMap = make(map[string]string, len(parents)+1)
	for ns, id := range parents {
		if id, ok := id.(string); ok {
			a.CheckpointMap[ns] = id
		}
	}
	a.CheckpointMap[a.Namespace] = a.CheckpointID
	return a
}

// parentsOf are the checkpoints of the graphs around that metadata names, by namespace.
func parentsOf(md saver.Metadata) map[string]any {
	parents, _ := md["parents"].(map[string]any)
	return parents
}

// merged returns the entries of under and over; those of over win. It is a new map unless over is
// empty.
func merged[V any](under, over map[string]V) map[string]V {
	if len(over) == 0 {
		return under
	}
	out := make(map[string]V, len(under)+len(over))
	maps.Copy(out, under)
	maps.Copy(out, over)
	return out
}
