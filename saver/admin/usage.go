package admin

import (
	"cmp"
	"context"
	"slices"

	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/saver/layout"
)

// Usage is the number of stored bytes by kind. A value counts once, with the bytes stored for it before
// its block is compressed: those of the patch if it is stored as one. Values that copies of a thread
// share count once, too.
type Usage struct {
	// Channels are the channels of checkpoints, the largest first. Channels of the same name in all
	// threads and namespaces count as one.
	Channels []ChannelUsage `json:"channels"`
	// Records are checkpoints without their values; Writes what tasks wrote against them.
	Records ValueUsage `json:"records"`
	Writes  ValueUsage `json:"writes"`
	// Items are those of the long-term store, among them runs and their events, and what a
	// server keeps. Other is all the rest.
	Items ValueUsage `json:"items"`
	Other ValueUsage `json:"other"`
	Bytes int64      `json:"bytes"` // of all of it
}

// ChannelUsage is how much the values of a channel take.
type ChannelUsage struct {
	Channel string `json:"channel"`
	ValueUsage
}

// ValueUsage is how many values there are and how many bytes they take.
type ValueUsage struct {
	Values int   `json:"values"`
	Bytes  int64 `json:"bytes"`
}

func (r *ValueUsage) add(loc index.Loc) {
	r.Values++
	r.Bytes += int64(loc.Len)
}

// UsageOf counts the stored bytes of a store by channel, records, writes and items. It reads the whole
// index and no values, which may take seconds in a large store. Writers are not held up; what they
// store after the call began does not count.
func UsageOf(ctx context.Context, d *disk.Saver) (*Usage, error) {
	v, err := d.Inside().Engine.View()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	families, err := engine.Families(v, func(uint64) bool { return true })
	if err != nil {
		return nil, err
	}
	room, channels := &Usage{Channels: []ChannelUsage{}}, map[string]*ValueUsage{}
	for _, names := range families {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		f, err := names.Open(v)
		if err != nil {
			return nil, err
		}
		if err := f.Load(v); err != nil {
			return nil, err
		}
		seen := map[index.Ref]bool{}
		for _, t := range f.Partitions {
			t.Ascend("", func(it *index.Entry) bool {
				for i, s := range it.Slots.All() {
					ref := s.Ref
					loc, ok := t.Family.Loc(ref)
					if !ok || ref.Empty() || seen[ref] {
						continue
					}
					seen[ref] = true
					room.place(t, it, i, s.Name, channels).add(loc)
					room.Bytes += int64(loc.Len)
				}
				return true
			})
		}
	}
	for name, r := range channels {
		room.Channels = append(room.Channels, ChannelUsage{name, *r})
	}
	slices.SortFunc(room.Channels, func(a, b ChannelUsage) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Channel, b.Channel))
	})
	return room, nil
}

// place returns the counter for the value of a slot.
func (r *Usage) place(t *index.Partition, it *index.Entry, slot int, name string, channels map[string]*ValueUsage) *ValueUsage {
	switch t.ID[:min(1, len(t.ID))] {
	case layout.SpaceItems:
		return &r.Items
	case layout.SpaceThread:
	default:
		return &r.Other
	}
	switch key, ok := layout.ParseEntry(it.Key); {
	case !ok || key.Kind == "attempts":
		return &r.Other
	case key.Kind == "writes":
		return &r.Writes
	case layout.IsRecord(it, slot):
		return &r.Records
	}
	if channels[name] == nil {
		channels[name] = new(ValueUsage)
	}
	return channels[name]
}
