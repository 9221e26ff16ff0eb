package sqlite

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/stele-go/stele/ops/transfer"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// checkpoint fills in tup from the object of a row. It returns the fields that the contract has
// no place for. sends reports whether the parent has writes on the channel of packets.
func checkpoint(tup *transfer.Tuple, t serde.Typed, sends func() (bool, error)) (lost []*transfer.Rejected, err error) {
	fields, err := split(t)
	if err != nil {
		return nil, err
	}
	lose := func(what, name string, v serde.Typed, reason error) {
		lost = append(lost, &transfer.Rejected{Config: tup.Config, What: what, Name: name, Kind: v.Kind, Raw: v.Data, Reason: reason})
	}
	values, versions := map[string]serde.Typed{}, map[string]saver.Version{}
	var packets serde.Typed
	for _, f := range fields {
		var ferr error
		switch f.name {
		case "v":
			tup.V, ferr = decode[int](f.value)
		case "id":
			var id string
			if id, ferr = decode[string](f.value); ferr == nil && id != tup.Config.CheckpointID {
				ferr = fmt.Errorf("it is %q, in the row %q", id, tup.Config.CheckpointID)
			}
		case "ts":
			tup.TS, ferr = decode[string](f.value)
		case "channel_values":
			if isNull(f.value) {
				continue
			}
			var channels []field
			channels, ferr = split(f.value)
			for _, c := range channels {
				values[c.name] = c.value
			}
		case "channel_versions":
			versions, ferr = versionsOf(f.value)
		case "versions_seen":
			tup.Seen, ferr = seenOf(f.value)
		case "updated_channels":
			if !isNull(f.value) {
				tup.Updated, ferr = decode[[]string](f.value)
				if tup.Updated == nil {
					tup.Updated = []string{}
				}
			}
		case "pending_sends":
			packets = f.value
		default:
			if !isEmpty(f.value) {
				lose("field", f.name, f.value, errors.New("the contract has no such field of a checkpoint"))
			}
		}
		if ferr != nil {
			return nil, fmt.Errorf("%s: %w", f.name, ferr)
		}
	}
	if packets.Kind != "" && !isEmpty(packets) {
		has, err := sends()
		switch {
		case err != nil:
			return nil, err
		case has: // a saver derives them
		case tup.V >= 4:
			lose("field", "pending_sends", packets, errors.New("a checkpoint of this format has no such field"))
		default:
			var newest saver.Version
			for _, v := range versions {
				if v.Compare(newest) > 0 {
					newest = v
				}
			}
			if newest.IsNull() {
				newest, _ = saver.NextVersion(newest, func() float64 { return 0 })
			}
			values[saver.ChannelTasks], versions[saver.ChannelTasks] = packets, newest
		}
	}
	for name, version := range versions {
		v, has := values[name]
		delete(values, name)
		switch {
		case !has:
			tup.Channels = append(tup.Channels, transfer.Channel{Name: name, Version: version})
		case version.IsNull():
			if !isEmpty(v) {
				lose("channel", name, v, errNoVersion)
			}
			tup.Channels = append(tup.Channels, transfer.Channel{Name: name, Version: version})
		default:
			tup.Channels = append(tup.Channels, transfer.Channel{Name: name, Version: version, State: transfer.Given, Value: v})
		}
	}
	for name, v := range values {
		if !isEmpty(v) {
			lose("channel", name, v, errNoVersion)
		}
	}
	slices.SortFunc(lost, func(a, b *transfer.Rejected) int { return bytes.Compare([]byte(a.Name), []byte(b.Name)) })
	return lost, nil
}

var errNoVersion = errors.New("the channel has no version")

func isNull(t serde.Typed) bool {
	return t.Kind == serde.KindNull || t.Kind == serde.KindJSON && string(t.Data) == "null"
}

// isEmpty reports whether t says nothing: null, or an empty list, object or text.
func isEmpty(t serde.Typed) bool {
	if isNull(t) {
		return true
	}
	v, err := serde.Default().Decode(t)
	if err != nil {
		return false
	}
	switch v := v.(type) {
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	case string:
		return v == ""
	}
	return false
}

func decode[T any](t serde.Typed) (v T, err error) {
	err = serde.Default().DecodeInto(t, &v)
	return v, err
}

func versionsOf(t serde.Typed) (map[string]saver.Version, error) {
	if isNull(t) {
		return map[string]saver.Version{}, nil
	}
	fields, err := split(t)
	if err != nil {
		return nil, err
	}
	versions := make(map[string]saver.Version, len(fields))
	for _, f := range fields {
		v, err := serde.Default().Decode(f.value)
		if err == nil {
			versions[f.name], err = saver.VersionOf(v)
		}
		if err != nil {
			return nil, fmt.Errorf("channel %q: %w", f.name, err)
		}
	}
	return versions, nil
}

func seenOf(t serde.Typed) (map[string]map[string]saver.Version, error) {
	if isNull(t) {
		return map[string]map[string]saver.Version{}, nil
	}
	fields, err := split(t)
	if err != nil {
		return nil, err
	}
	seen := make(map[string]map[string]saver.Version, len(fields))
	for _, f := range fields {
		if seen[f.name], err = versionsOf(f.value); err != nil {
			return nil, fmt.Errorf("node %q: %w", f.name, err)
		}
	}
	return seen, nil
}

// metadata reads the column metadata: JSON, whatever the type of the row says, or the bytes
// of that type.
func metadata(t serde.Typed, text []byte) (saver.Metadata, error) {
	if text == nil {
		return saver.Metadata{}, nil
	}
	v, err := serde.Default().Decode(serde.Typed{Kind: serde.KindJSON, Data: text})
	if err != nil && t.Kind != serde.KindJSON {
		if typed, terr := serde.Default().Decode(serde.Typed{Kind: t.Kind, Data: text}); terr == nil {
			v, err = typed, nil
		}
	}
	if err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	md, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("metadata is no object")
	}
	return md, nil
}

// snapshots are the snapshots of delta channels that the checkpoints of a namespace have, by
// their ids.
type snapshots map[string]map[string]transfer.Channel

// complete gives tup the snapshots of its parent that are also its own. A graph puts a snapshot
// with one checkpoint. The next ones have the channel at the same version and have no value
// for it. Savers that store values by their versions show it there too, and so does the
// contract of package saver; LangGraph's SQLite saver does not.
func (s snapshots) complete(tup *transfer.Tuple) {
	parent, own := s[tup.Parent], map[string]transfer.Channel{}
	for i := range tup.Channels {
		c := &tup.Channels[i]
		if p, ok := parent[c.Name]; ok && c.State == transfer.Empty && c.Version == p.Version {
			*c = p
		}
		if c.State == transfer.Given && isSnapshot(c.Value) {
			own[c.Name] = *c
		}
	}
	if len(own) > 0 {
		s[tup.Config.CheckpointID] = own
	}
}

// isSnapshot reports whether a value is LangGraph's snapshot of a delta channel.
func isSnapshot(t serde.Typed) bool {
	if t.Kind != serde.KindMsgpack {
		return false
	}
	h, body, err := head(t.Data)
	return err == nil && h.kind == ext && int8(body[0]) == serde.ExtDelta
}
