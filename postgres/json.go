package postgres

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"

	"github.com/stele-go/stele/postgres/internal/jsonb"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// The JSON columns are written and read here. jsonb keeps numbers as decimals with their
// scale: 1.0 stays apart from 1, as Python needs it, if it is written so; there is no
// exponent, no negative zero, no NaN and no infinity. Strings are without U+0000.

func appendVersion(dst []byte, field string, v saver.Version) ([]byte, error) {
	if v.Kind() == saver.VersionString {
		return jsonb.AppendString(dst, field, v.String())
	}
	return jsonb.Append(dst, field, v.Any())
}

// appendVersions appends the versions of channels. Every checkpoint repeats those of all channels and nodes.
func appendVersions(dst []byte, field string, m map[string]saver.Version) ([]byte, error) {
	return jsonb.AppendObject(dst, field, m, func(dst []byte, _ string, v saver.Version) ([]byte, error) { return appendVersion(dst, field, v) })
}

// versionText returns v in the form in which jsonb_each_text shows it: the key of its blob.
func versionText(v saver.Version) string {
	if v.Kind() == saver.VersionString {
		return v.String()
	}
	text, err := appendVersion(nil, "", v)
	if err != nil {
		return ""
	}
	return string(text)
}

// appendCheckpoint appends the column checkpoint, whose keys are LangGraph's, with values
// as JSON texts.
func appendCheckpoint(dst []byte, cp *saver.Checkpoint, values map[string]string) (_ []byte, err error) {
	versions := len(cp.Versions)
	for _, seen := range cp.Seen {
		versions += 1 + len(seen)
	}
	dst = slices.Grow(dst, 256+96*versions) // a name, and a version of LangGraph's
	dst = append(dst, `{"v":`...)
	dst = strconv.AppendInt(dst, int64(cp.V), 10)
	dst = append(dst, `,"id":`...)
	if dst, err = jsonb.AppendString(dst, "checkpoint.id", cp.ID); err != nil {
		return nil, err
	}
	dst = append(dst, `,"ts":`...)
	if dst, err = jsonb.AppendString(dst, "checkpoint.ts", cp.TS); err != nil {
		return nil, err
	}
	dst = append(dst, `,"channel_values":`...)
	if dst, err = jsonb.AppendObject(dst, "channel", values, func(dst []byte, _, text string) ([]byte, error) { return append(dst, text...), nil }); err != nil {
		return nil, err
	}
	dst = append(dst, `,"channel_versions":`...)
	if dst, err = appendVersions(dst, "channel_versions", cp.Versions); err != nil {
		return nil, err
	}
	dst = append(dst, `,"versions_seen":`...)
	dst, err = jsonb.AppendObject(dst, "versions_seen", cp.Seen, func(dst []byte, _ string, seen map[string]saver.Version) ([]byte, error) {
		return appendVersions(dst, "versions_seen", seen)
	})
	if err != nil {
		return nil, err
	}
	dst = append(dst, `,"updated_channels":`...)
	if cp.Updated == nil {
		return append(dst, "null}"...), nil
	}
	dst = append(dst, '[')
	for i, channel := range cp.Updated {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = jsonb.AppendString(dst, "updated_channels", channel); err != nil {
			return nil, err
		}
	}
	return append(dst, "]}"...), nil
}

// storedCheckpoint is the column checkpoint.
type storedCheckpoint struct {
	V        int                       `json:"v"`
	ID       string                    `json:"id"`
	TS       string                    `json:"ts"`
	Values   map[string]any            `json:"channel_values"`
	Versions map[string]any            `json:"channel_versions"`
	Seen     map[string]map[string]any `json:"versions_seen"`
	Updated  []string                  `json:"updated_channels"`
}

