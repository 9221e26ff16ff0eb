package peer

import (
	"encoding/binary"
	"fmt"

	"github.com/vmihailenco/msgpack/v5"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// Record is a checkpoint without its values, as peers store it.
type Record struct {
	V        int                          `msgpack:"v"`
	TS       string                       `msgpack:"ts"`
	Versions map[string]string            `msgpack:"channel_versions"`
	Seen     map[string]map[string]string `msgpack:"versions_seen"`
	Updated  []string                     `msgpack:"updated_channels"`
}

// blob is one channel version or one write, serialised.
type blob struct {
	channel, version string
	typed            serde.Typed
}

// rows is a step ready to be stored.
type rows struct {
	record, metadata []byte
	blobs            []blob
}

// RecordOf is the record of a checkpoint.
func RecordOf(cp *saver.Checkpoint) Record {
	rec := Record{V: cp.V, TS: cp.TS, Updated: cp.Updated,
		Versions: texts(cp.Versions), Seen: make(map[string]map[string]string, len(cp.Seen))}
	for node, seen := range cp.Seen {
		rec.Seen[node] = texts(seen)
	}
	return rec
}

// encode serializes a step with the values that it changed, or with all of them.
func encode(s *bench.Step, whole bool) (rows, error) {
	rec := RecordOf(&s.Checkpoint)
	b, err := msgpack.Marshal(&rec)
	if err != nil {
		return rows{}, err
	}
	md, err := s.Metadata.Encode(codec)
	if err != nil {
		return rows{}, err
	}
	versions := s.Changed
	if whole {
		versions = s.Checkpoint.Versions
	}
	blobs, err := blobsOf(s, versions)
	return rows{record: b, metadata: packTyped(md), blobs: blobs}, err
}

// blobsOf are the values of channels that have one.
func blobsOf(s *bench.Step, versions map[string]saver.Version) ([]blob, error) {
	var out []blob
	for channel, version := range versions {
		v, ok := s.Checkpoint.Values[channel]
		if !ok {
			continue // empty
		}
		t, err := v.Encode(codec)
		if err != nil {
			return nil, err
		}
		out = append(out, blob{channel, version.String(), t})
	}
	return out, nil
}

func texts(versions map[string]saver.Version) map[string]string {
	m := make(map[string]string, len(versions))
	for channel, v := range versions {
		m[channel] = v.String()
	}
	return m
}

// decode makes a tuple of what is stored, without its values.
func decode(id, parent string, rec, metadata []byte) (*Tuple, error) {
	var r Record
	if err := msgpack.Unmarshal(rec, &r); err != nil {
		return nil, fmt.Errorf("record of %s: %w", id, err)
	}
	t, err := unpackTyped(metadata)
	if err != nil {
		return nil, err
	}
	md, err := saver.DecodeMetadata(t, codec)
	if err != nil {
		return nil, err
	}
	return &Tuple{ID: id, Parent: parent, Metadata: md, Values: map[string]saver.Value{}, Record: func() Record { return r }}, nil
}

// packTyped is the kind, its length before it, and the bytes.
func packTyped(t serde.Typed) []byte {
	b := make([]byte, 0, 1+len(t.Kind)+len(t.Data))
	b = append(b, byte(len(t.Kind)))
	b = append(b, t.Kind...)
	return append(b, t.Data...)
}

// unpackTyped does not copy.
func unpackTyped(b []byte) (serde.Typed, error) {
	if len(b) == 0 || len(b) < 1+int(b[0]) {
		return serde.Typed{}, fmt.Errorf("typed value of %d bytes is cut short", len(b))
	}
	n := 1 + int(b[0])
	return serde.Typed{Kind: kindName(b[1:n]), Data: b[n:]}, nil
}

// kindName spares an allocation for the kinds there are.
func kindName(b []byte) string {
	switch string(b) {
	case "msgpack":
		return "msgpack"
	case "null":
		return "null"
	}
	return string(b)
}

func valueOf(t serde.Typed) saver.Value { return saver.ValueTyped(t).WithCodec(codec) }

// The keys of a store of keys and values. Ids hold no zero byte.

func recordKey(thread, id string) []byte { return join('c', thread, "", id) }

func blobKey(thread, channel, version string) []byte { return join('b', thread, "", channel, version) }

func writesPrefix(thread, id string) []byte { return append(join('w', thread, "", id), 0) }

func writeKey(thread, id, task string, index int) []byte {
	return binary.BigEndian.AppendUint32(append(join('w', thread, "", id, task), 0), uint32(index))
}

func itemKey(ns, key string) []byte { return join('i', ns, key) }

func join(table byte, parts ...string) []byte {
	n := 1
	for _, p := range parts {
		n += 1 + len(p)
	}
	b := append(make([]byte, 0, n+8), table)
	for _, p := range parts {
		b = append(append(b, 0), p...)
	}
	return b
}
