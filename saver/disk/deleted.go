package disk

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/stele-go/stele/base/fault"
	"github.com/stele-go/stele/engine"
	"github.com/stele-go/stele/index"
	"github.com/stele-go/stele/saver/layout"
	"github.com/stele-go/stele/saver/rules"
)

// memoFormat is the first byte of the data remembered of a deleted thread; the greatest checkpoint id
// follows.
const memoFormat = 1

func encodeMemo(greatestID string) []byte { return append([]byte{memoFormat}, greatestID...) }

// decodeMemo reads what encodeMemo wrote; thread names it in errors.
func decodeMemo(thread string, m index.Tombstone) (rules.Deleted, error) {
	switch {
	case m.Data[0] == 0:
		return rules.Deleted{}, &fault.CorruptionError{File: "index", Kind: "memory of a deleted thread", Offset: -1,
			Detail: fmt.Sprintf("of thread %q: it has no format", thread)}
	case m.Data[0] > memoFormat:
		return rules.Deleted{}, &fault.VersionError{File: fmt.Sprintf("memory of deleted thread %q", thread), Have: uint32(m.Data[0]), Supported: memoFormat}
	}
	return rules.Deleted{GreatestID: string(m.Data[1:]), At: time.UnixMicro(m.At).UTC()}, nil
}

// deletedMemory returns the memory of a deleted or erased thread; ok is false if there is none, or it
// has expired. It is an error if it cannot be read, because a newer build wrote it: without it a late
// write could bring parts of the thread back.
func (s *Saver) deletedMemory(tx *engine.Tx, threadID string) (d rules.Deleted, ok bool, err error) {
	if !tx.RemembersAny() { // most stores: spare them the hashes
		return rules.Deleted{}, false, nil
	}
	for _, store := range s.origins {
		if m, found := tx.Tombstone(layout.ErasedThread(store, threadID)); found && len(m.Data) > 0 {
			d, err = decodeMemo(threadID, m)
			return d, err == nil, err
		}
	}
	m, found := tx.Tombstone(layout.ThreadKey(threadID))
	if !found || len(m.Data) == 0 {
		return rules.Deleted{}, false, nil
	}
	d, err = decodeMemo(threadID, m)
	return d, err == nil, err
}

// loadOrigins notes the numbers that erased threads are remembered under.
func (s *Saver) loadOrigins() error {
	s.origins = []uint64{s.e.StoreID()}
	t, err := s.e.Partition(layout.OriginPartition)
	if errors.Is(err, fault.ErrCorrupt) && s.opts.AllowDamage {
		return nil // the engine lists the damage
	}
	if err != nil || t == nil {
		return err
	}
	t.Ascend("", func(it *index.Entry) bool {
		if len(it.Key) == 8 {
			s.origins = append(s.origins, binary.BigEndian.Uint64([]byte(it.Key)))
		}
		return true
	})
	return nil
}

// adoptErasures makes a store that was salvaged from another remember the threads that
// were erased there. Call it before any other use of s. It is durable when it returns nil.
func (s *Saver) adoptErasures(ctx context.Context, from *Saver) error {
	if !from.e.Remembers(layout.SpaceErased) {
		return nil
	}
	key := string(binary.BigEndian.AppendUint64(nil, from.e.StoreID()))
	err := s.e.Commit(ctx, []string{layout.OriginPartition}, func(tx *engine.Tx) error { return tx.Put(layout.OriginPartition, key, 0, nil) })
	if err == nil {
		err = s.e.Sync(ctx)
	}
	if err != nil {
		return fmt.Errorf("adopt erasures: %w", err)
	}
	return s.loadOrigins()
}
