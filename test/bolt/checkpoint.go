package bolt

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/serde"
)

// checkpoint is a checkpoint as it is stored.
type checkpoint struct {
	V       int
	TS      string
	Updated []string
	// Known: Updated is not nil. gob does not tell a list without items from none.
	Known    bool
	Parent   string
	Metadata serde.Typed
	Note     *saver.Note
	Slots    map[string]slot // by channel: all that have a version
	Seen     map[string]map[string]version
}

// slot is the version of a channel, and what the checkpoint reads for it.
type slot struct {
	Version version
	// Number is when it was stored: that of the value, or, if the channel became empty, one
	// without a value. 0: there is nothing to read.
	Number uint64
	Empty  bool
	Size   int // of the value
}

// isFilled reports whether there is a value to read.
func (sl slot) isFilled() bool { return sl.Number > 0 && !sl.Empty }

// newCheckpoint has everything of a checkpoint but its slots.
func newCheckpoint(cp saver.Checkpoint) *checkpoint {
	out := &checkpoint{V: cp.V, TS: cp.TS, Updated: cp.Updated, Known: cp.Updated != nil, Slots: map[string]slot{}, Seen: map[string]map[string]version{}}
	for node, versions := range cp.Seen {
		out.Seen[node] = map[string]version{}
		for channel, v := range versions {
			out.Seen[node][channel] = version{v}
		}
	}
	return out
}

// checkpoint is cp without its values.
func (cp *checkpoint) checkpoint(id string) saver.Checkpoint {
	out := saver.Checkpoint{V: cp.V, ID: id, TS: cp.TS, Updated: cp.Updated,
		Values: map[string]saver.Value{}, Versions: map[string]saver.Version{}, Seen: map[string]map[string]saver.Version{}}
	if cp.Known && out.Updated == nil {
		out.Updated = []string{}
	}
	for channel, sl := range cp.Slots {
		out.Versions[channel] = sl.Version.Version
	}
	for node, versions := range cp.Seen {
		out.Seen[node] = map[string]saver.Version{}
		for channel, v := range versions {
			out.Seen[node][channel] = v.Version
		}
	}
	return out
}

// version is a saver.Version that gob can store: it has kinds that differ in more than their
// text, and a float has signs that gob would drop.
type version struct{ saver.Version }

// GobEncode is the kind and the text or bits.
func (v version) GobEncode() ([]byte, error) {
	kind := []byte{byte(v.Kind())}
	switch x := v.Any().(type) {
	case string:
		return append(kind, x...), nil
	case int64:
		return binary.BigEndian.AppendUint64(kind, uint64(x)), nil
	case float64:
		return binary.BigEndian.AppendUint64(kind, math.Float64bits(x)), nil
	}
	return kind, nil
}

// GobDecode reads what GobEncode made.
func (v *version) GobDecode(data []byte) error {
	if len(data) == 0 {
		return fmt.Errorf("version without a kind: %w", saver.ErrCorrupt)
	}
	kind, data := saver.VersionKind(data[0]), data[1:]
	isNumber := kind == saver.VersionInt || kind == saver.VersionFloat
	switch {
	case isNumber && len(data) != 8 || kind > saver.VersionFloat:
		return fmt.Errorf("version of kind %d and %d bytes: %w", kind, len(data), saver.ErrCorrupt)
	case kind == saver.VersionString:
		v.Version = saver.StringVersion(string(data))
	case kind == saver.VersionInt:
		v.Version = saver.IntVersion(int64(binary.BigEndian.Uint64(data)))
	case kind == saver.VersionFloat:
		v.Version = saver.FloatVersion(math.Float64frombits(binary.BigEndian.Uint64(data)))
	}
	return nil
}
