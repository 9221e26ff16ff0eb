package saver

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"

	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/internal/engine"
	"github.com/stele-go/stele/internal/metric"
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

// storedRef reads one value when it is asked for.
type storedRef struct {
	e   *engine.Engine
	fam *index.Family
	ref index.Ref
}

// LoadValue implements Loader.
func (r *storedRef) LoadValue(ctx context.Context) (serde.Typed, error) {
	b, err := r.e.ReadValue(ctx, r.fam, r.ref)
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

func (s *Disk) lazy(t *index.Thread, ref index.Ref) Value {
	return ValueLazy(&storedRef{e: s.e, fam: t.Family, ref: ref}, s.codec)
}

// lazyChannels are the values of a checkpoint's channels by name.
func (s *Disk) lazyChannels(t *index.Thread, it *index.Item) map[string]Value {
	values := make(map[string]Value, len(it.Slots))
	refs := make([]storedRef, len(it.Slots))
	for i := 1; i < len(it.Slots); i++ {
		slot := &it.Slots[i]
		if slot.Ref.Empty() {
			continue
		}
		refs[i] = storedRef{e: s.e, fam: t.Family, ref: slot.Ref}
		values[slot.Name] = ValueLazy(&refs[i], s.codec)
	}
	return values
}

// GetTuple implements Saver.
func (s *Disk) GetTuple(ctx context.Context, cfg Config) (*Tuple, error) {
	begin := metric.Now()
	tup, err := s.getTuple(ctx, cfg)
	s.m.loaded(begin, err)
	return tup, err
}

func (s *Disk) getTuple(ctx context.Context, cfg Config) (*Tuple, error) {
	if err := ValidateConfig(cfg); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, it, err := s.lookUp(cfg)
	for it != nil {
		tup, rerr := s.tuple(ctx, t, it, nil)
		if !errors.Is(rerr, engine.ErrNoValue) {
			return tup, rerr
		}
		// No view holds what is being read. If it was replaced or deleted and a
		// flush gave its bytes back, what is there now is the answer.
		was := it
		if t, it, err = s.lookUp(cfg); it == was {
			return nil, rerr
		}
	}
	if err != nil {
		return nil, err
	}
	return nil, notFound(cfg)
}

// lookUp finds the checkpoint cfg names, or the newest, as it is now; nil if there
// is none.
func (s *Disk) lookUp(cfg Config) (*index.Thread, *index.Item, error) {
	t, err := s.e.Thread(threadKey(cfg.ThreadID))
	if err != nil {
		return nil, nil, err
	}
	return t, findCheckpoint(t, cfg), nil
}

func notFound(cfg Config) error {
	return fmt.Errorf("thread %q namespace %q checkpoint %q: %w", cfg.ThreadID, cfg.Namespace, cfg.CheckpointID, ErrNotFound)
}

// findCheckpoint is the checkpoint cfg names, or the newest; nil if there is none.
func findCheckpoint(t *index.Thread, cfg Config) *index.Item {
	if t == nil {
		return nil
	}
	if cfg.CheckpointID == "" {
		return t.Last(checkpointPrefix(cfg.Namespace))
	}
	return t.Get(checkpointKey(cfg.Namespace, cfg.CheckpointID))
}

// header is a checkpoint without its values and writes.
type header struct {
	cfg    Config
	rec    *checkpointRecord
	md     Metadata
	parent string
}

func (s *Disk) header(ctx context.Context, t *index.Thread, it *index.Item) (*header, error) {
	ns, id, ok := parseCheckpointKey(it.Key)
	if !ok || len(it.Slots) == 0 {
		return nil, fmt.Errorf("checkpoint item %q: %w", it.Key, ErrCorrupt)
	}
	cfg := Config{ThreadID: strings.TrimPrefix(t.ID, spaceThread), Namespace: ns, CheckpointID: id}
	b, err := s.e.ReadValue(ctx, t.Family, it.Slots[0].Ref)
	if err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", cfg.ThreadID, id, err)
	}
	rec, err := decodeCheckpointRecord(b)
	if err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", cfg.ThreadID, id, asCorrupt(err))
	}
	md, err := DecodeMetadata(rec.metadata, s.codec)
	if err != nil {
		return nil, fmt.Errorf("thread %q checkpoint %q: %w", cfg.ThreadID, id, err)
	}
	return &header{cfg: cfg, rec: rec, md: md, parent: it.Slots[0].Name}, nil
}

