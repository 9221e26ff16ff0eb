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

// Room says what takes the room in a store. A value counts once, with the bytes that are
// stored for it before its block is compressed: a patch, if it is stored as one. What copies
// of a thread share counts once, too.
type Room struct {
	// Channels are those of checkpoints, the largest first, by name alone: all threads and
	// namespaces together.
	Channels []ChannelRoom `json:"channels"`
	// Records are checkpoints without their values; Writes what tasks wrote against them.
	Records ValueRoom `json:"records"`
	Writes  ValueRoom `json:"writes"`
	// Items are those of the long-term store, among them runs and their events, and what a
	// server keeps. Other is all the rest.
	Items ValueRoom `json:"items"`
	Other ValueRoom `json:"other"`
	Bytes int64     `json:"bytes"` // of all of it
}

// ChannelRoom is the room that the values of a channel take.
type ChannelRoom struct {
	Channel string `json:"channel"`
	ValueRoom
}

// ValueRoom is the room that values take.
type ValueRoom struct {
	Values int   `json:"values"`
	Bytes  int64 `json:"bytes"`
}

func (r *ValueRoom) add(loc index.Loc) {
	r.Values++
	r.Bytes += int64(loc.Len)
}

// RoomOf reads the index of a store, all of it, and no value. It may take seconds for a large
// one. Writers go on meanwhile; what they store after the call began does not count.
func RoomOf(ctx context.Context, d *disk.Saver) (*Room, error) {
	v, err := d.Inside().Engine.View()
	if err != nil {
		return nil, err
	}
	defer v.Release()
	families, err := engine.Families(v, func(uint64) bool { return true })
	if err != nil {
		return nil, err
	}
	room, channels := &Room{Channels: []ChannelRoom{}}, map[string]*ValueRoom{}
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
		room.Channels = append(room.Channels, ChannelRoom{name, *r})
	}
	slices.SortFunc(room.Channels, func(a, b ChannelRoom) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Channel, b.Channel))
	})
	return room, nil
}

// place is where the value of a slot counts.
func (r *Room) place(t *index.Partition, it *index.Entry, slot int, name string, channels map[string]*ValueRoom) *ValueRoom {
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
		channels[name] = new(ValueRoom)
	}
	return channels[name]
}
