package postgres

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// The JSON columns are written and read here. jsonb keeps numbers as decimals with their
// scale: 1.0 stays apart from 1, as Python needs it, if it is written so; there is no
// exponent, no negative zero, no NaN and no infinity. Strings are without U+0000.

// appendJSON appends plain data. What jsonb cannot hold, so that it would read back as
// something else, is an InvalidError about field.
func appendJSON(dst []byte, field string, v any) ([]byte, error) {
	switch x := v.(type) {
	case nil:
		return append(dst, "null"...), nil
	case bool:
		return strconv.AppendBool(dst, x), nil
	case int64:
		return strconv.AppendInt(dst, x, 10), nil
	case uint64:
		return strconv.AppendUint(dst, x, 10), nil
	case float64:
		return appendFloat(dst, field, x)
	case string:
		return appendString(dst, field, x)
	case []any:
		dst = append(dst, '[')
		for i, item := range x {
			if i > 0 {
				dst = append(dst, ',')
			}
			var err error
			if dst, err = appendJSON(dst, field+"["+strconv.Itoa(i)+"]", item); err != nil {
				return nil, err
			}
		}
		return append(dst, ']'), nil
	case map[string]any:
		return appendObject(dst, field, x, func(dst []byte, field string, v any) ([]byte, error) { return appendJSON(dst, field, v) })
	}
	return nil, saver.Invalidf(field, "%T cannot be stored as JSON; use nil, bools, numbers, strings, lists and maps of these", v)
}

