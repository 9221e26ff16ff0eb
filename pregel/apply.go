package pregel

import (
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/stele-go/stele/pregel/channel"
	"github.com/stele-go/stele/saver"
)

// taskWrites is what apply needs to know of a task: also of input, answers and
// state updates, which are no tasks.
type taskWrites struct {
	path     string
	node     string
	triggers []string
	writes   []write
}

// applier applies the writes of a superstep to a checkpoint and its channels.
type applier struct {
	cp       *liveCheckpoint
	set      *channelSet
	triggers map[string][]string
	// next mints a version; nil leaves all versions as they are, for snapshots.
	next func(saver.Version) (saver.Version, error)
	// unknown is told about writes to channels that do not exist; may be nil.
	unknown func(node, channel string)

	version saver.Version
	updated map[string]bool
	backup  map[string]channel.Channel
}

// apply applies tasks in the order of their paths, and returns the names of the
// channels that were updated and are available. After an error neither the
// checkpoint nor any channel has changed.
func (a *applier) apply(tasks []taskWrites) (map[string]bool, error) {
	tasks = slices.Clone(tasks)
	slices.SortStableFunc(tasks, func(x, y taskWrites) int { return strings.Compare(x.path, y.path) })
	step := slices.ContainsFunc(tasks, func(t taskWrites) bool { return len(t.triggers) > 0 })
	if a.next != nil {
		var err error
		if a.version, err = a.next(a.cp.maxVersion()); err != nil {
			return nil, err
		}
	}
	a.updated, a.backup = map[string]bool{}, map[string]channel.Channel{}
	applied := false
	defer func() { // also when a reducer panics
		if !applied {
			maps.Copy(a.set.by, a.backup)
		}
	}()
	bumped, err := a.changeChannels(tasks, step)
	if err != nil {
		return nil, err
	}
	applied = true
	for _, t := range tasks {
		old := a.cp.seen[t.node]
		seen := make(map[string]saver.Version, max(len(old), len(t.triggers)))
		maps.Copy(seen, old)
		a.cp.seen[t.node] = seen
		for _, ch := range t.triggers {
			if v, ok := a.cp.versions[ch]; ok {
				seen[ch] = v
			}
		}
	}
	for ch := range bumped {
		a.cp.versions[ch] = a.version
	}
	return a.updated, nil
}

// changeChannels consumes, updates and finishes channels, and returns those
// that get a new version.
func (a *applier) changeChannels(tasks []taskWrites, step bool) (map[string]bool, error) {
	bumped := map[string]bool{}
	// moved records a change. With versions standing still nothing counts as
	// updated, which is how snapshots show a state.
	moved := func(name string, ch channel.Channel, mayTrigger bool) {
		if a.next == nil {
			return
		}
		bumped[name] = true
		if mayTrigger && ch.Available() {
			a.updated[name] = true
		}
	}
	for _, t := range tasks {
		for _, name := range t.triggers {
			if ch, ok := a.set.get(name); ok && !reserved[name] {
				a.keep(name, ch)
				if ch.Consume() {
					moved(name, ch, false)
				}
			}
		}
	}
	order, byChannel, writers := a.group(tasks)
	for _, name := range order {
		ch := a.set.by[name]
		a.keep(name, ch)
		changed, err := updateChannel(name, ch, byChannel[name])
		if err != nil {
			var ue *channel.UpdateError
			if errors.As(err, &ue) {
				ue.Nodes = slices.Sorted(maps.Keys(writers[name]))
			}
			return nil, err
		}
		if changed {
			moved(name, ch, true)
		}
	}
	if !step {
		return bumped, nil
	}
	for _, name := range a.set.names {
		ch := a.set.by[name]
		if a.updated[name] || !ch.Available() {
			continue
		}
		changed, err := ch.Update(nil)
		if err != nil {
			return nil, err
		}
		if changed {
			moved(name, ch, true)
		}
	}
	if !a.triggersAny() {
		for _, name := range a.set.names {
			ch := a.set.by[name]
			if ch.Finish() {
				moved(name, ch, true)
			}
		}
	}
	return bumped, nil
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

// keep remembers a channel as it was before this superstep.
func (a *applier) keep(name string, ch channel.Channel) {
	if _, ok := a.backup[name]; !ok {
		a.backup[name] = ch.Copy()
	}
}

// group collects the values for each channel in the order of tasks and writes.
func (a *applier) group(tasks []taskWrites) (order []string, values map[string][]any, writers map[string]map[string]bool) {
	values, writers = map[string][]any{}, map[string]map[string]bool{}
	for _, t := range tasks {
		for _, w := range t.writes {
			if skippedByApply[w.channel] {
				continue
			}
			if _, ok := a.set.get(w.channel); !ok {
				if a.unknown != nil {
					a.unknown(t.node, w.channel)
				}
				continue
			}
			if _, ok := values[w.channel]; !ok {
				order = append(order, w.channel)
				writers[w.channel] = map[string]bool{}
			}
			values[w.channel] = append(values[w.channel], w.value)
			writers[w.channel][t.node] = true
		}
	}
	return order, values, writers
}

func (a *applier) triggersAny() bool {
	for ch := range a.updated {
		if _, ok := a.triggers[ch]; ok {
			return true
		}
	}
	return false
}
