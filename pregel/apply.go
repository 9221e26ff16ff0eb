package pregel

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// applier applies the writes of a superstep to a checkpoint and its channels. It
// may be used for one superstep after another.
type applier struct {
	cp       *liveCheckpoint
	set      *channelSet
	triggers map[string][]string
	// next mints a version; nil leaves all versions as they are, for snapshots.
	next func(saver.Version) (saver.Version, error)
	// unknown is told about writes to channels that do not exist; may be nil.
	unknown func(node, channel string)

	cells []cell // one for each channel, in the order of the set
	order []int  // the channels that are written to, in the order of first mention
}

// cell is what happens to one channel in a superstep.
type cell struct {
	before  channel.Channel // as it was; nil if it was not touched
	writes  int             // how many values it gets
	values  []any
	bumped  bool // it gets a new version
	updated bool // it changed and is available
}

// apply applies tasks in the order of their paths, which it puts them in, and
// returns the names of the channels that were updated and are available, sorted.
// After an error neither the checkpoint nor any channel has changed.
func (a *applier) apply(tasks []taskWrites) ([]string, error) {
	byPath := func(x, y taskWrites) int { return strings.Compare(x.path, y.path) }
	if !slices.IsSortedFunc(tasks, byPath) {
		slices.SortStableFunc(tasks, byPath)
	}
	step := slices.ContainsFunc(tasks, func(t taskWrites) bool { return len(t.triggers) > 0 })
	var version saver.Version
	if a.next != nil {
		var err error
		if version, err = a.next(a.cp.maxVersion()); err != nil {
			return nil, err
		}
	}
	if a.cells == nil {
		a.cells = make([]cell, len(a.set.list))
	}
	applied := false
	defer func() { // also when a reducer panics
		for i := range a.cells {
			if c := &a.cells[i]; !applied && c.before != nil {
				a.set.list[i] = c.before
			}
		}
		clear(a.cells)
		a.order = a.order[:0]
	}()
	if err := a.changeChannels(tasks, step); err != nil {
		return nil, err
	}
	applied = true
	for _, t := range tasks {
		a.see(t)
	}
	shown := 0
	for _, c := range a.cells {
		if c.updated {
			shown++
		}
	}
	updated := make([]string, 0, shown)
	for i, c := range a.cells {
		if c.bumped {
			a.cp.versions[a.set.names[i]] = version
		}
		if c.updated {
			updated = append(updated, a.set.names[i])
		}
	}
	slices.Sort(updated)
	return updated, nil
}

// see records the versions that a task's triggers had when it ran.
func (a *applier) see(t taskWrites) {
	old, known := a.cp.seen[t.node]
	moved := func(ch string) bool {
		v, ok := a.cp.versions[ch]
		return ok && old[ch] != v
	}
	if known && !slices.ContainsFunc(t.triggers, moved) {
		return
	}
	seen := make(map[string]saver.Version, max(len(old), len(t.triggers)))
	maps.Copy(seen, old)
	for _, ch := range t.triggers {
		if v, ok := a.cp.versions[ch]; ok {
			seen[ch] = v
		}
	}
	a.cp.seen[t.node] = seen
}

// touch remembers the i-th channel as it was before this superstep.
func (a *applier) touch(i int) channel.Channel {
	ch := a.set.list[i]
	if a.cells[i].before == nil {
		a.cells[i].before = ch.Copy()
	}
	return ch
}

// moved records a change. Snapshots apply writes without new versions; then nothing counts as
// updated.
func (a *applier) moved(i int, mayTrigger bool) {
	if a.next == nil {
		return
	}
	c := &a.cells[i]
	c.bumped = true
	c.updated = c.updated || mayTrigger && a.set.list[i].Available()
}

// changeChannels consumes, updates and finishes channels.
func (a *applier) changeChannels(tasks []taskWrites, step bool) error {
	for _, t := range tasks {
		for _, name := range t.triggers {
			if i, ok := a.set.index[name]; ok && !reserved[name] {
				if a.touch(i).Consume() {
					a.moved(i, false)
				}
			}
		}
	}
	a.group(tasks)
	for _, i := range a.order {
		changed, err := updateChannel(a.set.names[i], a.touch(i), a.cells[i].values)
		if err != nil {
			var ue *channel.UpdateError
			if errors.As(err, &ue) {
				ue.Nodes = writersOf(tasks, a.set.names[i])
			}
			return err
		}
		if changed {
			a.moved(i, true)
		}
	}
	if !step {
		return nil
	}
	for i, ch := range a.set.list {
		if a.cells[i].updated || !ch.Available() {
			continue
		}
		changed, err := ch.Update(nil)
		if err != nil {
			return err
		}
		if changed {
			a.moved(i, true)
		}
	}
	if a.triggersAny() {
		return nil
	}
	for i, ch := range a.set.list {
		if ch.Finish() {
			a.moved(i, true)
		}
	}
	return nil
}

// updateChannel is ch.Update; a reducer that panics has refused.
func updateChannel(name string, ch channel.Channel, values []any) (changed bool, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &channel.UpdateError{Channel: name, Reason: "the reducer panicked", Err: panicError(p)}
		}
	}()
	return ch.Update(values)
}

// group collects the values for each channel in the order of tasks and writes.
func (a *applier) group(tasks []taskWrites) {
	sum := 0
	for _, t := range tasks {
		for _, w := range t.writes {
			if skippedByApply[w.channel] {
				continue
			}
			i, ok := a.set.index[w.channel]
			if !ok {
				if a.unknown != nil {
					a.unknown(t.node, w.channel)
				}
				continue
			}
			if a.cells[i].writes == 0 {
				a.order = append(a.order, i)
			}
			a.cells[i].writes++
			sum++
		}
	}
	values := make([]any, sum) // shared by all; each part is clipped, because channels may keep it
	for _, i := range a.order {
		n := a.cells[i].writes
		a.cells[i].values, values = values[:0:n], values[n:]
	}
	for _, t := range tasks {
		for _, w := range t.writes {
			if i, ok := a.set.index[w.channel]; ok && !skippedByApply[w.channel] {
				c := &a.cells[i]
				c.values = append(c.values, w.value)
			}
		}
	}
}

// writersOf are the nodes that wrote to a channel, sorted.
func writersOf(tasks []taskWrites, name string) []string {
	var nodes []string
	for _, t := range tasks {
		if slices.ContainsFunc(t.writes, func(w write) bool { return w.channel == name }) {
			nodes = append(nodes, t.node)
		}
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

func (a *applier) triggersAny() bool {
	for i, c := range a.cells {
		if _, ok := a.triggers[a.set.names[i]]; ok && c.updated {
			return true
		}
	}
	return false
}

// union is the names in a or b, sorted.
func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}