// appendObject appends m with its keys in order.
func appendObject[V any](dst []byte, field string, m map[string]V, value func(dst []byte, field string, v V) ([]byte, error)) ([]byte, error) {
	dst = append(dst, '{')
	for i, key := range slices.Sorted(maps.Keys(m)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		var err error
		if dst, err = appendString(dst, field, key); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = value(dst, field+"."+key, m[key]); err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

func appendFloat(dst []byte, field string, f float64) ([]byte, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) || f == 0 && math.Signbit(f) {
		return nil, saver.Invalidf(field, "%v cannot be stored as JSON", strconv.FormatFloat(f, 'g', -1, 64))
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, f, 'f', -1, 64)
	if bytes.IndexByte(dst[from:], '.') < 0 {
		dst = append(dst, ".0"...)
	}
	return dst, nil
}

func appendString(dst []byte, field, s string) ([]byte, error) {
	if err := checkText(field, s); err != nil {
		return nil, err
	}
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	plain := 0 // bytes that stand for themselves
	for plain < len(s) && s[plain] >= 0x20 && s[plain] != '"' && s[plain] != '\\' {
		plain++
	}
	dst = append(dst, s[:plain]...)
	for i := plain; i < len(s); i++ {
		switch b := s[i]; {
		case b == '"' || b == '\\':
			dst = append(dst, '\\', b)
		case b < 0x20:
			dst = append(dst, `\u00`...)
			dst = append(dst, hex[b>>4], hex[b&15])
		default:
			dst = append(dst, b)
		}
	}
	return append(dst, '"'), nil
}

func appendVersion(dst []byte, field string, v saver.Version) ([]byte, error) {
	return appendJSON(dst, field, v.Any())
}

// appendVersions appends versions in no order: jsonb has one of its own. Every checkpoint repeats
// those of all channels and nodes.
func appendVersions(dst []byte, field string, m map[string]saver.Version) (_ []byte, err error) {
	dst = append(dst, '{')
	first := true
	for channel, v := range m {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if dst, err = appendString(dst, field, channel); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if v.Kind() == saver.VersionString {
			dst, err = appendString(dst, field, v.String())
		} else {
			dst, err = appendVersion(dst, field, v)
		}
		if err != nil {
			return nil, err
		}
	}
	return append(dst, '}'), nil
}

// versionText is v as jsonb_each_text shows what appendVersion wrote: the key of its blob.
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
	if dst, err = appendString(dst, "checkpoint.id", cp.ID); err != nil {
		return nil, err
	}
	dst = append(dst, `,"ts":`...)
	if dst, err = appendString(dst, "checkpoint.ts", cp.TS); err != nil {
		return nil, err
	}
	dst = append(dst, `,"channel_values":`...)
	if dst, err = appendObject(dst, "channel", values, func(dst []byte, _, text string) ([]byte, error) { return append(dst, text...), nil }); err != nil {
		return nil, err
	}
	dst = append(dst, `,"channel_versions":`...)
	if dst, err = appendVersions(dst, "channel_versions", cp.Versions); err != nil {
		return nil, err
	}
	dst = append(dst, `,"versions_seen":{`...)
	first := true
	for node, seen := range cp.Seen {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		if dst, err = appendString(dst, "versions_seen", node); err != nil {
			return nil, err
		}
		dst = append(dst, ':')
		if dst, err = appendVersions(dst, "versions_seen", seen); err != nil {
			return nil, err
		}
	}
	dst = append(dst, `},"updated_channels":`...)
	if cp.Updated == nil {
		return append(dst, "null}"...), nil
	}
	dst = append(dst, '[')
	for i, channel := range cp.Updated {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = appendString(dst, "updated_channels", channel); err != nil {
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
	if err := decodeJSON(text, &stored); err != nil {
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
		typed, err := serde.Default().Encode(plain(v))
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
		version, err := saver.VersionOf(plain(v))
		if err != nil {
			return nil, fmt.Errorf("version of channel %q: %w: %w", channel, saver.ErrCorrupt, err)
		}
		versions[channel] = version
	}
	return versions, nil
}

func decodeMetadata(text []byte) (saver.Metadata, error) {
	var stored map[string]any
	if err := decodeJSON(text, &stored); err != nil {
		return nil, fmt.Errorf("metadata: %w", err)
	}
	md := make(saver.Metadata, len(stored))
	for key, v := range stored {
		md[key] = plain(v)
	}
	return md, nil
}

// decodeJSON reads JSON with its numbers as json.Number.
func decodeJSON(text []byte, dst any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(dst); err != nil {
		return fmt.Errorf("%w: %w", saver.ErrCorrupt, err)
	}
	return nil
}

// plain is decoded JSON as serde decodes plain data. A number with a point is a float, one
// without an integer, or a float if 64 bits do not hold it.
func plain(v any) any {
	switch x := v.(type) {
	case json.Number:
		text := x.String()
		if !strings.ContainsAny(text, ".eE") {
			if n, err := strconv.ParseInt(text, 10, 64); err == nil {
				return n
			}
			if n, err := strconv.ParseUint(text, 10, 64); err == nil {
				return n
			}
		}
		f, _ := strconv.ParseFloat(text, 64)
		return f
	case []any:
		for i := range x {
			x[i] = plain(x[i])
		}
	case map[string]any:
		for key := range x {
			x[key] = plain(x[key])
		}
	}
	return v
}

// maxInline is the size of the largest value that stands in the checkpoint itself, where
// every later checkpoint repeats it while it does not change. A row of its own for a
// smaller one would be larger than the value.
const maxInline = 256

// inlineText is a value as JSON, if it is a small scalar of which the JSON reads back as
// the same bytes. LangGraph inlines scalars of any size; it reads both.
func inlineText(t serde.Typed) (string, bool) {
	if len(t.Data) > maxInline || t.Kind != serde.KindNull && (t.Kind != serde.KindMsgpack || !scalar(t.Data)) {
		return "", false
	}
	v, err := serde.Default().Decode(t)
	if err != nil {
		return "", false
	}
	text, err := appendJSON(nil, "", v)
	if err != nil {
		return "", false
	}
	var read any
	switch v.(type) {
	case nil, bool, int64, string:
		read = v // as JSON gives them back
	default:
		if decodeJSON(text, &read) != nil {
			return "", false
		}
	}
	same, err := serde.Default().Encode(plain(read))
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

// snapshot reports whether a value is LangGraph's snapshot of a delta channel: a msgpack
// extension of that type. LangGraph leaves the value true in the checkpoint beside it, by
// which its prune knows such threads.
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
