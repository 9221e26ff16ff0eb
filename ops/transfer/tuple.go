package transfer

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Tuple is a checkpoint and all that belongs to it, as saver.Tuple, with the typed bytes of
// its values in memory.
type Tuple struct {
	// Config names the checkpoint.
	Config saver.Config
	// Parent is the id of the parent; "" if there is none. The parent need not exist.
	Parent string
	V      int
	TS     string
	// Channels are ascending by name, each once.
	Channels []Channel
	Seen     map[string]map[string]saver.Version
	Updated  []string // nil if unknown
	Metadata saver.Metadata
	// Writes are in the order of (task path, task id, index).
	Writes []PendingWrite
	Note   *saver.Note
	// TTL is what saver.Saver.SetTTL has set for the thread, in every tuple of it; 0 for the
	// default, or if the source knows none.
	TTL time.Duration
}

// Channel is a channel of a checkpoint.
type Channel struct {
	Name    string
	Version saver.Version
	// State says whether the channel has a value, and where it is.
	State ChannelState
	// Value is set if State is Given.
	Value serde.Typed
}

// ChannelState says which value a channel of a Tuple has.
type ChannelState uint8

// The states of a Channel.
const (
	Empty ChannelState = iota // the channel has no value
	Given                     // Channel.Value
	Same                      // the value, and the version, that the channel has in the parent, an earlier tuple
)

// PendingWrite is a pending write with its typed bytes.
type PendingWrite struct {
	TaskID, TaskPath, Channel string
	Index                     int
	Value                     serde.Typed
}

// TupleOf makes a Tuple of one that a saver returned. It reads all values. A value that cannot be read is an
// error that names it.
//
// Savers show packets of checkpoints of format 3 or older as a channel of the checkpoint,
// although they are stored as writes of the parent. The tuple has them only as these writes.
func TupleOf(from *saver.Tuple) (*Tuple, error) {
	cp := &from.Checkpoint
	tup := &Tuple{Config: from.Config.At(from.Config.CheckpointID), V: cp.V, TS: cp.TS, Seen: cp.Seen, Updated: cp.Updated,
		Metadata: from.Metadata, Note: from.Note}
	if from.Parent != nil {
		tup.Parent = from.Parent.CheckpointID
	}
	for name, version := range cp.Versions {
		v := cp.Values[name]
		switch {
		case name == saver.ChannelTasks && v.IsNative() && cp.V < firstVersionWithTasks:
			continue
		case v.IsZero():
			tup.Channels = append(tup.Channels, Channel{Name: name, Version: version})
			continue
		}
		typed, err := v.Typed()
		if err != nil {
			return nil, fmt.Errorf("channel %q: %w", name, err)
		}
		tup.Channels = append(tup.Channels, Channel{name, version, Given, typed})
	}
	for _, w := range from.PendingWrites {
		typed, err := w.Value.Typed()
		if err != nil {
			return nil, fmt.Errorf("write of task %q on channel %q: %w", w.TaskID, w.Channel, err)
		}
		tup.Writes = append(tup.Writes, PendingWrite{w.TaskID, w.TaskPath, w.Channel, w.Index, typed})
	}
	tup.sort()
	return tup, nil
}

// firstVersionWithTasks is the first format of checkpoints that stores packets in a channel.
const firstVersionWithTasks = 4

// sort brings channels and writes into the order of a Tuple.
func (tup *Tuple) sort() {
	slices.SortFunc(tup.Channels, func(a, b Channel) int { return strings.Compare(a.Name, b.Name) })
	slices.SortStableFunc(tup.Writes, func(a, b PendingWrite) int {
		return cmp.Or(cmp.Compare(a.TaskPath, b.TaskPath), cmp.Compare(a.TaskID, b.TaskID), cmp.Compare(a.Index, b.Index))
	})
}

// bytes is about how much memory the values of tup take.
func (tup *Tuple) bytes() (n int64) {
	for i := range tup.Channels {
		n += int64(len(tup.Channels[i].Value.Data))
	}
	for i := range tup.Writes {
		n += int64(len(tup.Writes[i].Value.Data))
	}
	return n
}

// request is the call that stores tup.
func (tup *Tuple) request() (saver.PutRequest, error) {
	cfg := tup.Config
	cfg.CheckpointID = tup.Parent
	req := saver.PutRequest{Config: cfg, Metadata: tup.Metadata, Note: tup.Note, NewVersions: map[string]saver.Version{},
		Checkpoint: saver.Checkpoint{V: tup.V, ID: tup.Config.CheckpointID, TS: tup.TS, Seen: tup.Seen, Updated: tup.Updated,
			Values: map[string]saver.Value{}, Versions: make(map[string]saver.Version, len(tup.Channels))}}
	for _, c := range tup.Channels {
		req.Checkpoint.Versions[c.Name] = c.Version
		switch {
		case c.State == Given:
			req.Checkpoint.Values[c.Name] = saver.ValueTyped(c.Value)
			req.NewVersions[c.Name] = c.Version
		case c.State == Empty && !c.Version.IsNull():
			// Named, or the channel would take the value that another checkpoint of the
			// namespace has at this version.
			req.NewVersions[c.Name] = c.Version
		}
	}
	var err error
	req.Writes, err = taskWrites(tup.Writes)
	return req, err
}