// decodeCheckpoint reads the column checkpoint, with the values that stand in it. versions
// has the versions as jsonb_each_text shows them: the keys of the blobs.
func decodeCheckpoint(text []byte) (cp saver.Checkpoint, versions map[string]string, err error) {
	var stored storedCheckpoint
	if err := jsonb.Decode(text, &stored); err != nil {
		return cp, nil, fmt.Errorf("checkpoint: %w", err)
	}
	versions = make(map[string]string, len(stored.Versions))
	for channel, v := range stored.Versions {
		if v != nil {
			versions[channel] = fmt.Sprint(v)
		}
	}
	cp = saver.Checkpoint{V: stored.V, ID: stored.ID, TS: stored.TS, Updated: stored.Updated, Seen: map[string]map[string]saver.Version{}}
	if cp.Versions, err = decodeVersions(stored.Versions); err != nil {
		return cp, nil, err
	}
	for node, seen := range stored.Seen {
		if cp.Seen[node], err = decodeVersions(seen); err != nil {
			return cp, nil, err
		}
	}
	cp.Values = make(map[string]saver.Value, len(stored.Values))
	for channel, v := range stored.Values {
		typed, err := serde.Default().Encode(jsonb.Plain(v))
		if err != nil {
			return cp, nil, fmt.Errorf("channel %q: %w", channel, err)
		}
		cp.Values[channel] = saver.ValueShared(typed, serde.Default())
	}
	return cp, versions, nil
}

func decodeVersions(stored map[string]any) (map[string]saver.Version, error) {
	versions := make(map[string]saver.Version, len(stored))
	for channel, v := range stored {
		version, err := saver.VersionOf(jsonb.Plain(v))
		if err != nil {
			return nil, fmt.Errorf("version of channel %q: %w: %w", channel, saver.ErrCorrupt, err)
		}
		versions[channel] = version
	}
	return versions, nil
}

func decodeMetadata(text []byte) (saver.Metadata, error) {
	var stored map[string]any
	if err := jsonb.Decode(text, &stored); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	md := make(saver.Metadata, len(stored))
	for key, v := range stored {
		md[key] = jsonb.Plain(v)
	}
	return md, nil
}

// maxInline is the size of the largest value that is stored in the checkpoint itself. Every later
// checkpoint repeats it until it changes, but a row for a smaller value would be larger than the value.
const maxInline = 256

// inlineText returns a value as JSON, if it is a small scalar whose JSON reads back as the same bytes.
// LangGraph inlines scalars of any size; it reads both.
func inlineText(t serde.Typed) (string, bool) {
	if len(t.Data) > maxInline || t.Kind != serde.KindNull && (t.Kind != serde.KindMsgpack || !scalar(t.Data)) {
		return "", false
	}
	v, err := serde.Default().Decode(t)
	if err != nil {
		return "", false
	}
	text, err := jsonb.Append(nil, "", v)
	if err != nil {
		return "", false
	}
	var read any
	switch v.(type) {
	case nil, bool, int64, string:
		read = v // as JSON gives them back
	default:
		if jsonb.Decode(text, &read) != nil {
			return "", false
		}
	}
	same, err := serde.Default().Encode(jsonb.Plain(read))
	if err != nil || same.Kind != t.Kind || !bytes.Equal(same.Data, t.Data) {
		return "", false
	}
	return string(text), true
}

// scalar reports whether msgpack is a bool, a number or a string, by its first byte.
func scalar(data []byte) bool {
	if len(data) == 0 {
		return false
	}
	switch b := data[0]; {
	case b < 0x80, b >= 0xe0, b >= 0xa0 && b <= 0xbf: // small integers, short strings
		return true
	default:
		return b >= 0xc2 && b <= 0xc3 || b >= 0xca && b <= 0xd3 || b >= 0xd9 && b <= 0xdb
	}
}

// snapshot reports whether a value is LangGraph's snapshot of a delta channel: a msgpack extension of
// that type. LangGraph also stores the value true in the checkpoint, by which its prune recognises such
// threads.
func snapshot(t serde.Typed) bool {
	if t.Kind != serde.KindMsgpack || len(t.Data) < 2 {
		return false
	}
	at := 0 // of the type
	switch b := t.Data[0]; {
	case b >= 0xd4 && b <= 0xd8:
		at = 1
	case b >= 0xc7 && b <= 0xc9:
		at = 1 + 1<<(b-0xc7)
	}
	return at > 0 && at < len(t.Data) && int8(t.Data[at]) == serde.ExtDelta
}
