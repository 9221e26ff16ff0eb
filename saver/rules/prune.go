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
	// Valueless names the channels of checkpoint id that have a version but no value and
	// may be delta channels. If the checkpoint has a Note, the note says which channels
	// are delta channels, and told is true. Without one, any channel may be.
	Valueless(id string) (channels []string, told bool)
	// HasValue reports whether checkpoint id has a value of the channel.
	HasValue(id, channel string) bool
	// HasWrite reports whether a pending write of checkpoint id is on the channel. What
	// saver.ResolveWrites drops does not count: see OnChannel.
	HasWrite(id, channel string) bool
	// Format is the checkpoint's V.
	Format(id string) int
}

// PruneMark returns the checkpoints that must stay in addition to the kept ones, so that the
// state of each kept checkpoint reads as before. They are always ancestors of kept ones.
//
// Most checkpoints have a version of a delta channel but no value. To read the channel, a
// reader walks from the parent to the nearest ancestor with a value, or to the root, and
// folds the writes on the way, including those of that ancestor. So for each kept
// checkpoint and each delta channel without a value there: if the walk meets a write on the
// channel, every checkpoint of the walk stays, up to the one with the value, or, if none has
// one, up to the last one with a write. If the walk meets no write, nothing needs to stay.
//
// The Note of a kept checkpoint says which channels are delta channels. Without a Note every
// channel without a value counts as one. That keeps everything that is needed. A delta
// channel gets a new version only through a write, and its next checkpoint may or may not
// have a value. A channel that was cleared, such as the trigger of a node, had a value at
// the last checkpoint it was written for, and no writes since. But it may keep too much: an
// abandoned write to a trigger keeps a path that nobody needs. Kept.Reason tells the two
// cases apart.
//
// A checkpoint of format 3 or older also keeps its parent if the parent's tasks wrote
// packets, because these are part of its state; see MigratePendingSends.
//
// Such an ancestor stays for the kept checkpoints only. Its own state may no longer be
// complete: its other channels may have lost ancestors that they need.
func PruneMark(view PruneView, kept []string) map[string]saver.Kept {
	m := pruneMarker{view: view, support: map[string]saver.Kept{}, walks: map[string]*deltaPath{}}
	// The order of ids makes savers that list in different orders keep the same
	// checkpoints, even if a checkpoint is its own ancestor. Checkpoints with a Note
	// come first, so that what one of them needs is not reported as kept in doubt.
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

// pruneMarker visits each checkpoint at most twice for each channel, however many kept
// checkpoints descend from it.
type pruneMarker struct {
	view    PruneView
	support map[string]saver.Kept
	walks   map[string]*deltaPath // by channel
}

// keep adds checkpoint id to the support. The first reason counts.
func (m *pruneMarker) keep(id string, why saver.Kept) {
	if _, ok := m.support[id]; !ok {
		why.CheckpointID = id
		m.support[id] = why
	}
}

// deltaPath has the results of the walks of one channel so far.
type deltaPath struct {
	from   map[string]pathFrom // by the checkpoint at which the walk begins
	marked map[string]bool     // checkpoints whose walk is kept to its end
}

type pathFrom struct {
	seeded bool // it ends at a value
	writes bool // it meets a write
}

// mark keeps what checkpoint why.For needs to read why.Channel. start is its parent.
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

// explore fills in p.from for the walk that begins at start. A checkpoint that is its own
// ancestor ends the walk, like a missing checkpoint.
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