// asCorrupt makes malformed content match ErrCorrupt; a newer format stays one.
func asCorrupt(err error) error {
	if errors.Is(err, ErrVersion) || errors.Is(err, ErrCorrupt) {
		return err
	}
	return fmt.Errorf("%w: %w", ErrCorrupt, err)
}

// tuple reads a checkpoint. h may be given if it was read already.
func (s *Disk) tuple(ctx context.Context, t *index.Thread, it *index.Item, h *header) (*Tuple, error) {
	if h == nil {
		var err error
		if h, err = s.header(ctx, t, it); err != nil {
			return nil, err
		}
	}
	cp := Checkpoint{V: h.rec.v, ID: h.cfg.CheckpointID, TS: h.rec.ts, Seen: h.rec.seen, Updated: h.rec.updated,
		Values: s.lazyChannels(t, it), Versions: make(map[string]Version, len(it.Slots))}
	for i := range it.Slots[1:] {
		slot := &it.Slots[i+1]
		v, err := unpackVersion(slot.Tag)
		if err != nil {
			return nil, threadError(h.cfg.ThreadID, "version of channel "+slot.Name, asCorrupt(err))
		}
		cp.Versions[slot.Name] = v
	}
	writes, err := s.pendingWrites(t, h.cfg.Namespace, h.cfg.CheckpointID)
	if err != nil {
		return nil, err
	}
	tup := &Tuple{Config: h.cfg, Checkpoint: cp, Metadata: h.md, PendingWrites: writes}
	if h.parent == "" {
		return tup, nil
	}
	parent := h.cfg.At(h.parent)
	tup.Parent = &parent
	if cp.V < firstVersionWithTasks {
		sends, err := s.pendingWrites(t, h.cfg.Namespace, h.parent)
		if err != nil {
			return nil, err
		}
		next := func() (Version, error) { return s.NextVersion(Version{}, ChannelTasks) }
		if _, err := MigratePendingSends(&tup.Checkpoint, sends, next); err != nil {
			return nil, err
		}
	}
	return tup, nil
}

// pendingWrites are the writes against a checkpoint, resolved and in order; never
// nil.
func (s *Disk) pendingWrites(t *index.Thread, ns, id string) ([]PendingWrite, error) {
	writes := []PendingWrite{}
	var bad error
	t.Ascend(writesPrefix(ns, id), func(it *index.Item) bool {
		if len(it.Slots) == 0 {
			bad = errRecord
			return false
		}
		for i := range it.Slots[1:] {
			slot := &it.Slots[i+1]
			n, err := unpackIndex(slot.Tag)
			if err != nil {
				bad = err
				return false
			}
			writes = append(writes, PendingWrite{TaskID: it.Slots[0].Name, TaskPath: it.Slots[0].Tag,
				Channel: slot.Name, Index: n, Value: s.lazy(t, slot.Ref)})
		}
		return true
	})
	if bad != nil {
		return nil, threadError(strings.TrimPrefix(t.ID, spaceThread), "writes of checkpoint "+id, asCorrupt(bad))
	}
	return ResolveWrites(writes), nil
}

// DeltaChannelHistory implements DeltaReader. It reads no value.
func (s *Disk) DeltaChannelHistory(ctx context.Context, cfg Config, channels []string) (map[string]DeltaHistory, error) {
	if err := ValidateConfig(cfg); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t, it, err := s.lookUp(cfg)
	if err != nil {
		return nil, err
	}
	walk := NewDeltaWalk(channels)
	if it == nil {
		return walk.Result(), nil
	}
	for seen := map[string]bool{it.Key: true}; !walk.Done(); {
		parent := it.Slots[0].Name
		if parent == "" {
			break
		}
		key := checkpointKey(cfg.Namespace, parent)
		if seen[key] {
			return nil, threadError(cfg.ThreadID, "checkpoint "+parent, ErrAncestorCycle)
		}
		seen[key] = true
		if it = t.Get(key); it == nil {
			break
		}
		writes, err := s.pendingWrites(t, cfg.Namespace, parent)
		if err != nil {
			return nil, err
		}
		walk.Visit(s.storedValues(t, it, channels), writes)
	}
	return walk.Result(), nil
}

// storedValues are the values a checkpoint has of some channels.
func (s *Disk) storedValues(t *index.Thread, it *index.Item, channels []string) map[string]Value {
	slots := channelSlots(it)
	out := map[string]Value{}
	for _, c := range channels {
		if slot := findSlot(slots, c); slot != nil && !slot.Ref.Empty() {
			out[c] = s.lazy(t, slot.Ref)
		}
	}
	return out
}
