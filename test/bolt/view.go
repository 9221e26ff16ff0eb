package bolt

import (
	"maps"
	"slices"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/rules"
)

// spaceView is a namespace in memory. It implements rules.PruneView.
type spaceView struct {
	checkpoints map[string]*checkpoint
	calls       map[string][]rules.WritesPlan
}

// view reads a namespace.
func (n *space) view() (*spaceView, error) {
	v := &spaceView{checkpoints: map[string]*checkpoint{}, calls: map[string][]rules.WritesPlan{}}
	for _, id := range n.ids() {
		var err error
		if v.checkpoints[id], err = n.checkpoint(id); err != nil {
			return nil, err
		}
		if v.calls[id], err = n.calls(id); err != nil {
			return nil, err
		}
	}
	return v, nil
}

// Parent implements rules.PruneView.
func (v *spaceView) Parent(id string) (string, bool) {
	cp := v.checkpoints[id]
	if cp == nil {
		return "", false
	}
	return cp.Parent, true
}

// Valueless implements rules.PruneView.
func (v *spaceView) Valueless(id string) (channels []string, told bool) {
	cp := v.checkpoints[id]
	for _, channel := range slices.Sorted(maps.Keys(cp.Slots)) {
		if !cp.Slots[channel].isFilled() && (cp.Note == nil || slices.Contains(cp.Note.Deltas, channel)) {
			channels = append(channels, channel)
		}
	}
	return channels, cp.Note != nil
}

// HasValue implements rules.PruneView.
func (v *spaceView) HasValue(id, channel string) bool {
	return v.checkpoints[id].Slots[channel].isFilled()
}

// HasWrite implements rules.PruneView.
func (v *spaceView) HasWrite(id, channel string) bool {
	return slices.ContainsFunc(rules.PendingWrites(v.calls[id], nil), func(w saver.PendingWrite) bool { return w.Channel == channel })
}

// Format implements rules.PruneView.
func (v *spaceView) Format(id string) int { return v.checkpoints[id].V }

// threadView is a thread in memory. It implements rules.RetainView.
type threadView struct {
	id     string
	spaces map[string]*spaceView
}

// ThreadID implements rules.RetainView.
func (v threadView) ThreadID() string { return v.id }

// Checkpoints implements rules.RetainView.
func (v threadView) Checkpoints() map[string][]string {
	out := map[string][]string{}
	for ns, n := range v.spaces {
		out[ns] = slices.Sorted(maps.Keys(n.checkpoints))
	}
	return out
}

// Namespace implements rules.RetainView.
func (v threadView) Namespace(ns string) rules.PruneView { return v.spaces[ns] }

// Created implements rules.RetainView.
func (v threadView) Created(ns, id string) (string, error) {
	return v.spaces[ns].checkpoints[id].TS, nil
}

// Values implements rules.RetainView. Values of channels have numbers, and the others have the
// place where they are.
func (v threadView) Values(ns, id string, fn func(value any, bytes int64)) {
	type place struct {
		ns, id      string
		call, write int
	}
	cp := v.spaces[ns].checkpoints[id]
	fn(place{ns, id, -1, 0}, int64(len(cp.Metadata.Data)))
	for _, sl := range cp.Slots {
		if sl.isFilled() {
			fn(sl.Number, int64(sl.Size))
		}
	}
	for i, c := range v.spaces[ns].calls[id] {
		for j, w := range c.Values {
			fn(place{ns, id, i, j}, int64(len(w.Data)))
		}
	}
}

// Writes implements rules.RetainView.
func (v threadView) Writes(ns, id string) int {
	sum := 0
	for _, c := range v.spaces[ns].calls[id] {
		sum += len(c.Channels)
	}
	return sum
}
