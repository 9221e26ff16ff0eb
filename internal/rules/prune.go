package rules

import (
	"slices"

	"github.com/stele-go/stele/saver"
)

// PruneView shows PruneMark the checkpoints of one namespace as they are before
// anything is removed.
type PruneView interface {
	// Parent is the parent's id of checkpoint id, "" if it has none. ok is false
	// if there is no such checkpoint.
	Parent(id string) (parent string, ok bool)
	// Valueless names the channels that checkpoint id has a version of, but no value,
	// and that may be delta channels. If the checkpoint has a Note, that tells which
	// are, and told is true; if not, any may be.
	Valueless(id string) (channels []string, told bool)
	// HasValue reports whether checkpoint id has a value of the channel.
	HasValue(id, channel string) bool
	// HasWrite reports whether a pending write of checkpoint id is on the
	// channel.
	HasWrite(id, channel string) bool
	// Format is the checkpoint's V.
	Format(id string) int
}

// PruneMark returns the checkpoints that must stay, besides the kept ones
// themselves, so that the state of each kept checkpoint reads as before. They
// are always ancestors of kept ones.
//
// A delta channel has a version and no value at most checkpoints. It is read by
// walking from the parent to the nearest ancestor that has a value, or to the
// root, and folding the writes met on the way, those of that ancestor included.
// So for each kept checkpoint and each delta channel without a value there: if the
// walk meets any write on the channel, every checkpoint of it stays, up to the one
// with the value, or, if there is none, up to the last one with a write. If it meets
// no write, it needs nothing.
//
// The Note of a kept checkpoint tells which channels are delta channels. Where there
// is none, every channel without a value counts as one. That keeps what is needed: a
// delta channel gets a new version only through a write, and at its next checkpoint
// has a value or none; while a channel that is empty because it was cleared, such as
// the trigger of a node, had a value at the last checkpoint it was written for, and
// no writes since. But it may keep more: the abandoned write of a trigger keeps a
// path that nobody needs. Kept.Reason tells the two apart.
//
// A checkpoint of format 3 or older also keeps its parent if the parent's tasks wrote
// packets, which are part of its state; see MigratePendingSends.
//
// What stays only as support is promised for the kept checkpoints alone: other
// channels of such an ancestor may have lost theirs.
func PruneMark(view PruneView, kept []string) map[string]saver.Kept {
	m := pruneMarker{view: view, support: map[string]saver.Kept{}, walks: map[string]*deltaPath{}}
	// In the order of ids, so that savers that list differently keep the same even
	// where checkpoints are their own ancestors. Those that tell their delta channels
	// come first: what one of them needs is not said to be kept in doubt.
	kept = slices.Sorted(slices.Values(kept))
	for _, reason := range []saver.KeptReason{saver.KeptForDelta, saver.KeptInDoubt} {
		for _, id := range kept {
			parent, ok := view.Parent(id)
			if !ok || parent == "" {
				continue
			}
			channels, told := view.Valueless(id)
			if told != (reason == saver.KeptForDelta) {
				continue
			}
			for _, channel := range channels {
				m.mark(saver.Kept{For: id, Channel: channel, Reason: reason}, parent)
			}
			if _, exists := view.Parent(parent); exists && view.Format(id) < FirstVersionWithTasks && view.HasWrite(parent, saver.ChannelTasks) {
				m.keep(parent, saver.Kept{For: id, Channel: saver.ChannelTasks, Reason: saver.KeptForPackets})
			}
		}
	}
	return m.support
}

// pruneMarker visits each checkpoint at most twice for a channel, however many
// kept ones hang below it.
type pruneMarker struct {
	view    PruneView
	support map[string]saver.Kept
	walks   map[string]*deltaPath // by channel
}

// keep keeps checkpoint id, for the first reason that is found.
func (m *pruneMarker) keep(id string, why saver.Kept) {
	if _, ok := m.support[id]; !ok {
		why.CheckpointID = id
		m.support[id] = why
	}
}

// deltaPath is what is known of the walks of one channel.
type deltaPath struct {
	from   map[string]pathFrom // of the walk that begins at this checkpoint
	marked map[string]bool     // support from here to the end of the walk
}

type pathFrom struct {
	seeded bool // it ends at a value
	writes bool // it meets a write
}

// mark keeps what why.For needs to read why.Channel, from its parent on.
func (m *pruneMarker) mark(why saver.Kept, start string) {
	channel := why.Channel
	p := m.walks[channel]
	if p == nil {
		p = &deltaPath{from: map[string]pathFrom{}, marked: map[string]bool{}}
		m.walks[channel] = p
	}
	m.explore(p, channel, start)
	if !p.from[start].writes {
		return
	}
	for id := start; !p.marked[id]; {
		from, exists := p.from[id]
		if !exists || !from.seeded && !from.writes {
			return
		}
		p.marked[id] = true
		m.keep(id, why)
		if m.view.HasValue(id, channel) {
			return
		}
		id, _ = m.view.Parent(id)
	}
}

// explore fills in p.from for the walk that begins at start. A checkpoint that
// is its own ancestor ends the walk as a missing one does.
func (m *pruneMarker) explore(p *deltaPath, channel, start string) {
	var path []string
	onPath := map[string]bool{}
	end := pathFrom{}
	for id := start; ; {
		parent, exists := m.view.Parent(id)
		if !exists || onPath[id] {
			break
		}
		if known, ok := p.from[id]; ok {
			end = known
			break
		}
		path, onPath[id] = append(path, id), true
		if m.view.HasValue(id, channel) {
			end.seeded = true
			break
		}
		id = parent
	}
	for _, id := range slices.Backward(path) {
		end.writes = end.writes || m.view.HasWrite(id, channel)
		p.from[id] = end
	}
}
