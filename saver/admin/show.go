package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/stele-go/stele/saver"
)

// CheckpointView is a checkpoint with everything decoded to plain data.
type CheckpointView struct {
	Thread     string `json:"thread"`
	Namespace  string `json:"namespace"`
	Checkpoint string `json:"checkpoint"`
	Parent     string `json:"parent,omitempty"`
	TS         string `json:"ts"`
	V          int    `json:"v"`
	Metadata   any    `json:"metadata"`
	// Status is that of the thread, if this is the newest checkpoint of its root
	// namespace. Graph, Version, Next and Stop are of the checkpoint's note.
	Status  saver.Status `json:"status,omitempty"`
	Graph   string       `json:"graph,omitempty"`
	Version string       `json:"version,omitempty"`
	Next    []string     `json:"next,omitempty"`
	Stop    saver.Stop   `json:"stop,omitempty"`

	Channels map[string]ChannelView       `json:"channels"`
	Seen     map[string]map[string]string `json:"versions_seen"`
	Updated  []string                     `json:"updated_channels"`
	Writes   []WriteView                  `json:"writes"`
}

// ChannelView is a channel of a checkpoint.
type ChannelView struct {
	Version string `json:"version"`
	ValueView
}

// WriteView is a pending write.
type WriteView struct {
	Task    string `json:"task"`
	Path    string `json:"path,omitempty"`
	Channel string `json:"channel"`
	Index   int    `json:"index"`
	ValueView
}

// ValueView is a value. If Kind is empty there is no value. If Error is set, the value cannot
// be read or decoded.
type ValueView struct {
	Kind  string `json:"kind,omitempty"`
	Bytes int    `json:"bytes,omitempty"` // as serialized
	Value any    `json:"value,omitempty"`
	Error string `json:"error,omitempty"`
}

// Show reads a checkpoint with all its values, or the newest one of the namespace if cfg names
// none. A damaged value has its Error set. If the checkpoint does not exist, the error is
// saver.ErrNotFound.
func Show(ctx context.Context, s saver.Saver, cfg saver.Config) (*CheckpointView, error) {
	tup, err := s.GetTuple(ctx, cfg)
	if errors.Is(err, saver.ErrNotFound) {
		if t, there, _ := saver.ThreadOf(ctx, s, cfg.ThreadID); there && t.Head == "" {
			return nil, fmt.Errorf("thread %q has pending writes, and no checkpoint that they are of: %w", cfg.ThreadID, err)
		}
	}
	if err != nil {
		return nil, err
	}
	out := view(s, tup)
	if n := tup.Note; n != nil {
		out.Graph, out.Version, out.Next, out.Stop = n.Graph, n.Version, n.Next, n.Stop
	}
	t, _, err := saver.ThreadOf(ctx, s, cfg.ThreadID)
	if err != nil {
		return nil, err
	}
	if t.Head == out.Checkpoint && out.Namespace == "" {
		if out.Status = t.Status; out.Status == saver.StatusWaiting {
			if waits, err := WaitsOf(ctx, s, cfg.ThreadID); err == nil && waits.OnlySleeps() { // else its writes say what is wrong
				out.Status = saver.StatusSleeping
			}
		}
	}
	return out, nil
}

func view(s saver.Saver, tup *saver.Tuple) *CheckpointView {
	cp := &tup.Checkpoint
	out := &CheckpointView{Thread: tup.Config.ThreadID, Namespace: tup.Config.Namespace, Checkpoint: cp.ID, TS: cp.TS, V: cp.V,
		Metadata: Plain(map[string]any(tup.Metadata)), Channels: map[string]ChannelView{}, Seen: map[string]map[string]string{},
		Updated: cp.Updated, Writes: writeViews(s, tup.PendingWrites)}
	if tup.Parent != nil {
		out.Parent = tup.Parent.CheckpointID
	}
	for name, version := range cp.Versions {
		ch := ChannelView{Version: version.String()}
		if v, ok := cp.Values[name]; ok {
			ch.ValueView = valueView(s, v)
		}
		out.Channels[name] = ch
	}
	for node, versions := range cp.Seen {
		out.Seen[node] = map[string]string{}
		for channel, v := range versions {
			out.Seen[node][channel] = v.String()
		}
	}
	return out
}

// WriteAlone is a pending write against a checkpoint that is not stored.
type WriteAlone struct {
	Namespace  string `json:"namespace"`
	Checkpoint string `json:"checkpoint"`
	WriteView
}

// WritesAlone decodes the pending writes of tuples of s that have no checkpoint.
func WritesAlone(s saver.Saver, tuples []*saver.Tuple) []WriteAlone {
	out := []WriteAlone{}
	for _, tup := range tuples {
		for _, w := range writeViews(s, tup.PendingWrites) {
			out = append(out, WriteAlone{tup.Config.Namespace, tup.Config.CheckpointID, w})
		}
	}
	return out
}

func writeViews(s saver.Saver, writes []saver.PendingWrite) []WriteView {
	out := []WriteView{}
	for _, w := range writes {
		out = append(out, WriteView{Task: w.TaskID, Path: w.TaskPath, Channel: w.Channel, Index: w.Index, ValueView: valueView(s, w.Value)})
	}
	return out
}

func valueView(s saver.Saver, v saver.Value) ValueView {
	t, err := v.Typed()
	if err != nil {
		return ValueView{Kind: "error", Error: err.Error()}
	}
	out := ValueView{Kind: t.Kind, Bytes: len(t.Data)}
	data, err := s.Serializer().Decode(t)
	if err != nil {
		out.Error = err.Error()
		return out
	}
	out.Value = Plain(data)
	return out
}

// CheckpointRow is a checkpoint in a listing.
type CheckpointRow struct {
	Namespace  string `json:"namespace"`
	Checkpoint string `json:"checkpoint"`
	Parent     string `json:"parent,omitempty"`
	TS         string `json:"ts"`
	Source     any    `json:"source,omitempty"`
	Step       any    `json:"step,omitempty"`
	Channels   int    `json:"channels"`
	Writes     int    `json:"writes"`
	Error      string `json:"error,omitempty"`
}

// History lists the checkpoints of a thread, newest first, without their values. A nil ns
// lists all namespaces, limit 0 all checkpoints. If there are none, the error is
// saver.ErrNotFound.
func History(ctx context.Context, s saver.Saver, thread string, ns *string, limit int) ([]CheckpointRow, error) {
	out := []CheckpointRow{}
	for tup, err := range s.List(ctx, saver.Query{ThreadID: thread, Namespace: ns, Limit: limit}) {
		if err != nil {
			if errors.Is(err, saver.ErrCorrupt) {
				return append(out, CheckpointRow{Error: err.Error()}), nil
			}
			return nil, err
		}
		row := CheckpointRow{Namespace: tup.Config.Namespace, Checkpoint: tup.Config.CheckpointID, TS: tup.Checkpoint.TS,
			Source: Plain(tup.Metadata["source"]), Step: Plain(tup.Metadata["step"]), Channels: len(tup.Checkpoint.Versions), Writes: len(tup.PendingWrites)}
		if tup.Parent != nil {
			row.Parent = tup.Parent.CheckpointID
		}
		out = append(out, row)
	}
	if len(out) == 0 {
		return nil, saver.ErrNotFound
	}
	return out, nil
}
