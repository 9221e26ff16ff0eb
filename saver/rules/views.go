package rules

import (
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
)

// ThreadView is a thread in memory. It implements RetainView for savers that read a thread as a
// whole.
type ThreadView struct {
	ID     string
	Spaces map[string]SpaceView // by namespace
}

// SpaceView is a namespace in memory: checkpoints by id. It implements PruneView.
type SpaceView map[string]*CheckpointView

// CheckpointView is a checkpoint as the rules of removals see it.
type CheckpointView struct {
	V        int
	TS       string
	Parent   string
	Note     *saver.Note
	Metadata int64                // bytes of it
	Slots    map[string]ValueView // of all channels that have a version
	Calls    []WritesPlan         // that wrote against it, in commit order
}

// ValueView is the value of a channel of a checkpoint, as the rules of removals see it.
type ValueView struct {
	ID    any   // identifies a stored value of the thread; nil if there is no value
	Bytes int64 // of the value
}

var (
	_ PruneView  = SpaceView(nil)
	_ RetainView = (*ThreadView)(nil)
)

// Parent implements PruneView.
func (v SpaceView) Parent(id string) (parent string, ok bool) {
	cp, ok := v[id]
	if !ok {
		return "", false
	}
	return cp.Parent, true
}

// Valueless implements PruneView. The channels ascend: a report names the first of them.
func (v SpaceView) Valueless(id string) (channels []string, told bool) {
	cp := v[id]
	for channel, value := range cp.Slots {
		if value.ID == nil && (cp.Note == nil || slices.Contains(cp.Note.Deltas, channel)) {
			channels = append(channels, channel)
		}
	}
	slices.Sort(channels)
	return channels, cp.Note != nil
}

// HasValue implements PruneView.
func (v SpaceView) HasValue(id, channel string) bool { return v[id].Slots[channel].ID != nil }

// HasWrite implements PruneView.
func (v SpaceView) HasWrite(id, channel string) bool {
	return slices.ContainsFunc(PendingWrites(v[id].Calls, nil), func(w saver.PendingWrite) bool { return w.Channel == channel })
}

// Format implements PruneView.
func (v SpaceView) Format(id string) int { return v[id].V }

// ThreadID implements RetainView.
func (v *ThreadView) ThreadID() string { return v.ID }

// Checkpoints implements RetainView.
func (v *ThreadView) Checkpoints() map[string][]string {
	ids := map[string][]string{}
	for ns, n := range v.Spaces {
		ids[ns] = slices.Sorted(maps.Keys(n))
	}
	return ids
}

// Namespace implements RetainView.
func (v *ThreadView) Namespace(ns string) PruneView { return v.Spaces[ns] }

// Created implements RetainView.
func (v *ThreadView) Created(ns, id string) (string, error) { return v.Spaces[ns][id].TS, nil }

// Values implements RetainView. Metadata and writes are of their checkpoint alone.
func (v *ThreadView) Values(ns, id string, fn func(value any, bytes int64)) {
	type own struct {
		ns, id      string
		call, write int
	}
	cp := v.Spaces[ns][id]
	fn(own{ns, id, -1, 0}, cp.Metadata)
	for _, value := range cp.Slots {
		if value.ID != nil {
			fn(value.ID, value.Bytes)
		}
	}
	for i, c := range cp.Calls {
		for j, w := range c.Values {
			fn(own{ns, id, i, j}, int64(len(w.Data)))
		}
	}
}

// Writes implements RetainView.
func (v *ThreadView) Writes(ns, id string) int {
	sum := 0
	for _, c := range v.Spaces[ns][id].Calls {
		sum += len(c.Channels)
	}
	return sum
}
