package peer

import (
	"context"
	"errors"

	"github.com/stele-go/stele/bench"
	"github.com/stele-go/stele/saver"
	"github.com/stele-go/stele/saver/disk"
	"github.com/stele-go/stele/store"
)

// steleStore is a stele store; items is nil if it was opened for checkpoints.
type steleStore struct {
	s     *disk.Saver
	items *store.Local
}

func steleMode(m Mode) disk.SyncMode {
	switch m {
	case Interval:
		return disk.SyncInterval
	case Relaxed:
		return disk.SyncNever
	default:
		return disk.SyncAlways
	}
}

func openStele(o Options) (Store, error) {
	s, err := disk.Open(o.Dir, disk.Options{Sync: steleMode(o.Mode), Replica: o.Replica})
	if err != nil {
		return nil, err
	}
	return &steleStore{s: s}, nil
}

func openSteleItems(o Options) (Store, error) {
	s, err := disk.Open(o.Dir, disk.Options{Sync: steleMode(o.Mode)})
	if err != nil {
		return nil, err
	}
	items, err := store.On(s, store.Options{})
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return &steleStore{s, items}, nil
}

// Put stores a checkpoint and its new values.
func (s *steleStore) Put(thread, parent string, st *bench.Step) error {
	_, err := s.s.Put(context.Background(), saver.Config{ThreadID: thread, CheckpointID: parent}, st.Checkpoint, st.Metadata, st.Changed)
	return err
}

// PutWrites stores a task's writes.
func (s *steleStore) PutWrites(thread, id, task string, writes []saver.Write) error {
	return s.s.PutWrites(context.Background(), saver.Config{ThreadID: thread, CheckpointID: id}, writes, task, "")
}

// Get reads the checkpoint with this id, or the newest, with its values and writes;
// ErrNotFound if there is none.
func (s *steleStore) Get(thread, id string) (*Tuple, error) {
	t, err := s.s.GetTuple(context.Background(), saver.Config{ThreadID: thread, CheckpointID: id})
	if errors.Is(err, saver.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return steleTuple(t, true)
}

// List hands over the newest checkpoints of a thread, newest first; limit 0 means all.
func (s *steleStore) List(thread string, limit int, values bool, each func(*Tuple) error) error {
	q := saver.Query{ThreadID: thread, Namespace: saver.InNamespace(""), Limit: limit}
	for t, err := range s.s.List(context.Background(), q) {
		if err != nil {
			return err
		}
		tuple, err := steleTuple(t, values)
		if err != nil {
			return err
		}
		if err := each(tuple); err != nil {
			return err
		}
	}
	return nil
}

// steleTuple takes the values as they are: Tuple.Raw and Tuple.Decode load them.
func steleTuple(t *saver.Tuple, values bool) (*Tuple, error) {
	out := &Tuple{ID: t.Checkpoint.ID, Metadata: t.Metadata, Values: map[string]saver.Value{},
		Record: func() Record { return RecordOf(&t.Checkpoint) }}
	if t.Parent != nil {
		out.Parent = t.Parent.CheckpointID
	}
	if !values {
		return out, nil
	}
	out.Values = t.Checkpoint.Values
	for _, w := range t.PendingWrites {
		out.Writes = append(out.Writes, Write{w.TaskID, w.Channel, w.Index, w.Value})
	}
	return out, nil
}

// PutItems stores items of a namespace in one commit.
func (s *steleStore) PutItems(ns string, items []Item) error {
	ops := make([]store.Op, len(items))
	for i, it := range items {
		ops[i] = store.PutOp{Namespace: store.Namespace{ns}, Key: it.Key, Value: it.Value}
	}
	_, err := s.items.Batch(context.Background(), ops...)
	return err
}

// GetItem returns the value of an item; ErrNotFound if there is none.
func (s *steleStore) GetItem(ns, key string) (map[string]any, error) {
	it, err := s.items.Get(context.Background(), store.Namespace{ns}, key)
	if errors.Is(err, store.ErrNotFound) {
		return nil, ErrNotFound
	}
	if err != nil {
		return nil, err
	}
	return it.Value, nil
}

// Search returns the keys of the ten newest items whose field is at least least.
func (s *steleStore) Search(ns, field string, least float64) ([]string, error) {
	found, err := s.items.Search(context.Background(), store.Query{Prefix: store.Namespace{ns},
		Filter: map[string]any{field: map[string]any{"$gte": least}}})
	keys := make([]string, len(found))
	for i, f := range found {
		keys[i] = f.Item.Key
	}
	return keys, err
}

// Flush moves what the log holds into segments.
func (s *steleStore) Flush() error { return s.s.Flush(context.Background()) }

// Compact flushes and merges all segments.
func (s *steleStore) Compact() error {
	if err := s.s.Flush(context.Background()); err != nil {
		return err
	}
	return s.s.Compact(context.Background())
}

// Syncs counts the syncs of log files.
func (s *steleStore) Syncs() (int64, bool) { return s.s.Metrics().Log.Syncs, true }

// Close closes the store, which the items share.
func (s *steleStore) Close() error {
	if s.items != nil {
		if err := s.items.Close(); err != nil {
			return errors.Join(err, s.s.Close())
		}
	}
	return s.s.Close()
}

// engineStore is a stele store whose writes are durable with the checkpoint put
// after them, as an engine that goes on from step to step saves them.
type engineStore struct{ *steleStore }

// OpenEngineStele opens a stele store as an engine on top of it uses it.
func OpenEngineStele(o Options) (Store, error) {
	s, err := disk.Open(o.Dir, disk.Options{Sync: steleMode(o.Mode)})
	if err != nil {
		return nil, err
	}
	return engineStore{&steleStore{s: s}}, nil
}

// PutWrites stores a task's writes; they become durable with the next checkpoint.
func (s engineStore) PutWrites(thread, id, task string, writes []saver.Write) error {
	return s.s.PutWrites(saver.DeferSync(context.Background()), saver.Config{ThreadID: thread, CheckpointID: id}, writes, task, "")
}
