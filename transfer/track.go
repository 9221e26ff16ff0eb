package transfer

import (
	"errors"
	"fmt"
)

// errNoBase is the reason why a tuple is rejected whose values are those of one that was.
var errNoBase = errors.New("it has values of a checkpoint that was not copied")

// tracker knows what the checkpoints of one thread have that were copied. It is not safe for
// concurrent use.
type tracker struct {
	thread string
	have   map[place]channels
}

// begin forgets the thread before, if e is of another.
func (t *tracker) begin(e *Tuple) {
	if t.have == nil || t.thread != e.Config.ThreadID {
		t.thread, t.have = e.Config.ThreadID, map[place]channels{}
	}
}

// place names a checkpoint of a thread.
type place struct{ namespace, id string }

// resolve is what the channels of e have.
func (t *tracker) resolve(e *Tuple) (channels, error) {
	parent := t.have[place{e.Config.Namespace, e.Parent}]
	have := make(channels, len(e.Channels))
	for _, c := range e.Channels {
		h := held{version: c.Version}
		switch c.State {
		case Given:
			h.full, h.value = true, sumOf(c.Value)
		case Same:
			if parent == nil {
				return nil, fmt.Errorf("parent %q: %w", e.Parent, errNoBase)
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

// shrink is e without the values that are also those of its parent; they become Same.
func (t *tracker) shrink(e *Tuple, have channels) *Tuple {
	parent := t.have[place{e.Config.Namespace, e.Parent}]
	if parent == nil {
		return e
	}
	small := *e
	small.Channels = nil
	for _, c := range e.Channels {
		if p, ok := parent[c.Name]; ok && c.State == Given && p == have[c.Name] {
			c = Channel{Name: c.Name, Version: c.Version, State: Same}
		}
		small.Channels = append(small.Channels, c)
	}
	return &small
}

// done says that e is in the target.
func (t *tracker) done(e *Tuple, have channels) {
	t.have[place{e.Config.Namespace, e.Config.CheckpointID}] = have
}
