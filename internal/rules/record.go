package rules

import (
	"cmp"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/serde"
)

// Record is a checkpoint as savers store it: everything Put was asked for but
// the bytes of the values. Which value an unchanged channel reads is not part of
// it; that is resolved when the record is applied, in commit order.
type Record struct {
	// Checkpoint has no Values. Its other maps are not nil.
	Checkpoint saver.Checkpoint
	// Metadata is the merged metadata, serialized by EncodeMetadata.
	Metadata serde.Typed
	// Parent is the id of the checkpoint this one was put upon; "" if none.
	Parent string
	// ValuesFrom is the id of the checkpoint unchanged channels take their
	// values from; "" means the parent.
	ValuesFrom string
	// Stored names the channels a value was given for, ascending.
	Stored []string
	// Emptied names the channels that got a new version and no value, ascending.
	Emptied []string
	// Note is the engine's, or nil. Nobody changes it.
	Note *saver.Note
}

// Source is the id of the checkpoint unchanged channels take their values from,
// if their versions agree; "" if there is none.
func (r *Record) Source() string {
	if r.ValuesFrom != "" {
		return r.ValuesFrom
	}
	return r.Parent
}

// stripped is a copy of cp as a Record holds it. What is immutable is shared.
func stripped(cp saver.Checkpoint) saver.Checkpoint {
	cp.Values = nil
	shared := cp.Immutable
	cp.Immutable = false
	for _, versions := range cp.Seen {
		shared = shared && versions != nil
	}
	if shared && cp.Versions != nil && cp.Seen != nil {
		return cp
	}
	cp = cp.Clone()
	if cp.Versions == nil {
		cp.Versions = map[string]saver.Version{}
	}
	if cp.Seen == nil {
		cp.Seen = map[string]map[string]saver.Version{}
	}
	for node, versions := range cp.Seen {
		if versions == nil {
			cp.Seen[node] = map[string]saver.Version{}
		}
	}
	return cp
}

// borrowed is stripped for the time of a call: its maps are those of cp.
func borrowed(cp saver.Checkpoint) saver.Checkpoint {
	cp.Values, cp.Immutable = nil, false
	if cp.Seen == nil {
		cp.Seen = map[string]map[string]saver.Version{}
	}
	return cp
}

// CompareListing is the order of a listing: checkpoint id descending; equal ids
// by thread, then namespace, ascending.
func CompareListing(a, b saver.Config) int {
	return cmp.Or(cmp.Compare(b.CheckpointID, a.CheckpointID), cmp.Compare(a.ThreadID, b.ThreadID), cmp.Compare(a.Namespace, b.Namespace))
}
