package saver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/serde"
)

// packIndex writes the index of a write.
func packIndex(i int) string { return string(binary.AppendVarint(nil, int64(i))) }

func unpackIndex(s string) (int, error) {
	n, w := binary.Varint([]byte(s))
	if w != len(s) {
		return 0, errRecord
	}
	return int(n), nil
}

// valueReader reads the values of one family: the engine for one of them, or an
// engine.Reader for those of a listing.
type valueReader interface {
	Read(ctx context.Context, ref index.Ref) ([]byte, error)
}

// familyValues reads values one by one.
type familyValues struct {
	e   *engine.Engine
	fam *index.Family
}

func (f *familyValues) Read(ctx context.Context, ref index.Ref) ([]byte, error) {
	return f.e.ReadValue(ctx, f.fam, ref)
}

// storedRef reads one value when it is asked for.
type storedRef struct {
	from valueReader
	ref  index.Ref
}

// LoadValue implements Loader.
func (r *storedRef) LoadValue(ctx context.Context) (serde.Typed, error) {
	b, err := r.from.Read(ctx, r.ref)
	if errors.Is(err, engine.ErrNoValue) {
		return serde.Typed{}, fmt.Errorf("%w: %w", ErrNotFound, err)
	}
	if err != nil {
		return serde.Typed{}, err
	}
	t, err := splitTyped(b)
	if err == nil && t.Kind == kindLost {
		return serde.Typed{}, fmt.Errorf("%w: %w: %s", ErrLost, ErrCorrupt, t.Data)
	}
	return t, err
}

// tupleReader makes tuples out of the items of one thread.
type tupleReader struct {
	s    *Disk
	t    *index.Thread
	from valueReader
	seen *versionTexts
}

// one is a tupleReader for a single tuple.
func (s *Disk) one(t *index.Thread) *tupleReader {
	return &tupleReader{s: s, t: t, from: &familyValues{s.e, t.Family}}
}

// threadID is the id of the thread as the caller knows it.
func (r *tupleReader) threadID() string { return strings.TrimPrefix(r.t.ID, spaceThread) }

// lazy are values of the thread that are read when they are asked for. The slots
// that hold none are left zero.
func (r *tupleReader) lazy(slots []index.Slot) []Value {
	values, refs := make([]Value, len(slots)), make([]storedRef, len(slots))
	for i := range slots {
		if ref := slots[i].Ref; !ref.Empty() {
			refs[i] = storedRef{r.from, ref}
			values[i] = ValueLazy(&refs[i], r.s.codec)
		}
	}
	return values
}

// header is a checkpoint without its values and writes.
type header struct {
	cfg    Config
	rec    checkpointRecord
	md     Metadata
	parent string
}

// header reads the record of a checkpoint, and none of its values.
func (r *tupleReader) header(ctx context.Context, it *index.Item) (*header, error) {
	ns, id, ok := parseCheckpointKey(it.Key)
	if !ok || len(it.Slots) == 0 {
		return nil, fmt.Errorf("checkpoint item %q: %w", it.Key, ErrCorrupt)
	}
	h := &header{cfg: Config{ThreadID: r.threadID(), Namespace: ns, CheckpointID: id}, parent: it.Slots[0].Name}
	b, err := r.from.Read(ctx, it.Slots[0].Ref)
	if err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, err)
	}
	if err := h.rec.decode(b, r.seen); err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, asCorrupt(err))
	}
	if h.md, err = DecodeMetadata(h.rec.metadata, r.s.codec); err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", h.cfg.ThreadID, id, err)
	}
	return h, nil
}

// read is the tuple of a checkpoint.
func (r *tupleReader) read(ctx context.Context, it *index.Item) (*Tuple, error) {
	h, err := r.header(ctx, it)
	if err != nil {
		return nil, err
	}
	return r.tuple(h, it)
}

// tuple is the tuple of the checkpoint that h was read of. It reads no value.
func (r *tupleReader) tuple(h *header, it *index.Item) (*Tuple, error) {
	slots := channelSlots(it)
	tup := &Tuple{Config: h.cfg, Metadata: h.md, Checkpoint: Checkpoint{V: h.rec.v, ID: h.cfg.CheckpointID, TS: h.rec.ts,
		Seen: h.rec.seen, Updated: h.rec.updated,
		Values: make(map[string]Value, len(slots)), Versions: make(map[string]Version, len(slots))}}
	for i, v := range r.lazy(slots) {
		if !v.IsZero() {
			tup.Checkpoint.Values[slots[i].Name] = v
		}
		version, err := r.seen.unpack(slots[i].Tag)
		if err != nil {
			return nil, threadError(h.cfg.ThreadID, "version of channel "+slots[i].Name, asCorrupt(err))
		}
		tup.Checkpoint.Versions[slots[i].Name] = version
	}
	var err error
	if tup.PendingWrites, err = r.pendingWrites(h.cfg.Namespace, h.cfg.CheckpointID); err != nil || h.parent == "" {
		return tup, err
	}
	parent := h.cfg.At(h.parent)
	tup.Parent = &parent
	if h.rec.v < firstVersionWithTasks {
		sends, err := r.pendingWrites(h.cfg.Namespace, h.parent)
		if err != nil {
			return nil, err
		}
		next := func() (Version, error) { return r.s.NextVersion(Version{}, ChannelTasks) }
		if _, err := MigratePendingSends(&tup.Checkpoint, sends, next); err != nil {
			return nil, err
		}
	}
	return tup, nil
}

// pendingWrites are the writes against a checkpoint, resolved and in order; never
// nil.
func (r *tupleReader) pendingWrites(ns, id string) ([]PendingWrite, error) {
	writes := []PendingWrite{}
	var bad error
	r.t.Ascend(writesPrefix(ns, id), func(it *index.Item) bool {
		if len(it.Slots) == 0 {
			bad = errRecord
			return false
		}
		slots := it.Slots[1:]
		for i, v := range r.lazy(slots) {
			n, err := unpackIndex(slots[i].Tag)
			if err != nil {
				bad = err
				return false
			}
			writes = append(writes, PendingWrite{TaskID: it.Slots[0].Name, TaskPath: it.Slots[0].Tag,
				Channel: slots[i].Name, Index: n, Value: v})
		}
		return true
	})
	if bad != nil {
		return nil, threadError(r.threadID(), "writes of checkpoint "+id, asCorrupt(bad))
	}
	return ResolveWrites(writes), nil
}

// storedValues are the values a checkpoint has of some channels.
func (r *tupleReader) storedValues(it *index.Item, channels []string) map[string]Value {
	slots := channelSlots(it)
	out := map[string]Value{}
	for _, c := range channels {
		if slot := findSlot(slots, c); slot != nil && !slot.Ref.Empty() {
			out[c] = ValueLazy(&storedRef{r.from, slot.Ref}, r.s.codec)
		}
	}
	return out
}
