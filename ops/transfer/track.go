package transfer

import (
	"errors"
	"fmt"
)

// errNoBase is the reason why a tuple is rejected whose values are those of one that was.
var errNoBase = errors.New("it has values of a checkpoint that was not copied")

// tracker has the channels of the copied checkpoints of one thread. It is not safe for concurrent use.
type tracker struct {
	thread string
	have   map[place]channels
}

// begin forgets the thread before, if tup is of another.
func (t *tracker) begin(tup *Tuple) {
	if t.have == nil || t.thread != tup.Config.ThreadID {
		t.thread, t.have = tup.Config.ThreadID, map[place]channels{}
	}
}

// place names a checkpoint of a thread.
type place struct{ namespace, id string }

// resolve returns the states of the channels of tup.
func (t *tracker) resolve(tup *Tuple) (channels, error) {
	parent := t.have[place{tup.Config.Namespace, tup.Parent}]
	have := make(channels, len(tup.Channels))
	for _, c := range tup.Channels {
		h := channelState{version: c.Version}
		switch c.State {
		case Given:
			h.full, h.value = true, sumOf(c.Value)
		case Same:
			if parent == nil {
				return nil, fmt.Errorf("parent %q: %w", tup.Parent, errNoBase)
			}
			p, ok := parent[c.Name]
			if !ok || p.version != c.Version {
				return nil, fmt.Errorf("channel %q: the parent has no version %s of it", c.Name, c.Version)
			}
			h = p
		}
		have[c.Name] = h
	}
	return have, nil
}

// shrink is tup without the values that are also those of its parent; they become Same.
func (t *tracker) shrink(tup *Tuple, have channels) *Tuple {
	parent := t.have[place{tup.Config.Namespace, tup.Parent}]
	if parent == nil {
		return tup
	}
	small := *tup
	small.Channels = nil
	for _, c := range tup.Channels {
		if p, ok := parent[c.Name]; ok && c.State == Given && p == have[c.Name] {
			c = Channel{Name: c.Name, Version: c.Version, State: Same}
		}
		small.Channels = append(small.Channels, c)
	}
	return &small
}

// done says that tup is in the target.
func (t *tracker) done(tup *Tuple, have channels) {
	t.have[place{tup.Config.Namespace, tup.Config.CheckpointID}] = have
}
