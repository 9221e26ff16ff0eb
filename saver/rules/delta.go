package rules

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/saver"
)

// DeltaChannelHistory does for any Saver what its DeltaChannelHistory does: it walks
// the parents of the checkpoint that cfg names, with GetTuple.
func DeltaChannelHistory(ctx context.Context, s saver.Saver, cfg saver.Config, channels []string) (map[string]saver.DeltaHistory, error) {
	return DeltaHistories(cfg, channels, func(cfg saver.Config) (*saver.Tuple, error) { return s.GetTuple(ctx, cfg) })
}

// DeltaHistories is DeltaChannelHistory with get for GetTuple. A saver gives one that reads in
// a single transaction, so that the walk misses no checkpoint that is removed meanwhile.
func DeltaHistories(cfg saver.Config, channels []string, get func(saver.Config) (*saver.Tuple, error)) (map[string]saver.DeltaHistory, error) {
	walk := NewDeltaWalk(channels)
	if len(channels) == 0 {
		return walk.Result(), nil
	}
	target, err := get(cfg)
	if errors.Is(err, saver.ErrNotFound) {
		return walk.Result(), nil
	}
	if err != nil {
		return nil, err
	}
	seen := map[string]bool{target.Config.CheckpointID: true}
	for parent := target.Parent; parent != nil && !walk.Done(); {
		if seen[parent.CheckpointID] {
			return nil, fmt.Errorf("checkpoint %q: %w", parent.CheckpointID, saver.ErrAncestorCycle)
		}
		seen[parent.CheckpointID] = true
		tup, err := get(*parent)
		if errors.Is(err, saver.ErrNotFound) {
			break
		}
		if err != nil {
			return nil, err
		}
		walk.Visit(tup.Checkpoint.Values, tup.PendingWrites)
		parent = tup.Parent
	}
	return walk.Result(), nil
}

// DeltaWalk collects delta histories while its owner walks from the parent of a checkpoint
// towards the root. It is not safe for concurrent use.
type DeltaWalk struct {
	channels []string
	open     map[string]bool                 // channels without a seed so far
	writes   map[string][]saver.PendingWrite // newest first
	seed     map[string]saver.Value
}

// NewDeltaWalk starts a walk for channels.
func NewDeltaWalk(channels []string) *DeltaWalk {
	w := &DeltaWalk{channels: channels, open: map[string]bool{}, writes: map[string][]saver.PendingWrite{}, seed: map[string]saver.Value{}}
	for _, c := range channels {
		w.open[c] = true
	}
	return w
}

// Done reports whether every channel has found its seed.
func (w *DeltaWalk) Done() bool { return len(w.open) == 0 }

// Visit adds one ancestor: its stored values, and its pending writes in order. A value is
// the state before the ancestor's writes, and these led to its child. So the writes of the
// ancestor that has the seed belong to the history.
func (w *DeltaWalk) Visit(values map[string]saver.Value, writes []saver.PendingWrite) {
	for _, pw := range slices.Backward(writes) {
		if w.open[pw.Channel] {
			w.writes[pw.Channel] = append(w.writes[pw.Channel], pw)
		}
	}
	for c := range w.open {
		if v, ok := values[c]; ok {
			w.seed[c] = v
			delete(w.open, c)
		}
	}
}

// Result returns the history of each channel, oldest write first.
func (w *DeltaWalk) Result() map[string]saver.DeltaHistory {
	out := make(map[string]saver.DeltaHistory, len(w.channels))
	for _, c := range w.channels {
		writes := slices.Clone(w.writes[c])
		slices.Reverse(writes)
		out[c] = saver.DeltaHistory{Writes: writes, Seed: w.seed[c]}
	}
	return out
}
